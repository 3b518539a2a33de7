//! The last step of building a block: the columns behind one another, indexes narrowed, groups
//! repeated for each of their records.

use super::Column;
use super::encode::{BlockBuilder, Indexed, Run};
use super::header::ID_STEP;
use super::native::{
    COLUMNS, DICTIONARY_HERE, LOW_CARDINALITY_VERSION, Width, put_indexes, put_string, put_u64,
    put_u64s, put_varint, repeat_since,
};
use crate::record::{Level, Receiver};

/// Writes the block. Its rows' ids rise from `first_id` by [`ID_STEP`].
pub(super) fn write_block(builder: &BlockBuilder, first_id: u64, out: &mut Vec<u8>) {
    put_varint(out, COLUMNS.len());
    put_varint(out, builder.rows);
    let mut block = Writer {
        builder,
        columns: COLUMNS.iter(),
        out,
    };
    // The order of COLUMNS.
    block.column(&builder.timestamps);
    block.ids(first_id);
    block.closed_set(&Level::ALL.map(Level::as_str), |out| {
        out.extend_from_slice(&builder.levels);
    });
    block.column(&builder.severity_numbers);
    block.low_cardinality(&builder.severity_texts);
    block.low_cardinality_of_group(&builder.services);
    block.low_cardinality_of_group(&builder.environments);
    block.column(&builder.messages);
    block.column(&builder.trace_ids);
    block.column(&builder.span_ids);
    block.column(&builder.trace_flags);
    block.low_cardinality(&builder.event_names);
    block.low_cardinality_of_group(&builder.scope_names);
    block.low_cardinality_of_group(&builder.scope_versions);
    block.attributes();
    block.resource();
    block.closed_set(&Receiver::ALL.map(Receiver::as_str), |out| {
        put_per_group(out, &builder.runs, |out, run| out.push(run.receiver as u8));
    });
    block.received_at();
}

/// Bytes that [`write_block`] would write.
pub(super) fn block_bytes(builder: &BlockBuilder) -> usize {
    let rows = builder.rows;
    let numbers = rows * (8 + 8 + 1 + 1 + 8); // timestamp, id, severity number, flags, received at
    let strings = builder.messages.len() + builder.trace_ids.len() + builder.span_ids.len();
    let dictionaries: usize = [
        &builder.severity_texts,
        &builder.services,
        &builder.environments,
        &builder.event_names,
        &builder.scope_names,
        &builder.scope_versions,
    ]
    .into_iter()
    .map(|column| low_cardinality_bytes(column, rows))
    .sum();
    let attributes = low_cardinality_bytes(
        &builder.attribute_keys,
        builder.attribute_keys.indexes.len(),
    ) + builder.attribute_values.len();
    let resource = low_cardinality_bytes(&builder.resource_keys, builder.repeated)
        + low_cardinality_bytes(&builder.resource_values, builder.repeated);
    let closed_sets = 2 * rows; // level, receiver
    let ends = 2 * 8 * rows;
    FIXED_BYTES + numbers + strings + dictionaries + attributes + resource + closed_sets + ends
}

/// What a block has whatever is in it: names, types, the dictionaries that never change, and the
/// longest row count.
const FIXED_BYTES: usize = {
    let mut bytes = 1 + 5;
    let mut i = 0;
    while i < COLUMNS.len() {
        bytes += 1 + COLUMNS[i].name.len() + 1 + COLUMNS[i].kind.len();
        i += 1;
    }
    let mut i = 0;
    while i < Level::ALL.len() {
        bytes += 1 + Level::ALL[i].as_str().len();
        i += 1;
    }
    let mut i = 0;
    while i < Receiver::ALL.len() {
        bytes += 1 + Receiver::ALL[i].as_str().len();
        i += 1;
    }
    bytes + 2 * LOW_CARDINALITY_BYTES
};

/// Version, flags, number of entries, number of rows.
const LOW_CARDINALITY_BYTES: usize = 4 * 8;

fn low_cardinality_bytes(column: &Indexed, rows: usize) -> usize {
    if rows == 0 {
        return 8;
    }
    let dictionary = &column.dictionary;
    LOW_CARDINALITY_BYTES + dictionary.encoded().len() + rows * dictionary.width().bytes()
}

/// Writes one column after the other, each under its name and type.
struct Writer<'a> {
    builder: &'a BlockBuilder,
    columns: std::slice::Iter<'static, Column>,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn begin(&mut self) -> &mut Vec<u8> {
        let column = self.columns.next().expect("no more columns than COLUMNS");
        put_string(self.out, column.name);
        put_string(self.out, column.kind);
        self.out
    }

    /// A column that is already as the block has it.
    fn column(&mut self, bytes: &[u8]) {
        self.begin().extend_from_slice(bytes);
    }

    fn ids(&mut self, first_id: u64) {
        let rows = self.builder.rows;
        put_u64s(self.begin(), rows, |row| first_id + row * ID_STEP);
    }

    /// A LowCardinality column whose dictionary is always the same.
    fn closed_set(&mut self, names: &[&str], indexes: impl FnOnce(&mut Vec<u8>)) {
        let rows = self.builder.rows;
        let out = self.begin();
        put_u64(out, LOW_CARDINALITY_VERSION);
        put_u64(out, Width::One.code() | DICTIONARY_HERE);
        put_u64(out, names.len() as u64);
        for name in names {
            put_string(out, name);
        }
        put_u64(out, rows as u64);
        indexes(out);
    }

    fn low_cardinality(&mut self, column: &Indexed) {
        let out = self.begin();
        put_u64(out, LOW_CARDINALITY_VERSION);
        let width = put_dictionary(out, column, column.indexes.len());
        put_indexes(out, width, &column.indexes);
    }

    fn low_cardinality_of_group(&mut self, column: &Indexed) {
        let (runs, rows) = (&self.builder.runs, self.builder.rows);
        let out = self.begin();
        put_u64(out, LOW_CARDINALITY_VERSION);
        let width = put_dictionary(out, column, rows);
        let mut indexes = column.indexes.chunks_exact(1);
        put_per_group(out, runs, |out, _| {
            put_indexes(out, width, indexes.next().unwrap_or_default());
        });
    }

    fn attributes(&mut self) {
        let builder = self.builder;
        let out = self.begin();
        put_u64(out, LOW_CARDINALITY_VERSION);
        out.extend_from_slice(&builder.attribute_ends);
        let keys = &builder.attribute_keys;
        // ClickHouse writes and expects nothing at all for the keys of maps that are all empty.
        if !keys.indexes.is_empty() {
            let width = put_dictionary(out, keys, keys.indexes.len());
            put_indexes(out, width, &keys.indexes);
        }
        out.extend_from_slice(&builder.attribute_values);
    }

    fn resource(&mut self) {
        let builder = self.builder;
        let out = self.begin();
        put_u64(out, LOW_CARDINALITY_VERSION);
        put_u64(out, LOW_CARDINALITY_VERSION);
        let mut end = 0;
        for run in &builder.runs {
            let (start, len) = (end, run.resource_len as u64);
            put_u64s(out, run.rows, |row| start + (row + 1) * len);
            end += run.rows as u64 * len;
        }
        if builder.repeated == 0 {
            return;
        }
        for column in [&builder.resource_keys, &builder.resource_values] {
            let width = put_dictionary(out, column, builder.repeated);
            put_per_group(out, &builder.runs, |out, run| {
                put_indexes(out, width, &column.indexes[run.resource()]);
            });
        }
    }

    fn received_at(&mut self) {
        let runs = &self.builder.runs;
        put_per_group(self.begin(), runs, |out, run| {
            out.extend_from_slice(&run.received_at.to_le_bytes());
        });
    }
}

/// Writes what is the same for all records of a group once for each of them.
fn put_per_group(out: &mut Vec<u8>, runs: &[Run], mut once: impl FnMut(&mut Vec<u8>, &Run)) {
    for run in runs {
        let start = out.len();
        once(out, run);
        if run.rows == 0 {
            out.truncate(start);
        } else {
            repeat_since(out, start, run.rows);
        }
    }
}

/// Writes a dictionary and how many indexes into it follow, in what width.
fn put_dictionary(out: &mut Vec<u8>, column: &Indexed, rows: usize) -> Width {
    let dictionary = &column.dictionary;
    let width = dictionary.width();
    put_u64(out, width.code() | DICTIONARY_HERE);
    put_u64(out, dictionary.len() as u64);
    out.extend_from_slice(dictionary.encoded());
    put_u64(out, rows as u64);
    width
}
