//! A real redis-server of the test's own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps every write in its append-only file, and dies with the test.
pub(super) struct Server {
    dir: tempfile::TempDir,
    pub(super) port: u16,
    child: Option<Child>,
    password: &'static str,
}

impl Server {
    pub(super) async fn start() -> Server {
        Self::with_password("").await
    }

    pub(super) async fn with_password(password: &'static str) -> Server {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut server = Server {
            dir: tempfile::tempdir().unwrap(),
            port,
            child: None,
            password,
        };
        server.run().await;
        server
    }

    /// Starts it again on what it had written.
    pub(super) async fn run(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--dir", self.dir.path().to_str().unwrap(), "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--enable-debug-command", "yes"])
            .args(["--requirepass", self.password])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(mut connection) = self.try_connect().await {
                let pong: Result<String, _> = redis::cmd("PING").query_async(&mut connection).await;
                if pong.is_ok() {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "redis-server does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops it where it stands, or lets it go on: its sockets take what is sent meanwhile.
    pub(super) fn pause(&self, paused: bool) {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Ends it as a crash would.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        use redis::IntoConnectionInfo as _;
        let info = self.url().into_connection_info()?;
        let settings = info.redis_settings().clone();
        let info = if self.password.is_empty() {
            info
        } else {
            info.set_redis_settings(settings.set_password(self.password))
        };
        // The library's own patience, half a second, is not enough on a busy machine.
        let patient = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        redis::Client::open(info)?
            .get_multiplexed_async_connection_with_config(&patient)
            .await
    }

    /// Runs a command given as words.
    pub(super) async fn command<T: redis::FromRedisValue>(&self, words: &str) -> T {
        let mut connection = self.try_connect().await.unwrap();
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query_async(&mut connection).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
