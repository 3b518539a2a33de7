//! The catalogue of fields: every name that records had is in it, and nothing depends on it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use watchtower::config::{ByteSize, Period};
use watchtower::store::{Client, Guard, Schema};

use crate::support::daemon::Daemon;
use crate::support::engine::{TestEngine, query};
use crate::support::http;
use crate::support::records::numbered;
use crate::support::writer::{COUNT, Running};

const NAMES: &str = "SELECT name, kind, sum(records) FROM watchtower.field_names GROUP BY name, kind \
     ORDER BY name FORMAT CSV";
/// What [`numbered`] records have.
const OF_NUMBERED: &str = "\"host.name\",\"resource\",N\n\"user\",\"attribute\",N";

fn of_numbered(count: usize) -> String {
    OF_NUMBERED.replace('N', &count.to_string())
}

/// Waits until a query prints this.
async fn until(client: &Client, sql: &str, expected: &str) {
    let reached = timeout(Duration::from_secs(40), async {
        while query(client, sql).await != expected {
            sleep(Duration::from_millis(20)).await;
        }
    });
    if reached.await.is_err() {
        assert_eq!(query(client, sql).await, expected);
    }
}

fn post(daemon: &Daemon, records: &Value) {
    let body = records.to_string();
    let sent = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes()).unwrap();
    assert_eq!(sent.status, 202, "{}", sent.text());
    daemon.wait_stored();
}

fn fields(daemon: &Daemon, params: &str) -> Vec<Value> {
    let answer = http::get(daemon.web, &format!("/api/fields?{params}")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["fields"].as_array().unwrap().clone()
}

/// Case: a field is seen once, and 200,000 records without it come after.
/// Holds: it is among the fields, with its day; ranges and prefixes choose among the names.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_seen_once_is_found_under_many_later_records() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let dir = tempfile::tempdir().unwrap();
    let extra = engine.as_store().await;
    let daemon = tokio::task::block_in_place(|| Daemon::start(dir.path(), &extra));
    let now = jiff::Timestamp::now();
    let today = now.strftime("%Y-%m-%d").to_string();
    let earlier = now - jiff::SignedDuration::from_hours(5 * 24);
    let (first, last) = (earlier.strftime("%Y-%m-%d").to_string(), today.clone());
    tokio::task::block_in_place(|| {
        post(
            &daemon,
            &json!([
                {"timestamp": now.to_string(), "message": "one", "rare.thing": 1, "Common": 1},
                {"timestamp": earlier.to_string(), "message": "old", "Common": 2},
            ]),
        );
    });
    let bury = "INSERT INTO watchtower.logs (timestamp, id, message, attributes)
        SELECT now64(9) + 1, number, 'x', map('Common', 'y') FROM numbers(200000)";
    client.execute(bury).await.unwrap();
    tokio::task::block_in_place(|| {
        let rare = json!({"name": "rare.thing", "kind": "attribute", "count": 1,
            "first_seen": today, "last_seen": today});
        daemon.wait_until("the field is known", || {
            fields(&daemon, "prefix=rare") == [rare.clone()]
        });
        let common = json!({"name": "Common", "kind": "attribute", "count": 2,
            "first_seen": first, "last_seen": last});
        assert_eq!(fields(&daemon, "prefix=cOm"), [common]);
        let names = |params: &str| -> Vec<String> {
            let of = fields(&daemon, params).into_iter();
            of.filter(|field| field["kind"] != "column")
                .map(|field| field["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("to=3d"), ["Common"]);
        assert_eq!(names("from=2h"), ["Common", "rare.thing"]);
        assert_eq!(names("limit=1"), ["Common"]);
        // The names of a query's records are theirs.
        assert_eq!(names("q=old&from=7d"), ["Common"]);
    });
}

/// Case: the daemon is killed after it has stored a record with a field that is new.
/// Holds: the field is known when it is back.
#[test]
fn a_crash_loses_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    post(&daemon, &json!([{"message": "one", "rare.thing": 1}]));
    let daemon = daemon.kill_and_restart();
    daemon.wait_until("the field is known", || {
        fields(&daemon, "prefix=rare.thing").len() == 1
    });
}

/// Case: there are records from before there was a catalogue.
/// Holds: their names are read once, and those of new records are added.
#[tokio::test]
async fn days_from_before_the_catalogue_are_read() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let old = "INSERT INTO watchtower.logs (timestamp, id, message, attributes, resource)
        SELECT now64(9) - toIntervalDay(number % 3), number, 'x', \
        map('old' || (number % 2), 'y', 'otel.scope.lib', 'z'), map('host.name', 'h') FROM numbers(30)";
    client.execute(old).await.unwrap();
    let running = Running::start(&engine, client.clone());
    let all = "\"host.name\",\"resource\",30\n\"old0\",\"attribute\",15\n\"old1\",\"attribute\",15\n\
               \"otel.scope.lib\",\"scope\",30";
    until(&client, NAMES, all).await;
    running.queue.append(numbered(0, 5)).await.unwrap();
    let days = "SELECT uniqExact(day) FROM watchtower.field_names WHERE name = 'user'";
    until(&client, days, "1").await;
    let queue = running.queue.clone();
    running.drain().await;
    queue.close().await;
    // And not again.
    let running = Running::start(&engine, client.clone());
    running.queue.append(numbered(5, 5)).await.unwrap();
    running.drain().await;
    let after = all.replace("\"resource\",30", "\"resource\",40");
    assert_eq!(
        query(&client, NAMES).await,
        after + "\n\"user\",\"attribute\",10"
    );
}

/// Case: the catalogue's table cannot take anything, then it is gone.
/// Holds: records are stored; once the table can be made again it has what was noted meanwhile.
#[tokio::test]
async fn records_are_stored_whatever_becomes_of_the_catalogue() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let drop_table = "DROP TABLE watchtower.field_names SYNC";
    client.execute(drop_table).await.unwrap();
    let other =
        "CREATE TABLE watchtower.field_names (other UInt8) ENGINE = MergeTree ORDER BY other";
    client.execute(other).await.unwrap();
    let mut running = Running::start(&engine, client.clone());
    for i in 0..3 {
        running.queue.append(numbered(i * 100, 100)).await.unwrap();
    }
    running
        .wait_for(|status| status.stored_records == [0, 300, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "300,300");
    client.execute(drop_table).await.unwrap();
    running.drain().await;
    assert_eq!(query(&client, NAMES).await, of_numbered(300));
}

/// Holds: names are kept as long as the longest retention says, and go with days that are dropped.
#[tokio::test]
async fn names_go_with_their_records() {
    let mut engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let table = "SHOW CREATE TABLE watchtower.field_names FORMAT TSVRaw";
    assert!(query(&client, table).await.contains("toIntervalDay(31)"));
    engine.config.retention = Period::days(400);
    Schema::new(&engine.config).ensure(&client).await.unwrap();
    assert!(query(&client, table).await.contains("toIntervalDay(401)"));

    let logs = "INSERT INTO watchtower.logs (timestamp, id, message)
        SELECT now64(9) - toIntervalDay(number), number, 'x' FROM numbers(3)";
    client.execute(logs).await.unwrap();
    let names = "INSERT INTO watchtower.field_names
        SELECT toDate(now()) - number, 'attribute', 'n' || number, 1 FROM numbers(3)";
    client.execute(names).await.unwrap();
    engine.config.store.min_free = ByteSize::bytes(1 << 60);
    let mut guard = Guard::new(client.clone(), &engine.config);
    guard.look().await.unwrap();
    until(&client, NAMES, "\"n0\",\"attribute\",1").await;
}
