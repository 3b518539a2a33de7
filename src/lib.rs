//! Watchtower: accepts logs over OTLP and JSON, keeps them safe, stores them in ClickHouse and shows
//! them live.
pub mod app;
pub mod cli;
pub mod config;
pub mod frame;
pub mod normalize;
pub mod queue;
pub mod record;
pub mod telemetry;
