//! Values with units: sizes and periods. A number without a unit is refused, never guessed at.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a text is not a size or a period: what is wrong with it, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A number alone.
    #[error("\"{found}\" has no unit; write {suggest}")]
    NoUnit {
        /// What was written.
        found: String,
        /// What may have been meant.
        suggest: String,
    },
    /// A unit that there is not, or that could mean two things.
    #[error("\"{found}\" has an unknown unit; write {suggest}")]
    Unit {
        /// What was written.
        found: String,
        /// What may have been meant, or the units there are.
        suggest: String,
    },
    /// A sign, a fraction, an exponent, or no number at all.
    #[error("\"{found}\" is not a whole number and a unit; write it like {example}")]
    Number {
        /// What was written.
        found: String,
        /// A valid value.
        example: &'static str,
    },
    /// A negative value.
    #[error("\"{found}\" is negative; write it like {example}")]
    Negative {
        /// What was written.
        found: String,
        /// A valid value.
        example: &'static str,
    },
    /// More than can be counted.
    #[error("\"{0}\" is too large")]
    TooLarge(String),
}

/// The units of one kind of value, smallest first.
type Units = &'static [(&'static str, u64)];

const SIZES: Units = &[
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];
const SIZE_EXAMPLE: &str = "64MiB";

/// In milliseconds.
const PERIODS: Units = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const PERIOD_EXAMPLE: &str = "500ms, 10s, 5m, 12h or 30d";

/// Units people write for those above.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("K", "KiB"),
    ("M", "MiB"),
    ("G", "GiB"),
    ("T", "TiB"),
    ("byte", "B"),
    ("bytes", "B"),
    ("ms.", "ms"),
    ("millis", "ms"),
    ("milliseconds", "ms"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("min", "m"),
    ("mins", "m"),
    ("minute", "m"),
    ("minutes", "m"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
];

/// Reads `<whole number><unit>`, with blanks around either allowed; `0` needs no unit.
fn parse(text: &str, units: Units, example: &'static str, bare: [&str; 2]) -> Result<u64, Error> {
    let found = text.trim();
    let number_error = || Error::Number {
        found: found.to_owned(),
        example,
    };
    if found
        .strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Err(Error::Negative {
            found: found.to_owned(),
            example,
        });
    }
    let digits_end = found
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(found.len());
    let (digits, unit) = found.split_at(digits_end);
    if digits.is_empty() {
        return Err(number_error());
    }
    let number: u64 = digits
        .parse()
        .map_err(|_| Error::TooLarge(found.to_owned()))?;
    let unit = unit.trim();
    if unit.is_empty() {
        if number == 0 {
            return Ok(0);
        }
        let [small, usual] = bare.map(|unit| format!("{digits}{unit}"));
        return Err(Error::NoUnit {
            found: found.to_owned(),
            suggest: format!("{usual} or {small}"),
        });
    }
    if let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) {
        return number
            .checked_mul(*factor)
            .ok_or_else(|| Error::TooLarge(found.to_owned()));
    }
    if unit.contains(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '_' | '+' | '-')) {
        return Err(number_error());
    }
    let meant = OTHER_NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, name)| *name)
        .filter(|name| units.iter().any(|(unit, _)| unit == name))
        .or_else(|| {
            let mut names = units.iter().map(|(name, _)| *name);
            names.find(|name| name.eq_ignore_ascii_case(unit))
        });
    Err(Error::Unit {
        found: found.to_owned(),
        suggest: match meant {
            Some(name) => format!("{digits}{name}"),
            None => format!("one of {}", unit_names(units)),
        },
    })
}

fn unit_names(units: Units) -> String {
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Writes `amount` in the largest unit that holds it exactly, of those that `wanted` lets through.
fn write(
    f: &mut fmt::Formatter<'_>,
    amount: u64,
    units: Units,
    wanted: impl Fn(&str) -> bool,
) -> fmt::Result {
    let exact = units
        .iter()
        .rev()
        .filter(|(name, _)| wanted(name))
        .find(|(_, factor)| amount != 0 && amount.is_multiple_of(*factor));
    match exact {
        Some((name, factor)) => write!(f, "{}{name}", amount / factor),
        None => f.write_str("0"),
    }
}

/// A size in bytes, written with a unit: `512MiB`, `64KiB`, `10GB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(u64);

impl ByteSize {
    /// So many bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }
    /// So many binary megabytes.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// The size in bytes.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
    /// The size in bytes, for indexing memory.
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl FromStr for ByteSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, SIZES, SIZE_EXAMPLE, ["B", "MiB"]).map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole powers of 1024 read best in binary units, everything else in bytes.
        write(f, self.0, SIZES, |name| name == "B" || name.contains('i'))
    }
}

/// A length of time, written with a unit: `500ms`, `10s`, `5m`, `12h`, `30d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Period(Duration);

impl Period {
    /// So many seconds.
    #[must_use]
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
    /// So many milliseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
    /// So many days of 24 hours.
    #[must_use]
    pub const fn days(days: u64) -> Self {
        Self(Duration::from_secs(days * 86_400))
    }
    /// As the standard library's type.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Period {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, PERIODS, PERIOD_EXAMPLE, ["ms", "s"]).map(Self::millis)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        write(f, millis, PERIODS, |_| true)
    }
}

/// Serde for a type that is written as its text.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(super) use serde_as_text;

serde_as_text!(ByteSize);
serde_as_text!(Period);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(text: &str) -> Result<u64, String> {
        let size = text.parse::<ByteSize>();
        size.map(ByteSize::as_u64)
            .map_err(|error| error.to_string())
    }

    fn millis(text: &str) -> Result<u128, String> {
        let period = text.parse::<Period>();
        period
            .map(|p| p.duration().as_millis())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_read_by_their_units() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("64MB", 64_000_000),
            ("1 GiB", 1 << 30),
            (" 12B ", 12),
            ("3KB", 3_000),
            ("0", 0),
            ("0MiB", 0),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_what_to_write() {
        for (text, says) in [
            ("64", "\"64\" has no unit; write 64MiB or 64B"),
            ("64M", "\"64M\" has an unknown unit; write 64MiB"),
            ("64mib", "\"64mib\" has an unknown unit; write 64MiB"),
            ("64 bytes", "\"64 bytes\" has an unknown unit; write 64B"),
            (
                "64XB",
                "\"64XB\" has an unknown unit; write one of B, KB, KiB, MB, MiB, GB, GiB, TB, TiB",
            ),
            (
                "1e9",
                "\"1e9\" is not a whole number and a unit; write it like 64MiB",
            ),
            (
                "1.5GiB",
                "\"1.5GiB\" is not a whole number and a unit; write it like 64MiB",
            ),
            ("-1", "\"-1\" is negative; write it like 64MiB"),
            (
                "",
                "\"\" is not a whole number and a unit; write it like 64MiB",
            ),
            (
                "lots",
                "\"lots\" is not a whole number and a unit; write it like 64MiB",
            ),
            ("99999999TiB", "\"99999999TiB\" is too large"),
            (
                "99999999999999999999999B",
                "\"99999999999999999999999B\" is too large",
            ),
            ("5m", "\"5m\" has an unknown unit; write 5MiB"),
        ] {
            assert_eq!(size(text), Err(says.to_owned()), "{text}");
        }
    }

    #[test]
    fn periods_are_read_by_their_units() {
        for (text, expected) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("1m", 60_000),
            ("12h", 43_200_000),
            ("30d", 2_592_000_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_period_is_refused_with_what_to_write() {
        let shape = "is not a whole number and a unit; write it like 500ms, 10s, 5m, 12h or 30d";
        for (text, says) in [
            ("90", "\"90\" has no unit; write 90s or 90ms".to_owned()),
            (
                "5seconds",
                "\"5seconds\" has an unknown unit; write 5s".to_owned(),
            ),
            ("5 M", "\"5 M\" has an unknown unit; write 5m".to_owned()),
            (
                "3w",
                "\"3w\" has an unknown unit; write one of ms, s, m, h, d".to_owned(),
            ),
            (
                "-1s",
                "\"-1s\" is negative; write it like 500ms, 10s, 5m, 12h or 30d".to_owned(),
            ),
            ("1h30m", format!("\"1h30m\" {shape}")),
            ("1.5s", format!("\"1.5s\" {shape}")),
            ("soon", format!("\"soon\" {shape}")),
        ] {
            assert_eq!(millis(text), Err(says), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_the_same(bytes in any::<u64>(), ms in 0..u64::MAX / 2) {
            let size = ByteSize::bytes(bytes);
            prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
            let period = Period::millis(ms);
            prop_assert_eq!(period.to_string().parse::<Period>(), Ok(period));
        }

        #[test]
        fn any_text_is_a_value_or_an_error(text in ".{0,40}") {
            drop(text.parse::<ByteSize>());
            drop(text.parse::<Period>());
        }
    }
}
