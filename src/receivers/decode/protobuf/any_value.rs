//! OTLP's `AnyValue` in protobuf, to text.

use std::borrow::Cow;

use super::super::damage::Damage;
use super::wire::Wire;
use crate::normalize::Repairs;
use crate::normalize::text::{self, JsonText, MAX_DEPTH, utf8};

/// A value whose parts are not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum AnyValue<'a> {
    Empty,
    String(&'a [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
    Array(Wire<'a>),
    Map(Wire<'a>),
    Bytes(&'a [u8]),
}

impl<'a> AnyValue<'a> {
    /// Reads a value. If several members are set, the last stands.
    #[inline(always)]
    pub(super) fn read(mut wire: Wire<'a>, repairs: &mut Repairs) -> Result<Self, Damage> {
        let mut value = AnyValue::Empty;
        while !wire.is_empty() {
            let key = wire.key()?;
            value = match key.number() {
                1 => AnyValue::String(wire.bytes(key, "string_value")?),
                2 => AnyValue::Bool(wire.varint(key, "bool_value")? != 0),
                3 => AnyValue::Int(wire.varint(key, "int_value")?.cast_signed()),
                4 => AnyValue::Double(f64::from_bits(wire.fixed64(key, "double_value")?)),
                5 => AnyValue::Array(wire.message(key, "array_value")?),
                6 => AnyValue::Map(wire.message(key, "kvlist_value")?),
                7 => AnyValue::Bytes(wire.bytes(key, "bytes_value")?),
                8 => {
                    wire.varint(key, "string_value_strindex")?;
                    repairs.string_table_refs += 1;
                    AnyValue::Empty
                }
                _ => {
                    wire.skip(key)?;
                    value
                }
            };
        }
        Ok(value)
    }

    /// The value as text, `None` for the empty value. Text beyond `limit` bytes may be missing, but
    /// never the byte that tells that there was more.
    #[inline(always)]
    pub(super) fn text(
        self,
        limit: usize,
        repairs: &mut Repairs,
    ) -> Result<Option<Cow<'a, str>>, Damage> {
        match self {
            AnyValue::String(value) => Ok(Some(utf8(value, repairs))),
            other => other.text_of_others(limit, repairs),
        }
    }

    #[inline(never)]
    fn text_of_others(
        self,
        limit: usize,
        repairs: &mut Repairs,
    ) -> Result<Option<Cow<'a, str>>, Damage> {
        Ok(Some(match self {
            AnyValue::Empty => return Ok(None),
            AnyValue::String(value) => utf8(value, repairs),
            AnyValue::Bool(value) => Cow::Borrowed(text::bool(value)),
            AnyValue::Int(value) => Cow::Owned(text::int(value)),
            AnyValue::Double(value) => text::double(value),
            AnyValue::Bytes(value) => Cow::Owned(text::bytes(value)),
            AnyValue::Array(_) | AnyValue::Map(_) => {
                let mut json = JsonText::new(limit);
                self.write(&mut json, 0, repairs)?;
                Cow::Owned(json.into_string())
            }
        }))
    }

    /// Writes the value as JSON; `depth` containers are around it.
    fn write(self, out: &mut JsonText, depth: usize, repairs: &mut Repairs) -> Result<(), Damage> {
        match self {
            AnyValue::Empty => out.raw("null"),
            AnyValue::String(value) => out.string(&utf8(value, repairs)),
            AnyValue::Bool(value) => out.raw(text::bool(value)),
            AnyValue::Int(value) => out.int(value),
            AnyValue::Double(value) => out.double(value),
            AnyValue::Bytes(value) => out.bytes(value),
            AnyValue::Array(_) | AnyValue::Map(_) if depth == MAX_DEPTH => {
                repairs.cut_depth();
                out.raw("null");
            }
            AnyValue::Array(wire) => write_array(wire, out, depth, repairs)?,
            AnyValue::Map(wire) => write_map(wire, out, depth, repairs)?,
        }
        Ok(())
    }
}

fn write_array(
    mut wire: Wire<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let mut members = out.array();
    while !wire.is_empty() {
        let key = wire.key()?;
        if key.number() == 1 && !out.is_full() {
            members.next(out);
            let value = AnyValue::read(wire.message(key, "values")?, repairs)?;
            value.write(out, depth + 1, repairs)?;
        } else {
            wire.skip(key)?;
        }
    }
    members.close(out);
    Ok(())
}

fn write_map(
    mut wire: Wire<'_>,
    out: &mut JsonText,
    depth: usize,
    repairs: &mut Repairs,
) -> Result<(), Damage> {
    let mut entries = out.object();
    while !wire.is_empty() {
        let key = wire.key()?;
        if key.number() == 1 && !out.is_full() {
            let (name, value) = key_value(wire.message(key, "values")?, repairs)?;
            if name.is_empty() {
                repairs.empty_keys += 1;
                continue;
            }
            entries.begin(utf8(name, repairs), out);
            value.write(out, depth + 1, repairs)?;
        } else {
            wire.skip(key)?;
        }
    }
    entries.close(out, repairs);
    Ok(())
}

/// Reads a `KeyValue`, its key unchecked.
#[inline(always)]
pub(super) fn key_value<'a>(
    mut wire: Wire<'a>,
    repairs: &mut Repairs,
) -> Result<(&'a [u8], AnyValue<'a>), Damage> {
    let mut name: &[u8] = &[];
    let mut value = AnyValue::Empty;
    while !wire.is_empty() {
        let key = wire.key()?;
        match key.number() {
            1 => name = wire.bytes(key, "key")?,
            2 => match AnyValue::read(wire.message(key, "value")?, repairs)? {
                // As of any message that comes again.
                AnyValue::Empty => {}
                read => value = read,
            },
            3 => {
                wire.varint(key, "key_strindex")?;
                repairs.string_table_refs += 1;
            }
            _ => wire.skip(key)?,
        }
    }
    Ok((name, value))
}
