//! Requests to records: the rules by which whatever a sender wrote becomes a [`Record`]. Pure
//! functions; the walkers that read bytes are in `receivers::decode`.
//!
//! What a rule had to mend is counted in [`Repairs`], and where something of the record itself was
//! changed an attribute says so:
//!
//! | attribute | meaning |
//! |---|---|
//! | `watchtower.timestamp_source` | `observed` or `received`: the timestamp is not the event's own |
//! | `watchtower.original_timestamp` | the time as sent, where no row can carry it |
//! | `watchtower.original_severity_number` | the severity number as sent, where it is not 1 to 24 |
//! | `watchtower.original_trace_id`, `…_span_id` | what was sent as an OTLP record's id and is none |
//! | `watchtower.truncated` | what was cut, with its size |
//! | `otel.dropped_attributes_count` | as the sender counted |
//! | `otel.resource.schema_url` | the schema of a resource's attributes |
//!
//! A record keeps its scope's attributes beside its own, each key prefixed with `otel.scope.`, and so
//! what the table says of the scope: `otel.scope.dropped_attributes_count`, `otel.scope.schema_url`,
//! `otel.scope.watchtower.truncated`.
//!
//! [`Record`]: crate::record::Record

mod attributes;
mod decimal;
mod draft;
mod emitter;
mod ids;
mod resource;
mod severity;
pub(crate) mod text;
mod time;

use std::time::Duration;

pub(crate) use attributes::Attributes;
pub(crate) use decimal::Decimal;
pub(crate) use draft::Draft;
pub(crate) use emitter::{Emitter, Expands, ScopeDraft, Shared};
pub(crate) use ids::Id;
pub(crate) use resource::ResourceDraft;
pub(crate) use severity::{level_of_number, level_of_text, number_of_level};
pub(crate) use time::{Stamp, parse_epoch, parse_rfc3339};

use crate::config::{self, Config};
use crate::record::Receiver;

/// Nanoseconds of a second.
const SECOND_NANOS: i64 = 1_000_000_000;

/// Longest service, environment, scope name and version, severity text and event name. They are
/// columns of few distinct values; a longer one is somebody's data in the wrong place.
const MAX_NAME_BYTES: usize = 1024;

/// Most bytes that the records of one request may take, whatever the configuration: Redis takes no
/// value over 512 MiB, and a frame holds other requests' records beside them.
const MAX_EXPANDED_BYTES: usize = 256 << 20;

/// Bounds on one record, and on what one request may grow to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest message in bytes.
    pub message: usize,
    /// Longest attribute value in bytes.
    pub value: usize,
    /// Most attributes of one record, and of one resource.
    pub attributes: usize,
    /// Most bytes that the records of one request may take together. Every record repeats its
    /// resource and its scope, so a small body can ask for far more memory than its own size.
    pub expanded: usize,
}

impl From<&config::Limits> for Limits {
    fn from(limits: &config::Limits) -> Self {
        Self {
            message: limits.message.as_usize(),
            value: limits.value.as_usize(),
            attributes: limits.attributes,
            // As much as all requests may hold: a batch of 8,192 records under 2 KiB of resource
            // needs an eighth of that. Records of the largest body take more than the body, as
            // small ones take more room in a frame than on the wire.
            expanded: limits
                .in_flight
                .as_usize()
                .max(limits.body.as_usize().saturating_mul(2))
                .min(MAX_EXPANDED_BYTES),
        }
    }
}

/// What a request's records need besides its bytes. Made per request; it is a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The door.
    pub receiver: Receiver,
    /// When the request arrived, in nanoseconds since the epoch.
    pub received_at: i64,
    /// How long the store keeps records: one dated further back is stored under its receipt time.
    pub retention: Duration,
    /// How far ahead of its receipt a record may be dated; else likewise.
    pub future: Duration,
    /// What a level in bare digits means.
    pub digits: config::Digits,
    /// Bounds on each record.
    pub limits: Limits,
}

impl Context {
    /// The context of a request that arrived at `received_at`, in nanoseconds since the epoch.
    #[must_use]
    pub fn new(receiver: Receiver, received_at: i64, config: &Config) -> Self {
        Self {
            receiver,
            received_at,
            retention: config.longest_retention().duration(),
            future: config.limits.future.duration(),
            digits: config.levels.digits,
            limits: Limits::from(&config.limits),
        }
    }

    /// Whether a row may carry this time: not older than the retention, not too far ahead. One bad
    /// clock could otherwise open thousands of partitions, or lose its records to the TTL.
    fn admits(&self, nanos: i64) -> bool {
        let in_nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let retention = in_nanos(self.retention);
        // The end of a row's life is counted in 32 bits of seconds, which end in 2106.
        let last = (i64::from(u32::MAX) * SECOND_NANOS).saturating_sub(retention);
        let latest = self.received_at.saturating_add(in_nanos(self.future));
        nanos >= self.received_at.saturating_sub(retention)
            && nanos <= latest.min(last.max(self.received_at))
    }
}

/// How often each rule had to mend something in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Strings with bytes that are no UTF-8, or with half a surrogate pair: U+FFFD in their place.
    pub invalid_utf8: u32,
    /// Trace or span ids that are none; what was sent is kept in an attribute.
    pub invalid_ids: u32,
    /// Times that cannot be, or lie outside what the store keeps.
    pub replaced_timestamps: u32,
    /// Attributes without a key, left out.
    pub empty_keys: u32,
    /// Attributes whose key came again later, so that their value was replaced.
    pub duplicate_keys: u32,
    /// Values nested too deep, stored as `null`.
    pub too_deep: u32,
    /// Records or resources of which something was cut.
    pub truncated: u32,
    /// Values that were not of their field's type: kept as text, or as absent.
    pub odd_values: u32,
    /// References into the profiles' string table, which logs do not have: taken as absent.
    pub string_table_refs: u32,
    /// Lists of logs in the form that OTLP had before 2022; their records were not read.
    pub legacy_logs: u32,
    /// Whether something was nested too deep that its record or resource does not tell of yet.
    pub(crate) deep: bool,
}

impl Repairs {
    /// Takes note of a value that is nested too deep.
    pub(crate) fn cut_depth(&mut self) {
        self.too_deep += 1;
        self.deep = true;
    }

    /// Every counter with its name, as the metrics label it.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u32); 10] {
        [
            ("invalid_utf8", self.invalid_utf8),
            ("invalid_id", self.invalid_ids),
            ("replaced_timestamp", self.replaced_timestamps),
            ("empty_key", self.empty_keys),
            ("duplicate_key", self.duplicate_keys),
            ("too_deep", self.too_deep),
            ("truncated", self.truncated),
            ("odd_value", self.odd_values),
            ("string_table_ref", self.string_table_refs),
            ("legacy_logs", self.legacy_logs),
        ]
    }
}
