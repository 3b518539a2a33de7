//! The command line: what each command takes, and which code runs it.

mod address;
mod check;
mod client;
mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
mod line;
mod manual;
mod queue;
mod search;
mod send;
mod sql;
mod sse;
mod status;
mod tail;
mod understood;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Config, Faults};

/// Exit code for a configuration that is wrong (EX_CONFIG); the systemd unit does not restart on it.
pub const EXIT_CONFIG: u8 = 78;

/// A log daemon: takes logs over OTLP and JSON, stores them in ClickHouse, shows them live.
#[derive(Debug, Parser)]
#[command(name = "watchtower", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Where the configuration comes from.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// Configuration file [default: /etc/watchtower/watchtower.yaml if there is one]
    #[arg(
        long,
        short,
        global = true,
        env = "WATCHTOWER_CONFIG",
        value_name = "FILE"
    )]
    config: Option<PathBuf>,
    /// One setting, over the file's: `--set retention=7d`; may be given several times
    #[arg(long = "set", global = true, value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
}

impl ConfigArgs {
    fn file(&self) -> Option<PathBuf> {
        // A variable that is set to nothing is as good as unset.
        let asked = self
            .config
            .as_deref()
            .filter(|path| !path.as_os_str().is_empty());
        config::find_file(asked)
    }

    fn load(&self) -> Result<Config, Faults> {
        config::load(self.file().as_deref(), &self.sets)
    }

    /// As [`ConfigArgs::load`], for the daemon itself: the files that it names are looked at too.
    fn load_inspected(&self) -> Result<Config, Faults> {
        config::load_inspected(self.file().as_deref(), &self.sets, &crate::app::inspect)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon (the default)
    Serve,
    /// Check the configuration, report everything that is wrong, and exit with 78 if anything is
    Check(check::CheckArgs),
    /// Follow the logs as they arrive at a running daemon
    Tail(tail::TailArgs),
    /// Print stored logs
    Search(search::SearchArgs),
    /// Show how a running daemon is doing; exits with 1 while something is wrong
    Status(status::StatusArgs),
    /// Run a query on the stored records, with ClickHouse's own SQL
    Sql(sql::SqlArgs),
    /// Look at what waits on the disk, and at records that ClickHouse refused
    Queue(queue::QueueArgs),
    /// Print the statements that make the tables
    Schema,
    /// Send one log to a running daemon, to try it
    Send(send::SendArgs),
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or that of a command, in roff
    #[command(hide = true)]
    Man(manual::ManArgs),
    /// Run the embedded ClickHouse engine; the daemon does this by itself
    #[command(hide = true)]
    Engine(crate::engine::ChildArgs),
}

/// Runs the command.
///
/// # Errors
/// What went wrong; [`exit_code`] knows which code it deserves.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => {
            let config = start(&cli.config)?;
            let args = cli.config;
            crate::app::run(config, Box::new(move || Ok(args.load_inspected()?)))
        }
        Command::Check(args) => check::run(&args, &cli.config),
        Command::Tail(args) => wait_for(tail::run(args, &cli.config)),
        Command::Search(args) => wait_for(search::run(args, &cli.config)),
        Command::Status(args) => wait_for(status::run(args, &cli.config)),
        Command::Sql(args) => wait_for(sql::run(args, cli.config.load()?)),
        Command::Queue(args) => wait_for(queue::run(args, cli.config.load()?)),
        Command::Schema => sql::schema(&cli.config.load()?),
        Command::Send(args) => wait_for(send::run(args, &cli.config)),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::page(&args),
        Command::Engine(args) => {
            crate::engine::run_child(&args)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs a client's command to its end.
fn wait_for(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(command)
}

/// Tells the person at the terminal something that is not part of the output.
fn say(text: &str) {
    // Where standard error is closed, nobody is there to be told.
    drop(writeln!(std::io::stderr().lock(), "watchtower: {text}"));
}

/// Whether the reader of our output went away, as `head` does when it has enough.
fn is_closed_pipe(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// Loads the configuration of a daemon and begins its log.
fn start(args: &ConfigArgs) -> anyhow::Result<Config> {
    let config = args.load_inspected()?;
    crate::telemetry::logging::init(&config.log)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// An error and its causes, for the person at the terminal.
#[must_use]
pub fn words(error: &anyhow::Error) -> String {
    crate::causes::joined(error.as_ref())
}

/// The exit code of an error: 78 for a wrong configuration, 1 for anything else.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<Faults>() || error.is::<crate::server::TlsError>() {
        ExitCode::from(EXIT_CONFIG)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn no_two_flags_are_in_each_others_way() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_engine_has_a_configuration_of_its_own() {
        let line = "watchtower engine --path p --config mine --port 1 --library l";
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Some(Command::Engine(args)) = cli.command else {
            panic!("another command")
        };
        assert!(format!("{args:?}").contains("config: \"mine\""), "{args:?}");
    }

    #[test]
    fn the_configuration_may_be_named_before_or_after_the_command() {
        for line in [
            "watchtower --config a --set b=c check",
            "watchtower check --config a --set b=c",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cli.config.config.as_deref(), Some("a".as_ref()), "{line}");
            assert_eq!(cli.config.sets, ["b=c"], "{line}");
        }
    }
}
