//! The histogram against the real engine: what it counts is what is there, over any range.

use std::collections::BTreeMap;

use serde_json::Value;
use watchtower::store::Client;

use crate::support::daemon::Daemon;
use crate::support::engine::{TestEngine, query};
use crate::support::http;

const DAYS: i64 = 20;
const PER_DAY: i64 = 2_000;

/// Fills the table by inserts of a few days each, some of which are merged; times end at `now`.
async fn fill(client: &Client, now: i64) {
    for day in 0..DAYS {
        let insert = format!(
            "INSERT INTO watchtower.logs (timestamp, id, level, service, environment, message, attributes)
             SELECT fromUnixTimestamp64Nano(toInt64({now} - ({day} * {PER_DAY} + number) * 43200000000), 'UTC'),
                    {day} * {PER_DAY} + number, ['info', 'warn', 'error'][1 + cityHash64(number) % 3],
                    ['shop', 'auth'][1 + cityHash64(number, 1) % 2], 'prod', 'number ' || number, map('n', 'x')
             FROM numbers({PER_DAY})"
        );
        client.execute(&insert).await.unwrap();
        if day == DAYS / 2 {
            let merge = "OPTIMIZE TABLE watchtower.logs FINAL";
            client.execute(merge).await.unwrap();
        }
    }
}

/// Counts by bucket and level, and the answer's start, end and step.
fn ask(daemon: &Daemon, params: &str) -> (BTreeMap<(i64, String), u64>, [i64; 3]) {
    let answer = http::get(daemon.web, &format!("/api/logs/histogram?{params}")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["complete"], true);
    let number = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap();
    let mut counts = BTreeMap::new();
    for bucket in answer["buckets"].as_array().unwrap() {
        for (level, count) in bucket["levels"].as_object().unwrap() {
            let key = (number(&bucket["start"]), level.clone());
            counts.insert(key, count.as_u64().unwrap());
        }
    }
    (
        counts,
        ["start", "end", "step"].map(|name| number(&answer[name])),
    )
}

async fn counted(
    client: &Client,
    [start, end, step]: [i64; 3],
    condition: &str,
) -> BTreeMap<(i64, String), u64> {
    let sql = format!(
        "SELECT {start} + intDiv(toUnixTimestamp64Nano(timestamp) - {start}, {step}) * {step}, level, count() \
         FROM watchtower.logs WHERE toUnixTimestamp64Nano(timestamp) >= {start} \
         AND toUnixTimestamp64Nano(timestamp) < {end} AND {condition} GROUP BY ALL FORMAT TSV"
    );
    let lines = query(client, &sql).await;
    let row = |line: &str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap();
        let key = (next().parse().unwrap(), next().to_owned());
        (key, next().parse().unwrap())
    };
    lines.lines().map(row).collect()
}

/// Case: records over 20 days, in parts that are merged and in parts that are not.
/// Holds: every histogram has exactly the records of its range; without a beginning, all of them.
#[tokio::test(flavor = "multi_thread")]
async fn counts_are_those_of_the_rows_over_any_range() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
    fill(&client, now).await;
    let dir = tempfile::tempdir().unwrap();
    let extra = engine.as_store().await;
    let daemon = tokio::task::block_in_place(|| Daemon::start(dir.path(), &extra));
    let part = format!(
        "from={}&to={}",
        now - 7 * 86_400_000_000_123,
        now - 86_400_000_000_777
    );
    let all = "1";
    for (params, condition) in [
        ("", all),
        ("buckets=120", all),
        ("q=level:error", "level = 'error'"),
        (
            "q=service:sh*%20-level:info",
            "service = 'shop' AND level != 'info'",
        ),
        ("q=number", all),
        ("q=n:x%20level:warn", "level = 'warn'"),
        (part.as_str(), all),
        ("from=2h", all),
        ("from=24h&buckets=10", all),
    ] {
        let (counts, range) = tokio::task::block_in_place(|| ask(&daemon, params));
        assert_eq!(counts, counted(&client, range, condition).await, "{params}");
        assert!(!counts.is_empty(), "{params}");
        if params.is_empty() {
            let total: u64 = counts.values().sum();
            assert_eq!(total, u64::try_from(DAYS * PER_DAY).unwrap());
            let oldest = now - (DAYS * PER_DAY - 1) * 43_200_000_000;
            assert!((range[0]..range[0] + range[2]).contains(&oldest));
        }
    }
}

/// Holds: where there are no records, and where all are newer than the range, nothing is counted.
#[test]
fn a_histogram_of_nothing_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    assert!(ask(&daemon, "").0.is_empty());
    let body = br#"{"message": "one"}"#;
    let sent = http::post(daemon.web, "/api/logs", "application/json", body).unwrap();
    assert_eq!(sent.status, 202);
    daemon.wait_stored();
    assert!(ask(&daemon, "to=1h").0.is_empty());
    assert_eq!(ask(&daemon, "").0.values().sum::<u64>(), 1);
}
