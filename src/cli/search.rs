//! `watchtower search`: records from the store, printed as `tail` prints them.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{self, ServerArgs};
use super::filter::FilterArgs;
use super::line::LineArgs;
use super::understood::Understood;
use super::{ConfigArgs, is_closed_pipe, say};
use crate::api::times;
use crate::config::Period;

/// Most records of one request; the API takes no more.
const PAGE: usize = 1_000;

#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    line: LineArgs,
    /// From when: a time such as 2026-07-30T12:00:00Z, or how long ago, such as 15m or 7d
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = moment)]
    from: Timestamp,
    /// Until when, likewise [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Print at most so many records, the latest
    #[arg(long, short = 'n', default_value_t = 100, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

/// Reads a time, or a length of time before now.
fn moment(text: &str) -> anyhow::Result<Timestamp> {
    let out_of_range = || anyhow!("\"{text}\" is out of range; {}", times::RANGE);
    match times::absolute(text) {
        Ok(_) => return Ok(text.parse()?),
        Err(times::Error::Range) => return Err(out_of_range()),
        Err(times::Error::None) => {}
    }
    let ago: Period = text.parse().ok().with_context(|| {
        format!("\"{text}\" is neither a time such as 2026-07-30T12:00:00Z nor how long ago, such as 15m or 7d")
    })?;
    if ago.duration().is_zero() {
        bail!("\"{text}\" is now; write how long ago, such as 15m or 7d");
    }
    let then = Timestamp::now().checked_sub(ago.duration()).ok();
    then.filter(|then| *then >= Timestamp::UNIX_EPOCH)
        .ok_or_else(out_of_range)
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    q: Understood,
    records: Vec<Box<RawValue>>,
    #[serde(default)]
    next: Option<String>,
    #[serde(default = "yes")]
    complete: bool,
    #[serde(default)]
    searched_to: Option<serde_json::Value>,
}

fn yes() -> bool {
    true
}

pub(super) async fn run(args: SearchArgs, source: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let client = args.server.client(source)?;
    let printer = args.line.printer();
    let limit = usize::try_from(args.limit)?;
    let mut query = args.filter.query();
    query.push(("from", args.from.to_string()));
    if let Some(to) = args.to {
        query.push(("to", to.to_string()));
    }
    // Pages come latest first; a terminal is read downwards, so they are printed in reverse.
    let mut found: Vec<Box<RawValue>> = Vec::new();
    let mut before: Option<String> = None;
    while found.len() < limit {
        let mut query = query.clone();
        query.push(("limit", (limit - found.len()).min(PAGE).to_string()));
        query.extend(before.take().map(|before| ("before", before)));
        let response = client.get("/api/logs", &query, &[]).await?;
        let page: Page = serde_json::from_slice(&client::read(response).await?)
            .with_context(|| format!("{} does not answer as a Watchtower", client.base()))?;
        if found.is_empty() {
            page.q.tell();
        }
        if !page.complete {
            let back_to = page
                .searched_to
                .map(|time| format!(", back to {time}"))
                .unwrap_or_default();
            say(&format!(
                "not everything was searched{back_to}; narrow the time or the filters"
            ));
        }
        let is_last = page.records.is_empty() || page.next.is_none();
        found.extend(page.records);
        before = page.next;
        if is_last {
            break;
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for record in found.iter().rev() {
        match out.write_all(printer.record(record)?.as_bytes()) {
            Err(error) if is_closed_pipe(&error) => return Ok(ExitCode::SUCCESS),
            result => result?,
        }
    }
    match out.flush() {
        Err(error) if !is_closed_pipe(&error) => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_ago() {
        let time = moment("2026-07-30T12:00:00+02:00").unwrap();
        assert_eq!(time.to_string(), "2026-07-30T10:00:00Z");
        let then = moment("15m").unwrap();
        let ago = Timestamp::now().duration_since(then);
        assert!((900..905).contains(&ago.as_secs()), "{ago}");
        for text in ["10000000d", "0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z"] {
            let error = moment(text).unwrap_err().to_string();
            assert!(
                error.contains("is out of range; times are from 1970"),
                "{error}"
            );
        }
        assert!(moment("0s").unwrap_err().to_string().contains("is now"));
        let error = moment("yesterday").unwrap_err().to_string();
        assert!(
            error.starts_with("\"yesterday\" is neither a time such as"),
            "{error}"
        );
    }
}
