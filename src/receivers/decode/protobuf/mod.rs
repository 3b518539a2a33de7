//! OTLP in protobuf: an `ExportLogsServiceRequest`, walked where it lies.
//!
//! There are no message structs and plain strings are not copied. Within a message fields may come
//! in any order, so a message whose parts depend on one another (a resource and its records) is
//! passed over twice; that costs little, as a pass over a message jumps over its fields.

mod any_value;
mod wire;

use self::any_value::{AnyValue, key_value};
use self::wire::{Key, Wire};
use super::damage::Damage;
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
    while !request.is_empty() {
        let key = request.key()?;
        if key.number() == 1 {
            resource_logs(request.message(key, "resource_logs")?, &mut emitter)
                .map_err(|error| error.within_member("resource_logs", num_resources))?;
            num_resources += 1;
        } else {
            request.skip(key)?;
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
    while !fields.is_empty() {
        let key = fields.key()?;
        match key.number() {
            1 => resource(fields.message(key, "resource")?, &mut draft, emitter)
                .map_err(|error| error.within("resource"))?,
            3 => draft.schema_url = utf8(fields.bytes(key, "schema_url")?, &mut emitter.repairs),
            LEGACY_LOGS => {
                fields.skip(key)?;
                emitter.repairs.legacy_logs += 1;
            }
            _ => fields.skip(key)?,
        }
    }
    let mut group = draft.into_group(emitter.context, &mut emitter.repairs);
    let mut fields = wire;
    let mut num_scopes = 0;
    while !fields.is_empty() {
        let key = fields.key()?;
        if key.number() == 2 {
            group = scope_logs(fields.message(key, "scope_logs")?, group, emitter)
                .map_err(|error| error.within_member("scope_logs", num_scopes))?;
            num_scopes += 1;
        } else {
            fields.skip(key)?;
        }
    }
    Ok(())
}

fn resource<'a, S>(
    mut wire: Wire<'a>,
    draft: &mut ResourceDraft<'a>,
    emitter: &mut Emitter<'_, S>,
) -> Result<(), Damage> {
    while !wire.is_empty() {
        let key = wire.key()?;
        match key.number() {
            1 => attribute(
                &mut wire,
                key,
                &mut draft.attributes,
                emitter.context,
                &mut emitter.repairs,
            )?,
            2 => draft.dropped_attributes = count(&mut wire, key)?,
            _ => wire.skip(key)?,
        }
    }
    Ok(())
}

/// Takes the records of a scope, and gives back what they share with those of the next.
fn scope_logs<'a, S: Sink>(
    wire: Wire<'a>,
    group: Group<'a>,
    emitter: &mut Emitter<'_, S>,
) -> Result<Group<'a>, Damage> {
    let mut draft = ScopeDraft::default();
    let mut fields = wire;
    while !fields.is_empty() {
        let key = fields.key()?;
        match key.number() {
            1 => scope(fields.message(key, "scope")?, &mut draft, emitter)
                .map_err(|error| error.within("scope"))?,
            3 => draft.schema_url = utf8(fields.bytes(key, "schema_url")?, &mut emitter.repairs),
            _ => fields.skip(key)?,
        }
    }
    let shared = Shared::new(group, draft, &mut emitter.repairs);
    emitter.regroup();
    let mut attributes = Attributes::with_scope();
    let mut fields = wire;
    let mut num_records = 0;
    while !fields.is_empty() {
        let key = fields.key()?;
        if key.number() == 2 {
            let record = fields.message(key, "log_records")?;
            log_record(
                record,
                &mut attributes,
                emitter.context,
                &mut emitter.repairs,
            )
            .and_then(|draft| {
                attributes.inherit(shared.scope());
                Ok(emitter.emit(draft, &mut attributes, &shared)?)
            })
            .map_err(|error| error.within_member("log_records", num_records))?;
            num_records += 1;
        } else {
            fields.skip(key)?;
        }
    }
    drop(attributes);
    Ok(shared.into_group())
}

fn scope<'a, S>(
    mut wire: Wire<'a>,
    draft: &mut ScopeDraft<'a>,
    emitter: &mut Emitter<'_, S>,
) -> Result<(), Damage> {
    while !wire.is_empty() {
        let key = wire.key()?;
        match key.number() {
            1 => draft.name = utf8(wire.bytes(key, "name")?, &mut emitter.repairs),
            2 => draft.version = utf8(wire.bytes(key, "version")?, &mut emitter.repairs),
            3 => attribute(
                &mut wire,
                key,
                &mut draft.attributes,
                emitter.context,
                &mut emitter.repairs,
            )?,
            4 => draft.dropped_attributes = count(&mut wire, key)?,
            _ => wire.skip(key)?,
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
    while !wire.is_empty() {
        let key = wire.key()?;
        match key.number() {
            1 => draft.time = Stamp::from_otlp(wire.fixed64(key, "time_unix_nano")?),
            2 => draft.severity_number = severity_number(&mut wire, key)?,
            3 => draft.severity_text = utf8(wire.bytes(key, "severity_text")?, repairs),
            5 => {
                let body = AnyValue::read(wire.message(key, "body")?, repairs)
                    .and_then(|value| value.text(context.limits.message, repairs))
                    .map_err(|error| error.within("body"))?;
                // A message that comes again adds to itself; one without a member adds nothing.
                draft.body = body.or(draft.body);
            }
            6 => attribute(&mut wire, key, attributes, context, repairs)?,
            7 => draft.dropped_attributes = count(&mut wire, key)?,
            8 => draft.flags = wire.fixed32(key, "flags")?,
            9 => {
                let sent = wire.bytes(key, "trace_id")?;
                let id = Id::from_bytes(sent);
                draft.set_trace_id(id, id.odd_bytes(sent), repairs);
            }
            10 => {
                let sent = wire.bytes(key, "span_id")?;
                let id = Id::from_bytes(sent);
                draft.set_span_id(id, id.odd_bytes(sent), repairs);
            }
            11 => draft.observed = Stamp::from_otlp(wire.fixed64(key, "observed_time_unix_nano")?),
            12 => draft.event_name = utf8(wire.bytes(key, "event_name")?, repairs),
            _ => wire.skip(key)?,
        }
    }
    Ok(draft)
}

#[inline(never)]
fn attribute<'a>(
    wire: &mut Wire<'a>,
    key: Key,
    attributes: &mut Attributes<'a>,
    context: &Context,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let limits = &context.limits;
    let (name, value) = wire
        .message(key, "attributes")
        .and_then(|wire| key_value(wire, repairs))
        .map_err(|error| error.within("attributes"))?;
    let again = attributes.again(name);
    let value = match (value, again) {
        (AnyValue::String(bytes), Some((_, known))) if bytes == known.as_bytes() => known.into(),
        (value, _) => value
            .text(limits.value, repairs)
            .map_err(|error| error.within("attributes"))?
            .unwrap_or_default(),
    };
    match again {
        Some((name, _)) => attributes.insert_again(name, value, limits),
        None => attributes.insert(utf8(name, repairs), value, limits, repairs),
    }
    Ok(())
}

/// Enums and 32-bit numbers travel as 64 bits, of which only the lower half counts.
fn severity_number(wire: &mut Wire<'_>, key: Key) -> Result<i64, Damage> {
    let number = wire.varint(key, "severity_number")?.cast_signed();
    Ok(i64::from(number as i32))
}

fn count(wire: &mut Wire<'_>, key: Key) -> Result<u32, Damage> {
    Ok(wire.varint(key, "dropped_attributes_count")? as u32)
}
