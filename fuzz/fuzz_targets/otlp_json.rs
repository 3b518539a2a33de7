//! OTLP JSON: any bytes; and the reader beneath, against serde_json.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchtower::receivers::decode::decode_json;
use watchtower::record::Receiver;
use watchtower_fuzz::{json, walk};

fuzz_target!(|body: &[u8]| {
    walk::check(body, Receiver::OtlpHttp, |body, context, sink| {
        decode_json(body, context, sink)
    });
    json::check_serde(body);
});
