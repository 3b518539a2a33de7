//! The attributes of a scope among those of its records.

use super::*;

fn pair(key: &str, value: &str) -> String {
    format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#)
}

fn pairs(prefix: &str, count: usize) -> String {
    let pairs: Vec<_> = (0..count)
        .map(|i| pair(&format!("{prefix}{i}"), "v"))
        .collect();
    pairs.join(",")
}

fn scoped(scope: &str, records: &str) -> Vec<Row> {
    accepted(
        JSON,
        format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{}]}},"scopeLogs":[{{"scope":{{{scope}}},"logRecords":[{records}]}}]}}]}}"#,
            pair("same", "RES")
        ),
    )
}

#[test]
fn m_23_m_28_resource_scope_and_record_keep_their_own_value_of_one_key() {
    let scope = format!(
        r#""attributes":[{},{},{}]"#,
        pair("same", "SCOPE"),
        pair("only", "SCOPE"),
        pair("full", "SCOPE")
    );
    let record = format!(
        r#"{{"attributes":[{},{}]}},{{}}"#,
        pair("same", "LOG"),
        [
            pair("otel.scope.full", "LOG"),
            pair("otel.scope.nobodys", "LOG")
        ]
        .join(",")
    );
    let rows = scoped(&scope, &record);
    assert_eq!(rows[0].resource("same"), Some("RES"));
    for (key, first, second) in [
        ("same", Some("LOG"), None),
        ("only", None, None),
        ("otel.scope.same", Some("SCOPE"), Some("SCOPE")),
        ("otel.scope.only", Some("SCOPE"), Some("SCOPE")),
        // A record's own attribute under the whole name does not pass for the scope's, nor is it lost.
        ("otel.scope.full", Some("SCOPE"), Some("SCOPE")),
        ("watchtower.sent.otel.scope.full", Some("LOG"), None),
        ("otel.scope.nobodys", None, None),
        ("watchtower.sent.otel.scope.nobodys", Some("LOG"), None),
    ] {
        let found = [rows[0].attribute(key), rows[1].attribute(key)];
        assert_eq!(found, [first, second], "{key}");
    }
}

#[test]
fn m_32_a_scope_takes_no_room_from_its_records_and_counts_for_itself() {
    let scope = format!(r#""attributes":[{}]"#, pairs("s", 3000));
    let record = |count| format!(r#"{{"attributes":[{}]}}"#, pairs("r", count));
    let records = [record(1), record(512), record(513), record(3000)].join(",");
    let rows = scoped(&scope, &records);
    let cut = |row: &Row, key| row.attribute(key).map(str::to_owned);
    for (row, (own, total)) in
        rows.iter()
            .zip([(1, None), (512, None), (512, Some(513)), (512, Some(3000))])
    {
        let keys = |prefix| {
            let keys = row.record.attributes.iter();
            keys.filter(|(key, _)| key.starts_with(prefix)).count()
        };
        assert_eq!((keys("r"), keys("otel.scope.s")), (own, 512));
        let note = total.map(|total| format!("attributes ({total})"));
        assert_eq!(cut(row, "watchtower.truncated"), note);
        let note = Some("attributes (3000)".to_owned());
        assert_eq!(cut(row, "otel.scope.watchtower.truncated"), note);
    }
}

#[test]
fn scope_attributes_are_no_message_of_a_record_without_one() {
    let scope = format!(r#""attributes":[{}]"#, pair("exception.message", "no"));
    assert_eq!(scoped(&scope, "{}")[0].message(), "");
}
