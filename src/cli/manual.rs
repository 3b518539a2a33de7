//! `watchtower completions` and `watchtower man`: what packages install beside the program, made from
//! the flags themselves.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, is_closed_pipe};

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// A command, such as tail [default: the program itself]
    command: Option<String>,
}

pub(super) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "watchtower", &mut script);
    print(&script)
}

pub(super) fn page(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut program = Cli::command();
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            found.with_context(|| format!("there is no command {name}"))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    print(&page)
}

fn print(text: &[u8]) -> anyhow::Result<ExitCode> {
    match std::io::stdout().lock().write_all(text) {
        Err(error) if !is_closed_pipe(&error) => Err(error).context("could not print"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
