//! OTLP's `AnyValue` in JSON, to text.

use std::borrow::Cow;

use super::super::damage::Damage;
use super::super::json::{Kind, Reader};
use super::scalar::{Member, Scalar, bare, loose_text, scalar};
use crate::normalize::Repairs;
use crate::normalize::text::{JsonText, MAX_DEPTH};

/// The value that comes next as text, `None` for the empty value. Text beyond `limit` bytes may be
/// missing, but never the byte that tells that there was more.
pub(super) fn text<'a>(
    reader: &mut Reader<'a>,
    limit: usize,
    repairs: &mut Repairs,
) -> Result<Option<Cow<'a, str>>, Damage> {
    match reader.kind()? {
        Kind::Object => {}
        Kind::Array => return container_text(reader, Member::Array, limit, repairs).map(Some),
        _ => return Ok(bare(reader, repairs)?.map(Scalar::into_text)),
    }
    let mut value = None;
    let mut members = reader.enter();
    while let Some(key) = reader.next_key(&mut members, repairs)? {
        match Member::named(&key) {
            // Null is the same as no member at all.
            _ if reader.null()? => {}
            None => reader.pass()?,
            Some(Member::Array | Member::Map) if !is_container(reader)? => {
                repairs.odd_values += 1;
                value = bare(reader, repairs)?.map(Scalar::into_text);
            }
            Some(member @ (Member::Array | Member::Map)) => {
                value = Some(container_text(reader, member, limit, repairs)?);
            }
            Some(member) => value = scalar(reader, member, repairs)?.map(Scalar::into_text),
        }
    }
    Ok(value)
}

fn is_container(reader: &mut Reader<'_>) -> Result<bool, Damage> {
    Ok(matches!(reader.kind()?, Kind::Object | Kind::Array))
}

fn container_text<'a>(
    reader: &mut Reader<'a>,
    member: Member,
    limit: usize,
    repairs: &mut Repairs,
) -> Result<Cow<'a, str>, Damage> {
    let mut json = JsonText::new(limit);
    write_container(reader, member, &mut json, 0, repairs)?;
    Ok(Cow::Owned(json.into_string()))
}

/// Writes the value that comes next as JSON; `depth` containers are around it.
fn write(
    reader: &mut Reader<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let start = out.len();
    match reader.kind()? {
        Kind::Object => {}
        Kind::Array => return write_container(reader, Member::Array, out, depth, repairs),
        _ => {
            match bare(reader, repairs)? {
                Some(scalar) => scalar.write(out),
                None => out.raw("null"),
            }
            return Ok(());
        }
    }
    out.raw("null");
    let mut members = reader.enter();
    while let Some(key) = reader.next_key(&mut members, repairs)? {
        let member = match Member::named(&key) {
            _ if reader.null()? => continue,
            Some(member) => member,
            None => {
                reader.pass()?;
                continue;
            }
        };
        out.truncate(start);
        if let Member::Array | Member::Map = member {
            write_container(reader, member, out, depth, repairs)?;
        } else {
            match scalar(reader, member, repairs)? {
                Some(scalar) => scalar.write(out),
                None => out.raw("null"),
            }
        }
    }
    Ok(())
}

/// Writes `{"values":[…]}`, or the bare list that some write instead.
fn write_container(
    reader: &mut Reader<'_>,
    member: Member,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    if depth == MAX_DEPTH {
        repairs.cut_depth();
        reader.pass()?;
        out.raw("null");
        return Ok(());
    }
    let empty = if member == Member::Map { "{}" } else { "[]" };
    let start = out.len();
    match reader.kind()? {
        Kind::Array => return write_values(reader, member, out, depth, repairs),
        Kind::Object => out.raw(empty),
        _ => {
            // Kept as what it is, as what is not of another member's type.
            repairs.odd_values += 1;
            match bare(reader, repairs)? {
                Some(scalar) => scalar.write(out),
                None => out.raw("null"),
            }
            return Ok(());
        }
    }
    let mut members = reader.enter();
    while let Some(key) = reader.next_key(&mut members, repairs)? {
        if key == "values" && reader.kind()? == Kind::Array {
            out.truncate(start);
            write_values(reader, member, out, depth, repairs)?;
        } else {
            reader.pass()?;
        }
    }
    Ok(())
}

fn write_values(
    reader: &mut Reader<'_>,
    member: Member,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    if member == Member::Map {
        return write_map(reader, out, depth, repairs);
    }
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

fn write_map(
    reader: &mut Reader<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let mut entries = out.object();
    let mut members = reader.enter();
    while reader.next_element(&mut members)? {
        if out.is_full() || reader.kind()? != Kind::Object {
            repairs.odd_values += u32::from(!out.is_full());
            reader.pass()?;
            continue;
        }
        let from = out.len();
        out.raw("null");
        let mut entry_key = None;
        let mut entry = reader.enter();
        while let Some(key) = reader.next_key(&mut entry, repairs)? {
            match &*key {
                "key" => entry_key = loose_text(reader, repairs)?,
                "value" => {
                    out.truncate(from);
                    write(reader, out, depth + 1, repairs)?;
                }
                _ => reader.pass()?,
            }
        }
        match entry_key {
            Some(key) if !key.is_empty() => entries.add(key, from, out),
            _ => {
                repairs.empty_keys += 1;
                out.truncate(from);
            }
        }
    }
    entries.close(out, repairs);
    Ok(())
}
