//! What a request becomes, as a plain mapping of prost's structs says. The fuzz targets use it too.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};

use super::*;

/// Pairs in order of their key's first appearance, with the last value of each.
fn last_wins<V>(pairs: impl IntoIterator<Item = (String, V)>) -> Vec<(String, V)> {
    let mut list: Vec<(String, V)> = Vec::new();
    let mut places = HashMap::new();
    for (key, value) in pairs {
        match places.get(&key) {
            Some(&place) => {
                let entry: &mut (String, V) = &mut list[place];
                entry.1 = value;
            }
            None => {
                places.insert(key.clone(), list.len());
                list.push((key, value));
            }
        }
    }
    list
}

pub(super) fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn json(value: &AnyValue) -> String {
    match &value.value {
        None | Some(Value::StringValueStrindex(_)) => "null".to_owned(),
        Some(Value::StringValue(text)) => json_string(text),
        Some(Value::DoubleValue(number)) if !number.is_finite() => {
            json_string(&text(value).unwrap())
        }
        Some(Value::BytesValue(_)) => json_string(&text(value).unwrap()),
        Some(Value::ArrayValue(array)) => {
            format!(
                "[{}]",
                array.values.iter().map(json).collect::<Vec<_>>().join(",")
            )
        }
        Some(Value::KvlistValue(list)) => {
            let pairs = list.values.iter().filter(|pair| !pair.key.is_empty());
            let pairs = pairs.map(|pair| {
                (
                    pair.key.clone(),
                    pair.value.as_ref().map_or_else(|| "null".to_owned(), json),
                )
            });
            let members = last_wins(pairs).into_iter();
            let members = members.map(|(key, value)| format!("{}:{value}", json_string(&key)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        _ => text(value).unwrap(),
    }
}

fn text(value: &AnyValue) -> Option<String> {
    use base64::Engine;
    Some(match value.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        Value::DoubleValue(number) if number.is_nan() => "NaN".to_owned(),
        Value::DoubleValue(number) if number.is_infinite() => {
            if *number > 0.0 {
                "Infinity".to_owned()
            } else {
                "-Infinity".to_owned()
            }
        }
        Value::DoubleValue(number) => ryu::Buffer::new().format(*number).to_owned(),
        Value::BytesValue(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes),
        Value::ArrayValue(_) | Value::KvlistValue(_) => json(value),
        Value::StringValueStrindex(_) => return None,
    })
}

fn attributes(list: &[KeyValue]) -> Vec<(String, String)> {
    let pairs = list.iter().filter(|pair| !pair.key.is_empty());
    last_wins(pairs.map(|pair| {
        let value = pair.value.as_ref().and_then(text);
        (pair.key.clone(), value.unwrap_or_default())
    }))
}

fn get<'l>(list: &'l [(String, String)], key: &str) -> Option<&'l str> {
    let (_, value) = list.iter().find(|(known, _)| known == key)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// One of the daemon's own attributes; what was sent under its key is beside it.
fn mark(list: &mut Vec<(String, String)>, key: &str, value: impl Into<String>) {
    let sent = list.iter_mut().find(|(known, _)| known == key);
    let Some((_, sent)) = sent else {
        return list.push((key.to_owned(), value.into()));
    };
    let sent = std::mem::replace(sent, value.into());
    let mut aside = format!("watchtower.sent.{key}");
    while list.iter().any(|(known, _)| *known == aside) {
        aside = format!("watchtower.sent.{aside}");
    }
    list.push((aside, sent));
}

fn cow_list(list: Vec<(String, String)>) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
    list.into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

pub(super) fn expected(request: &ExportLogsServiceRequest) -> Vec<Row> {
    let mut rows = Vec::new();
    for resource_logs in &request.resource_logs {
        for scope_logs in &resource_logs.scope_logs {
            let group = expected_group(resource_logs, scope_logs);
            let scope = expected_scope(scope_logs);
            let records = scope_logs.log_records.iter();
            rows.extend(records.map(|record| Row {
                group: group.clone(),
                record: expected_record(record, &scope),
            }));
        }
    }
    rows
}

fn expected_group(resource_logs: &ResourceLogs, scope_logs: &ScopeLogs) -> Group<'static> {
    let resource = resource_logs.resource.clone().unwrap_or_default();
    let mut list = attributes(&resource.attributes);
    let service = get(&list, "service.name")
        .unwrap_or("unknown_service")
        .to_owned();
    let keys = [
        "deployment.environment.name",
        "deployment.environment",
        "service.environment",
        "environment",
        "env",
    ];
    let environment = keys
        .iter()
        .find_map(|key| get(&list, key))
        .unwrap_or_default()
        .to_owned();
    if resource.dropped_attributes_count > 0 {
        mark(
            &mut list,
            "otel.dropped_attributes_count",
            resource.dropped_attributes_count.to_string(),
        );
    }
    if !resource_logs.schema_url.is_empty() {
        mark(
            &mut list,
            "otel.resource.schema_url",
            &resource_logs.schema_url,
        );
    }
    let scope = scope_logs.scope.clone().unwrap_or_default();
    Group {
        service: service.into(),
        environment: environment.into(),
        scope_name: scope.name.into(),
        scope_version: scope.version.into(),
        resource: cow_list(list),
        receiver: Receiver::OtlpHttp,
        received_at: NOW / 1_000_000,
    }
}

fn expected_scope(scope_logs: &ScopeLogs) -> Vec<(String, String)> {
    let scope = scope_logs.scope.clone().unwrap_or_default();
    let mut list = attributes(&scope.attributes);
    if scope.dropped_attributes_count > 0 {
        mark(
            &mut list,
            "dropped_attributes_count",
            scope.dropped_attributes_count.to_string(),
        );
    }
    if !scope_logs.schema_url.is_empty() {
        mark(&mut list, "schema_url", &scope_logs.schema_url);
    }
    let prefixed = |(key, value)| (format!("otel.scope.{key}"), value);
    list.into_iter().map(prefixed).collect()
}

fn expected_record(record: &LogRecord, scope: &[(String, String)]) -> Record<'static> {
    let own = attributes(&record.attributes).into_iter();
    let mut list = last_wins(own.map(|(key, value)| {
        let scopes = key.starts_with("otel.scope.");
        let aside = if scopes { "watchtower.sent." } else { "" };
        (format!("{aside}{key}"), value)
    }));
    list.extend_from_slice(scope);
    let body = record
        .body
        .as_ref()
        .and_then(text)
        .filter(|body| !body.is_empty());
    let exception = match (
        get(&list, "exception.type"),
        get(&list, "exception.message"),
    ) {
        (Some(kind), Some(message)) => Some(format!("{kind}: {message}")),
        (kind, message) => kind.or(message).map(str::to_owned),
    };
    let event_name = Some(record.event_name.as_str()).filter(|name| !name.is_empty());
    let message = body
        .or(exception)
        .or_else(|| get(&list, "log.record.original").map(str::to_owned))
        .or_else(|| event_name.map(str::to_owned))
        .or_else(|| get(&list, "event.name").map(str::to_owned));
    if record.dropped_attributes_count > 0 {
        mark(
            &mut list,
            "otel.dropped_attributes_count",
            record.dropped_attributes_count.to_string(),
        );
    }
    for (key, sent, right) in [
        ("watchtower.original_trace_id", &record.trace_id, 16),
        ("watchtower.original_span_id", &record.span_id, 8),
    ] {
        let is_hex = sent.len() == 2 * right && sent.iter().all(u8::is_ascii_hexdigit);
        if !sent.is_empty() && sent.len() != right && !is_hex {
            let hex: String = sent.iter().map(|byte| format!("{byte:02x}")).collect();
            mark(&mut list, key, hex);
        }
    }
    let known = (1..=24).contains(&record.severity_number);
    if !known && record.severity_number != 0 {
        mark(
            &mut list,
            "watchtower.original_severity_number",
            record.severity_number.to_string(),
        );
    }
    let (timestamp, source, original) =
        expected_time(record.time_unix_nano, record.observed_time_unix_nano);
    if let Some(source) = source {
        mark(&mut list, "watchtower.timestamp_source", source);
    }
    if let Some(original) = original {
        mark(
            &mut list,
            "watchtower.original_timestamp",
            original.to_string(),
        );
    }
    Record {
        timestamp,
        level: level_of_number(record.severity_number.into())
            .unwrap_or_else(|| level_of_text(&record.severity_text, Digits::Pino)),
        severity_number: if known {
            record.severity_number as u8
        } else {
            0
        },
        severity_text: record.severity_text.clone().into(),
        message: message.unwrap_or_default().into(),
        trace_id: id(&record.trace_id),
        span_id: id(&record.span_id),
        trace_flags: (record.flags & 0xff) as u8,
        event_name: record.event_name.clone().into(),
        attributes: cow_list(list),
    }
}

/// An id of the right length that is not all zeroes, as bytes or as hex digits.
fn id<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let is_hex = bytes.len() == 2 * N && bytes.iter().all(u8::is_ascii_hexdigit);
    let nibble = |at: usize| char::from(bytes[at]).to_digit(16).unwrap() as u8;
    let id = match is_hex {
        true => std::array::from_fn(|i| nibble(2 * i) << 4 | nibble(2 * i + 1)),
        false => bytes.try_into().ok()?,
    };
    (id != [0; N]).then_some(id)
}

/// The row's time, where it is from, and the time that could not be used.
fn expected_time(time: u64, observed: u64) -> (i64, Option<&'static str>, Option<u64>) {
    let admitted = |time: u64| {
        let time = i128::from(time);
        time >= i128::from(NOW - 30 * DAY) && time <= i128::from(NOW + 365 * DAY)
    };
    let beyond = |time: u64| time > i64::MAX as u64;
    if time != 0 && !beyond(time) {
        return match admitted(time) {
            true => (time as i64, None, None),
            false => (NOW, Some("received"), Some(time)),
        };
    }
    let original = (time != 0).then_some(time);
    if observed != 0 && admitted(observed) {
        return (observed as i64, Some("observed"), original);
    }
    (
        NOW,
        Some("received"),
        original.or((observed != 0).then_some(observed)),
    )
}

pub(super) fn num_records(request: &ExportLogsServiceRequest) -> usize {
    let scopes = request
        .resource_logs
        .iter()
        .flat_map(|logs| &logs.scope_logs);
    scopes.map(|logs| logs.log_records.len()).sum()
}
