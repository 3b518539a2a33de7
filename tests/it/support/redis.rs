//! A real redis-server that keeps every write in its append-only file.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server with a directory of its own. It ends when it is dropped.
pub(crate) struct Redis {
    dir: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

impl Redis {
    pub(crate) fn start() -> Redis {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut redis = Redis {
            dir: tempfile::tempdir().unwrap(),
            port,
            child: None,
        };
        redis.run();
        redis
    }

    /// Starts it, again on what it had written.
    pub(crate) fn run(&mut self) {
        let child = Command::new("redis-server")
            .args([
                "--port",
                &self.port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
            ])
            .args([
                "--dir",
                self.dir.path().to_str().unwrap(),
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed; scripts/test installs it");
        self.child = Some(child);
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "redis-server does not listen");
            super::pause(Duration::from_millis(20));
        }
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Makes it stop answering, or go on.
    pub(crate) fn freeze(&self, frozen: bool) {
        let signal = if frozen {
            rustix::process::Signal::STOP
        } else {
            rustix::process::Signal::CONT
        };
        let pid = rustix::process::Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Runs a command and returns what it says.
    pub(crate) fn command(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query(&mut connection)
    }

    /// Where it keeps its files.
    pub(crate) fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
