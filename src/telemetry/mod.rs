//! The daemon's own telemetry: metrics and its log. It never goes to the daemon itself.

mod doors;
pub mod logging;
pub mod metrics;

pub use doors::Metrics;
