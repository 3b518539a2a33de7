//! Tests against the real thing.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests does not reach the helpers of an integration test"
)]

mod addresses;
mod attribute_index;
mod bounds;
mod client_certificates;
mod clients;
mod command_line;
mod crash;
mod docker;
mod engine;
mod explore;
mod field_names;
mod field_reports;
mod flood;
mod frame_clickhouse;
mod full_disk;
mod histogram;
mod homelab_reports;
mod hung_store;
mod ledger;
mod misuse;
mod otlp_connection;
mod otlp_doors;
mod otlp_envelope;
mod otlp_grpc;
mod otlp_http;
mod otlp_odd;
mod outage;
mod page;
mod pipeline;
mod query;
mod queue_command;
mod readme;
mod reload;
mod resends;
mod scan;
mod store_faults;
mod store_schema;
mod store_search;
mod store_writer;
mod support;
mod torture;
