//! Record ids: unique, and rising within a node whatever the clock does.
//!
//! An id is a counter over ten bits of node number. The counter is milliseconds since the epoch and a
//! twelve-bit sequence that may carry into them, so that ids sort by time and any number of them can
//! be given in one millisecond. A floor on disk, kept a little ahead of the counter, makes the first id
//! after a restart greater than the last one before it, also when the clock was set back.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::frame::ID_STEP;

/// Bits of the sequence below the milliseconds.
const SEQUENCE_BITS: u32 = 12;
/// Largest node number.
pub const MAX_NODE: u16 = 1023;
/// How far the floor is put ahead, in milliseconds: one small fsync a minute.
const AHEAD_MS: u64 = 60_000;

/// Gives ids. One task owns it.
#[derive(Debug)]
pub struct Ids {
    node: u16,
    /// The next counter value to give.
    next: u64,
    /// No counter value at or above this was ever given before it was on disk.
    floor: u64,
    path: PathBuf,
}

impl Ids {
    /// Opens the floor in `state_dir`. `now` is in milliseconds since the epoch.
    ///
    /// # Errors
    /// When the floor can be neither read nor written.
    ///
    /// # Panics
    /// When `node` is over [`MAX_NODE`].
    pub fn open(state_dir: &Path, node: u16, now: u64) -> std::io::Result<Ids> {
        assert!(node <= MAX_NODE, "node numbers have ten bits");
        let path = state_dir.join("id-floor");
        let floor = match std::fs::read_to_string(&path) {
            // A damaged floor is worth no refusal to start: the clock is right almost always.
            Ok(text) => text.trim().parse().unwrap_or(0),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let mut ids = Ids {
            node,
            next: floor.max(now << SEQUENCE_BITS),
            floor,
            path,
        };
        ids.raise_floor()?;
        Ok(ids)
    }

    /// The node whose ids these are.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.node
    }

    /// An id that is below all that will be given, and not below any that was given before.
    #[must_use]
    pub fn start(&self) -> u64 {
        (self.next - 1) * ID_STEP + u64::from(self.node)
    }

    /// Gives `count` ids, [`ID_STEP`] apart, and returns the first.
    ///
    /// # Errors
    /// When the floor cannot be written; no id is given then.
    pub fn give(&mut self, count: u32, now: u64) -> std::io::Result<u64> {
        self.next = self.next.max(now << SEQUENCE_BITS);
        let end = self.next + u64::from(count);
        if end > self.floor {
            self.raise_floor()?;
        }
        let first = self.next * ID_STEP + u64::from(self.node);
        self.next = end;
        Ok(first)
    }

    /// Puts the floor a minute ahead of the counter.
    fn raise_floor(&mut self) -> std::io::Result<()> {
        self.write_floor(self.next + (AHEAD_MS << SEQUENCE_BITS))
    }

    /// Puts the floor right at the counter, so that a clean restart leaves no gap.
    ///
    /// # Errors
    /// When it cannot be written; the old floor stays and is as safe.
    pub fn close(mut self) -> std::io::Result<()> {
        self.write_floor(self.next)
    }

    fn write_floor(&mut self, floor: u64) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(format!("{floor}\n").as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&new, &self.path)?;
        if let Some(parent) = self.path.parent() {
            std::fs::File::open(parent)?.sync_all()?;
        }
        self.floor = floor;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_within_a_millisecond_and_carry() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Ids::open(dir.path(), 7, 1_000).unwrap();
        let first = ids.give(5_000, 1_000).unwrap();
        assert_eq!(first, ((1_000 << 12) << 10) | 7);
        let second = ids.give(1, 1_000).unwrap();
        assert_eq!(second, first + 5_000 * ID_STEP);
        assert_eq!(ids.give(1, 2_000).unwrap(), ((2_000 << 12) << 10) | 7);
    }

    #[test]
    fn ids_rise_across_a_kill_and_a_clock_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Ids::open(dir.path(), 0, 500_000).unwrap();
        let before = ids.give(10, 500_000).unwrap();
        drop(ids); // as a kill would: the floor stays ahead
        let mut ids = Ids::open(dir.path(), 0, 3_000).unwrap();
        assert!(ids.give(1, 3_000).unwrap() > before + 9 * ID_STEP);
    }

    #[test]
    fn a_clean_close_leaves_no_gap() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Ids::open(dir.path(), 0, 500_000).unwrap();
        let last = ids.give(10, 500_000).unwrap() + 9 * ID_STEP;
        ids.close().unwrap();
        let mut ids = Ids::open(dir.path(), 0, 400_000).unwrap();
        assert_eq!(ids.give(1, 400_000).unwrap(), last + ID_STEP);
    }

    #[test]
    fn the_floor_is_on_disk_before_an_id_beyond_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Ids::open(dir.path(), 0, 1_000).unwrap();
        let id = ids.give(1, 9_000_000).unwrap(); // the clock leapt
        let floor: u64 = std::fs::read_to_string(dir.path().join("id-floor"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(floor > id / ID_STEP, "{floor} covers {id}");
    }
}
