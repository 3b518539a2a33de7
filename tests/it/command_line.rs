//! The built program as a person or systemd runs it: exit codes, what is printed where, and the
//! stream in a terminal when the daemon comes and goes.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

/// Runs the program with nothing of this test's environment but PATH.
fn watchtower(args: &[&str], env: &[(&str, &str)]) -> Output {
    command(args, env).output().unwrap()
}

fn command(args: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchtower"));
    command
        .args(args)
        .env_clear()
        .envs(env.iter().copied())
        .stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn repository(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Case: a configuration with several mistakes, for `check` and for the daemon itself.
/// Holds: both name every one of them with its line, and exit with 78.
#[test]
fn a_wrong_configuration_ends_with_78_and_every_fault() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "retenton: 7d\nqueue:\n  disk:\n    fsync: 5seconds\n",
    )
    .unwrap();
    let path = file.path().to_str().unwrap();
    for command in ["check", "serve"] {
        let output = watchtower(&["--config", path, command, "--set", "limits.body=64"], &[]);
        assert_eq!(output.status.code(), Some(78), "{command}");
        assert_eq!(stdout(&output), "");
        let expected = format!(
            "{path}:1: retenton: unknown key; did you mean `retention`?\n\
             {path}:4: queue.disk.fsync: \"5seconds\" has an unknown unit; write 5s\n\
             --set: limits.body: \"64\" has no unit; write 64MiB or 64B\n"
        );
        assert_eq!(stderr(&output), expected);
    }
}

/// Case: the two files that are shipped.
/// Holds: the annotated one is good as it is; the other asks for its tokens, and then is.
#[test]
fn the_shipped_files_are_good() {
    let output = watchtower(
        &["check", "--config", &repository("config/watchtower.yaml")],
        &[],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("OK: "), "{}", stdout(&output));

    let homelab = repository("config/homelab.yaml");
    let output = watchtower(&["check", "--config", &homelab], &[]);
    assert_eq!(output.status.code(), Some(78));
    for name in ["WATCHTOWER_INGEST_TOKEN", "WATCHTOWER_READ_TOKEN"] {
        assert!(stderr(&output).contains(&format!("environment variable {name} is not set")));
    }

    let env = [
        ("WATCHTOWER_CONFIG", homelab.as_str()),
        ("WATCHTOWER_INGEST_TOKEN", "s3cret1"),
        ("WATCHTOWER_READ_TOKEN", "s3cret2"),
        ("REDIS_URL", "redis://:s3cret3@10.0.0.5:6379/1"),
        ("CLICKHOUSE_PASSWORD", "s3cret4"),
    ];
    let output = watchtower(&["check", "--print"], &env);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(
        printed.contains("url: redis://10.0.0.5:6379/1"),
        "{printed}"
    );
    assert!(
        printed.contains("url: http://clickhouse.lan:8123"),
        "{printed}"
    );
    assert!(printed.contains("kind: redis"), "{printed}");
    assert_eq!(printed.matches("***").count(), 4, "{printed}");
    assert!(!printed.contains("s3cret"), "{printed}");
}

/// Case: the unit that is shipped, with the built program in its place.
/// Holds: systemd has nothing to say about it, and finds it well enclosed.
#[test]
fn the_unit_is_clean_and_enclosed() {
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("watchtower.service");
    let text = std::fs::read_to_string(repository("systemd/watchtower.service")).unwrap();
    assert!(text.contains("ExecStart=/usr/bin/watchtower serve"));
    // Else systemd stops the engine together with the daemon, which still has records to insert.
    assert!(text.contains("\nKillMode=mixed\n"));
    let text = text.replace("/usr/bin/watchtower", env!("CARGO_BIN_EXE_watchtower"));
    std::fs::write(&unit, text).unwrap();
    let analyze = |args: &[&str], unit: &Path| {
        let mut command = Command::new("systemd-analyze");
        command.args(args).arg(unit).output().unwrap()
    };
    let verify = analyze(&["verify"], &unit);
    assert!(verify.status.success(), "{}", stderr(&verify));
    assert_eq!(stderr(&verify), "");
    // The threshold is in tenths: an exposure of at most 1.5.
    let security = analyze(
        &["security", "--offline=true", "--no-pager", "--threshold=15"],
        &unit,
    );
    assert!(security.status.success(), "{}", stdout(&security));
}

/// Holds: systemd has nothing to say about the unit of a single user either.
#[test]
fn the_unit_of_a_user_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("watchtower.service");
    let text = std::fs::read_to_string(repository("systemd/watchtower-user.service")).unwrap();
    let program = "%h/.local/bin/watchtower";
    assert!(text.contains(&format!("ExecStart={program} ")), "{text}");
    let text = text.replace(program, env!("CARGO_BIN_EXE_watchtower"));
    std::fs::write(&unit, text).unwrap();
    let verify = Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .arg(&unit)
        // There may be no session.
        .env("XDG_RUNTIME_DIR", dir.path())
        .output()
        .unwrap();
    assert!(verify.status.success(), "{}", stderr(&verify));
    assert_eq!(stderr(&verify), "");
}

/// Plays the daemon's part: one answer a connection, cut off at its end. Returns the requests.
fn answer(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let each = answers.iter().map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_request(&stream);
            stream.write_all(answer.as_bytes()).unwrap();
            request
        });
        each.collect()
    });
    (url, server)
}

fn read_request(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 1\n\n";

/// Case: the daemon goes away in mid-stream and comes back by way of a 503.
/// Holds: tail goes on after the last whole event, says so on standard error only, and ends at its
/// limit.
#[test]
fn tail_goes_on_where_the_stream_broke_off() {
    const FIRST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nretry: 1\n\n\
        event: logs\nid: 7\ndata: [{\"timestamp\":\"1785000000123456789\",\"level\":\"warn\",\"service\":\"shop\",\
        \"message\":\"one\"}]\n\nevent: logs\nid: 8\ndata: [{\"mess";
    const BUSY: &str =
        "HTTP/1.1 503 x\r\nconnection: close\r\ncontent-length: 16\r\n\r\n{\"text\":\"a bit\"}";
    const SECOND: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nevent: skipped\nid: 8\n\
        data: {\"count\":3,\"reason\":\"slow\"}\n\nevent: logs\nid: 9\ndata: [{\"message\":\"two\"},{\"message\":\"three\"}]\n\n";
    let (url, server) = answer(&[FIRST, BUSY, SECOND]);
    let args = [
        "tail", "--url", &url, "--utc", "--limit", "2", "-n", "5", "-m", "info", "-s", "a b",
        "--token", "tok",
    ];
    let output = watchtower(&args, &[]);
    let requests = server.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "2026-07-25 17:20:00.123 WARN  shop one\n\
         ── 3 records not shown: this terminal did not keep up ──\n\
         - -      two\n"
    );
    let told = stderr(&output);
    assert!(
        told.contains("answers 503 Service Unavailable: a bit; trying again in"),
        "{told}"
    );
    let head = "GET /api/logs/stream?min_level=info&service=a%20b&backlog=5 HTTP/1.1";
    assert!(
        requests.iter().all(|request| request.starts_with(head)),
        "{requests:?}"
    );
    assert!(
        requests
            .iter()
            .all(|request| request.contains("authorization: Bearer tok"))
    );
    let resumed = requests
        .iter()
        .map(|request| request.contains("last-event-id: 7"));
    assert_eq!(resumed.collect::<Vec<_>>(), [false, true, true]);
}

/// Case: a wrong token, and no daemon at all.
/// Holds: tail does not try for ever; it says what to do and fails.
#[test]
fn tail_gives_up_on_what_will_not_change() {
    let (url, server) = answer(&["HTTP/1.1 401 x\r\nconnection: close\r\n\r\n"]);
    let output = watchtower(&["tail", "--url", &url], &[]);
    server.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("answers 401 Unauthorized; give the right --token"),
        "{}",
        stderr(&output)
    );

    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = watchtower(&["tail", "--url", &format!("http://{free}")], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("is the daemon running, and is --url right?"),
        "{}",
        stderr(&output)
    );
}

/// Case: the reader of the output goes away, as `head` does.
/// Holds: tail ends quietly.
#[test]
fn tail_ends_when_nobody_reads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut tail = command(&["tail", "--url", &url], &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    read_request(&stream);
    drop(tail.stdout.take());
    write!(
        stream,
        "{STREAM}event: logs\ndata: [{{\"message\":\"x\"}}]\n\n"
    )
    .unwrap();
    let output = tail.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

/// Case: more results than one page holds.
/// Holds: search asks for the next page where the last ended, and prints the oldest first.
#[test]
fn search_turns_the_pages() {
    const FIRST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"records\":[{\"message\":\"c\"},{\"message\":\"b\"}],\
        \"next\":\"5.6\",\"complete\":true}";
    const LAST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"records\":[{\"message\":\"a\"}],\"next\":null,\
        \"complete\":true}";
    let (url, server) = answer(&[FIRST, LAST]);
    let args = [
        "search",
        "--url",
        &url,
        "--json",
        "--from",
        "2026-07-30T12:00:00Z",
        "--limit",
        "10",
        "-l",
        "warn,error",
    ];
    let output = watchtower(&args, &[]);
    let requests = server.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "{\"message\":\"a\"}\n{\"message\":\"b\"}\n{\"message\":\"c\"}\n"
    );
    let asked: Vec<_> = requests
        .iter()
        .filter_map(|request| request.lines().next())
        .collect();
    let query = "GET /api/logs?level=warn&level=error&from=2026-07-30T12%3A00%3A00Z";
    assert_eq!(
        asked,
        [
            format!("{query}&limit=10 HTTP/1.1"),
            format!("{query}&limit=8&before=5.6 HTTP/1.1")
        ]
    );
}

/// Case: OTLP over HTTP is refused, in OTLP's binary form of an error.
/// Holds: send prints the words and nothing around them, and fails.
#[test]
fn send_tells_why_it_was_refused() {
    const REFUSED: &str = "HTTP/1.1 400 x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\n\r\n\
        \x08\x03\x12\x07too old";
    let (url, server) = answer(&[REFUSED]);
    let output = watchtower(&["send", "hello", "--via", "http", "--url", &url], &[]);
    let requests = server.join().unwrap();
    assert!(
        requests
            .concat()
            .starts_with("POST /v1/logs HTTP/1.1\ncontent-type: application/x-protobuf"),
        "{requests:?}"
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        format!("{url}/v1/logs answers 400 Bad Request: too old\n")
    );
}

/// Case: the tables are to be made by somebody else.
/// Holds: schema prints every statement, in the configured database, and needs no server.
#[test]
fn schema_prints_the_statements() {
    let output = watchtower(&["schema", "--set", "store.database=mine"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let sql = stdout(&output);
    assert!(
        sql.contains("CREATE TABLE IF NOT EXISTS `mine`.logs ("),
        "{sql}"
    );
    assert!(
        sql.contains("CREATE OR REPLACE VIEW `mine`.otel_logs AS"),
        "{sql}"
    );
    assert!(sql.trim_end().ends_with(';'), "{sql}");
}

/// Case: a query in several words.
/// Holds: tail and search send the same text.
#[test]
fn tail_and_search_send_the_same_query() {
    const PAGE: &[&str] = &[
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"records\":[],\"next\":null,\"complete\":true}",
    ];
    const REFUSED: &[&str] = &["HTTP/1.1 400 x\r\nconnection: close\r\n\r\n"];
    let sent = |name, reply| {
        let (url, server) = answer(reply);
        let args = [name, "--url", &url, "--", "a* level>=warn", "-x"];
        watchtower(&args, &[]);
        server.join().unwrap().remove(0)
    };
    for request in [sent("search", PAGE), sent("tail", REFUSED)] {
        let line = request.lines().next().unwrap();
        let (_, q) = line.split_once("?q=").unwrap_or_else(|| panic!("{line}"));
        let q = q.split('&').next().unwrap().replace('+', "%20");
        assert_eq!(q.replace('*', "%2A"), "a%2A%20level%3E%3Dwarn%20-x");
    }
}

/// Case: a bare machine, without the certificates of any authority.
/// Holds: plain HTTP works there; HTTPS says what is missing.
#[test]
fn without_certificates_only_https_is_missed() {
    const PAGE: &[&str] = &[
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"records\":[],\"next\":null,\"complete\":true}",
    ];
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().to_str().unwrap();
    let bare = [("SSL_CERT_DIR", none), ("SSL_CERT_FILE", "/dev/null")];
    let (url, server) = answer(PAGE);
    let output = watchtower(&["search", "--url", &url], &bare);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    server.join().unwrap();
    let output = watchtower(&["search", "--url", "https://127.0.0.1:1"], &bare);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("install the package ca-certificates"),
        "{text}"
    );
    // The daemon's own client, which may be given either.
    for (store, says_so) in [("http://127.0.0.1:1", false), ("https://127.0.0.1:1", true)] {
        let store = format!("store.url={store}");
        let text = stderr(&watchtower(&["sql", "--set", &store, "SELECT 1"], &bare));
        assert_eq!(text.contains("ca-certificates"), says_so, "{text}");
    }
}
