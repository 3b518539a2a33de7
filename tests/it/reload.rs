//! SIGHUP: what changes while the daemon runs, and what goes on meanwhile.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::http;
use crate::support::sse::Stream;

const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that stays open, and what it is answered.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn open(daemon: &Daemon) -> Kept {
        let stream = TcpStream::connect(daemon.web).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Kept(BufReader::new(stream))
    }

    fn send(&mut self, token: &str, message: &str) -> u16 {
        let body = format!(r#"{{"message":"{message}"}}"#);
        let head = format!(
            "POST /api/logs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(head.as_bytes()).unwrap();
        http::read_answer(&mut self.0).unwrap().status
    }
}

fn watch(daemon: &Daemon, token: &str) -> Stream {
    let bearer = format!("Bearer {token}");
    let path = "/api/logs/stream?backlog=0";
    Stream::open(daemon.web, path, &[("authorization", &bearer)])
}

/// Case: tokens, a limit, the log's level and the retention change, and an address too, while a
/// connection and two streams are open; then the file is wrong.
/// Holds: the open connection is asked by the new tokens and the new limit; the stream whose token is
/// gone ends with the reason, the other goes on; the tables follow; the address takes a restart and the
/// log says so; the wrong file changes nothing and is told by its line.
#[test]
fn a_reload_reaches_open_connections_and_a_wrong_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Status is for those with a token.
    let daemon = Daemon::start_unready(
        dir.path(),
        "auth: {ingest_tokens: [old-in], read_tokens: [going, staying]}\n",
    );
    daemon.wait_until("the tables are there", || {
        daemon.log_text().matches("tables migrated").count() >= 6
    });
    let metrics = http::get(daemon.web, "/metrics").unwrap();
    assert_eq!(metrics.status, 401, "{}", metrics.text());
    let mut kept = Kept::open(&daemon);
    assert_eq!(kept.send("old-in", "one"), 202);
    let (going, staying) = (watch(&daemon, "going"), watch(&daemon, "staying"));
    let changed = "auth: {ingest_tokens: [new-in], read_tokens: [staying]}\nlimits: {body: 2MiB}\n\
         log: {level: debug}\nretention: 7d\nstore: {batch_delay: 1s}\n";
    daemon.reload(changed);
    assert_eq!(kept.send("old-in", "nobody"), 401);
    assert_eq!(kept.send("new-in", &"x".repeat(3 << 20)), 413);
    let mut kept = Kept::open(&daemon);
    assert_eq!(kept.send("new-in", "two"), 202);
    let shown = staying.records(1, PATIENCE);
    assert_eq!(shown[0]["message"], "two");
    let events = std::iter::from_fn(|| going.next(PATIENCE));
    let last = events.last().unwrap();
    assert_eq!(
        (last.kind.as_str(), &last.json()["reason"]),
        ("bye", &"auth".into())
    );
    let log = daemon.log_text();
    let fixed = log
        .lines()
        .find(|line| line.contains("takes a restart"))
        .unwrap();
    assert!(fixed.contains("keys=\"store.batch_delay\""), "{fixed}");
    assert!(!log.contains("new-in") && !log.contains("staying"), "{log}");
    let table = || daemon.sql("SHOW CREATE TABLE logs").concat().concat();
    daemon.wait_until("the tables follow", || {
        table().contains("toIntervalSecond(604800)")
    });

    daemon.reload("auth: {ingest_tokens: [other-in]}\nlimits: {bdoy: 1KiB}\n");
    let log = daemon.log_text();
    let told = log
        .lines()
        .find(|line| line.contains("the configuration is wrong"))
        .unwrap();
    assert!(
        told.contains("limits.bdoy") && told.contains("body"),
        "{told}"
    );
    assert_eq!(kept.send("new-in", "three"), 202);
    daemon.reload(changed);
    let messages = || daemon.sql("SELECT message FROM logs ORDER BY id").concat();
    daemon.wait_until("they are stored", || messages().len() == 3);
    assert_eq!(messages(), ["one", "two", "three"]);
    let log = daemon.log_text();
    assert!(log.contains("DEBUG"), "{log}");
}

fn certify(dir: &Path, name: &str) {
    let options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let made = Command::new("openssl")
        .args(options.split(' '))
        .args(["-subj", &format!("/CN={name}")])
        .arg("-keyout")
        .arg(dir.join("key.pem"))
        .arg("-out")
        .arg(dir.join("cert.pem"))
        .output()
        .expect("openssl is installed; scripts/test installs it");
    assert!(made.status.success(), "{made:?}");
}

fn connect(daemon: &Daemon, more: &[&str]) -> Child {
    Command::new("openssl")
        .args(["s_client", "-connect", &daemon.http.to_string()])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The name on the certificate that a new connection is shown.
fn shown(daemon: &Daemon) -> String {
    let mut client = connect(daemon, &[]);
    drop(client.stdin.take());
    let mut text = String::new();
    client
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    client.wait().unwrap();
    let subject = text.lines().find(|line| line.starts_with("subject="));
    subject.unwrap_or_default().replace(' ', "")
}

/// Case: the certificate's files are replaced, the configuration is not.
/// Holds: connections from then on are shown the new one, the one that is open goes on; files that do
/// not fit together change nothing.
#[test]
fn r_075_a_reload_reads_the_certificate_again() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "first");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let tls = format!(
        "tls: {{cert_file: {}, key_file: {}}}\nstore: {{url: 'http://127.0.0.1:9'}}\n",
        at("cert.pem"),
        at("key.pem")
    );
    let daemon = Daemon::spawned(dir.path(), &tls);
    daemon.wait_until("it listens", || shown(&daemon) == "subject=CN=first");
    let mut open = connect(&daemon, &["-quiet"]);
    let (mut to, mut from) = (
        open.stdin.take().unwrap(),
        BufReader::new(open.stdout.take().unwrap()),
    );
    let mut ask = || {
        to.write_all(b"GET /none HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        http::read_answer(&mut from).unwrap().status
    };
    assert_eq!(ask(), 404);
    // Half of the new pair is there: the key, and not its certificate.
    let old = std::fs::read(dir.path().join("cert.pem")).unwrap();
    certify(dir.path(), "half");
    std::fs::write(dir.path().join("cert.pem"), old).unwrap();
    daemon.reload(&tls);
    assert_eq!(
        (shown(&daemon), ask()),
        ("subject=CN=first".to_owned(), 404)
    );
    certify(dir.path(), "second");
    daemon.reload(&tls);
    assert_eq!(shown(&daemon), "subject=CN=second");
    assert_eq!(ask(), 404);
    std::fs::write(dir.path().join("cert.pem"), "").unwrap();
    daemon.reload(&tls);
    assert_eq!(shown(&daemon), "subject=CN=second");
    drop(to);
    open.kill().ok();
    open.wait().unwrap();
}

/// Case: two senders with named tokens and one without a name; then one of them is taken away.
/// Holds: their requests are counted by name, the counts go on over the reload, and no token is printed.
#[test]
fn tokens_with_names_are_counted_by_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "shop-s3cret\n").unwrap();
    let store = "store: {url: 'http://127.0.0.1:9'}\n";
    let shop = format!(
        "{{name: shop, file: {}}}",
        dir.path().join("token").display()
    );
    let config = format!(
        "auth: {{ingest_tokens: [{shop}, {{name: cron, token: cron-s3cret}}, plain-s3cret]}}\n{store}"
    );
    let daemon = Daemon::spawned(dir.path(), &config);
    daemon.wait_until("it is up", || http::get(daemon.web, "/healthz").is_ok());
    let send = |token: &str| {
        let token = format!("Bearer {token}");
        let headers = [
            ("authorization", &*token),
            ("content-type", "application/json"),
        ];
        let sent = http::request(
            daemon.web,
            "POST",
            "/api/logs",
            &headers,
            br#"{"message":"m"}"#,
        );
        sent.unwrap().status
    };
    for (token, status) in [
        ("shop-s3cret", 202),
        ("shop-s3cret", 202),
        ("cron-s3cret", 202),
        ("plain-s3cret", 202),
        ("wrong-s3cret", 401),
    ] {
        assert_eq!(send(token), status, "{token}");
    }
    let counts = || {
        let text = http::get(daemon.web, "/metrics").unwrap().text();
        assert!(!text.contains("s3cret"));
        let lines = text.lines();
        let lines = lines.filter_map(|line| {
            line.strip_prefix("watchtower_receiver_token_requests_total{token=")
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(counts(), [r#""3"} 1"#, r#""cron"} 1"#, r#""shop"} 2"#]);
    daemon.reload(&format!("auth: {{ingest_tokens: [{shop}]}}\n{store}"));
    assert_eq!((send("shop-s3cret"), send("cron-s3cret")), (202, 401));
    assert_eq!(counts(), [r#""3"} 1"#, r#""cron"} 1"#, r#""shop"} 3"#]);
    assert!(!daemon.log_text().contains("s3cret"));
}
