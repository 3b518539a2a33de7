//! What the targets share: the sink that remembers, the oracle, and what must hold for any body.

#[path = "../../src/receivers/decode/tests/collected.rs"]
mod collected;
#[path = "../../src/receivers/decode/tests/expected.rs"]
mod expected_rows;
pub mod frames;
pub mod json;
pub mod oracle;
#[path = "../../src/receivers/decode/tests/otlp_writer.rs"]
mod otlp_writer;
pub mod walk;

// The modules of the unit tests look here for what they name; `expected` is what otlp_writer calls it.
use std::borrow::Cow;
use std::time::Duration;

use collected::{Collected, Row};
use expected_rows as expected;
use watchtower::config::Digits;
use watchtower::normalize::{Context, Limits};
use watchtower::receivers::decode::fuzzing::{level_of_number, level_of_text};
use watchtower::receivers::decode::{DecodeError, Outcome};
use watchtower::record::{Group, KeyValue, Receiver, Record, Sink};

/// Receipt time of every request: 2026-09-21T14:13:20Z.
const NOW: i64 = 1_790_000_000_000_000_000;
const DAY: i64 = 86_400_000_000_000;

/// Longest key and longest name, as `normalize` cuts them.
const MAX_NAME_BYTES: usize = 1024;

/// Limits as they are by default.
const USUAL: Limits = Limits {
    message: 1 << 20,
    value: 64 << 10,
    attributes: 512,
    expanded: 256 << 20,
};

/// Limits that small inputs reach.
const TIGHT: Limits = Limits {
    message: 64,
    value: 64,
    attributes: 3,
    expanded: 16 << 10,
};

fn context(receiver: Receiver, limits: Limits) -> Context {
    Context {
        receiver,
        received_at: NOW,
        retention: Duration::from_secs(30 * 86_400),
        future: Duration::from_secs(365 * 86_400),
        limits,
        digits: Digits::Pino,
    }
}
