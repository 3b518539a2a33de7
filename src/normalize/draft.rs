//! A record as its sender wrote it, on the way to a [`Record`](crate::record::Record).

use std::borrow::Cow;

use super::{Id, Repairs, Stamp};

/// What a walker found in one record beside its attributes. Missing fields keep their default.
#[derive(Debug, Default)]
pub(crate) struct Draft<'a> {
    /// When the event happened.
    pub(crate) time: Stamp<'a>,
    /// When somebody saw it.
    pub(crate) observed: Stamp<'a>,
    /// The severity number as sent.
    pub(crate) severity_number: i64,
    /// The severity text as sent.
    pub(crate) severity_text: Cow<'a, str>,
    /// The body as text; `None` where it is absent or an empty value.
    pub(crate) body: Option<Cow<'a, str>>,
    /// The trace id, if valid.
    pub(crate) trace_id: Option<[u8; 16]>,
    /// The span id, if valid.
    pub(crate) span_id: Option<[u8; 8]>,
    /// The trace id's field as text, if it holds something that is no id.
    pub(crate) odd_trace_id: Cow<'a, str>,
    /// A severity number that is none, as it was sent.
    pub(crate) odd_severity_number: Cow<'a, str>,
    /// The same of the span id.
    pub(crate) odd_span_id: Cow<'a, str>,
    /// All 32 flags.
    pub(crate) flags: u32,
    /// The event's name.
    pub(crate) event_name: Cow<'a, str>,
    /// Attributes that the sender says it dropped.
    pub(crate) dropped_attributes: u32,
}

impl<'a> Draft<'a> {
    /// Sets the trace id from its field, of which `odd` is the text if it is no id.
    pub(crate) fn set_trace_id(&mut self, id: Id<16>, odd: Cow<'a, str>, repairs: &mut Repairs) {
        repairs.invalid_ids += u32::from(id == Id::Invalid);
        self.trace_id = id.valid();
        self.odd_trace_id = odd;
    }

    /// Sets the span id likewise.
    pub(crate) fn set_span_id(&mut self, id: Id<8>, odd: Cow<'a, str>, repairs: &mut Repairs) {
        repairs.invalid_ids += u32::from(id == Id::Invalid);
        self.span_id = id.valid();
        self.odd_span_id = odd;
    }
}
