//! A real daemon: the built binary as a process, with its own directory and free ports.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::http;

/// How long a start or a stop may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running daemon, killed when dropped.
pub(crate) struct Daemon {
    child: Option<Child>,
    /// A command that runs the daemon, and its arguments; empty for none.
    wrapper: Vec<String>,
    pub(crate) dir: PathBuf,
    config: PathBuf,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) web: SocketAddr,
    log: PathBuf,
}

impl Daemon {
    /// Starts a daemon in `dir` with `extra` YAML beside addresses and state directory, and waits
    /// until it is ready.
    pub(crate) fn start(dir: &Path, extra: &str) -> Daemon {
        let daemon = Daemon::prepare(dir, extra).spawn();
        daemon.wait_ready();
        daemon
    }

    /// As [`Daemon::start`], but waits only until it listens: ClickHouse or Redis may be away.
    pub(crate) fn start_unready(dir: &Path, extra: &str) -> Daemon {
        let daemon = Daemon::prepare(dir, extra).spawn();
        daemon.wait_for("/healthz");
        daemon
    }

    /// As [`Daemon::start`], but waits for nothing.
    pub(crate) fn spawned(dir: &Path, extra: &str) -> Daemon {
        Daemon::prepare(dir, extra).spawn()
    }

    /// As [`Daemon::start_unready`], run by another command, such as `nsenter` with its arguments.
    pub(crate) fn start_unready_in(wrapper: &[String], dir: &Path, extra: &str) -> Daemon {
        let mut daemon = Daemon::prepare(dir, extra);
        daemon.wrapper = wrapper.to_vec();
        let daemon = daemon.spawn();
        daemon.wait_for("/healthz");
        daemon
    }

    fn prepare(dir: &Path, extra: &str) -> Daemon {
        let [grpc, http, web] = free_addresses();
        let daemon = Daemon {
            child: None,
            wrapper: Vec::new(),
            dir: dir.to_owned(),
            config: dir.join("watchtower.yaml"),
            grpc,
            http,
            web,
            log: dir.join("daemon.log"),
        };
        daemon.configure(extra);
        daemon
    }

    /// Writes the configuration file, with `extra` beside addresses and state directory.
    fn configure(&self, extra: &str) {
        let Daemon {
            grpc, http, web, ..
        } = self;
        let state = self.dir.join("state");
        let text = format!(
            "state_dir: {}\nlisten:\n  otlp_grpc: {grpc}\n  otlp_http: {http}\n  web: {web}\n{extra}\n",
            state.display()
        );
        std::fs::write(&self.config, text).unwrap();
    }

    /// Writes another configuration, asks the daemon to reload it (SIGHUP), and waits until it has
    /// said something of it.
    pub(crate) fn reload(&self, extra: &str) {
        let said = || {
            let log = self.log_text();
            log.matches("configuration reloaded;").count()
                + log.matches("everything stays as it was").count()
        };
        let before = said();
        self.configure(extra);
        let pid = rustix::process::Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        self.wait_until("the reload", || said() > before);
    }

    fn spawn(mut self) -> Daemon {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        let program = env!("CARGO_BIN_EXE_watchtower");
        let mut command = match self.wrapper.split_first() {
            Some((wrapper, arguments)) => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(["--config", self.config.to_str().unwrap(), "serve"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        self
    }

    /// Waits until it takes records and the store answers.
    fn wait_ready(&self) {
        self.wait_for("/readyz");
        self.wait_until("the store is up", || {
            self.status()["pipeline"]["store"]["ok"] == true
        });
    }

    fn wait_for(&self, path: &str) {
        let answered = || http::get(self.web, path).is_ok_and(|answer| answer.status == 200);
        self.wait_until(path, answered);
    }

    /// Waits until something holds, or fails with the daemon's log.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(
                Instant::now() < end,
                "{what}: not within {PATIENCE:?}; the daemon's log:\n{}",
                self.log_text()
            );
            super::pause(Duration::from_millis(20));
        }
    }

    /// `GET /api/status`.
    pub(crate) fn status(&self) -> serde_json::Value {
        http::get(self.web, "/api/status").map_or(serde_json::Value::Null, |answer| answer.json())
    }

    /// A metric's value, by its name and labels as they are printed; 0 when it is not.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = http::get(self.web, "/metrics").unwrap().text();
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// What `/api/status` says of records: accepted, stored, queued, dead. The first is the sum of the
    /// others at any moment in which nothing is on its way from one to the next.
    pub(crate) fn ledger(&self) -> [u64; 4] {
        let status = self.status();
        let pipeline = &status["pipeline"];
        let accepted = pipeline["accepted"].as_object().unwrap().values();
        let accepted = accepted.map(|count| count.as_u64().unwrap()).sum();
        let figure = |name: &str| pipeline[name].as_u64().unwrap();
        [accepted, figure("stored"), figure("queued"), figure("dead")]
    }

    /// Waits until everything accepted is stored.
    pub(crate) fn wait_stored(&self) {
        self.wait_until("the queue is empty", || {
            self.status()["pipeline"]["queued"] == 0
        });
    }

    /// What `watchtower sql` prints for a query, as lines of tab-separated fields.
    pub(crate) fn sql(&self, query: &str) -> Vec<Vec<String>> {
        let config = self.config.to_str().unwrap();
        let output = watchtower(
            &["--config", config, "sql", "--format", "TSVRaw", query],
            "",
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text.lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// The daemon's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// A figure of `/proc/<pid>/status` in KiB, such as `VmRSS` or `VmHWM`.
    pub(crate) fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Asks it to stop (SIGTERM) without waiting.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// What the daemon wrote to standard error.
    pub(crate) fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it as a power cut would (SIGKILL) and starts it again on the same directory.
    pub(crate) fn kill_and_restart(self) -> Daemon {
        let again = self.killed_and_spawned();
        again.wait_ready();
        again
    }

    /// As [`Daemon::kill_and_restart`], for a daemon whose store is away.
    pub(crate) fn kill_and_restart_unready(self) -> Daemon {
        let again = self.killed_and_spawned();
        again.wait_for("/healthz");
        again
    }

    fn killed_and_spawned(mut self) -> Daemon {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        Daemon {
            child: None,
            dir: self.dir.clone(),
            wrapper: self.wrapper.clone(),
            config: self.config.clone(),
            log: self.log.clone(),
            ..self
        }
        .spawn()
    }

    /// Asks it to stop (SIGTERM) and waits for the end.
    pub(crate) fn stop(self) -> ExitStatus {
        self.terminate();
        self.wait_end()
    }

    /// Asks it to stop, asks again, and waits for the end.
    pub(crate) fn stop_twice(self, pause: Duration) -> ExitStatus {
        self.terminate();
        super::pause(pause);
        self.terminate();
        self.wait_end()
    }

    /// Waits for the end.
    pub(crate) fn wait_end(mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < end,
                "did not stop in {PATIENCE:?}; its log:\n{}",
                self.log_text()
            );
            super::pause(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Three loopback addresses whose ports are free right now.
fn free_addresses() -> [SocketAddr; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// Runs the binary with these arguments; its output.
pub(crate) fn watchtower(args: &[&str], stdin: &str) -> std::process::Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_watchtower"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}
