//! The cursor log: which claims were sealed, and which the store has.
//!
//! `cursor.log` is text, one entry a line, so that a person can read it:
//!
//! ```text
//! <CRC-32C of the rest, 8 hex digits> head <next key> <position>
//! <…> sealed <key> <from> <to> <token> <sealed at, ms>
//! <…> acked <key>
//! <…> holds <segment> <bytes> <frames> <records of each receiver>
//! ```
//!
//! A position is `<segment>:<offset>`. `head` says that all before it is acknowledged but for the
//! claims that follow; it is the first line of a rewritten log. A claim covers `from` up to but not
//! including `to`, and the next claim begins where it ends. `holds` is written now and then, so that the
//! next start knows what is missing when a segment is gone or has become shorter. The file is made 256 KiB long in zeros
//! beforehand, so that a full disk does not keep claims from being sealed and so from being drained; the
//! first zero is its end.
//!
//! A damaged line is left out. What follows from it: a lost `acked` hands its claim out again (same
//! token); a lost `sealed` leaves a gap before the next claim, which is taken for a claim of its own
//! (same content, so the same token); with no log at all, everything in the segments is unclaimed.
//! Nothing is ever taken for acknowledged that was not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use super::io::{File, Io};
use super::segment::{Position, Tally};

pub(super) const NAME: &str = "cursor.log";
const NEW_NAME: &str = "cursor.log.new";
/// Bytes of the file before it is rewritten: some 1,500 claims.
const FILE_BYTES: usize = 256 << 10;

/// A claim that was sealed and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sealed {
    pub(super) key: u64,
    pub(super) from: Position,
    pub(super) to: Position,
    /// Empty for a claim whose line was lost.
    pub(super) token: String,
    pub(super) sealed_at: i64,
}

/// What the log says when it is read from front to back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// The next claim begins here.
    pub(super) head: Position,
    /// The next claim's key.
    pub(super) next_key: u64,
    /// Sealed and not acknowledged, by key.
    pub(super) sealed: BTreeMap<u64, Sealed>,
    /// What segments held, by number, as far as it was noted: their bytes, and what is in them.
    pub(super) holds: BTreeMap<u64, (u64, Tally)>,
    /// Lines that could not be read.
    pub(super) damaged: usize,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Head { next_key: u64, head: Position },
    Sealed(Sealed),
    Acked(u64),
    Holds(u64, u64, Tally),
}

impl Entry {
    fn write(&self, out: &mut String) {
        let mut line = String::new();
        let place = |p: &Position| format!("{}:{}", p.segment, p.offset);
        let written = match self {
            Entry::Head { next_key, head } => write!(line, "head {next_key} {}", place(head)),
            Entry::Sealed(s) => write!(
                line,
                "sealed {} {} {} {} {}",
                s.key,
                place(&s.from),
                place(&s.to),
                if s.token.is_empty() { "-" } else { &s.token },
                s.sealed_at
            ),
            Entry::Acked(key) => write!(line, "acked {key}"),
            Entry::Holds(segment, len, tally) => {
                let [a, b, c] = tally.records;
                write!(line, "holds {segment} {len} {} {a} {b} {c}", tally.frames)
            }
        };
        written.expect("writing to a String cannot fail");
        let checksum = crc32c::crc32c(line.as_bytes());
        writeln!(out, "{checksum:08x} {line}").expect("writing to a String cannot fail");
    }

    fn parse(line: &str) -> Option<Entry> {
        let (checksum, rest) = line.split_once(' ')?;
        if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(rest.as_bytes()) {
            return None;
        }
        let place = |text: &str| {
            let (segment, offset) = text.split_once(':')?;
            Some(Position {
                segment: segment.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        };
        let words: Vec<&str> = rest.split(' ').collect();
        match words.as_slice() {
            ["head", next_key, head] => Some(Entry::Head {
                next_key: next_key.parse().ok()?,
                head: place(head)?,
            }),
            ["sealed", key, from, to, token, sealed_at] => Some(Entry::Sealed(Sealed {
                key: key.parse().ok()?,
                from: place(from)?,
                to: place(to)?,
                token: token.strip_prefix('-').unwrap_or(token).to_owned(),
                sealed_at: sealed_at.parse().ok()?,
            })),
            ["acked", key] => Some(Entry::Acked(key.parse().ok()?)),
            ["holds", segment, len, frames, a, b, c] => {
                let tally = Tally {
                    frames: frames.parse().ok()?,
                    records: [a.parse().ok()?, b.parse().ok()?, c.parse().ok()?],
                    bytes: 0,
                };
                let (segment, len) = (segment.parse().ok()?, len.parse().ok()?);
                Some(Entry::Holds(segment, len, tally))
            }
            _ => None,
        }
    }
}

impl Ledger {
    /// Reads a log's bytes. Whatever they are, this gives a ledger.
    pub(super) fn parse(bytes: &[u8]) -> Ledger {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut ledger = Ledger::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let entry = line
                .strip_suffix(b"\n")
                .and_then(|line| std::str::from_utf8(line).ok())
                .and_then(Entry::parse);
            match entry {
                Some(entry) => ledger.apply(entry),
                None => ledger.damaged += 1,
            }
        }
        ledger
    }

    /// Follows one entry.
    pub(super) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Head { next_key, head } => {
                self.head = self.head.max(head);
                self.next_key = self.next_key.max(next_key);
            }
            Entry::Sealed(sealed) => {
                let first = self.head == Position::default() && self.next_key == 0;
                if sealed.from > self.head && !first && sealed.key > self.next_key {
                    self.sealed.insert(
                        self.next_key,
                        Sealed {
                            key: self.next_key,
                            from: self.head,
                            to: sealed.from,
                            token: String::new(),
                            sealed_at: sealed.sealed_at,
                        },
                    );
                }
                // The claims listed behind a `head` line lie before it.
                self.head = self.head.max(sealed.to);
                self.next_key = self.next_key.max(sealed.key.saturating_add(1));
                self.sealed.insert(sealed.key, sealed);
            }
            Entry::Acked(key) => {
                self.sealed.remove(&key);
            }
            Entry::Holds(segment, len, tally) => {
                self.holds.insert(segment, (len, tally));
            }
        }
    }
}

/// Writes the log.
pub(super) struct CursorLog {
    io: Arc<dyn Io>,
    /// `None` after a failure: the next write makes the file anew.
    file: Option<Box<dyn File>>,
    len: usize,
    sync: bool,
}

impl CursorLog {
    /// Reads the log that is there; a missing or unreadable one is an empty ledger and an error to
    /// tell of.
    pub(super) fn load(io: &dyn Io) -> (Ledger, Option<io::Error>) {
        let read = || {
            let file = io.open(NAME)?;
            let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
            // No log of ours is nearly as long; a longer one is read as far as this.
            let mut bytes = vec![0; len.min(64 << 20)];
            let read = file.read_at(0, &mut bytes)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => (Ledger::parse(&bytes), None),
            Err(error) => (Ledger::default(), Some(error)),
        }
    }

    /// A log that is written anew before its first entry.
    pub(super) fn new(io: Arc<dyn Io>, sync: bool) -> CursorLog {
        CursorLog {
            io,
            file: None,
            len: 0,
            sync,
        }
    }

    /// Goes on behind the last line of the log that is there, for want of room for a new one.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        let file = self.io.open(NAME)?;
        let mut bytes = vec![0; FILE_BYTES];
        let read = file.read_at(0, &mut bytes)?;
        let used = bytes.iter().take(read).position(|byte| *byte == 0);
        self.len = used.unwrap_or(FILE_BYTES);
        let torn = self.len > 0 && bytes.get(self.len - 1) != Some(&b'\n');
        self.extend(file, if torn { "\n" } else { "" })
    }

    /// Makes entries durable. `before` is the ledger without them. When this fails none of them
    /// counts, and what the file then holds is never added to: the next write makes a new file.
    pub(super) fn append(&mut self, before: &Ledger, entries: &[Entry]) -> io::Result<()> {
        let mut text = String::new();
        for entry in entries {
            entry.write(&mut text);
        }
        let result = match self.file.take() {
            Some(file) if self.len + text.len() <= FILE_BYTES => self.extend(file, &text),
            _ => self.rewrite(before, &text),
        };
        let result = match (result, &self.file) {
            // Somebody has removed the file.
            (Ok(()), Some(file)) if !self.io.leads_to(NAME, &**file).unwrap_or(false) => {
                self.rewrite(before, &text)
            }
            (result, _) => result,
        };
        if result.is_err() {
            self.file = None;
        }
        result
    }

    fn extend(&mut self, file: Box<dyn File>, text: &str) -> io::Result<()> {
        file.write_at(self.len as u64, &[text.as_bytes()])?;
        if self.sync {
            file.sync()?;
        }
        self.len += text.len();
        self.file = Some(file);
        Ok(())
    }

    /// Puts a log with this ledger and these further lines in the old one's place.
    pub(super) fn rewrite(&mut self, before: &Ledger, more: &str) -> io::Result<()> {
        let mut text = String::new();
        Entry::Head {
            next_key: before.next_key,
            head: before.head,
        }
        .write(&mut text);
        for sealed in before.sealed.values() {
            Entry::Sealed(sealed.clone()).write(&mut text);
        }
        for (segment, (len, tally)) in &before.holds {
            Entry::Holds(*segment, *len, *tally).write(&mut text);
        }
        text.push_str(more);
        let file = self.io.create(NEW_NAME)?;
        let zeros = vec![0; FILE_BYTES.saturating_sub(text.len())];
        file.write_at(0, &[text.as_bytes(), &zeros])?;
        if self.sync {
            file.sync()?;
        }
        self.io.rename(NEW_NAME, NAME)?;
        if self.sync {
            self.io.sync_dir()?;
        }
        self.len = text.len();
        self.file = Some(file);
        Ok(())
    }
}
