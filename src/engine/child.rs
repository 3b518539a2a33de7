//! The child's side: what `watchtower engine` does.
//!
//! ClickHouse's library has no server mode. Its command line tool can open the server's ports and
//! lives as long as its last statement, so that statement reads standard input, which is a pipe of
//! ours that never says anything. It ends, and ClickHouse with it in good order, when SIGTERM comes
//! or when the daemon's end of our own standard input is gone.

use std::ffi::CString;
use std::io::{PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Error, library};
use crate::shutdown::Signals;

/// Opens the port, then waits for the end of standard input. The session's user needs rights for
/// exactly this; see `files.rs`.
const STATEMENTS: &str = "SYSTEM START LISTEN HTTP; \
     SELECT count() FROM file('-', 'LineAsString', 'line String') FORMAT Null";

/// The command line of `watchtower engine`.
#[derive(Debug, clap::Args)]
pub struct ChildArgs {
    /// Directory of the engine's data
    #[arg(long, value_name = "DIR")]
    path: PathBuf,
    /// The engine's configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Loopback port to serve HTTP on
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// The library to run
    #[arg(long, value_name = "FILE", required_unless_present = "binary")]
    library: Option<PathBuf>,
    /// A `clickhouse` binary to run instead of the library
    #[arg(long, value_name = "FILE", conflicts_with = "library")]
    binary: Option<PathBuf>,
    /// Process without which to end
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
}

/// Runs the engine in this process, until SIGTERM or the end of standard input.
///
/// # Errors
/// When it cannot be started, or ends although nobody asked it to.
pub fn run_child(args: &ChildArgs) -> Result<(), Error> {
    let failed = |what| Error::io(what, &args.path);
    // Should the daemon be killed, the engine must not stay behind and hold the data.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|errno| failed("start")(errno.into()))?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_pid());
    if args.parent.is_some() && args.parent != parent {
        return Ok(());
    }
    match (&args.binary, &args.library) {
        (Some(path), _) => Err(Error::Exec {
            source: exec(path, args),
            path: path.clone(),
        }),
        (None, Some(library)) => run_library(library, args),
        (None, None) => Err(Error::NoLibrary {
            searched: Vec::new(),
        }),
    }
}

/// Becomes the ClickHouse server; returns only when that fails.
fn exec(binary: &Path, args: &ChildArgs) -> std::io::Error {
    let option = |name: &str, value: &Path| {
        let mut option = std::ffi::OsString::from(name);
        option.push(value);
        option
    };
    Command::new(binary)
        .arg("server")
        .arg(option("--config-file=", &args.config))
        .arg("--")
        .arg(option("--path=", &args.path))
        .arg(format!("--http_port={}", args.port))
        .exec()
}

fn run_library(library: &Path, args: &ChildArgs) -> Result<(), Error> {
    let failed = || Error::io("start", &args.path);
    let input = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(failed())?;
    let (silent, hold) = std::io::pipe().map_err(failed())?;
    rustix::stdio::dup2_stdin(&silent).map_err(|errno| failed()(errno.into()))?;
    drop(silent);
    let hold = Hold(Arc::new(Mutex::new(Some(hold))));
    let on_signal = hold.clone();
    // The signal is taken over before the engine starts; the thread only waits for it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed())?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::new().map_err(failed())?
    };
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        on_signal.let_go();
    });
    let on_eof = hold.clone();
    std::thread::spawn(move || {
        wait_for_eof(input.into());
        on_eof.let_go();
    });
    library::run(library, arguments(args))?;
    if hold.was_let_go() {
        Ok(())
    } else {
        Err(Error::Ended)
    }
}

/// The writing end of the pipe that keeps the engine's session waiting.
#[derive(Clone)]
struct Hold(Arc<Mutex<Option<PipeWriter>>>);

impl Hold {
    fn let_go(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn was_let_go(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }
}

/// Reads until there is nothing more to come. What comes is of no interest.
fn wait_for_eof(mut input: std::fs::File) {
    let mut scratch = [0; 256];
    loop {
        match input.read(&mut scratch) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn arguments(args: &ChildArgs) -> Vec<CString> {
    let option = |name: &str, value: &[u8]| [name.as_bytes(), value].concat();
    [
        b"clickhouse".to_vec(),
        option("--path=", args.path.as_os_str().as_bytes()),
        option("--config-file=", args.config.as_os_str().as_bytes()),
        b"--multiquery".to_vec(),
        b"--log-level=warning".to_vec(),
        option("--query=", STATEMENTS.as_bytes()),
        b"--".to_vec(),
        option("--http_port=", args.port.to_string().as_bytes()),
        b"--listen_host=127.0.0.1".to_vec(),
    ]
    .into_iter()
    .map(|argument| CString::new(argument).expect("arguments of a process hold no NUL"))
    .collect()
}
