//! Plain JSON values to text.

use std::borrow::Cow;

use super::super::damage::Damage;
use super::super::json::{Kind, Reader};
use crate::normalize::Repairs;
use crate::normalize::text::{JsonText, MAX_DEPTH};

/// The value that comes next as text: strings as they are, numbers in the digits they came in,
/// objects and arrays as compact JSON. `None` for null.
pub(crate) fn text<'a>(
    reader: &mut Reader<'a>,
    limit: usize,
    repairs: &mut Repairs,
) -> Result<Option<Cow<'a, str>>, Damage> {
    Ok(Some(match reader.kind()? {
        Kind::String => reader.string(repairs)?,
        Kind::Number => Cow::Borrowed(reader.number()?),
        kind @ (Kind::True | Kind::False) => {
            reader.literal()?;
            Cow::Borrowed(if kind == Kind::True { "true" } else { "false" })
        }
        Kind::Null => {
            reader.literal()?;
            return Ok(None);
        }
        Kind::Object | Kind::Array => {
            let mut json = JsonText::new(limit);
            write(reader, &mut json, 0, repairs)?;
            Cow::Owned(json.into_string())
        }
    }))
}

/// Writes the value that comes next as compact JSON; `depth` containers are around it.
fn write(
    reader: &mut Reader<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    match reader.kind()? {
        Kind::Object | Kind::Array if depth == MAX_DEPTH => {
            repairs.cut_depth();
            reader.pass()?;
            out.raw("null");
        }
        Kind::Object => write_object(reader, out, depth, repairs)?,
        Kind::Array => write_array(reader, out, depth, repairs)?,
        Kind::String => out.string(&reader.string(repairs)?),
        Kind::Number => match reader.number()? {
            // Python's names, for which JSON has no number.
            name @ ("NaN" | "Infinity" | "-Infinity") => out.string(name),
            digits => out.raw(digits),
        },
        kind @ (Kind::True | Kind::False | Kind::Null) => {
            reader.literal()?;
            out.raw(match kind {
                Kind::True => "true",
                Kind::False => "false",
                _ => "null",
            });
        }
    }
    Ok(())
}

fn write_array(
    reader: &mut Reader<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let mut written = out.array();
    let mut members = reader.enter();
    while reader.next_element(&mut members)? {
        if out.is_full() {
            reader.pass()?;
        } else {
            written.next(out);
            write(reader, out, depth + 1, repairs)?;
        }
    }
    written.close(out);
    Ok(())
}

fn write_object(
    reader: &mut Reader<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let mut entries = out.object();
    let mut members = reader.enter();
    while let Some(key) = reader.next_key(&mut members, repairs)? {
        if out.is_full() {
            reader.pass()?;
        } else {
            entries.begin(key, out);
            write(reader, out, depth + 1, repairs)?;
        }
    }
    entries.close(out, repairs);
    Ok(())
}
