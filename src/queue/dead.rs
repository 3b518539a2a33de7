//! Dead letters: frames that ClickHouse will never take, kept for a person to look at.
//!
//! ```text
//! dead-letters/
//!   <first id, 16 hex digits>.frame    the frame, unchanged
//!   <first id, 16 hex digits>.json     what ClickHouse said, and when; written last
//!   <first id, 16 hex digits>.replay   somebody wants it in the store; the writer looks for these
//!   damaged-<checksum>-<length>.bin    bytes that are no frame, with a .json likewise
//! ```
//!
//! A letter is there once its `.json` is: a crash in between leaves a file that the next burial of the
//! same frame replaces. Burying twice is the same as once.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Error;
use crate::frame::Frame;
use crate::state_file::is_no_room;
use crate::telemetry::one_line;

/// Name of the directory inside the state directory.
pub const DIR: &str = "dead-letters";

/// Why a frame was buried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// ClickHouse's exception code, where it gave one.
    pub code: Option<i32>,
    /// ClickHouse's words.
    pub message: String,
}

/// A buried frame, as its `.json` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Names it in [`DeadLetters::read`] and [`DeadLetters::remove`].
    pub name: String,
    /// Id of its first record, as text; empty when the bytes were no frame.
    pub first_id: String,
    /// Records by receiver, in the order of `Receiver::ALL`.
    pub records: [u64; 3],
    /// Bytes of the frame.
    pub bytes: u64,
    /// When it was buried, in milliseconds since the epoch.
    pub buried_at: i64,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
}

/// What is buried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Letters.
    pub letters: u64,
    /// Records by receiver, in the order of `Receiver::ALL`.
    pub records: [u64; 3],
}

/// The directory of dead letters. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    dir: Arc<Path>,
    /// The counts, and the directory's time of change for which they hold.
    counts: Arc<Mutex<Option<(SystemTime, Counts)>>>,
}

impl DeadLetters {
    /// Opens the directory and makes it when it is missing, for its owner only.
    ///
    /// # Errors
    /// When it cannot be made. Where there only is no room, a burial makes it.
    pub fn open(dir: &Path) -> Result<DeadLetters, Error> {
        match make(dir) {
            Err(error) if !is_no_room(&error) => return Err(failed("start", dir, error)),
            _ => {}
        }
        Ok(DeadLetters {
            dir: dir.into(),
            counts: Arc::default(),
        })
    }

    /// Buries a frame; it is on the disk when this returns. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn bury(&self, frame: &Frame, reason: &Reason) -> Result<(), Error> {
        let header = frame.header();
        self.write(
            "frame",
            frame.as_bytes(),
            &Letter {
                name: format!("{:016x}", header.first_id),
                first_id: header.first_id.to_string(),
                records: header.accepted.map(u64::from),
                bytes: frame.as_bytes().len() as u64,
                buried_at: super::now_ms(),
                reason: reason.clone(),
            },
        )
    }

    /// Keeps bytes that should have been a frame and are none. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn bury_damaged(&self, bytes: &[u8], message: &str) -> Result<(), Error> {
        self.write(
            "bin",
            bytes,
            &Letter {
                name: format!("damaged-{:08x}-{}", crc32c::crc32c(bytes), bytes.len()),
                first_id: String::new(),
                records: [0; 3],
                bytes: bytes.len() as u64,
                buried_at: super::now_ms(),
                reason: Reason {
                    code: None,
                    message: message.to_owned(),
                },
            },
        )
    }

    fn write(&self, kind: &str, bytes: &[u8], letter: &Letter) -> Result<(), Error> {
        let json = serde_json::to_vec_pretty(letter).map_err(io::Error::other);
        let write = || {
            make(&self.dir)?;
            self.replace(&format!("{}.{kind}", letter.name), bytes)?;
            self.replace(&format!("{}.json", letter.name), &json?)?;
            fs::File::open(&self.dir)?.sync_all()
        };
        write().map_err(|error| failed("burial", &self.dir.join(&letter.name), error))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.dir.join(format!("{name}.new"));
        let mut file = create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, self.dir.join(name))
    }

    /// All letters, oldest first. Of one whose description cannot be read it says so as the reason, and
    /// what its frame tells. Blocks.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Letter>, Error> {
        let entries = self.entries()?;
        let mut letters: Vec<Letter> = entries
            .filter_map(|entry| {
                let file = entry.file_name().into_string().ok()?;
                let name = file.strip_suffix(".json")?;
                Some(self.letter(name, &self.path(name, "json")?))
            })
            .collect();
        for letter in &mut letters {
            letter.reason.message = one_line(&letter.reason.message);
        }
        letters.sort_by(|a, b| (a.buried_at, &a.name).cmp(&(b.buried_at, &b.name)));
        Ok(letters)
    }

    fn letter(&self, name: &str, path: &Path) -> Letter {
        let described = fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
        match described {
            // By the name of its files it is found again, whatever stands in it.
            Ok(letter) => Letter {
                name: name.to_owned(),
                ..letter
            },
            Err(error) => self.undescribed(name, path, &error),
        }
    }

    fn undescribed(&self, name: &str, path: &Path, error: &str) -> Letter {
        let frame = self.read(name).ok().flatten();
        let header = frame.as_ref().map(Frame::header);
        let bytes = ["frame", "bin"].into_iter().find_map(|kind| {
            let file = fs::metadata(self.path(name, kind)?).ok()?;
            Some(file.len())
        });
        let written = fs::metadata(path).and_then(|file| file.modified()).ok();
        let age = written.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        Letter {
            name: name.to_owned(),
            first_id: header.map_or(String::new(), |header| header.first_id.to_string()),
            records: header.map_or([0; 3], |header| header.accepted.map(u64::from)),
            bytes: bytes.unwrap_or_default(),
            buried_at: age.map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
            reason: Reason {
                code: None,
                message: format!("its description {name}.json cannot be read: {error}"),
            },
        }
    }

    /// The frame of a letter; `None` when there is no such letter. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or is no frame.
    pub fn read(&self, name: &str) -> Result<Option<Frame>, Error> {
        let Some(path) = self.path(name, "frame") else {
            return Ok(None);
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, error)),
        };
        Frame::parse(Bytes::from(bytes))
            .map(Some)
            .map_err(|error| failed("read", &path, io::Error::other(error)))
    }

    /// Removes a letter; whether there was one. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        let mut found = false;
        // The `.json` goes first: without it there is no letter.
        for kind in ["json", "frame", "bin", "replay"] {
            let Some(path) = self.path(name, kind) else {
                return Ok(false);
            };
            match fs::remove_file(&path) {
                Ok(()) => found = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("removal", &path, error)),
            }
        }
        fs::File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| failed("removal", &self.dir, error))?;
        Ok(found)
    }

    /// Leaves a note that a letter is wanted in the store. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn ask_for_replay(&self, name: &str) -> Result<(), Error> {
        match self.path(name, "replay") {
            Some(path) => create(&path)
                .map(|_| ())
                .map_err(|error| failed("note", &path, error)),
            None => Ok(()),
        }
    }

    /// Takes that note back. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn forget_replay(&self, name: &str) -> Result<(), Error> {
        let Some(path) = self.path(name, "replay") else {
            return Ok(());
        };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("note", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Names of the letters that are wanted in the store. Blocks.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn asked(&self) -> Result<Vec<String>, Error> {
        let names = self.entries()?.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_suffix(".replay")?.to_owned())
        });
        Ok(names.collect())
    }

    /// What is in the directory; nothing where there is none.
    fn entries(&self) -> Result<impl Iterator<Item = fs::DirEntry> + use<>, Error> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("list", &self.dir, error)),
        };
        Ok(entries.into_iter().flatten().flatten())
    }

    /// The path of one of a letter's files. Names come from outside, too.
    fn path(&self, name: &str, kind: &str) -> Option<PathBuf> {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (plain && !name.is_empty()).then(|| self.dir.join(format!("{name}.{kind}")))
    }

    /// What is buried. Looks at the letters only when the directory has changed.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn counts(&self) -> Result<Counts, Error> {
        let changed = match fs::metadata(&self.dir).and_then(|meta| meta.modified()) {
            Ok(changed) => changed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Counts::default()),
            Err(error) => return Err(failed("list", &self.dir, error)),
        };
        let mut known = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, counts)) = *known
            && at == changed
        {
            return Ok(counts);
        }
        let mut counts = Counts::default();
        for letter in self.list()? {
            counts.letters += 1;
            for (sum, records) in counts.records.iter_mut().zip(letter.records) {
                *sum = sum.saturating_add(records);
            }
        }
        // A change within the clock's resolution would go unnoticed: keep only what has settled.
        let settled = changed.elapsed().is_ok_and(|age| age.as_millis() > 50);
        *known = settled.then_some((changed, counts));
        Ok(counts)
    }
}

fn create(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

fn make(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        what,
        path: path.display().to_string(),
        source: Arc::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::frame;

    fn reason() -> Reason {
        Reason {
            code: Some(117),
            message: "Code: 117. INCORRECT_DATA \"quoted\"".to_owned(),
        }
    }

    #[test]
    fn a_frame_buried_twice_is_one_letter() {
        let dir = tempfile::tempdir().unwrap();
        let dead = DeadLetters::open(&dir.path().join("dead-letters")).unwrap();
        let frame = frame(77, 5, 1000);
        dead.bury(&frame, &reason()).unwrap();
        dead.bury(&frame, &reason()).unwrap();
        let letters = dead.list().unwrap();
        let [letter] = letters.as_slice() else {
            panic!("{letters:?}")
        };
        assert_eq!(letter.reason, reason());
        assert_eq!(letter.first_id, "77");
        assert_eq!(dead.read(&letter.name).unwrap(), Some(frame));
        assert_eq!(dead.counts().unwrap().records, [0, 0, 5]);
        assert!(dead.remove(&letter.name).unwrap());
        assert!(!dead.remove(&letter.name).unwrap());
        assert_eq!(dead.counts().unwrap(), Counts::default());
    }

    #[test]
    fn a_reason_of_many_lines_is_listed_in_one() {
        let dir = tempfile::tempdir().unwrap();
        let dead = DeadLetters::open(dir.path()).unwrap();
        let reason = Reason {
            code: Some(60),
            message: format!("no table\nx{}\n", "y".repeat(10_000)),
        };
        dead.bury(&frame(77, 5, 100), &reason).unwrap();
        let [letter] = &dead.list().unwrap()[..] else {
            panic!("one letter")
        };
        assert!(letter.reason.message.starts_with("no table xyyy"));
        assert!(letter.reason.message.len() < 1100);
    }

    #[test]
    fn bytes_that_are_no_frame_are_kept_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let dead = DeadLetters::open(dir.path()).unwrap();
        dead.bury_damaged(b"WTFR but not really", "frame is cut short")
            .unwrap();
        assert_eq!(dead.counts().unwrap().letters, 1);
        let name = &dead.list().unwrap()[0].name;
        assert_eq!(dead.read(name).unwrap(), None);
    }

    #[test]
    fn a_letter_whose_description_is_damaged_is_there_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let dead = DeadLetters::open(dir.path()).unwrap();
        dead.bury(&frame(77, 5, 1000), &reason()).unwrap();
        dead.bury(&frame(99, 2, 1000), &reason()).unwrap();
        let name = format!("{:016x}", 77);
        fs::write(dir.path().join(format!("{name}.json")), "{\"name\": 7").unwrap();
        fs::write(dir.path().join("nothing.json"), "").unwrap();
        let letters = dead.list().unwrap();
        assert_eq!(letters.len(), 3, "{letters:?}");
        let of = |name: &str| letters.iter().find(|letter| letter.name == name).unwrap();
        assert_eq!(of(&name).records, [0, 0, 5]);
        assert!(of(&name).reason.message.contains(".json cannot be read: "));
        assert_eq!((of("nothing").records, of("nothing").bytes), ([0; 3], 0));
        let counts = dead.counts().unwrap();
        assert_eq!((counts.letters, counts.records), (3, [0, 0, 7]));
        assert!(dead.remove("nothing").unwrap() && dead.remove(&name).unwrap());
        assert_eq!(dead.list().unwrap().len(), 1);
    }

    #[test]
    fn names_from_outside_reach_no_other_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dead = DeadLetters::open(&dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("other.frame"), b"x").unwrap();
        assert_eq!(dead.read("../other").unwrap(), None);
        assert!(!dead.remove("../other").unwrap());
        assert!(dir.path().join("other.frame").exists());
    }
}
