//! OTLP in JSON: an `ExportLogsServiceRequest`, walked where it lies.
//!
//! Keys are taken in camelCase and in snake_case, in any order; a list whose records need what may
//! stand behind it is gone over once to find its end, and walked when its object is complete. Of a
//! value whose key comes twice the last one counts; lists, resources and scopes are joined, so that no
//! record is lost. What no field is typed for is counted and costs that value only; only a body that is
//! not one JSON object, or whose lists are no lists, is refused.

mod fields;
mod scalar;
mod value;

use std::borrow::Cow;

use self::fields::{id, severity_number, stamp, unsigned};
use self::scalar::loose_text;
use self::value::text;
use super::damage::Damage;
use super::json::{Kind, Members, Reader};
use super::{DecodeError, Outcome};
use crate::normalize::{Attributes, Context, Draft, Emitter, ResourceDraft, ScopeDraft, Shared};
use crate::record::{Group, Sink};

/// Unknown keys that a warning names.
const MAX_UNKNOWN: usize = 3;

/// Reads an `ExportLogsServiceRequest` in JSON and hands its records to the sink.
///
/// # Errors
/// When the body is not one JSON object of this shape. Records before the damage are in the sink by
/// then; the caller takes them out again, so that a request is stored whole or not at all.
pub fn decode_json(
    body: &[u8],
    context: &Context,
    sink: &mut impl Sink,
) -> Result<Outcome, DecodeError> {
    let mut walk = Walk {
        emitter: Emitter::new(context, sink),
        outcome: Outcome::default(),
        num_records: 0,
        unknown: Vec::new(),
    };
    let mut reader = Reader::new(body);
    if reader.next_byte().is_none() {
        return Err(DecodeError::Empty);
    }
    walk.request(&mut reader)?;
    let mut outcome = walk.outcome;
    outcome.accepted = walk.emitter.accepted;
    outcome.repairs = walk.emitter.repairs;
    let nothing = walk.num_records == 0 && outcome.repairs.legacy_logs == 0;
    let warning = nothing.then(|| no_records(&walk.unknown)).flatten();
    outcome.explain(warning);
    Ok(outcome)
}

/// What to say of a request without records; `None` where it is a well-formed empty one.
fn no_records(unknown: &[String]) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let unknown = unknown.join(", ");
    Some(format!(
        "no log record found, so nothing was stored; unknown to OTLP logs: {unknown}; OTLP has \
         resourceLogs[].scopeLogs[].logRecords[], plain JSON belongs to /api/logs"
    ))
}

struct Walk<'s, S> {
    emitter: Emitter<'s, S>,
    outcome: Outcome,
    /// Records so far, rejected ones included.
    num_records: u32,
    /// Names of keys that the three lists do not have.
    unknown: Vec<String>,
}

impl<'s, S: Sink> Walk<'s, S> {
    /// The whole body.
    fn request(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let mut members = enter_object(reader)?;
        while let Some(key) = reader.next_key(&mut members, &mut self.emitter.repairs)? {
            match &*key {
                "resourceLogs" | "resource_logs" => {
                    each(reader, "resourceLogs", |reader| self.resource_logs(reader))?;
                }
                _ => self.unknown(reader, &key)?,
            }
        }
        reader.end()
    }

    fn unknown(&mut self, reader: &mut Reader<'_>, key: &str) -> Result<(), Damage> {
        if self.unknown.len() < MAX_UNKNOWN {
            self.unknown.push(key.chars().take(40).collect());
        }
        reader.pass()
    }

    fn resource_logs(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        if reader.null()? {
            return Ok(());
        }
        let mut draft = ResourceDraft::default();
        let mut resources = Vec::new();
        let mut scope_logs = Vec::new();
        let mut members = enter_object(reader)?;
        while let Some(key) = reader.next_key(&mut members, &mut self.emitter.repairs)? {
            match &*key {
                "resource" => resources.push(reader.skip()?),
                "scopeLogs" | "scope_logs" => scope_logs.push(reader.skip()?),
                "schemaUrl" | "schema_url" => {
                    draft.schema_url = self.text(reader)?;
                }
                "instrumentationLibraryLogs" | "instrumentation_library_logs" => {
                    self.emitter.repairs.legacy_logs += 1;
                    reader.pass()?;
                }
                _ => self.unknown(reader, &key)?,
            }
        }
        for range in resources {
            let mut reader = reader.within(range);
            self.resource(&mut reader, &mut draft)
                .map_err(|error| error.within("resource"))?;
        }
        // Handed from scope to scope: a copy for each would cost the square of a body of many scopes.
        let mut group = Some(draft.into_group(self.emitter.context, &mut self.emitter.repairs));
        for range in scope_logs {
            each(&mut reader.within(range), "scopeLogs", |reader| {
                if let Some(shared) = group.take() {
                    group = Some(self.scope_logs(reader, shared)?);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn resource<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        draft: &mut ResourceDraft<'a>,
    ) -> Result<(), Damage> {
        if reader.null()? {
            return Ok(());
        }
        let mut members = enter_object(reader)?;
        while let Some(key) = reader.next_key(&mut members, &mut self.emitter.repairs)? {
            match &*key {
                "attributes" => self.attributes(reader, &mut draft.attributes)?,
                "droppedAttributesCount" | "dropped_attributes_count" => {
                    draft.dropped_attributes = unsigned(reader, &mut self.emitter.repairs)?;
                }
                _ => reader.pass()?,
            }
        }
        Ok(())
    }

    /// Takes the records of a scope, and gives back what they share with those of the next.
    fn scope_logs<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        group: Group<'a>,
    ) -> Result<Group<'a>, Damage> {
        if reader.null()? {
            return Ok(group);
        }
        let mut draft = ScopeDraft::default();
        let mut scopes = Vec::new();
        let mut log_records = Vec::new();
        let mut members = enter_object(reader)?;
        while let Some(key) = reader.next_key(&mut members, &mut self.emitter.repairs)? {
            match &*key {
                "scope" => scopes.push(reader.skip()?),
                "logRecords" | "log_records" => log_records.push(reader.skip()?),
                "schemaUrl" | "schema_url" => draft.schema_url = self.text(reader)?,
                _ => self.unknown(reader, &key)?,
            }
        }
        for range in scopes {
            let mut reader = reader.within(range);
            self.scope(&mut reader, &mut draft)
                .map_err(|error| error.within("scope"))?;
        }
        let shared = Shared::new(group, draft, &mut self.emitter.repairs);
        self.emitter.regroup();
        for range in log_records {
            self.log_records(reader.within(range), &shared)?;
        }
        Ok(shared.into_group())
    }

    fn scope<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        draft: &mut ScopeDraft<'a>,
    ) -> Result<(), Damage> {
        if reader.null()? {
            return Ok(());
        }
        let mut members = enter_object(reader)?;
        while let Some(key) = reader.next_key(&mut members, &mut self.emitter.repairs)? {
            match &*key {
                "name" => draft.name = self.text(reader)?,
                "version" => draft.version = self.text(reader)?,
                "attributes" => self.attributes(reader, &mut draft.attributes)?,
                "droppedAttributesCount" | "dropped_attributes_count" => {
                    draft.dropped_attributes = unsigned(reader, &mut self.emitter.repairs)?;
                }
                _ => reader.pass()?,
            }
        }
        Ok(())
    }

    fn log_records<'a>(
        &mut self,
        mut reader: Reader<'a>,
        shared: &'a Shared<'a>,
    ) -> Result<(), Damage> {
        let mut attributes = Attributes::with_scope();
        each(&mut reader, "logRecords", |reader| {
            if reader.null()? {
                return Ok(());
            }
            let index = self.num_records;
            self.num_records = index.saturating_add(1);
            if reader.kind()? != Kind::Object {
                reader.pass()?;
                self.outcome
                    .reject(index, || "a log record must be a JSON object".to_owned());
                return Ok(());
            }
            let draft = self.log_record(reader, &mut attributes)?;
            attributes.inherit(shared.scope());
            Ok(self.emitter.emit(draft, &mut attributes, shared)?)
        })
    }

    fn log_record<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        attributes: &mut Attributes<'a>,
    ) -> Result<Draft<'a>, Damage> {
        let mut draft = Draft::default();
        let mut members = reader.enter();
        while let Some(key) = reader.next_key(&mut members, &mut self.emitter.repairs)? {
            match &*key {
                "timeUnixNano" | "time_unix_nano" => {
                    draft.time = stamp(reader, &mut self.emitter.repairs)?
                }
                "observedTimeUnixNano" | "observed_time_unix_nano" => {
                    draft.observed = stamp(reader, &mut self.emitter.repairs)?;
                }
                "severityNumber" | "severity_number" => {
                    match severity_number(reader, &mut self.emitter.repairs)? {
                        Ok(number) => draft.severity_number = number,
                        Err(odd) => draft.odd_severity_number = odd,
                    }
                }
                "severityText" | "severity_text" => draft.severity_text = self.text(reader)?,
                "body" => {
                    let limit = self.emitter.context.limits.message;
                    draft.body = text(reader, limit, &mut self.emitter.repairs)
                        .map_err(|error| error.within("body"))?;
                }
                "attributes" => self.attributes(reader, attributes)?,
                "droppedAttributesCount" | "dropped_attributes_count" => {
                    draft.dropped_attributes = unsigned(reader, &mut self.emitter.repairs)?;
                }
                "flags" => draft.flags = unsigned(reader, &mut self.emitter.repairs)?,
                "traceId" | "trace_id" => {
                    let (id, odd) = id(reader, &mut self.emitter.repairs)?;
                    draft.set_trace_id(id, odd, &mut self.emitter.repairs);
                }
                "spanId" | "span_id" => {
                    let (id, odd) = id(reader, &mut self.emitter.repairs)?;
                    draft.set_span_id(id, odd, &mut self.emitter.repairs);
                }
                "eventName" | "event_name" => draft.event_name = self.text(reader)?,
                _ => reader.pass()?,
            }
        }
        Ok(draft)
    }

    fn attributes<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        attributes: &mut Attributes<'a>,
    ) -> Result<(), Damage> {
        let limits = &self.emitter.context.limits;
        let repairs = &mut self.emitter.repairs;
        each(reader, "attributes", |reader| {
            if reader.kind()? != Kind::Object {
                repairs.odd_values += 1;
                return reader.pass();
            }
            let (mut name, mut value) = (Cow::Borrowed(""), None);
            let mut members = reader.enter();
            while let Some(key) = reader.next_key(&mut members, repairs)? {
                match &*key {
                    "key" => name = loose_text(reader, repairs)?.unwrap_or_default(),
                    "value" => value = text(reader, limits.value, repairs)?,
                    "keyStrindex" | "key_strindex" => {
                        repairs.string_table_refs += 1;
                        reader.pass()?;
                    }
                    _ => reader.pass()?,
                }
            }
            attributes.insert(name, value.unwrap_or_default(), limits, repairs);
            Ok(())
        })
    }

    fn text<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Cow<'a, str>, Damage> {
        Ok(loose_text(reader, &mut self.emitter.repairs)?.unwrap_or_default())
    }
}

/// Enters an object, or says that there should be one.
fn enter_object(reader: &mut Reader<'_>) -> Result<Members, Damage> {
    match reader.kind()? {
        Kind::Object => Ok(reader.enter()),
        _ => Err(Damage::new("it must be a JSON object", reader.offset())),
    }
}

/// Goes through an array; null is an empty one.
fn each<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
    mut member: impl FnMut(&mut Reader<'a>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    match reader.kind()? {
        Kind::Array => {}
        Kind::Null => return reader.literal(),
        _ => return Err(Damage::new("it must be an array", reader.offset()).within(field)),
    }
    let mut members = reader.enter();
    let mut index = 0;
    while reader
        .next_element(&mut members)
        .map_err(|error| error.within(field))?
    {
        member(reader).map_err(|error| error.within_member(field, index))?;
        index += 1;
    }
    Ok(())
}
