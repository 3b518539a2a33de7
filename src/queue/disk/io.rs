//! Every file access of the disk queue goes through here.
//!
//! [`Io`] is a flat directory of named files. The real one is [`Dir`]; tests use one that forgets
//! what was not synced when it crashes, tears the last write and fails where it is told to.

use std::fs;
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::state_file::is_no_room;

/// Buffers of one `pwritev`; Linux takes up to 1024.
const MAX_SLICES: usize = 1024;

/// A directory of files. Names may have one directory in front (`damaged/…`).
pub(super) trait Io: Send + Sync {
    /// Names of the plain files directly in `sub` (empty: the directory itself).
    fn list(&self, sub: &str) -> io::Result<Vec<String>>;
    /// Makes a file, or empties the one that is there. Only its owner may read it.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Opens a file to read and write it.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Renames a file over whatever has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes created, renamed and removed names durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Bytes free to this user on the file system.
    fn free_bytes(&self) -> io::Result<u64>;
    /// The file as a person would name it, for messages.
    fn describe(&self, name: &str) -> String;
    /// Whether the name still leads to this open file. Somebody may have removed or replaced it, and
    /// what is written to a file without a name is gone once it is closed.
    fn leads_to(&self, _name: &str, _file: &dyn File) -> io::Result<bool> {
        Ok(true)
    }
    /// Lets another process have the directory.
    fn release(&self) {}
}

/// An open file.
pub(super) trait File: Send + Sync {
    /// Writes all the buffers, one behind the other.
    fn write_at(&self, offset: u64, buffers: &[&[u8]]) -> io::Result<()>;
    /// Reads as many bytes as there are, up to the buffer's size.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;
    /// Cuts the file.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes the content durable.
    fn sync(&self) -> io::Result<()>;
    /// The file system and the number in it, where files have such.
    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((0, 0))
    }
}

/// Bytes free to this user on the file system of a directory, which itself may be missing.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let mut stat = rustix::fs::statvfs(path);
    for parent in path.ancestors().skip(1) {
        if !matches!(stat, Err(rustix::io::Errno::NOENT)) {
            break;
        }
        let empty = parent.as_os_str().is_empty();
        stat = rustix::fs::statvfs(if empty { Path::new(".") } else { parent });
    }
    let stat = stat?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The real directory, locked against a second daemon.
pub(super) struct Dir {
    path: PathBuf,
    /// `None` while there was no room to make it.
    held: Mutex<Option<Held>>,
}

/// The directory that was opened, which may not be the one that has its path by now.
struct Held {
    handle: fs::File,
    _lock: Lock,
}

impl Held {
    /// Makes the directory when it is missing, for its owner only, and locks it.
    fn make(path: &Path) -> io::Result<Held> {
        for dir in [path.to_owned(), path.join(super::DAMAGED)] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)?;
        }
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::File::open(parent)?.sync_all()?;
        }
        Ok(Held {
            handle: fs::File::open(path)?,
            _lock: Lock::take(&path.join("lock"))?,
        })
    }
}

impl Dir {
    /// Opens the directory, and makes it when it is missing. Where there is no room to make it, the
    /// first file that is created tries again.
    ///
    /// # Errors
    /// `WouldBlock` when another process has it; when it cannot be made or opened.
    pub(super) fn open(path: &Path) -> io::Result<Dir> {
        let held = match Held::make(path) {
            Ok(held) => Some(held),
            Err(error) if is_no_room(&error) => {
                tracing::error!(path = %path.display(), %error, "no room to make the directory of the queue");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Dir {
            path: path.to_owned(),
            held: Mutex::new(held),
        })
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the directory anew if it is gone.
    fn ensure(&self) -> io::Result<()> {
        let mut held = self.held();
        if let Some(held) = &*held {
            match fs::metadata(&self.path) {
                Ok(now) if identity(&now) == held.handle.identity()? => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            tracing::error!(path = %self.path.display(), "the directory of the queue was removed while in use and is made anew; frames that were in it and not in memory are lost");
        }
        *held = Some(Held::make(&self.path)?);
        Ok(())
    }
}

fn identity(meta: &fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

impl Io for Dir {
    fn list(&self, sub: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        if self.held().is_none() {
            return Ok(names);
        }
        for entry in fs::read_dir(self.path.join(sub))? {
            let entry = entry?;
            if let (true, Ok(name)) = (
                entry.file_type()?.is_file(),
                entry.file_name().into_string(),
            ) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.ensure()?;
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        match &*self.held() {
            Some(held) => held.handle.sync_all(),
            None => Ok(()),
        }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.path)
    }

    fn describe(&self, name: &str) -> String {
        let path = self.path.join(name);
        match fs::metadata(&path) {
            Ok(meta) => format!(
                "{} (owner {}, mode {:o})",
                path.display(),
                meta.uid(),
                meta.mode() & 0o7777
            ),
            Err(_) => path.display().to_string(),
        }
    }

    fn leads_to(&self, name: &str, file: &dyn File) -> io::Result<bool> {
        match fs::metadata(self.path.join(name)) {
            Ok(meta) => Ok(identity(&meta) == file.identity()?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn release(&self) {
        *self.held() = None;
    }
}

impl File for fs::File {
    fn write_at(&self, mut offset: u64, buffers: &[&[u8]]) -> io::Result<()> {
        for buffers in buffers.chunks(MAX_SLICES) {
            let mut slices: Vec<_> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
            let mut rest = slices.as_mut_slice();
            while !rest.is_empty() {
                let written = match rustix::io::pwritev(self, rest, offset) {
                    Ok(0) if rest.iter().all(|slice| slice.is_empty()) => break,
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => written,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                };
                IoSlice::advance_slices(&mut rest, written);
                offset += written as u64;
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(self, rest, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(identity(&self.metadata()?))
    }
}

/// The lock against a second daemon on the same directory; released when dropped.
struct Lock {
    _file: fs::File,
}

impl Lock {
    /// Takes the lock; `WouldBlock` when another process has it.
    fn take(path: &Path) -> io::Result<Lock> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(Lock { _file: file })
    }
}
