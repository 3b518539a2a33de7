//! One kind of work, some times over, for `scripts/counts` to count its instructions.
//!
//! `counts NAME TIMES` does it so often; `counts` lists the names.
#![expect(clippy::print_stdout, reason = "it lists its names")]

mod sample;

use std::hint::black_box;

use prost::Message;
use sample::{NOW, json, native, request};
use watchtower::config::Config;
use watchtower::frame::{Block, BlockBuilder, Frame, Seal};
use watchtower::normalize::Context;
use watchtower::query::Query;
use watchtower::receivers::decode::{decode_json, decode_native, decode_protobuf};
use watchtower::record::Receiver;

const RECORDS: usize = 1000;
const NAMES: [&str; 8] = [
    "read-protobuf",
    "read-json",
    "read-native",
    "seal",
    "check",
    "decode",
    "filter-level",
    "filter-text",
];

/// All of them, so that what each takes to begin with is the same.
struct Work {
    context: Context,
    protobuf: Vec<u8>,
    json: String,
    native: String,
    builder: BlockBuilder,
    frame: Frame,
    level: Query,
    text: Query,
}

impl Work {
    fn new() -> Work {
        let context = Context::new(Receiver::OtlpHttp, NOW, &Config::default());
        let request = request(RECORDS, 8);
        let protobuf = request.encode_to_vec();
        let mut builder = BlockBuilder::new();
        let read = decode_protobuf(&protobuf, &context, &mut builder);
        assert!(read.is_ok());
        Work {
            frame: seal(&mut builder),
            json: json(&request),
            native: native(&request),
            level: Query::parse("level>=error").expect("a query"),
            text: Query::parse("timeout").expect("a query"),
            context,
            protobuf,
            builder,
        }
    }

    fn once(&mut self, name: &str) -> bool {
        let (context, builder) = (&self.context, &mut self.builder);
        match name {
            "read-protobuf" => forget(builder, |builder| {
                decode_protobuf(&self.protobuf, context, builder).is_ok()
            }),
            "read-json" => forget(builder, |builder| {
                decode_json(self.json.as_bytes(), context, builder).is_ok()
            }),
            "read-native" => forget(builder, |builder| {
                decode_native(self.native.as_bytes(), context, builder).is_ok()
            }),
            "seal" => {
                let read = decode_protobuf(&self.protobuf, context, builder).is_ok();
                read && seal(builder).header().num_records as usize == RECORDS
            }
            "check" => Frame::parse(self.frame.as_bytes().clone()).is_ok(),
            "decode" => Block::decode(&self.frame).is_ok_and(|block| block.len() == RECORDS),
            "filter-level" => matches(&self.level, &self.frame),
            "filter-text" => matches(&self.text, &self.frame),
            _ => false,
        }
    }
}

/// Reads records into the columns and takes them out again.
fn forget(builder: &mut BlockBuilder, read: impl FnOnce(&mut BlockBuilder) -> bool) -> bool {
    let mark = builder.mark();
    let ok = read(builder) && builder.len() == RECORDS;
    builder.rollback(&mark);
    ok
}

fn seal(builder: &mut BlockBuilder) -> Frame {
    builder.seal(&Seal {
        node: 1,
        first_id: 1_790_000_000_000 << 22,
        sealed_at: 1_790_000_000_000,
        digests: vec![[0; 16]],
    })
}

fn matches(query: &Query, frame: &Frame) -> bool {
    let Ok(block) = Block::decode(frame) else {
        return false;
    };
    let mut rows = Vec::new();
    query.rows(&block, &mut rows);
    black_box(rows).is_empty()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(times)) = (args.next(), args.next()) else {
        println!("{}", NAMES.join("\n"));
        return;
    };
    let times: usize = times.parse().expect("TIMES is a number");
    let mut work = Work::new();
    for _ in 0..times {
        assert!(black_box(work.once(&name)), "{name} went wrong");
    }
}
