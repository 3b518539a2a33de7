//! The daemon's side: starts the engine, starts it again, stops it.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::files::{Files, Passwords, USER};
use super::{Error, library, words};
use crate::config::{self, Config};
use crate::state_file::is_no_room;
use crate::store::{Client, Endpoint, EndpointSource};

/// Longest time from start to first answer. A store that was killed reads its parts' metadata first.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// Time to end in good order before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(15);
/// Pauses between starts: short for the first, so that a lock of an engine that is just ending does
/// no harm, and bounded for one that cannot start.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// An engine that lived so long starts anew with the first pause.
const STEADY_AFTER: Duration = Duration::from_secs(60);

/// A running embedded engine. Dropping it stops the engine without waiting.
#[derive(Debug)]
pub struct Engine {
    endpoint: EndpointSource,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the engine that the configuration names, and keeps it running. Returns at once;
    /// [`Engine::endpoint`] says when it answers.
    ///
    /// # Errors
    /// When there is no engine to start, or its files cannot be written.
    pub fn start(config: &Config) -> Result<Engine, Error> {
        // Not by its path, under which an update may have put another version meanwhile.
        Engine::start_with(Path::new("/proc/self/exe"), config)
    }

    /// As [`Engine::start`], where this process is not `watchtower`: runs `watchtower engine` from
    /// that path.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_with(watchtower: &Path, config: &Config) -> Result<Engine, Error> {
        let engine = &config.engine;
        let program = Program::find(engine)?;
        let supervisor = Supervisor {
            watchtower: watchtower.to_owned(),
            program,
            files: Files::new(&config.state_dir)?,
            config: engine.clone(),
            database: config.store.database.clone(),
        };
        // Faults of the state directory are told now, and not once a second. A full disk is none that
        // keeps the daemon from its work.
        match supervisor.write_files() {
            Err(Error::Io { source, .. }) if is_no_room(&source) => {}
            written => drop(written?),
        }
        let (publish, endpoint) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(supervisor.run(publish, stopped));
        Ok(Engine {
            endpoint,
            stop,
            task: Mutex::new(Some(task)),
        })
    }

    /// Where the engine answers; `None` while it does not.
    #[must_use]
    pub fn endpoint(&self) -> EndpointSource {
        self.endpoint.clone()
    }

    /// Stops the engine and waits for its end, which is bounded.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.lock().await.take() {
            // The task ends when the engine has; that it was cancelled means the same.
            task.await.ok();
        }
    }
}

#[derive(Debug, Clone)]
enum Program {
    Library(PathBuf),
    Binary(PathBuf),
}

impl Program {
    fn find(engine: &config::Engine) -> Result<Program, Error> {
        let Some(path) = &engine.binary else {
            return library::find(engine.library.as_deref()).map(Program::Library);
        };
        library::look_at("engine.binary", path)?;
        let may_run = rustix::fs::access(path, rustix::fs::Access::EXEC_OK);
        may_run.map_err(|error| Error::Unusable {
            key: "engine.binary",
            path: path.clone(),
            fault: format!("cannot be run: {error}"),
        })?;
        Ok(Program::Binary(path.clone()))
    }
}

/// Looks whether there is an engine to start, without starting it.
///
/// # Errors
/// When there is none.
pub fn inspect(config: &Config) -> Result<(), Error> {
    Program::find(&config.engine).map(drop)
}

struct Supervisor {
    watchtower: PathBuf,
    program: Program,
    files: Files,
    config: config::Engine,
    database: String,
}

impl Supervisor {
    async fn run(
        self,
        publish: watch::Sender<Option<Endpoint>>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            if let Err(error) = self.life(&publish, &mut stopped).await {
                warn!(%error, "engine does not start");
            }
            publish.send_replace(None);
            if is_stopped(&stopped) {
                return;
            }
            if started.elapsed() >= STEADY_AFTER {
                pause = FIRST_PAUSE;
            }
            warn!(?pause, "engine ended, is started again");
            tokio::select! {
                () = sleep(pause) => {}
                () = asked_to_stop(&mut stopped) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One engine from its start to its end.
    async fn life(
        &self,
        publish: &watch::Sender<Option<Endpoint>>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let passwords = self.write_files()?;
        let port = free_port().map_err(Error::io("start", &self.files.dir))?;
        let started = Instant::now();
        let mut process = self.spawn(port).await?;
        let endpoint = Endpoint {
            url: format!("http://127.0.0.1:{port}"),
            user: USER.to_owned(),
            password: passwords.daemon.clone(),
        };
        tokio::select! {
            status = &mut process.exit => {
                process.ended(status.ok());
                return Ok(());
            }
            ready = timeout(READY_WITHIN, answers(&endpoint)) => {
                if ready.is_ok() {
                    self.files.write_access(port, &passwords)?;
                    info!(port, took = ?started.elapsed(), "engine is up");
                    publish.send_replace(Some(endpoint));
                } else {
                    warn!(within = ?READY_WITHIN, "engine does not answer");
                    process.stop().await;
                    return Ok(());
                }
            }
            () = asked_to_stop(stopped) => {
                process.stop().await;
                return Ok(());
            }
        }
        tokio::select! {
            status = &mut process.exit => process.ended(status.ok()),
            () = asked_to_stop(stopped) => process.stop().await,
        }
        Ok(())
    }

    fn write_files(&self) -> Result<Passwords, Error> {
        let passwords = Passwords::random()
            .map_err(std::io::Error::other)
            .map_err(Error::io("start", &self.files.dir))?;
        self.files.write(&self.config, &self.database, &passwords)?;
        Ok(passwords)
    }

    async fn spawn(&self, port: u16) -> Result<Process, Error> {
        let failed = || Error::io("start", &self.files.dir);
        let mut command = Command::new(&self.watchtower);
        command
            .arg0("watchtower")
            .arg("engine")
            .arg("--path")
            .arg(&self.files.data)
            .arg("--config")
            .arg(&self.files.config)
            .args(["--port", &port.to_string()])
            .args(["--parent", &std::process::id().to_string()]);
        match &self.program {
            Program::Library(path) => command.arg("--library").arg(path),
            Program::Binary(path) => command.arg("--binary").arg(path),
        };
        command
            // In a group of its own: Ctrl-C is for the daemon, which needs the store to the last.
            .process_group(0)
            // Nothing of ClickHouse may depend on the machine's zone.
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (pid_sender, pid) = oneshot::channel();
        let (exit_sender, exit) = oneshot::channel();
        // One thread starts the child and stays until it ends, for the child dies with the *thread*
        // that started it.
        std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || attend(&mut command, pid_sender, exit_sender))
            .map_err(failed())?;
        let (pid, stdin) = pid
            .await
            .unwrap_or_else(|_| Err(std::io::Error::other("its thread ended")))
            .map_err(failed())?;
        Ok(Process {
            pid,
            stdin: Some(stdin),
            exit,
        })
    }
}

/// Starts the child, passes its words on to the log, and waits for its end.
fn attend(
    command: &mut Command,
    started: oneshot::Sender<std::io::Result<(Pid, ChildStdin)>>,
    exit: oneshot::Sender<ExitStatus>,
) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // Nobody waits any more: then nobody needs to know.
            started.send(Err(error)).ok();
            return;
        }
    };
    let stdin = child.stdin.take().expect("standard input is a pipe");
    let stderr = child.stderr.take().expect("standard error is a pipe");
    if started.send(Ok((Pid::from_child(&child), stdin))).is_err() {
        // The daemon is going down; without its end of the pipe the engine ends too.
        child.wait().ok();
        return;
    }
    words::log_lines(stderr);
    report(&mut child, exit);
}

fn report(child: &mut Child, exit: oneshot::Sender<ExitStatus>) {
    match child.wait() {
        Ok(status) => {
            exit.send(status).ok();
        }
        Err(error) => warn!(%error, "cannot wait for the engine"),
    }
}

/// A running child.
struct Process {
    pid: Pid,
    /// Its standard input, whose end it takes as the order to end.
    stdin: Option<ChildStdin>,
    exit: oneshot::Receiver<ExitStatus>,
}

impl Process {
    /// Ends it: in good order if it can, by force if it takes too long.
    async fn stop(mut self) {
        self.stdin.take();
        self.signal(Signal::TERM);
        if let Ok(status) = timeout(STOP_WITHIN, &mut self.exit).await {
            self.ended(status.ok());
            return;
        }
        warn!(within = ?STOP_WITHIN, "engine does not end and is killed");
        self.signal(Signal::KILL);
        let status = (&mut self.exit).await.ok();
        self.ended(status);
    }

    /// Signals the child, which has not been waited for: its exit was not reported.
    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(self.pid, signal) {
            warn!(%error, "cannot signal the engine");
        }
    }

    fn ended(&self, status: Option<ExitStatus>) {
        match status {
            Some(status) if status.success() => info!("engine has ended"),
            Some(status) => warn!(
                code = status.code(),
                signal = status.signal(),
                "engine has failed"
            ),
            None => warn!("engine was lost"),
        }
    }
}

/// Returns once a query is answered.
async fn answers(endpoint: &Endpoint) {
    let (_keep, source) = watch::channel(Some(endpoint.clone()));
    let client = match Client::new(source) {
        Ok(client) => client,
        Err(error) => {
            warn!(%error, "cannot connect to the engine");
            return std::future::pending().await;
        }
    };
    loop {
        let answer = client.select("SELECT 1", &[], &[], Duration::from_secs(5));
        if answer.await.is_ok() {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn asked_to_stop(stopped: &mut watch::Receiver<bool>) {
    // Without its handle the engine is not wanted either.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

fn is_stopped(stopped: &watch::Receiver<bool>) -> bool {
    // Without its handle nobody could stop it any more.
    *stopped.borrow() || stopped.has_changed().is_err()
}

/// A loopback port that is free now. Should somebody else take it before the engine does, the engine
/// fails and is started again with another.
fn free_port() -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}
