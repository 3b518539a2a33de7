//! The `watchtower` program: parses the flags, runs the command, turns its error into an exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use watchtower::cli;

fn main() -> ExitCode {
    match cli::run(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            let mut stderr = std::io::stderr().lock();
            // Where standard error is closed, nobody is there to be told.
            drop(writeln!(stderr, "{}", cli::words(&error)));
            cli::exit_code(&error)
        }
    }
}
