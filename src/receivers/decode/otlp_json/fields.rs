//! The fields of a log record that are neither text nor `AnyValue`: numbers, times and ids, in every
//! form in which they come.

use std::borrow::Cow;

use super::super::damage::Damage;
use super::super::json::{Kind, Reader};
use super::scalar::loose_number;
use crate::normalize::text::{cut, utf8};
use crate::normalize::{Decimal, Id, Repairs, Stamp, parse_rfc3339};

/// Longest text that is kept of a time that is none.
const MAX_ODD_TIME_BYTES: usize = 256;

/// A 32-bit number without sign; what is none counts as 0.
pub(super) fn unsigned(reader: &mut Reader<'_>, repairs: &mut Repairs) -> Result<u32, Damage> {
    let Some(text) = loose_number(reader, repairs)? else {
        return Ok(0);
    };
    let number = Decimal::parse(&text).and_then(Decimal::whole);
    let number = number.and_then(|number| u32::try_from(number).ok());
    repairs.odd_values += u32::from(number.is_none());
    Ok(number.unwrap_or_default())
}

/// A number, in digits or by its name; else the text of what stands there.
pub(super) fn severity_number<'a>(
    reader: &mut Reader<'a>,
    repairs: &mut Repairs,
) -> Result<Result<i64, Cow<'a, str>>, Damage> {
    let Some(text) = loose_number(reader, repairs)? else {
        return Ok(Ok(0));
    };
    let number = Decimal::parse(&text).and_then(Decimal::whole);
    let number = number.and_then(|number| i64::try_from(number).ok());
    let number = number.or_else(|| severity_number_named(&text));
    repairs.odd_values += u32::from(number.is_none());
    Ok(number.ok_or(text))
}

/// A time in nanoseconds, in digits; a date is taken as what it is.
pub(super) fn stamp<'a>(
    reader: &mut Reader<'a>,
    repairs: &mut Repairs,
) -> Result<Stamp<'a>, Damage> {
    let Some(mut text) = loose_number(reader, repairs)? else {
        return Ok(Stamp::Unset);
    };
    let number = text.parse::<u64>().ok().or_else(|| {
        let number = Decimal::parse(&text)?.whole()?;
        u64::try_from(number).ok()
    });
    if let Some(nanos) = number {
        return Ok(Stamp::from_otlp(nanos));
    }
    if let Some(nanos) = parse_rfc3339(&text) {
        return Ok(Stamp::Text(nanos, text));
    }
    cut(&mut text, MAX_ODD_TIME_BYTES);
    Ok(if text.is_empty() {
        Stamp::Unset
    } else {
        Stamp::Unusable(text)
    })
}

/// An id, which is none if it is anything but a string; and what stands there if it is no id.
pub(super) fn id<'a, const N: usize>(
    reader: &mut Reader<'a>,
    repairs: &mut Repairs,
) -> Result<(Id<N>, Cow<'a, str>), Damage> {
    let text = match reader.kind()? {
        Kind::String => reader.string(repairs)?,
        Kind::Null => {
            reader.literal()?;
            return Ok((Id::Absent, "".into()));
        }
        _ => {
            let value = reader.skip()?;
            return Ok((Id::Invalid, utf8(reader.slice(value), repairs)));
        }
    };
    Ok(match Id::from_text(&text) {
        Id::Invalid => (Id::Invalid, text),
        id => (id, "".into()),
    })
}

/// `SEVERITY_NUMBER_WARN2`, or `WARN2`.
fn severity_number_named(text: &str) -> Option<i64> {
    let name = text.strip_prefix("SEVERITY_NUMBER_").unwrap_or(text);
    let (name, step) = match name.strip_suffix(['2', '3', '4']) {
        Some(stem) => (stem, i64::from(name.bytes().last()? - b'1')),
        None => (name, 0),
    };
    let base = match name {
        "TRACE" => 1,
        "DEBUG" => 5,
        "INFO" => 9,
        "WARN" => 13,
        "ERROR" => 17,
        "FATAL" => 21,
        "UNSPECIFIED" => return (step == 0).then_some(0),
        _ => return None,
    };
    Some(base + step)
}
