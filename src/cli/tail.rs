//! `watchtower tail`: the live stream in a terminal.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{Client, Refused, ServerArgs};
use super::filter::FilterArgs;
use super::line::{LineArgs, Printer};
use super::sse::{Event, Parser};
use super::understood::Understood;
use super::{ConfigArgs, is_closed_pipe, say, words};

/// The daemon sends something every five seconds; after three of them the connection is dead.
const SILENCE: Duration = Duration::from_secs(15);
/// Waits between two attempts double up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct TailArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    line: LineArgs,
    /// Show so many earlier records first
    #[arg(long, short = 'n', default_value_t = 20, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(..=5_000))]
    backlog: u32,
    /// Stop after so many records
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// Why a connection came to its end.
enum End {
    /// Another attempt may help.
    Again(String),
    /// All that was asked for is printed, or nobody reads it.
    Done,
}

pub(super) async fn run(args: TailArgs, source: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let mut tail = Tail {
        client: args.server.client(source)?,
        query: args.filter.query(),
        printer: args.line.printer(),
        parser: Parser::default(),
        left: args.limit.unwrap_or(u64::MAX),
        connected: false,
        told: false,
    };
    tail.query.push(("backlog", args.backlog.to_string()));
    let mut wait = FIRST_WAIT;
    loop {
        let reason = match tail.follow().await? {
            End::Done => return Ok(ExitCode::SUCCESS),
            End::Again(reason) => reason,
        };
        if std::mem::take(&mut tail.connected) {
            wait = tail
                .parser
                .retry_ms
                .map_or(FIRST_WAIT, Duration::from_millis)
                .min(LONGEST_WAIT);
        }
        say(&format!("{reason}; trying again in {wait:?}"));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        tail.parser.reconnect();
    }
}

struct Tail {
    client: Client,
    query: Vec<(&'static str, String)>,
    printer: Printer,
    parser: Parser,
    left: u64,
    connected: bool,
    /// How the query was understood was told.
    told: bool,
}

impl Tail {
    /// Connects once and prints until the stream ends.
    async fn follow(&mut self) -> anyhow::Result<End> {
        let mut headers = vec![("accept", "text/event-stream".to_owned())];
        if let Some(id) = &self.parser.last_id {
            headers.push(("last-event-id", id.clone()));
        }
        let answer = self
            .client
            .get("/api/logs/stream", &self.query, &headers)
            .await;
        let mut body = match answer {
            Ok(response) => response.into_body(),
            // Nobody who started it with a wrong address or token wants it to try for ever.
            Err(error) if !may_help(&error, self.parser.last_id.is_some()) => return Err(error),
            Err(error) => return Ok(End::Again(words(&error))),
        };
        self.connected = true;
        loop {
            let piece = match tokio::time::timeout(SILENCE, next_piece(&mut body)).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(error))) => {
                    return Ok(End::Again(format!("the stream broke off: {error}")));
                }
                Ok(None) => return Ok(End::Again("the daemon ended the stream".to_owned())),
                Err(_) => return Ok(End::Again(format!("nothing was heard for {SILENCE:?}"))),
            };
            for event in self.parser.feed(&piece)? {
                if let Some(end) = self.take(&event)? {
                    return Ok(end);
                }
            }
        }
    }

    /// Prints one event; tells whether it is the last of this connection.
    fn take(&mut self, event: &Event) -> anyhow::Result<Option<End>> {
        let text = match event.name.as_str() {
            "logs" => {
                let records: Vec<Box<RawValue>> = serde_json::from_str(&event.data)?;
                let mut lines = String::new();
                for record in &records {
                    if self.left > 0 {
                        self.left -= 1;
                        lines.push_str(&self.printer.record(record)?);
                    }
                }
                Some(lines)
            }
            "skipped" | "gap" => self.remark(&remark(&event.name, &event.data)),
            "bye" => {
                let bye: Remark = serde_json::from_str(&event.data).unwrap_or_default();
                self.parser.retry_ms = bye.retry_ms.or(self.parser.retry_ms);
                return Ok(Some(End::Again(format!(
                    "the daemon ended the stream ({})",
                    bye.reason
                ))));
            }
            "hello" if !std::mem::replace(&mut self.told, true) => {
                let hello: Hello = serde_json::from_str(&event.data).unwrap_or_default();
                hello.q.tell();
                None
            }
            // tick, and what later versions add.
            _ => None,
        };
        let Some(text) = text else { return Ok(None) };
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if is_closed_pipe(&error) => return Ok(Some(End::Done)),
            result => result?,
        }
        Ok((self.left == 0).then_some(End::Done))
    }

    /// A remark goes between the records, or beside them where only records may be printed.
    fn remark(&self, text: &str) -> Option<String> {
        let line = self.printer.remark(text);
        if line.is_none() {
            say(text);
        }
        line
    }
}

async fn next_piece(body: &mut Incoming) -> Option<hyper::Result<bytes::Bytes>> {
    loop {
        match body.frame().await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                Err(_trailers) => {}
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Whether to try again: after an outage always, and at first only where the daemon is too busy.
fn may_help(error: &anyhow::Error, was_connected: bool) -> bool {
    match error
        .downcast_ref::<Refused>()
        .map(|refused| refused.status)
    {
        Some(status) => status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error(),
        None => was_connected,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hello {
    q: Understood,
}

/// What `skipped`, `gap` and `bye` carry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Remark {
    count: Option<u64>,
    reason: String,
    retry_ms: Option<u64>,
}

fn remark(name: &str, data: &str) -> String {
    let remark: Remark = serde_json::from_str(data).unwrap_or_default();
    let count = match remark.count {
        Some(count) => format!("{count} records"),
        None => "some records".to_owned(),
    };
    let reason = match remark.reason.as_str() {
        "rate" => "more arrived than are shown a second",
        "slow" => "this terminal did not keep up",
        "expired" => "they are no longer in memory",
        "restart" => "the daemon was restarted",
        "store" => "the store could not be read",
        "limit" => "too much was missed",
        other => other,
    };
    match name {
        "skipped" => format!("{count} not shown: {reason}"),
        _ => format!("{count} missing here: {reason}; see `watchtower search`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_and_missing_records_are_told() {
        assert_eq!(
            remark(
                "skipped",
                r#"{"count":12,"by_level":{"info":12},"reason":"slow"}"#
            ),
            "12 records not shown: this terminal did not keep up"
        );
        assert_eq!(
            remark("gap", r#"{"count":null,"reason":"restart"}"#),
            "some records missing here: the daemon was restarted; see `watchtower search`"
        );
        assert_eq!(
            remark("gap", "?"),
            "some records missing here: ; see `watchtower search`"
        );
    }
}
