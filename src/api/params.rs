//! Parameters of requests: the query that the stream and the search share, numbers and times.

use std::ops::RangeInclusive;

use super::{ApiError, times};
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

    /// A number within bounds. One that is outside is an error: what is answered instead would be taken
    /// for all there is.
    pub(super) fn number(
        &self,
        name: &str,
        default: usize,
        bounds: RangeInclusive<usize>,
    ) -> Result<usize, ApiError> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            let error = format!("`{name}` is not a whole number: `{text}`");
            return Err(ApiError::bad_request(error));
        }
        // One of too many digits is too large in any case.
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (bounds.start(), bounds.end());
            let error = ApiError::bad_request(format!("`{name}` is {text}"));
            error.hint(format!("write a number from {least} to {most}"))
        })
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
        let time = times::read(text.trim(), now);
        time.map(Some).map_err(|error| match error {
            times::Error::None => ApiError::bad_request(format!("`{name}` is not a time: `{text}`"))
                .hint(
                "write 2026-01-31T12:00:00Z, a number since the epoch, or an age such as 15m, 6h, 7d",
            ),
            times::Error::Range => {
                ApiError::bad_request(format!("`{name}` is out of range: `{text}`"))
                    .hint(times::RANGE)
            }
        })
    }

    /// The times `from` and `to`, in order.
    pub(super) fn range(&self, now: i64) -> Result<(Option<i64>, Option<i64>), ApiError> {
        let (from, to) = (self.time("from", now)?, self.time("to", now)?);
        if let (Some(start), Some(end)) = (from, to)
            && start > end
        {
            let given = |name| self.get(name).unwrap_or_default();
            let text = format!(
                "`from` is after `to`: `{}`, `{}`",
                given("from"),
                given("to")
            );
            return Err(ApiError::bad_request(text).hint("exchange the two"));
        }
        Ok((from, to))
    }
}

fn level(name: &str) -> Result<Level, ApiError> {
    let name = name.trim().to_ascii_lowercase();
    Level::from_name(&name).ok_or_else(|| {
        ApiError::bad_request(format!("there is no level `{name}`"))
            .hint("levels are trace, debug, info, warn, error, fatal, unspecified")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &[(&str, &str)]) -> Params {
        let pairs = query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Params::new(pairs.collect(), &["from", "to", "limit"]).unwrap()
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
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_with_the_bounds() {
        let limit = |text: &str| params(&[("limit", text)]).number("limit", 7, 1..=50);
        assert_eq!((limit("").unwrap(), limit("50").unwrap()), (7, 50));
        for text in ["0", "51", "99999999999999999999999"] {
            let error = limit(text).unwrap_err();
            let expected = ApiError::bad_request(format!("`limit` is {text}"));
            assert_eq!(error, expected.hint("write a number from 1 to 50"));
        }
        for text in ["-1", "ten", "1.5", "+1"] {
            assert!(
                limit(text)
                    .unwrap_err()
                    .text()
                    .contains("not a whole number")
            );
        }
    }

    #[test]
    fn a_range_that_runs_backwards_is_refused() {
        let range = |from: &str, to: &str| params(&[("from", from), ("to", to)]).range(1 << 60);
        assert!(range("15m", "now").is_ok());
        assert!(range("now", "now").is_ok());
        let error = range("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z").unwrap_err();
        assert!(
            error
                .text()
                .starts_with("`from` is after `to`: `2026-01-02T")
        );
        let error = range("0001-01-01T00:00:00Z", "").unwrap_err();
        let expected = "`from` is out of range: `0001-01-01T00:00:00Z`";
        assert_eq!(error, ApiError::bad_request(expected).hint(times::RANGE));
    }
}
