//! The journal of accepted requests: `<state_dir>/resends.log`, and `resends.old` before it.
//!
//! Entries of 24 bytes, one behind the other: a digest, and the time in milliseconds since the epoch,
//! little endian. There is no checksum, because a damaged entry matches nothing. When the first entry
//! of the log is older than the window, or there are as many as are remembered, it takes the place of
//! the old one; so the two hold the window, and at most twice as many entries as memory does.
//!
//! It is written before a sender is answered, and not synced: a killed daemon loses nothing of it. A
//! power cut can lose its last seconds, and with them the digests of requests that ClickHouse has
//! already; those that wait in the queue are there.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::Digest;
use crate::state_file::is_no_room;

const ENTRY_BYTES: usize = 24;

/// See the module.
#[derive(Debug)]
pub(super) struct Journal {
    /// `None` while it could not be opened.
    file: Option<File>,
    path: PathBuf,
    old: PathBuf,
    entries: usize,
    /// When the first entry was written.
    first: Option<i64>,
    most: usize,
    /// Whether the last write failed.
    failed: bool,
}

impl Journal {
    /// Opens the journal and reads what is in it and not older than `since`.
    pub(super) fn open(
        dir: &Path,
        since: i64,
        most: usize,
    ) -> io::Result<(Journal, Vec<(Digest, i64)>)> {
        let (path, old) = (dir.join("resends.log"), dir.join("resends.old"));
        let mut known = read(&old)?;
        let current = read(&path)?;
        let mut journal = Journal {
            file: None,
            path,
            old,
            entries: current.len(),
            first: current.first().map(|(_, at)| *at),
            most,
            failed: false,
        };
        match journal.open_file() {
            // Each write tries again.
            Err(error) if is_no_room(&error) => journal.tell(&error),
            opened => opened?,
        }
        known.extend(current);
        known.retain(|(_, at)| *at >= since);
        Ok((journal, known))
    }

    fn open_file(&mut self) -> io::Result<()> {
        let file = append_to(&self.path)?;
        // A torn entry would shift all that follow.
        file.set_len((self.entries * ENTRY_BYTES) as u64)?;
        self.file = Some(file);
        Ok(())
    }

    /// Adds entries. A failure is told once; it costs no more than that requests sent again after a
    /// restart are not recognized.
    pub(super) fn write(&mut self, digests: impl Iterator<Item = Digest>, now: i64, since: i64) {
        let mut bytes = Vec::with_capacity(digests.size_hint().0 * ENTRY_BYTES);
        for digest in digests {
            bytes.extend_from_slice(&digest);
            bytes.extend_from_slice(&now.to_le_bytes());
        }
        let mut work = || {
            let is_old = self.first.is_some_and(|first| first < since);
            if is_old || self.entries >= self.most {
                std::fs::rename(&self.path, &self.old)?;
                self.file = None;
                (self.entries, self.first) = (0, None);
            }
            // Half an entry may be left of a write that failed.
            if self.failed || self.file.is_none() {
                self.open_file()?;
            }
            if let Some(file) = &mut self.file {
                file.write_all(&bytes)?;
            }
            self.entries += bytes.len() / ENTRY_BYTES;
            self.first.get_or_insert(now);
            Ok::<_, io::Error>(())
        };
        let result = work();
        match result {
            Err(error) if !self.failed => self.tell(&error),
            Err(_) => {}
            Ok(()) => self.failed = false,
        }
    }

    fn tell(&mut self, error: &io::Error) {
        self.failed = true;
        tracing::warn!(%error, path = %self.path.display(), "the journal of accepted requests cannot be written; requests sent again after a restart are stored again");
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600).open(path)
}

/// The entries of a file; none when there is no file.
fn read(path: &Path) -> io::Result<Vec<(Digest, i64)>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let entry = |bytes: &[u8]| {
        let (digest, at) = bytes.split_first_chunk::<16>()?;
        Some((*digest, i64::from_le_bytes(at.try_into().ok()?)))
    };
    Ok(bytes.chunks_exact(ENTRY_BYTES).filter_map(entry).collect())
}
