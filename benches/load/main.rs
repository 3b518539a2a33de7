//! The load generator: sends realistic, numbered records as fast as it may and says what happened.
//!
//! Closed loop: each of `connections × streams` senders waits for its answer before it sends again.
//! With `--rate`, requests are instead due at fixed times (open loop), and latency counts from then.
//! Records are built once and patched in place (time and number), so that the generator itself costs
//! little beside what it measures. A record counts as acknowledged only when its request's answer said so.
//!
//! What else a bench needs is here too: viewers of the live stream (`--watch`), a slower network
//! (`--delay-to`), and the records as Native blocks in files (`--write-native`).

mod client;
mod delay;
mod native;
mod records;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Grpc,
    Http,
    HttpJson,
    Json,
}

/// Sends numbered log records and reports rates and latencies as one JSON object.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Args {
    /// How to send.
    #[arg(long, value_enum, default_value = "grpc")]
    pub(crate) protocol: Protocol,
    /// Address of the receiver, host:port.
    #[arg(long, default_value = "127.0.0.1:4317")]
    pub(crate) address: String,
    /// Records in one request.
    #[arg(long, default_value_t = 1000)]
    pub(crate) records: usize,
    /// TCP connections.
    #[arg(long, default_value_t = 8)]
    pub(crate) connections: usize,
    /// Requests under way on each connection; more than one with gRPC only.
    #[arg(long, default_value_t = 1)]
    pub(crate) streams: usize,
    /// Seconds to send for.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Stop after so many records.
    #[arg(long, default_value_t = u64::MAX)]
    pub(crate) total: u64,
    /// Records per second to offer; 0 sends as fast as answers come.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) rate: f64,
    /// Compress request bodies.
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Bearer token.
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// Names this run: the attribute `bench.run` of every record.
    #[arg(long, default_value = "bench")]
    pub(crate) run: String,
    /// Send a request that was refused or cut off again, up to so many times.
    #[arg(long, default_value_t = 0)]
    pub(crate) retries: usize,
    /// Write the number of each acknowledged record's request to this file, as `first count` lines.
    #[arg(long)]
    pub(crate) acknowledged: Option<std::path::PathBuf>,
    /// Send nothing: write the records as Native blocks into files under this directory.
    #[arg(long)]
    pub(crate) write_native: Option<std::path::PathBuf>,
    /// Send nothing: watch the live stream at the address with so many viewers until standard input ends.
    #[arg(long)]
    pub(crate) watch: Option<usize>,
    /// Send nothing: pass connections to the address on to this one, host:port, with a delay.
    #[arg(long)]
    pub(crate) delay_to: Option<String>,
    /// Milliseconds that a round trip through `--delay-to` takes longer.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) delay: f64,
}

/// What the senders count together.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) next: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) stop: AtomicBool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.streams > 1 && args.protocol != Protocol::Grpc {
        bail!("HTTP/1.1 carries one request at a time: use --connections instead of --streams");
    }
    if let Some(dir) = &args.write_native {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        return native::write(&args, dir, u64::try_from(now.as_nanos())?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if let Some(viewers) = args.watch {
        runtime.block_on(watch::run(&args.address, viewers))
    } else if let Some(upstream) = &args.delay_to {
        let delay = Duration::from_secs_f64(args.delay / 1000.0);
        runtime.block_on(delay::run(&args.address, upstream, delay))
    } else {
        runtime.block_on(run(args))
    }
}

/// Milliseconds of the element that is this far into the sorted list of microseconds.
pub(crate) fn percentile(micros: &[u32], share: f64) -> f64 {
    let index = ((micros.len() as f64 * share) as usize).min(micros.len().saturating_sub(1));
    micros
        .get(index)
        .map_or(0.0, |micros| f64::from(*micros) / 1000.0)
}

async fn run(args: Args) -> Result<()> {
    let counts = Arc::new(Counts::default());
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(args.seconds);
    let mut senders = Vec::new();
    let mut number = 0;
    for _ in 0..args.connections {
        let connection = client::Connection::open(&args)
            .await
            .context("could not connect")?;
        for _ in 0..args.streams {
            let sender = client::Sender {
                args: args.clone(),
                connection: connection.clone(),
                counts: Arc::clone(&counts),
                number,
                started,
                end,
            };
            senders.push(tokio::spawn(sender.run()));
            number += 1;
        }
    }
    let mut latencies = Vec::new();
    let mut acknowledged = Vec::new();
    let mut last_error = None;
    for sender in senders {
        let done = sender.await?;
        latencies.extend(done.latencies);
        acknowledged.extend(done.acknowledged);
        last_error = done.last_error.or(last_error);
    }
    let elapsed = started.elapsed().as_secs_f64();
    if let Some(path) = &args.acknowledged {
        let lines: String = acknowledged
            .iter()
            .map(|(first, count)| format!("{first} {count}\n"))
            .collect();
        std::fs::write(path, lines)?;
    }
    latencies.sort_unstable();
    let percentile = |share| percentile(&latencies, share);
    let total = counts.acknowledged.load(Ordering::Relaxed);
    let report = serde_json::json!({
        "seconds": elapsed,
        "requests": latencies.len(),
        "acknowledged": total,
        "refused": counts.refused.load(Ordering::Relaxed),
        "failed": counts.failed.load(Ordering::Relaxed),
        "records_per_second": total as f64 / elapsed,
        "requests_per_second": latencies.len() as f64 / elapsed,
        "bytes": counts.bytes.load(Ordering::Relaxed),
        "p50_ms": percentile(0.50),
        "p99_ms": percentile(0.99),
        "p999_ms": percentile(0.999),
        "last_error": last_error,
    });
    #[expect(clippy::print_stdout, reason = "the report is this program's output")]
    {
        println!("{report}");
    }
    Ok(())
}
