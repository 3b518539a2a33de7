//! OTLP protobuf: any bytes; and what prost can read, against prost.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchtower::receivers::decode::decode_protobuf;
use watchtower::record::Receiver;
use watchtower_fuzz::{oracle, walk};

fuzz_target!(|body: &[u8]| {
    walk::check(body, Receiver::OtlpGrpc, |body, context, sink| {
        decode_protobuf(body, context, sink)
    });
    oracle::check_prost(body);
});
