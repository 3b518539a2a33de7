//! Speed of the walkers over one request, against prost and serde_json decoding the same bytes.
//!
//! `cargo bench --bench decode [-- part of a name]`

mod sample;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use prost::Message;
use sample::{NOW, json, native, request};
use watchtower::config::Config;
use watchtower::normalize::Context;
use watchtower::receivers::decode::{
    DecodeError, Outcome, decode_json, decode_native, decode_protobuf,
};
use watchtower::record::{Group, Receiver, Record, Sink};

/// Counts, so that only reading is measured.
#[derive(Default)]
struct Counter {
    records: usize,
    bytes: usize,
}

impl Sink for Counter {
    fn group(&mut self, group: &Group<'_>) {
        self.bytes += group.service.len();
    }

    fn push(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.bytes += record.message.len() + record.attributes.len();
    }
}

fn decode(criterion: &mut Criterion) {
    let context = Context::new(Receiver::OtlpHttp, NOW, &Config::default());
    for (name, num_records, num_attributes) in [
        ("1,000 records, 8 attributes", 1000, 8),
        ("1,000 records, none", 1000, 0),
        ("1 record, 8 attributes", 1, 8),
    ] {
        let request = request(num_records, num_attributes);
        let (body, json, lines) = (request.encode_to_vec(), json(&request), native(&request));
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(num_records as u64));
        group.bench_function("prost", |bencher| {
            bencher.iter(|| ExportLogsServiceRequest::decode(black_box(&*body)).is_ok());
        });
        group.bench_function("protobuf", |bencher| {
            bencher.iter(|| {
                counted(num_records, |sink| {
                    decode_protobuf(black_box(&body), &context, sink)
                })
            });
        });
        group.bench_function("serde_json::Value", |bencher| {
            bencher.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&json)).is_ok());
        });
        group.bench_function("json", |bencher| {
            bencher.iter(|| {
                counted(num_records, |sink| {
                    decode_json(black_box(json.as_bytes()), &context, sink)
                })
            });
        });
        group.bench_function("native", |bencher| {
            bencher.iter(|| {
                counted(num_records, |sink| {
                    decode_native(black_box(lines.as_bytes()), &context, sink)
                })
            });
        });
        group.finish();
    }
}

/// Runs a walker, which must find every record.
fn counted(num_records: usize, walk: impl FnOnce(&mut Counter) -> Result<Outcome, DecodeError>) {
    let mut sink = Counter::default();
    black_box(walk(&mut sink).is_ok());
    assert_eq!(black_box(sink).records, num_records);
}

criterion_group!(benches, decode);
criterion_main!(benches);
