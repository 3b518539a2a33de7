//! `watchtower status`: how a running daemon is doing, as the page's status panel shows it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::Deserialize;

use super::client::{self, ServerArgs};
use super::{ConfigArgs, is_closed_pipe};
use crate::config::ByteSize;

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print what the daemon answers, in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Answer {
    version: String,
    pipeline: Pipeline,
    live: Live,
}

#[derive(Deserialize)]
struct Pipeline {
    uptime_seconds: u64,
    accepted: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    #[serde(default)]
    refused_reasons: BTreeMap<String, BTreeMap<String, u64>>,
    #[serde(default)]
    rejected: BTreeMap<String, u64>,
    stored: u64,
    dead: u64,
    queued: u64,
    queue_bytes: u64,
    queue_age_ms: u64,
    spill: Option<Spill>,
    damaged: Damaged,
    disk: Option<Disk>,
    redis: Option<Redis>,
    store: Store,
}

#[derive(Deserialize)]
struct Spill {
    reason: Option<String>,
    records: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Disk {
    free_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Redis {
    latency_ms: Option<f64>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Damaged {
    stretches: u64,
    records: u64,
}

#[derive(Deserialize)]
struct Store {
    ok: bool,
    version: Option<String>,
    embedded: bool,
    error: Option<String>,
    latency_ms: Option<f64>,
    insert_ms: Option<u64>,
    lag_ms: Option<u64>,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    dropped_records: u64,
}

#[derive(Deserialize)]
struct Live {
    viewers: u64,
    skipped: u64,
}

/// Prints the status; the exit code is 1 while something is wrong.
pub(super) async fn run(args: StatusArgs, source: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let client = args.server.client(source)?;
    let answer = client.get("/api/status", &[], &[]).await?;
    let body = client::read(answer).await?;
    let status: Answer = serde_json::from_slice(&body).with_context(|| {
        format!(
            "{} answers with no status; is it Watchtower?",
            client.base()
        )
    })?;
    let text = if args.json {
        format!("{}\n", String::from_utf8_lossy(&body))
    } else {
        told(&status)
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if !is_closed_pipe(&error) => return Err(error).context("could not print"),
        _ => {}
    }
    Ok(if troubles(&status.pipeline).is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What is wrong, one line each.
fn troubles(pipeline: &Pipeline) -> Vec<String> {
    let mut all = Vec::new();
    if !pipeline.store.ok {
        let why = pipeline.store.error.as_deref();
        all.push(format!("ClickHouse: {}", why.unwrap_or("not ready yet")));
    }
    if let Some(reason) = pipeline
        .spill
        .as_ref()
        .and_then(|spill| spill.reason.as_ref())
    {
        all.push(format!(
            "Redis: records go to the disk, as it says: {reason}"
        ));
    }
    if let Some(error) = pipeline
        .redis
        .as_ref()
        .and_then(|redis| redis.error.as_ref())
        && pipeline
            .spill
            .as_ref()
            .is_none_or(|spill| spill.reason.is_none())
    {
        all.push(format!("Redis: {error}"));
    }
    if pipeline.store.dropped_records > 0 {
        let dropped = pipeline.store.dropped_records;
        all.push(format!(
            "{dropped} old records were dropped to make room; see `store.max_disk` and `store.min_free`"
        ));
    }
    if pipeline.dead > 0 {
        let dead = pipeline.dead;
        all.push(format!(
            "{dead} records were refused by ClickHouse; see `watchtower queue ls`"
        ));
    }
    if pipeline.damaged.stretches > 0 {
        let Damaged { stretches, records } = pipeline.damaged;
        all.push(format!(
            "{records} records were lost in {stretches} damaged stretches of the queue; the log says where"
        ));
    }
    all
}

fn told(status: &Answer) -> String {
    let pipeline = &status.pipeline;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<10} {value}").expect("strings take all");
    };
    let uptime = Duration::from_secs(pipeline.uptime_seconds);
    line("version", format!("{}, up {uptime:?}", status.version));
    line("accepted", by_receiver(&pipeline.accepted, "records"));
    line("refused", by_receiver(&pipeline.refused, "requests"));
    for (reason, counts) in &pipeline.refused_reasons {
        line("", format!("{reason}: {}", by_receiver(counts, "requests")));
    }
    if pipeline.rejected.values().any(|count| *count > 0) {
        line("", by_receiver(&pipeline.rejected, "records of others"));
    }
    line("stored", format!("{} records", pipeline.stored));
    line(
        "queued",
        format!(
            "{} records, {}, the oldest {:?} old",
            pipeline.queued,
            ByteSize::bytes(pipeline.queue_bytes),
            Duration::from_millis(pipeline.queue_age_ms)
        ),
    );
    if let Some(spill) = &pipeline.spill {
        let bytes = ByteSize::bytes(spill.bytes);
        line("spill", format!("{} records, {bytes}", spill.records));
    }
    let store = &pipeline.store;
    let kind = if store.embedded { "embedded" } else { "server" };
    let version = store.version.as_deref().unwrap_or("of unknown version");
    let mut text_of = format!("ClickHouse {version}, {kind}");
    if let Some(latency) = store.latency_ms {
        write!(text_of, ", answers in {latency} ms").expect("strings take all");
    }
    if let (Some(insert), Some(lag)) = (store.insert_ms, store.lag_ms) {
        write!(
            text_of,
            "; last insert took {insert} ms, {lag} ms after the first record"
        )
        .expect("strings take all");
    }
    if let Some(bytes) = store.bytes {
        write!(text_of, "; {} on disk", ByteSize::bytes(bytes)).expect("strings take all");
    }
    line("store", text_of);
    if let Some(latency) = pipeline.redis.as_ref().and_then(|redis| redis.latency_ms) {
        line("redis", format!("answers in {latency} ms"));
    }
    if let Some(free) = pipeline.disk.as_ref().and_then(|disk| disk.free_bytes) {
        line("disk", format!("{} free", ByteSize::bytes(free)));
    }
    line(
        "live",
        format!(
            "{} viewers, {} records skipped for slow ones",
            status.live.viewers, status.live.skipped
        ),
    );
    let troubles = troubles(pipeline);
    if troubles.is_empty() {
        line("all well", String::new());
    }
    for trouble in troubles {
        line("TROUBLE", trouble);
    }
    // The last name stands alone.
    text.replace("all well   \n", "all well\n")
}

fn by_receiver(counts: &BTreeMap<String, u64>, what: &str) -> String {
    let total: u64 = counts.values().sum();
    let each: Vec<String> = counts
        .iter()
        .map(|(receiver, count)| format!("{receiver} {count}"))
        .collect();
    format!("{total} {what} ({})", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pipeline: &str) -> Answer {
        let text = format!(
            r#"{{"version":"1.2.3","pipeline":{{"uptime_seconds":90,"accepted":{{"json":2,"otlp_grpc":40,"otlp_http":0}},
            "refused":{{"json":1}},"refused_reasons":{{"too_large":{{"json":1}}}},"rejected":{{"json":4}},"stored":30,"queued":12,"queue_bytes":2048,"queue_age_ms":1500,{pipeline}}},
            "live":{{"viewers":3,"filters":1,"published":42,"skipped":0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_daemon_that_works_is_well() {
        let told = told(&status(
            r#""dead":0,"spill":null,"damaged":{"stretches":0,"records":0},
            "store":{"ok":true,"version":"26.7","embedded":true,"error":null}"#,
        ));
        assert_eq!(
            told,
            "version    1.2.3, up 90s\n\
             accepted   42 records (json 2, otlp_grpc 40, otlp_http 0)\n\
             refused    1 requests (json 1)\n\
             \x20          too_large: 1 requests (json 1)\n\
             \x20          4 records of others (json 4)\n\
             stored     30 records\n\
             queued     12 records, 2KiB, the oldest 1.5s old\n\
             store      ClickHouse 26.7, embedded\n\
             live       3 viewers, 0 records skipped for slow ones\n\
             all well\n"
        );
    }

    #[test]
    fn every_trouble_is_told() {
        let status = status(
            r#""dead":7,"spill":{"reason":"OOM","records":5,"bytes":100},"damaged":{"stretches":1,"records":4},
            "store":{"ok":false,"version":null,"embedded":false,"error":"connection refused"}"#,
        );
        assert_eq!(
            troubles(&status.pipeline),
            [
                "ClickHouse: connection refused",
                "Redis: records go to the disk, as it says: OOM",
                "7 records were refused by ClickHouse; see `watchtower queue ls`",
                "4 records were lost in 1 damaged stretches of the queue; the log says where",
            ]
        );
        assert_eq!(told(&status).matches("TROUBLE").count(), 4);
    }
}
