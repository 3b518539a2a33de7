//! Why ClickHouse did not do what was asked: told apart by its exception codes, never by its text.

use clickhouse::error::Error as CrateError;
use hyper_util::client::legacy;

use super::heard::{ANSWER_LIMIT, Head, Heard};
use crate::telemetry::one_line;

/// Ends an exception that follows data, behind its tag.
const EXCEPTION_MARK: &[u8] = b"\r\n__exception__";

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
    /// The crate's error, with what was heard of the answer's head.
    pub(super) fn of(error: CrateError, heard: &Heard) -> Error {
        if heard.is_too_large() {
            return Error::Exception {
                code: TOO_MANY_BYTES,
                message: format!("the answer is larger than {ANSWER_LIMIT} bytes"),
            };
        }
        match (error, heard.head()) {
            (CrateError::BadResponse(text), Some(head)) => answered(&head, &text),
            (CrateError::Network(error), _) => Error::boxed(&*error),
            (error, _) => Error::connection(error),
        }
    }

    pub(super) fn connection(error: impl std::error::Error + 'static) -> Error {
        Error::boxed(&error)
    }

    fn boxed(error: &(dyn std::error::Error + 'static)) -> Error {
        // The causes tell what happened; the outermost says only that it did.
        Error::Connection(one_line(&crate::causes::joined(error)))
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
const TOO_MANY_BYTES: i32 = 307;

/// An answer that the crate takes for an error.
fn answered(head: &Head, text: &str) -> Error {
    match (head.code, head.status) {
        (None, status) if status != 200 => Error::Answer {
            status,
            message: one_line(text),
        },
        // Without a code under status 200 the exception stands behind data.
        (code, _) => {
            let at = text.rfind("DB::Exception").unwrap_or_default();
            Error::Exception {
                code: code.unwrap_or_default(),
                message: one_line(text.get(at..).unwrap_or(text)),
            }
        }
    }
}

/// The exception that data end in, by its tag. The crate misses one that comes in two pieces.
pub(super) fn exception_behind(answer: &[u8], heard: &Heard) -> Option<Error> {
    let head = heard.head()?;
    let mark = [head.tag.as_deref()?.as_bytes(), EXCEPTION_MARK].concat();
    let is_cut = answer.trim_ascii_end().ends_with(&mark);
    is_cut.then(|| answered(&head, &String::from_utf8_lossy(answer)))
}

/// Whether a socket was closed before anything of an answer came, though it was open once.
pub(super) fn is_stale(error: &CrateError) -> bool {
    let CrateError::Network(error) = error else {
        return false;
    };
    let error = error.downcast_ref::<legacy::Error>();
    error.is_some_and(|error| !error.is_connect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(head: &str) -> Heard {
        let heard = Heard::default();
        heard.hear(head.as_bytes()).unwrap();
        heard
    }

    #[test]
    fn exception_behind_data_is_found_by_its_tag() {
        let tag = "dyvbuevcwnzqmxmn";
        let tagged = heard(&format!(
            "HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Tag: {tag}\r\n\r\n"
        ));
        let text = format!(
            "1\n2\n__exception__\r\n{tag}\r\nCode: 159. DB::Exception: Timeout\r\n39 {tag}\r\n\
             __exception__\r\n"
        );
        let error = exception_behind(text.as_bytes(), &tagged).unwrap();
        assert_eq!((error.code(), error.kind()), (None, Kind::Retryable));
        assert!(error.to_string().contains(": DB::Exception: Timeout"));
        let other = text.replace(&format!("39 {tag}"), "39 aaaaaaaaaaaaaaaa");
        assert!(exception_behind(other.as_bytes(), &tagged).is_none());
        let untagged = heard("HTTP/1.1 200 OK\r\n\r\n");
        assert!(exception_behind(text.as_bytes(), &untagged).is_none());
    }

    #[test]
    fn errors_carry_the_heads_code_and_a_short_text_in_one_line() {
        let text = format!("Code: 7. DB::Exception: no table\n{}", "x".repeat(5000));
        let bad = || CrateError::BadResponse(text.clone());
        for status in [200, 404] {
            let head = format!("HTTP/1.1 {status} X\r\nX-ClickHouse-Exception-Code: 60\r\n\r\n");
            let error = Error::of(bad(), &heard(&head));
            assert_eq!((error.code(), error.kind()), (Some(60), Kind::Schema));
            let text = error.to_string();
            assert!(text.starts_with("clickhouse error 60: DB::Exception: no table xxx"));
            assert!(text.len() < 1200 && !text.contains(char::is_control));
        }
        let error = Error::of(bad(), &heard("HTTP/1.1 403 X\r\n\r\n"));
        assert_eq!((error.code(), error.kind()), (None, Kind::Auth));
        assert!(matches!(error, Error::Answer { status: 403, .. }));
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
