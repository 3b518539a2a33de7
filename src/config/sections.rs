//! The sections of the configuration, each with its defaults. The doc comments are the user's
//! reference; `config/watchtower.yaml` repeats them with every key at its default.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::units::{self, serde_as_text};
use super::{ByteSize, Cors, Exception, Levels, Otlp, Period, Secret};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directory for everything the daemon keeps: the disk queue, the embedded engine's data, dead
    /// letters. Made if missing, readable by its owner only.
    pub state_dir: PathBuf,
    /// How long records are kept in ClickHouse. Records older than this on arrival are stored under
    /// their time of receipt, with the original time in an attribute.
    pub retention: Period,
    /// Other times for some, such as `level:debug 3d` or `service:audit 365d`. For a record that several
    /// name, the shortest holds.
    pub retention_except: Vec<Exception>,
    /// Addresses to listen on.
    pub listen: Listen,
    /// Tokens asked of senders and readers.
    pub auth: Auth,
    /// TLS on the listeners.
    pub tls: Tls,
    /// OTLP over gRPC and HTTP.
    pub otlp: Otlp,
    /// Web pages of other origins that may send logs.
    pub cors: Cors,
    /// How levels are read.
    pub levels: Levels,
    /// Bounds on what a client may send.
    pub limits: Limits,
    /// Acknowledgement and group commit.
    pub intake: Intake,
    /// What holds records between acknowledgement and ClickHouse.
    pub queue: QueueConfig,
    /// ClickHouse.
    pub store: Store,
    /// The embedded ClickHouse engine, used while `store.url` is not set.
    pub engine: Engine,
    /// The live view.
    pub live: Live,
    /// Links of the page into other programs.
    pub links: Links,
    /// The daemon's own log.
    pub log: Log,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state_dir: PathBuf::from("watchtower-data"),
            retention: Period::days(30),
            retention_except: Vec::new(),
            listen: Listen::default(),
            auth: Auth::default(),
            tls: Tls::default(),
            otlp: Otlp::default(),
            cors: Cors::default(),
            levels: Levels::default(),
            limits: Limits::default(),
            intake: Intake::default(),
            queue: QueueConfig::default(),
            store: Store::default(),
            engine: Engine::default(),
            live: Live::default(),
            links: Links::default(),
            log: Log::default(),
        }
    }
}

/// Addresses to listen on. Port 0 takes any free port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// OTLP over gRPC.
    #[serde(deserialize_with = "address")]
    pub otlp_grpc: SocketAddr,
    /// OTLP over HTTP.
    #[serde(deserialize_with = "address")]
    pub otlp_http: SocketAddr,
    /// The page, the API and the native JSON POST.
    #[serde(deserialize_with = "address")]
    pub web: SocketAddr,
}

impl Default for Listen {
    fn default() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            otlp_grpc: local(4317),
            otlp_http: local(4318),
            web: local(4319),
        }
    }
}

/// Reads an address to listen on, with a hint for the shapes other programs take.
fn address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    if let Ok(address) = text.trim().parse() {
        return Ok(address);
    }
    let (host, port) = text.trim().rsplit_once(':').unwrap_or(("", text.trim()));
    let suggest = match (host, port.parse::<u16>()) {
        ("" | "*", Ok(port)) => format!("0.0.0.0:{port} for all addresses, or 127.0.0.1:{port}"),
        ("localhost", Ok(port)) => format!("127.0.0.1:{port}"),
        _ => "an IP address and a port, such as 127.0.0.1:4319 or [::1]:4319".to_owned(),
    };
    let error = format!("\"{text}\" is not an address to listen on; write {suggest}");
    Err(serde::de::Error::custom(error))
}

/// Tokens asked of senders and readers. An empty list asks for none. A token is its text, or `{file: PATH}`,
/// or `{env: NAME}`, each perhaps with a name, by which its use is counted: `{name: shop, file: PATH}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// Tokens that may send logs, on all three ports.
    pub ingest_tokens: Vec<Secret>,
    /// Tokens that may read: the page, the search and the live stream.
    pub read_tokens: Vec<Secret>,
}

/// TLS on all listeners; off while both files are unset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// PEM file with the certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the private key.
    pub key_file: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that issue clients' certificates. Where it is set, only
    /// clients with such a certificate may connect, on all listeners, browsers too.
    pub client_ca_file: Option<PathBuf>,
}

/// Bounds on what a client may send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest request body, both as received and after decompression. Larger: 413, or
    /// RESOURCE_EXHAUSTED. OTLP asks for 64 MiB at least.
    pub body: ByteSize,
    /// Memory for requests that are not yet committed, over all connections. Beyond it senders get
    /// 503 or UNAVAILABLE and keep their data. Also the most that the records of one request may come to; over
    /// it: 413 or RESOURCE_EXHAUSTED. Too small: needless refusals under bursts.
    pub in_flight: ByteSize,
    /// Longest message kept whole; a longer one is cut and marked `watchtower.truncated`.
    pub message: ByteSize,
    /// Longest attribute value kept whole; a longer one is cut and marked.
    pub value: ByteSize,
    /// Most attributes kept of one record; what is beyond is cut and marked.
    pub attributes: usize,
    /// How far ahead of its receipt a record may be dated; one further ahead is stored under the time
    /// of receipt and keeps its own in an attribute. Every day is a partition of the table, so that a
    /// client which makes up its times could otherwise open tens of thousands of them.
    pub future: Period,
    /// Open connections over all listeners. Beyond it new ones wait to be accepted.
    pub connections: usize,
    /// Open connections of one address over all listeners (of IPv6, of one /64 network). Beyond it new ones are
    /// closed at once. 0: any number.
    pub connections_per_address: usize,
    /// Requests to the receivers that one address may send in a second. Beyond it: 429 or RESOURCE_EXHAUSTED, each with
    /// the time after which to come back. Behind a proxy on this machine it is the address that the proxy names in
    /// `X-Forwarded-For`; all senders behind another proxy have that one's. 0: any number.
    pub requests_per_address: u32,
    /// Requests that one HTTP/2 connection may have under way.
    pub streams: u32,
    /// Time a client has to send a request's headers, counted from the end of the one before: an idle
    /// HTTP/1.1 connection is closed after it.
    pub header_timeout: Period,
    /// Longest pause in a request's body. Over any such time it must come at 4 KiB a second.
    pub body_timeout: Period,
    /// Longest wait for the queue before a sender is told to come back.
    pub commit_timeout: Period,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: ByteSize::mib(64),
            in_flight: ByteSize::mib(128),
            message: ByteSize::mib(1),
            value: ByteSize::bytes(64 << 10),
            attributes: 512,
            future: Period::days(365),
            connections: 4096,
            connections_per_address: 2048,
            requests_per_address: 0,
            streams: 1024,
            header_timeout: Period::secs(30),
            body_timeout: Period::secs(30),
            commit_timeout: Period::secs(3),
        }
    }
}

/// When a sender is told that its records are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// After the queue holds them durably. Nothing acknowledged is lost.
    Queued,
    /// As soon as they are read. Faster by one commit; a crash loses what was not yet queued.
    Received,
}

/// Acknowledgement and group commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Intake {
    /// `queued` or `received`.
    pub ack: Ack,
    /// Most records in one frame.
    pub frame_rows: usize,
    /// Most bytes in one frame.
    pub frame_bytes: ByteSize,
    /// Commits that may be under way at once. With Redis this hides the network's latency.
    pub commits_in_flight: usize,
    /// Whether an OTLP request that comes again with the same bytes is acknowledged and not stored a
    /// second time. A request with a record that has no time of its own is always stored.
    pub dedup_resends: bool,
    /// For how long a request is recognized.
    pub dedup_window: Period,
    /// Most requests that are recognized; beyond it the oldest are forgotten before their time. Each
    /// takes about 60 bytes.
    pub dedup_requests: usize,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            ack: Ack::Queued,
            frame_rows: 65_536,
            frame_bytes: ByteSize::mib(8),
            commits_in_flight: 16,
            dedup_resends: true,
            dedup_window: Period::secs(300),
            dedup_requests: 500_000,
        }
    }
}

/// Which queue holds the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// Segment files under `state_dir`.
    Disk,
    /// A list in Redis.
    Redis,
}

/// What holds records between acknowledgement and ClickHouse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// `disk` or `redis`.
    pub kind: QueueKind,
    /// The disk queue.
    pub disk: DiskQueueConfig,
    /// The Redis queue.
    pub redis: RedisQueueConfig,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            kind: QueueKind::Disk,
            disk: DiskQueueConfig::default(),
            redis: RedisQueueConfig::default(),
        }
    }
}

/// When the disk queue calls fsync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before every acknowledgement; one fsync serves all requests that wait. Loses nothing.
    Always,
    /// At most this long after a write. A power cut loses up to this much; a killed process nothing.
    Interval(Period),
    /// When the operating system likes. A power cut loses up to half a minute.
    Never,
}

impl FromStr for Fsync {
    type Err = units::Error;

    fn from_str(text: &str) -> Result<Self, units::Error> {
        match text.trim() {
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            period => period.parse().map(Self::Interval),
        }
    }
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(period) => period.fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

serde_as_text!(Fsync);

/// The disk queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskQueueConfig {
    /// Most bytes the queue may hold. Beyond it senders get 503 or UNAVAILABLE.
    pub max_bytes: ByteSize,
    /// Free space to leave on the disk. Below it senders are pushed back as above.
    pub min_free: ByteSize,
    /// Size at which a new segment file is begun.
    pub segment_bytes: ByteSize,
    /// `always`, a period such as `100ms`, or `never`.
    pub fsync: Fsync,
}

impl Default for DiskQueueConfig {
    fn default() -> Self {
        Self {
            max_bytes: ByteSize::mib(10 << 10),
            min_free: ByteSize::mib(1 << 10),
            segment_bytes: ByteSize::mib(64),
            fsync: Fsync::Always,
        }
    }
}

/// The Redis queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisQueueConfig {
    /// `redis://`, `rediss://`, `redis+unix://` or `redis+sentinel://` URL. Loading moves a password in
    /// it to `password`.
    pub url: String,
    /// Password, so that it need not stand in the URL.
    pub password: Secret,
    /// Prefix of every key. Its braces keep all keys in one slot of a cluster.
    pub prefix: String,
    /// How long a worker may be silent before another adopts what it had claimed.
    pub lease: Period,
    /// Longest wait for an answer of Redis before the connection is made anew.
    pub timeout: Period,
    /// Replicas that must have a frame before it counts as queued. 0: none, the quickest. Costs one
    /// `WAIT` for each group of frames; with fewer replicas at hand frames go to the disk.
    pub wait_replicas: u16,
    /// Whether Redis, and so many replicas, must have a frame synced to their append-only files before
    /// it counts as queued (`WAITAOF`, Redis 7.2 and later).
    pub wait_aof: bool,
}

impl Default for RedisQueueConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379/0".to_owned(),
            password: Secret::default(),
            prefix: "{watchtower}".to_owned(),
            lease: Period::secs(15),
            timeout: Period::secs(5),
            wait_replicas: 0,
            wait_aof: false,
        }
    }
}

/// ClickHouse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// `http://` or `https://` URL of a ClickHouse server. Unset: the embedded engine is started.
    pub url: Option<String>,
    /// User name.
    pub user: String,
    /// Password.
    pub password: Secret,
    /// Database; made if missing.
    pub database: String,
    /// A batch is inserted when it has this many records,
    pub batch_rows: usize,
    /// or this many bytes, which all inserts under way share,
    pub batch_bytes: ByteSize,
    /// or when its first record has waited this long.
    pub batch_delay: Period,
    /// Inserts under way at once, 1 to 16.
    pub inserts: usize,
    /// Most bytes of records on disk; the oldest days are dropped beyond it. 0: no bound but `retention`.
    pub max_disk: ByteSize,
    /// Bytes to be left free on the disk of the embedded engine; the oldest days are dropped below it. 0:
    /// nothing is.
    pub min_free: ByteSize,
    /// Longest wait for one insert before it is tried again.
    pub insert_timeout: Period,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: None,
            user: "default".to_owned(),
            password: Secret::default(),
            database: "watchtower".to_owned(),
            batch_rows: 200_000,
            batch_bytes: ByteSize::mib(64),
            batch_delay: Period::millis(500),
            inserts: 2,
            max_disk: ByteSize::bytes(0),
            min_free: ByteSize::mib(1 << 10),
            insert_timeout: Period::secs(60),
        }
    }
}

/// The embedded ClickHouse engine, used while `store.url` is not set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// Path of `libchdb.so`. Unset: looked for where `scripts/quickstart` and the package put it.
    pub library: Option<PathBuf>,
    /// Path of a `clickhouse` binary, used instead of the library when set.
    pub binary: Option<PathBuf>,
    /// Memory the engine may use.
    pub memory: ByteSize,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            library: None,
            binary: None,
            memory: ByteSize::mib(2048),
        }
    }
}

/// The live view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Live {
    /// Most viewers at once.
    pub viewers: usize,
    /// Most viewers from one address.
    pub viewers_per_address: usize,
    /// Memory for recent records, from which a stream resumes.
    pub ring: ByteSize,
    /// Unsent bytes a slow viewer may have before records are skipped for it.
    pub buffer: ByteSize,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            viewers: 64,
            viewers_per_address: 8,
            ring: ByteSize::mib(32),
            buffer: ByteSize::mib(4),
        }
    }
}

/// Links of the page into other programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Where a trace is shown, such as `http://jaeger.lan:16686/trace/{trace_id}`. A record's field in
    /// braces is filled in. Empty: no link.
    pub trace: String,
}

/// How the daemon's own log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line a person reads.
    Human,
    /// One JSON object a line.
    Json,
}

/// The daemon's own log, on standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug` or `trace`, or a filter such as `info,watchtower::queue=debug`.
    pub level: String,
    /// `human` or `json`.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Human,
        }
    }
}
