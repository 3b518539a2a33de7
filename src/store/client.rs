//! ClickHouse through the official `clickhouse` crate: statements, inserts and parameterized selects.
//!
//! What it adds to the crate: errors are told apart by their codes, never by their text, also where
//! an exception comes with status 200 (see [`super::line`]); answers have a largest size; a request
//! that met a stale socket is repeated. Repeating is safe: the one that writes carries a token.
//!
//! Nothing is compressed: the engine is on this machine, and a frame is sent as it is, one chunk each.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{Error, exception_behind, is_stale};
use super::line::{Line, Lines};
use super::param::Param;
use super::stream::Stream;
use crate::config::{self, Secret};

/// Longest statement that makes or alters a table.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// What a query's output comes in, unless it names another format.
const FORMAT: &str = "TabSeparated";
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Settings of a query that cannot change anything. Whoever stops waiting closes the socket, and
/// ClickHouse stops too.
const READ_ONLY: [(&str, &str); 2] = [
    ("readonly", "2"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
];

/// The format that the settings name: the crate has a place of its own for it, which goes before them.
fn format_of<'a>(settings: &[(&str, &'a str)]) -> &'a str {
    let format = settings.iter().find(|(name, _)| *name == "default_format");
    format.map_or(FORMAT, |(_, format)| *format)
}

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

/// Whether a request may be sent again when its socket turned out to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing, or nothing more the second time.
    Once,
    /// An insert: the server may have died over it, and only the writer knows how to go on then.
    Never,
}

/// A connection to ClickHouse; cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    lines: Lines,
    endpoint: EndpointSource,
    /// Keeps the channel of a fixed endpoint open.
    _fixed: Option<watch::Sender<Option<Endpoint>>>,
}

impl Client {
    /// A client of whatever endpoint is current, over plain HTTP: the embedded engine's.
    ///
    /// # Errors
    /// None that a machine should have.
    pub fn new(endpoint: EndpointSource) -> Result<Client, Error> {
        Ok(Client {
            lines: Lines::new(false)?,
            endpoint,
            _fixed: None,
        })
    }

    /// A client of the server that the configuration names; `None` when it names none.
    ///
    /// # Errors
    /// As [`Client::at`].
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
    /// When it is to speak TLS and the system has no certificates to trust.
    pub fn at(endpoint: Endpoint) -> Result<Client, Error> {
        let lines = Lines::new(endpoint.url.starts_with("https:"))?;
        let (sender, endpoint) = watch::channel(Some(endpoint));
        Ok(Client {
            lines,
            endpoint,
            _fixed: Some(sender),
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
        let answer = self.ask(Repeat::Once, &[], STATEMENT_TIMEOUT, |client| async move {
            client.query_raw(sql).fetch_bytes(FORMAT)?.collect().await
        });
        answer.await.map(drop)
    }

    /// The server's version, as in `26.7.2.1`.
    ///
    /// # Errors
    /// When ClickHouse does not answer.
    pub async fn version(&self) -> Result<String, Error> {
        let answer = self.select("SELECT version()", &[], &[], VERSION_TIMEOUT);
        Ok(String::from_utf8_lossy(&answer.await?).trim().to_owned())
    }

    /// Inserts data as they are, in pieces. `settings` go with the URL, values for places in the SQL
    /// (`param_…`) among them.
    ///
    /// # Errors
    /// When ClickHouse does not answer or refuses; it may have the data all the same.
    pub async fn insert(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        pieces: impl IntoIterator<Item = Bytes>,
        within: Duration,
    ) -> Result<(), Error> {
        let pieces: Vec<Bytes> = pieces.into_iter().collect();
        let answer = self.ask(Repeat::Never, settings, within, |client| {
            let mut insert = client.insert_formatted_with(sql);
            let pieces = pieces.clone();
            async move {
                let mut sent = Ok(());
                for piece in pieces {
                    sent = insert.send(piece).await;
                    if sent.is_err() {
                        break;
                    }
                }
                // The end says why nobody takes the pieces any more, unless that was said already: then
                // it says that all is well, and nothing is.
                insert.end().await.and(sent).map(|()| Bytes::new())
            }
        });
        answer.await.map(drop)
    }

    /// Runs a query that cannot change anything, with its parameters bound, and returns its output:
    /// tab-separated, unless it or the setting `default_format` names another format.
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
        let all = [&READ_ONLY, settings].concat();
        let format = format_of(settings);
        self.ask(Repeat::Once, &all, within, |client| {
            let query = params.iter().fold(client.query_raw(sql), |query, param| {
                query.param(&param.name, &param.value)
            });
            async { query.fetch_bytes(format)?.collect().await }
        })
        .await
    }

    /// As [`Client::select`] without parameters, for an answer of any size, which is read piece by
    /// piece.
    ///
    /// # Errors
    /// While the embedded engine is starting; what else may go wrong shows with the first piece.
    pub fn stream(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        within: Duration,
    ) -> Result<Stream, Error> {
        let (line, client) = self.prepare(&[&READ_ONLY, settings].concat())?;
        let client = client.with_setting("wait_end_of_query", "0");
        line.heard.expect_endless();
        let cursor = client.query_raw(sql).fetch_bytes(format_of(settings));
        let cursor = cursor.map_err(|error| Error::of(error, &line.heard))?;
        Ok(Stream::new(line, cursor, within))
    }

    /// A line, and the client that asks on it.
    fn prepare(&self, settings: &[(&str, &str)]) -> Result<(Line, clickhouse::Client), Error> {
        let endpoint = self.endpoint.borrow().clone().ok_or(Error::Starting)?;
        let line = self.lines.take();
        let client = line
            .client
            .clone()
            .with_url(endpoint.url)
            .with_user(endpoint.user)
            .with_password(endpoint.password.expose());
        let client = settings.iter().fold(client, |client, (name, value)| {
            client.with_setting(*name, *value)
        });
        Ok((line, client))
    }

    /// Makes a request on a line of its own, twice where it may be repeated and the first met a stale
    /// socket: one that idled may be closed by the server in the moment in which we use it. Then
    /// nothing of an answer came.
    async fn ask<F>(
        &self,
        repeat: Repeat,
        settings: &[(&str, &str)],
        within: Duration,
        request: impl Fn(clickhouse::Client) -> F,
    ) -> Result<Bytes, Error>
    where
        F: Future<Output = Result<Bytes, clickhouse::error::Error>>,
    {
        let (line, client) = self.prepare(settings)?;
        // The answer is made whole before its head is sent, so that an error has its status.
        let client = client.with_setting("wait_end_of_query", "1");
        let asked = async {
            line.heard.forget();
            match request(client.clone()).await {
                Err(error) if repeat == Repeat::Once && is_stale(&error) => {
                    tracing::debug!(%error, "socket was stale, sent again");
                    line.heard.forget();
                    request(client).await
                }
                other => other,
            }
        };
        match timeout(within, asked).await {
            Ok(Ok(answer)) => {
                if line.heard.head().is_none() {
                    return Err(Error::Connection("no answer was heard".to_owned()));
                }
                if let Some(error) = exception_behind(&answer, &line.heard) {
                    return Err(error);
                }
                self.lines.give_back(line);
                Ok(answer)
            }
            Ok(Err(error)) => Err(Error::of(error, &line.heard)),
            Err(_) => Err(Error::Connection(format!("no answer within {within:?}"))),
        }
    }
}
