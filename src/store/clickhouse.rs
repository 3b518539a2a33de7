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

use super::error::{Error, TOO_MANY_BYTES, cut, cut_by_exception, exception, is_exception};
use super::http::{Chunks, Pool, Url, pool};
use super::param::Param;
use crate::config::{self, Secret};

/// Most bytes of an answer. A page of 1,000 records of a mebibyte each would be more; such a search
/// is refused rather than held in memory.
const ANSWER_LIMIT: usize = 64 << 20;
/// Longest statement that makes or alters a table.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

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
        if is_exception(&head.headers) || cut_by_exception(&head.headers, &bytes) {
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
