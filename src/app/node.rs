//! This daemon's node number, which is part of every record id.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;

use crate::intake::MAX_NODE;
use crate::queue::Queue;
use crate::state_file;

/// Longest wait for Redis at the start; the daemon must come up without it too.
const LEASE_WITHIN: Duration = Duration::from_secs(3);

/// The number: 0 where the queue is this daemon's alone, else one that no other daemon on the same
/// Redis has. While Redis is away it is the one this daemon had last, or a random one out of the upper
/// half, which is not leased.
pub(super) async fn number(state_dir: &Path, queue: &Queue) -> u16 {
    let Queue::Redis(redis) = queue else { return 0 };
    let path = state_dir.join("node");
    let reason = match timeout(LEASE_WITHIN, redis.lease_node()).await {
        Ok(Ok(number)) => {
            if let Err(error) = state_file::replace(&path, number.to_string().as_bytes()) {
                warn!(%error, path = %path.display(), "could not keep the node number");
            }
            return number;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {LEASE_WITHIN:?}"),
    };
    let last = std::fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let number = last
        .filter(|number| *number <= MAX_NODE)
        .unwrap_or_else(random);
    warn!(
        number,
        reason, "could not lease a node number from redis; going on with another"
    );
    number
}

fn random() -> u16 {
    let half = MAX_NODE / 2 + 1;
    // Without randomness any number of the half is as good.
    let random = getrandom::u32().unwrap_or_default();
    half + u16::try_from(random % u32::from(half)).unwrap_or_default()
}
