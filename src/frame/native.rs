//! The pieces of ClickHouse's *Native* format that our blocks are made of, as both ends know them.
//!
//! A block is the number of columns and of rows, then each column: its name, its type, its data. A
//! string is its length as a LEB128 varint and its bytes. Numbers are little endian. There is no
//! block info and no per-column serialization kind: that is protocol revision 0, which is what
//! ClickHouse speaks over HTTP.
//!
//! ```text
//! LowCardinality(String)  u64 version = 1, and unless there are no rows:
//!                         u64 index width | DICTIONARY_HERE
//!                         u64 entries, the entries as strings
//!                         u64 rows, one index of that width per row
//! Map(K, V)               K's and V's version words, as far as these have one; u64 end per row
//!                         (counted in entries from the block's start); then K and V as columns of
//!                         as many rows as there are entries
//! ```

use super::Column;

/// The records table: every column of a block, in order, under the name and the type that the table
/// has too. ClickHouse converts nothing on the way in.
pub const COLUMNS: [Column; 18] = [
    Column::new("timestamp", "DateTime64(9, 'UTC')"),
    Column::new("id", "UInt64"),
    Column::new("level", LOW_CARDINALITY),
    Column::new("severity_number", "UInt8"),
    Column::new("severity_text", LOW_CARDINALITY),
    Column::new("service", LOW_CARDINALITY),
    Column::new("environment", LOW_CARDINALITY),
    Column::new("message", "String"),
    Column::new("trace_id", "String"),
    Column::new("span_id", "String"),
    Column::new("trace_flags", "UInt8"),
    Column::new("event_name", LOW_CARDINALITY),
    Column::new("scope_name", LOW_CARDINALITY),
    Column::new("scope_version", LOW_CARDINALITY),
    Column::new("attributes", MAP),
    Column::new("resource", MAP_OF_FEW),
    Column::new("receiver", LOW_CARDINALITY),
    Column::new("received_at", "DateTime64(3, 'UTC')"),
];

pub(super) const LOW_CARDINALITY: &str = "LowCardinality(String)";
pub(super) const MAP: &str = "Map(LowCardinality(String), String)";
/// Of values that repeat: a resource is the same for all records of its process, so that each of its
/// values is in a block once, however long it is and however many records share it.
pub(super) const MAP_OF_FEW: &str = "Map(LowCardinality(String), LowCardinality(String))";

/// The type that a column has in frames of this version.
pub(super) fn kind_in(version: u16, column: &Column) -> &'static str {
    if version == 1 && column.name == "resource" {
        MAP
    } else {
        column.kind
    }
}

/// The only version of LowCardinality's serialization that ClickHouse has.
pub(super) const LOW_CARDINALITY_VERSION: u64 = 1;

/// Set beside the index width, as ClickHouse sets them: the dictionary is here in the column, and it
/// is all there is.
pub(super) const DICTIONARY_HERE: u64 = (1 << 9) | (1 << 10);

/// Bytes of an index into a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    One,
    Two,
    Four,
}

impl Width {
    /// The least that tells so many entries apart.
    pub(super) const fn of(entries: usize) -> Width {
        match entries {
            0..=0x100 => Width::One,
            0x101..=0x1_0000 => Width::Two,
            _ => Width::Four,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Width::One => 1,
            Width::Two => 2,
            Width::Four => 4,
        }
    }

    /// As the column says it.
    pub(super) fn code(self) -> u64 {
        match self {
            Width::One => 0,
            Width::Two => 1,
            Width::Four => 2,
        }
    }

    pub(super) fn from_code(code: u64) -> Option<Width> {
        [Width::One, Width::Two, Width::Four]
            .into_iter()
            .find(|width| width.code() == code)
    }
}

/// Appends a LEB128 varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a string: its length, its bytes.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a little-endian number.
pub(super) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `count` little-endian numbers, the one at `i` being `value(i)`.
pub(super) fn put_u64s(out: &mut Vec<u8>, count: usize, value: impl Fn(u64) -> u64) {
    let start = out.len();
    out.resize(start + 8 * count, 0);
    for (i, place) in (0..).zip(out[start..].chunks_exact_mut(8)) {
        place.copy_from_slice(&value(i).to_le_bytes());
    }
}

/// Appends indexes, each of which fits the width.
pub(super) fn put_indexes(out: &mut Vec<u8>, width: Width, indexes: &[u32]) {
    let start = out.len();
    match width {
        Width::One => out.extend(indexes.iter().map(|index| *index as u8)),
        Width::Two => {
            out.resize(start + 2 * indexes.len(), 0);
            for (place, index) in out[start..].chunks_exact_mut(2).zip(indexes) {
                place.copy_from_slice(&(*index as u16).to_le_bytes());
            }
        }
        Width::Four => {
            out.resize(start + 4 * indexes.len(), 0);
            for (place, index) in out[start..].chunks_exact_mut(4).zip(indexes) {
                place.copy_from_slice(&index.to_le_bytes());
            }
        }
    }
}

/// Repeats what was appended since `start` until it is there `times` times.
pub(super) fn repeat_since(out: &mut Vec<u8>, start: usize, times: usize) {
    let once = out.len() - start;
    let mut missing = once * times.saturating_sub(1);
    while missing > 0 {
        // Doubling: both lengths are multiples of `once`.
        let step = missing.min(out.len() - start);
        out.extend_from_within(start..start + step);
        missing -= step;
    }
}
