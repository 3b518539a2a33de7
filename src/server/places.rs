//! How many connections there may be, and the few of them that only the web port may use: a flood at
//! the other ports must not keep whoever runs the daemon from seeing what it says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

/// Most connections kept for the web port.
const RESERVE: usize = 32;
/// One line in the log in this time.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Who listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// For senders.
    Otlp,
    /// For people, too.
    Web,
}

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Places {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: usize,
    shared: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    reached: AtomicU64,
    told: Mutex<Option<Instant>>,
}

impl Places {
    pub(super) fn new(limit: usize) -> Places {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let reserve = RESERVE.min(limit / 2);
        Places {
            inner: Arc::new(Inner {
                limit,
                shared: Arc::new(Semaphore::new(limit - reserve)),
                reserve: Arc::new(Semaphore::new(reserve)),
                reached: AtomicU64::new(0),
                told: Mutex::default(),
            }),
        }
    }

    /// Waits for a place for one more connection.
    pub(super) async fn take(&self, port: Port) -> Option<OwnedSemaphorePermit> {
        if let Some(place) = self.take_now(port) {
            return Some(place);
        }
        self.tell(port);
        let shared = Arc::clone(&self.inner.shared).acquire_owned();
        if port == Port::Otlp {
            return shared.await.ok();
        }
        let reserve = Arc::clone(&self.inner.reserve).acquire_owned();
        tokio::select! {
            place = shared => place.ok(),
            place = reserve => place.ok(),
        }
    }

    fn take_now(&self, port: Port) -> Option<OwnedSemaphorePermit> {
        let shared = Arc::clone(&self.inner.shared).try_acquire_owned();
        let reserve = || Arc::clone(&self.inner.reserve).try_acquire_owned();
        match (shared, port) {
            (Ok(place), _) => Some(place),
            (Err(_), Port::Web) => reserve().ok(),
            (Err(_), Port::Otlp) => None,
        }
    }

    fn tell(&self, port: Port) {
        self.inner.reached.fetch_add(1, Ordering::Relaxed);
        let told = self.inner.told.lock();
        let mut told = told.unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= LINE_EVERY) {
            *told = Some(Instant::now());
            warn!(
                ?port,
                limit = self.inner.limit,
                "all connections are taken, new ones wait until others end; see `limits.connections`"
            );
        }
    }

    /// Connections that are open, and one for each listener, which waits for the next.
    #[must_use]
    pub fn taken(&self) -> u64 {
        let free = self.inner.shared.available_permits() + self.inner.reserve.available_permits();
        self.inner.limit.saturating_sub(free) as u64
    }

    /// Whether senders that come now have to wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.inner.shared.available_permits() == 0
    }

    /// How often the limit was reached.
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.inner.reached.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_flood_of_senders_leaves_the_web_port_its_reserve() {
        let places = Places::new(10);
        let take = |port| places.take(port).now_or_never().flatten();
        let senders: Vec<_> = std::iter::from_fn(|| take(Port::Otlp)).collect();
        assert_eq!(senders.len(), 5);
        assert_eq!(places.reached(), 1);
        let people: Vec<_> = std::iter::from_fn(|| take(Port::Web)).collect();
        assert_eq!(people.len(), 5);
        assert_eq!((places.taken(), places.reached()), (10, 2));
        drop(senders);
        assert!(take(Port::Web).is_some());
        drop(people);
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn a_limit_of_one_still_lets_one_in() {
        let places = Places::new(1);
        assert!(places.take(Port::Otlp).now_or_never().is_some());
    }
}
