//! Values as text: the pieces of compact JSON in which bodies and attributes are stored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Repairs;

/// Containers nested this deep are stored; what is deeper becomes `null`. The SDKs' own limit.
pub(crate) const MAX_DEPTH: usize = 64;

/// Up to this many keys, comparing each with each is cheaper than hashing them.
pub(super) const MANY_KEYS: usize = 16;

/// A string out of bytes that should be UTF-8; what is not becomes U+FFFD and is counted.
#[inline(always)]
pub(crate) fn utf8<'a>(bytes: &'a [u8], repairs: &mut Repairs) -> Cow<'a, str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            repairs.invalid_utf8 += 1;
            Cow::Owned(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

/// A bool as text.
pub(crate) fn bool(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// An integer as text.
pub(crate) fn int(value: i64) -> String {
    itoa::Buffer::new().format(value).to_owned()
}

/// A double as a JSON number, or one of ProtoJSON's three names.
pub(crate) fn double(value: f64) -> Cow<'static, str> {
    if value.is_finite() {
        Cow::Owned(ryu::Buffer::new().format_finite(value).to_owned())
    } else if value.is_nan() {
        Cow::Borrowed("NaN")
    } else if value > 0.0 {
        Cow::Borrowed("Infinity")
    } else {
        Cow::Borrowed("-Infinity")
    }
}

/// Bytes as text: base64, standard alphabet, padded.
pub(crate) fn bytes(value: &[u8]) -> String {
    STANDARD.encode(value)
}

/// The longest start of `text` that has at most `limit` bytes and ends between characters.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Cuts a string as [`head`] does and says whether there was anything to cut.
#[inline]
pub(crate) fn cut(text: &mut Cow<'_, str>, limit: usize) -> bool {
    if text.len() <= limit {
        return false;
    }
    match text {
        Cow::Borrowed(text) => *text = head(text, limit),
        Cow::Owned(text) => text.truncate(head(text, limit).len()),
    }
    true
}

/// Compact JSON under construction. Once it is over its limit the caller leaves the rest out, as it
/// would be cut anyway; so a value's memory is bounded by the limit and one more member.
#[derive(Debug)]
pub(crate) struct JsonText {
    text: String,
    limit: usize,
}

impl JsonText {
    /// An empty text that is full beyond `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            limit,
        }
    }

    /// Whether more than the limit is written.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() > self.limit
    }

    /// The text.
    pub(crate) fn into_string(self) -> String {
        self.text
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Forgets what was written after the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
    }

    /// Writes what is JSON already.
    pub(crate) fn raw(&mut self, json: &str) {
        self.text.push_str(json);
    }

    /// Writes an integer.
    pub(crate) fn int(&mut self, value: i64) {
        self.text.push_str(itoa::Buffer::new().format(value));
    }

    /// Writes a double; what JSON has no number for becomes a string.
    pub(crate) fn double(&mut self, value: f64) {
        if value.is_finite() {
            self.text.push_str(ryu::Buffer::new().format_finite(value));
        } else {
            self.string(&double(value));
        }
    }

    /// Writes bytes as a base64 string.
    pub(crate) fn bytes(&mut self, value: &[u8]) {
        // Nothing is read beyond what the limit lets through; a multiple of three needs no padding.
        let limit = (self.limit / 4 + 1) * 3;
        let value = value.get(..limit).unwrap_or(value);
        self.text.push('"');
        STANDARD.encode_string(value, &mut self.text);
        self.text.push('"');
    }

    /// Writes a quoted string.
    pub(crate) fn string(&mut self, value: &str) {
        let value = head(value, self.limit.saturating_add(1));
        self.text.push('"');
        quote(value, &mut self.text);
        self.text.push('"');
    }

    /// Opens an array; see [`Members`].
    pub(crate) fn array(&mut self) -> Members {
        self.text.push('[');
        Members {
            start: self.text.len(),
        }
    }

    /// Opens an object; see [`Entries`].
    pub(crate) fn object<'a>(&mut self) -> Entries<'a> {
        self.text.push('{');
        Entries {
            start: self.text.len(),
            entries: Vec::new(),
        }
    }
}

/// Writes the inside of a JSON string.
fn quote(value: &str, out: &mut String) {
    let mut rest = value;
    while let Some(at) = rest
        .bytes()
        .position(|b| b < 0x20 || b == b'"' || b == b'\\')
    {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = tail.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(control) => {
                write!(out, "\\u{:04x}", u32::from(control)).expect("strings take all")
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
}

/// An array being written.
#[derive(Debug)]
pub(crate) struct Members {
    start: usize,
}

impl Members {
    /// To be called before each member.
    pub(crate) fn next(&mut self, out: &mut JsonText) {
        if out.text.len() > self.start {
            out.text.push(',');
        }
    }

    /// Closes the array.
    pub(crate) fn close(self, out: &mut JsonText) {
        out.text.push(']');
    }
}

/// An object being written. Of several members with one key the last value stands, in the place of
/// the first.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    start: usize,
    /// The keys, and where their members begin in the text.
    entries: Vec<(Cow<'a, str>, usize)>,
}

impl<'a> Entries<'a> {
    /// Begins a member; its value is to be written next.
    pub(crate) fn begin(&mut self, key: Cow<'a, str>, out: &mut JsonText) {
        if out.text.len() > self.start {
            out.text.push(',');
        }
        self.entries.push((key, out.text.len()));
        if let Some((key, _)) = self.entries.last() {
            out.string(key);
        }
        out.text.push(':');
    }

    /// Adds a member whose value was written already, from byte `from` on.
    pub(crate) fn add(&mut self, key: Cow<'a, str>, from: usize, out: &mut JsonText) {
        let value = out.text.split_off(from);
        self.begin(key, out);
        out.text.push_str(&value);
    }

    /// Closes the object.
    pub(crate) fn close(self, out: &mut JsonText, repairs: &mut Repairs) {
        if let Some(last) = self.last_of_each() {
            let replaced = self.entries.len() - last.len();
            repairs.duplicate_keys += u32::try_from(replaced).unwrap_or(u32::MAX);
            let text = last
                .into_iter()
                .map(|entry| self.member(entry, out))
                .collect::<Vec<_>>()
                .join(",");
            out.text.truncate(self.start);
            out.text.push_str(&text);
        }
        out.text.push('}');
    }

    /// The text of a member.
    fn member<'t>(&self, entry: usize, out: &'t JsonText) -> &'t str {
        let begin = self
            .entries
            .get(entry)
            .map_or(out.len(), |(_, begin)| *begin);
        // The next member begins behind a comma.
        let end = self
            .entries
            .get(entry + 1)
            .map_or(out.len(), |(_, next)| next - 1);
        out.text.get(begin..end).unwrap_or_default()
    }

    /// Which entries stand, in order of their key's first appearance; `None` if all do.
    fn last_of_each(&self) -> Option<Vec<usize>> {
        let few = self.entries.len() <= MANY_KEYS;
        if few
            && (1..).zip(&self.entries).all(|(next, (key, _))| {
                self.entries
                    .iter()
                    .skip(next)
                    .all(|(other, _)| other != key)
            })
        {
            return None;
        }
        let mut place: HashMap<&str, usize> = HashMap::new();
        let mut last: Vec<usize> = Vec::new();
        for (index, (key, _)) in self.entries.iter().enumerate() {
            match place.get(key.as_ref()).and_then(|&at| last.get_mut(at)) {
                Some(entry) => *entry = index,
                None => {
                    place.insert(key, last.len());
                    last.push(index);
                }
            }
        }
        (last.len() < self.entries.len()).then_some(last)
    }
}
