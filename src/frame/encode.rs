//! Records to a Native block, column by column.
//!
//! A record is written where it ends up: each column is kept as the bytes that the block will have,
//! save for dictionary indexes, whose width is known only once the dictionary is. What the records
//! of a group share is kept once per group and repeated when the block is sealed. In the steady
//! state nothing is allocated but the sealed frame.

use std::ops::Range;

use super::dictionary::Dictionary;
use super::native::put_string;
use super::seal;
use super::{Frame, Seal};
use crate::record::{Group, Receiver, Record, Sink};

/// Builds one Native block out of records.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    pub(super) rows: usize,
    pub(super) accepted: [u32; 3],

    // One entry per record.
    pub(super) timestamps: Vec<u8>,
    pub(super) levels: Vec<u8>,
    pub(super) severity_numbers: Vec<u8>,
    pub(super) severity_texts: Indexed,
    pub(super) messages: Vec<u8>,
    pub(super) trace_ids: Vec<u8>,
    pub(super) span_ids: Vec<u8>,
    pub(super) trace_flags: Vec<u8>,
    pub(super) event_names: Indexed,
    pub(super) attribute_ends: Vec<u8>,
    pub(super) attribute_keys: Indexed,
    pub(super) attribute_values: Vec<u8>,

    // One entry per group.
    pub(super) runs: Vec<Run>,
    pub(super) services: Indexed,
    pub(super) environments: Indexed,
    pub(super) scope_names: Indexed,
    pub(super) scope_versions: Indexed,
    /// One entry per attribute of a group's resource, as are the values.
    pub(super) resource_keys: Indexed,
    pub(super) resource_values: Indexed,

    /// Entries of the resources once they are repeated for every record.
    pub(super) repeated: usize,
    /// Whether `group` was called since the builder was made, sealed or rolled back.
    in_group: bool,
}

/// A column of dictionary indexes.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    pub(super) dictionary: Dictionary,
    pub(super) indexes: Vec<u32>,
}

impl Indexed {
    fn push(&mut self, text: &str) {
        self.indexes.push(self.dictionary.index(text));
    }

    fn truncate(&mut self, len: usize, entries: usize) {
        self.indexes.truncate(len);
        self.dictionary.truncate(entries);
    }

    fn clear(&mut self) {
        self.dictionary.clear();
        recycle(&mut self.indexes);
    }
}

/// Records in a row that share a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) rows: usize,
    pub(super) receiver: Receiver,
    pub(super) received_at: i64,
    /// How many attributes its resource has.
    pub(super) resource_len: usize,
    /// Where they end in `resource_keys` and `resource_values`.
    resource_end: usize,
}

impl Run {
    /// Where its resource is in `resource_keys` and `resource_values`.
    pub(super) fn resource(&self) -> Range<usize> {
        self.resource_end - self.resource_len..self.resource_end
    }
}

/// A place in a [`BlockBuilder`] to go back to.
#[derive(Debug, Clone)]
pub struct Mark {
    rows: usize,
    accepted: [u32; 3],
    messages: usize,
    trace_ids: usize,
    span_ids: usize,
    attributes: usize,
    attribute_values: usize,
    runs: usize,
    rows_of_last_run: usize,
    repeated: usize,
    entries: [usize; 9],
}

impl BlockBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether one of the records from this one on has this time, in nanoseconds since the epoch.
    #[must_use]
    pub fn has_time(&self, from: usize, nanos: i64) -> bool {
        let times = self.timestamps.get(8 * from..).unwrap_or_default();
        let nanos = nanos.to_le_bytes();
        times.chunks_exact(8).any(|time| time == nanos)
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes that the frame would have if it were sealed now, without digests. Costs a few additions,
    /// so it may be asked after every record.
    ///
    /// It may be more than what the builder takes in memory: what a group shares is in there once, and
    /// in the frame an index once per record. Whoever bounds frames must ask this and not count bytes
    /// received.
    #[must_use]
    pub fn bytes(&self) -> usize {
        super::header::HEADER_BYTES + seal::block_bytes(self)
    }

    /// The place to which [`BlockBuilder::rollback`] goes back.
    #[must_use]
    pub fn mark(&self) -> Mark {
        // A group without records is not worth going back to.
        let runs = match self.runs.last() {
            Some(run) if run.rows == 0 => self.runs.len() - 1,
            _ => self.runs.len(),
        };
        Mark {
            rows: self.rows,
            accepted: self.accepted,
            messages: self.messages.len(),
            trace_ids: self.trace_ids.len(),
            span_ids: self.span_ids.len(),
            attributes: self.attribute_keys.indexes.len(),
            attribute_values: self.attribute_values.len(),
            runs,
            rows_of_last_run: runs.checked_sub(1).map_or(0, |last| self.runs[last].rows),
            repeated: self.repeated,
            entries: [
                self.severity_texts.dictionary.len(),
                self.event_names.dictionary.len(),
                self.attribute_keys.dictionary.len(),
                self.services.dictionary.len(),
                self.environments.dictionary.len(),
                self.scope_names.dictionary.len(),
                self.scope_versions.dictionary.len(),
                self.resource_keys.dictionary.len(),
                self.resource_values.dictionary.len(),
            ],
        }
    }

    /// Forgets every record that came after the mark, as if they had never been pushed. The group is
    /// forgotten too: the next record needs a call of [`Sink::group`] before it.
    ///
    /// A mark is good until the builder is sealed, or rolled back to an earlier mark.
    pub fn rollback(&mut self, mark: &Mark) {
        self.rows = mark.rows;
        self.accepted = mark.accepted;
        self.timestamps.truncate(8 * mark.rows);
        self.levels.truncate(mark.rows);
        self.severity_numbers.truncate(mark.rows);
        self.messages.truncate(mark.messages);
        self.trace_ids.truncate(mark.trace_ids);
        self.span_ids.truncate(mark.span_ids);
        self.trace_flags.truncate(mark.rows);
        self.attribute_ends.truncate(8 * mark.rows);
        self.attribute_values.truncate(mark.attribute_values);
        self.runs.truncate(mark.runs);
        if let Some(run) = self.runs.last_mut() {
            run.rows = mark.rows_of_last_run;
        }
        let resource = self.resource_end();
        self.repeated = mark.repeated;

        let entries = mark.entries;
        self.severity_texts.truncate(mark.rows, entries[0]);
        self.event_names.truncate(mark.rows, entries[1]);
        self.attribute_keys.truncate(mark.attributes, entries[2]);
        self.services.truncate(mark.runs, entries[3]);
        self.environments.truncate(mark.runs, entries[4]);
        self.scope_names.truncate(mark.runs, entries[5]);
        self.scope_versions.truncate(mark.runs, entries[6]);
        self.resource_keys.truncate(resource, entries[7]);
        self.resource_values.truncate(resource, entries[8]);
        self.in_group = false;
    }

    /// Makes the frame and leaves the builder empty. Its buffers are kept for the next one, save
    /// those that are much larger than this frame needed.
    ///
    /// # Panics
    /// When the builder is empty, or the frame would be larger than a frame may be (1 GiB).
    pub fn seal(&mut self, seal: &Seal) -> Frame {
        let frame = Frame::seal(seal, self.accepted, seal::block_bytes(self), |out| {
            seal::write_block(self, seal.first_id, out);
        });
        self.clear();
        frame
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.accepted = [0; 3];
        self.repeated = 0;
        self.in_group = false;
        recycle(&mut self.runs);
        for column in [
            &mut self.timestamps,
            &mut self.levels,
            &mut self.severity_numbers,
            &mut self.messages,
            &mut self.trace_ids,
            &mut self.span_ids,
            &mut self.trace_flags,
            &mut self.attribute_ends,
            &mut self.attribute_values,
        ] {
            recycle(column);
        }
        for column in [
            &mut self.severity_texts,
            &mut self.event_names,
            &mut self.attribute_keys,
            &mut self.services,
            &mut self.environments,
            &mut self.scope_names,
            &mut self.scope_versions,
            &mut self.resource_keys,
            &mut self.resource_values,
        ] {
            column.clear();
        }
    }

    fn resource_end(&self) -> usize {
        self.runs.last().map_or(0, |run| run.resource_end)
    }

    /// Takes back the last group if no record followed it, so that empty groups take no room.
    fn drop_empty_group(&mut self) {
        if self.runs.pop_if(|run| run.rows == 0).is_none() {
            return;
        }
        let (runs, resource) = (self.runs.len(), self.resource_end());
        for column in [
            &mut self.services,
            &mut self.environments,
            &mut self.scope_names,
            &mut self.scope_versions,
        ] {
            column.indexes.truncate(runs);
        }
        self.resource_keys.indexes.truncate(resource);
        self.resource_values.indexes.truncate(resource);
    }
}

impl Sink for BlockBuilder {
    fn group(&mut self, group: &Group<'_>) {
        self.drop_empty_group();
        self.services.push(&group.service);
        self.environments.push(&group.environment);
        self.scope_names.push(&group.scope_name);
        self.scope_versions.push(&group.scope_version);

        for (key, value) in &group.resource {
            self.resource_keys.push(key);
            self.resource_values.push(value);
        }
        self.runs.push(Run {
            rows: 0,
            receiver: group.receiver,
            received_at: group.received_at,
            resource_len: group.resource.len(),
            resource_end: self.resource_keys.indexes.len(),
        });
        self.in_group = true;
    }

    /// # Panics
    /// When no [`Sink::group`] came before, or none since the builder was sealed or rolled back: the
    /// record would be filed under somebody else's service.
    fn push(&mut self, record: &Record<'_>) {
        assert!(self.in_group, "a group comes before its records");
        let run = self.runs.last_mut().expect("a group adds a run");
        run.rows += 1;
        self.rows += 1;
        self.accepted[run.receiver as usize] += 1;
        self.repeated += run.resource_len;

        self.timestamps
            .extend_from_slice(&record.timestamp.to_le_bytes());
        self.levels.push(record.level as u8);
        self.severity_numbers.push(record.severity_number);
        self.severity_texts.push(&record.severity_text);
        put_string(&mut self.messages, &record.message);
        put_hex(
            &mut self.trace_ids,
            record.trace_id.as_ref().map(<[u8; 16]>::as_slice),
        );
        put_hex(
            &mut self.span_ids,
            record.span_id.as_ref().map(<[u8; 8]>::as_slice),
        );
        self.trace_flags.push(record.trace_flags);
        self.event_names.push(&record.event_name);
        for (key, value) in &record.attributes {
            self.attribute_keys.push(key);
            put_string(&mut self.attribute_values, value);
        }
        let end = self.attribute_keys.indexes.len() as u64;
        self.attribute_ends.extend_from_slice(&end.to_le_bytes());
    }
}

/// Appends an id of up to 16 bytes as a string of hex digits, or an empty one.
fn put_hex(out: &mut Vec<u8>, id: Option<&[u8]>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let id = id.unwrap_or_default();
    // Put together on the side, so that the column grows once and not for every byte.
    let mut text = [0; 1 + 2 * 16];
    let (length, digits) = text.split_at_mut(1);
    length[0] = 2 * id.len() as u8;
    for (pair, byte) in digits.chunks_exact_mut(2).zip(id) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    out.extend_from_slice(&text[..=2 * id.len()]);
}

/// Empties a buffer and keeps its memory for the next block, unless that is far more than this one
/// needed: one exceptional request must not decide what the daemon weighs from then on.
pub(super) fn recycle<T>(buffer: &mut Vec<T>) {
    let kept = kept(buffer.capacity(), buffer.len(), size_of::<T>());
    buffer.clear();
    buffer.shrink_to(kept);
}

/// The capacity to keep of a buffer of which `used` items were used.
pub(super) fn kept(capacity: usize, used: usize, item_bytes: usize) -> usize {
    /// Below this nothing is given back.
    const SMALL_BYTES: usize = 64 << 10;
    /// A buffer above this is given back at once.
    const LARGE_BYTES: usize = 32 << 20;

    if capacity * item_bytes > LARGE_BYTES {
        SMALL_BYTES / item_bytes
    } else if used < capacity / 8 {
        (2 * used).max(SMALL_BYTES / item_bytes)
    } else {
        capacity
    }
}
