//! How long records are kept: one period for all, and others for some.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Config, Period};
use crate::record::Level;

/// What an exception is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Records of a level.
    Level(Level),
    /// Records of a service.
    Service(String),
}

/// Another retention for some records, written `level:debug 3d` or `service:nginx 7d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// Which records.
    pub kept: Kept,
    /// How long they are kept.
    pub period: Period,
}

const EXAMPLE: &str = "write what and how long, such as `level:debug 3d` or `service:nginx 7d`";

impl FromStr for Exception {
    type Err = String;

    fn from_str(text: &str) -> Result<Exception, String> {
        let wrong = |what: &str| format!("\"{text}\" {what}; {EXAMPLE}");
        let (which, period) = text
            .trim()
            .rsplit_once(' ')
            .ok_or_else(|| wrong("is no exception"))?;
        let period = period
            .parse()
            .map_err(|error| wrong(&format!("has no period: {error}")))?;
        let (field, value) = which
            .trim()
            .split_once(':')
            .ok_or_else(|| wrong("names no level or service"))?;
        let kept = match (field, value.trim()) {
            (_, "") => return Err(wrong("names no level or service")),
            ("level", name) => {
                let level = Level::ALL.into_iter().find(|level| level.as_str() == name);
                Kept::Level(level.ok_or_else(|| {
                    let known = Level::ALL.map(Level::as_str).join(", ");
                    wrong(&format!("names no level of {known}"))
                })?)
            }
            ("service", name) => Kept::Service(name.to_owned()),
            _ => return Err(wrong("is for neither a level nor a service")),
        };
        Ok(Exception { kept, period })
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kept {
            Kept::Level(level) => write!(f, "level:{} {}", level.as_str(), self.period),
            Kept::Service(name) => write!(f, "service:{name} {}", self.period),
        }
    }
}

impl Serialize for Exception {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Exception {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Exception, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Config {
    /// The longest that any record is kept.
    #[must_use]
    pub fn longest_retention(&self) -> Period {
        let exceptions = self.retention_except.iter().map(|other| other.period);
        exceptions.fold(
            self.retention,
            |one, other| if other > one { other } else { one },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_read_and_written() {
        for text in ["level:debug 3d", "service:nginx 7d", "service:a b:c 12h"] {
            assert_eq!(text.parse::<Exception>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_none_is_told() {
        for (text, told) in [
            ("debug", "is no exception"),
            ("level:debug x", "has no period"),
            (
                "level:loud 3d",
                "names no level of unspecified, trace, debug",
            ),
            ("service: 3d", "names no level or service"),
            ("host:a 3d", "is for neither a level nor a service"),
        ] {
            let error = text.parse::<Exception>().unwrap_err();
            assert!(
                error.contains(told) && error.contains("level:debug 3d"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_longest_is_that_of_all() {
        let mut config = Config {
            retention: Period::days(5),
            ..Config::default()
        };
        assert_eq!(config.longest_retention(), Period::days(5));
        config.retention_except = vec![
            "level:debug 1d".parse().unwrap(),
            "service:audit 90d".parse().unwrap(),
        ];
        assert_eq!(config.longest_retention(), Period::days(90));
    }
}
