//! Which keys the maps of a block have, by day, without reading anything else of it.
//!
//! Names only: every string but the keys is passed over by its length, and of the keys the dictionary and
//! the indexes are read. That is a small part of the work of [`super::Block::decode`].

use std::collections::HashMap;

use super::native::{COLUMNS, LOW_CARDINALITY, MAP, MAP_OF_FEW, kind_in};
use super::read::{MapKeys, Reader, fixed};
use super::{Error, Frame};

const DAY: i64 = 86_400_000_000_000;

/// A key of a frame's records, and how many of a day's have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCount<'a> {
    /// Days from the epoch to that of the records' timestamps, UTC.
    pub day: i64,
    /// The column whose key it is: `attributes` or `resource`.
    pub column: &'static str,
    /// The key.
    pub key: &'a str,
    /// Records; more where one has the key twice.
    pub records: u64,
}

/// Counts the keys of a frame's records.
///
/// # Errors
/// [`Error::Block`] when the block cannot be read as far as that takes.
pub fn keys(frame: &Frame) -> Result<Vec<KeyCount<'_>>, Error> {
    let mut reader = Reader::new(frame.block());
    if reader.varint()? != COLUMNS.len() {
        return Err(reader.error("another number of columns than the records table has"));
    }
    let rows = reader.varint()?;
    let mut timestamps: &[u8] = &[];
    let mut counts = Vec::new();
    for column in &COLUMNS {
        let kind = kind_in(frame.header().version, column);
        reader.column(column.name, kind)?;
        match kind {
            "String" => reader.skip_strings(rows)?,
            "UInt8" => drop(reader.items(rows, 1)?),
            LOW_CARDINALITY => drop(reader.low_cardinality(rows)?),
            MAP => {
                let map = reader.map_keys(rows, false)?;
                count(column.name, timestamps, &map, &mut counts);
                reader.skip_strings(map.keys.len())?;
            }
            MAP_OF_FEW => {
                let map = reader.map_keys(rows, true)?;
                count(column.name, timestamps, &map, &mut counts);
                reader.dictionary(map.keys.len())?;
            }
            // Times and ids.
            _ => {
                let items = reader.items(rows, 8)?;
                if column.name == "timestamp" {
                    timestamps = items;
                }
            }
        }
    }
    Ok(counts)
}

fn count<'a>(
    column: &'static str,
    timestamps: &[u8],
    map: &MapKeys<'a>,
    counts: &mut Vec<KeyCount<'a>>,
) {
    let dictionary = map.keys.dictionary();
    let mut add = |day, at: usize, records| {
        if let Some(key) = dictionary.get(at).filter(|_| records > 0) {
            counts.push(KeyCount {
                day,
                column,
                key,
                records,
            });
        }
    };
    let (words, _) = timestamps.as_chunks::<8>();
    let times = || words.iter().map(|word| i64::from_le_bytes(*word));
    let first = times().min().unwrap_or(0).div_euclid(DAY);
    // Records come soon after they were made, so nearly always all are of one day.
    if times().max().unwrap_or(0).div_euclid(DAY) == first {
        for (at, records) in map.keys.counts().into_iter().enumerate() {
            add(first, at, records);
        }
        return;
    }
    let mut by_day: HashMap<(i64, usize), u64> = HashMap::new();
    for row in 0..words.len() {
        let day = i64::from_le_bytes(fixed(timestamps, row)).div_euclid(DAY);
        for at in map.range(row) {
            *by_day.entry((day, map.keys.index(at))).or_default() += 1;
        }
    }
    for ((day, at), records) in by_day {
        add(day, at, records);
    }
}
