//! Native JSON: any bytes; and where serde_json can read them all, as many records as it finds.

#![no_main]

use std::cell::Cell;

use libfuzzer_sys::fuzz_target;
use watchtower::receivers::decode::decode_native;
use watchtower::record::Receiver;
use watchtower_fuzz::{json, walk};

fuzz_target!(|body: &[u8]| {
    let last = Cell::new(None);
    walk::check(body, Receiver::Json, |body, context, sink| {
        let outcome = decode_native(body, context, sink);
        if let Ok(outcome) = &outcome {
            last.set(Some((outcome.accepted as usize, outcome.rejected as usize)));
        }
        outcome
    });
    json::check_serde(body);
    if let (Some(counts), Some(theirs)) = (last.get(), json::count_records(body)) {
        assert_eq!(counts, theirs);
    }
});
