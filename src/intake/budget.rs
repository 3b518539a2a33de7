//! The bound on bytes that requests hold before they are committed.
//!
//! Bodies that are still being received hold half of it at most, so that senders who take their time
//! cannot keep out those whose requests are there; and among themselves the large and slow ones give way to
//! the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Error;
use super::incoming::{Body, Incoming};

/// A number of bytes shared by all requests.
#[derive(Debug, Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    cap: usize,
    /// Bytes of bodies that are still being received; they are among the used.
    incoming: AtomicUsize,
    bodies: Incoming,
}

impl Inner {
    /// Adds to one of the counters unless `may` objects to the sum, given the count before.
    fn add(
        counter: &AtomicUsize,
        bytes: usize,
        may: impl Fn(usize, usize) -> bool,
    ) -> Result<(), usize> {
        let order = Ordering::Relaxed;
        let add = |used: usize| used.checked_add(bytes).filter(|sum| may(used, *sum));
        counter.fetch_update(order, order, add).map(|_| ())
    }
}

impl Budget {
    /// A budget of `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                used: AtomicUsize::new(0),
                cap,
                incoming: AtomicUsize::new(0),
                bodies: Incoming::default(),
            }),
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Takes bytes; they come back when the permit is dropped.
    ///
    /// # Errors
    /// [`Error::Busy`] when they are not there. It never waits: a sender that is told at once keeps
    /// its data and comes back.
    pub fn take(&self, bytes: usize) -> Result<Permit, Error> {
        let mut permit = Permit {
            inner: Arc::clone(&self.inner),
            bytes: 0,
            incoming: 0,
            body: None,
        };
        permit.grow(bytes)?;
        Ok(permit)
    }
}

/// Bytes taken from a [`Budget`].
#[derive(Debug)]
pub struct Permit {
    inner: Arc<Inner>,
    bytes: usize,
    /// How many of them are of a body that is still being received.
    incoming: usize,
    body: Option<Arc<Body>>,
}

impl Permit {
    /// How many bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// [`Error::Busy`] when they are not there; the permit keeps what it has.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let cap = self.inner.cap;
        Inner::add(&self.inner.used, bytes, |_, sum| sum <= cap)
            .map_err(|used| Error::Busy { used, cap })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes more bytes for a body of which more is to come. One that is alone in that may take more
    /// than the half.
    ///
    /// # Errors
    /// [`Error::Receiving`] when other such bodies hold too much, or as [`Permit::grow`]; the permit
    /// keeps what it has.
    pub fn receive(&mut self, bytes: usize) -> Result<(), Error> {
        let (cap, own) = (self.inner.cap / 2, self.incoming);
        Inner::add(&self.inner.incoming, bytes, |used, sum| {
            sum <= cap || used == own
        })
        .map_err(|used| Error::Receiving { used, cap })?;
        self.incoming += bytes;
        let body = self.body.get_or_insert_with(|| self.inner.bodies.enter());
        body.grow(bytes);
        self.grow(bytes)
    }

    /// After [`Error::Receiving`]: tells bodies that are larger or slow to give way. Whether there are any, so that it
    /// is worth trying again in a moment.
    #[must_use]
    pub fn make_room(&self, bytes: usize) -> bool {
        self.inner.bodies.make_room(self.body.as_ref(), bytes)
    }

    /// Waits until the body is to give way to others; for ever, unless it is one that is still being received.
    pub async fn must_give_way(&self) {
        match &self.body {
            Some(body) => body.must_give_way().await,
            None => std::future::pending().await,
        }
    }

    /// The body is there: its bytes count as those of any request.
    pub fn received(&mut self) {
        if let Some(body) = self.body.take() {
            self.inner.bodies.leave(&body);
        }
        let bytes = std::mem::take(&mut self.incoming);
        self.inner.incoming.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes it hold at least so many bytes. One that is alone may go beyond the budget: what is
    /// larger than all of it could otherwise never pass, however often it is sent.
    ///
    /// # Errors
    /// [`Error::Busy`] when others hold too much; the permit keeps what it has.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Error> {
        let (cap, own) = (self.inner.cap, self.bytes);
        let more = bytes.saturating_sub(own);
        Inner::add(&self.inner.used, more, |used, sum| {
            sum <= cap || used == own
        })
        .map_err(|used| Error::Busy { used, cap })?;
        self.bytes += more;
        Ok(())
    }

    /// A permit for no bytes of the same budget.
    #[must_use]
    pub fn empty(&self) -> Permit {
        Permit {
            inner: Arc::clone(&self.inner),
            bytes: 0,
            incoming: 0,
            body: None,
        }
    }

    /// Takes over another permit's bytes.
    pub fn absorb(&mut self, mut other: Permit) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.incoming += std::mem::take(&mut other.incoming);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.received();
        self.inner.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lone_permit_covers_more_than_there_is() {
        let budget = Budget::new(100);
        let mut first = budget.take(40).unwrap();
        first.cover(30).unwrap();
        assert_eq!(first.bytes(), 40);
        first.cover(60).unwrap();
        let second = budget.take(1).unwrap();
        assert!(matches!(first.cover(200), Err(Error::Busy { .. })));
        assert_eq!(budget.used(), 61);
        drop(second);
        first.cover(200).unwrap();
        assert_eq!(budget.used(), 200);
        assert!(budget.take(1).is_err());
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn bodies_under_way_hold_half_and_leave_the_other_to_those_that_are_there() {
        let budget = Budget::new(100);
        let mut slow = budget.take(0).unwrap();
        slow.receive(40).unwrap();
        let mut other = budget.take(0).unwrap();
        assert!(matches!(
            other.receive(11),
            Err(Error::Receiving { used: 40, cap: 50 })
        ));
        assert_eq!((other.bytes(), budget.used()), (0, 40));
        other.grow(60).unwrap();
        drop(other);
        slow.received();
        let mut next = budget.take(0).unwrap();
        next.receive(50).unwrap();
        drop(slow);
        // Alone it may take more than the half.
        next.receive(30).unwrap();
        assert!(next.receive(30).is_err());
        assert_eq!(budget.used(), 80);
        drop(next);
        assert_eq!(budget.used(), 0);
        budget.take(0).unwrap().receive(50).unwrap();
    }

    #[test]
    fn bytes_come_back_when_permits_are_dropped() {
        let budget = Budget::new(100);
        let mut first = budget.take(40).unwrap();
        first.grow(20).unwrap();
        assert_eq!(budget.used(), 60);
        assert!(matches!(
            first.grow(41),
            Err(Error::Busy { used: 60, cap: 100 })
        ));
        let second = budget.take(40).unwrap();
        assert!(matches!(
            budget.take(1),
            Err(Error::Busy {
                used: 100,
                cap: 100
            })
        ));
        first.absorb(second);
        assert_eq!((first.bytes(), budget.used()), (100, 100));
        drop(first);
        assert_eq!(budget.used(), 0);
    }
}
