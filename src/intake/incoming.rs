//! Bodies that are still being received, and which of them give way when there is no room for another.
//!
//! Who sends most of a large body and then nothing, or a little now and then, would otherwise hold the memory
//! that all such bodies share for as long as it likes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A body that came slower than this on the whole is slow...
const SLOW_BYTES_PER_SECOND: usize = 256 << 10;
/// ...once it is this old.
const NOT_JUDGED_BEFORE: Duration = Duration::from_secs(1);

/// One body under way.
#[derive(Debug)]
pub(super) struct Body {
    since: Instant,
    bytes: AtomicUsize,
    gives_way: Notify,
}

impl Body {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits until it is to give way.
    pub(super) async fn must_give_way(&self) {
        self.gives_way.notified().await;
    }

    fn is_slow(&self, now: Instant) -> bool {
        let age = now.duration_since(self.since);
        let expected = SLOW_BYTES_PER_SECOND as f64 * age.as_secs_f64();
        age >= NOT_JUDGED_BEFORE && (self.bytes() as f64) < expected
    }
}

/// All bodies under way that came in more than one piece.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bodies: Mutex<Vec<Arc<Body>>>,
}

impl Incoming {
    pub(super) fn enter(&self) -> Arc<Body> {
        let body = Arc::new(Body {
            since: Instant::now(),
            bytes: AtomicUsize::new(0),
            gives_way: Notify::new(),
        });
        self.lock().push(Arc::clone(&body));
        body
    }

    pub(super) fn leave(&self, body: &Arc<Body>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, body));
    }

    /// Tells others to give way to `body`, which needs so many bytes more: those that are larger than it will be
    /// then, and those that come slowly, the largest first. Whether there was any.
    pub(super) fn make_room(&self, body: Option<&Arc<Body>>, more: usize) -> bool {
        let now = Instant::now();
        let needed = body.map_or(0, |body| body.bytes()) + more;
        let bodies = self.lock();
        let others = bodies
            .iter()
            .filter(|other| body.is_none_or(|body| !Arc::ptr_eq(other, body)))
            .filter(|other| other.bytes() > needed || other.is_slow(now));
        let mut others: Vec<_> = others.collect();
        others.sort_unstable_by_key(|other| std::cmp::Reverse(other.bytes()));
        let mut freed = 0;
        for other in &others {
            if freed >= more {
                break;
            }
            freed += other.bytes();
            other.gives_way.notify_one();
        }
        freed > 0
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Body>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
