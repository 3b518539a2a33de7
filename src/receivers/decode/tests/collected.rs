//! A sink that keeps what it is given. The fuzz targets use it too.

use super::*;

/// Keeps what it is given, each record with its group.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Collected {
    group: Option<Group<'static>>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) group: Group<'static>,
    pub(super) record: Record<'static>,
}

fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}

fn owned_list(list: &[KeyValue<'_>]) -> Vec<KeyValue<'static>> {
    list.iter()
        .map(|(key, value)| (owned(key), owned(value)))
        .collect()
}

impl Sink for Collected {
    fn group(&mut self, group: &Group<'_>) {
        self.group = Some(Group {
            service: owned(&group.service),
            environment: owned(&group.environment),
            scope_name: owned(&group.scope_name),
            scope_version: owned(&group.scope_version),
            resource: owned_list(&group.resource),
            receiver: group.receiver,
            received_at: group.received_at,
        });
    }

    fn push(&mut self, record: &Record<'_>) {
        let record = Record {
            timestamp: record.timestamp,
            level: record.level,
            severity_number: record.severity_number,
            severity_text: owned(&record.severity_text),
            message: owned(&record.message),
            trace_id: record.trace_id,
            span_id: record.span_id,
            trace_flags: record.trace_flags,
            event_name: owned(&record.event_name),
            attributes: owned_list(&record.attributes),
        };
        let mut keys: Vec<_> = record.attributes.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), record.attributes.len(), "keys are unique");
        assert!(keys.iter().all(|key| !key.is_empty()), "keys are not empty");
        let group = self
            .group
            .clone()
            .expect("a group comes before its records");
        self.rows.push(Row { group, record });
    }
}
