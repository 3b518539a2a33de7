//! Doors for the fuzz targets to what is private here. Not part of any build but theirs.

use super::json::Reader;
use super::native::value;
use crate::config::Digits;
use crate::normalize::{self, Repairs};
use crate::record::Level;

/// The first JSON value of a body: where it ends, and its text. `None` where it is no JSON.
#[must_use]
pub fn first_json_value(body: &[u8]) -> Option<(usize, Option<String>)> {
    let mut reader = Reader::new(body);
    let range = reader.skip().ok()?;
    let end = range.end;
    let mut repairs = Repairs::default();
    let text = value::text(&mut reader.within(range), usize::MAX - 1, &mut repairs);
    let text = text.expect("what was skipped can be read");
    // What is nested too deep is null, as no other parser has it.
    let text = text.filter(|_| repairs.too_deep == 0);
    Some((end, text.map(std::borrow::Cow::into_owned)))
}

/// The level of an OTLP severity number; `None` outside 1 to 24.
#[must_use]
pub fn level_of_number(number: i64) -> Option<Level> {
    normalize::level_of_number(number)
}

/// The level that a severity text means.
#[must_use]
pub fn level_of_text(text: &str, digits: Digits) -> Level {
    normalize::level_of_text(text, digits)
}
