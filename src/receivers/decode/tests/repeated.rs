//! Keys that come twice in OTLP JSON, and what stands in the wrong place.

use super::*;

fn logs(text: &str) -> String {
    format!(r#"[{{"timeUnixNano":"{NOW}","body":{{"stringValue":"{text}"}}}}]"#)
}

fn scopes(text: &str) -> String {
    format!(r#"[{{"logRecords":{}}}]"#, logs(text))
}

fn resource(service: &str, key: &str) -> String {
    format!(
        r#"{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}},{{"key":"{key}","value":{{"intValue":1}}}}]}}"#
    )
}

fn messages(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(Row::message).collect()
}

#[test]
fn j_16_lists_that_come_twice_are_joined_and_null_takes_nothing_away() {
    let (one, two) = (scopes("1"), scopes("2"));
    let shop = resource("shop", "k");
    for members in [
        format!(r#""resource":{shop},"scopeLogs":{one},"scopeLogs":{two}"#),
        format!(r#""scopeLogs":{one},"scope_logs":{two},"resource":{shop}"#),
        format!(
            r#""scopeLogs":{one},"resource":{shop},"scopeLogs":null,"scopeLogs":{two},"resource":null"#
        ),
        format!(
            r#""resource":null,"resource":{shop},"scopeLogs":[null,{{"logRecords":{},"logRecords":{},"scope":null}}]"#,
            logs("1"),
            logs("2")
        ),
        format!(
            r#""resource":{shop},"scopeLogs":[{{"logRecords":{},"logRecords":null,"log_records":{}}}]"#,
            logs("1"),
            logs("2")
        ),
    ] {
        let rows = accepted(JSON, format!(r#"{{"resourceLogs":[{{{members}}}]}}"#));
        assert_eq!(messages(&rows), ["1", "2"], "{members}");
        for row in &rows {
            assert_eq!(
                (row.group.service.as_ref(), row.resource("k")),
                ("shop", Some("1")),
                "{members}"
            );
        }
    }
    let body = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":{one}}}],"resourceLogs":null,"resource_logs":[{{"scopeLogs":{two}}}]}}"#
    );
    assert_eq!(messages(&accepted(JSON, body)), ["1", "2"]);
}

#[test]
fn j_16_resources_and_scopes_that_come_twice_are_joined() {
    let body = format!(
        r#"{{"resourceLogs":[{{"resource":{},"resource":{},"scopeLogs":[{{"scope":{{"name":"n","attributes":[{{"key":"a","value":{{"intValue":1}}}}]}},"scope":{{"version":"v"}},"logRecords":{}}}]}}]}}"#,
        resource("old", "first"),
        resource("new", "second"),
        logs("m")
    );
    let row = accepted(JSON, body).remove(0);
    assert_eq!(row.group.service, "new");
    assert_eq!(
        (row.resource("first"), row.resource("second")),
        (Some("1"), Some("1"))
    );
    assert_eq!(
        (
            row.group.scope_name.as_ref(),
            row.group.scope_version.as_ref()
        ),
        ("n", "v")
    );
    assert_eq!(row.attribute("otel.scope.a"), Some("1"));
}

#[test]
fn j_10_null_is_no_member_of_any_list() {
    for body in [
        r#"{"resourceLogs":[null]}"#.to_owned(),
        r#"{"resourceLogs":[{"scopeLogs":[null]}]}"#.to_owned(),
        one("null"),
    ] {
        assert_eq!(accepted(JSON, &body), [], "{body}");
    }
    assert_eq!(
        messages(&accepted(JSON, one(&format!("null,{},null", control())))),
        ["ctl"]
    );
}

#[test]
fn h_13_an_empty_object_is_an_empty_request_without_a_warning() {
    assert_eq!(accepted(JSON, "{}"), []);
    let (outcome, _) = run(JSON, r#"{"resourceSpans":[]}"#).unwrap();
    assert!(
        outcome
            .message
            .unwrap()
            .contains("unknown to OTLP logs: resourceSpans")
    );
}

#[test]
fn j_12_what_is_no_list_is_kept_as_what_it_is() {
    for (body, message) in [
        (r#"{"arrayValue":"x"}"#, "x"),
        (r#"{"kvlistValue":"x"}"#, "x"),
        (r#"{"arrayValue":7}"#, "7"),
        (r#"{"kvlistValue":true}"#, "true"),
        (r#"{"intValue":"x"}"#, "x"),
        (
            r#"{"arrayValue":{"values":[{"arrayValue":"x"},{"kvlistValue":7}]}}"#,
            r#"["x",7]"#,
        ),
    ] {
        assert_eq!(message_of(body), message, "{body}");
        let (outcome, _) = run(JSON, one(&format!(r#"{{"body":{body}}}"#))).unwrap();
        assert!(outcome.repairs.odd_values > 0, "{body}");
    }
}
