//! `watchtower queue`: what waits on the disk, and the dead letters.
//!
//! It works on the files of `state_dir`, with the daemon running or stopped; for replaying, the daemon
//! is left a note, and whichever runs on that directory next puts the letter into the store.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::{is_closed_pipe, say};
use crate::causes::joined;
use crate::config::{ByteSize, Config};
use crate::frame::{Block, Row};
use crate::queue::dead::{self, DeadLetters, Letter};
use crate::queue::disk::{self, Waiting};
use crate::queue::spill;

/// How long `replay` waits for the daemon before it leaves the rest to it.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// List what waits on the disk, and the dead letters with ClickHouse's words
    Ls,
    /// Print a dead letter's records, one JSON object a line
    Show {
        /// The letter's name, as `ls` prints it
        name: String,
    },
    /// Have the daemon put dead letters into the store; records that are there already are left out
    Replay(Letters),
    /// Delete dead letters
    Drop(Letters),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Letters {
    /// Names, as `ls` prints them
    names: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
}

/// Runs the command on the configuration's state directory.
pub(super) async fn run(args: QueueArgs, config: Config) -> anyhow::Result<ExitCode> {
    let dir = config.state_dir.join(dead::DIR);
    if !dir.is_dir() {
        bail!(
            "there is no {}; run this as the daemon's user and with its configuration",
            dir.display()
        );
    }
    let dead = DeadLetters::open(&dir)?;
    match args.command {
        QueueCommand::Ls => print(&list(&config, &dead)?),
        QueueCommand::Show { name } => print(&show(&dead, &name)?),
        QueueCommand::Replay(letters) => replay(&dead, &letters.of(&dead)?).await,
        QueueCommand::Drop(letters) => discard(&dead, &letters.of(&dead)?),
    }
}

impl Letters {
    fn of(&self, dead: &DeadLetters) -> anyhow::Result<Vec<Letter>> {
        let mut letters = dead.list()?;
        if self.all {
            return Ok(letters);
        }
        for name in &self.names {
            if !letters.iter().any(|letter| letter.name == *name) {
                bail!("there is no dead letter {name}; `watchtower queue ls` lists them");
            }
        }
        letters.retain(|letter| self.names.contains(&letter.name));
        Ok(letters)
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if !is_closed_pipe(&error) => Err(error).context("could not print"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn list(config: &Config, dead: &DeadLetters) -> anyhow::Result<String> {
    let mut text = String::new();
    for (what, dir) in [("queue", "queue"), ("spill", spill::DIR)] {
        let dir = config.state_dir.join(dir);
        let waiting =
            disk::waiting(&dir).with_context(|| format!("cannot look at {}", dir.display()))?;
        if let Some(waiting) = waiting {
            text.push_str(&format!("{what}: {}\n", told(&waiting)));
        }
    }
    let letters = dead.list()?;
    text.push_str(&format!("dead letters: {}\n", letters.len()));
    for letter in &letters {
        let at = Timestamp::from_millisecond(letter.buried_at).unwrap_or_default();
        let records = records_of(letter);
        let code = letter.reason.code.map(|code| format!("code {code}: "));
        text.push_str(&format!(
            "{}  {at:.0}  {}, {}  {}{}\n",
            letter.name,
            counted(records, "record"),
            ByteSize::bytes(letter.bytes),
            code.unwrap_or_default(),
            letter.reason.message
        ));
    }
    Ok(text)
}

/// All the records of a letter. Its description comes from a file that anybody may have changed.
fn records_of(letter: &Letter) -> u64 {
    letter.records.iter().copied().fold(0, u64::saturating_add)
}

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn told(waiting: &Waiting) -> String {
    let unreadable = match waiting.unreadable {
        0 => String::new(),
        count => format!("; {} cannot be read", counted(count, "segment file")),
    };
    format!(
        "{} in {} to be stored, {}; {} of {}{unreadable}",
        counted(waiting.records, "record"),
        counted(waiting.frames, "frame"),
        ByteSize::bytes(waiting.bytes),
        counted(waiting.segments, "segment file"),
        ByteSize::bytes(waiting.file_bytes),
    )
}

fn show(dead: &DeadLetters, name: &str) -> anyhow::Result<String> {
    let frame = dead.read(name);
    let frame = frame.with_context(|| format!("dead letter {name} cannot be shown"))?;
    let Some(frame) = frame else {
        if dead.list()?.iter().any(|letter| letter.name == name) {
            bail!("{name} holds no frame, and so no records to show");
        }
        bail!("there is no dead letter {name}; `watchtower queue ls` lists them");
    };
    let block = Block::decode(&frame)
        .context("the frame's records cannot be read; its bytes are beside its .json file")?;
    Ok(block.rows().map(|row| line(&row)).collect())
}

fn line(row: &Row<'_>) -> String {
    let pairs = |pairs: &mut dyn Iterator<Item = (&str, &str)>| -> serde_json::Value {
        pairs
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let record = serde_json::json!({
        "id": row.id().to_string(),
        "timestamp": row.timestamp().to_string(),
        "level": row.level().as_str(),
        "service": row.service(),
        "environment": row.environment(),
        "message": row.message(),
        "trace_id": row.trace_id(),
        "span_id": row.span_id(),
        "attributes": pairs(&mut row.attributes()),
        "resource": pairs(&mut row.resource()),
        "receiver": row.receiver().as_str(),
    });
    format!("{record}\n")
}

async fn replay(dead: &DeadLetters, letters: &[Letter]) -> anyhow::Result<ExitCode> {
    let mut asked = Vec::new();
    for letter in letters {
        let name = &letter.name;
        match dead.read(name) {
            Ok(Some(_)) => {}
            Ok(None) => {
                say(&format!("{name} holds no frame and cannot be replayed"));
                continue;
            }
            Err(error) => {
                say(&format!("{name} cannot be replayed: {}", joined(&error)));
                continue;
            }
        }
        dead.ask_for_replay(&letter.name)?;
        asked.push(letter);
    }
    let end = Instant::now() + PATIENCE;
    while dead
        .asked()?
        .iter()
        .any(|name| asked.iter().any(|letter| letter.name == *name))
    {
        if Instant::now() >= end {
            say("no daemon has done it yet; the one that runs, or the next to start, will");
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let left = dead.list()?;
    let mut text = String::new();
    for letter in &asked {
        let refused = left.iter().find(|other| other.name == letter.name);
        let outcome = refused.map_or("stored".to_owned(), |letter| {
            format!("refused again: {}", letter.reason.message)
        });
        text.push_str(&format!("{}  {outcome}\n", letter.name));
    }
    print(&text)?;
    let all = asked.len() == letters.len()
        && !asked
            .iter()
            .any(|letter| left.iter().any(|other| other.name == letter.name));
    Ok(if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn discard(dead: &DeadLetters, letters: &[Letter]) -> anyhow::Result<ExitCode> {
    let mut records = 0;
    for letter in letters {
        dead.remove(&letter.name)?;
        records = records_of(letter).saturating_add(records);
    }
    let count = counted(letters.len() as u64, "dead letter");
    let records = counted(records, "record");
    print(&format!("gone: {count} with {records}\n"))
}
