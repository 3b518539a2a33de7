//! Builds the stages from the configuration and owns the order in which they stop.

use std::process::ExitCode;

use crate::config::Config;

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// When a stage cannot start, or stops by itself.
pub fn run(config: Config) -> anyhow::Result<ExitCode> {
    drop(config);
    anyhow::bail!("the stages are not put together yet")
}
