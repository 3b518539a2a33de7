//! How fast records become frames and frames become rows, on one core.
//!
//! `cargo bench --bench frame [-- FILE]` prints records and bytes per second; FILE receives 500,000
//! records as Native blocks, to time `INSERT INTO … FORMAT Native` with.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(
    clippy::unwrap_used,
    reason = "a bench may stop at what it does not expect"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use watchtower::frame::{Block, BlockBuilder, Frame, Seal};
use watchtower::record::{Group, Level, Receiver, Record, Sink};

/// Records of a frame.
const BATCH: usize = 8192;
/// Records of a group, as one request of an SDK has them.
const GROUP: usize = 512;
/// How long each measurement takes.
const LONG: Duration = Duration::from_secs(2);

fn main() {
    let groups: Vec<Group<'static>> = (0..BATCH / GROUP).map(group).collect();
    let records: Vec<Record<'static>> = (0..BATCH).map(record).collect();
    let mut builder = BlockBuilder::new();
    fill(&mut builder, &groups, &records, GROUP);
    let frame = seal(&mut builder);
    let bytes = frame.as_bytes().len();
    println!(
        "{BATCH} records a frame, {} bytes a record; {GROUP} records a group",
        bytes / BATCH
    );

    measure("push", || {
        let mark = builder.mark();
        fill(&mut builder, &groups, &records, GROUP);
        let bytes = builder.bytes();
        builder.rollback(&mark);
        bytes
    });
    measure("push and seal", || {
        fill(&mut builder, &groups, &records, GROUP);
        seal(&mut builder).as_bytes().len()
    });
    measure("push and seal, each record its own group", || {
        fill(&mut builder, &groups, &records, 1);
        seal(&mut builder).as_bytes().len()
    });
    let strange: Vec<_> = records.iter().enumerate().map(with_new_keys).collect();
    measure("push and seal, every key new", || {
        fill(&mut builder, &groups, &strange, GROUP);
        seal(&mut builder).as_bytes().len()
    });
    measure("check a frame's bytes", || {
        black_box(Frame::parse(frame.as_bytes().clone()).unwrap());
        bytes
    });
    measure("decode", || {
        black_box(Block::decode(&frame).unwrap());
        bytes
    });
    measure("decode and read every field", || {
        black_box(read(&Block::decode(&frame).unwrap()));
        bytes
    });

    if let Some(file) = std::env::args().skip(1).find(|arg| !arg.starts_with('-')) {
        let mut blocks = Vec::new();
        for _ in 0..500_000usize.div_ceil(BATCH) {
            fill(&mut builder, &groups, &records, GROUP);
            blocks.extend_from_slice(&seal(&mut builder).payload());
        }
        std::fs::write(&file, blocks).unwrap();
    }
}

/// Runs `work` for a while and prints the best of what it came to. `work` handles one batch and says
/// how many bytes its frame has.
fn measure(what: &str, mut work: impl FnMut() -> usize) {
    let (begin, mut best, mut bytes) = (Instant::now(), Duration::MAX, 0);
    while begin.elapsed() < LONG {
        let start = Instant::now();
        bytes = black_box(work());
        best = best.min(start.elapsed());
    }
    let seconds = best.as_secs_f64();
    println!(
        "{what}: {:.2} million records/s, {:.0} MB/s",
        BATCH as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6
    );
}

fn fill(
    builder: &mut BlockBuilder,
    groups: &[Group<'static>],
    records: &[Record<'static>],
    group_records: usize,
) {
    for (i, records) in records.chunks(group_records).enumerate() {
        builder.group(&groups[i % groups.len()]);
        records.iter().for_each(|record| builder.push(record));
    }
}

fn seal(builder: &mut BlockBuilder) -> Frame {
    builder.seal(&Seal {
        node: 1,
        first_id: 1_753_900_000_000 << 22,
        sealed_at: 1_753_900_000_000,
        digests: vec![[0; 16]; BATCH / GROUP],
    })
}

fn read(block: &Block<'_>) -> usize {
    let mut seen = 0;
    for row in block.rows() {
        seen += row.timestamp() as usize ^ row.id() as usize;
        seen += row.service().len() + row.environment().len() + row.message().len();
        seen += row.trace_id().len() + row.span_id().len() + row.level().as_str().len();
        for (key, value) in row.attributes().chain(row.resource()) {
            seen += key.len() + value.len();
        }
    }
    seen
}

fn group(i: usize) -> Group<'static> {
    let pair = |key: &'static str, value: String| (key.into(), value.into());
    Group {
        service: ["checkout", "cart", "payment", "web"][i % 4].into(),
        environment: "production".into(),
        scope_name: "io.example.checkout.handler".into(),
        scope_version: "2.4.1".into(),
        resource: vec![
            pair("host.name", format!("node-{}.example.internal", i % 5)),
            pair("os.type", "linux".into()),
            pair("process.pid", (4000 + i).to_string()),
            pair("telemetry.sdk.language", "java".into()),
            pair("telemetry.sdk.name", "opentelemetry".into()),
            pair("k8s.pod.name", format!("checkout-6d9f7c5b8d-x{i}")),
        ],
        receiver: Receiver::OtlpGrpc,
        received_at: 1_753_900_000_123,
    }
}

/// A record with seven attributes and a message of about 150 bytes.
fn record(i: usize) -> Record<'static> {
    // Multiplying by an odd number scatters the low digits.
    let n = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let pair = |key: &'static str, value: String| (key.into(), value.into());
    let (trace_id, span_id) = ((u128::from(n) << 64) + i as u128, n.to_be_bytes());
    Record {
        timestamp: 1_753_900_000_000_000_000 + i as i64 * 1000,
        level: [Level::Info, Level::Info, Level::Warn, Level::Error][i % 4],
        severity_number: [9, 9, 13, 17][i % 4],
        severity_text: ["INFO", "INFO", "WARN", "ERROR"][i % 4].into(),
        message: format!(
            "request {n:016x} for customer {} took {} ms: the upstream answered after {} tries, and \
             the answer was kept in the cache of this node under its key",
            n % 100_000,
            n % 997,
            n % 4
        )
        .into(),
        trace_id: Some(trace_id.to_be_bytes()),
        span_id: Some(span_id),
        trace_flags: 1,
        event_name: "".into(),
        attributes: vec![
            pair("http.request.method", ["GET", "POST"][i % 2].into()),
            pair("http.response.status_code", (200 + n % 300).to_string()),
            pair("http.route", "/api/customers/{id}/orders".into()),
            pair("url.path", format!("/api/customers/{}/orders", n % 100_000)),
            pair("client.address", format!("10.0.{}.{}", n % 256, n % 251)),
            pair("thread.name", format!("worker-{}", n % 16)),
            pair("user.id", (n % 100_000).to_string()),
        ],
    }
}

/// The worst that a sender can do to a dictionary: no key is ever used twice.
fn with_new_keys((i, record): (usize, &Record<'static>)) -> Record<'static> {
    let mut record = record.clone();
    for (key, _) in &mut record.attributes {
        *key = format!("{key}.{i}").into();
    }
    record
}
