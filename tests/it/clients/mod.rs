//! Real clients against the real daemon: `otel-examples/`, run as their READMEs say.

mod collector;
mod docs;
mod sdk;
mod shell;
mod shippers;
mod tap;

use std::path::PathBuf;

use serde_json::Value;

use crate::support::daemon::{Daemon, watchtower};

/// The file or folder of the repository with this path.
fn repository(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), path].iter().collect()
}

/// The text in a field of a record; empty if there is none.
fn text(record: &Value, field: &str) -> String {
    record[field].as_str().unwrap_or_default().to_owned()
}

/// Waits for so many records of a service and returns them, oldest first, once they are seen alike
/// in all three ways: live, by a search, and by SQL.
fn landed(daemon: &Daemon, service: &str, count: usize) -> Vec<Value> {
    let url = format!("http://{}", daemon.web);
    let printed = |args: &[&str]| -> Vec<Value> {
        let common = ["--url", &url, "--service", service, "--json", "-n", "100"];
        let output = watchtower(&[args, &common].concat(), "");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let live = printed(&["tail", "--limit", &count.to_string()]);
    daemon.wait_stored();
    // What a file says may be old.
    let stored = printed(&["search", "--from", "2000-01-01T00:00:00Z"]);
    let by_id = |mut records: Vec<Value>| {
        records.sort_by_key(|record| text(record, "id").parse::<u64>().unwrap());
        records
    };
    assert_eq!(by_id(stored), live, "what was seen live is what is found");

    let fields = ["level", "environment", "message", "trace_id", "span_id"];
    // As JSON, since a message may have several lines.
    let rows = daemon.sql(&format!(
        "SELECT toJSONString([{}, attributes['order.id']]) FROM logs WHERE service = '{service}' ORDER BY id",
        fields.join(", ")
    ));
    let rows = rows.concat().into_iter();
    let rows = rows.map(|row| serde_json::from_str::<Vec<String>>(&row).unwrap());
    let expected = live.iter().map(|record| {
        let mut row = fields.map(|field| text(record, field)).to_vec();
        row.push(text(&record["attributes"], "order.id"));
        row
    });
    assert_eq!(
        rows.collect::<Vec<_>>(),
        expected.collect::<Vec<_>>(),
        "ClickHouse has the same"
    );
    live
}
