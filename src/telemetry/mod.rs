//! The daemon's own telemetry: metrics and its log. It never goes to the daemon itself.

mod doors;
mod limited;
mod line;
pub mod logging;
pub mod metrics;

pub use doors::Metrics;
pub use line::one_line;
