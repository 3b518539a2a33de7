//! Tests against the real thing.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests does not reach the helpers of an integration test"
)]

mod clients;
mod command_line;
mod crash;
mod engine;

mod frame_clickhouse;
mod page;
mod pipeline;
mod readme;
mod store_faults;
mod store_schema;
mod store_search;
mod store_writer;
mod support;
