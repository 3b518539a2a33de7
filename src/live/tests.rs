//! Tests of the hub over real frames: order, resuming, what is skipped and how it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::*;
use crate::frame::{BlockBuilder, Frame, ID_STEP, Seal};
use crate::query::{LevelSet, Query};
use crate::record::{Group, Level, Receiver, Record, Sink};

const NODE: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// The id of the `n`th record of the test's node.
fn id(n: u64) -> u64 {
    (n + 10) * ID_STEP + NODE
}

/// A frame of records number `first` and following, given as (level, service, message).
fn frame(first: u64, records: &[(Level, &'static str, String)]) -> Frame {
    let mut builder = BlockBuilder::new();
    for (i, (level, service, message)) in records.iter().enumerate() {
        builder.group(&Group {
            service: (*service).into(),
            environment: "prod".into(),
            scope_name: "".into(),
            scope_version: "".into(),
            resource: Vec::new(),
            receiver: Receiver::Json,
            received_at: 1,
        });
        builder.push(&Record {
            timestamp: i64::try_from(first).unwrap() * 1000 + i64::try_from(i).unwrap(),
            level: *level,
            message: message.as_str().into(),
            ..Record::default()
        });
    }
    builder.seal(&Seal {
        node: u16::try_from(NODE).unwrap(),
        first_id: id(first),
        sealed_at: 1_700_000_000_000,
        digests: Vec::new(),
    })
}

/// A frame of `count` records of level info, each with its number as message.
fn numbered(first: u64, count: u64) -> Frame {
    let records: Vec<_> = (first..first + count)
        .map(|n| (Level::Info, "api", n.to_string()))
        .collect();
    frame(first, &records)
}

fn hub_of(ring_bytes: usize, buffer_bytes: usize, backfill: Option<Arc<dyn Backfill>>) -> Hub {
    let config = HubConfig {
        ring_bytes,
        buffer_bytes,
        start: Cursor::at(id(0)),
    };
    Hub::start(config, backfill).unwrap()
}

fn hub() -> Hub {
    hub_of(32 << 20, 4 << 20, None)
}

fn request() -> Subscribe {
    Subscribe {
        query: Query::default(),
        rate: 1_000_000,
        backlog: 0,
        after: None,
    }
}

/// An event of the stream, read as a browser would.
#[derive(Debug, Clone, PartialEq)]
struct Received {
    name: String,
    data: Value,
    id: Option<String>,
}

/// Reads the stream until `enough` says so; comments and lone ids are left out.
async fn read_until(viewer: &mut Viewer, enough: impl Fn(&[Received]) -> bool) -> Vec<Received> {
    let mut events = Vec::new();
    while !enough(&events) {
        let bytes = tokio::time::timeout(PATIENCE, viewer.next())
            .await
            .unwrap_or_else(|_| panic!("no more events after {events:?}"))
            .expect("the stream goes on");
        events.extend(parse(std::str::from_utf8(&bytes).unwrap()));
    }
    events
}

fn parse(text: &str) -> Vec<Received> {
    let event = |block: &str| {
        let field = |name: &str| {
            block
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        Some(Received {
            name: field("event: ")?,
            data: serde_json::from_str(&field("data: ")?).unwrap(),
            id: field("id: "),
        })
    };
    text.split("\n\n").filter_map(event).collect()
}

fn messages(events: &[Received]) -> Vec<String> {
    let logs = events.iter().filter(|event| event.name == "logs");
    logs.flat_map(|event| event.data.as_array().unwrap())
        .map(|record| record["message"].as_str().unwrap().to_owned())
        .collect()
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn read_messages(viewer: &mut Viewer, count: usize) -> Vec<String> {
    messages(&read_until(viewer, |events| messages(events).len() >= count).await)
}

fn named<'a>(events: &'a [Received], name: &str) -> Vec<&'a Received> {
    events.iter().filter(|event| event.name == name).collect()
}

#[tokio::test]
async fn records_come_in_order_with_the_newest_before_them() {
    let hub = hub();
    for n in 0..10 {
        hub.publish(numbered(1 + n * 10, 10));
    }
    let mut viewer = hub.subscribe(Subscribe {
        backlog: 25,
        ..request()
    });
    hub.publish(numbered(101, 1000));
    hub.publish(numbered(1101, 5));
    let events = read_until(&mut viewer, |events| messages(events).len() >= 1030).await;
    assert_eq!(events[0].name, "hello");
    assert_eq!(events[0].data["cursor"], format!("3:{}", id(100)));
    assert_eq!(messages(&events), numbers(76..1106));
    let sizes: Vec<_> = named(&events, "logs")
        .iter()
        .map(|event| event.data.as_array().unwrap().len())
        .collect();
    assert!(sizes.iter().all(|size| *size <= 500), "{sizes:?}");
    assert_eq!(events.last().unwrap().id, Some(format!("3:{}", id(1105))));
}

#[tokio::test]
async fn a_stream_resumes_strictly_after_any_event() {
    let hub = hub();
    let mut viewer = hub.subscribe(request());
    for n in 0..20 {
        hub.publish(numbered(1 + n * 100, 100));
    }
    let events = read_until(&mut viewer, |events| messages(events).len() >= 2000).await;
    let mut seen = 0;
    for event in named(&events, "logs") {
        seen += event.data.as_array().unwrap().len() as u64;
        let mut again = hub.subscribe(Subscribe {
            after: event.id.clone(),
            backlog: 7,
            ..request()
        });
        let left = usize::try_from(2000 - seen).unwrap();
        assert_eq!(
            read_messages(&mut again, left).await,
            numbers(seen + 1..2001)
        );
    }
    assert_eq!(seen, 2000);
}

#[tokio::test]
async fn a_query_shows_what_matches_and_resumes_within_a_frame() {
    let hub = hub();
    hub.publish(frame(
        1,
        &[
            (Level::Info, "api", "GET /a Timeout".into()),
            (Level::Error, "api", "timeout one".into()),
            (Level::Error, "db", "timeout two".into()),
            (Level::Fatal, "api", "TIMEOUT three".into()),
            (Level::Warn, "api", "fine".into()),
            (Level::Error, "api", "timeOut four".into()),
        ],
    ));
    let query = Query::parse("level>=error service:api env:prod timeout").unwrap();
    let wanted = Subscribe {
        query,
        backlog: 2,
        ..request()
    };
    let mut viewer = hub.subscribe(wanted.clone());
    assert_eq!(
        read_messages(&mut viewer, 2).await,
        ["TIMEOUT three", "timeOut four"]
    );
    let mut resumed = hub.subscribe(Subscribe {
        after: Some(Cursor::at(id(2)).to_string()),
        ..wanted
    });
    assert_eq!(
        read_messages(&mut resumed, 2).await,
        ["TIMEOUT three", "timeOut four"]
    );
}

#[tokio::test]
async fn viewers_of_one_query_share_the_same_bytes() {
    let hub = hub();
    let mut viewers: Vec<Viewer> = (0..3).map(|_| hub.subscribe(request())).collect();
    assert_eq!((hub.stats().viewers, hub.stats().filters), (3, 1));
    for viewer in &mut viewers {
        for _ in 0..3 {
            // retry, hello, id
            viewer.next().await.unwrap();
        }
    }
    hub.publish(numbered(1, 10));
    let mut places = Vec::new();
    for viewer in &mut viewers {
        let bytes = tokio::time::timeout(PATIENCE, viewer.next())
            .await
            .unwrap()
            .unwrap();
        places.push(bytes.as_ptr());
    }
    assert!(
        places.iter().all(|place| *place == places[0]),
        "written once: {places:?}"
    );
    drop(viewers);
    assert_eq!((hub.stats().viewers, hub.stats().filters), (0, 0));
}

#[tokio::test]
async fn a_viewer_that_does_not_read_is_told_exactly_what_it_missed() {
    let hub = hub_of(32 << 20, 20_000, None);
    let mut slow = hub.subscribe(request());
    let mut quick = hub.subscribe(request());
    let mut read = Vec::new();
    for n in 0..100 {
        let level = if n % 4 == 0 {
            Level::Error
        } else {
            Level::Info
        };
        let records: Vec<_> = (0..10)
            .map(|i| (level, "api", (n * 10 + i).to_string()))
            .collect();
        hub.publish(frame(1 + n * 10, &records));
        read.extend(read_messages(&mut quick, 10).await);
    }
    assert_eq!(read, numbers(0..1000), "the other viewer has all");
    let events = read_until(&mut slow, |events| !named(events, "skipped").is_empty()).await;
    let shown = messages(&events).len() as u64;
    let skipped = &events.last().unwrap().data;
    assert!(shown > 0 && shown < 500, "{shown}");
    assert_eq!(skipped["count"], 1000 - shown);
    assert_eq!(skipped["reason"], "slow");
    let by_level = |events: &[Received], level: &str| {
        let logs = named(events, "logs");
        let records = logs.iter().flat_map(|event| event.data.as_array().unwrap());
        records.filter(|record| record["level"] == level).count() as u64
    };
    assert_eq!(
        skipped["by_level"]["error"],
        250 - by_level(&events, "error")
    );
    assert_eq!(skipped["by_level"]["info"], 750 - by_level(&events, "info"));
    assert_eq!(hub.stats().skipped, 1000 - shown);
    hub.publish(numbered(1001, 1));
    assert_eq!(read_messages(&mut slow, 1).await, ["1001"], "live again");
}

#[tokio::test]
async fn records_over_the_rate_are_counted_by_level_and_errors_are_shown() {
    let hub = hub();
    let mut viewer = hub.subscribe(Subscribe {
        rate: 100,
        ..request()
    });
    let records: Vec<_> = (0..2000)
        .map(|n| match n % 100 {
            0 => (Level::Error, "api", n.to_string()),
            _ => (Level::Info, "api", n.to_string()),
        })
        .collect();
    hub.publish(frame(1, &records));
    let events = read_until(&mut viewer, |events| !named(events, "skipped").is_empty()).await;
    let skipped = events.last().unwrap();
    assert_eq!(messages(&events).len(), 100);
    assert_eq!(skipped.data["count"], 1900);
    assert_eq!(skipped.data["reason"], "rate");
    assert_eq!(skipped.data["by_level"], serde_json::json!({"info": 1900}));
    assert_eq!(skipped.id, Some(Cursor::at(id(2000)).to_string()));
}

#[tokio::test]
async fn a_hub_that_lags_behind_its_ring_says_how_many_records_it_lost() {
    let hub = hub_of(1, 4 << 20, None);
    let mut viewer = hub.subscribe(request());
    for n in 0..200 {
        hub.publish(numbered(1 + n * 50, 50));
    }
    let last = 10_000.to_string();
    let events = read_until(&mut viewer, |events| messages(events).last() == Some(&last)).await;
    let lost: u64 = named(&events, "gap")
        .iter()
        .map(|gap| gap.data["count"].as_u64().unwrap())
        .sum();
    assert_eq!(messages(&events).len() as u64 + lost, 10_000);
}

#[tokio::test]
async fn without_a_store_a_resume_from_before_the_ring_tells_of_a_gap() {
    let hub = hub_of(20_000, 4 << 20, None);
    for n in 0..50 {
        hub.publish(numbered(1 + n * 10, 10));
    }
    let resume = |after: &str| {
        hub.subscribe(Subscribe {
            after: Some(after.to_owned()),
            backlog: 10,
            ..request()
        })
    };
    for (after, reason) in [
        (Cursor::at(id(5)).to_string(), "expired"),
        (Cursor::at(NODE).to_string(), "restart"),
        ("no cursor".to_owned(), "expired"),
    ] {
        let mut viewer = resume(&after);
        let last = 500.to_string();
        let events = read_until(&mut viewer, |events| messages(events).last() == Some(&last)).await;
        assert_eq!(events[1].name, "gap");
        assert_eq!(events[1].data["reason"], reason);
        assert_eq!(
            messages(&events).len(),
            messages(&events)
                .iter()
                .collect::<std::collections::HashSet<_>>()
                .len()
        );
    }
}

/// A store that has records 1 to `upto`, and remembers what it was asked.
struct Shelf {
    upto: u64,
    asked: Mutex<Vec<(Option<Cursor>, Cursor, usize)>>,
}

impl Shelf {
    fn page(&self, after: Option<&Cursor>, up_to: &Cursor, limit: usize) -> Backfilled {
        self.asked
            .lock()
            .unwrap()
            .push((after.cloned(), up_to.clone(), limit));
        let all: Vec<_> = (1..=self.upto)
            .filter(|n| {
                up_to.has_passed(id(*n)) && !after.is_some_and(|after| after.has_passed(id(*n)))
            })
            .collect();
        let from = if after.is_some() {
            0
        } else {
            all.len().saturating_sub(limit)
        };
        let records = all[from..].iter().take(limit).rev().map(|n| StoredRecord {
            id: id(*n),
            message: n.to_string(),
            ..StoredRecord::default()
        });
        Backfilled {
            records: records.collect(),
            complete: all.len() <= limit,
        }
    }
}

impl Backfill for Shelf {
    fn between<'a>(
        &'a self,
        after: &'a Cursor,
        up_to: &'a Cursor,
        _: &'a Query,
        limit: usize,
    ) -> BoxFuture<'a, Result<Backfilled, BackfillError>> {
        Box::pin(async move { Ok(self.page(Some(after), up_to, limit)) })
    }

    fn newest<'a>(
        &'a self,
        up_to: &'a Cursor,
        _: &'a Query,
        limit: usize,
    ) -> BoxFuture<'a, Result<Backfilled, BackfillError>> {
        Box::pin(async move { Ok(self.page(None, up_to, limit)) })
    }
}

#[tokio::test]
async fn what_the_ring_lacks_comes_from_the_store_without_hole_or_repeat() {
    let shelf = Arc::new(Shelf {
        upto: 500,
        asked: Mutex::default(),
    });
    let hub = hub_of(
        20_000,
        4 << 20,
        Some(Arc::clone(&shelf) as Arc<dyn Backfill>),
    );
    for n in 0..50 {
        hub.publish(numbered(1 + n * 10, 10));
    }
    let mut resumed = hub.subscribe(Subscribe {
        after: Some(Cursor::at(id(123)).to_string()),
        ..request()
    });
    let mut fresh = hub.subscribe(Subscribe {
        backlog: 450,
        ..request()
    });
    hub.publish(numbered(501, 3));
    assert_eq!(read_messages(&mut resumed, 380).await, numbers(124..504));
    assert_eq!(read_messages(&mut fresh, 453).await, numbers(51..504));
    let asked = shelf.asked.lock().unwrap();
    assert_eq!(asked[0].0, Some(Cursor::at(id(123))));
    assert_eq!(asked.len(), 2, "once for each viewer");
}

#[tokio::test]
async fn more_than_a_stream_catches_up_on_makes_a_gap_and_a_backlog() {
    let hub = hub_of(64 << 20, 4 << 20, None);
    hub.publish(numbered(1, 40_000));
    hub.publish(numbered(40_001, 40_000));
    let mut viewer = hub.subscribe(Subscribe {
        after: Some(Cursor::at(id(10)).to_string()),
        backlog: 50,
        ..request()
    });
    let events = read_until(&mut viewer, |events| messages(events).len() >= 50).await;
    assert_eq!(events[1].data["reason"], "limit");
    assert_eq!(messages(&events), numbers(79_951..80_001));
}

#[tokio::test]
async fn closing_says_bye_and_ends_the_stream() {
    let hub = hub();
    let mut viewer = hub.subscribe(request());
    hub.publish(numbered(1, 5));
    assert_eq!(read_messages(&mut viewer, 5).await.len(), 5);
    hub.close();
    let events = read_until(&mut viewer, |events| !events.is_empty()).await;
    assert_eq!(events[0].name, "bye");
    assert_eq!(events[0].data["reason"], "shutdown");
    assert_eq!(viewer.next().await, None);
    let mut late = hub.subscribe(request());
    let events = read_until(&mut late, |events| !named(events, "bye").is_empty()).await;
    assert_eq!(events.len(), 2, "hello and bye");
}

#[tokio::test]
async fn a_tick_moves_the_cursor_on_though_nothing_matches() {
    let hub = hub();
    hub.report(77, false);
    let nothing = Query::levels(LevelSet::NONE);
    let mut viewer = hub.subscribe(Subscribe {
        query: nothing,
        ..request()
    });
    hub.publish(numbered(1, 50));
    let events = read_until(&mut viewer, |events| !named(events, "tick").is_empty()).await;
    let tick = events.last().unwrap();
    assert_eq!(tick.id, Some(Cursor::at(id(50)).to_string()));
    assert_eq!(tick.data["queue"], 77);
    assert_eq!(tick.data["store_ok"], false);
    assert_eq!(tick.data["match_rate"], 0.0);
    assert!(tick.data["in_rate"].as_f64().unwrap() > 9.0);
}
