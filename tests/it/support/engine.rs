//! The embedded engine, started by the daemon's own supervisor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;
use watchtower::config::Config;
use watchtower::engine::Engine;
use watchtower::store::{Client, Endpoint, Schema};

/// How long a start may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The engine's library: what the environment names, else where `scripts/quickstart` puts it.
pub(crate) fn library() -> PathBuf {
    if let Some(path) = std::env::var_os("WATCHTOWER_ENGINE_LIBRARY") {
        return path.into();
    }
    let machine = if cfg!(target_arch = "x86_64") {
        "x64"
    } else {
        "arm64"
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!(
        ".engine/node_modules/@chdb/lib-linux-{machine}-gnu/libchdb.so"
    ))
}

/// A running engine with a directory of its own. It ends when it is dropped.
pub(crate) struct TestEngine {
    // Before the directory, so that it is dropped first.
    engine: Option<Engine>,
    pub(crate) config: Config,
    _dir: tempfile::TempDir,
}

impl TestEngine {
    /// Starts an engine and waits until it answers.
    pub(crate) async fn start() -> TestEngine {
        // Shown where a test fails. Another test may have begun the log already.
        tracing_subscriber::fmt().with_test_writer().try_init().ok();
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            state_dir: dir.path().join("state"),
            ..Config::default()
        };
        config.engine.library = Some(library());
        let mut engine = TestEngine {
            engine: None,
            config,
            _dir: dir,
        };
        engine.start_again().await;
        engine
    }

    async fn start_again(&mut self) {
        let watchtower = Path::new(env!("CARGO_BIN_EXE_watchtower"));
        let engine = Engine::start_with(watchtower, &self.config).unwrap();
        self.engine = Some(engine);
        self.endpoint().await;
    }

    /// Stops the engine in good order and starts it anew on the same data.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    /// Stops the engine and waits for its end.
    pub(crate) async fn stop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
    }

    /// Kills the engine as a crash would.
    pub(crate) fn kill(&self) {
        for pid in processes(&self.config.state_dir) {
            signal(pid, rustix::process::Signal::KILL);
        }
    }

    /// The engine that runs.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Where it answers, as soon as it does.
    pub(crate) async fn endpoint(&self) -> Endpoint {
        let mut source = self.engine().endpoint();
        let up = timeout(PATIENCE, source.wait_for(Option::is_some)).await;
        up.expect("the engine starts in time")
            .unwrap()
            .clone()
            .unwrap()
    }

    /// What a daemon's configuration says so that it stores into this engine.
    pub(crate) async fn as_store(&self) -> String {
        let Endpoint {
            url,
            user,
            password,
        } = self.endpoint().await;
        let password = password.expose();
        format!("store:\n  url: {url}\n  user: {user}\n  password: {password}\n")
    }

    /// A client of the engine, whichever endpoint it has.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.engine().endpoint()).unwrap()
    }

    /// A client of the engine, in whose database the tables are there.
    pub(crate) async fn client_with_tables(&self) -> Client {
        let client = self.client();
        Schema::new(&self.config).ensure(&client).await.unwrap();
        client
    }
}

/// What a query prints.
pub(crate) async fn query(client: &Client, sql: &str) -> String {
    let answer = client.select(sql, &[], &[], Duration::from_secs(30)).await;
    String::from_utf8(answer.unwrap().to_vec())
        .unwrap()
        .trim()
        .to_owned()
}

/// The processes that run the engine in this directory.
pub(crate) fn processes(state_dir: &Path) -> Vec<i32> {
    let data = state_dir.join("engine/data");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .split('\0')
            .any(|argument| Path::new(argument) == data)
    })
    .collect()
}

/// Sends a signal to a process of ours.
pub(crate) fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
