//! Lists of attributes: unique keys, none empty, within the limits.

use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::resource::is_essential;
use super::text::{MANY_KEYS, MAX_DEPTH, cut, head};
use super::{Limits, MAX_NAME_BYTES, Repairs};
use crate::record::KeyValue;

/// Longest key. Keys are names; a longer one is somebody's data in the wrong place.
const MAX_KEY_BYTES: usize = 1024;

/// Longest `watchtower.truncated`, before its last entry.
const MAX_NOTE_BYTES: usize = 512;

/// What the keys of a scope's attributes begin with among those of a record.
pub(super) const SCOPE_PREFIX: &str = "otel.scope.";

/// What an attribute gets before its key where that key is ours: a mark's, or one of the scope's.
const ASIDE_PREFIX: &str = "watchtower.sent.";

/// How often a key gets that prefix where one with it was sent too.
const MAX_ASIDE: usize = 4;

/// Room that a list begins with.
const FEW_ATTRIBUTES: usize = 12;

/// Attributes of one record, resource or scope, being collected. Of several with one key the last
/// value stands, in the place of the first, as in every JSON object.
#[derive(Debug, Default)]
pub(crate) struct Attributes<'a> {
    list: Vec<KeyValue<'a>>,
    /// Places in the list by the hash of their key, once there are many.
    places: HashTable<usize>,
    hasher: Option<RandomState>,
    /// Attributes that came when the list was full, and how many it had then.
    beyond: usize,
    full: usize,
    /// What was cut, as `watchtower.truncated` says it.
    note: String,
    /// The attributes of an earlier list. Records of one scope mostly have the same keys in the same
    /// order, and often the same values: what has the same bytes needs no second check.
    before: Vec<(&'a str, &'a str)>,
    /// Whether a key came that does not stand in its place in `before`.
    out_of_step: bool,
    /// Whether its scope's attributes will be added to it, under their own prefix.
    has_scope: bool,
    /// Whether the earlier of two values with one key moves aside.
    keeps_all: bool,
    /// How many stood in the list before those of the scope were added.
    own: Option<usize>,
}

impl<'a> Attributes<'a> {
    /// Those of a record that has a scope. What it calls itself as an attribute of a scope moves aside: it would pass
    /// for one.
    pub(crate) fn with_scope() -> Self {
        Self {
            has_scope: true,
            ..Self::default()
        }
    }

    /// Those of objects in objects, of which several members may come to one key.
    pub(crate) fn of_objects() -> Self {
        Self {
            keeps_all: true,
            ..Self::default()
        }
    }

    /// Adds an attribute, or replaces the value of the one with its key.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        mut key: Cow<'a, str>,
        mut value: Cow<'a, str>,
        limits: &Limits,
        repairs: &mut Repairs,
    ) {
        if key.is_empty() {
            repairs.empty_keys += 1;
            return;
        }
        let key_bytes = key.len();
        if cut(&mut key, MAX_KEY_BYTES) {
            self.note(&key, key_bytes);
        }
        if self.has_scope && key.starts_with(SCOPE_PREFIX) {
            key = Cow::Owned([ASIDE_PREFIX, &key].concat());
        }
        let found = self.find(&key);
        // What names a resource has a place however many others came before.
        if found.is_none() && self.list.len() >= limits.attributes && !is_essential(&key) {
            return self.leave_out();
        }
        let value_bytes = value.len();
        if cut(&mut value, limits.value) {
            self.note(&key, value_bytes);
        }
        match found.and_then(|place| self.list.get_mut(place)) {
            Some(known) => {
                repairs.duplicate_keys += 1;
                let earlier = std::mem::replace(&mut known.1, value);
                if self.keeps_all && earlier != known.1 {
                    let key = known.0.clone();
                    self.move_aside(&key, earlier);
                }
            }
            None => {
                self.out_of_step = true;
                self.push(key, value);
            }
        }
    }

    /// The attribute that stood in the next place in an earlier list, if it had this key and so did
    /// all the ones before it. Such a key is well-formed, within the limits and not in the list yet.
    #[inline]
    pub(crate) fn again(&self, key: &[u8]) -> Option<(&'a str, &'a str)> {
        let known = self.before.get(self.list.len())?;
        (!self.out_of_step && known.0.as_bytes() == key).then_some(*known)
    }

    /// Adds an attribute with a key that [`Attributes::again`] gave.
    #[inline(always)]
    pub(crate) fn insert_again(&mut self, key: &'a str, mut value: Cow<'a, str>, limits: &Limits) {
        if self.list.len() >= limits.attributes {
            return self.leave_out();
        }
        let value_bytes = value.len();
        if cut(&mut value, limits.value) {
            self.note(key, value_bytes);
        }
        self.push(Cow::Borrowed(key), value);
    }

    /// A key out of parts that were joined. It is cut before it is copied: with one long part before
    /// many short ones a sender could otherwise ask for the square of its body.
    pub(crate) fn joined_key(&mut self, joined: &str) -> String {
        let key = head(joined, MAX_KEY_BYTES);
        if key.len() < joined.len() {
            self.note(key, joined.len());
        }
        key.to_owned()
    }

    /// Adds an attribute of ours, whatever the limits on their number. A text that the sender wrote
    /// is cut to the length of a name.
    pub(crate) fn mark(&mut self, key: &'static str, value: impl Into<Cow<'a, str>>) {
        let mut value = value.into();
        let bytes = value.len();
        if cut(&mut value, MAX_NAME_BYTES) {
            self.note(key, bytes);
        }
        self.put(key, value);
    }

    fn put(&mut self, key: &'static str, value: Cow<'a, str>) {
        match self.find(key).and_then(|place| self.list.get_mut(place)) {
            Some(sent) => {
                let sent = std::mem::replace(&mut sent.1, value);
                self.move_aside(key, sent);
            }
            None => self.push(Cow::Borrowed(key), value),
        }
    }

    #[cold]
    fn leave_out(&mut self) {
        if self.beyond == 0 {
            self.full = self.list.len();
        }
        self.beyond += 1;
    }

    /// Adds those of the scope, which are within the limits of a list of their own. None of the record's own has
    /// such a key ([`Attributes::with_scope`]).
    pub(crate) fn inherit(&mut self, scope: &'a [KeyValue<'a>]) {
        self.own = Some(self.list.len());
        for (key, value) in scope {
            self.push(Cow::Borrowed(key), Cow::Borrowed(value));
        }
    }

    /// Keeps what was sent under a key that is ours.
    #[cold]
    fn move_aside(&mut self, key: &str, value: Cow<'a, str>) {
        let mut aside = [ASIDE_PREFIX, key].concat();
        for _ in 1..MAX_ASIDE {
            if self.find(&aside).is_none() {
                break;
            }
            aside.insert_str(0, ASIDE_PREFIX);
        }
        match self.find(&aside).and_then(|place| self.list.get_mut(place)) {
            Some(known) => known.1 = value,
            None => self.push(Cow::Owned(aside), value),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Cow<'a, str>> {
        let place = self.find(key)?;
        self.list.get(place).map(|(_, value)| value)
    }

    /// Notes for `watchtower.truncated` that something was cut, and how long it had been.
    pub(crate) fn note(&mut self, what: &str, bytes: usize) {
        if self.note.len() > MAX_NOTE_BYTES {
            return;
        }
        let comma = if self.note.is_empty() { "" } else { ", " };
        write!(self.note, "{comma}{what} ({bytes} bytes)").expect("strings take all");
    }

    /// Writes down what was cut, if anything was. The last thing to be called.
    pub(crate) fn mark_cuts(&mut self, repairs: &mut Repairs) {
        if self.beyond > 0 {
            let comma = if self.note.is_empty() { "" } else { ", " };
            let total = self.full + self.beyond;
            write!(self.note, "{comma}attributes ({total})").expect("strings take all");
        }
        if std::mem::take(&mut repairs.deep) {
            let comma = if self.note.is_empty() { "" } else { ", " };
            write!(self.note, "{comma}values nested over {MAX_DEPTH} deep")
                .expect("strings take all");
        }
        if !self.note.is_empty() {
            repairs.truncated += 1;
            let note = std::mem::take(&mut self.note);
            // What it names last may be a key of the full length.
            self.put("watchtower.truncated", note.into());
        }
    }

    /// The list, to be read.
    pub(crate) fn as_slice(&self) -> &[KeyValue<'a>] {
        &self.list
    }

    /// Takes the list out, its allocation with it.
    pub(crate) fn take(&mut self) -> Vec<KeyValue<'a>> {
        std::mem::take(&mut self.list)
    }

    /// Empties everything, with `list` to be filled next.
    pub(crate) fn reuse(&mut self, mut list: Vec<KeyValue<'a>>) {
        if self.out_of_step {
            self.before.clear();
            // Keys that are not borrowed from the body end it: whatever follows them is compared with
            // nothing.
            let own = list.iter().take(self.own.unwrap_or(list.len()));
            let borrowed = own.map_while(|(key, value)| match key {
                Cow::Borrowed(key) => Some((*key, borrowed_value(value))),
                Cow::Owned(_) => None,
            });
            self.before.extend(borrowed);
        }
        (self.out_of_step, self.own) = (false, None);
        list.clear();
        self.list = list;
        self.places.clear();
        self.beyond = 0;
        self.note.clear();
    }

    // Inlined, the pair is made in its place in the list; passed on, it would be copied twice, in
    // pieces that the processor has to wait for.
    #[inline(always)]
    fn push(&mut self, key: Cow<'a, str>, value: Cow<'a, str>) {
        if self.list.capacity() == 0 {
            self.list.reserve(FEW_ATTRIBUTES);
        }
        self.list.push((key, value));
        if self.list.len() > MANY_KEYS {
            self.index();
        }
    }

    /// Notes where the last attributes stand in the list.
    #[cold]
    fn index(&mut self) {
        // Fixed keys would let a sender choose keys that collide.
        let hasher = self.hasher.get_or_insert_with(RandomState::new);
        let list = &self.list;
        let hash = |place: &usize| {
            list.get(*place)
                .map_or(0, |(key, _)| hasher.hash_one(key.as_ref()))
        };
        for place in self.places.len()..list.len() {
            self.places.insert_unique(hash(&place), place, hash);
        }
    }

    #[inline]
    fn find(&self, key: &str) -> Option<usize> {
        let Some(hasher) = self.hasher.as_ref().filter(|_| !self.places.is_empty()) else {
            return self.list.iter().position(|(known, _)| known == key);
        };
        let is_key = |place: &usize| self.list.get(*place).is_some_and(|(known, _)| known == key);
        self.places.find(hasher.hash_one(key), is_key).copied()
    }
}

/// A value that lies in the body, or nothing.
fn borrowed_value<'a>(value: &Cow<'a, str>) -> &'a str {
    match value {
        Cow::Borrowed(value) => value,
        Cow::Owned(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        message: 64,
        value: 8,
        attributes: 100,
        expanded: 1 << 20,
    };

    fn collect<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> (Vec<KeyValue<'a>>, Repairs) {
        let mut repairs = Repairs::default();
        let mut attributes = Attributes::default();
        for (key, value) in pairs {
            attributes.insert(key.into(), value.into(), &LIMITS, &mut repairs);
        }
        attributes.mark_cuts(&mut repairs);
        (attributes.take(), repairs)
    }

    #[test]
    fn m_30_last_value_stands_in_the_place_of_the_first() {
        let (list, repairs) = collect([("k", "1"), ("x", "0"), ("k", "2")]);
        assert_eq!(list, [("k".into(), "2".into()), ("x".into(), "0".into())]);
        assert_eq!(repairs.duplicate_keys, 1);
    }

    #[test]
    fn m_30_many_keys_are_unique_too() {
        let keys: Vec<String> = (0..300).map(|i| format!("k{}", i % 50)).collect();
        let (list, repairs) = collect(keys.iter().map(|key| (key.as_str(), "v")));
        assert_eq!(list.len(), 50);
        assert_eq!(repairs.duplicate_keys, 250);
        assert_eq!(list.last().map(|(key, _)| key.as_ref()), Some("k49"));
    }

    #[test]
    fn m_31_empty_key_is_left_out_and_case_is_kept() {
        let (list, repairs) = collect([("", "e"), ("Key", "1"), ("key", "2")]);
        assert_eq!(
            list,
            [("Key".into(), "1".into()), ("key".into(), "2".into())]
        );
        assert_eq!(repairs.empty_keys, 1);
    }

    #[test]
    fn m_32_long_values_are_cut_between_characters_and_marked() {
        let (list, repairs) = collect([("k", "1234567é")]);
        assert_eq!(list[0].1, "1234567");
        assert_eq!(
            list[1],
            ("watchtower.truncated".into(), "k (9 bytes)".into())
        );
        assert_eq!(repairs.truncated, 1);
    }

    #[test]
    fn m_32_attributes_beyond_the_limit_are_cut_and_counted() {
        let keys: Vec<String> = (0..150).map(|i| format!("k{i}")).collect();
        let (list, _) = collect(
            keys.iter()
                .map(|key| (key.as_str(), "v"))
                .chain([("k7", "last")]),
        );
        assert_eq!(list.len(), 101);
        assert_eq!(list[7].1, "last");
        assert_eq!(
            list[100],
            ("watchtower.truncated".into(), "attributes (150)".into())
        );
    }

    #[test]
    fn reused_list_remembers_nothing() {
        let mut repairs = Repairs::default();
        let mut attributes = Attributes::default();
        let keys: Vec<String> = (0..60).map(|i| format!("k{i}")).collect();
        for key in &keys {
            attributes.insert(key.into(), "v".into(), &LIMITS, &mut repairs);
        }
        let list = attributes.take();
        attributes.reuse(list);
        attributes.insert("k1".into(), "new".into(), &LIMITS, &mut repairs);
        assert_eq!(attributes.as_slice(), [("k1".into(), "new".into())]);
        assert_eq!(repairs.duplicate_keys, 0);
    }

    /// A list as the protobuf walker fills it.
    fn fill<'a>(attributes: &mut Attributes<'a>, pairs: &[(&'a str, &'a str)]) -> Repairs {
        let mut repairs = Repairs::default();
        for &(key, value) in pairs {
            match attributes.again(key.as_bytes()) {
                Some((key, _)) => attributes.insert_again(key, value.into(), &LIMITS),
                None => attributes.insert(key.into(), value.into(), &LIMITS, &mut repairs),
            }
        }
        repairs
    }

    #[test]
    fn keys_of_the_list_before_change_nothing_of_the_next() {
        let lists: [&[(&str, &str)]; 6] = [
            &[("a", "1"), ("b", "2"), ("c", "3")],
            &[("a", "4"), ("b", "5"), ("c", "6")],
            &[("a", "1"), ("c", "2"), ("b", "3")],
            &[("a", "1")],
            &[("a", "1"), ("a", "2"), ("c", "3"), ("c", "4"), ("b", "5")],
            &[("a", "123456789"), ("d", "2"), ("c", "3")],
        ];
        let mut attributes = Attributes::default();
        for first in lists {
            for second in lists {
                fill(&mut attributes, first);
                let list = attributes.take();
                attributes.reuse(list);
                let repairs = fill(&mut attributes, second);
                attributes.mark_cuts(&mut Repairs::default());
                let list = attributes.take();
                let (expected, alone) = collect(second.iter().copied());
                assert_eq!(list, expected, "{second:?} after {first:?}");
                assert_eq!(repairs.duplicate_keys, alone.duplicate_keys);
                attributes.reuse(list);
            }
        }
    }

    #[test]
    fn only_keys_in_step_are_known_again() {
        let mut attributes = Attributes::default();
        fill(&mut attributes, &[("a", "1"), ("b", "2")]);
        let list = attributes.take();
        attributes.reuse(list);
        assert_eq!(attributes.again(b"b"), None);
        assert_eq!(attributes.again(b"a"), Some(("a", "1")));
        fill(&mut attributes, &[("a", "1"), ("x", "2")]);
        assert_eq!(attributes.again(b"b"), None);
    }
}
