//! What the walkers make of bodies. Test names begin with the id of the requirement they check.

mod abuse;
mod collected;
mod damage;
mod expected;
mod generate;
mod json;
mod kept;
mod mapping;
mod native;
mod oracle;
mod otlp_writer;
mod repeated;
mod reports;
mod scope;
mod wire;

use std::borrow::Cow;
use std::time::Duration;

use self::collected::{Collected, Row};
use super::*;
use crate::config::Digits;
use crate::normalize::{Context, Limits, level_of_number, level_of_text};
use crate::record::{Group, KeyValue, Receiver, Record, Sink};

/// Receipt time of every request here: 2026-09-21T14:13:20Z.
const NOW: i64 = 1_790_000_000_000_000_000;
const DAY: i64 = 86_400_000_000_000;

fn context() -> Context {
    Context {
        receiver: Receiver::OtlpHttp,
        received_at: NOW,
        retention: Duration::from_secs(30 * 86_400),
        future: Duration::from_secs(365 * 86_400),
        digits: Default::default(),
        limits: Limits {
            message: 1 << 20,
            value: 64 << 10,
            attributes: 512,
            expanded: 256 << 20,
        },
    }
}

impl Row {
    fn attribute(&self, key: &str) -> Option<&str> {
        find(&self.record.attributes, key)
    }

    fn resource(&self, key: &str) -> Option<&str> {
        find(&self.group.resource, key)
    }

    fn message(&self) -> &str {
        &self.record.message
    }
}

fn find<'l>(list: &'l [KeyValue<'static>], key: &str) -> Option<&'l str> {
    list.iter()
        .find(|(known, _)| known == key)
        .map(|(_, value)| value.as_ref())
}

/// The three walkers have one shape.
type Decode = fn(&[u8], &Context, &mut Collected) -> Result<Outcome, DecodeError>;

const PROTOBUF: Decode = |body, context, sink| decode_protobuf(body, context, sink);
const JSON: Decode = |body, context, sink| decode_json(body, context, sink);
const NATIVE: Decode = |body, context, sink| decode_native(body, context, sink);

fn run(decode: Decode, body: impl AsRef<[u8]>) -> Result<(Outcome, Vec<Row>), DecodeError> {
    let mut sink = Collected::default();
    let outcome = decode(body.as_ref(), &context(), &mut sink)?;
    assert_eq!(
        outcome.accepted as usize,
        sink.rows.len(),
        "what is accepted is in the sink"
    );
    assert!(outcome.rejections.len() <= outcome.rejected as usize);
    Ok((outcome, sink.rows))
}

fn accepted(decode: Decode, body: impl AsRef<[u8]>) -> Vec<Row> {
    let (outcome, rows) = run(decode, body).unwrap();
    assert_eq!((outcome.rejected, outcome.message), (0, None));
    rows
}

/// One export in JSON with these records.
fn one(records: &str) -> String {
    format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"demo"}}}}]}},"scopeLogs":[{{"scope":{{"name":"t"}},"logRecords":[{records}]}}]}}]}}"#
    )
}

/// A good record, which must survive whatever its neighbours are.
fn control() -> String {
    format!(r#"{{"timeUnixNano":"{NOW}","severityNumber":9,"body":{{"stringValue":"ctl"}}}}"#)
}

/// The rows of one JSON export with these records and the control record, without the latter.
fn beside_control(records: &str) -> Vec<Row> {
    let mut rows = accepted(JSON, one(&format!("{records},{}", control())));
    let last = rows.pop().unwrap();
    assert_eq!(
        (last.message(), last.group.service.as_ref()),
        ("ctl", "demo")
    );
    rows
}

/// The message that a JSON body becomes.
fn message_of(body: &str) -> String {
    let rows = beside_control(&format!(r#"{{"body":{body}}}"#));
    rows[0].message().to_owned()
}
