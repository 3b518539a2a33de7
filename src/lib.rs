//! Watchtower: accepts logs over OTLP and JSON, keeps them safe, stores them in ClickHouse and shows
//! them live.

pub mod api;
pub mod app;
pub mod auth;
mod buffers;
mod causes;
pub mod cli;
pub mod config;
pub mod engine;
pub mod frame;
pub mod intake;
pub mod live;
pub mod normalize;
pub mod query;
pub mod queue;
pub mod receivers;
pub mod record;
pub mod server;
pub mod shutdown;
mod state_file;
pub mod store;
pub mod telemetry;
mod trust;
pub mod web;
