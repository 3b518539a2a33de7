//! A state directory on a file system of a few megabytes that is full, in a mount namespace of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::engine::TestEngine;
use crate::support::{grpc, http, otlp, pause};

/// A small file system in `<dir>/state`, which only processes in its namespace see.
struct SmallDisk {
    holder: Child,
    state: PathBuf,
}

impl SmallDisk {
    /// `None` where the machine does not allow namespaces.
    fn mount(dir: &Path) -> Option<SmallDisk> {
        let state = dir.join("state");
        std::fs::create_dir(&state).unwrap();
        let script =
            "mount -t tmpfs -o size=8m,mode=700 tmpfs \"$0\" && echo mounted && exec sleep 300";
        let mut holder = Command::new("unshare")
            .args(["-Urm", "sh", "-c", script, state.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut said = String::new();
        let mut lines = BufReader::new(holder.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        let state = PathBuf::from(format!("/proc/{}/root{}", holder.id(), state.display()));
        let disk = SmallDisk { holder, state };
        (said == "mounted\n").then_some(disk)
    }

    fn wrapper(&self) -> Vec<String> {
        let pid = self.holder.id().to_string();
        let words = ["nsenter", "-t", &pid, "-U", "-m", "--preserve-credentials"];
        words.map(str::to_owned).to_vec()
    }

    fn fill(&self) {
        let mut file = File::create(self.state.join("filler")).unwrap();
        for size in [64 << 10, 4 << 10, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.state.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

fn post(daemon: &Daemon, message: &str) -> u16 {
    let body = format!(r#"{{"message":"{message}"}}"#);
    let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
    answer.unwrap().status
}

const QUEUE: &str = "queue:\n  disk:\n    min_free: 64KiB\n";

/// Case: the daemon is killed with records in the queue, the disk fills up, and the daemon starts.
/// Must hold: it says that it takes nothing, stores what waits, and takes records again once there is
/// room, without anybody's help.
#[test]
fn a_daemon_on_a_full_disk_drains_refuses_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        return; // not to be had on this machine
    };
    let away = format!("{QUEUE}store:\n  url: http://127.0.0.1:9\n");
    let daemon = Daemon::start_unready_in(&disk.wrapper(), dir.path(), &away);
    for number in 0..50 {
        assert_eq!(post(&daemon, &number.to_string()), 202);
    }
    drop(daemon);
    disk.fill();

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engine = runtime.block_on(TestEngine::start());
    let endpoint = runtime.block_on(engine.endpoint());
    let store = format!(
        "{QUEUE}store:\n  url: {}\n  user: {}\n  password: {}\n",
        endpoint.url,
        endpoint.user,
        endpoint.password.expose()
    );
    let daemon = Daemon::start_unready_in(&disk.wrapper(), dir.path(), &store);
    let ready = http::get(daemon.web, "/readyz").unwrap();
    assert_eq!(ready.status, 503);
    assert!(
        ready.text().contains("disk is nearly full"),
        "{}",
        ready.text()
    );
    assert_eq!(post(&daemon, "refused"), 503);
    let call = grpc::framed(0, &otlp::export_of("refused"));
    let called = grpc::call(daemon.grpc, grpc::EXPORT, &[], call);
    assert_eq!(called.status().code(), tonic::Code::Unavailable);
    let log = daemon.log_text();
    assert!(log.contains("the disk queue refuses appends"), "{log}");
    daemon.wait_stored();
    let counts = daemon.sql("SELECT count(), uniqExact(message) FROM logs");
    assert_eq!(counts, [["50", "50"]]);

    disk.make_room();
    daemon.wait_until("it is ready", || {
        http::get(daemon.web, "/readyz").is_ok_and(|answer| answer.status == 200)
    });
    assert_eq!(post(&daemon, "50"), 202);
    daemon.wait_stored();
    let counts = daemon.sql("SELECT count(), uniqExact(message) FROM logs");
    assert_eq!(counts, [["51", "51"]]);
    assert!(daemon.stop().success());
}

/// Case: the very first start finds no room, for directories neither.
#[test]
fn a_first_start_on_a_full_disk_waits_for_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        return; // not to be had on this machine
    };
    disk.fill();
    let store = format!("{QUEUE}store:\n  url: http://127.0.0.1:9\n");
    let daemon = Daemon::start_unready_in(&disk.wrapper(), dir.path(), &store);
    assert_eq!(http::get(daemon.web, "/readyz").unwrap().status, 503);
    assert_eq!(post(&daemon, "refused"), 503);
    pause(Duration::from_millis(1500));
    assert_eq!(http::get(daemon.web, "/readyz").unwrap().status, 503);
    disk.make_room();
    daemon.wait_until("it is ready", || {
        http::get(daemon.web, "/readyz").is_ok_and(|answer| answer.status == 200)
    });
    assert_eq!(post(&daemon, "taken"), 202);
    let daemon = daemon.kill_and_restart_unready();
    assert_eq!(daemon.status()["pipeline"]["queued"], 1);
}
