//! The end of the daemon: signals, and steps that are bounded and never stop the next one.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tracing::{info, warn};

/// Waits for SIGTERM or SIGINT, or SIGHUP.
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over from here on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// As [`Signals::next`], and `None` at SIGHUP.
    pub async fn any(&mut self) -> Option<&'static str> {
        tokio::select! {
            _ = self.terminate.recv() => Some("SIGTERM"),
            _ = self.interrupt.recv() => Some("SIGINT"),
            _ = self.hangup.recv() => None,
        }
    }

    /// Resolves at the next of the two that end the daemon.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Runs one step of the shutdown and always returns, so that the next step runs too. Says whether
/// the step came to its end.
pub async fn step(name: &'static str, within: Duration, work: impl Future<Output = ()>) -> bool {
    let done = timeout(within, work).await.is_ok();
    if done {
        info!(step = name, "shutdown step done");
    } else {
        warn!(step = name, ?within, "shutdown step cut short");
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_that_hangs_is_cut_short() {
        assert!(step("quick", Duration::from_secs(1), async {}).await);
        assert!(!step("stuck", Duration::from_secs(1), std::future::pending()).await);
    }
}
