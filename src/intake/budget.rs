//! The bound on bytes that requests hold before they are committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Error;

/// A number of bytes shared by all requests.
#[derive(Debug, Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    cap: usize,
}

impl Budget {
    /// A budget of `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                used: AtomicUsize::new(0),
                cap,
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
        self.inner
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= cap)
            })
            .map_err(|used| Error::Busy { used, cap })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Makes it hold at least so many bytes. One that is alone may go beyond the budget: what is
    /// larger than all of it could otherwise never pass, however often it is sent.
    ///
    /// # Errors
    /// [`Error::Busy`] when others hold too much; the permit keeps what it has.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Error> {
        let (cap, own) = (self.inner.cap, self.bytes);
        let more = bytes.saturating_sub(own);
        self.inner
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let sum = used.checked_add(more)?;
                (sum <= cap || used == own).then_some(sum)
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
        }
    }

    /// Takes over another permit's bytes.
    pub fn absorb(&mut self, mut other: Permit) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
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
