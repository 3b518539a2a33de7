//! A pull reader for JSON that lies in memory.
//!
//! It borrows strings where they have no escapes, keeps numbers as their digits, and forgives what
//! costs nobody anything: a byte order mark, bytes that are no UTF-8 and halves of surrogate pairs
//! (U+FFFD, counted), control characters other than the line feed within strings, leading
//! zeroes, and Python's `NaN` and `Infinity`. Nothing recurses: skipping keeps its own stack, one bit a level.

mod string;

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;

use self::string::{find_special, unescape};
use super::damage::Damage;
use crate::normalize::Repairs;
use crate::normalize::text::utf8;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a value is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Among the elements of an array.
    Array,
    /// In no array, on a line that others may share.
    Line,
}

/// A text of JSON, read from its front.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// The members of an object or array that is being read.
#[derive(Debug)]
pub(super) struct Members {
    first: bool,
}

impl<'a> Reader<'a> {
    /// A reader over a whole body.
    pub(super) fn new(text: &'a [u8]) -> Self {
        let at = if text.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        Self { text, at }
    }

    /// A reader over a value that [`Reader::skip`] went over.
    pub(super) fn within(&self, value: Range<usize>) -> Self {
        Self {
            text: self.text.get(..value.end).unwrap_or_default(),
            at: value.start,
        }
    }

    /// The byte of the body that comes next.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Goes to a byte of the body.
    pub(super) fn seek(&mut self, offset: usize) {
        self.at = offset.min(self.text.len());
    }

    /// What is left to be read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The bytes of a value that [`Reader::skip`] went over.
    pub(super) fn slice(&self, value: Range<usize>) -> &'a [u8] {
        self.text.get(value).unwrap_or_default()
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[cold]
    fn damage<T>(&self, what: &'static str) -> Result<T, Damage> {
        Err(Damage::new(what, self.at))
    }

    /// Skips whitespace and says what comes next, without taking it.
    #[inline]
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }

    /// The next byte of this line that is no space, or its end.
    pub(super) fn next_on_line(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    /// The kind of the value that comes next.
    #[inline]
    pub(super) fn kind(&mut self) -> Result<Kind, Damage> {
        match self.next_byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Ok(Kind::Number),
            Some(b't') => Ok(Kind::True),
            Some(b'f') => Ok(Kind::False),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => self.damage("no JSON value begins so"),
            None => self.damage("it ends where a value should come"),
        }
    }

    /// Enters the object or array that comes next.
    #[inline]
    pub(super) fn enter(&mut self) -> Members {
        self.at += 1;
        Members { first: true }
    }

    /// The key of the next member of an object, or `None` behind its end. Its value comes next.
    #[inline]
    pub(super) fn next_key(
        &mut self,
        members: &mut Members,
        repairs: &mut Repairs,
    ) -> Result<Option<Cow<'a, str>>, Damage> {
        if !self.next_member(members, b'}')? {
            return Ok(None);
        }
        if self.next_byte() != Some(b'"') {
            return self.damage("a key in quotes should come here");
        }
        let key = self.string(repairs)?;
        self.colon()?;
        Ok(Some(key))
    }

    /// Whether an array has another element; it comes next.
    #[inline]
    pub(super) fn next_element(&mut self, members: &mut Members) -> Result<bool, Damage> {
        self.next_member(members, b']')
    }

    #[inline]
    fn next_member(&mut self, members: &mut Members, close: u8) -> Result<bool, Damage> {
        let first = std::mem::replace(&mut members.first, false);
        match self.next_byte() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) if first => Ok(true),
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => self.damage("a comma or the closing bracket should come here"),
            None => self.damage("it ends within an object or array"),
        }
    }

    #[inline]
    fn colon(&mut self) -> Result<(), Damage> {
        if self.next_byte() != Some(b':') {
            return self.damage("a colon should come here");
        }
        self.at += 1;
        Ok(())
    }

    /// The string that comes next.
    #[inline]
    pub(super) fn string(&mut self, repairs: &mut Repairs) -> Result<Cow<'a, str>, Damage> {
        let start = self.at + 1;
        let (end, escaped) = self.skip_string()?;
        let raw = self.slice(start..end);
        if escaped {
            unescape(raw, start, repairs).map(Cow::Owned)
        } else {
            Ok(utf8(raw, repairs))
        }
    }

    /// Goes behind the string that comes next; says where its closing quote stands, and whether
    /// there are escapes.
    #[inline]
    fn skip_string(&mut self) -> Result<(usize, bool), Damage> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        while let Some(found) = find_special(self.rest()) {
            self.at += found;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((self.at - 1, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at = (self.at + 2).min(self.text.len());
                }
                _ => return self.damage("a line ends within a string; write it as \\n"),
            }
        }
        self.at = start;
        self.damage("a string is not closed")
    }

    /// The digits of the number that comes next, as sent.
    pub(super) fn number(&mut self) -> Result<&'a str, Damage> {
        let start = self.at;
        for name in [&b"NaN"[..], b"Infinity", b"-Infinity"] {
            if self.rest().starts_with(name) {
                self.at += name.len();
                return self.number_text(start);
            }
        }
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.digits() == 0 {
            return self.damage("a digit should come here");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return self.damage("a digit should come here");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.damage("a digit should come here");
            }
        }
        self.number_text(start)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn number_text(&self, start: usize) -> Result<&'a str, Damage> {
        let text = self.text.get(start..self.at).unwrap_or_default();
        std::str::from_utf8(text).or_else(|_| self.damage("not a number"))
    }

    /// Takes `true`, `false` or `null`.
    pub(super) fn literal(&mut self) -> Result<(), Damage> {
        for name in [&b"null"[..], b"true", b"false"] {
            if self.rest().starts_with(name) {
                self.at += name.len();
                return Ok(());
            }
        }
        self.damage("only true, false and null stand without quotes")
    }

    /// Takes `null`, if that comes next.
    #[inline]
    pub(super) fn null(&mut self) -> Result<bool, Damage> {
        if self.kind()? != Kind::Null {
            return Ok(false);
        }
        self.literal().map(|()| true)
    }

    /// Goes behind the value that comes next and says where it stands.
    pub(super) fn skip(&mut self) -> Result<Range<usize>, Damage> {
        let mut open = Brackets::default();
        let mut kind = self.kind()?;
        let start = self.at;
        loop {
            match kind {
                Kind::Object | Kind::Array => {
                    let mut members = self.enter();
                    let is_object = kind == Kind::Object;
                    if self.skip_to_value(&mut members, is_object)? {
                        open.push(is_object);
                        kind = self.kind()?;
                        continue;
                    }
                }
                Kind::String => drop(self.skip_string()?),
                Kind::Number => drop(self.number()?),
                Kind::True | Kind::False | Kind::Null => self.literal()?,
            }
            loop {
                let Some(is_object) = open.last() else {
                    return Ok(start..self.at);
                };
                if self.skip_to_value(&mut Members { first: false }, is_object)? {
                    break;
                }
                open.pop();
            }
            kind = self.kind()?;
        }
    }

    /// Goes behind the value that comes next.
    pub(super) fn pass(&mut self) -> Result<(), Damage> {
        self.skip().map(drop)
    }

    /// Goes to the next value of an object or array, or behind its end.
    fn skip_to_value(&mut self, members: &mut Members, is_object: bool) -> Result<bool, Damage> {
        if !is_object {
            return self.next_member(members, b']');
        }
        if !self.next_member(members, b'}')? {
            return Ok(false);
        }
        if self.next_byte() != Some(b'"') {
            return self.damage("a key in quotes should come here");
        }
        self.skip_string()?;
        self.colon()?;
        Ok(true)
    }

    /// Goes behind the damaged value that comes next, told by its brackets and quotes alone: in an
    /// array to the comma or bracket that follows it, on a line to its own closing bracket. `false`
    /// where they do not tell; it is then at the byte at which that showed.
    pub(super) fn seek_behind_damaged(&mut self, place: Place) -> bool {
        let mut open = Brackets::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' if place == Place::Line => return false,
                b'"' if self.skip_string().is_err() => return false,
                b'"' => continue,
                b'{' | b'[' => open.push(byte == b'{'),
                b'}' | b']' => match open.last() {
                    Some(is_object) if is_object == (byte == b'}') => {
                        open.pop();
                        if place == Place::Line && open.last().is_none() {
                            self.at += 1;
                            return true;
                        }
                    }
                    Some(_) => return false,
                    None => return byte == b']' && place == Place::Array,
                },
                b',' if open.last().is_none() => return place == Place::Array,
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    /// Makes sure that nothing but whitespace is left.
    pub(super) fn end(&mut self) -> Result<(), Damage> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => self.damage("more text follows the JSON value"),
        }
    }

    /// Goes behind the next line feed; `false` if there is none.
    pub(super) fn next_line(&mut self) -> bool {
        match memchr(b'\n', self.rest()) {
            Some(found) => {
                self.at += found + 1;
                true
            }
            None => {
                self.at = self.text.len();
                false
            }
        }
    }
}

/// The open brackets around a value, one bit each: a body of nothing but brackets takes an eighth of
/// its size.
#[derive(Default)]
struct Brackets {
    bits: Vec<u64>,
    depth: usize,
}

impl Brackets {
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        if let Some(word) = self.bits.get_mut(word) {
            *word = *word & !(1 << bit) | u64::from(is_object) << bit;
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn last(&self) -> Option<bool> {
        let top = self.depth.checked_sub(1)?;
        self.bits
            .get(top / 64)
            .map(|word| word >> (top % 64) & 1 == 1)
    }
}
