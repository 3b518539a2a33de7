//! What must hold between settings, each of which is good by itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{Ack, ByteSize, Config, Fsync, Period, QueueKind, Secret, redis_url};

/// Settings that do not go together, or one that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The keys that take part, the one to change first, each with what is wrong with it and what
    /// would be right. Told is the first of them that somebody set.
    pub(super) keys: Vec<(&'static str, String)>,
}

impl Conflict {
    /// A key whose value cannot be used, and why.
    #[must_use]
    pub fn of(key: &'static str, problem: String) -> Self {
        Self {
            keys: vec![(key, problem)],
        }
    }

    fn between(one: (&'static str, String), other: (&'static str, String)) -> Self {
        Self {
            keys: vec![one, other],
        }
    }
}

/// Longest `retention`: ClickHouse computes a row's end of life as a 32-bit time, which ends in 2106.
const MAX_RETENTION: Period = Period::days(18_250);
/// A record older than `retention` on arrival loses its place in time; an hour is the least sense.
const MIN_RETENTION: Period = Period::secs(3_600);
/// More than enough for one insert, and far below where ClickHouse would balk.
/// Times ahead are partitions, as those of the past are.
const MAX_FUTURE: Period = MAX_RETENTION;
const MAX_BATCH_ROWS: usize = 10_000_000;
const MAX_INSERTS: usize = 16;
/// Characters that a token should have, if it is of random ones.
const LONG_TOKEN: usize = 16;
/// A frame's row count, and the memory it takes to build one.
const MAX_FRAME_ROWS: usize = 1 << 20;
const MAX_FRAME: ByteSize = ByteSize::mib(256);
/// Below this the engine does not start, or fails its first merge.
const MIN_ENGINE_MEMORY: ByteSize = ByteSize::mib(256);
/// How long an OpenTelemetry SDK waits for an answer before it sends the batch again.
const SENDER_PATIENCE: Period = Period::secs(10);
/// No wait of the daemon is meant to be longer; a greater value is a unit mistaken.
const MAX_WAIT: Period = Period::secs(3_600);
/// No browser remembers the answer to a preflight for longer.
const MAX_REMEMBERED: Period = Period::days(1);

/// Moves a password out of `queue.redis.url`, so that the URL can be printed and logged.
pub(super) fn take_url_password(config: &mut Config) -> Vec<Conflict> {
    let redis = &mut config.queue.redis;
    let Some((url, password)) = redis_url::split_password(&redis.url) else {
        return Vec::new();
    };
    redis.url = url;
    if redis.password.is_empty() {
        redis.password = password;
        return Vec::new();
    }
    let problem = "holds a password, and queue.redis.password is set too; keep one";
    vec![Conflict::of("queue.redis.url", problem.to_owned())]
}

/// Every conflict there is.
pub(super) fn conflicts(config: &Config) -> Vec<Conflict> {
    let mut found = Found(Vec::new());
    let has_dir = !config.state_dir.as_os_str().is_empty();
    found.unless(has_dir, "state_dir", || {
        "is empty; write a directory such as /var/lib/watchtower".to_owned()
    });
    ports(config, &mut found);
    auth_and_tls(config, &mut found);
    otlp_and_cors(config, &mut found);
    limits(config, &mut found);
    queue(config, &mut found);
    store_and_engine(config, &mut found);
    live_and_log(config, &mut found);
    links(config, &mut found);
    found.0
}

struct Found(Vec<Conflict>);

impl Found {
    fn unless(&mut self, good: bool, key: &'static str, problem: impl FnOnce() -> String) {
        if !good {
            self.0.push(Conflict::of(key, problem()));
        }
    }

    /// A conflict of two keys, told as it is seen from either.
    fn unless_both(
        &mut self,
        good: bool,
        one: (&'static str, String),
        other: (&'static str, String),
    ) {
        if !good {
            self.0.push(Conflict::between(one, other));
        }
    }

    fn number(&mut self, key: &'static str, value: usize, min: usize, max: usize) {
        self.unless((min..=max).contains(&value), key, || {
            format!("is {value}; write a number from {min} to {max}")
        });
    }

    fn wait(&mut self, key: &'static str, value: Period) {
        let good = value.duration() > Duration::ZERO && value <= MAX_WAIT;
        self.unless(good, key, || {
            format!("is {value}; write a time over 0 and up to {MAX_WAIT}")
        });
    }

    fn at_least(&mut self, key: &'static str, value: ByteSize, min: ByteSize) {
        self.unless(value >= min, key, || {
            format!("is {value}; write at least {min}")
        });
    }

    /// The second key's value bounds the first's.
    fn within(&mut self, key: &'static str, value: ByteSize, by: &'static str, bound: ByteSize) {
        let over = format!("is {value}, over {by} which is {bound}; lower it, or raise {by}");
        let under = format!("is {bound}, under {key} which is {value}; raise it, or lower {key}");
        self.unless_both(value <= bound, (key, over), (by, under));
    }
}

fn ports(config: &Config, found: &mut Found) {
    let listen = &config.listen;
    let all = [
        ("listen.otlp_grpc", listen.otlp_grpc),
        ("listen.otlp_http", listen.otlp_http),
        ("listen.web", listen.web),
    ];
    for (index, (key, address)) in all.iter().enumerate() {
        for (other_key, other) in all.iter().take(index) {
            let clash = |address, other_key, other| {
                format!("is {address}, and {other_key} is {other}; give each its own port")
            };
            found.unless_both(
                !overlap(*address, *other),
                (*key, clash(address, *other_key, other)),
                (*other_key, clash(other, *key, address)),
            );
        }
    }
}

/// Whether two listeners could not both have their address.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let same_address =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_address
}

fn auth_and_tls(config: &Config, found: &mut Found) {
    let tokens = [
        ("auth.ingest_tokens", &config.auth.ingest_tokens),
        ("auth.read_tokens", &config.auth.read_tokens),
    ];
    for (key, tokens) in tokens {
        found.unless(!tokens.iter().any(Secret::is_empty), key, || {
            "holds an empty token; write the token, or remove the line".to_owned()
        });
        // What cannot stand in a header could never be sent.
        let sendable = |token: &Secret| token.expose().bytes().all(|byte| byte.is_ascii_graphic());
        found.unless(tokens.iter().all(sendable), key, || {
            "holds a token that no header can carry; use letters, digits and signs without blanks".to_owned()
        });
    }
    let tls = &config.tls;
    found.unless(
        tls.cert_file.is_none() || tls.key_file.is_some(),
        "tls.cert_file",
        || "needs tls.key_file too; set both, or neither".to_owned(),
    );
    found.unless(
        tls.client_ca_file.is_none() || tls.cert_file.is_some(),
        "tls.client_ca_file",
        || {
            "needs tls.cert_file and tls.key_file too; without TLS no client shows a certificate"
                .to_owned()
        },
    );
    found.unless(
        tls.key_file.is_none() || tls.cert_file.is_some(),
        "tls.key_file",
        || "needs tls.cert_file too; set both, or neither".to_owned(),
    );
}

fn otlp_and_cors(config: &Config, found: &mut Found) {
    if let Err(problem) = config.otlp.check_path() {
        found.unless(false, "otlp.path", || {
            format!("is \"{}\"; {problem}", config.otlp.path)
        });
    }
    let cors = &config.cors;
    found.unless(cors.max_age <= MAX_REMEMBERED, "cors.max_age", || {
        format!("is {}; write at most {MAX_REMEMBERED}", cors.max_age)
    });
    let is_origin = |origin: &String| {
        let host = origin.split_once("://").map(|(_, host)| host);
        let whole = host.is_some_and(|host| !host.trim_end_matches('/').contains('/'));
        (whole || origin == "*") && origin.matches('*').count() <= 1
    };
    found.unless(cors.origins.iter().all(is_origin), "cors.origins", || {
        "holds what is not an origin; write scheme and host, such as https://app.example.com, with at most one *".to_owned()
    });
    let is_name = |name: &String| http::HeaderName::from_bytes(name.as_bytes()).is_ok();
    found.unless(cors.headers.iter().all(is_name), "cors.headers", || {
        "holds what is not the name of a header; write names such as x-api-key".to_owned()
    });
}

fn limits(config: &Config, found: &mut Found) {
    let limits = &config.limits;
    found.at_least("limits.body", limits.body, ByteSize::bytes(1 << 10));
    found.within(
        "limits.body",
        limits.body,
        "limits.in_flight",
        limits.in_flight,
    );
    found.at_least("limits.message", limits.message, ByteSize::bytes(64));
    found.within("limits.message", limits.message, "limits.body", limits.body);
    found.at_least("limits.value", limits.value, ByteSize::bytes(64));
    found.within("limits.value", limits.value, "limits.body", limits.body);
    found.number("limits.attributes", limits.attributes, 1, 65_536);
    found.unless(limits.future <= MAX_FUTURE, "limits.future", || {
        format!(
            "is {}; write at most {MAX_FUTURE}, as every day is a partition",
            limits.future
        )
    });
    found.number("limits.connections", limits.connections, 1, 1_000_000);
    found.number(
        "limits.connections_per_address",
        limits.connections_per_address,
        0,
        1_000_000,
    );
    found.number(
        "limits.requests_per_address",
        limits.requests_per_address as usize,
        0,
        1_000_000,
    );
    found.number("limits.streams", limits.streams as usize, 1, 1_000_000);
    found.wait("limits.header_timeout", limits.header_timeout);
    found.wait("limits.body_timeout", limits.body_timeout);
    found.wait("limits.commit_timeout", limits.commit_timeout);

    let intake = &config.intake;
    found.number("intake.frame_rows", intake.frame_rows, 1, MAX_FRAME_ROWS);
    found.at_least(
        "intake.frame_bytes",
        intake.frame_bytes,
        ByteSize::bytes(1 << 10),
    );
    found.unless(
        intake.frame_bytes <= MAX_FRAME,
        "intake.frame_bytes",
        || format!("is {}; write at most {MAX_FRAME}", intake.frame_bytes),
    );
    found.within(
        "intake.frame_bytes",
        intake.frame_bytes,
        "limits.in_flight",
        limits.in_flight,
    );
    found.wait("intake.dedup_window", intake.dedup_window);
    found.number(
        "intake.dedup_requests",
        intake.dedup_requests,
        1,
        100_000_000,
    );
    found.number(
        "intake.commits_in_flight",
        intake.commits_in_flight,
        1,
        1_024,
    );
}

fn queue(config: &Config, found: &mut Found) {
    let disk = &config.queue.disk;
    let frame = config.intake.frame_bytes;
    found.within(
        "intake.frame_bytes",
        frame,
        "queue.disk.segment_bytes",
        disk.segment_bytes,
    );
    // The segment that is read and the one that is written are always there.
    let two = ByteSize::bytes(disk.segment_bytes.as_u64().saturating_mul(2));
    let (most, segment) = (disk.max_bytes, disk.segment_bytes);
    found.unless_both(
        most >= two,
        (
            "queue.disk.max_bytes",
            format!("is {most}; write at least two segments, {two}"),
        ),
        (
            "queue.disk.segment_bytes",
            format!("is {segment}; write at most half of queue.disk.max_bytes, which is {most}"),
        ),
    );
    if let Fsync::Interval(period) = disk.fsync {
        let good = period.duration() > Duration::ZERO && period <= MAX_WAIT;
        found.unless(good, "queue.disk.fsync", || {
            format!("is {period}; write always, never, or a time over 0 and up to {MAX_WAIT}")
        });
    }
    let redis = &config.queue.redis;
    if let Err(problem) = redis_url::check(&redis.url) {
        found.unless(false, "queue.redis.url", || problem);
    }
    found.unless(!redis.prefix.is_empty(), "queue.redis.prefix", || {
        "is empty; write a prefix in braces, such as \"{watchtower}\"".to_owned()
    });
    found.wait("queue.redis.timeout", redis.timeout);
    found.wait("queue.redis.lease", redis.lease);
    let (lease, patience) = (redis.lease, redis.timeout);
    let why = "or one slow answer loses the lease";
    found.unless_both(
        lease > patience,
        (
            "queue.redis.lease",
            format!("is {lease}; write more than queue.redis.timeout, which is {patience}, {why}"),
        ),
        (
            "queue.redis.timeout",
            format!("is {patience}; write less than queue.redis.lease, which is {lease}, {why}"),
        ),
    );
}

fn store_and_engine(config: &Config, found: &mut Found) {
    let store = &config.store;
    if let Some(Err(problem)) = store.url.as_deref().map(store_url) {
        found.unless(false, "store.url", || problem.to_owned());
    }
    found.unless(!store.user.is_empty(), "store.user", || {
        "is empty; write the user's name, which is usually `default`".to_owned()
    });
    let mut letters = store.database.chars();
    let is_name = letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    found.unless(is_name, "store.database", || {
        format!(
            "is \"{}\"; write a name of letters, digits and _",
            store.database
        )
    });
    found.number("store.batch_rows", store.batch_rows, 1, MAX_BATCH_ROWS);
    found.at_least(
        "store.batch_bytes",
        store.batch_bytes,
        ByteSize::bytes(1 << 10),
    );
    found.unless(store.batch_delay <= MAX_WAIT, "store.batch_delay", || {
        format!("is {}; write at most {MAX_WAIT}", store.batch_delay)
    });
    found.number("store.inserts", store.inserts, 1, MAX_INSERTS);
    found.wait("store.insert_timeout", store.insert_timeout);
    found.at_least("engine.memory", config.engine.memory, MIN_ENGINE_MEMORY);
    let mut periods = config.retention_except.iter().map(|other| other.period);
    if let Some(bad) = periods.find(|period| !(MIN_RETENTION..=MAX_RETENTION).contains(period)) {
        found.unless(false, "retention_except", || {
            format!("has {bad}; write times from {MIN_RETENTION} to {MAX_RETENTION}")
        });
    }
    let good = (MIN_RETENTION..=MAX_RETENTION).contains(&config.retention);
    found.unless(good, "retention", || {
        format!(
            "is {}; write a time from {MIN_RETENTION} to {MAX_RETENTION}",
            config.retention
        )
    });
}

/// Checks the URL of a ClickHouse server. The URL itself is not repeated: it may hold a password.
fn store_url(url: &str) -> Result<(), &'static str> {
    let uri: http::Uri = url
        .parse()
        .map_err(|_| "is not a URL; write http://HOST:8123 or https://HOST:8443")?;
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err("holds a user or password; write them as store.user and store.password");
    }
    match (uri.scheme_str(), uri.port_u16()) {
        (Some("http" | "https"), Some(9000 | 9440)) => Err(
            "names the port of ClickHouse's own protocol; write the HTTP port, usually 8123 or 8443",
        ),
        (Some("http" | "https"), _) if uri.query().is_some() => {
            Err("holds parameters after a ?; write the address only")
        }
        (Some("http" | "https"), _) => Ok(()),
        _ => Err("is not an HTTP URL; write http://HOST:8123 or https://HOST:8443"),
    }
}

fn links(config: &Config, found: &mut Found) {
    let trace = &config.links.trace;
    let is_web = trace.starts_with("http://") || trace.starts_with("https://");
    let good = trace.is_empty() || is_web && trace.contains("{trace_id}");
    found.unless(good, "links.trace", || {
        format!(
            "is \"{trace}\"; write an address such as http://jaeger.lan:16686/trace/{{trace_id}}"
        )
    });
}

fn live_and_log(config: &Config, found: &mut Found) {
    let live = &config.live;
    found.number("live.viewers", live.viewers, 1, 10_000);
    found.number(
        "live.viewers_per_address",
        live.viewers_per_address,
        1,
        10_000,
    );
    let (each, all) = (live.viewers_per_address, live.viewers);
    found.unless_both(
        each <= all,
        (
            "live.viewers_per_address",
            format!("is {each}, over live.viewers which is {all}; lower it, or raise live.viewers"),
        ),
        (
            "live.viewers",
            format!(
                "is {all}, under live.viewers_per_address which is {each}; raise it, or lower \
                 live.viewers_per_address"
            ),
        ),
    );
    found.at_least("live.ring", live.ring, ByteSize::mib(1));
    found.at_least("live.buffer", live.buffer, ByteSize::bytes(64 << 10));
    if let Err(error) = crate::telemetry::logging::parse_filter(&config.log.level) {
        found.unless(false, "log.level", || error.to_string());
    }
}

/// What is allowed and yet unlikely to be meant.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let listen = &config.listen;
    let open = |address: SocketAddr| !is_loopback(address.ip());
    let takes_logs = [listen.otlp_grpc, listen.otlp_http, listen.web];
    if config.auth.ingest_tokens.is_empty() && takes_logs.into_iter().any(open) {
        warnings.push(
            "anyone who reaches this machine can send logs; set auth.ingest_tokens, or listen on 127.0.0.1".to_owned(),
        );
    }
    if config.auth.read_tokens.is_empty() && open(listen.web) {
        warnings.push(format!(
            "anyone who reaches {} can read the logs; set auth.read_tokens, or let listen.web be on 127.0.0.1",
            listen.web
        ));
    }
    let tokens = !config.auth.ingest_tokens.is_empty() || !config.auth.read_tokens.is_empty();
    if tokens && config.tls.cert_file.is_none() && takes_logs.into_iter().any(open) {
        warnings.push("tokens cross the network unencrypted; set tls.cert_file and tls.key_file, or put a proxy with TLS in front".to_owned());
    }
    let all = config.auth.ingest_tokens.iter();
    let mut all = all.chain(&config.auth.read_tokens);
    let is_short = |token: &Secret| token.expose().len() < LONG_TOKEN;
    if all.any(is_short) && takes_logs.into_iter().any(open) {
        warnings.push(format!(
            "a token of fewer than {LONG_TOKEN} characters can be guessed; make one with `openssl rand -hex 24`"
        ));
    }
    if config.limits.commit_timeout >= SENDER_PATIENCE {
        warnings.push(format!(
            "limits.commit_timeout is {}: senders give up after about {SENDER_PATIENCE} and send again what may have been stored",
            config.limits.commit_timeout
        ));
    }
    if config.intake.ack == Ack::Received {
        warnings.push(
            "intake.ack is received: a crash loses records that senders were told are accepted"
                .to_owned(),
        );
    }
    let braces = config
        .queue
        .redis
        .prefix
        .split_once('{')
        .is_some_and(|(_, rest)| rest.find('}') > Some(0));
    if config.queue.kind == QueueKind::Redis && !braces {
        warnings.push("queue.redis.prefix has no {braces}: a Redis cluster would spread its keys over several nodes and refuse".to_owned());
    }
    if config.store.url.is_some()
        && (config.engine.library.is_some() || config.engine.binary.is_some())
    {
        warnings.push(
            "store.url is set, so the embedded engine is not started and engine.* is not used"
                .to_owned(),
        );
    }
    warnings
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
