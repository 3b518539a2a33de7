//! The parts of an `AnyValue` in JSON that have no parts, and fields that are loosely typed.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::super::damage::Damage;
use super::super::json::{Kind, Reader};
use crate::normalize::text::{self, JsonText, utf8};
use crate::normalize::{Decimal, Repairs};

/// Padding may be there or not, and so may bits behind the last byte.
const FORGIVING: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, FORGIVING);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, FORGIVING);

/// A value without parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    String(Cow<'a, str>),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(Vec<u8>),
}

impl<'a> Scalar<'a> {
    pub(super) fn into_text(self) -> Cow<'a, str> {
        match self {
            Scalar::String(value) => value,
            Scalar::Bool(value) => Cow::Borrowed(text::bool(value)),
            Scalar::Int(value) => Cow::Owned(text::int(value)),
            Scalar::Double(value) => text::double(value),
            Scalar::Bytes(value) => Cow::Owned(text::bytes(&value)),
        }
    }

    pub(super) fn write(&self, out: &mut JsonText) {
        match self {
            Scalar::String(value) => out.string(value),
            Scalar::Bool(value) => out.raw(text::bool(*value)),
            Scalar::Int(value) => out.int(*value),
            Scalar::Double(value) => out.double(*value),
            Scalar::Bytes(value) => out.bytes(value),
        }
    }
}

/// The members that an `AnyValue` can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    String,
    Bool,
    Int,
    Double,
    Bytes,
    Array,
    Map,
    StringTableRef,
}

impl Member {
    pub(super) fn named(key: &str) -> Option<Self> {
        Some(match key {
            "stringValue" | "string_value" => Self::String,
            "boolValue" | "bool_value" => Self::Bool,
            "intValue" | "int_value" => Self::Int,
            "doubleValue" | "double_value" => Self::Double,
            "bytesValue" | "bytes_value" => Self::Bytes,
            "arrayValue" | "array_value" => Self::Array,
            "kvlistValue" | "kvlist_value" => Self::Map,
            "stringValueStrindex" | "string_value_strindex" => Self::StringTableRef,
            _ => return None,
        })
    }
}

/// A member without parts. What is not of the member's type is kept as what it is.
pub(super) fn scalar<'a>(
    reader: &mut Reader<'a>,
    member: Member,
    repairs: &mut Repairs,
) -> Result<Option<Scalar<'a>>, Damage> {
    if member == Member::StringTableRef {
        repairs.string_table_refs += 1;
        reader.pass()?;
        return Ok(None);
    }
    if reader.kind()? == Kind::Number {
        let digits = reader.number()?;
        return Ok(Some(match member {
            Member::Double => {
                double(digits).map_or_else(|| odd(digits.into(), repairs), Scalar::Double)
            }
            Member::Int => integer(digits).unwrap_or_else(|| odd(digits.into(), repairs)),
            _ => {
                repairs.odd_values += 1;
                number(digits)
            }
        }));
    }
    let value = match (member, bare(reader, repairs)?) {
        (_, None) => return Ok(None),
        (Member::Int, Some(Scalar::String(text))) => {
            integer(&text).unwrap_or_else(|| odd(text, repairs))
        }
        (Member::Double, Some(Scalar::String(text))) => {
            double(&text).map_or_else(|| odd(text, repairs), Scalar::Double)
        }
        (Member::Bytes, Some(Scalar::String(text))) => {
            let bytes = STANDARD.decode(&*text).or_else(|_| URL_SAFE.decode(&*text));
            bytes.map_or_else(|_| odd(text, repairs), Scalar::Bytes)
        }
        (Member::Bool, Some(Scalar::String(text))) => match &*text {
            "true" => Scalar::Bool(true),
            "false" => Scalar::Bool(false),
            _ => odd(text, repairs),
        },
        (_, Some(value)) => {
            let fits = matches!(
                (member, &value),
                (Member::String, Scalar::String(_)) | (Member::Bool, Scalar::Bool(_))
            );
            repairs.odd_values += u32::from(!fits);
            value
        }
    };
    Ok(Some(value))
}

fn odd<'a>(text: Cow<'a, str>, repairs: &mut Repairs) -> Scalar<'a> {
    repairs.odd_values += 1;
    Scalar::String(text)
}

/// The JSON value that comes next, by its own type; `None` for null and, counted, for objects and
/// arrays.
pub(super) fn bare<'a>(
    reader: &mut Reader<'a>,
    repairs: &mut Repairs,
) -> Result<Option<Scalar<'a>>, Damage> {
    Ok(match reader.kind()? {
        Kind::String => Some(Scalar::String(reader.string(repairs)?)),
        Kind::Number => Some(number(reader.number()?)),
        kind @ (Kind::True | Kind::False) => {
            reader.literal()?;
            Some(Scalar::Bool(kind == Kind::True))
        }
        Kind::Null => {
            reader.literal()?;
            None
        }
        Kind::Object | Kind::Array => {
            repairs.odd_values += 1;
            reader.pass()?;
            None
        }
    })
}

/// A JSON number by its own looks.
fn number(digits: &str) -> Scalar<'_> {
    integer(digits).unwrap_or(Scalar::String(Cow::Borrowed(digits)))
}

/// An integer in any notation; a double where it is whole but beyond 64 bits, or not whole.
fn integer<'a>(digits: &str) -> Option<Scalar<'a>> {
    if let Ok(value) = digits.parse() {
        return Some(Scalar::Int(value));
    }
    match Decimal::parse(digits)
        .and_then(Decimal::whole)
        .map(i64::try_from)
    {
        Some(Ok(value)) => Some(Scalar::Int(value)),
        _ => double(digits).map(Scalar::Double),
    }
}

/// A double as ProtoJSON writes it. Rust's own parser takes a few more names, which are none here.
fn double(digits: &str) -> Option<f64> {
    match digits {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ if digits.bytes().any(|b| b.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    }
}

/// A string field; numbers and bools are taken as their text. `None` for null and all else.
pub(super) fn loose_text<'a>(
    reader: &mut Reader<'a>,
    repairs: &mut Repairs,
) -> Result<Option<Cow<'a, str>>, Damage> {
    Ok(match reader.kind()? {
        Kind::String => Some(reader.string(repairs)?),
        Kind::Null => {
            reader.literal()?;
            None
        }
        kind => {
            repairs.odd_values += 1;
            let value = reader.skip()?;
            let is_scalar = !matches!(kind, Kind::Object | Kind::Array);
            is_scalar.then(|| utf8(reader.slice(value), repairs))
        }
    })
}

/// A field that should be a number or a string of one, as text; whatever else stands there as its
/// JSON. `None` for null.
pub(super) fn loose_number<'a>(
    reader: &mut Reader<'a>,
    repairs: &mut Repairs,
) -> Result<Option<Cow<'a, str>>, Damage> {
    Ok(match reader.kind()? {
        Kind::String => Some(reader.string(repairs)?),
        Kind::Number => Some(Cow::Borrowed(reader.number()?)),
        Kind::Null => {
            reader.literal()?;
            None
        }
        _ => {
            let value = reader.skip()?;
            Some(utf8(reader.slice(value), repairs))
        }
    })
}
