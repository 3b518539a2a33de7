//! Record ids: unique, and rising within a node whatever the clock does.
//!
//! An id is a counter over ten bits of node number. The counter is milliseconds since the epoch and a
//! twelve-bit sequence that may carry into them, so that ids sort by time and any number of them can
//! be given in one millisecond. A floor on disk, kept a little ahead of the counter, makes the first id
//! after a restart greater than the last one before it, also when the clock was set back.
//!
//! The file has the floor and a checksum. With a right checksum it is believed whatever the clock says,
//! which may be the one that is wrong. Without, a floor far from the clock is damage and is set aside:
//! ids years ahead would stay so for ever.

use std::io;
use std::path::{Path, PathBuf};

use tracing::{error, info, warn};

use crate::frame::ID_STEP;
use crate::state_file;

/// Bits of the sequence below the milliseconds.
const SEQUENCE_BITS: u32 = 12;
/// Largest node number.
pub const MAX_NODE: u16 = 1023;
/// How far the floor is put ahead, in milliseconds: one small fsync a minute.
const AHEAD_MS: u64 = 60_000;
/// Ids end in the year 2109. From this time on, a year earlier, none is given: they must not wrap.
const END_MS: u64 = (1 << 42) - 366 * DAY_MS;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// A clock before 2025 was not set yet, as on boards without a battery.
const CLOCK_IS_SET_MS: u64 = 1_735_689_600_000;

/// Gives ids. One task owns it.
#[derive(Debug)]
pub struct Ids {
    node: u16,
    /// The next counter value to give.
    next: u64,
    /// No counter value at or above this was ever given before it was on disk.
    floor: u64,
    path: PathBuf,
    /// Whether the last write of the floor failed.
    failed: bool,
}

/// Reads a floor: its value, and whether a checksum vouches for it.
fn parse(text: &str) -> Option<(u64, bool)> {
    let mut words = text.split_whitespace();
    let number = words.next()?;
    let vouched = match words.next() {
        Some(sum) if sum == checksum(number) => true,
        Some(_) => return None,
        None => false,
    };
    Some((number.parse().ok()?, vouched))
}

fn checksum(number: &str) -> String {
    format!("{:08x}", crc32c::crc32c(number.as_bytes()))
}

/// The floor in the file. One that cannot be right is moved away: the clock is right almost always.
fn read(path: &Path, now: u64) -> io::Result<u64> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let found = std::str::from_utf8(&bytes).ok().and_then(parse);
    if let Some((floor, vouched)) = found {
        let at = floor >> SEQUENCE_BITS;
        let near = at <= now.saturating_add(DAY_MS) || now < CLOCK_IS_SET_MS;
        if at < END_MS && (vouched || near) {
            return Ok(floor);
        }
    }
    let aside = path.with_extension("damaged");
    let kept = std::fs::rename(path, &aside).is_ok();
    let bytes = bytes.get(..80).unwrap_or(&bytes);
    warn!(
        path = %path.display(), content = %bytes.escape_ascii(), kept,
        "the floor of record ids is damaged or absurd and is set aside as `id-floor.damaged`; ids go on from the clock"
    );
    Ok(0)
}

impl Ids {
    /// Opens the floor in `state_dir`. `now` is in milliseconds since the epoch.
    ///
    /// A full disk is no error: no id is given then until there is room.
    ///
    /// # Errors
    /// When the floor can be neither read nor written.
    ///
    /// # Panics
    /// When `node` is over [`MAX_NODE`].
    pub fn open(state_dir: &Path, node: u16, now: u64) -> io::Result<Ids> {
        assert!(node <= MAX_NODE, "node numbers have ten bits");
        let path = state_dir.join("id-floor");
        let floor = read(&path, now)?;
        let mut ids = Ids {
            node,
            next: floor.max(at(now)),
            floor,
            path,
            failed: false,
        };
        let ahead = (ids.next >> SEQUENCE_BITS).saturating_sub(now);
        if ahead > DAY_MS {
            warn!(
                days = ahead / DAY_MS,
                "record ids are ahead of the clock: it was ahead once, or is behind now"
            );
        }
        match ids.raise_floor() {
            Err(error) if !state_file::is_no_room(&error) => return Err(error),
            _ => {}
        }
        Ok(ids)
    }

    /// Whether the floor could not be written and so no ids are given.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Tries again what has failed.
    pub(super) fn mend(&mut self) {
        // It is told where it happens.
        self.raise_floor().ok();
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
    /// When the floor cannot be written, or ids are used up; no id is given then.
    pub fn give(&mut self, count: u32, now: u64) -> io::Result<u64> {
        self.next = self.next.max(at(now));
        let end = self.next + u64::from(count);
        if end > at(u64::MAX) {
            return Err(io::Error::other(
                "record ids are used up: the clock is, or was, beyond the year 2108",
            ));
        }
        if end > self.floor {
            self.raise_floor()?;
        }
        let first = self.next * ID_STEP + u64::from(self.node);
        self.next = end;
        Ok(first)
    }

    /// Puts the floor a minute ahead of the counter.
    fn raise_floor(&mut self) -> io::Result<()> {
        self.write_floor(self.next + (AHEAD_MS << SEQUENCE_BITS))
    }

    /// Puts the floor right at the counter, so that a clean restart leaves no gap.
    ///
    /// # Errors
    /// When it cannot be written; the old floor stays and is as safe.
    pub fn close(mut self) -> io::Result<()> {
        self.write_floor(self.next)
    }

    fn write_floor(&mut self, floor: u64) -> io::Result<()> {
        let number = floor.to_string();
        let text = format!("{number} {}\n", checksum(&number));
        let written = state_file::replace(&self.path, text.as_bytes());
        match (&written, self.failed) {
            (Err(error), false) => {
                error!(%error, path = %self.path.display(), "the floor of record ids cannot be written, so records are refused");
            }
            (Ok(()), true) => info!("the floor of record ids is written again"),
            _ => {}
        }
        self.failed = written.is_err();
        written?;
        self.floor = floor;
        Ok(())
    }
}

/// The counter's first value at a time; the last of all beyond the end.
fn at(ms: u64) -> u64 {
    ms.min(END_MS) << SEQUENCE_BITS
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
    fn r_078_ids_rise_across_a_kill_and_a_clock_set_back() {
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
        let text = std::fs::read_to_string(dir.path().join("id-floor")).unwrap();
        let (floor, vouched) = parse(&text).unwrap();
        assert!(vouched);
        assert!(floor > id / ID_STEP, "{floor} covers {id}");
    }

    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn a_floor_that_cannot_be_right_is_set_aside_and_ids_follow_the_clock() {
        let far = ((NOW + 5 * 365 * DAY_MS) << SEQUENCE_BITS).to_string();
        let wrong_sum = format!("{} 00000000", NOW << SEQUENCE_BITS);
        let ends = (u64::MAX >> 10).to_string();
        let vouched = format!("{ends} {}", checksum(&ends));
        let max = u64::MAX.to_string();
        let contents = [
            "", "nonsense", "\u{fffd}", "-1", &far, &wrong_sum, &max, &vouched,
        ];
        for content in contents {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("id-floor"), content).unwrap();
            let mut ids = Ids::open(dir.path(), 3, NOW).unwrap();
            let id = ids.give(5, NOW).unwrap();
            assert_eq!(id, ((NOW << 12) << 10) | 3, "{content}");
            let aside = std::fs::read(dir.path().join("id-floor.damaged")).unwrap();
            assert_eq!(aside, content.as_bytes());
        }
    }

    #[test]
    fn a_floor_with_its_checksum_is_believed_over_the_clock() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Ids::open(dir.path(), 0, NOW + 5 * 365 * DAY_MS).unwrap();
        let before = ids.give(1, NOW + 5 * 365 * DAY_MS).unwrap();
        drop(ids);
        let mut ids = Ids::open(dir.path(), 0, NOW).unwrap();
        assert!(ids.give(1, NOW).unwrap() > before);
        // One from before there were checksums, after a boot without a clock.
        let old = (NOW << SEQUENCE_BITS).to_string();
        std::fs::write(dir.path().join("id-floor"), old).unwrap();
        let mut ids = Ids::open(dir.path(), 0, 5_000).unwrap();
        assert_eq!(ids.give(1, 5_000).unwrap(), (NOW << 12) << 10);
    }

    #[test]
    fn ids_end_before_they_wrap() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Ids::open(dir.path(), MAX_NODE, u64::MAX).unwrap();
        assert!(ids.give(1, u64::MAX).is_err());
        assert!(ids.give(1, NOW).is_err());
    }

    #[test]
    fn the_floor_is_its_owners_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        drop(Ids::open(dir.path(), 0, NOW).unwrap());
        let meta = std::fs::metadata(dir.path().join("id-floor")).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    }
}
