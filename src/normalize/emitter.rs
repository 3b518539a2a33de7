//! The last step: drafts to records, and records to the sink.

use std::borrow::Cow;

use super::attributes::SCOPE_PREFIX;
use super::text::cut;
use super::time::row_time;
use super::{Attributes, Context, Draft, MAX_NAME_BYTES, Repairs, level_of_number, level_of_text};
use crate::record::{Group, KeyValue, NoRoom, Record, Sink};

/// Bytes that a row costs beside its texts.
const ROW_BYTES: usize = 64;

/// Bytes that an attribute costs beside its texts: an index of up to four bytes in place of its key, and
/// the length of its value or another such index. The value's place in a block that is read is 16 more.
const ENTRY_BYTES: usize = 8;

/// Steps in bytes in which memory is asked for; what is within the first was taken with the body.
const HOLD_STEP: usize = 64 << 10;

/// Why the records of a request cannot be taken although each could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expands {
    /// They would take more than `Limits::expanded` together: the limit in bytes.
    Limit(usize),
    /// There is no memory for them now.
    NoRoom(NoRoom),
}

/// The instrumentation scope as its sender wrote it.
#[derive(Debug, Default)]
pub(crate) struct ScopeDraft<'a> {
    /// Its name; the logger's.
    pub(crate) name: Cow<'a, str>,
    /// Its version.
    pub(crate) version: Cow<'a, str>,
    /// Its attributes.
    pub(crate) attributes: Attributes<'a>,
    /// Attributes that the sender says it dropped.
    pub(crate) dropped_attributes: u32,
    /// The schema of the records' names.
    pub(crate) schema_url: Cow<'a, str>,
}

/// What the records of one scope share.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    group: Group<'a>,
    scope: Vec<KeyValue<'a>>,
}

impl<'a> Shared<'a> {
    /// A resource and a scope.
    pub(crate) fn new(mut group: Group<'a>, scope: ScopeDraft<'a>, repairs: &mut Repairs) -> Self {
        let mut attributes = scope.attributes;
        group.scope_name = scope.name;
        group.scope_version = scope.version;
        cut_name("scope name", &mut group.scope_name, &mut attributes);
        cut_name("scope version", &mut group.scope_version, &mut attributes);
        if scope.dropped_attributes > 0 {
            let count = scope.dropped_attributes.to_string();
            attributes.mark("dropped_attributes_count", count);
        }
        if !scope.schema_url.is_empty() {
            attributes.mark("schema_url", scope.schema_url);
        }
        attributes.mark_cuts(repairs);
        let scope = attributes.take();
        let prefixed = |(key, value): KeyValue<'a>| {
            let key = Cow::Owned([SCOPE_PREFIX, key.as_ref()].concat());
            (key, value)
        };
        Self {
            group,
            scope: scope.into_iter().map(prefixed).collect(),
        }
    }

    /// What is shared but for the scope's attributes.
    pub(crate) fn group(&self) -> &Group<'a> {
        &self.group
    }

    /// What is shared, for the next scope of the resource.
    pub(crate) fn into_group(self) -> Group<'a> {
        self.group
    }

    /// The scope's attributes, prefixed, for the records to inherit.
    pub(crate) fn scope(&self) -> &[KeyValue<'a>] {
        &self.scope
    }
}

/// Makes records out of drafts and hands them to a sink.
#[derive(Debug)]
pub(crate) struct Emitter<'s, S> {
    /// What the request's records need.
    pub(crate) context: &'s Context,
    /// What had to be mended so far.
    pub(crate) repairs: Repairs,
    /// Records the sink took.
    pub(crate) accepted: u32,
    sink: &'s mut S,
    /// Whether the sink knows what the records now share.
    announced: bool,
    /// Bytes that each record of the group repeats; the resource's texts are in the frame once. Counted at its first record: a body may have
    /// millions of scopes without any.
    shared_bytes: usize,
    expanded: usize,
    /// Bytes that the sink made sure of.
    held: usize,
}

impl<'s, S: Sink> Emitter<'s, S> {
    /// An emitter that took nothing yet.
    pub(crate) fn new(context: &'s Context, sink: &'s mut S) -> Self {
        let repairs = Repairs::default();
        Self {
            context,
            repairs,
            accepted: 0,
            sink,
            announced: false,
            shared_bytes: 0,
            expanded: 0,
            held: HOLD_STEP,
        }
    }

    /// Says that the next record shares something else than the one before it.
    pub(crate) fn regroup(&mut self) {
        self.announced = false;
    }

    /// Makes a record out of a draft and hands it on. The attributes, which the scope's were merged
    /// into ([`Shared::scope`]), are empty afterwards, for the next record; `shared` is always the
    /// same one until [`Emitter::regroup`].
    pub(crate) fn emit<'a>(
        &mut self,
        draft: Draft<'a>,
        attributes: &mut Attributes<'a>,
        shared: &Shared<'_>,
    ) -> Result<(), Expands> {
        let mut record = self.record(draft, attributes);
        if !self.announced {
            let group = &shared.group;
            self.shared_bytes = ROW_BYTES + ENTRY_BYTES * group.resource.len();
            let once = name_bytes(group) + list_bytes(&group.resource);
            self.expanded = self.expanded.saturating_add(once);
        }
        self.expanded = self.expanded.saturating_add(
            self.shared_bytes
                + record.message.len()
                + record.severity_text.len()
                + record.event_name.len()
                + list_bytes(attributes.as_slice()),
        );
        if self.expanded > self.context.limits.expanded {
            return Err(Expands::Limit(self.context.limits.expanded));
        }
        if self.expanded > self.held {
            self.hold()?;
        }
        if !self.announced {
            self.sink.group(&shared.group);
            self.announced = true;
        }
        record.attributes = attributes.take();
        self.sink.push(&record);
        self.accepted = self.accepted.saturating_add(1);
        attributes.reuse(record.attributes);
        Ok(())
    }

    #[cold]
    fn hold(&mut self) -> Result<(), Expands> {
        self.sink.hold(self.expanded).map_err(Expands::NoRoom)?;
        self.held = self.expanded.saturating_add(HOLD_STEP);
        Ok(())
    }

    /// The record, all but its attributes, which are completed where they are.
    fn record<'a>(&mut self, mut draft: Draft<'a>, attributes: &mut Attributes<'a>) -> Record<'a> {
        let limits = &self.context.limits;
        let repairs = &mut self.repairs;
        let mut message = match draft.body {
            Some(body) if !body.is_empty() => body,
            _ => message_without_body(&draft.event_name, attributes),
        };
        if draft.dropped_attributes > 0 {
            attributes.mark(
                "otel.dropped_attributes_count",
                draft.dropped_attributes.to_string(),
            );
        }
        if !draft.odd_trace_id.is_empty() {
            attributes.mark("watchtower.original_trace_id", draft.odd_trace_id);
        }
        if !draft.odd_span_id.is_empty() {
            attributes.mark("watchtower.original_span_id", draft.odd_span_id);
        }
        if !draft.odd_severity_number.is_empty() {
            attributes.mark(
                "watchtower.original_severity_number",
                draft.odd_severity_number,
            );
        }
        let by_number = level_of_number(draft.severity_number);
        let severity_number = match by_number {
            Some(_) => u8::try_from(draft.severity_number).unwrap_or_default(),
            None => 0,
        };
        if by_number.is_none() && draft.severity_number != 0 {
            let number = draft.severity_number.to_string();
            attributes.mark("watchtower.original_severity_number", number);
        }
        let level =
            by_number.unwrap_or_else(|| level_of_text(&draft.severity_text, self.context.digits));
        let time = row_time(draft.time, draft.observed, self.context);
        if let Some(source) = time.source {
            attributes.mark("watchtower.timestamp_source", source);
        }
        if let Some(original) = time.original {
            repairs.replaced_timestamps += 1;
            attributes.mark("watchtower.original_timestamp", original);
        }
        let message_bytes = message.len();
        if cut(&mut message, limits.message) {
            attributes.note("message", message_bytes);
        }
        cut_name("severity text", &mut draft.severity_text, attributes);
        cut_name("event name", &mut draft.event_name, attributes);
        attributes.mark_cuts(repairs);
        Record {
            timestamp: time.timestamp,
            level,
            severity_number,
            severity_text: draft.severity_text,
            message,
            trace_id: draft.trace_id,
            span_id: draft.span_id,
            // The upper 24 bits are reserved: whatever they hold, readers must not mind.
            trace_flags: draft.flags.to_le_bytes()[0],
            event_name: draft.event_name,
            attributes: Vec::new(),
        }
    }
}

/// The best that a record without a body has to say.
fn message_without_body<'a>(
    event_name: &Cow<'a, str>,
    attributes: &Attributes<'a>,
) -> Cow<'a, str> {
    let get = |key| attributes.get(key).filter(|value| !value.is_empty());
    match (get("exception.type"), get("exception.message")) {
        (Some(kind), Some(message)) => Cow::Owned(format!("{kind}: {message}")),
        (Some(only), None) | (None, Some(only)) => only.clone(),
        (None, None) => get("log.record.original")
            .or((!event_name.is_empty()).then_some(event_name))
            .or_else(|| get("event.name"))
            .cloned()
            .unwrap_or_default(),
    }
}

fn cut_name<'a>(what: &str, name: &mut Cow<'a, str>, attributes: &mut Attributes<'a>) {
    let bytes = name.len();
    if cut(name, MAX_NAME_BYTES) {
        attributes.note(what, bytes);
    }
}

fn name_bytes(group: &Group<'_>) -> usize {
    group.service.len()
        + group.environment.len()
        + group.scope_name.len()
        + group.scope_version.len()
}

fn list_bytes(list: &[KeyValue<'_>]) -> usize {
    list.iter()
        .map(|(key, value)| ENTRY_BYTES + key.len() + value.len())
        .sum()
}
