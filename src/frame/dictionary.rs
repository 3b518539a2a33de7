//! The distinct strings of a LowCardinality column while a block is built.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::encode::{kept, recycle};
use super::native::{Width, put_string};

/// Slots of the memory of recent strings; a power of two.
const RECENT: usize = 256;

/// Distinct strings in the order in which they came, already written as the block will have them.
///
/// Strings come from outside, so the table is hashed with a key nobody knows. Keyed hashes are slow
/// beside the rest of the work per record, and records repeat the same few strings: a small memory
/// of recent ones, looked up by a hash of a few instructions and checked against the text, answers
/// nearly all calls. Strings made to collide there cost the look-up they would have cost anyway.
#[derive(Debug)]
pub(super) struct Dictionary {
    entries: Vec<Entry>,
    encoded: Vec<u8>,
    table: HashTable<u32>,
    keys: RandomState,
    recent: Box<[u32; RECENT]>,
}

/// Where an entry's text lies in `encoded`.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    end: u32,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            encoded: Vec::new(),
            table: HashTable::new(),
            keys: RandomState::new(),
            recent: Box::new([0; RECENT]),
        }
    }
}

impl Dictionary {
    /// The index of a string, which is added if it is new.
    pub(super) fn index(&mut self, text: &str) -> u32 {
        let slot = slot(text.as_bytes());
        let guess = self.recent[slot];
        if let Some(entry) = self.entries.get(guess as usize)
            && same(text_of(&self.encoded, *entry), text.as_bytes())
        {
            return guess;
        }
        let index = self.find_or_add(text);
        self.recent[slot] = index;
        index
    }

    /// Distinct strings.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The strings one behind the other, each with its length.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Bytes of an index.
    pub(super) fn width(&self) -> Width {
        Width::of(self.entries.len())
    }

    /// Forgets all strings but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.entries.len() > len {
            let Some(entry) = self.entries.pop() else {
                return;
            };
            let index = self.entries.len() as u32;
            let hash = self.keys.hash_one(text_of(&self.encoded, entry));
            if let Ok(found) = self.table.find_entry(hash, |other| *other == index) {
                found.remove();
            }
        }
        let end = self.entries.last().map_or(0, |entry| entry.end as usize);
        self.encoded.truncate(end);
    }

    /// Forgets all strings. Keeps the memory, unless it is far more than this block needed.
    pub(super) fn clear(&mut self) {
        let used = self.entries.len();
        self.table.clear();
        self.table
            .shrink_to(kept(self.table.capacity(), used, 4), |_| 0);
        recycle(&mut self.entries);
        recycle(&mut self.encoded);
    }

    #[cold]
    fn find_or_add(&mut self, text: &str) -> u32 {
        let hash = self.keys.hash_one(text.as_bytes());
        let (entries, encoded) = (&self.entries, &self.encoded);
        let same = |index: &u32| text_of(encoded, entries[*index as usize]) == text.as_bytes();
        if let Some(index) = self.table.find(hash, same) {
            return *index;
        }
        let index = u32::try_from(self.entries.len()).expect("fewer strings than bytes");
        put_string(&mut self.encoded, text);
        let end = u32::try_from(self.encoded.len()).expect("intake bounds frames below 4 GiB");
        self.entries.push(Entry {
            start: end - text.len() as u32,
            end,
        });
        let (entries, encoded, keys) = (&self.entries, &self.encoded, &self.keys);
        self.table.insert_unique(hash, index, |other| {
            keys.hash_one(text_of(encoded, entries[*other as usize]))
        });
        index
    }
}

fn text_of(encoded: &[u8], entry: Entry) -> &[u8] {
    &encoded[entry.start as usize..entry.end as usize]
}

/// Whether two strings are equal. Keys are short: calling the general comparison took as long as all
/// the rest of a record (`benches/pipeline.rs`, 2 cores, records with seven attributes).
fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (words, rest) = one.as_chunks::<8>();
    let (other_words, other_rest) = other.as_chunks::<8>();
    words.iter().zip(other_words).all(|(a, b)| a == b)
        && rest.iter().zip(other_rest).all(|(a, b)| a == b)
}

/// Where a string is remembered: its length and the bytes at both ends, mixed.
fn slot(text: &[u8]) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let (head, tail) = if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
        (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
    } else if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        (u64::from(head), u64::from(tail))
    } else if let (Some(head), Some(tail)) = (text.first(), text.last()) {
        (u64::from(*head), u64::from(*tail))
    } else {
        (0, 0)
    };
    let mixed = (head.wrapping_mul(MIX) ^ tail ^ text.len() as u64).wrapping_mul(MIX);
    (mixed >> 56) as usize
}
