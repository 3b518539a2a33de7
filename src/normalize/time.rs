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
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::normalize::Limits;
    use crate::record::Receiver;

    const NOW: i64 = 1_790_000_000_000_000_000;
    const DAY: i64 = 86_400_000_000_000;

    fn context() -> Context {
        Context {
            receiver: Receiver::OtlpHttp,
            received_at: NOW,
            retention: Duration::from_secs(30 * 86_400),
            limits: Limits {
                message: 64,
                value: 64,
                attributes: 8,
                expanded: 1 << 20,
            },
        }
    }

    fn resolve(event: u64, observed: u64) -> (i64, Option<&'static str>, Option<String>) {
        let time = row_time(
            Stamp::from_otlp(event),
            Stamp::from_otlp(observed),
            &context(),
        );
        (
            time.timestamp,
            time.source,
            time.original.map(Cow::into_owned),
        )
    }

    #[test]
    fn m_14_event_then_observed_then_received() {
        let (event, observed) = (NOW - 5, NOW - 3);
        assert_eq!(resolve(event as u64, observed as u64), (event, None, None));
        assert_eq!(
            resolve(0, observed as u64),
            (observed, Some("observed"), None)
        );
        assert_eq!(resolve(0, 0), (NOW, Some("received"), None));
    }

    #[test]
    fn m_15_m_16_times_beyond_2262_never_wrap() {
        for beyond in [1 << 63, u64::MAX] {
            let text = Some(beyond.to_string());
            assert_eq!(resolve(beyond, 0), (NOW, Some("received"), text.clone()));
            assert_eq!(
                resolve(beyond, (NOW - 3) as u64),
                (NOW - 3, Some("observed"), text)
            );
        }
        let last = i64::MAX as u64;
        assert_eq!(
            resolve(last, 0),
            (NOW, Some("received"), Some(last.to_string()))
        );
        assert_eq!(resolve(1, 0), (NOW, Some("received"), Some("1".to_owned())));
    }

    #[test]
    fn m_18_r_021_only_what_the_store_keeps_is_a_row_time() {
        let oldest = NOW - 30 * DAY;
        assert_eq!(resolve(oldest as u64, 0), (oldest, None, None));
        let older = (oldest - 1) as u64;
        assert_eq!(
            resolve(older, NOW as u64),
            (NOW, Some("received"), Some(older.to_string()))
        );
        assert_eq!(resolve((NOW + DAY) as u64, 0), (NOW + DAY, None, None));
        let later = (NOW + DAY + 1) as u64;
        assert_eq!(
            resolve(later, 0),
            (NOW, Some("received"), Some(later.to_string()))
        );
        assert_eq!(
            resolve(0, later),
            (NOW, Some("received"), Some(later.to_string()))
        );
    }

    #[test]
    fn epoch_numbers_by_magnitude() {
        let nanos = 1_700_344_572_441_000_936;
        for (text, expected) in [
            ("1700344572", 1_700_344_572_000_000_000),
            ("1700344572.441000936", nanos),
            ("1700344572.4410009369", nanos),
            ("1700344572441", 1_700_344_572_441_000_000),
            ("1700344572441.000936", nanos),
            ("1700344572441000", 1_700_344_572_441_000_000),
            ("1700344572441000.936", nanos),
            ("1700344572441000936", nanos),
            ("1.700344572441e9", 1_700_344_572_441_000_000),
            ("1.7e+9", 1_700_000_000_000_000_000),
            ("0", 0),
            ("-1.5", -1_500_000_000),
        ] {
            assert_eq!(parse_epoch(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "x",
            "1700344572441000936000000",
            "1e400",
            "NaN",
            "1-2",
            "3.2ms",
        ] {
            assert_eq!(parse_epoch(text), None, "{text}");
        }
    }

    #[test]
    fn dates_as_people_write_them() {
        let nanos = 1_700_344_572_441_000_936;
        for (text, expected) in [
            ("2023-11-18T21:56:12.441000936Z", nanos),
            ("2023-11-18t21:56:12.441000936z", nanos),
            ("2023-11-18 21:56:12.441000936", nanos),
            ("2023-11-18 21:56:12,441000936 UTC", nanos),
            ("2023-11-18T23:56:12.441000936+02:00", nanos),
            ("2023-11-18T23:56:12.441000936+0200", nanos),
            ("2023-11-18T16:26:12.441000936-05:30", nanos),
            ("2023-11-18T21:56:12Z", 1_700_344_572_000_000_000),
            ("2023-11-18 21:56", 1_700_344_560_000_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
            ("1969-12-31T23:59:59.5Z", -500_000_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
        ] {
            assert_eq!(parse_rfc3339(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2023-11-18",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-11-18T24:00:00Z",
            "2023-11-18T21:56:12.Z",
            "2023-11-18T21:56:12Zjunk",
            "2023-11-18T21:56:12+24:00",
            "9999-12-31T23:59:59Z",
            "tomorrow at noon",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn dates_agree_with_jiff(nanos: i64) {
            let time = jiff::Timestamp::from_nanosecond(nanos.into()).unwrap();
            prop_assert_eq!(parse_rfc3339(&time.to_string()), Some(nanos));
        }

        #[test]
        fn any_text_is_a_time_or_none(text: String) {
            parse_rfc3339(&text);
            parse_epoch(&text);
        }
    }
}
