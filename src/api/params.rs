//! Parameters of requests: the query that the stream and the search share, numbers and times.

use jiff::Timestamp;

use super::ApiError;
use crate::query::{Column, LevelSet, Query};
use crate::record::Level;

/// Longest text of one parameter.
const MAX_VALUE_BYTES: usize = 4 << 10;
/// Most services or environments of a filter.
const MAX_NAMES: usize = 100;
/// Parameters of a query, its plain shorthands among them.
const FILTER: [&str; 6] = ["q", "level", "min_level", "service", "environment", "text"];

/// The parameters of one request.
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Takes a request's parameters; `known` are those allowed beside the filter's. A parameter that
    /// is not known is an error: a filter that is silently ignored shows what was not asked for.
    pub(super) fn new(pairs: Vec<(String, String)>, known: &[&str]) -> Result<Self, ApiError> {
        for (name, value) in &pairs {
            if !FILTER.contains(&name.as_str()) && !known.contains(&name.as_str()) {
                let names = [&FILTER, known].concat().join(", ");
                let error = ApiError::bad_request(format!("there is no parameter `{name}`"));
                return Err(error.hint(format!("parameters are {names}")));
            }
            // A query says itself where it is too long.
            if name != "q" && value.len() > MAX_VALUE_BYTES {
                return Err(ApiError::bad_request(format!(
                    "parameter `{name}` has {} bytes; {MAX_VALUE_BYTES} are allowed",
                    value.len()
                )));
            }
        }
        Ok(Self(pairs))
    }

    /// A parameter that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.iter().filter(move |(key, _)| key == name);
        pairs
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A number no greater than `most`, which is what a greater one becomes.
    pub(super) fn number(
        &self,
        name: &str,
        default: usize,
        most: usize,
    ) -> Result<usize, ApiError> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let number: usize = text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("`{name}` is not a number: `{text}`")))?;
        Ok(number.min(most))
    }

    /// `q`, and its shorthands: `level` (one or more, comma-separated or repeated), `min_level`,
    /// `service`, `environment` (may be repeated) and `text`. A record must match all of them.
    pub(super) fn query(&self) -> Result<Query, ApiError> {
        let mut levels = LevelSet::ALL;
        if self.get("level").is_some() {
            levels = LevelSet::NONE;
            for name in self.all("level").flat_map(|names| names.split(',')) {
                levels = levels.with(level(name)?);
            }
        }
        if let Some(name) = self.get("min_level") {
            levels = levels.and(LevelSet::at_least(level(name)?));
        }
        let q = Query::parse(self.get("q").unwrap_or_default())?;
        Ok(Query::levels(levels)
            .and(Query::one_of(Column::Service, &self.names("service")?))
            .and(Query::one_of(
                Column::Environment,
                &self.names("environment")?,
            ))
            .and(Query::message(self.get("text").unwrap_or_default()))
            .and(q))
    }

    fn names(&self, parameter: &str) -> Result<Vec<String>, ApiError> {
        let mut names: Vec<_> = self.all(parameter).map(str::to_owned).collect();
        if names.len() > MAX_NAMES {
            let text = format!(
                "`{parameter}` is given {} times; {MAX_NAMES} are allowed",
                names.len()
            );
            return Err(ApiError::bad_request(text));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// A time in nanoseconds since the epoch: RFC 3339, a number (seconds to nanoseconds, by its
    /// magnitude), `now`, or an age such as `15m` before `now`.
    pub(super) fn time(&self, name: &str, now: i64) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        parse_time(text.trim(), now).map(Some).ok_or_else(|| {
            ApiError::bad_request(format!("`{name}` is not a time: `{text}`")).hint(
                "write 2026-01-31T12:00:00Z, a number since the epoch, or an age such as 15m, 6h, 7d",
            )
        })
    }
}

fn level(name: &str) -> Result<Level, ApiError> {
    let name = name.trim().to_ascii_lowercase();
    Level::from_name(&name).ok_or_else(|| {
        ApiError::bad_request(format!("there is no level `{name}`"))
            .hint("levels are trace, debug, info, warn, error, fatal, unspecified")
    })
}

fn parse_time(text: &str, now: i64) -> Option<i64> {
    if text == "now" {
        return Some(now);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return epoch(text.parse().ok()?);
    }
    if let Some((number, unit)) = text
        .char_indices()
        .next_back()
        .and_then(|(at, unit)| Some((text.get(..at)?, unit)))
        && let Ok(number) = number.parse::<u32>()
    {
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        return now.checked_sub(i64::from(number).checked_mul(seconds * 1_000_000_000)?);
    }
    let timestamp: Timestamp = text.parse().ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok()
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

    fn params(query: &[(&str, &str)]) -> Params {
        let pairs = query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Params::new(pairs.collect(), &["from", "limit"]).unwrap()
    }

    #[test]
    fn times_are_read_in_every_form() {
        let now = 1_761_800_000_000_000_000;
        for (text, expected) in [
            ("now", Some(now)),
            ("15m", Some(now - 900_000_000_000)),
            ("7d", Some(now - 604_800_000_000_000)),
            ("1761800000", Some(now)),
            ("1761800000123", Some(now + 123_000_000)),
            ("1761800000123456", Some(now + 123_456_000)),
            ("1761800000123456789", Some(now + 123_456_789)),
            ("2025-10-30T04:53:20Z", Some(now)),
            ("2025-10-30T06:53:20.5+02:00", Some(now + 500_000_000)),
            ("yesterday", None),
            ("-5", None),
            ("5x", None),
            ("9999999999999999999999", None),
            ("4294967295w", None),
            ("m", None),
            ("é", None),
        ] {
            assert_eq!(parse_time(text, now), expected, "{text}");
        }
    }

    #[test]
    fn shorthands_become_one_query_with_q() {
        let query = params(&[
            ("level", "warn,ERROR"),
            ("level", "fatal"),
            ("min_level", "error"),
            ("service", "b"),
            ("service", "a"),
            ("environment", ""),
            ("text", "x y"),
            ("q", "user:5 OR z"),
        ])
        .query()
        .unwrap();
        assert_eq!(
            query.to_string(),
            r#"level>=error service:(a OR b) "x y" (user:5 OR z)"#
        );
        assert!(params(&[]).query().unwrap().is_everything());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let unknown = Params::new(vec![("filter".into(), "x".into())], &[]);
        assert!(unknown.is_err());
        assert!(params(&[("level", "loud")]).query().is_err());
        assert!(params(&[("limit", "-1")]).number("limit", 1, 2).is_err());
        assert_eq!(params(&[("limit", "99")]).number("limit", 1, 2).unwrap(), 2);
    }
}
