//! The daemon's own telemetry: metrics and its log. It never goes to the daemon itself.

pub mod logging;
pub mod metrics;

pub use metrics::Metrics;
