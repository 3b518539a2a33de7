//! A thin client of ClickHouse's HTTP interface: statements, inserts and parameterized selects.
//!
//! What it adds to HTTP is what ClickHouse makes of it: an error may come with status 200 (its code
//! in a header, or its text behind the data that were already sent), and errors are told apart by
//! their codes, never by their text. Requests may be repeated: the one that writes carries a token.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http::{Chunks, Pool, Url, pool};
use crate::config::{self, Secret};

/// Most characters kept of what ClickHouse says about an error.
const MESSAGE_LIMIT: usize = 1 << 10;
/// Most bytes of an answer. A page of 1,000 records of a mebibyte each would be more; such a search
/// is refused rather than held in memory.
const ANSWER_LIMIT: usize = 64 << 20;
/// Longest statement that makes or alters a table.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";
const EXCEPTION_TAG: &str = "x-clickhouse-exception-tag";
/// Begins and ends an exception that follows data.
const EXCEPTION_MARK: &[u8] = b"__exception__";

/// Where ClickHouse is and who we are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `http://host:port` or `https://host:port`.
    pub url: String,
    /// User name.
    pub user: String,
    /// Password.
    pub password: Secret,
}

/// The current endpoint; none while the embedded engine starts.
pub type EndpointSource = watch::Receiver<Option<Endpoint>>;

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

/// A bound parameter: what stands in the SQL as `{name:Type}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name in the SQL.
    pub name: String,
    /// Its value, in ClickHouse's escaped text form.
    pub value: String,
}

impl Param {
    /// A text.
    #[must_use]
    pub fn text(name: impl Into<String>, text: &str) -> Param {
        Param {
            name: name.into(),
            value: escaped(text),
        }
    }

    /// A list of texts, for `Array(String)`. Its elements are escaped and quoted, the list is not
    /// escaped once more.
    #[must_use]
    pub fn texts<'a>(name: impl Into<String>, texts: impl IntoIterator<Item = &'a str>) -> Param {
        let quoted: Vec<String> = texts
            .into_iter()
            .map(|text| format!("'{}'", escaped(text).replace('\'', "\\'")))
            .collect();
        Param {
            name: name.into(),
            value: format!("[{}]", quoted.join(",")),
        }
    }

    /// A number.
    #[must_use]
    pub fn number(name: impl Into<String>, number: impl std::fmt::Display) -> Param {
        Param {
            name: name.into(),
            value: number.to_string(),
        }
    }
}

/// Text as ClickHouse's tab-separated form has it.
fn escaped(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => value.push_str("\\\\"),
            '\t' => value.push_str("\\t"),
            '\n' => value.push_str("\\n"),
            '\r' => value.push_str("\\r"),
            '\0' => value.push_str("\\0"),
            other => value.push(other),
        }
    }
    value
}

/// A connection to ClickHouse; cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    pool: Pool,
    endpoint: EndpointSource,
    /// Keeps the channel of a fixed endpoint open.
    _fixed: Option<watch::Sender<Option<Endpoint>>>,
}

impl Client {
    /// A client of whatever endpoint is current.
    ///
    /// # Errors
    /// When the system's certificates cannot be read.
    pub fn new(endpoint: EndpointSource) -> Result<Client, Error> {
        Ok(Client {
            pool: pool()?,
            endpoint,
            _fixed: None,
        })
    }

    /// A client of the server that the configuration names; `None` when it names none.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn of(config: &config::Store) -> Result<Option<Client>, Error> {
        let Some(url) = &config.url else {
            return Ok(None);
        };
        let endpoint = Endpoint {
            url: url.clone(),
            user: config.user.clone(),
            password: config.password.clone(),
        };
        Client::at(endpoint).map(Some)
    }

    /// A client of a server that stays where it is.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn at(endpoint: Endpoint) -> Result<Client, Error> {
        let (sender, endpoint) = watch::channel(Some(endpoint));
        let client = Client::new(endpoint)?;
        Ok(Client {
            _fixed: Some(sender),
            ..client
        })
    }

    /// The endpoint's source.
    #[must_use]
    pub fn endpoint(&self) -> EndpointSource {
        self.endpoint.clone()
    }

    /// Runs one statement that changes tables.
    ///
    /// # Errors
    /// When ClickHouse does not answer or refuses.
    pub async fn execute(&self, sql: &str) -> Result<(), Error> {
        let body = Chunks::from_iter([Bytes::copy_from_slice(sql.as_bytes())]);
        let settings = [("wait_end_of_query", "1")];
        let request = self.request(body, &settings, &[])?;
        self.send(request, STATEMENT_TIMEOUT).await.map(drop)
    }

    /// The server's version, as in `26.7.2.1`.
    ///
    /// # Errors
    /// When ClickHouse does not answer.
    pub async fn version(&self) -> Result<String, Error> {
        let sql = "SELECT version() FORMAT TabSeparated";
        let answer = self.select(sql, &[], &[], VERSION_TIMEOUT).await?;
        Ok(String::from_utf8_lossy(&answer).trim().to_owned())
    }

    /// Inserts data as they are, in pieces. `settings` go with the URL.
    ///
    /// # Errors
    /// When ClickHouse does not answer or refuses; it may have the data all the same.
    pub async fn insert(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        params: &[Param],
        pieces: impl IntoIterator<Item = Bytes>,
        within: Duration,
    ) -> Result<(), Error> {
        let mut all = vec![("query", sql), ("wait_end_of_query", "1")];
        all.extend_from_slice(settings);
        let request = self.request(pieces.into_iter().collect(), &all, params)?;
        let answer = self.send(request, within).await?;
        // A successful insert says nothing.
        if answer.is_empty() {
            Ok(())
        } else {
            Err(exception(&HeaderMap::new(), &answer))
        }
    }

    /// Runs a query that cannot change anything, with its parameters bound, and returns its output.
    ///
    /// # Errors
    /// When ClickHouse does not answer, refuses, or runs into one of the limits among the settings.
    pub async fn select(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        params: &[Param],
        within: Duration,
    ) -> Result<Bytes, Error> {
        // The answer is made whole before its head is sent, so that an error has its status. Whoever
        // stops waiting closes the socket, and ClickHouse stops too.
        let mut all = vec![
            ("readonly", "2"),
            ("wait_end_of_query", "1"),
            ("cancel_http_readonly_queries_on_client_close", "1"),
        ];
        all.extend_from_slice(settings);
        let body = Chunks::from_iter([Bytes::copy_from_slice(sql.as_bytes())]);
        let request = self.request(body, &all, params)?;
        self.send(request, within).await
    }

    fn request(
        &self,
        body: Chunks,
        settings: &[(&str, &str)],
        params: &[Param],
    ) -> Result<Request<Chunks>, Error> {
        let endpoint = self.endpoint.borrow().clone().ok_or(Error::Starting)?;
        let mut url = Url::new(&endpoint.url);
        for (name, value) in settings {
            url.add(name, value);
        }
        for param in params {
            url.add(&format!("param_{}", param.name), &param.value);
        }
        Request::builder()
            .method(Method::POST)
            .uri(url.finish()?)
            .header("x-clickhouse-user", &endpoint.user)
            .header("x-clickhouse-key", endpoint.password.expose())
            .header(
                "user-agent",
                concat!("watchtower/", env!("CARGO_PKG_VERSION")),
            )
            .body(body)
            .map_err(Error::connection)
    }

    async fn send(&self, request: Request<Chunks>, within: Duration) -> Result<Bytes, Error> {
        match timeout(within, self.send_or_repeat(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Connection(format!("no answer within {within:?}"))),
        }
    }

    /// A socket that idled may be closed by the server in the moment in which we use it. Then nothing
    /// of an answer came, and the request is sent once more at once, on a new one.
    async fn send_or_repeat(&self, request: Request<Chunks>) -> Result<Bytes, Error> {
        let again = request.clone();
        let answer = match self.pool.request(request).await {
            Err(error) if !error.is_connect() => {
                tracing::debug!(error = %Error::connection(error), "socket was stale, sent again");
                self.pool.request(again).await
            }
            other => other,
        };
        let (head, mut body) = answer.map_err(Error::connection)?.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(Error::connection)?.into_data() {
                if bytes.len() + data.len() > ANSWER_LIMIT {
                    return Err(Error::Exception {
                        code: TOO_MANY_BYTES,
                        message: format!("the answer is larger than {ANSWER_LIMIT} bytes"),
                    });
                }
                bytes.extend_from_slice(&data);
            }
        }
        let bytes = bytes.freeze();
        if head.headers.contains_key(EXCEPTION_CODE) || cut_by_exception(&head.headers, &bytes) {
            return Err(exception(&head.headers, &bytes));
        }
        if head.status == StatusCode::OK {
            return Ok(bytes);
        }
        Err(Error::Answer {
            status: head.status.as_u16(),
            message: cut(&String::from_utf8_lossy(&bytes)),
        })
    }
}

const TOO_MANY_BYTES: i32 = 307;

/// Whether the data end in an exception: ClickHouse marks it with a tag that data cannot guess.
fn cut_by_exception(headers: &HeaderMap, body: &[u8]) -> bool {
    let Some(tag) = headers.get(EXCEPTION_TAG) else {
        return false;
    };
    let mark = [tag.as_bytes(), b"\r\n", EXCEPTION_MARK].concat();
    body.trim_ascii_end().ends_with(&mark)
}

fn exception(headers: &HeaderMap, body: &[u8]) -> Error {
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
fn cut(text: &str) -> String {
    let clean = text.trim().chars().take(MESSAGE_LIMIT);
    clean
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
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
