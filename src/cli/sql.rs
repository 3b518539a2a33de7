//! `watchtower sql` and `watchtower schema`: the store as ClickHouse shows it.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::is_closed_pipe;
use crate::config::Config;
use crate::engine;
use crate::store::{self, Client};

#[derive(Debug, Args)]
pub(super) struct SqlArgs {
    /// The query, such as "SELECT count() FROM logs"; read from standard input when missing
    query: Option<String>,
    /// Output format of ClickHouse [default: PrettyCompact on a terminal, else TSV with names]
    #[arg(long, short)]
    format: Option<String>,
    /// Longest time for the query, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Runs the query with a user that only reads, and prints what ClickHouse answers, as it comes.
pub(super) async fn run(args: SqlArgs, config: Config) -> anyhow::Result<ExitCode> {
    let query = match args.query {
        Some(query) => query,
        None => {
            let mut query = String::new();
            std::io::stdin()
                .read_to_string(&mut query)
                .context("could not read the query")?;
            query
        }
    };
    if query.trim().is_empty() {
        bail!("there is no query; try: watchtower sql \"SELECT count() FROM logs\"");
    }
    let client = client(&config)?;
    let plain = if std::io::stdout().is_terminal() {
        "PrettyCompact"
    } else {
        "TSVWithNames"
    };
    let format = args.format.as_deref().unwrap_or(plain);
    let settings = [
        ("default_format", format),
        ("database", config.store.database.as_str()),
    ];
    let patience = Duration::from_secs(args.timeout);
    let mut answer = client.stream(&query, &settings, patience)?;
    let mut out = std::io::stdout().lock();
    while let Some(piece) = answer.next().await? {
        match out.write_all(&piece) {
            // Who has enough closes the pipe; the query ends with the answer that is dropped.
            Err(error) if is_closed_pipe(&error) => return Ok(ExitCode::SUCCESS),
            written => written.context("could not print the answer")?,
        }
    }
    match out.flush() {
        Err(error) if !is_closed_pipe(&error) => Err(error).context("could not print the answer"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn client(config: &Config) -> anyhow::Result<Client> {
    if let Some(client) = Client::of(&config.store)? {
        return Ok(client);
    }
    let endpoint = engine::access(&config.state_dir).context(
        "could not find a running embedded engine; run this as the daemon's user and with its configuration",
    )?;
    Ok(Client::at(endpoint)?)
}

/// Prints the DDL.
pub(super) fn schema(config: &Config) -> anyhow::Result<ExitCode> {
    let text: String = store::statements(config)
        .iter()
        .map(|statement| format!("{statement};\n\n"))
        .collect();
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if !is_closed_pipe(&error) => {
            Err(error).context("could not print the statements")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
