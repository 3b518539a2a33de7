//! Large buffers that are used again: bodies, frames, what is read of segments.
//!
//! Memory that is fresh from the system comes in pages that are cleared one by one as they are touched;
//! for buffers of a few hundred KiB, each used once, that was a fifth of the daemon's CPU time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Smaller ones the allocator has at hand by itself.
const SMALLEST: usize = 64 << 10;
/// Larger ones are rare, and would be much to keep.
const LARGEST: usize = 4 << 20;
/// Bytes kept while nobody uses them.
const KEPT: usize = 16 << 20;
/// Capacities are multiples of this, so that a buffer fits more than one use.
const STEP: usize = 32 << 10;

static POOL: Mutex<Pool> = Mutex::new(Pool {
    buffers: Vec::new(),
    bytes: 0,
});

/// Buffers that nobody uses at the moment, with the bytes that were last in them.
struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_kept(capacity: usize) -> bool {
    (SMALLEST..=LARGEST).contains(&capacity)
}

impl Pool {
    /// The smallest that has this much room, and not far more.
    fn take(&mut self, room: usize) -> Option<Vec<u8>> {
        let most = room + room / 2 + STEP;
        let fits = |buffer: &Vec<u8>| (room..=most).contains(&buffer.capacity());
        let places = self.buffers.iter().enumerate();
        let (place, _) = places
            .filter(|(_, buffer)| fits(buffer))
            .min_by_key(|(_, buffer)| buffer.capacity())?;
        let buffer = self.buffers.swap_remove(place);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if self.bytes + buffer.capacity() <= KEPT {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

/// A buffer with at least this much room, and with anything in it.
fn find(room: usize) -> Vec<u8> {
    if !is_kept(room) {
        return Vec::with_capacity(room);
    }
    let found = pool().take(room);
    found.unwrap_or_else(|| Vec::with_capacity(room.next_multiple_of(STEP)))
}

/// An empty buffer with room for at least so many bytes.
#[must_use]
pub(crate) fn empty(room: usize) -> Vec<u8> {
    let mut buffer = find(room);
    buffer.clear();
    buffer
}

/// A buffer of this length, for somebody who overwrites it: what is in it is anything.
#[must_use]
pub(crate) fn filled(len: usize) -> Vec<u8> {
    let mut buffer = find(len);
    buffer.resize(len, 0);
    buffer
}

/// Gives a buffer room for at least so many bytes in all.
pub(crate) fn grow(buffer: &mut Vec<u8>, room: usize) {
    if buffer.capacity() >= room {
        return;
    }
    let mut larger = empty(room);
    larger.extend_from_slice(buffer);
    give_back(std::mem::replace(buffer, larger));
}

/// Takes back a buffer that is not needed any more.
fn give_back(buffer: Vec<u8>) {
    if is_kept(buffer.capacity()) {
        pool().give(buffer);
    }
}

/// A buffer that its users share; the last of them gives it back.
#[must_use]
pub(crate) fn share(buffer: Vec<u8>) -> Bytes {
    struct Shared(Vec<u8>);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Shared {
        fn drop(&mut self) {
            give_back(std::mem::take(&mut self.0));
        }
    }
    if is_kept(buffer.capacity()) {
        Bytes::from_owner(Shared(buffer))
    } else {
        buffer.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_of(capacities: &[usize]) -> Pool {
        let mut pool = Pool {
            buffers: Vec::new(),
            bytes: 0,
        };
        for capacity in capacities {
            pool.give(Vec::with_capacity(*capacity));
        }
        pool
    }

    #[test]
    fn the_smallest_that_fits_is_taken() {
        let mut pool = pool_of(&[400 << 10, 100 << 10, 200 << 10]);
        assert_eq!(pool.take(150 << 10).unwrap().capacity(), 200 << 10);
        assert_eq!(pool.bytes, 500 << 10);
    }

    #[test]
    fn one_that_is_far_too_large_is_not_taken() {
        assert!(pool_of(&[1 << 20]).take(100 << 10).is_none());
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let pool = pool_of(&[1 << 20; 40]);
        assert_eq!(pool.bytes, KEPT);
        assert_eq!(pool.buffers.len(), KEPT >> 20);
    }

    #[test]
    fn what_is_shared_keeps_its_content_until_the_last_user_is_gone() {
        let mut buffer = empty(SMALLEST);
        buffer.extend_from_slice(b"content");
        let bytes = share(buffer);
        let part = bytes.slice(3..);
        drop(bytes);
        // Another of that size must not be the same memory.
        let mut other = empty(SMALLEST);
        other.extend_from_slice(b"other content");
        assert_eq!(&part[..], b"tent");
    }

    #[test]
    fn growing_keeps_the_content() {
        let mut buffer = empty(SMALLEST);
        buffer.extend_from_slice(b"abc");
        grow(&mut buffer, 3 * SMALLEST);
        assert_eq!(buffer, b"abc");
        assert!(buffer.capacity() >= 3 * SMALLEST);
    }

    #[test]
    fn a_filled_one_has_the_length_that_was_asked_for() {
        for len in [0, 10, SMALLEST, SMALLEST + 1, LARGEST + 1] {
            assert_eq!(filled(len).len(), len);
        }
    }
}
