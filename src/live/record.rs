//! Records as the page and the API show them: one JSON object each.
//!
//! The names are the store's columns. `id` and `timestamp` (nanoseconds) are strings, because a
//! browser rounds numbers above 2^53. Empty fields are left out. What would make one record too
//! large to show is cut: the object then has `truncated`, and `length` where the message was cut.

use crate::frame::Row;
use crate::record::Level;

/// Longest message shown, in bytes.
pub const MESSAGE_LIMIT: usize = 16 << 10;
/// Longest value of an attribute shown, in bytes.
const VALUE_LIMIT: usize = 4 << 10;
/// Most bytes of keys and values shown of attributes, and again of the resource.
const MAP_LIMIT: usize = 32 << 10;

/// Most bytes of a record's parts.
struct Limits {
    message: usize,
    value: usize,
    map: usize,
}

const SHOWN: Limits = Limits {
    message: MESSAGE_LIMIT,
    value: VALUE_LIMIT,
    map: MAP_LIMIT,
};

const WHOLE: Limits = Limits {
    message: usize::MAX,
    value: usize::MAX,
    map: usize::MAX,
};

/// The fields of one record, its maps aside.
#[derive(Debug, Clone, Copy, Default)]
struct Fields<'a> {
    id: u64,
    timestamp: i64,
    level: Level,
    severity_number: u8,
    severity_text: &'a str,
    service: &'a str,
    environment: &'a str,
    message: &'a str,
    trace_id: &'a str,
    span_id: &'a str,
    trace_flags: u8,
    event_name: &'a str,
    scope_name: &'a str,
    scope_version: &'a str,
    receiver: &'a str,
    received_at: i64,
}

/// A record as it comes from the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredRecord {
    /// The record's id.
    pub id: u64,
    /// Event time, nanoseconds since the epoch.
    pub timestamp: i64,
    /// Its level.
    pub level: Level,
    /// Severity number as sent, or 0.
    pub severity_number: u8,
    /// Severity text as sent.
    pub severity_text: String,
    /// The service.
    pub service: String,
    /// The environment.
    pub environment: String,
    /// The message.
    pub message: String,
    /// Trace id in lower hex, or empty.
    pub trace_id: String,
    /// Span id in lower hex, or empty.
    pub span_id: String,
    /// Trace flags.
    pub trace_flags: u8,
    /// The event's name.
    pub event_name: String,
    /// The scope's name.
    pub scope_name: String,
    /// The scope's version.
    pub scope_version: String,
    /// The record's attributes.
    pub attributes: Vec<(String, String)>,
    /// The resource's attributes.
    pub resource: Vec<(String, String)>,
    /// The receiver's name.
    pub receiver: String,
    /// When it was received, milliseconds since the epoch.
    pub received_at: i64,
}

impl StoredRecord {
    /// Writes the record as one JSON object without a line break, cut to what a page shows.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write(out, &SHOWN);
    }

    /// As [`StoredRecord::write_json`], but whole.
    pub fn write_whole_json(&self, out: &mut Vec<u8>) {
        self.write(out, &WHOLE);
    }

    fn write(&self, out: &mut Vec<u8>, limits: &Limits) {
        let fields = Fields {
            id: self.id,
            timestamp: self.timestamp,
            level: self.level,
            severity_number: self.severity_number,
            severity_text: &self.severity_text,
            service: &self.service,
            environment: &self.environment,
            message: &self.message,
            trace_id: &self.trace_id,
            span_id: &self.span_id,
            trace_flags: self.trace_flags,
            event_name: &self.event_name,
            scope_name: &self.scope_name,
            scope_version: &self.scope_version,
            receiver: &self.receiver,
            received_at: self.received_at,
        };
        write_record(
            out,
            limits,
            &fields,
            self.attributes
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str())),
            self.resource.iter().map(|(k, v)| (k.as_str(), v.as_str())),
        );
    }
}

/// Writes a row of a frame as one JSON object without a line break.
pub(super) fn write_row(out: &mut Vec<u8>, row: &Row<'_>) {
    let fields = Fields {
        id: row.id(),
        timestamp: row.timestamp(),
        level: row.level(),
        severity_number: row.severity_number(),
        severity_text: row.severity_text(),
        service: row.service(),
        environment: row.environment(),
        message: row.message(),
        trace_id: row.trace_id(),
        span_id: row.span_id(),
        trace_flags: row.trace_flags(),
        event_name: row.event_name(),
        scope_name: row.scope_name(),
        scope_version: row.scope_version(),
        receiver: row.receiver().as_str(),
        received_at: row.received_at(),
    };
    write_record(out, &SHOWN, &fields, row.attributes(), row.resource());
}

/// Writes one record as one JSON object without a line break.
fn write_record<'a>(
    out: &mut Vec<u8>,
    limits: &Limits,
    fields: &Fields<'_>,
    attributes: impl Iterator<Item = (&'a str, &'a str)>,
    resource: impl Iterator<Item = (&'a str, &'a str)>,
) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"{\"id\":\"");
    out.extend_from_slice(number.format(fields.id).as_bytes());
    out.extend_from_slice(b"\",\"timestamp\":\"");
    out.extend_from_slice(number.format(fields.timestamp).as_bytes());
    out.extend_from_slice(b"\",\"level\":\"");
    out.extend_from_slice(fields.level.as_str().as_bytes());
    out.push(b'"');
    write_number(out, "severity_number", i64::from(fields.severity_number));
    write_field(out, "severity_text", fields.severity_text);
    write_field(out, "service", fields.service);
    write_field(out, "environment", fields.environment);
    let message = head(fields.message, limits.message);
    write_field(out, "message", message);
    write_field(out, "trace_id", fields.trace_id);
    write_field(out, "span_id", fields.span_id);
    write_number(out, "trace_flags", i64::from(fields.trace_flags));
    write_field(out, "event_name", fields.event_name);
    write_field(out, "scope_name", fields.scope_name);
    write_field(out, "scope_version", fields.scope_version);
    write_field(out, "receiver", fields.receiver);
    write_number(out, "received_at", fields.received_at);
    let mut cut = write_map(out, limits, "attributes", attributes);
    cut |= write_map(out, limits, "resource", resource);
    if message.len() < fields.message.len() {
        cut = true;
        let length = i64::try_from(fields.message.len()).unwrap_or(i64::MAX);
        write_number(out, "length", length);
    }
    if cut {
        out.extend_from_slice(b",\"truncated\":true");
    }
    out.push(b'}');
}

fn write_number(out: &mut Vec<u8>, name: &str, value: i64) {
    if value != 0 {
        write_name(out, name);
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        write_name(out, name);
        write_string(out, value);
    }
}

/// Writes a map and says whether something of it was cut.
fn write_map<'a>(
    out: &mut Vec<u8>,
    limits: &Limits,
    name: &str,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> bool {
    let mut cut = false;
    let mut room = limits.map;
    let mut first = true;
    for (key, value) in pairs {
        let shown = head(value, limits.value);
        let size = key.len() + shown.len();
        if size > room {
            cut = true;
            break;
        }
        room -= size;
        cut |= shown.len() < value.len();
        if first {
            write_name(out, name);
            out.push(b'{');
        } else {
            out.push(b',');
        }
        first = false;
        write_string(out, key);
        out.push(b':');
        write_string(out, shown);
    }
    if !first {
        out.push(b'}');
    }
    cut
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing text to memory cannot fail");
}

/// The longest beginning of a text with at most `limit` bytes and no character cut in two.
fn head(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let end = (0..=limit)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(record: &StoredRecord) -> serde_json::Value {
        let mut out = Vec::new();
        record.write_json(&mut out);
        assert!(
            !out.iter().any(|byte| *byte < 0x20),
            "one line, no raw control character"
        );
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn large_numbers_are_strings_and_empty_fields_are_left_out() {
        let record = StoredRecord {
            id: u64::MAX,
            timestamp: 1_761_800_000_123_456_789,
            level: Level::Error,
            message: "m".to_owned(),
            attributes: vec![("n".to_owned(), "9223372036854775807".to_owned())],
            ..StoredRecord::default()
        };
        assert_eq!(
            json(&record),
            serde_json::json!({
                "id": "18446744073709551615", "timestamp": "1761800000123456789",
                "level": "error", "message": "m", "attributes": {"n": "9223372036854775807"},
            })
        );
    }

    #[test]
    fn any_text_survives() {
        let text =
            "one\ntwo\r\nthree\revent: x\n\ndata: \u{2028}\u{0}\u{1b}[1m\u{202e}\"\\</script>";
        let record = StoredRecord {
            message: text.to_owned(),
            service: text.to_owned(),
            attributes: vec![(text.to_owned(), text.to_owned())],
            ..StoredRecord::default()
        };
        let shown = json(&record);
        assert_eq!(shown["message"], text);
        assert_eq!(shown["service"], text);
        assert_eq!(shown["attributes"][text], text);
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_says_so() {
        let record = StoredRecord {
            message: format!("x{}", "😀".repeat(5000)),
            ..StoredRecord::default()
        };
        let shown = json(&record);
        let message = shown["message"].as_str().unwrap();
        assert_eq!(message.len(), MESSAGE_LIMIT - 3);
        assert!(record.message.starts_with(message));
        assert_eq!(shown["truncated"], true);
        assert_eq!(shown["length"], 20_001);
    }

    #[test]
    fn huge_attributes_are_cut_and_say_so() {
        let record = StoredRecord {
            attributes: (0..100)
                .map(|i| (format!("k{i}"), "v".repeat(5000)))
                .collect(),
            ..StoredRecord::default()
        };
        let shown = json(&record);
        let attributes = shown["attributes"].as_object().unwrap();
        assert_eq!(attributes.len(), 7);
        assert_eq!(attributes["k0"].as_str().unwrap().len(), VALUE_LIMIT);
        assert_eq!(shown["truncated"], true);
        assert!(shown.get("length").is_none());
    }
}
