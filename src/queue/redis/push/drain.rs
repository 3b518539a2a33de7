//! Frames on their way through the spill: from the producer to the disk, and from there into Redis.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;

use super::task::{End, REMEMBER_LAST_MS, Task, position};
use crate::frame::Frame;
use crate::queue::redis::scripts;
use crate::queue::spill::Spill;
use crate::queue::{Claim, ClaimLimits};

/// What is read from the disk at a time.
const CLAIM: ClaimLimits = ClaimLimits {
    rows: usize::MAX,
    bytes: 8 << 20,
    delay: Duration::ZERO,
};
/// Bytes that go into Redis by one script, so that none keeps it busy for long.
const GROUP_BYTES: usize = 2 << 20;
/// With no more than this left on the disk, new frames wait for the end of it instead of following.
const NEARLY_DRY: u64 = 1 << 20;
/// How long to wait for frames that the disk is writing.
const PAUSE: Duration = Duration::from_millis(2);

impl Task {
    /// Moves the frames that must not wait any longer to the spill.
    pub(super) fn spill_late(&mut self) {
        let Some(spill) = self.spill.clone() else {
            return;
        };
        let oldest = self.unknown.front().or(self.waiting.front());
        let Some(oldest) = oldest else { return };
        let late = oldest.since.elapsed() >= spill.patience();
        let now = if spill.is_active() {
            !self.nearly_dry
        } else {
            self.refusal.is_some() || self.shared.inbox().closing
        };
        if now || late {
            spill.begin();
            self.spill_all(&spill);
        }
    }

    fn spill_all(&mut self, spill: &Spill) {
        let waiting = std::mem::take(&mut self.waiting);
        let in_doubt = std::mem::take(&mut self.unknown);
        for mut pending in in_doubt.into_iter().chain(waiting) {
            if pending.refused.is_some() {
                self.unknown.push_back(pending);
                continue;
            }
            let written = spill.put(pending.frame.clone());
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                match written.await {
                    // Redis may have it all the same; only a fence can tell.
                    Err(error) if pending.in_doubt => {
                        pending.refused = Some(error);
                        shared.inbox().in_doubt.push_back(pending);
                        shared.wake.notify_one();
                    }
                    result => shared.answer(pending, result),
                }
            });
        }
    }

    /// Brings the spill into Redis, to the last frame. Returns early, with frames in `unknown`, when
    /// a fence must settle them first.
    pub(super) async fn drain(
        &mut self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), End> {
        let Some(spill) = self.spill.clone() else {
            return Ok(());
        };
        let result = self.drain_all(connection, &spill).await;
        self.nearly_dry = false;
        result
    }

    async fn drain_all(
        &mut self,
        connection: &mut MultiplexedConnection,
        spill: &Spill,
    ) -> Result<(), End> {
        while spill.is_active() && self.unknown.is_empty() {
            self.nearly_dry = spill.depth().bytes <= NEARLY_DRY;
            let claim = match self.draining.clone() {
                Some(claim) => Some(claim),
                None => {
                    let claim = self.meanwhile(spill.disk().try_claim(&CLAIM)).await;
                    claim.map_err(|error| End::Refused(error.to_string()))?
                }
            };
            let Some(claim) = claim else {
                let waiting = self.waiting.iter().map(|pending| &pending.frame);
                let bytes: u64 = waiting.map(|frame| frame.as_bytes().len() as u64).sum();
                if self.shared.inbox().bytes == bytes && spill.depth().frames == 0 {
                    spill.end();
                } else if self.shared.inbox().closing && self.is_done() {
                    return Err(End::Closed);
                } else {
                    self.meanwhile(tokio::time::sleep(PAUSE)).await;
                }
                continue;
            };
            self.draining = Some(claim.clone());
            self.push_claim(connection, &claim)
                .await
                .map_err(End::Broken)?;
            self.assure(connection).await.map_err(End::Broken)?;
            let acked = self.meanwhile(spill.disk().ack(&claim)).await;
            acked.map_err(|error| End::Refused(error.to_string()))?;
            self.draining = None;
            if self.shared.inbox().closing && self.is_done() {
                return Err(End::Closed);
            }
        }
        Ok(())
    }

    /// Pushes a claim's frames that are not in Redis yet. May be repeated.
    async fn push_claim(
        &mut self,
        connection: &mut MultiplexedConnection,
        claim: &Claim,
    ) -> Result<(), RedisError> {
        let mut rest = claim.frames.as_slice();
        while !rest.is_empty() {
            let (group, later) = rest.split_at(group_len(rest));
            rest = later;
            let node = group.first().map_or(0, |frame| frame.header().node);
            let mut call = scripts::DRAIN.key(self.keys.queue());
            call.key(self.keys.depth())
                .key(self.keys.last(self.worker(), node))
                .arg(REMEMBER_LAST_MS);
            for frame in group {
                call.arg(position(frame)).arg(&frame.as_bytes()[..]);
                for count in frame.header().accepted {
                    call.arg(count);
                }
            }
            let _pushed: usize = self.meanwhile(call.invoke_async(connection)).await?;
            self.shared.pushed.notify_waiters();
        }
        Ok(())
    }
}

/// How many of these frames, at least one, go by one script: those of one node and up to the bound.
fn group_len(frames: &[Frame]) -> usize {
    let node = frames.first().map(|frame| frame.header().node);
    let mut bytes = 0;
    let fits = frames.iter().take_while(|frame| {
        bytes += frame.as_bytes().len();
        Some(frame.header().node) == node && bytes <= GROUP_BYTES
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::frame;

    #[test]
    fn groups_are_bounded_and_hold_at_least_one_frame() {
        let frames = [1, 2, 3].map(|id| frame(id, 1, GROUP_BYTES / 2 - 100));
        assert_eq!(group_len(&frames), 2);
        assert_eq!(
            group_len(&[frame(1, 1, 2 * GROUP_BYTES), frame(2, 1, 1)]),
            1
        );
    }
}
