//! How OTLP and plain JSON are taken: `otlp`, `cors` and `levels`.

use serde::{Deserialize, Serialize};

use super::Period;

/// What becomes of traces, metrics and profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherSignals {
    /// Answered with 404 or UNIMPLEMENTED and a text that says what to set.
    Reject,
    /// Answered with success, counted, and thrown away.
    Discard,
}

/// OTLP over gRPC and HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Otlp {
    /// Path of the HTTP port that takes logs.
    pub path: String,
    /// `reject` or `discard`.
    pub other_signals: OtherSignals,
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            path: "/v1/logs".to_owned(),
            other_signals: OtherSignals::Reject,
        }
    }
}

impl Otlp {
    /// Checks that `path` is one that a router can serve beside its own.
    ///
    /// # Errors
    /// What to write instead.
    pub(super) fn check_path(&self) -> Result<(), &'static str> {
        let path = self.path.as_str();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
        let is_dots = |name: &str| name == "." || name == "..";
        if path.len() < 2
            || !path.starts_with('/')
            || path.ends_with('/')
            || path.contains("//")
            || path.split('/').any(is_dots)
            || !path.bytes().all(plain)
        {
            return Err("write a path such as /v1/logs, without a slash at its end");
        }
        let others = ["/v1/traces", "/v1/metrics", "/v1development/profiles"];
        if others.iter().any(|other| path.ends_with(other)) {
            return Err("senders use that path for another signal; write one such as /v1/logs");
        }
        if ["/opentelemetry.", "/grpc."]
            .iter()
            .any(|taken| path.starts_with(taken))
        {
            return Err("gRPC calls have that path; write one such as /v1/logs");
        }
        Ok(())
    }
}

/// What a level that is written in bare digits means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digits {
    /// 10 trace, 20 debug, 30 info, 40 warn, 50 error, 60 fatal, as pino and bunyan; else OTLP's 1 to 24.
    #[default]
    Pino,
    /// 10 debug, 20 info, 30 warn, 40 error, 50 fatal.
    Python,
    /// 0 and 1 fatal, 2 and 3 error, 4 warn, 5 and 6 info, 7 debug.
    Syslog,
    /// Nothing: the level stays unspecified.
    None,
}

/// How levels are read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Levels {
    /// `pino`, `python`, `syslog` or `none`.
    pub digits: Digits,
}

/// Web pages of other origins that may send logs. Off while `origins` is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cors {
    /// Origins, such as `https://app.example.com`. One `*` in each stands for any text.
    pub origins: Vec<String>,
    /// Request headers that pages may send beside the usual ones.
    pub headers: Vec<String>,
    /// How long a browser may remember the answer.
    pub max_age: Period,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            headers: Vec::new(),
            max_age: Period::secs(7200),
        }
    }
}

impl Cors {
    /// Whether pages of any other origin may send logs.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Whether pages of this origin may. Origins are compared as browsers write them, in lower case.
    #[must_use]
    pub fn allows(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| {
            let allowed = allowed.trim_end_matches('/');
            match allowed.split_once('*') {
                None => allowed.eq_ignore_ascii_case(origin),
                Some((start, end)) => {
                    let origin = origin.to_ascii_lowercase();
                    let rest = origin.strip_prefix(&start.to_ascii_lowercase());
                    rest.is_some_and(|rest| rest.ends_with(&end.to_ascii_lowercase()))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_whole_or_around_one_star() {
        let cors = |origin: &str| Cors {
            origins: vec![origin.to_owned()],
            ..Cors::default()
        };
        for (allowed, origin, good) in [
            ("http://app.lan", "http://app.lan", true),
            ("http://App.lan/", "http://app.lan", true),
            ("http://app.lan", "http://app.lan:81", false),
            ("http://app.lan", "https://app.lan", false),
            ("https://*.example.com", "https://a.example.com", true),
            (
                "https://*.example.com",
                "https://example.com.evil.io",
                false,
            ),
            ("http://localhost:*", "http://localhost:5173", true),
            ("*", "null", true),
        ] {
            assert_eq!(cors(allowed).allows(origin), good, "{allowed} {origin}");
        }
        assert!(!Cors::default().allows("http://app.lan"));
    }

    #[test]
    fn a_path_is_plain_and_has_no_slash_at_its_end() {
        for (path, good) in [
            ("/v1/logs", true),
            ("/otlp/v1/logs", true),
            ("/", false),
            ("v1/logs", false),
            ("/v1/logs/", false),
            ("/v1//logs", false),
            ("/v1/{logs}", false),
            ("/v1/../logs", false),
            ("/v1/traces", false),
            ("/otlp/v1/metrics", false),
            ("/v1development/profiles", false),
            ("/grpc.health.v1.Health/Check", false),
        ] {
            let otlp = Otlp {
                path: path.to_owned(),
                ..Otlp::default()
            };
            assert_eq!(otlp.check_path().is_ok(), good, "{path}");
        }
    }
}
