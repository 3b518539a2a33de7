//! Time: which of a record's times its row carries, and times out of text.

use std::borrow::Cow;

use super::Context;

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// A time as a sender gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Stamp<'a> {
    /// It gave none.
    #[default]
    Unset,
    /// Nanoseconds since the epoch, as OTLP has them.
    Nanos(i64),
    /// Nanoseconds since the epoch, and the text they were read out of.
    Text(i64, Cow<'a, str>),
    /// Something that is no time a row can carry.
    Unusable(Cow<'a, str>),
}

impl<'a> Stamp<'a> {
    /// From an OTLP field, in which 0 means that there is none.
    pub(crate) fn from_otlp(nanos: u64) -> Self {
        match i64::try_from(nanos) {
            Ok(0) => Self::Unset,
            Ok(nanos) => Self::Nanos(nanos),
            Err(_) => Self::Unusable(Cow::Owned(nanos.to_string())),
        }
    }

    fn nanos(&self) -> Option<i64> {
        match self {
            Self::Nanos(nanos) | Self::Text(nanos, _) => Some(*nanos),
            Self::Unset | Self::Unusable(_) => None,
        }
    }

    fn into_sent(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Unset => None,
            Self::Nanos(nanos) => Some(Cow::Owned(nanos.to_string())),
            Self::Text(_, sent) | Self::Unusable(sent) => Some(sent),
        }
    }
}

/// The time of a row, and what is to be noted about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowTime<'a> {
    /// Nanoseconds since the epoch.
    pub(super) timestamp: i64,
    /// `observed` or `received` where it is not the event's own.
    pub(super) source: Option<&'static str>,
    /// The time as sent, where it could not be used.
    pub(super) original: Option<Cow<'a, str>>,
}

/// The event time, else the observed time, else the time of receipt. A time that the store would
/// not keep gives way to the time of receipt at once: the clock that made it is wrong, or the record
/// is older than the retention and would be gone before anyone saw it.
pub(super) fn row_time<'a>(
    event: Stamp<'a>,
    observed: Stamp<'a>,
    context: &Context,
) -> RowTime<'a> {
    let received = |original| RowTime {
        timestamp: context.received_at,
        source: Some("received"),
        original,
    };
    match event.nanos() {
        Some(timestamp) if context.admits(timestamp) => {
            return RowTime {
                timestamp,
                source: None,
                original: None,
            };
        }
        Some(_) => return received(event.into_sent()),
        None => {}
    }
    let original = event.into_sent();
    match observed.nanos() {
        Some(timestamp) if context.admits(timestamp) => RowTime {
            timestamp,
            source: Some("observed"),
            original,
        },
        _ => received(original.or_else(|| observed.into_sent())),
    }
}

/// Nanoseconds out of a number since the epoch, in seconds, milliseconds, microseconds or
/// nanoseconds by its magnitude: as seconds every number below 10^11 is a year before 5138, and the
/// next three powers of a thousand follow. Fractions keep nine digits; nothing passes a float.
pub(crate) fn parse_epoch(text: &str) -> Option<i64> {
    let (magnitude, nanos) = scaled(text)?;
    let per_unit: i128 = match magnitude {
        0..100_000_000_000 => 1,
        100_000_000_000..100_000_000_000_000 => 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
        _ => 1_000_000_000,
    };
    i64::try_from(nanos.div_euclid(per_unit)).ok()
}

/// A decimal number as its whole part without sign, and in billionths.
fn scaled(text: &str) -> Option<(i128, i128)> {
    let number = super::decimal::Decimal::parse(text)?;
    Some((number.scaled(0)?.abs(), number.scaled(9)?))
}

/// Nanoseconds out of a date and time: RFC 3339, and what people write instead of it (a space or
/// `t` for the `T`, a comma before the fraction, no seconds, `+0200`, no zone at all, which means UTC).
pub(crate) fn parse_rfc3339(text: &str) -> Option<i64> {
    let mut rest = Scanner(text.trim().as_bytes());
    let year = rest.digits(4)?;
    rest.one_of(b"-")?;
    let month = rest.digits(2)?;
    rest.one_of(b"-")?;
    let day = rest.digits(2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    rest.one_of(b"Tt _")?;
    let hour = rest.digits(2)?;
    rest.one_of(b":")?;
    let minute = rest.digits(2)?;
    let second = match rest.one_of(b":") {
        Some(()) => rest.digits(2)?,
        None => 0,
    };
    // A leap second is the first second of the next minute.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let nanos = match rest.one_of(b".,") {
        Some(()) => rest.fraction()?,
        None => 0,
    };
    let offset = rest.offset_minutes()?;
    if !rest.0.is_empty() {
        return None;
    }
    let days = days_from_epoch(year, month, day);
    let secs = ((days * 24 + hour) * 60 + minute - offset) * 60 + second;
    i64::try_from(i128::from(secs) * NANOS_PER_SEC + i128::from(nanos)).ok()
}

struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let mut value = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
        }
        self.0 = rest;
        Some(value)
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        bytes.contains(first).then(|| self.0 = rest)
    }

    /// Nanoseconds of a fraction; digits beyond the ninth are dropped.
    fn fraction(&mut self) -> Option<i64> {
        let mut nanos = 0;
        let mut unit = 100_000_000;
        let mut any = false;
        while let Some(digit) = self.digits(1) {
            nanos += digit * unit;
            unit /= 10;
            any = true;
        }
        any.then_some(nanos)
    }

    fn offset_minutes(&mut self) -> Option<i64> {
        self.one_of(b" ");
        if self.0.is_empty() || self.0.eq_ignore_ascii_case(b"utc") {
            self.0 = &[];
            return Some(0);
        }
        if self.one_of(b"Zz").is_some() {
            return Some(0);
        }
        let sign = match self.0.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.one_of(b"+-")?;
        let hours = self.digits(2)?;
        self.one_of(b":");
        let minutes = if self.0.is_empty() {
            0
        } else {
            self.digits(2)?
        };
        (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar, years 0 to 9999.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Counted from 1 March of year 0, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests;
