//! One body through one walker: into a sink that remembers and into the builder of frames.

use watchtower::frame::{BlockBuilder, Frame};

use super::frames::{assert_rows, seal};
use super::*;

/// A walker.
pub trait Walk: Fn(&[u8], &Context, &mut Tee) -> Result<Outcome, DecodeError> {}
impl<F: Fn(&[u8], &Context, &mut Tee) -> Result<Outcome, DecodeError>> Walk for F {}

/// Gives every record to both.
#[derive(Default)]
pub struct Tee {
    collected: Collected,
    builder: BlockBuilder,
}

impl Sink for Tee {
    fn group(&mut self, group: &Group<'_>) {
        self.collected.group(group);
        self.builder.group(group);
    }

    fn push(&mut self, record: &Record<'_>) {
        self.collected.push(record);
        self.builder.push(record);
    }
}

/// Walks a body under both sets of limits and checks all that must hold whatever the body is.
pub fn check(body: &[u8], receiver: Receiver, walk: impl Walk) {
    for limits in [USUAL, TIGHT] {
        let context = context(receiver, limits);
        let mut tee = Tee::default();
        match walk(body, &context, &mut tee) {
            Ok(outcome) => {
                check_outcome(&outcome, tee.collected.rows.len());
                for row in &tee.collected.rows {
                    check_row(row, &context);
                }
                let frame = whole(&mut tee);
                behind_another(body, &context, &walk, &tee.collected.rows, frame.as_ref());
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                let nothing: &[Row] = &[];
                behind_another(body, &context, &walk, nothing, None);
            }
        }
    }
}

fn check_outcome(outcome: &Outcome, num_rows: usize) {
    assert_eq!(outcome.accepted as usize, num_rows);
    assert_eq!(outcome.rejections.len(), outcome.rejected.min(100) as usize);
    assert!(outcome.rejections.is_sorted_by(|a, b| a.index < b.index));
    let last = outcome.rejections.last().map_or(0, |last| last.index);
    assert!(last <= outcome.accepted + outcome.rejected);
    let message = outcome.message.as_deref();
    assert!(message.is_none_or(|text| (1..=1024).contains(&text.len())));
    assert!(outcome.rejected == 0 || message.is_some());
}

/// No value is over its limit, no time outside what the store keeps.
fn check_row(row: &Row, context: &Context) {
    let Row { group, record } = row;
    let limits = context.limits;
    assert!(record.timestamp >= NOW - 30 * DAY && record.timestamp <= NOW + 365 * DAY);
    assert!(record.message.len() <= limits.message);
    assert!(record.severity_number <= 24);
    if record.severity_number > 0 {
        assert_eq!(
            level_of_number(record.severity_number.into()),
            Some(record.level)
        );
    }
    assert_ne!(record.trace_id, Some([0; 16]));
    assert_ne!(record.span_id, Some([0; 8]));
    for name in [
        &record.severity_text,
        &record.event_name,
        &group.service,
        &group.environment,
        &group.scope_name,
        &group.scope_version,
    ] {
        assert!(name.len() <= MAX_NAME_BYTES);
    }
    assert!(!group.service.is_empty());
    for list in [&record.attributes, &group.resource] {
        // Beside the sender's own there are at most the marks, and those that its scope has.
        assert!(
            list.len() <= limits.attributes + 8,
            "{} attributes",
            list.len()
        );
        for (key, value) in list {
            assert!(key.len() <= MAX_NAME_BYTES);
            let ours = key.starts_with("watchtower.") || key.starts_with("otel.");
            let limit = if ours {
                limits.value.max(2 * MAX_NAME_BYTES)
            } else {
                limits.value
            };
            assert!(value.len() <= limit, "{key} has {} bytes", value.len());
        }
    }
}

/// Seals what the builder holds and reads it back.
fn whole(tee: &mut Tee) -> Option<Frame> {
    if tee.builder.is_empty() {
        assert!(tee.collected.rows.is_empty());
        return None;
    }
    let frame = seal(&mut tee.builder);
    assert_rows(&frame, &tee.collected.rows);
    Some(frame)
}

/// Walks the body into a builder that was used before and holds another request's record; takes it
/// out again, and walks it once more.
fn behind_another(
    body: &[u8],
    context: &Context,
    walk: &impl Walk,
    rows: &[Row],
    frame: Option<&Frame>,
) {
    let mut tee = Tee::default();
    push_control(&mut tee);
    let control = tee.collected.rows.clone();
    let mark = tee.builder.mark();
    let first = walk(body, context, &mut tee);
    tee.builder.rollback(&mark);
    assert_rows(&seal(&mut tee.builder), &control);

    if let Some(frame) = frame {
        // The same builder, once more: it remembers nothing.
        let second = walk(body, context, &mut tee);
        assert_eq!(first, second);
        assert_eq!(seal(&mut tee.builder).as_bytes(), frame.as_bytes());
    }
    push_control(&mut tee);
    let mark = tee.builder.mark();
    if walk(body, context, &mut tee).is_err() {
        tee.builder.rollback(&mark);
    }
    push_control(&mut tee);
    let all: Vec<Row> = [&control[..], rows, &control[..]].concat();
    assert_rows(&seal(&mut tee.builder), &all);
}

fn push_control(tee: &mut Tee) {
    tee.group(&Group {
        service: "control".into(),
        environment: Cow::Borrowed(""),
        scope_name: Cow::Borrowed(""),
        scope_version: "1".into(),
        resource: vec![("service.name".into(), "control".into())],
        receiver: Receiver::OtlpGrpc,
        received_at: NOW / 1_000_000,
    });
    tee.push(&Record {
        timestamp: NOW,
        message: "another request's".into(),
        attributes: vec![("k".into(), "v".into())],
        ..Record::default()
    });
}
