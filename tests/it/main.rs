//! Tests against the real thing.
#![expect(
    clippy::expect_used,
    reason = "a harness that cannot start has nothing better to do"
)]

mod frame_clickhouse;
mod support;
