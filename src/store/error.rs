//! Why ClickHouse did not do what was asked: told apart by its exception codes, never by its text.

use http::HeaderMap;

/// Most characters kept of what ClickHouse says about an error.
const MESSAGE_LIMIT: usize = 1 << 10;

const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";
const EXCEPTION_TAG: &str = "x-clickhouse-exception-tag";
/// Begins and ends an exception that follows data.
const EXCEPTION_MARK: &[u8] = b"__exception__";

/// What may help against an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Trying again: the network, a timeout, an overloaded or broken server, or a code that says
    /// nothing certain about the data.
    Retryable,
    /// Trying again, later and with more rows at once.
    TooManyParts,
    /// Trying again, with less at once.
    Memory,
    /// Trying again, after the tables were made.
    Schema,
    /// A person who gives the user its rights; trying again until then.
    Auth,
    /// Nothing: the data, or the query.
    Data,
    /// Nothing: a query took more time, rows or memory than it may.
    Limit,
}

/// Why ClickHouse did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No answer: not reached, cut, or too late.
    #[error("clickhouse does not answer: {0}")]
    Connection(String),
    /// The embedded engine is not up yet, or was just lost.
    #[error("the embedded engine is not running yet")]
    Starting,
    /// ClickHouse's own words.
    #[error("clickhouse error {code}: {message}")]
    Exception {
        /// ClickHouse's code; 0 when it gave none.
        code: i32,
        /// Its words, cut to a kibibyte.
        message: String,
    },
    /// An answer that is not ClickHouse's, as of a proxy before it.
    #[error("unexpected answer with status {status}: {message}")]
    Answer {
        /// The HTTP status.
        status: u16,
        /// How it begins.
        message: String,
    },
    /// An answer that we cannot read.
    #[error("cannot read clickhouse's answer: {0}")]
    Format(String),
}

impl Error {
    pub(super) fn connection(error: impl std::error::Error) -> Error {
        // The causes tell what happened; the outermost says only that it did.
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        Error::Connection(cut(&text))
    }

    /// ClickHouse's code, where it gave one.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Exception { code, .. } if *code != 0 => Some(*code),
            _ => None,
        }
    }

    /// What may help.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Error::Exception { code, .. } => kind_of(*code),
            Error::Answer {
                status: 401 | 403, ..
            } => Kind::Auth,
            Error::Connection(_) | Error::Starting | Error::Answer { .. } | Error::Format(_) => {
                Kind::Retryable
            }
        }
    }
}

/// Codes as in ClickHouse's `ErrorCodes.cpp`; they are never reassigned. What is not here is taken to
/// pass: the writer looks at the frames itself before it gives one up for such a code.
fn kind_of(code: i32) -> Kind {
    match code {
        252 => Kind::TooManyParts,
        241 => Kind::Memory,
        // THERE_IS_NO_COLUMN, NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE,
        // UNKNOWN_DATABASE, CANNOT_GET_CREATE_TABLE_QUERY
        8 | 16 | 47 | 60 | 81 | 390 => Kind::Schema,
        // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, IP_ADDRESS_NOT_ALLOWED, ACCESS_DENIED,
        // AUTHENTICATION_FAILED
        192 | 193 | 194 | 195 | 497 | 516 => Kind::Auth,
        // TIMEOUT_EXCEEDED, TOO_MANY_ROWS, TOO_MANY_BYTES, TOO_MANY_ROWS_OR_BYTES, TOO_SLOW
        159 | 158 | 307 | 396 | 160 => Kind::Limit,
        // CANNOT_PARSE_TEXT, SIZES_OF_COLUMNS_DOESNT_MATCH, CANNOT_PARSE_INPUT_ASSERTION_FAILED,
        // ATTEMPT_TO_READ_AFTER_EOF, CANNOT_READ_ALL_DATA, UNKNOWN_TYPE, ARGUMENT_OUT_OF_BOUND,
        // CANNOT_PARSE_NUMBER, INCORRECT_DATA, TOO_LARGE_ARRAY_SIZE, TOO_LARGE_STRING_SIZE,
        // SIZES_OF_ARRAYS_DONT_MATCH, DECIMAL_OVERFLOW, VIOLATED_CONSTRAINT
        6 | 9 | 27 | 32 | 33 | 50 | 69 | 72 | 117 | 128 | 131 | 190 | 407 | 469 => Kind::Data,
        _ => Kind::Retryable,
    }
}

/// The code of an answer that is larger than it may be.
pub(super) const TOO_MANY_BYTES: i32 = 307;

/// Whether the data end in an exception: ClickHouse marks it with a tag that data cannot guess.
pub(super) fn cut_by_exception(headers: &HeaderMap, body: &[u8]) -> bool {
    let Some(tag) = headers.get(EXCEPTION_TAG) else {
        return false;
    };
    let mark = [tag.as_bytes(), b"\r\n", EXCEPTION_MARK].concat();
    body.trim_ascii_end().ends_with(&mark)
}

/// Reads an exception out of an answer's head and body.
pub(super) fn exception(headers: &HeaderMap, body: &[u8]) -> Error {
    let code = headers
        .get(EXCEPTION_CODE)
        .and_then(|code| code.to_str().ok()?.trim().parse().ok())
        .unwrap_or_default();
    // Behind data the exception is what matters.
    let text = memchr::memmem::rfind(body, b"DB::Exception")
        .and_then(|at| body.get(at..))
        .unwrap_or(body);
    Error::Exception {
        code,
        message: cut(&String::from_utf8_lossy(text)),
    }
}

/// The beginning of a text, in one line.
pub(super) fn cut(text: &str) -> String {
    let clean = text.trim().chars().take(MESSAGE_LIMIT);
    clean
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

/// Whether an answer's head says that it is an exception, whatever its status.
pub(super) fn is_exception(headers: &HeaderMap) -> bool {
    headers.contains_key(EXCEPTION_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            let name = http::HeaderName::from_static(name);
            (name, http::HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn exception_behind_data_is_found_by_its_tag() {
        let headers = headers(&[(EXCEPTION_TAG, "dyvbuevcwnzqmxmn")]);
        let text = "1\n2\n__exception__\r\ndyvbuevcwnzqmxmn\r\nCode: 159. DB::Exception: Timeout\r\n\
                    39 dyvbuevcwnzqmxmn\r\n__exception__\r\n";
        assert!(cut_by_exception(&headers, text.as_bytes()));
        let other = text.replace("39 dyvbuevcwnzqmxmn", "39 aaaaaaaaaaaaaaaa");
        assert!(!cut_by_exception(&headers, other.as_bytes()));
        assert!(!cut_by_exception(&HeaderMap::new(), text.as_bytes()));
    }

    #[test]
    fn errors_carry_code_and_a_short_text_in_one_line() {
        let body = format!("Code: 60. DB::Exception: no table\n{}", "x".repeat(5000));
        let error = exception(&headers(&[(EXCEPTION_CODE, "60")]), body.as_bytes());
        assert_eq!((error.code(), error.kind()), (Some(60), Kind::Schema));
        let text = error.to_string();
        assert!(text.starts_with("clickhouse error 60: DB::Exception: no table xxx"));
        assert!(text.len() < MESSAGE_LIMIT + 100);
    }

    #[test]
    fn codes_that_say_nothing_certain_are_retried() {
        for (code, kind) in [
            (252, Kind::TooManyParts),
            (241, Kind::Memory),
            (33, Kind::Data),
            (516, Kind::Auth),
            (159, Kind::Limit),
            (0, Kind::Retryable),
            (62, Kind::Retryable),
            (242, Kind::Retryable),
            (99_999, Kind::Retryable),
        ] {
            assert_eq!(kind_of(code), kind, "{code}");
        }
    }
}
