//! Viewers of the live stream: how old a record is when a viewer has it.
//!
//! Each viewer is one plain socket with a filter of its own. What comes is searched for the records'
//! times and nothing else, so that 64 viewers cost little beside the daemon that serves them. The time in
//! a record is when its request was about to be sent, so the age counts sending, reading, the durable
//! commit and the stream. Prints `ready` once every stream has said hello, and watches until standard
//! input ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use memchr::memmem::Finder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, watch};

const TIMESTAMP: &[u8] = b"\"timestamp\":\"";
const DIGITS: usize = 19;
const SKIPPED: &[u8] = b"event: skipped";
const LONGEST_HELLO: usize = 64 * 1024;
/// Most ages that one viewer keeps; the rest is counted and not timed.
const MOST_AGES: usize = 2_000_000;

/// Queries of which no two are the same: the first viewer sees everything, the others a part of it.
fn query(viewer: usize) -> String {
    const SERVICES: [&str; 6] = ["checkout", "orders", "gateway", "auth", "search", "mailer"];
    const LEVELS: [&str; 3] = ["level>=info", "level>=warn", "level>=error"];
    const ROUTES: [&str; 4] = ["/api/orders", "/login", "/api/cart", "/checkout"];
    let Some(number) = viewer.checked_sub(1) else {
        return String::new();
    };
    let service = SERVICES[number % SERVICES.len()];
    let round = number / SERVICES.len();
    match round % 4 {
        0 => format!("service:{service} duration_ms>{round}"),
        1 => format!("service:{service} {}", LEVELS[round / 4 % LEVELS.len()]),
        2 => format!(
            "service:{service} http.route:{}",
            ROUTES[round / 4 % ROUTES.len()]
        ),
        _ => format!("service:{service} timeout -user.id:u{round}"),
    }
}

/// What one viewer saw.
#[derive(Default)]
struct Seen {
    /// Microseconds.
    ages: Vec<u32>,
    records: u64,
    bytes: u64,
    skips: u64,
}

/// Watches with `viewers` streams and reports when standard input ends.
pub(crate) async fn run(address: &str, viewers: usize) -> Result<()> {
    let (stop, stopped) = watch::channel(false);
    let ready = Arc::new(Barrier::new(viewers + 1));
    let mut tasks = Vec::new();
    for number in 0..viewers {
        let mut viewer = Viewer::open(address, &query(number)).await?;
        let (ready, stopped) = (Arc::clone(&ready), stopped.clone());
        tasks.push(tokio::spawn(async move {
            viewer.hello().await?;
            ready.wait().await;
            viewer.watch(stopped).await
        }));
    }
    tokio::select! {
        _ = ready.wait() => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => anyhow::bail!("not every stream said hello"),
    }
    say("ready");
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    stop.send(true)?;
    let mut all = Seen::default();
    for task in tasks {
        let seen = task.await??;
        all.ages.extend(seen.ages);
        all.records += seen.records;
        all.bytes += seen.bytes;
        all.skips += seen.skips;
    }
    all.ages.sort_unstable();
    let age = |share| crate::percentile(&all.ages, share);
    say(&serde_json::json!({
        "viewers": viewers, "records": all.records, "bytes": all.bytes, "skips": all.skips,
        "p50_ms": age(0.50), "p99_ms": age(0.99), "p999_ms": age(0.999),
    })
    .to_string());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the report is this program's output")]
fn say(text: &str) {
    println!("{text}");
}

struct Viewer {
    stream: TcpStream,
    /// Bytes read and not yet searched; a time may be cut in two by a read.
    pending: Vec<u8>,
    timestamp: Finder<'static>,
    skipped: Finder<'static>,
    seen: Seen,
}

impl Viewer {
    async fn open(address: &str, query: &str) -> Result<Viewer> {
        let mut stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("could not connect to {address}"))?;
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let head =
            format!("GET /api/logs/stream?backlog=0&q={query} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        Ok(Viewer {
            stream,
            pending: Vec::new(),
            timestamp: Finder::new(TIMESTAMP),
            skipped: Finder::new(SKIPPED),
            seen: Seen::default(),
        })
    }

    /// Reads up to the first event, which says that the stream has begun.
    async fn hello(&mut self) -> Result<()> {
        while memchr::memmem::find(&self.pending, b"event: hello").is_none() {
            let read = self.stream.read_buf(&mut self.pending).await?;
            ensure!(
                read > 0 && self.pending.len() < LONGEST_HELLO,
                "no stream: {}",
                String::from_utf8_lossy(&self.pending)
            );
        }
        self.pending.clear();
        Ok(())
    }

    async fn watch(mut self, mut stopped: watch::Receiver<bool>) -> Result<Seen> {
        loop {
            let read = tokio::select! {
                read = self.stream.read_buf(&mut self.pending) => read?,
                _ = stopped.changed() => return Ok(self.seen),
            };
            ensure!(read > 0, "the daemon closed a stream");
            self.seen.bytes += read as u64;
            self.search()?;
        }
    }

    /// Times every record in what is pending, and keeps what may be the beginning of one.
    fn search(&mut self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        self.seen.skips += self.skipped.find_iter(&self.pending).count() as u64;
        let mut done = 0;
        for at in self.timestamp.find_iter(&self.pending) {
            let digits = at + TIMESTAMP.len();
            let Some(time) = self.pending.get(digits..digits + DIGITS) else {
                break;
            };
            done = digits + DIGITS;
            self.seen.records += 1;
            let time = std::str::from_utf8(time)
                .ok()
                .and_then(|text| text.parse::<u128>().ok());
            if let Some(time) = time.filter(|_| self.seen.ages.len() < MOST_AGES) {
                let micros = now.saturating_sub(time) / 1000;
                self.seen
                    .ages
                    .push(u32::try_from(micros).unwrap_or(u32::MAX));
            }
        }
        let keep = TIMESTAMP.len() + DIGITS;
        self.pending
            .drain(..done.max(self.pending.len().saturating_sub(keep)));
        Ok(())
    }
}
