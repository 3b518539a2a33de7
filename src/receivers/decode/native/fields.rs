//! The names under which the world's loggers write the fields of a record.
//!
//! Of several names in one record the one further left wins; the others stay attributes, as does a
//! value that its field cannot take. Case does not matter, and `a.b` also stands for `{"a":{"b":…}}`.
//!
//! | field | names |
//! |---|---|
//! | timestamp | `timestamp` `@timestamp` `time` `ts` `@t` `datetime` `asctime` `_time` `_timestamp` `timeUnixNano` `time_unix_nano` `date` |
//! | level | `level` `severity` `lvl` `log.level` `loglevel` `log_level` `levelname` `level_name` `@l` |
//! | severity_number | `severity_number` `severityNumber` |
//! | severity_text | `severity_text` `severityText` |
//! | service | `service` `service.name` `service_name` `serviceName` `app` `application` `app_name` `appName` `app.name` `application_name`; bunyan's `name` |
//! | environment | `environment` `env` `deployment.environment.name` `deployment.environment` `service.environment` `deployment_environment` |
//! | message | `message` `msg` `short_message` `@m` `renderedMessage` `@mt` `messageTemplate` `textPayload` `_msg` `log` `body` `text` `event` |
//! | trace_id | `trace_id` `traceId` `trace.id` `otelTraceID` |
//! | span_id | `span_id` `spanId` `span.id` `otelSpanID` |
//! | trace_flags | `trace_flags` `traceFlags` |
//! | event_name | `event_name` `eventName` |
//! | scope_name | `scope_name` `scopeName` `logger` `logger_name` `loggerName` `log.logger` |
//! | scope_version | `scope_version` `scopeVersion` |
//!
//! docs/json.md has the same table for users. These are the defaults of pino, winston, bunyan, zap, zerolog, logrus, slog, structlog, Python's
//! JSON formatters, Monolog, logstash-logback, Serilog (compact), Elastic's ECS, GELF, Google Cloud,
//! VictoriaLogs and OTLP, and of this daemon's own export.

/// Longest name in the table.
const LONGEST_NAME: usize = 27;

#[cfg(test)]
mod tests;

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Field {
    Timestamp,
    Level,
    SeverityNumber,
    SeverityText,
    Service,
    Environment,
    Message,
    TraceId,
    SpanId,
    TraceFlags,
    EventName,
    ScopeName,
    ScopeVersion,
    /// `name`, the service's name where bunyan wrote the record.
    BunyanName,
    /// `id`, `receiver` and `received_at`, which the export prints and a new arrival has of its own.
    ExportedId,
    ExportedReceiver,
    ExportedReceivedAt,
}

impl Field {
    /// How many there are.
    pub(super) const COUNT: usize = Field::ExportedReceivedAt as usize + 1;

    /// The field that a key names, and the name's rank: 0 is the best.
    pub(super) fn named(key: &str) -> Option<(Self, u8)> {
        let mut lower = [0; LONGEST_NAME];
        let lower = lower.get_mut(..key.len())?;
        lower.copy_from_slice(key.as_bytes());
        lower.make_ascii_lowercase();
        named_in_lower_case(lower)
    }
}

fn named_in_lower_case(key: &[u8]) -> Option<(Field, u8)> {
    Some(match key {
        b"timestamp" => (Field::Timestamp, 0),
        b"@timestamp" => (Field::Timestamp, 1),
        b"time" => (Field::Timestamp, 2),
        b"ts" => (Field::Timestamp, 3),
        b"@t" => (Field::Timestamp, 4),
        b"datetime" => (Field::Timestamp, 5),
        b"asctime" => (Field::Timestamp, 6),
        b"_time" => (Field::Timestamp, 7),
        b"_timestamp" => (Field::Timestamp, 8),
        b"timeunixnano" => (Field::Timestamp, 9),
        b"time_unix_nano" => (Field::Timestamp, 10),
        b"date" => (Field::Timestamp, 11),
        b"level" => (Field::Level, 0),
        b"severity" => (Field::Level, 1),
        b"lvl" => (Field::Level, 2),
        b"log.level" => (Field::Level, 3),
        b"loglevel" => (Field::Level, 4),
        b"log_level" => (Field::Level, 5),
        b"levelname" => (Field::Level, 6),
        b"level_name" => (Field::Level, 7),
        b"@l" => (Field::Level, 8),
        b"severity_number" => (Field::SeverityNumber, 0),
        b"severitynumber" => (Field::SeverityNumber, 1),
        b"severity_text" => (Field::SeverityText, 0),
        b"severitytext" => (Field::SeverityText, 1),
        b"service" => (Field::Service, 0),
        b"service.name" => (Field::Service, 1),
        b"service_name" => (Field::Service, 2),
        b"servicename" => (Field::Service, 3),
        b"app" => (Field::Service, 4),
        b"application" => (Field::Service, 5),
        b"app_name" => (Field::Service, 6),
        b"appname" => (Field::Service, 7),
        b"app.name" => (Field::Service, 8),
        b"application_name" => (Field::Service, 9),
        b"environment" => (Field::Environment, 0),
        b"env" => (Field::Environment, 1),
        b"deployment.environment.name" => (Field::Environment, 2),
        b"deployment.environment" => (Field::Environment, 3),
        b"service.environment" => (Field::Environment, 4),
        b"deployment_environment" => (Field::Environment, 5),
        b"message" => (Field::Message, 0),
        b"msg" => (Field::Message, 1),
        b"short_message" => (Field::Message, SHORT_MESSAGE_RANK),
        b"@m" => (Field::Message, 3),
        b"renderedmessage" => (Field::Message, 4),
        b"@mt" => (Field::Message, 5),
        b"messagetemplate" => (Field::Message, 6),
        b"textpayload" => (Field::Message, 7),
        b"_msg" => (Field::Message, 8),
        b"log" => (Field::Message, 9),
        b"body" => (Field::Message, 10),
        b"text" => (Field::Message, 11),
        b"event" => (Field::Message, 12),
        _ => return named_beside_the_message(key),
    })
}

fn named_beside_the_message(key: &[u8]) -> Option<(Field, u8)> {
    Some(match key {
        b"trace_id" => (Field::TraceId, 0),
        b"traceid" => (Field::TraceId, 1),
        b"trace.id" => (Field::TraceId, 2),
        b"oteltraceid" => (Field::TraceId, 3),
        b"span_id" => (Field::SpanId, 0),
        b"spanid" => (Field::SpanId, 1),
        b"span.id" => (Field::SpanId, 2),
        b"otelspanid" => (Field::SpanId, 3),
        b"trace_flags" => (Field::TraceFlags, 0),
        b"traceflags" => (Field::TraceFlags, 1),
        b"event_name" => (Field::EventName, 0),
        b"eventname" => (Field::EventName, 1),
        b"scope_name" => (Field::ScopeName, 0),
        b"scopename" => (Field::ScopeName, 1),
        b"logger" => (Field::ScopeName, 2),
        b"logger_name" => (Field::ScopeName, 3),
        b"loggername" => (Field::ScopeName, 4),
        b"log.logger" => (Field::ScopeName, 5),
        b"scope_version" => (Field::ScopeVersion, 0),
        b"scopeversion" => (Field::ScopeVersion, 1),
        b"name" => (Field::BunyanName, 0),
        b"id" => (Field::ExportedId, 0),
        b"receiver" => (Field::ExportedReceiver, 0),
        b"received_at" => (Field::ExportedReceivedAt, 0),
        _ => return None,
    })
}

/// Rank of GELF's name for the message; its levels are syslog's.
pub(super) const SHORT_MESSAGE_RANK: u8 = 2;
