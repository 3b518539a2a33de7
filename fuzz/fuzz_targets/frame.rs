//! Frames: any bytes as one; and any bytes as the block of one whose header and checksums
//! fit; and blocks of ours with bytes changed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchtower_fuzz::frames;

fuzz_target!(|data: &[u8]| {
    frames::check_bytes(data);
    frames::check_payload(data);
    frames::check_changed(data);
});
