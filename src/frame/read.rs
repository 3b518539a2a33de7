//! Reads a block's columns where they lie, and trusts nothing in them.
//!
//! A frame comes back from a disk or from Redis, and what passed its checksum may still have been
//! written by something else. So every length is held against the bytes that are there before
//! anything is allocated for it, and every index, offset and text is checked once, here, so that
//! later look-ups cannot fail.

use std::ops::Range;

use super::Error;
use super::native::{DICTIONARY_HERE, LOW_CARDINALITY_VERSION, Width};

/// A LowCardinality column: the distinct strings, and one index per row.
///
/// Filters look a string up in the dictionary once and then compare indexes.
#[derive(Debug, Clone)]
pub struct LowCardinality<'a> {
    dictionary: Vec<&'a str>,
    width: Width,
    indexes: &'a [u8],
}

impl<'a> LowCardinality<'a> {
    /// The distinct strings. Some may occur in no row.
    #[must_use]
    pub fn dictionary(&self) -> &[&'a str] {
        &self.dictionary
    }

    /// Where a string is in the dictionary; `None` means that no row has it.
    #[must_use]
    pub fn position(&self, text: &str) -> Option<usize> {
        self.dictionary.iter().position(|entry| *entry == text)
    }

    /// The index of a row's string in the dictionary.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn index(&self, row: usize) -> usize {
        match self.width {
            Width::One => usize::from(self.indexes[row]),
            Width::Two => usize::from(u16::from_le_bytes(fixed(self.indexes, row))),
            Width::Four => u32::from_le_bytes(fixed(self.indexes, row)) as usize,
        }
    }

    /// A row's string.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> &'a str {
        self.dictionary[self.index(row)]
    }

    /// How often each of the distinct strings occurs, in their order.
    pub(super) fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.dictionary.len()];
        for row in 0..self.len() {
            counts[self.index(row)] += 1;
        }
        counts
    }

    fn empty() -> Self {
        Self {
            dictionary: Vec::new(),
            width: Width::One,
            indexes: &[],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.indexes.len() / self.width.bytes()
    }

    /// The largest index; 0 where there are no rows.
    fn largest_index(&self) -> usize {
        match self.width {
            Width::One => usize::from(self.indexes.iter().copied().fold(0, u8::max)),
            Width::Two | Width::Four => (0..self.len())
                .map(|row| self.index(row))
                .fold(0, usize::max),
        }
    }
}

/// A map column: attributes or resource.
#[derive(Debug, Clone)]
pub struct MapColumn<'a> {
    ends: &'a [u8],
    keys: LowCardinality<'a>,
    values: Values<'a>,
}

/// A map's values.
#[derive(Debug, Clone)]
enum Values<'a> {
    Plain(Vec<&'a str>),
    Dictionary(LowCardinality<'a>),
}

impl<'a> Values<'a> {
    fn get(&self, at: usize) -> &'a str {
        match self {
            Values::Plain(values) => values[at],
            Values::Dictionary(values) => values.get(at),
        }
    }
}

/// A map column's keys.
pub(super) struct MapKeys<'a> {
    ends: &'a [u8],
    pub(super) keys: LowCardinality<'a>,
}

impl MapKeys<'_> {
    /// The places of a row's keys among all. The row must be there.
    pub(super) fn range(&self, row: usize) -> Range<usize> {
        range(self.ends, row)
    }
}

impl<'a> MapColumn<'a> {
    /// The keys of all rows behind one another; their dictionary is what [`MapColumn::value`] takes.
    #[must_use]
    pub fn keys(&self) -> &LowCardinality<'a> {
        &self.keys
    }

    /// A row's entries, in the order in which they were sent.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn entries(&self, row: usize) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> + '_ {
        self.range(row)
            .map(|at| (self.keys.get(at), self.values.get(at)))
    }

    /// A row's value under the key with this index in the keys' dictionary.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn value(&self, row: usize, key: usize) -> Option<&'a str> {
        self.range(row)
            .find(|at| self.keys.index(*at) == key)
            .map(|at| self.values.get(at))
    }

    fn range(&self, row: usize) -> Range<usize> {
        range(self.ends, row)
    }
}

/// The places of a row's entries. The ends were checked when they were read: none is above the number
/// of entries, so it fits.
fn range(ends: &[u8], row: usize) -> Range<usize> {
    let end = |row| u64::from_le_bytes(fixed(ends, row)) as usize;
    row.checked_sub(1).map_or(0, end)..end(row)
}

/// The row's number out of a column of numbers.
pub(super) fn fixed<const N: usize>(column: &[u8], row: usize) -> [u8; N] {
    column[row * N..(row + 1) * N]
        .try_into()
        .expect("the range has N bytes")
}

/// Most strings that are checked at a time.
const STRETCH: usize = 1024;

/// Walks through a block.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error at the place where the reader is.
    pub(super) fn error(&self, what: &'static str) -> Error {
        Error::Block {
            offset: self.at,
            what,
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(count);
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(self.error("it ends too early"));
        };
        self.at += count;
        Ok(taken)
    }

    /// As many items of so many bytes.
    pub(super) fn items(&mut self, count: usize, bytes: usize) -> Result<&'a [u8], Error> {
        match count.checked_mul(bytes) {
            Some(bytes) => self.take(bytes),
            None => Err(self.error("it counts more items than there can be")),
        }
    }

    pub(super) fn varint(&mut self) -> Result<usize, Error> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else {
                return Err(self.error("it ends too early"));
            };
            self.at += 1;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error("a length is longer than any frame"))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(fixed(self.take(8)?, 0)))
    }

    /// A column's name and type.
    pub(super) fn column(&mut self, name: &str, kind: &str) -> Result<(), Error> {
        for expected in [name, kind] {
            let start = self.at;
            let length = self.varint()?;
            if self.take(length)? != expected.as_bytes() {
                self.at = start;
                return Err(self.error("not the column that comes here in the records table"));
            }
        }
        Ok(())
    }

    /// So many strings.
    pub(super) fn strings(&mut self, count: usize) -> Result<Vec<&'a str>, Error> {
        if count > self.left() {
            return Err(self.error("it counts more strings than bytes"));
        }
        let mut texts = Vec::with_capacity(count);
        // Strings are checked many at a time: a length below 128 is itself an ASCII character, so a
        // stretch of short strings with their lengths is valid text if and only if each of them is.
        let mut stretch = Vec::new();
        let mut start = self.at;
        for _ in 0..count {
            let before = self.at;
            let length = self.varint()?;
            if self.at - before > 1 || stretch.len() == STRETCH {
                self.check_text(start, before, &mut stretch, &mut texts)?;
                start = self.at;
            }
            stretch.push((self.at - start, length));
            self.take(length)?;
        }
        self.check_text(start, self.at, &mut stretch, &mut texts)?;
        Ok(texts)
    }

    /// Checks a stretch and takes the strings (offset, length) out of it.
    fn check_text(
        &self,
        start: usize,
        end: usize,
        stretch: &mut Vec<(usize, usize)>,
        texts: &mut Vec<&'a str>,
    ) -> Result<(), Error> {
        let not_text = Error::Block {
            offset: start,
            what: "text is not UTF-8",
        };
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        let Ok(text) = simdutf8::basic::from_utf8(bytes) else {
            return Err(not_text);
        };
        for (offset, length) in stretch.drain(..) {
            let Some(string) = text.get(offset..offset + length) else {
                return Err(not_text);
            };
            texts.push(string);
        }
        Ok(())
    }

    pub(super) fn low_cardinality(&mut self, rows: usize) -> Result<LowCardinality<'a>, Error> {
        self.low_cardinality_version()?;
        self.dictionary(rows)
    }

    fn low_cardinality_version(&mut self) -> Result<(), Error> {
        match self.u64()? {
            LOW_CARDINALITY_VERSION => Ok(()),
            _ => Err(self.error("unknown version of LowCardinality")),
        }
    }

    /// Everything of a LowCardinality column that follows its version.
    pub(super) fn dictionary(&mut self, rows: usize) -> Result<LowCardinality<'a>, Error> {
        if rows == 0 {
            return Ok(LowCardinality::empty());
        }
        let flags = self.u64()?;
        let Some(width) = Width::from_code(flags ^ DICTIONARY_HERE) else {
            return Err(self.error("unknown kind of dictionary"));
        };
        let entries = self.count()?;
        let dictionary = self.strings(entries)?;
        if self.count()? != rows {
            return Err(self.error("another number of indexes than of rows"));
        }
        let column = LowCardinality {
            dictionary,
            width,
            indexes: self.items(rows, width.bytes())?,
        };
        if column.largest_index() >= column.dictionary.len() {
            return Err(self.error("an index points outside its dictionary"));
        }
        Ok(column)
    }

    /// A count that is a word and not a varint.
    fn count(&mut self) -> Result<usize, Error> {
        let count = self.u64()?;
        usize::try_from(count).map_err(|_| self.error("it counts more items than there can be"))
    }

    /// Passes over so many strings, whatever is in them.
    pub(super) fn skip_strings(&mut self, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let length = self.varint()?;
            self.take(length)?;
        }
        Ok(())
    }

    /// A map whose values are plain strings, or in a dictionary as its keys are.
    pub(super) fn map(&mut self, rows: usize, of_few: bool) -> Result<MapColumn<'a>, Error> {
        let MapKeys { ends, keys } = self.map_keys(rows, of_few)?;
        let values = if of_few {
            Values::Dictionary(self.dictionary(keys.len())?)
        } else {
            Values::Plain(self.strings(keys.len())?)
        };
        Ok(MapColumn { ends, keys, values })
    }

    /// A map column up to its values.
    pub(super) fn map_keys(&mut self, rows: usize, of_few: bool) -> Result<MapKeys<'a>, Error> {
        self.low_cardinality_version()?;
        if of_few {
            self.low_cardinality_version()?;
        }
        let ends = self.items(rows, 8)?;
        let mut last = 0;
        for row in 0..rows {
            let end = u64::from_le_bytes(fixed(ends, row));
            if end < last {
                return Err(self.error("a map ends before it begins"));
            }
            last = end;
        }
        let Some(entries) = usize::try_from(last).ok().filter(|n| *n <= self.left()) else {
            return Err(self.error("it counts more map entries than bytes"));
        };
        Ok(MapKeys {
            ends,
            keys: self.dictionary(entries)?,
        })
    }
}
