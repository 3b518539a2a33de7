//! Dead letters that somebody wants in the store after all: what they broke on may have been mended.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use tracing::{info, warn};

use super::lane::{Lane, is_bad};
use crate::queue::Error;
use crate::queue::dead::{DeadLetters, Reason};

/// How often the writer looks for notes (`watchtower queue replay` leaves them).
const LOOK_EVERY: Duration = Duration::from_secs(2);

pub(super) fn interval() -> Interval {
    let mut interval = tokio::time::interval(LOOK_EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Lane {
    /// Inserts the letters that are wanted, those of their rows that are not there yet. One that is
    /// refused again stays, with the new words; one that fails for another reason is tried again.
    pub(super) async fn replay(&self) {
        let Ok(_alone) = self.replaying.try_lock() else {
            return;
        };
        let names = on_disk(&self.dead, DeadLetters::asked).await;
        for name in names.unwrap_or_default() {
            if let Err(error) = self.replay_one(name.clone()).await {
                warn!(%error, name, "dead letter cannot be replayed now");
            }
        }
    }

    async fn replay_one(&self, name: String) -> Result<(), Error> {
        let of = name.clone();
        let Some(frame) = on_disk(&self.dead, move |dead| dead.read(&of)).await? else {
            return on_disk(&self.dead, move |dead| dead.forget_replay(&name)).await;
        };
        let started = tokio::time::Instant::now();
        let frames = [frame];
        match self.insert.missing(&frames).await {
            Ok(()) => {
                info!(name, "a dead letter is stored");
                self.stored(&frames, started.elapsed()).await;
                on_disk(&self.dead, move |dead| dead.remove(&name).map(drop)).await
            }
            Err(error) if frames.iter().any(|frame| is_bad(&error, frame)) => {
                warn!(%error, name, "clickhouse refuses a dead letter again");
                let reason = Reason {
                    code: error.code(),
                    message: error.to_string(),
                };
                let [frame] = frames;
                on_disk(&self.dead, move |dead| {
                    dead.bury(&frame, &reason)?;
                    dead.forget_replay(&name)
                })
                .await
            }
            Err(error) => {
                self.note(&error, "dead letter not stored, will retry");
                Ok(())
            }
        }
    }
}

/// Does what blocks on a thread for that.
async fn on_disk<T: Send + 'static>(
    dead: &DeadLetters,
    work: impl FnOnce(&DeadLetters) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let dead = dead.clone();
    let done = tokio::task::spawn_blocking(move || work(&dead)).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
