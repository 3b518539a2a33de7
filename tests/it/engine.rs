//! The embedded engine: what its supervisor promises, with the real library.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use watchtower::store::{Client, Endpoint};

use crate::support::engine::{TestEngine, library, processes, query, signal};

async fn until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn fixed(endpoint: Endpoint) -> Client {
    let mut config = watchtower::config::Store::default();
    (config.url, config.user, config.password) =
        (Some(endpoint.url), endpoint.user, endpoint.password);
    Client::of(&config).unwrap().unwrap()
}

#[tokio::test]
async fn engine_ends_in_good_order_and_keeps_its_data() {
    let mut engine = TestEngine::start().await;
    let client = engine.client_with_tables().await;
    client
        .execute("INSERT INTO watchtower.schema_migrations (version, name) VALUES (99, 'kept')")
        .await
        .unwrap();
    let started = Instant::now();
    engine.stop().await;
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "was not killed"
    );
    assert_eq!(processes(&engine.config.state_dir), Vec::<i32>::new());
    // ClickHouse removes this file when it ends in good order.
    let status = engine.config.state_dir.join("engine/data/status");
    assert!(!status.exists());

    engine.restart().await;
    let kept = "SELECT name FROM watchtower.schema_migrations WHERE version = 99";
    assert_eq!(query(&engine.client(), kept).await, "kept");
}

#[tokio::test]
async fn sigterm_alone_ends_the_engine_in_good_order() {
    let engine = TestEngine::start().await;
    let dir = &engine.config.state_dir;
    let before = processes(dir);
    assert_eq!(before.len(), 1);
    signal(before[0], rustix::process::Signal::TERM);
    until("the engine ends", || !processes(dir).contains(&before[0])).await;
}

#[tokio::test]
async fn killed_engine_is_started_again() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    let dir = &engine.config.state_dir;
    let before = processes(dir);
    signal(before[0], rustix::process::Signal::KILL);
    until("another engine runs", || {
        let now = processes(dir);
        !now.is_empty() && now != before
    })
    .await;
    engine.endpoint().await;
    until("it is published", || {
        engine.engine().endpoint().borrow().is_some()
    })
    .await;
    assert_eq!(query(&client, "SELECT 1").await, "1");
}

/// A daemon that is killed leaves an engine behind for a moment: it must end by itself, and must not
/// keep the next one from starting.
#[tokio::test]
async fn engine_ends_with_its_daemon() {
    let mut engine = TestEngine::start().await;
    engine.stop().await;
    let dir = engine.config.state_dir.join("engine");
    let mut orphan = std::process::Command::new(env!("CARGO_BIN_EXE_watchtower"))
        .args(["engine", "--port", "0", "--path"])
        .arg(dir.join("data"))
        .arg("--config")
        .arg(dir.join("config.xml"))
        .arg("--library")
        .arg(library())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the orphan has the data", || {
        dir.join("data/status").exists()
    })
    .await;
    let stdin = orphan.stdin.take();
    let (_, ()) = tokio::join!(engine.restart(), async {
        sleep(Duration::from_secs(1)).await;
        drop(stdin);
    });
    let status = orphan.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(query(&engine.client(), "SELECT 1").await, "1");
}

#[tokio::test]
async fn session_user_is_closed_to_others() {
    let engine = TestEngine::start().await;
    let mut endpoint = engine.endpoint().await;
    endpoint.user = "default".to_owned();
    endpoint.password = watchtower::config::Secret::default();
    let client = fixed(endpoint);
    let refused = client
        .select("SELECT 1", &[], &[], Duration::from_secs(5))
        .await;
    // USER_SESSION_LIMIT_EXCEEDED
    assert_eq!(refused.unwrap_err().code(), Some(700));
}

#[tokio::test]
async fn daemons_user_reaches_nothing_but_its_database() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    for sql in [
        "SELECT * FROM url('http://127.0.0.1:1/', 'TSV', 'x String')",
        "SELECT * FROM file('/etc/passwd', 'LineAsString', 'x String')",
        "CREATE DATABASE other",
        "CREATE USER other",
        "SYSTEM STOP LISTEN HTTP",
        "BACKUP TABLE system.one TO File('/tmp/backup')",
    ] {
        let error = client.execute(sql).await.expect_err(sql);
        assert_eq!(error.code(), Some(497), "{sql}: {error}");
    }
}

#[tokio::test]
async fn engine_is_tame_and_its_files_are_private() {
    let engine = TestEngine::start().await;
    let dir = engine.config.state_dir.join("engine");
    let password = engine.endpoint().await.password;
    for name in ["config.xml", "users.xml"] {
        let path = dir.join(name);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(password.expose()), "{name}");
    }
    assert_eq!(
        std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );

    let client = engine.client();
    let setting = async |name: &str| {
        let sql = format!("SELECT value FROM system.server_settings WHERE name = '{name}'");
        query(&client, &sql).await
    };
    let memory = engine.config.engine.memory.as_u64().to_string();
    assert_eq!(setting("max_server_memory_usage").await, memory);
    assert_eq!(setting("memory_worker_period_ms").await, "1000");
    let logs =
        "SELECT count() FROM system.tables WHERE database = 'system' AND name LIKE '%\\_log'";
    assert_eq!(query(&client, logs).await, "0");
}
