//! Speed of what a request goes through behind the walkers, 1,000 records at a time.
//!
//! `cargo bench --bench pipeline [-- part of a name]`

#[expect(dead_code, reason = "not all of them are needed here")]
mod sample;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use prost::Message;
use sample::{NOW, request};
use tokio::runtime::Runtime;
use watchtower::config::{Config, Fsync};
use watchtower::frame::{Block, BlockBuilder, Frame, Seal};
use watchtower::intake::{Ids, Intake};
use watchtower::normalize::Context;
use watchtower::query::Query;
use watchtower::queue::Queue;
use watchtower::receivers::decode::decode_protobuf;
use watchtower::record::Receiver;

const RECORDS: usize = 1000;
const NODE: u16 = 1;

fn context() -> Context {
    Context::new(Receiver::OtlpGrpc, NOW, &Config::default())
}

/// Reads a request into a frame's columns.
fn fill(builder: &mut BlockBuilder, body: &[u8], context: &Context) {
    let read = decode_protobuf(body, context, builder);
    assert!(read.is_ok());
}

fn seal(builder: &mut BlockBuilder) -> Frame {
    builder.seal(&Seal {
        node: NODE,
        first_id: 1_790_000_000_000 << 22,
        sealed_at: 1_790_000_000_000,
        digests: vec![[0; 16]],
    })
}

fn frame(criterion: &mut Criterion) {
    let (body, context) = (request(RECORDS, 8).encode_to_vec(), context());
    let mut builder = BlockBuilder::new();
    fill(&mut builder, &body, &context);
    let frame = seal(&mut builder);
    let mut group = criterion.benchmark_group("frame");
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.bench_function("read and encode", |bencher| {
        bencher.iter(|| {
            let mark = builder.mark();
            fill(&mut builder, black_box(&body), &context);
            builder.rollback(&mark);
        });
    });
    group.bench_function("read, encode and seal", |bencher| {
        bencher.iter(|| {
            fill(&mut builder, black_box(&body), &context);
            black_box(seal(&mut builder))
        });
    });
    group.bench_function("check", |bencher| {
        bencher.iter(|| Frame::parse(black_box(frame.as_bytes().clone())).is_ok());
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| Block::decode(black_box(&frame)).is_ok());
    });
    group.finish();
}

fn filter(criterion: &mut Criterion) {
    let (body, context) = (request(RECORDS, 8).encode_to_vec(), context());
    let mut builder = BlockBuilder::new();
    fill(&mut builder, &body, &context);
    let frame = seal(&mut builder);
    let block = Block::decode(&frame).expect("our own frame");
    let mut group = criterion.benchmark_group("filter");
    group.throughput(Throughput::Elements(RECORDS as u64));
    for (text, matches) in [
        ("level>=error", 0),
        ("service:orders", RECORDS),
        ("timeout", 0),
        ("203.0.113.24 after", 4),
        ("http.response.status_code>=500", 250),
    ] {
        let query = Query::parse(text).expect("a query");
        let mut rows = Vec::new();
        query.rows(&block, &mut rows);
        assert_eq!(rows.len(), matches, "{text}");
        group.bench_function(text, |bencher| {
            bencher.iter(|| {
                rows.clear();
                query.rows(black_box(&block), &mut rows);
            });
        });
    }
    group.finish();
}

/// From the body of a request to its receipt, one request after the other.
fn intake(criterion: &mut Criterion) {
    let (body, context) = (request(RECORDS, 8).encode_to_vec(), context());
    let mut group = criterion.benchmark_group("intake");
    group.throughput(Throughput::Elements(RECORDS as u64));
    for (name, fsync) in [
        ("disk, fsync: always", Fsync::Always),
        ("disk, fsync: never", Fsync::Never),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::new().expect("a runtime");
        let mut config = Config {
            state_dir: dir.path().to_owned(),
            ..Config::default()
        };
        config.queue.disk.fsync = fsync;
        let queue = Queue::open(&config).expect("a queue");
        let ids = Ids::open(dir.path(), NODE, 1_790_000_000_000).expect("ids");
        let (intake, committer) = Intake::new(&config, queue.clone(), ids, Arc::new(|_| {}));
        let committer = runtime.spawn(committer.run());
        let limits = watchtower::queue::ClaimLimits {
            rows: 100 * RECORDS,
            bytes: 64 << 20,
            delay: Duration::ZERO,
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let permit = intake.budget().take(body.len()).expect("room");
                let added = intake.add(permit, |filling| decode_protobuf(&body, &context, filling));
                let (_, pending) = added.expect("records");
                let receipt = runtime.block_on(pending.receipt(Duration::from_secs(10)));
                assert_eq!(receipt.expect("a receipt").num_records(), RECORDS);
            });
            // The disk is not to fill up.
            runtime.block_on(async {
                while let Ok(Some(claim)) = queue.try_claim(&limits).await {
                    queue.ack(&claim).await.expect("an acknowledgement");
                }
            });
        });
        intake.close();
        runtime.block_on(committer).expect("an end");
        runtime.block_on(queue.close());
    }
    group.finish();
}

criterion_group!(benches, frame, filter, intake);
criterion_main!(benches);
