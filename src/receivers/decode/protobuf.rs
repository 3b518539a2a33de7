//! OTLP in protobuf: an `ExportLogsServiceRequest`, walked where it lies.
//!
//! There are no message structs and plain strings are not copied. Within a message fields may come
//! in any order, so a message whose parts depend on one another (a resource and its records) is
//! passed over twice; that costs little, as a pass over a message jumps over its fields.

use super::any_value::{AnyValue, key_value};
use super::damage::Damage;
use super::wire::{Field, Wire};
use super::{DecodeError, Outcome};
use crate::normalize::text::utf8;
use crate::normalize::{
    Attributes, Context, Draft, Emitter, Id, Repairs, ResourceDraft, ScopeDraft, Shared, Stamp,
};
use crate::record::{Group, Sink};

/// The number that lists of logs had in `ResourceLogs` before 2022.
const LEGACY_LOGS: u32 = 1000;

const NOT_LOGS: &str = "the request has fields but no resource_logs, so no log was stored; is it an ExportLogsServiceRequest?";

/// Reads an `ExportLogsServiceRequest` and hands its records to the sink.
///
/// # Errors
/// When the bytes are no such message. Records before the damage are in the sink by then; the caller
/// takes them out again, so that a request is stored whole or not at all.
pub fn decode_protobuf(
    body: &[u8],
    context: &Context,
    sink: &mut impl Sink,
) -> Result<Outcome, DecodeError> {
    let mut emitter = Emitter::new(context, sink);
    let mut request = Wire::new(body);
    let mut num_resources = 0;
    let mut num_unknown = 0u32;
    while let Some(field) = request.next()? {
        if field.number == 1 {
            resource_logs(field.message("resource_logs")?, &mut emitter)
                .map_err(|error| error.within_member("resource_logs", num_resources))?;
            num_resources += 1;
        } else {
            num_unknown = num_unknown.saturating_add(1);
        }
    }
    let mut outcome = Outcome {
        accepted: emitter.accepted,
        repairs: emitter.repairs,
        ..Outcome::default()
    };
    let nothing_known = num_unknown > 0 && num_resources == 0;
    outcome.explain(nothing_known.then(|| NOT_LOGS.to_owned()));
    Ok(outcome)
}

fn resource_logs<S: Sink>(wire: Wire<'_>, emitter: &mut Emitter<'_, S>) -> Result<(), Damage> {
    let mut draft = ResourceDraft::default();
    let mut fields = wire;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => resource(field.message("resource")?, &mut draft, emitter)
                .map_err(|error| error.within("resource"))?,
            3 => draft.schema_url = utf8(field.bytes("schema_url")?, &mut emitter.repairs),
            LEGACY_LOGS => emitter.repairs.legacy_logs += 1,
            _ => {}
        }
    }
    let group = draft.into_group(emitter.context, &mut emitter.repairs);
    let mut fields = wire;
    let mut num_scopes = 0;
    while let Some(field) = fields.next()? {
        if field.number == 2 {
            scope_logs(field.message("scope_logs")?, group.clone(), emitter)
                .map_err(|error| error.within_member("scope_logs", num_scopes))?;
            num_scopes += 1;
        }
    }
    Ok(())
}

fn resource<'a, S>(
    mut wire: Wire<'a>,
    draft: &mut ResourceDraft<'a>,
    emitter: &mut Emitter<'_, S>,
) -> Result<(), Damage> {
    while let Some(field) = wire.next()? {
        match field.number {
            1 => attribute(
                &field,
                &mut draft.attributes,
                emitter.context,
                &mut emitter.repairs,
            )?,
            2 => draft.dropped_attributes = count(&field)?,
            _ => {}
        }
    }
    Ok(())
}

fn scope_logs<'a, S: Sink>(
    wire: Wire<'a>,
    group: Group<'a>,
    emitter: &mut Emitter<'_, S>,
) -> Result<(), Damage> {
    let mut draft = ScopeDraft::default();
    let mut fields = wire;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => scope(field.message("scope")?, &mut draft, emitter)
                .map_err(|error| error.within("scope"))?,
            3 => draft.schema_url = utf8(field.bytes("schema_url")?, &mut emitter.repairs),
            _ => {}
        }
    }
    let shared = Shared::new(group, draft, &mut emitter.repairs);
    emitter.regroup();
    let mut attributes = Attributes::default();
    let mut fields = wire;
    let mut num_records = 0;
    while let Some(field) = fields.next()? {
        if field.number == 2 {
            let record = field.message("log_records")?;
            log_record(
                record,
                &mut attributes,
                emitter.context,
                &mut emitter.repairs,
            )
            .and_then(|draft| {
                attributes.inherit(shared.scope(), &emitter.context.limits);
                Ok(emitter.emit(draft, &mut attributes, &shared)?)
            })
            .map_err(|error| error.within_member("log_records", num_records))?;
            num_records += 1;
        }
    }
    Ok(())
}

fn scope<'a, S>(
    mut wire: Wire<'a>,
    draft: &mut ScopeDraft<'a>,
    emitter: &mut Emitter<'_, S>,
) -> Result<(), Damage> {
    while let Some(field) = wire.next()? {
        match field.number {
            1 => draft.name = utf8(field.bytes("name")?, &mut emitter.repairs),
            2 => draft.version = utf8(field.bytes("version")?, &mut emitter.repairs),
            3 => attribute(
                &field,
                &mut draft.attributes,
                emitter.context,
                &mut emitter.repairs,
            )?,
            4 => draft.dropped_attributes = count(&field)?,
            _ => {}
        }
    }
    Ok(())
}

fn log_record<'a>(
    mut wire: Wire<'a>,
    attributes: &mut Attributes<'a>,
    context: &Context,
    repairs: &mut Repairs,
) -> Result<Draft<'a>, Damage> {
    let mut draft = Draft::default();
    while let Some(field) = wire.next()? {
        match field.number {
            1 => draft.time = Stamp::from_otlp(field.fixed64("time_unix_nano")?),
            2 => draft.severity_number = severity_number(&field)?,
            3 => draft.severity_text = utf8(field.bytes("severity_text")?, repairs),
            5 => {
                draft.body = AnyValue::read(field.message("body")?, repairs)
                    .and_then(|value| value.text(context.limits.message, repairs))
                    .map_err(|error| error.within("body"))?;
            }
            6 => attribute(&field, attributes, context, repairs)?,
            7 => draft.dropped_attributes = count(&field)?,
            8 => draft.flags = field.fixed32("flags")?,
            9 => draft.set_trace_id(Id::from_bytes(field.bytes("trace_id")?), repairs),
            10 => draft.set_span_id(Id::from_bytes(field.bytes("span_id")?), repairs),
            11 => draft.observed = Stamp::from_otlp(field.fixed64("observed_time_unix_nano")?),
            12 => draft.event_name = utf8(field.bytes("event_name")?, repairs),
            _ => {}
        }
    }
    Ok(draft)
}

#[inline]
fn attribute<'a>(
    field: &Field<'a>,
    attributes: &mut Attributes<'a>,
    context: &Context,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let limits = &context.limits;
    let (key, value) = field
        .message("attributes")
        .and_then(|wire| key_value(wire, repairs))
        .and_then(|(key, value)| Ok((key, value.text(limits.value, repairs)?)))
        .map_err(|error| error.within("attributes"))?;
    attributes.insert(key, value.unwrap_or_default(), limits, repairs);
    Ok(())
}

/// Enums and 32-bit numbers travel as 64 bits, of which only the lower half counts.
fn severity_number(field: &Field<'_>) -> Result<i64, Damage> {
    let number = field.varint("severity_number")?.cast_signed();
    Ok(i64::from(number as i32))
}

fn count(field: &Field<'_>) -> Result<u32, Damage> {
    Ok(field.varint("dropped_attributes_count")? as u32)
}
