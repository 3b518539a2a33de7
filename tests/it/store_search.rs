//! Search against the real engine: every record once, in order, and nothing that was not asked for.

use std::time::Duration;

use watchtower::api::{Order, Position, SearchQuery};
use watchtower::frame::Frame;
use watchtower::live::{Cursor, StoredRecord};
use watchtower::query::{Column, LevelSet, Query};
use watchtower::record::Level;
use watchtower::store::{Client, Param, Reader, ReaderLimits};

use crate::support::engine::TestEngine;
use crate::support::records::{NODE, frame, id_at, now_ms, record};

/// A search for everything, newest first.
pub(crate) fn everything() -> SearchQuery {
    SearchQuery {
        query: Query::default(),
        from: None,
        to: None,
        before: None,
        after: None,
        order: Order::Newest,
        limit: 1000,
    }
}

async fn insert(client: &Client, frame: &Frame) {
    let sql = "INSERT INTO watchtower.logs FORMAT Native";
    let within = Duration::from_secs(10);
    client
        .insert(sql, &[], [frame.payload()], within)
        .await
        .unwrap();
}

fn place(record: &StoredRecord) -> Position {
    Position {
        timestamp: record.timestamp,
        id: record.id,
    }
}

#[tokio::test]
async fn pages_over_equal_times_hold_every_record_once() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let now = now_ms();
    // Times in threes, in two parts whose ids are mixed in time.
    for part in 0..2 {
        let records: Vec<_> = (0..50)
            .map(|i| record((now - i / 3) * 1_000_000, format!("{part} {i}")))
            .collect();
        insert(&client, &frame(id_at(now, part * 1000), &records)).await;
    }
    let reader = Reader::new(client, &engine.config, ReaderLimits::default());
    let all = reader.page(&everything()).await.unwrap();
    assert_eq!(all.records.len(), 100);
    assert!(!all.has_more);
    assert!(all.records.is_sorted_by(|a, b| place(a) > place(b)));

    for order in [Order::Newest, Order::Oldest] {
        let mut found = Vec::new();
        let mut last = None;
        loop {
            let query = SearchQuery {
                order,
                limit: 7,
                before: last.filter(|_| order == Order::Newest),
                after: last.filter(|_| order == Order::Oldest),
                ..everything()
            };
            let page = reader.page(&query).await.unwrap();
            last = page.records.last().map(place);
            found.extend(page.records);
            if !page.has_more {
                break;
            }
        }
        if order == Order::Oldest {
            found.reverse();
        }
        assert_eq!(found, all.records, "{order:?}");
    }
}

#[tokio::test]
async fn every_field_comes_back() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let now = now_ms();
    let mut sent = record(
        now * 1_000_000 + 7,
        "tabs\tquotes'\"\\ \u{0} 🦉\n".to_owned(),
    );
    sent.trace_id = Some([0xab; 16]);
    sent.span_id = Some([0xcd; 8]);
    sent.trace_flags = 1;
    sent.event_name = "paid".into();
    let keys = ["b", "a", "z.y"];
    sent.attributes = keys.map(|key| (key.into(), "v'\\\n".into())).to_vec();
    let id = id_at(now, 0);
    insert(&client, &frame(id, &[sent])).await;

    let reader = Reader::new(client, &engine.config, ReaderLimits::default());
    let found = reader.by_id(id, None).await.unwrap().unwrap();
    let received_at = found.received_at;
    assert!((now..now + 10_000).contains(&received_at));
    let expected = StoredRecord {
        id,
        timestamp: now * 1_000_000 + 7,
        level: Level::Info,
        severity_number: 9,
        severity_text: "INFO".to_owned(),
        service: "checkout".to_owned(),
        environment: "production".to_owned(),
        message: "tabs\tquotes'\"\\ \u{0} 🦉\n".to_owned(),
        trace_id: "ab".repeat(16),
        span_id: "cd".repeat(8),
        trace_flags: 1,
        event_name: "paid".to_owned(),
        scope_name: "tests".to_owned(),
        scope_version: "1".to_owned(),
        attributes: keys
            .map(|key| (key.to_owned(), "v'\\\n".to_owned()))
            .to_vec(),
        resource: vec![("host.name".to_owned(), "box-1".to_owned())],
        receiver: "otlp_http".to_owned(),
        received_at,
    };
    assert_eq!(found, expected);
    assert_eq!(reader.by_id(id + 1, Some(5)).await.unwrap(), None);
}

#[tokio::test]
async fn filters_take_any_text_as_text() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let now = now_ms();
    let texts = [
        "plain",
        "it's {p0:String}",
        "100% \\ back\\slash\\n",
        "tab\there",
        "lines\r\nand\nmore\r",
        "nul\0here",
        "back`tick \"quoted\"",
        "'); DROP TABLE logs --",
        "Grün ÄÖÜ",
    ];
    let mut records: Vec<_> = texts
        .iter()
        .map(|text| record(now * 1_000_000, format!("x {text} y")))
        .collect();
    records[0].level = Level::Error;
    insert(&client, &frame(id_at(now, 0), &records)).await;
    let reader = Reader::new(client, &engine.config, ReaderLimits::default());
    let search = async |query| {
        let query = SearchQuery {
            query,
            ..everything()
        };
        reader.page(&query).await.unwrap().records.len()
    };
    let filter = |levels, services: &[&str], environments: &[&str], text: &str| {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Query::levels(levels)
            .and(Query::one_of(Column::Service, &owned(services)))
            .and(Query::one_of(Column::Environment, &owned(environments)))
            .and(Query::message(text))
    };
    for text in texts {
        assert_eq!(
            search(filter(LevelSet::ALL, &[], &[], text)).await,
            1,
            "{text}"
        );
        let upper = text.to_uppercase();
        assert_eq!(
            search(filter(LevelSet::ALL, &[], &[], &upper)).await,
            1,
            "{upper}"
        );
        assert_eq!(
            search(filter(LevelSet::ALL, &[text], &[], "")).await,
            0,
            "{text}"
        );
    }
    let both = ["other's", "tab\t\\ \n", "checkout"];
    assert_eq!(
        search(filter(LevelSet::ALL, &both, &["production"], "")).await,
        texts.len()
    );
    assert_eq!(
        search(filter(LevelSet::ALL, &both, &["staging"], "")).await,
        0
    );
    let severe = LevelSet::at_least(Level::Warn);
    assert_eq!(search(filter(severe, &[], &[], "")).await, 1);
    assert_eq!(search(filter(LevelSet::NONE, &[], &[], "")).await, 0);
}

#[tokio::test]
async fn parameters_arrive_byte_for_byte() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    let texts: Vec<String> = (0..=0x17f_u32)
        .filter_map(char::from_u32)
        .map(|char| format!("{char}x{char}{char}"))
        .chain(["".to_owned(), "\r\n--x\r\n".to_owned(), "\\N".to_owned()])
        .collect();
    let hex = |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02X}")).collect() };
    let within = Duration::from_secs(10);
    let many = Param::texts("many", texts.iter().map(String::as_str));
    let sql = "SELECT arrayStringConcat(arrayMap(one -> hex(one), {many:Array(String)}), ',')";
    let answer = client.select(sql, &[], &[many], within).await.unwrap();
    let sent: Vec<String> = texts.iter().map(|text| hex(text)).collect();
    assert_eq!(String::from_utf8_lossy(&answer).trim_end(), sent.join(","));
    for text in &texts {
        let one = Param::text("one", text);
        let sql = "SELECT hex({one:String})";
        let answer = client.select(sql, &[], &[one], within).await;
        let answer = answer.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(
            String::from_utf8_lossy(&answer).trim_end(),
            hex(text),
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn cursors_select_what_one_has_passed_and_the_other_has_not() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let now = now_ms();
    // Event times run against the order of arrival.
    let records: Vec<_> = (0..20)
        .map(|i| record((now - i) * 1_000_000, format!("{i}")))
        .collect();
    let first = id_at(now, 0);
    let sent = frame(first, &records);
    insert(&client, &sent).await;
    let reader = Reader::new(client, &engine.config, ReaderLimits::default());
    assert_eq!(
        reader.last_ids().await.unwrap(),
        Cursor::at(sent.header().last_id)
    );

    let at = |sequence: u64| Cursor::at(first + (sequence << 10));
    let all = Query::default();
    let messages = |records: Vec<StoredRecord>| -> Vec<String> {
        records.into_iter().map(|record| record.message).collect()
    };
    let between = reader
        .between(Some(&at(4)), &at(8), &all, 100)
        .await
        .unwrap();
    assert_eq!(messages(between), ["5", "6", "7", "8"]);
    let some = reader.between(Some(&at(4)), &at(8), &all, 2).await.unwrap();
    assert_eq!(messages(some), ["5", "6"]);
    let newest = reader.between(None, &at(8), &all, 3).await.unwrap();
    assert_eq!(messages(newest), ["8", "7", "6"]);
    let other = Cursor::at((first + (8 << 10)) - u64::from(NODE));
    assert!(
        reader
            .between(None, &other, &all, 3)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn search_beyond_its_limits_says_so() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let now = now_ms();
    let records: Vec<_> = (0..20_000)
        .map(|i| record((now - i) * 1_000_000, format!("{i}")))
        .collect();
    insert(&client, &frame(id_at(now, 0), &records)).await;
    let limits = ReaderLimits {
        rows: 1000,
        ..ReaderLimits::default()
    };
    let reader = Reader::new(client, &engine.config, limits);
    let nothing = Query::message("no txt");
    let query = SearchQuery {
        query: nothing,
        ..everything()
    };
    let page = reader.page(&query).await.unwrap();
    assert!(!page.complete && page.records.is_empty() && !page.has_more);
}
