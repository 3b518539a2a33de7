//! Times as people and programs write them, in the range that the store can hold.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::Date;

/// What is said about a time outside of [`TIMES`].
pub(crate) const RANGE: &str = "times are from 1970-01-01 to 2262-04-11";
/// Nanoseconds since the epoch as far as 64 bits reach; nothing is older than the epoch.
const TIMES: RangeInclusive<i64> = 0..=i64::MAX;

/// Why a text is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    /// It is something else.
    None,
    /// It is one that the store cannot hold.
    Range,
}

/// Nanoseconds since the epoch: RFC 3339, a number (seconds to nanoseconds, by its magnitude), `now`,
/// or an age such as `15m` before `now`.
pub(crate) fn read(text: &str, now: i64) -> Result<i64, Error> {
    let time = match text.char_indices().next_back() {
        None => return Err(Error::None),
        _ if text == "now" => Some(now),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().and_then(epoch),
        Some((at, unit)) => match text.get(..at) {
            Some(number) if is_number(number) => ago(number, unit, now)?,
            _ => return absolute(text),
        },
    };
    time.filter(|time| TIMES.contains(time)).ok_or(Error::Range)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// So long before now; none where that is too long ago to be counted.
fn ago(number: &str, unit: char, now: i64) -> Result<Option<i64>, Error> {
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(Error::None),
    };
    let number: Option<i64> = number.parse().ok();
    let age = number.and_then(|number| number.checked_mul(seconds * 1_000_000_000));
    Ok(age.and_then(|age| now.checked_sub(age)))
}

/// A time of RFC 3339.
pub(crate) fn absolute(text: &str) -> Result<i64, Error> {
    match text.parse::<Timestamp>() {
        Ok(time) => {
            let time = i64::try_from(time.as_nanosecond()).ok();
            time.filter(|time| TIMES.contains(time)).ok_or(Error::Range)
        }
        // The last day of the year 9999 is none for the parser, and a date for everybody else.
        Err(_) => match text.get(..10).map(str::parse::<Date>) {
            Some(Ok(date)) if !(1970..=2262).contains(&date.year()) => Err(Error::Range),
            _ => Err(Error::None),
        },
    }
}

/// Seconds reach to the year 5138 with eleven digits, where milliseconds begin in 1973.
fn epoch(number: i64) -> Option<i64> {
    let unit = match number {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        let now = 1_761_800_000_000_000_000;
        for (text, expected) in [
            ("now", Ok(now)),
            ("15m", Ok(now - 900_000_000_000)),
            ("7d", Ok(now - 604_800_000_000_000)),
            ("0", Ok(0)),
            ("1761800000", Ok(now)),
            ("1761800000123", Ok(now + 123_000_000)),
            ("1761800000123456", Ok(now + 123_456_000)),
            ("1761800000123456789", Ok(now + 123_456_789)),
            ("2025-10-30T04:53:20Z", Ok(now)),
            ("2025-10-30T06:53:20.5+02:00", Ok(now + 500_000_000)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("9223372036854775808", Err(Error::Range)),
            ("9999999999999999999999", Err(Error::Range)),
            ("99999999999", Err(Error::Range)),
            ("1969-12-31T23:59:59Z", Err(Error::Range)),
            ("0001-01-01T00:00:00Z", Err(Error::Range)),
            ("2262-04-12T00:00:00Z", Err(Error::Range)),
            ("9999-12-30T00:00:00Z", Err(Error::Range)),
            ("9999-12-31T23:59:59Z", Err(Error::Range)),
            ("10000w", Err(Error::Range)),
            ("4294967295w", Err(Error::Range)),
            ("99999999999999999999d", Err(Error::Range)),
            ("2026-02-30T00:00:00Z", Err(Error::None)),
            ("yesterday", Err(Error::None)),
            ("-5", Err(Error::None)),
            ("5x", Err(Error::None)),
            ("m", Err(Error::None)),
            ("é", Err(Error::None)),
            ("", Err(Error::None)),
        ] {
            assert_eq!(read(text, now), expected, "{text}");
        }
    }
}
