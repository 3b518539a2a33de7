//! The two evaluators of queries against each other: the predicate over frames, which the live view uses,
//! and the SQL, run by the real engine. For any records and any query both must pick the same ids.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use watchtower::frame::{Block, BlockBuilder, Frame, Seal};
use watchtower::query::Query;
use watchtower::record::{Group, KeyValue, Level, Receiver, Record, Sink};
use watchtower::store::Client;

use crate::support::engine::{TestEngine, query};
use crate::support::records::{id_at, now_ms};

const NUM_FRAMES: u64 = 30;
const ROWS: usize = 100;
const NUM_QUERIES: usize = 2_000;

/// Text that is likely to meet itself again, and to break what is careless with it.
const PIECES: &[&str] = &[
    "time",
    "out",
    "TimeOut",
    "disk full",
    "50%",
    "a_b",
    "\\",
    "\n",
    "ä",
    "Ä",
    "ß",
    "ſ",
    "\u{212a}",
    "k",
    "K",
    "İ",
    "i",
    "日本",
    "'",
    "\"",
    "*",
    "\0",
    "\t",
    "[x]",
    "500",
    "5.0",
    "σ",
    "Σ",
    "ς",
    "é",
    "e\u{301}",
    " ",
    "x",
    "GET /api",
    "{p0:String}",
    "`",
    "aaa",
    "AAA",
    "dž",
    "Ǆ",
    "🦉",
    "\r",
    "\u{b}",
    "%",
    "_",
    "a1",
    "�",
];
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "5",
    "5.0",
    "+5",
    "007",
    "500",
    "499.999",
    "-3",
    "-3.5",
    "1e3",
    "0x10",
    "",
    " 5",
    "5 ",
    "999999999999999999",
    "1000000000000000000",
    "0.000000000000000001",
    "0.0000000000000000001",
    "abc",
    "1.",
    ".5",
    "1.5.2",
    "٣",
    "NaN",
    "inf",
    "500ms",
];
const NAMES: &[&str] = &[
    "api", "api-1", "Api", "my api", "web", "", "a*b", "a_b", "axb", "100%", "x\\y",
];
const KEYS: &[&str] = &[
    "user",
    "user.id",
    "status",
    "level",
    "odd key",
    "a%b",
    "host.name",
    "ä",
];
const REGEXES: &[&str] = &[
    r"\d+",
    "[a-z]",
    "(?i)k",
    "(?i)S",
    "ä|ö",
    "^",
    "$",
    ".",
    r"\bx",
    r"\s",
    r"[^x]",
    "a{2,3}",
    "(?:x|y)*",
    r"\w+",
    "(?m)^d",
    "(?m)t$",
    "[[:alpha:]]",
    r"\x41",
    "é?",
    r"\S",
    r"[\w%]",
    "(?i)ä",
    "(?s).",
    r"\n",
    "[x-z]$",
    r"\W",
    "(a|b)+?",
    r"\.",
    "()",
    "(?i)σ",
    r"[^\d]",
    r"\\",
    "a|",
    "日本",
    r"\[",
    "[%_]",
];

/// A small generator of random numbers, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn text(&mut self, most: usize) -> String {
        let count = self.below(most + 1);
        (0..count).map(|_| self.pick(PIECES)).collect()
    }

    fn value(&mut self) -> String {
        match self.below(3) {
            0 => self.pick(NUMBERS).to_owned(),
            1 => self.pick(NAMES).to_owned(),
            _ => self.text(2),
        }
    }

    fn map(&mut self) -> Vec<KeyValue<'static>> {
        let mut map: Vec<KeyValue<'static>> = Vec::new();
        for _ in 0..self.below(5) {
            let key = self.pick(KEYS);
            if map.iter().all(|(other, _)| other != key) {
                map.push((key.into(), self.value().into()));
            }
        }
        map
    }

    fn frame(&mut self, first_id: u64) -> Frame {
        let mut builder = BlockBuilder::new();
        for row in 0..ROWS {
            if row == 0 || self.below(4) == 0 {
                let group = Group {
                    service: self.pick(NAMES).into(),
                    environment: self.pick(NAMES).into(),
                    scope_name: self.pick(NAMES).into(),
                    scope_version: "".into(),
                    resource: self.map(),
                    receiver: Receiver::ALL[self.below(3)],
                    received_at: now_ms(),
                };
                builder.group(&group);
            }
            let some_id = [0xab, 0xcd, 0, 1][self.below(4)];
            builder.push(&Record {
                timestamp: now_ms() * 1_000_000,
                level: Level::ALL[self.below(7)],
                message: self.text(5).into(),
                trace_id: (some_id != 0).then_some([some_id; 16]),
                span_id: (some_id > 1).then_some([some_id; 8]),
                event_name: self.pick(NAMES).into(),
                attributes: self.map(),
                ..Record::default()
            });
        }
        builder.seal(&Seal {
            node: 7,
            first_id,
            sealed_at: now_ms(),
            digests: vec![],
        })
    }

    fn quoted(&mut self, text: &str) -> String {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }

    fn wanted(&mut self) -> String {
        let value = self.value();
        match self.below(5) {
            0 => format!(
                "{}*",
                self.pick(&["api", "a", "5", "x\\\\", "10", "ä", "%", "_"])
            ),
            1 => format!("*{}", self.pick(&["1", "b", "0", "ms", "", "Ä", "\\*b"])),
            2 => "a*b*".to_owned(),
            3 => value
                .chars()
                .filter(|char| !char.is_whitespace() && *char != '"')
                .chain(['5'])
                .collect(),
            _ => self.quoted(&value),
        }
    }

    fn atom(&mut self, first_id: u64) -> String {
        let columns = [
            "service", "env", "message", "trace_id", "span_id", "event", "scope", "receiver",
        ];
        match self.below(13) {
            0 => self.text(1),
            1 => {
                let text = self.text(2);
                self.quoted(&text)
            }
            2 => {
                let text = self.text(1);
                format!("*:{}", self.quoted(&text))
            }
            3 => {
                let relation = self.pick(&[":", ">", ">=", "<", "<="]);
                format!(
                    "level{relation}{}",
                    self.pick(&["trace", "INFO", "warn", "error", "fatal", "unspecified"])
                )
            }
            4 => format!(
                "level:{}",
                self.pick(&["*", "wa*", "(info OR err)", "f*", "e*r"])
            ),
            5 => {
                let column = self.pick(&columns);
                format!("{column}:{}", self.wanted())
            }
            6 => {
                let column = self.pick(&columns);
                format!(
                    "{column}:({} OR {} {})",
                    self.wanted(),
                    self.wanted(),
                    self.wanted()
                )
            }
            7 => {
                let known = ["*", "\"\"", "ABABABAB*", "json", "otlp*"];
                format!("{}:{}", self.pick(&columns), self.pick(&known))
            }
            8 => {
                let parts = self.below(3) + 1;
                let regex: String = (0..parts).map(|_| self.pick(REGEXES)).collect();
                format!("/{regex}/")
            }
            9 => {
                let id = first_id + u64::try_from(self.below(ROWS)).unwrap() * 1024;
                format!("id{}{id}", self.pick(&[":", ">", ">=", "<", "<="]))
            }
            _ => self.attribute(),
        }
    }

    fn attribute(&mut self) -> String {
        let prefix = self.pick(&["", "", "attributes.", "resource."]);
        let key = format!("{prefix}{}", self.pick(KEYS));
        let key = self.quoted(&key);
        match self.below(5) {
            0 => format!("{key}:*"),
            1 | 2 => {
                let relation = self.pick(&[">", ">=", "<", "<="]);
                let number = self.pick(NUMBERS);
                let number = if number.is_empty() || number.contains(' ') {
                    "5"
                } else {
                    number
                };
                format!("{key}{relation}{number}")
            }
            3 => {
                let text = self.value();
                let text = self.quoted(&text);
                format!("{key}{}{text}", self.pick(&[":", ">", "<="]))
            }
            _ => format!("{key}:{}", self.wanted()),
        }
    }

    fn query(&mut self, depth: usize, first_id: u64) -> String {
        if depth == 0 || self.below(3) == 0 {
            return self.atom(first_id);
        }
        let left = self.query(depth - 1, first_id);
        match self.below(5) {
            0 => format!("-({left})"),
            1 => format!("({left} OR {})", self.query(depth - 1, first_id)),
            2 => format!("NOT ({left}) {}", self.query(depth - 1, first_id)),
            _ => format!("{left} {}", self.query(depth - 1, first_id)),
        }
    }
}

fn live(query: &Query, blocks: &[Block<'_>]) -> BTreeSet<u64> {
    let mut ids = BTreeSet::new();
    for block in blocks {
        let mut rows = Vec::new();
        query.rows(block, &mut rows);
        assert!(rows.is_sorted());
        ids.extend(rows.iter().map(|row| block.id(*row as usize)));
    }
    ids
}

async fn stored(client: &Client, query: &Query) -> BTreeSet<u64> {
    let mut params = Vec::new();
    let sql = format!(
        "SELECT id FROM watchtower.logs AS l WHERE {} FORMAT TabSeparated",
        query.sql(&mut params)
    );
    let answer = client
        .select(&sql, &[], &params, Duration::from_secs(30))
        .await;
    let answer = answer.unwrap_or_else(|error| panic!("{query}: {error}\n{sql}\n{params:?}"));
    String::from_utf8_lossy(&answer)
        .lines()
        .map(|id| id.parse().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn live_and_search_pick_the_same_records() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let seed = std::env::var("WATCHTOWER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::try_from(now_ms()).unwrap());
    tracing::info!("WATCHTOWER_SEED={seed} repeats this");
    let mut random = Random(seed);
    let first_id = id_at(now_ms(), 0);
    let frames: Vec<Frame> = (0..NUM_FRAMES)
        .map(|n| random.frame(first_id + n * 1_000_000))
        .collect();
    let payload: Vec<_> = frames.iter().map(Frame::payload).collect();
    let sql = "INSERT INTO watchtower.logs FORMAT Native";
    client
        .insert(sql, &[], payload, Duration::from_secs(30))
        .await
        .unwrap();
    let blocks: Vec<Block<'_>> = frames
        .iter()
        .map(|frame| Block::decode(frame).unwrap())
        .collect();

    let started = Instant::now();
    let texts: Vec<String> = (0..NUM_QUERIES)
        .map(|_| random.query(3, first_id))
        .collect();
    let queries = texts.iter().map(|text| (text, Query::parse(text).unwrap()));
    let mut answers = futures_util::stream::iter(queries)
        .map(|(text, query)| {
            let client = &client;
            async move {
                let stored = stored(client, &query).await;
                (text, query, stored)
            }
        })
        .buffer_unordered(8);
    let (mut some, mut literal, mut matches) = (0, 0, 0);
    while let Some((text, query, stored)) = answers.next().await {
        let live = live(&query, &blocks);
        let differ: Vec<_> = live.symmetric_difference(&stored).collect();
        assert!(
            differ.is_empty(),
            "seed {seed}: {text:?}, understood as {query}: {} live, {} stored; {}",
            live.len(),
            stored.len(),
            show(&blocks, *differ[0])
        );
        matches += live.len();
        some += usize::from(!live.is_empty() && live.len() < blocks.len() * ROWS);
        literal += usize::from(query.literal().is_some());
    }
    tracing::info!(
        "{NUM_QUERIES} queries × {} records in {:?}: {some} tell records apart, {literal} are text, {matches} matches",
        blocks.len() * ROWS,
        started.elapsed()
    );
    assert!(some > NUM_QUERIES / 3, "{some} queries tell records apart");
    assert!(literal < NUM_QUERIES / 5, "{literal} queries are text");
}

fn show(blocks: &[Block<'_>], id: u64) -> String {
    let mut rows = blocks.iter().flat_map(Block::rows);
    let row = rows.find(|row| row.id() == id).unwrap();
    format!(
        "{:?} {:?} attributes {:?} resource {:?}",
        row.service(),
        row.message(),
        row.attributes().collect::<Vec<_>>(),
        row.resource().collect::<Vec<_>>()
    )
}

#[tokio::test]
async fn words_trace_ids_and_attributes_read_few_granules() {
    let engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    let fill = "INSERT INTO watchtower.logs (timestamp, id, service, message, trace_id, attributes)
        SELECT now64(9), number, 'api', 'request ' || number || ' took ' || number % 97 || ' ms'
            || if(number = 77777, ', Timeouts ahead', ''), lower(hex(sipHash128(number))),
            map('order.id', 'o' || number)
        FROM numbers(400000)";
    client.execute(fill).await.unwrap();
    let trace_id = query(&client, "SELECT lower(hex(sipHash128(toUInt64(77777))))").await;
    for text in [
        "timeoutS",
        "\"ms, timeouts\"",
        "77777 timeouts",
        &format!("trace_id:{trace_id}"),
        "order.id:o77777",
        "resource.order.id:o77777 OR order.id:o77777",
        "-x timeout service:a*",
    ] {
        let parsed = Query::parse(text).unwrap();
        let mut params = Vec::new();
        let condition = parsed.sql(&mut params);
        let explain =
            format!("EXPLAIN indexes = 1 SELECT id FROM watchtower.logs AS l WHERE {condition}");
        let within = Duration::from_secs(30);
        let answer = client.select(&explain, &[], &params, within).await;
        let answer = String::from_utf8_lossy(&answer.unwrap()).into_owned();
        let (all, read) = granules(&answer);
        assert!(
            all > 40 && read <= 6,
            "{text}: {read} of {all} granules are read"
        );
        assert_eq!(
            stored(&client, &parsed).await,
            BTreeSet::from([77_777]),
            "{text}"
        );
    }
}

/// How many granules there are, and how many are left after the last index.
fn granules(explain: &str) -> (u32, u32) {
    let steps = explain.lines().filter_map(|line| {
        let (read, all) = line.trim().strip_prefix("Granules: ")?.split_once('/')?;
        Some((all.parse().ok()?, read.parse().ok()?))
    });
    steps.fold((0, u32::MAX), |(most, least), (all, read): (u32, u32)| {
        (most.max(all), least.min(read))
    })
}
