//! Watchtower: accepts logs over OTLP and JSON, keeps them safe, stores them in ClickHouse and shows
//! them live.
pub mod api;
pub mod config;
pub mod frame;
pub mod live;
pub mod normalize;
pub mod record;
pub mod web;
