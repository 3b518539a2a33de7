//! Reaching Redis: the address, connections, and the wait between attempts.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError,
    TlsMode,
};

use crate::config::RedisQueueConfig;
use crate::queue::Error;
use crate::telemetry::one_line;

/// How to reach Redis. Cheap to clone.
#[derive(Clone)]
pub(super) struct Endpoint {
    target: Target,
    timeout: Duration,
}

#[derive(Clone)]
enum Target {
    One(Box<Client>),
    /// Asks the sentinels for the master at every connection.
    Sentinel(std::sync::Arc<tokio::sync::Mutex<SentinelClient>>),
}

impl Endpoint {
    /// Reads the configuration; connects to nothing.
    ///
    /// # Errors
    /// When the URL cannot be one.
    pub(super) fn new(config: &RedisQueueConfig) -> Result<Endpoint, Error> {
        let bad = |error: &dyn std::fmt::Display| {
            Error::Redis(format!("`queue.redis.url` is not usable: {error}"))
        };
        let sentinel = config
            .url
            .strip_prefix("redis+sentinel://")
            .map(|rest| (rest, TlsMode::Secure, false))
            .or_else(|| {
                let rest = config.url.strip_prefix("rediss+sentinel://")?;
                Some((rest, TlsMode::Secure, true))
            });
        let target = match sentinel {
            Some((rest, mode, tls)) => {
                let client = sentinel_client(rest, tls.then_some(mode), config)
                    .map_err(|error| bad(&error))?;
                Target::Sentinel(std::sync::Arc::new(tokio::sync::Mutex::new(client)))
            }
            None => {
                let info = config.url.as_str().into_connection_info();
                let mut info = info.map_err(|error| bad(&error))?;
                info = info.set_tcp_settings(tcp_settings());
                if !config.password.is_empty() {
                    let settings = info.redis_settings().clone();
                    info = info.set_redis_settings(settings.set_password(config.password.expose()));
                }
                Target::One(Box::new(Client::open(info).map_err(|error| bad(&error))?))
            }
        };
        Ok(Endpoint {
            target,
            timeout: config.timeout.duration(),
        })
    }

    /// Makes a connection, within the configured timeout.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout))
            .set_pipeline_buffer_size(256);
        match &self.target {
            Target::One(client) => {
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
            }
            Target::Sentinel(client) => {
                let mut client = client.lock().await;
                client.get_async_connection_with_config(&config).await
            }
        }
    }
}

/// The client's default is Nagle's algorithm, which doubles the time of a push that is sent while
/// another is under way.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

/// `[user@]host[:port][,host[:port]…]/<master>[/<db>]`; the password is the masters'.
fn sentinel_client(
    rest: &str,
    tls: Option<TlsMode>,
    config: &RedisQueueConfig,
) -> Result<SentinelClient, RedisError> {
    let bad = |what: &'static str| RedisError::from((ErrorKind::InvalidClientConfig, what));
    let (user, rest) = match rest.split_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    let mut parts = rest.split('/');
    let hosts = parts.next().unwrap_or_default();
    let master = parts
        .next()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| bad("a sentinel URL ends with /<name of the master>"))?;
    let mut addresses = Vec::new();
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse();
                (
                    host,
                    port.map_err(|_| bad("a sentinel's port is no number"))?,
                )
            }
            None => (host, 26379),
        };
        addresses.push(ConnectionAddr::Tcp(host.to_owned(), port));
    }
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?;
    builder = builder.set_client_to_redis_tcp_settings(tcp_settings());
    if let Some(mode) = tls {
        builder = builder.set_client_to_redis_tls_mode(mode);
    }
    if let Some(user) = user {
        builder = builder.set_client_to_redis_username(user);
    }
    if !config.password.is_empty() {
        builder = builder.set_client_to_redis_password(config.password.expose());
    }
    if let Some(db) = parts.next() {
        let db = db.parse().map_err(|_| bad("the database is no number"))?;
        builder = builder.set_client_to_redis_db(db);
    }
    builder.build()
}

/// Whether these are the server's own words: the command was read and refused, and did nothing.
/// Everything else leaves open what has happened.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

/// What Redis said, or what came in the way of asking.
pub(super) fn words(error: &RedisError) -> String {
    one_line(&match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    })
}

pub(super) fn failed(error: &RedisError) -> Error {
    Error::Redis(words(error))
}

/// Growing waits with jitter, so that many daemons do not come back at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);

    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// The next wait: between half and all of a time that doubles.
    pub(super) fn next(&mut self) -> Duration {
        let full = (Self::FIRST * (1 << self.attempts.min(10))).min(Self::LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        full.mul_f64(0.5 + 0.5 * f64::from(random() as u32) / f64::from(u32::MAX))
    }
}

/// A random number; the time where the system has none to give.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| crate::queue::now_ms().cast_unsigned())
}
