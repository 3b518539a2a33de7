//! The native JSON door: what the world's loggers write, and how bodies fall into records.

use super::*;
use crate::record::Level;

fn only(body: &str) -> Row {
    let mut rows = accepted(NATIVE, body);
    assert_eq!(rows.len(), 1, "{body}");
    rows.remove(0)
}

fn list(pairs: &[(&str, &str)]) -> Vec<KeyValue<'static>> {
    pairs
        .iter()
        .map(|&(key, value)| (key.to_owned().into(), value.to_owned().into()))
        .collect()
}

#[test]
fn the_five_fields_and_everything_else() {
    let row = only(
        r#"{"timestamp":"2026-09-21T14:13:19.000000001Z","level":"warn","service":"shop","environment":"prod","message":"hi","user":{"id":7,"tags":["a",null,{"b":1.50}]},"ok":true,"none":null}"#,
    );
    assert_eq!(row.record.timestamp, NOW - 999_999_999);
    assert_eq!(
        (row.record.level, row.record.severity_number),
        (Level::Warn, 13)
    );
    assert_eq!(row.record.severity_text, "warn");
    assert_eq!(
        (row.group.service.as_ref(), row.group.environment.as_ref()),
        ("shop", "prod")
    );
    assert_eq!(row.message(), "hi");
    let expected = [
        ("user.id", "7"),
        ("user.tags", r#"["a",null,{"b":1.50}]"#),
        ("ok", "true"),
        ("none", ""),
    ];
    assert_eq!(row.record.attributes, list(&expected));
}

#[test]
fn records_of_known_loggers() {
    let table = [
        (
            "pino",
            r#"{"level":50,"time":1789999999000,"pid":1,"hostname":"h","msg":"m"}"#,
            (NOW - 1_000_000_000, Level::Error, "unknown_service", "m"),
        ),
        (
            "bunyan",
            r#"{"name":"shop","hostname":"h","pid":1,"level":40,"msg":"m","time":"2026-09-21T14:13:19.000Z","v":0}"#,
            (NOW - 1_000_000_000, Level::Warn, "shop", "m"),
        ),
        (
            "winston",
            r#"{"level":"error","message":"m","timestamp":"2026-09-21T14:13:19.000Z","service":"shop"}"#,
            (NOW - 1_000_000_000, Level::Error, "shop", "m"),
        ),
        (
            "zap",
            r#"{"level":"dpanic","ts":1789999999.5,"caller":"a.go:1","msg":"m","app":"shop"}"#,
            (NOW - 500_000_000, Level::Error, "shop", "m"),
        ),
        (
            "logrus",
            r#"{"level":"warning","msg":"m","time":"2026-09-21T16:13:19+02:00"}"#,
            (NOW - 1_000_000_000, Level::Warn, "unknown_service", "m"),
        ),
        (
            "slog",
            r#"{"time":"2026-09-21T14:13:19.25Z","level":"INFO+2","msg":"m"}"#,
            (NOW - 750_000_000, Level::Info, "unknown_service", "m"),
        ),
        (
            "structlog",
            r#"{"event":"m","level":"info","timestamp":"2026-09-21T14:13:19Z","logger":"l"}"#,
            (NOW - 1_000_000_000, Level::Info, "unknown_service", "m"),
        ),
        (
            "python-json-logger",
            r#"{"asctime":"2026-09-21 14:13:19,000","levelname":"CRITICAL","message":"m","name":"root"}"#,
            (NOW - 1_000_000_000, Level::Fatal, "unknown_service", "m"),
        ),
        (
            "monolog",
            r#"{"message":"m","level":400,"level_name":"ERROR","datetime":"2026-09-21T14:13:19+00:00"}"#,
            (NOW - 1_000_000_000, Level::Error, "unknown_service", "m"),
        ),
        (
            "ecs",
            r#"{"@timestamp":"2026-09-21T14:13:19Z","log.level":"info","log":{"logger":"l"},"message":"m","service":{"name":"shop","environment":"prod"},"ecs.version":"8"}"#,
            (NOW - 1_000_000_000, Level::Info, "shop", "m"),
        ),
        (
            "gelf",
            r#"{"version":"1.1","host":"h","short_message":"m","timestamp":1789999999.0,"level":3,"_app":"x"}"#,
            (NOW - 1_000_000_000, Level::Error, "unknown_service", "m"),
        ),
        (
            "serilog",
            r#"{"@t":"2026-09-21T14:13:19.0000000Z","@mt":"m","@l":"Fatal","Application":"shop"}"#,
            (NOW - 1_000_000_000, Level::Fatal, "shop", "m"),
        ),
        (
            "google cloud",
            r#"{"severity":"NOTICE","textPayload":"m","time":"2026-09-21T14:13:19Z"}"#,
            (NOW - 1_000_000_000, Level::Info, "unknown_service", "m"),
        ),
        (
            "docker",
            r#"{"log":"m","stream":"stderr","time":"2026-09-21T14:13:19.000000000Z"}"#,
            (
                NOW - 1_000_000_000,
                Level::Unspecified,
                "unknown_service",
                "m",
            ),
        ),
    ];
    for (logger, body, expected) in table {
        let row = only(body);
        let record = &row.record;
        let found = (
            record.timestamp,
            record.level,
            row.group.service.as_ref(),
            row.message(),
        );
        assert_eq!(found, expected, "{logger}");
        assert_eq!(
            row.attribute("watchtower.timestamp_source"),
            None,
            "{logger}"
        );
    }
}

#[test]
fn of_several_names_the_best_wins_and_the_others_stay() {
    let row = only(
        r#"{"msg":"second","message":"first","event":"third","lvl":"debug","level":"custom","time":"3.2ms","ts":1789999999}"#,
    );
    assert_eq!(row.message(), "first");
    assert_eq!(row.record.level, Level::Debug);
    assert_eq!(row.record.timestamp, NOW - 1_000_000_000);
    let expected = [
        ("msg", "second"),
        ("event", "third"),
        ("level", "custom"),
        ("time", "3.2ms"),
    ];
    let mut found = row.record.attributes.clone();
    found.sort();
    let mut expected = list(&expected);
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn last_of_two_equal_keys_wins() {
    let (outcome, rows) = run(NATIVE, r#"{"message":"a","k":1,"message":"b","k":2}"#).unwrap();
    assert_eq!(rows[0].message(), "b");
    assert_eq!(rows[0].attribute("k"), Some("2"));
    assert_eq!(outcome.repairs.duplicate_keys, 2);
}

#[test]
fn times_by_magnitude_and_in_quotes() {
    let nanos = NOW - 1_234_567_890;
    for (sent, expected) in [
        ("1789999998".to_owned(), NOW - 2_000_000_000),
        ("1789999998.76543211".to_owned(), nanos),
        ("1789999998765".to_owned(), NOW - 1_235_000_000),
        ("1789999998765432".to_owned(), NOW - 1_234_568_000),
        (format!("{nanos}"), nanos),
        (format!("\"{nanos}\""), nanos),
        ("\"1789999998.765432110\"".to_owned(), nanos),
        ("\"2026-09-21 14:13:18.765432110\"".to_owned(), nanos),
    ] {
        let row = only(&format!(r#"{{"timestamp":{sent}}}"#));
        assert_eq!(row.record.timestamp, expected, "{sent}");
    }
}

#[test]
fn a_time_that_is_none_stays_an_attribute() {
    for sent in [r#""tomorrow""#, "true", "1e400", "[1]"] {
        let row = only(&format!(r#"{{"timestamp":{sent}}}"#));
        assert_eq!(row.record.timestamp, NOW);
        assert_eq!(row.attribute("timestamp"), Some(sent.trim_matches('"')));
        assert_eq!(
            row.attribute("watchtower.timestamp_source"),
            Some("received")
        );
    }
    let row = only(r#"{"timestamp":"2019-01-01T00:00:00Z"}"#);
    assert_eq!(
        row.attribute("watchtower.original_timestamp"),
        Some("2019-01-01T00:00:00Z")
    );
}

#[test]
fn ids_and_flags() {
    let row = only(
        r#"{"trace_id":"5B8EFFF798038103D269B633813FC60C","span_id":"eee19b7ec3c1b174","trace_flags":"01"}"#,
    );
    assert!(row.record.trace_id.is_some() && row.record.span_id.is_some());
    assert_eq!(row.record.trace_flags, 1);
    let (outcome, rows) = run(NATIVE, r#"{"traceId":"x","spanId":"","trace_flags":1}"#).unwrap();
    assert_eq!(
        (rows[0].record.trace_id, rows[0].record.span_id),
        (None, None)
    );
    assert_eq!(rows[0].attribute("traceId"), Some("x"));
    assert_eq!(
        (rows[0].record.trace_flags, outcome.repairs.invalid_ids),
        (1, 1)
    );
}

#[test]
fn severity_number_wins_over_the_level() {
    let row = only(r#"{"level":"info","severity_number":18,"severity_text":"bad"}"#);
    assert_eq!(
        (row.record.level, row.record.severity_number),
        (Level::Error, 18)
    );
    assert_eq!(row.record.severity_text, "bad");
    let row = only(r#"{"level":"info","severity_number":99}"#);
    assert_eq!(
        (row.record.level, row.attribute("severity_number")),
        (Level::Info, Some("99"))
    );
}

#[test]
fn what_the_export_prints_comes_back_as_it_was() {
    let row = only(
        r#"{"id":"7481","timestamp":"1789999999000000001","level":"info","severity_number":10,"service":"shop","environment":"prod","message":"m","trace_id":"5b8efff798038103d269b633813fc60c","span_id":"eee19b7ec3c1b174","trace_flags":1,"event_name":"e","scope_name":"s","scope_version":"1","attributes":{"level":"deep","a.b":"1"},"resource":{"service.name":"shop","host.name":"h"},"receiver":"otlp_grpc","received_at":"1789999999000"}"#,
    );
    let record = &row.record;
    assert_eq!(record.timestamp, NOW - 999_999_999);
    assert_eq!((record.level, record.severity_number), (Level::Info, 10));
    assert_eq!(record.severity_text, "");
    assert_eq!((record.event_name.as_ref(), record.trace_flags), ("e", 1));
    assert_eq!(record.attributes, list(&[("level", "deep"), ("a.b", "1")]));
    assert_eq!(
        row.group.resource,
        list(&[("service.name", "shop"), ("host.name", "h")])
    );
    assert_eq!(
        (
            row.group.scope_name.as_ref(),
            row.group.scope_version.as_ref()
        ),
        ("s", "1")
    );
    assert_eq!(row.group.received_at, NOW / 1_000_000);
    let row =
        only(r#"{"ts":1789999999,"id":"7481","receiver":"me","message":"an ordinary record"}"#);
    assert_eq!(
        row.record.attributes,
        list(&[("id", "7481"), ("receiver", "me")])
    );
}

#[test]
fn a_resource_names_service_and_environment() {
    let row = only(r#"{"resource":{"service":{"name":"shop"},"env":"prod"},"message":"m"}"#);
    assert_eq!(
        (row.group.service.as_ref(), row.group.environment.as_ref()),
        ("shop", "prod")
    );
    let row = only(
        r#"{"ts":1789999999,"resource":"db","attributes":7,"message":{"a":[1, 2]},"empty":{}}"#,
    );
    assert_eq!(row.message(), r#"{"a":[1,2]}"#);
    let expected = [("resource", "db"), ("attributes", "7"), ("empty", "{}")];
    assert_eq!(row.record.attributes, list(&expected));
}

#[test]
fn groups_follow_the_services() {
    let body = r#"{"service":"a","message":"1"}{"service":"a","message":"2"}{"service":"b","message":"3"}"#;
    struct Groups(Vec<String>);
    impl Sink for Groups {
        fn group(&mut self, group: &Group<'_>) {
            self.0.push(group.service.clone().into_owned());
        }
        fn push(&mut self, record: &Record<'_>) {
            self.0.push(record.message.clone().into_owned());
        }
    }
    let mut sink = Groups(Vec::new());
    decode_native(body.as_bytes(), &context(), &mut sink).unwrap();
    assert_eq!(sink.0, ["a", "1", "2", "b", "3"]);
}

#[test]
fn deep_objects_end_as_json() {
    let body = format!("{}1{}", r#"{"a":"#.repeat(300), "}".repeat(300));
    let row = only(&body);
    let (key, value) = &row.record.attributes[0];
    assert_eq!(key, &vec!["a"; 17].join("."));
    assert!(value.starts_with(r#"{"a":{"a":"#) && value.contains("null"));
}

#[test]
fn lines_that_stay_open_do_not_cost_the_last_one() {
    let body = "{\"message\":\n".repeat(40) + r#"{"message":"last"}"#;
    let (outcome, rows) = run(NATIVE, body).unwrap();
    assert_eq!((rows.len(), outcome.rejected), (1, 40));
    assert_eq!(rows[0].message(), "last");
}

#[test]
fn a_body_of_open_lines_is_given_up_in_time() {
    let body = "[{\"a\":\n".repeat(500_000);
    let started = std::time::Instant::now();
    let error = run(NATIVE, body).unwrap_err();
    assert!(matches!(error, DecodeError::Damaged { .. }));
    // Read anew for each of its lines it would be 900 GB.
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn bodies_of_many_shapes() {
    for body in [
        r#"{"message":"a"},{"message":"b"}"#,
        "[{\"message\":\"a\"},\n{\"message\":\"b\"}]",
        "\x1e{\"message\":\"a\"}\n\x1e{\"message\":\"b\"}\n",
        "[{\"message\":\"a\"}]\n\r\n[{\"message\":\"b\"}]",
        "{\n  \"message\": \"a\"\n}\n{\n  \"message\": \"b\"\n}\n",
        "\u{feff}{\"message\":\"a\"}\n\u{feff}{\"message\":\"b\"}",
        "\u{feff}[{\"message\":\"a\"}]\n\u{feff}[{\"message\":\"b\"}]",
    ] {
        let rows = accepted(NATIVE, body);
        assert_eq!(
            rows.iter().map(Row::message).collect::<Vec<_>>(),
            ["a", "b"],
            "{body}"
        );
    }
    assert_eq!(accepted(NATIVE, "[]"), []);
}

#[test]
fn nothing_readable_is_an_error() {
    for body in ["", " \r\n", "\u{feff}"] {
        assert_eq!(
            run(NATIVE, body).unwrap_err(),
            DecodeError::Empty,
            "{body:?}"
        );
    }
    for body in ["hello", "{", "[", "{\"a\":1", "<html>\n</html>"] {
        assert!(run(NATIVE, body).is_err(), "{body:?}");
    }
    let (outcome, rows) = run(NATIVE, "[7]").unwrap();
    assert_eq!((rows.len(), outcome.rejected), (0, 1));
}

#[test]
fn a_damaged_record_costs_itself() {
    let body = "{\"message\":\"a\"}\n{\n  \"message\": oops,\n  \"x\": 1\n}\n{\"message\":\"b\"}\nhello\n7\n{\"message\":\"c\"}";
    let (outcome, rows) = run(NATIVE, body).unwrap();
    assert_eq!(
        rows.iter().map(Row::message).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    let places: Vec<_> = outcome
        .rejections
        .iter()
        .map(|rejection| rejection.index)
        .collect();
    assert_eq!((outcome.rejected, places), (3, vec![1, 3, 4]));
    assert_eq!(
        outcome.rejections[0].error,
        "cannot read the record at byte 31: no JSON value begins so; the rest of its line was not read"
    );
}

#[test]
fn a_damaged_record_of_an_array_costs_itself() {
    let damaged = [
        r#"{"message":b}"#,
        r#"{"message":"b" "x":1}"#,
        r#"{"message":"b",}"#,
        r#"{"message":"C:\path"}"#,
        r#"{"message":"he said "hi, you" to"}"#,
        r#"{"message":[1 2],"x":{"y":[{]}]}}"#,
        "hello",
        "nul",
        r#"{"message":"b"}}"#,
    ];
    for (number, bad) in damaged.into_iter().enumerate() {
        for (before, between) in [("", ","), ("\n", ",\n"), ("\n  ", ",\n  "), (" ", " ,\t")] {
            let members = [
                r#"{"message":"a"}"#,
                bad,
                r#"{"message":"c","n":[1,{"x":"],"}]}"#,
                r#"{"message":"d"}"#,
            ];
            let body = format!("[{before}{}]\n{{\"message\":\"e\"}}", members.join(between));
            let (outcome, rows) = run(NATIVE, &body).unwrap();
            let messages: Vec<_> = rows.iter().map(Row::message).collect();
            let places: Vec<_> = outcome.rejections.iter().map(|one| one.index).collect();
            // In these two the brackets of the damaged one do not tell where it ends.
            if number == 5 || number == 8 {
                assert!(
                    messages.starts_with(&["a"]) && messages.ends_with(&["e"]),
                    "{body}"
                );
                let unread = |one: &Rejection| one.error.contains("the rest of the array, ");
                assert!(outcome.rejections.iter().any(unread), "{body}: {outcome:?}");
                continue;
            }
            assert_eq!(messages, ["a", "c", "d", "e"], "{body}");
            assert_eq!((places, outcome.rejected), (vec![1], 1), "{body}");
        }
    }
}

#[test]
fn what_is_unread_of_an_array_is_told_in_bytes() {
    let rest = r#"{"message":"b","x":[}]},{"message":"c"}]"#;
    let body = format!("[{{\"message\":\"a\"}},{rest}\n{{\"message\":\"d\"}}");
    let (outcome, rows) = run(NATIVE, &body).unwrap();
    let messages: Vec<_> = rows.iter().map(Row::message).collect();
    assert_eq!((messages, outcome.rejected), (vec!["a", "d"], 1));
    let expected = format!(
        "cannot read the record at byte {}: no JSON value begins so; the rest of the array, {} bytes up to \
         the next line that can begin a record, could not be read",
        body.find("}]}").unwrap(),
        rest.len() + 1
    );
    assert_eq!(outcome.rejections[0].error, expected);
}

#[test]
fn a_comma_that_is_missing_between_records_costs_nothing() {
    let rows = accepted(
        NATIVE,
        r#"[{"message":"a"} {"message":"b"}{"message":"c"}]"#,
    );
    assert_eq!(
        rows.iter().map(Row::message).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
}

#[test]
fn a_damaged_record_that_shares_its_line_costs_itself() {
    for body in [
        r#"{"message":"a"} {"message":b} {"message":"c"}"#,
        r#"{"message":"a"},{"message":b},{"message":"c"}"#,
        "{\"message\":b}\r\n{\"message\":\"a\"}{\"message\":\"c\"}",
    ] {
        let (outcome, rows) = run(NATIVE, body).unwrap();
        let messages: Vec<_> = rows.iter().map(Row::message).collect();
        assert_eq!((messages, outcome.rejected), (vec!["a", "c"], 1), "{body}");
    }
}

#[test]
fn requests_of_otlp_are_told_where_they_belong() {
    let otlp = one(&control());
    for body in [
        otlp.as_str(),
        r#"{"resourceSpans":[{"scopeSpans":[]}]}"#,
        r#"{"resource_logs":[],"resourceMetrics":[]}"#,
    ] {
        let (outcome, rows) = run(NATIVE, body).unwrap();
        assert_eq!((rows.len(), outcome.rejected), (0, 1), "{body}");
        assert!(outcome.message.unwrap().contains("POST /v1/logs"), "{body}");
    }
    for body in [
        r#"{"resourceLogs":[],"message":"m"}"#,
        r#"{"resourceLogs":"m"}"#,
    ] {
        assert_eq!(accepted(NATIVE, body).len(), 1, "{body}");
    }
}

#[test]
fn numbers_of_levels_may_be_floats() {
    for (body, level, number) in [
        (r#"{"level":50.0}"#, Level::Error, 17),
        (r#"{"level":5e1}"#, Level::Error, 17),
        (r#"{"level":"50.0"}"#, Level::Error, 17),
        (r#"{"severityNumber":17.0}"#, Level::Error, 17),
        (r#"{"severity_number":"1.3e1"}"#, Level::Warn, 13),
        (r#"{"level":50.5}"#, Level::Unspecified, 0),
        (r#"{"short_message":"gelf","level":4.0}"#, Level::Warn, 13),
    ] {
        let record = only(body).record;
        assert_eq!(
            (record.level, record.severity_number),
            (level, number),
            "{body}"
        );
    }
}

#[test]
fn rejections_are_counted_exactly_and_listed_up_to_a_hundred() {
    let body = format!("{}{}", "7\n".repeat(5000), r#"{"message":"a"}"#);
    let (outcome, rows) = run(NATIVE, body).unwrap();
    assert_eq!(
        (rows.len(), outcome.rejected, outcome.rejections.len()),
        (1, 5000, 100)
    );
    assert!(
        outcome
            .message
            .unwrap()
            .starts_with("5000 of 5001 records rejected")
    );
}

#[test]
fn damage_is_not_read_over_and_over() {
    // Every line opens an array, so that each record would be damaged only at the body's end.
    let body = "{\"a\":[\n".repeat(50_000);
    let start = std::time::Instant::now();
    assert!(run(NATIVE, body).is_err());
    assert!(start.elapsed() < Duration::from_secs(5));
}
