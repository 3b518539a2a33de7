//! Tests against the real thing.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests does not reach the helpers of an integration test"
)]

mod command_line;
mod crash;
mod engine;
mod examples;
mod explore;
mod frame_clickhouse;
mod pipeline;
mod query;
mod store_faults;
mod store_schema;
mod store_search;
mod store_writer;
mod support;
