//! Faults that people met with other tools, on the real daemon, named by their report.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::daemon::Daemon;
use crate::support::engine::{processes, signal};
use crate::support::records::{frame, id_at, now_ms, record};
use crate::support::redis::Redis;
use crate::support::sse::Stream;
use crate::support::{grpc, http, otlp, pause};

const AWAY: &str = "store:\n  url: http://127.0.0.1:9\n";

fn post(daemon: &Daemon, message: &str) -> u16 {
    let body = format!(r#"{{"message":"{message}"}}"#);
    let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
    answer.unwrap().status
}

fn with_redis(redis: &Redis, more: &str) -> String {
    let url = redis.url();
    format!("queue:\n  kind: redis\n  redis:\n    url: {url}\n{more}")
}

fn readyz(daemon: &Daemon) -> (u16, String) {
    let answer = http::get(daemon.web, "/readyz").unwrap();
    (answer.status, answer.text())
}

fn counts(daemon: &Daemon) -> [u64; 2] {
    let rows = daemon.sql("SELECT count(), uniqExact(message) FROM logs");
    [0, 1].map(|column| rows[0][column].parse().unwrap())
}

#[test]
fn r_041_a_redis_that_may_evict_the_queue_is_warned_about_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let redis = Redis::start();
    let set = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    redis.command(&set).unwrap();
    let daemon = Daemon::start_unready(dir.path(), &with_redis(&redis, AWAY));
    daemon.wait_until("a warning", || {
        daemon.log_text().contains("redis may evict the queue")
    });
}

/// Redis answers, and refuses writes in these words; frames are spilled meanwhile, and readiness says
/// why. With no room for a spill, readiness is red and nothing is acknowledged.
fn refused_writes(words: &str, refuse: impl Fn(&Redis), allow: impl Fn(&Redis)) {
    for (disk, taken) in [("0B", 202), ("100TiB", 503)] {
        let dir = tempfile::tempdir().unwrap();
        let redis = Redis::start();
        let more = format!("  disk:\n    min_free: {disk}\n");
        let daemon = Daemon::start(dir.path(), &with_redis(&redis, &more));
        assert_eq!(post(&daemon, "before"), 202);
        refuse(&redis);
        for number in 0..5 {
            assert_eq!(post(&daemon, &number.to_string()), taken, "{words}");
        }
        let (status, text) = readyz(&daemon);
        assert!(text.contains(words), "{text}");
        assert_eq!(status, if taken == 202 { 200 } else { 503 }, "{text}");
        if taken == 202 {
            let spill = &daemon.status()["pipeline"]["spill"];
            assert!(spill["reason"].as_str().unwrap().contains(words), "{spill}");
            assert!(text.contains("5 records"), "{text}");
        }
        allow(&redis);
        let after = || post(&daemon, "after") == 202;
        daemon.wait_until("records are taken again", after);
        daemon.wait_stored();
        daemon.wait_until("readiness is as before", || {
            readyz(&daemon) == (200, "ready\n".to_owned())
        });
        let expected = if taken == 202 { 7 } else { 2 };
        assert_eq!(counts(&daemon)[1], expected);
    }
}

#[test]
fn r_044_a_redis_that_became_a_replica_loses_nothing() {
    let run = |redis: &Redis, words: &[&str]| drop(redis.command(words).unwrap());
    refused_writes(
        "READONLY",
        |redis| run(redis, &["REPLICAOF", "127.0.0.1", "1"]),
        |redis| run(redis, &["REPLICAOF", "NO", "ONE"]),
    );
}

#[test]
fn r_044_a_redis_that_cannot_save_loses_nothing() {
    let dump = |redis: &Redis| redis.dir().join("dump.rdb");
    let save = |redis: &Redis| {
        redis.command(&["BGSAVE"]).unwrap();
        pause(Duration::from_millis(500));
    };
    refused_writes(
        "MISCONF",
        |redis| {
            std::fs::create_dir(dump(redis)).unwrap();
            redis.command(&["CONFIG", "SET", "save", "3600 1"]).unwrap();
            save(redis);
        },
        |redis| {
            std::fs::remove_dir(dump(redis)).unwrap();
            save(redis);
        },
    );
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

fn segments(state: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(state.join("queue")).unwrap();
    let mut segments: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "seg"))
        .collect();
    segments.sort();
    segments
}

/// Case: a full queue, a kill, and files that are gone or old. Must hold: the daemon starts, is ready,
/// stores what is left exactly once, and says what is missing.
#[test]
fn r_046_missing_and_stale_files_of_the_queue_cost_only_what_was_in_them() {
    let first = tempfile::tempdir().unwrap();
    let small = "queue:\n  disk:\n    segment_bytes: 1MiB\nintake:\n  frame_bytes: 1MiB\n";
    let daemon = Daemon::start_unready(first.path(), &format!("{small}{AWAY}"));
    let cursor = first.path().join("state/queue/cursor.log");
    let yesterday = std::fs::read(&cursor).unwrap();
    let mut sent = 0;
    while segments(&first.path().join("state")).len() < 3 {
        let text = "x".repeat(2000);
        let records: Vec<_> = (sent..sent + 100)
            .map(|number| format!(r#"{{"message":"{number} {text}"}}"#))
            .collect();
        let body = format!("[{}]", records.join(","));
        let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
        assert_eq!(answer.unwrap().status, 202);
        sent += 100;
    }
    pause(Duration::from_millis(1500));
    drop(daemon);

    type Change = fn(&Path, &[u8]);
    let cases: [(&str, Change, &str); 3] = [
        (
            "a segment",
            |state, _| std::fs::remove_file(&segments(state)[0]).unwrap(),
            "has lost frames",
        ),
        (
            "the cursor log",
            |state, _| std::fs::remove_file(state.join("queue/cursor.log")).unwrap(),
            "cursor log is missing",
        ),
        (
            "an old cursor log",
            |state, old| std::fs::write(state.join("queue/cursor.log"), old).unwrap(),
            "listening",
        ),
    ];
    for (what, change, said) in cases {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        copy(&first.path().join("state"), &state);
        change(&state, &yesterday);
        let daemon = Daemon::start(dir.path(), small);
        daemon.wait_stored();
        assert_eq!(readyz(&daemon).0, 200, "{what}");
        assert_eq!(daemon.log_text().matches(said).count(), 1, "{what}");
        let lost = daemon.status()["pipeline"]["damaged"]["records"]
            .as_u64()
            .unwrap();
        assert_eq!(lost > 0, what == "a segment", "{what}: {lost}");
        assert_eq!(counts(&daemon), [sent - lost; 2], "{what}");
    }
}

/// Case: a queue much larger than the memory that the daemon may take. Must hold: it is ready within
/// seconds, its memory does not follow the queue, and drained files go away.
#[test]
fn r_047_a_large_queue_is_neither_loaded_nor_kept() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut config = watchtower::config::Config {
        state_dir: state.clone(),
        ..Default::default()
    };
    config.queue.disk.fsync = watchtower::config::Fsync::Never;
    let records = 300 * 100;
    grpc::block_on(async {
        let queue = watchtower::queue::Queue::open(&config).unwrap();
        for group in 0..300u64 {
            let now = now_ms();
            let rows: Vec<_> = (0..100)
                .map(|n| {
                    record(
                        now * 1_000_000,
                        format!("{group} {n} {}", "x".repeat(10_000)),
                    )
                })
                .collect();
            let frame = frame(id_at(now, group * 100), &rows);
            queue.append(frame).await.unwrap();
        }
        queue.close().await;
    });
    let started = Instant::now();
    let daemon = Daemon::start_unready(dir.path(), AWAY);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(daemon.status()["pipeline"]["queued"], records);
    pause(Duration::from_secs(1));
    let memory = daemon.memory_kib("VmHWM") / 1024;
    assert!(memory < 200, "{memory} MiB of memory for 300 MiB of queue");
    assert!(daemon.stop().success());
    let daemon = Daemon::start(dir.path(), "");
    daemon.wait_stored();
    daemon.wait_until("the files are gone", || {
        let sizes = segments(&state).into_iter().map(|file| file.metadata());
        sizes
            .map(|meta| meta.map_or(0, |meta| meta.len()))
            .sum::<u64>()
            < (8 << 20)
    });
    let memory = daemon.memory_kib("VmHWM") / 1024;
    assert!(memory < 256, "{memory} MiB of memory while draining");
}

/// Case: messages far beyond the size of a batch, between ordinary ones, in both queues. Must hold:
/// each is stored whole.
#[test]
fn r_049_a_record_larger_than_a_batch_is_stored_alone() {
    let redis = Redis::start();
    let limits = "limits:\n  message: 32MiB\nstore:\n  batch_bytes: 1MiB\n";
    for queue in [String::new(), with_redis(&redis, "")] {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(dir.path(), &format!("{queue}{limits}"));
        for size in [1, 3_000_000, 2, 30_000_000, 3] {
            assert_eq!(post(&daemon, &"x".repeat(size)), 202, "{size}");
        }
        daemon.wait_stored();
        let sizes = daemon.sql("SELECT length(message) FROM logs ORDER BY id");
        let sizes: Vec<_> = sizes.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(sizes, ["1", "3000000", "2", "30000000", "3"]);
    }
}

/// Case: the store hangs, the queue is small, and senders of both protocols do not let up. Must hold:
/// taken at once or told at once to come back; all that was taken is stored once the store is back.
#[test]
fn r_050_overload_is_told_at_once_and_ends_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let small = "queue:\n  disk:\n    segment_bytes: 1MiB\n    max_bytes: 2MiB\nintake:\n  frame_bytes: 1MiB\n";
    let daemon = Daemon::start(dir.path(), small);
    let engine = processes(&dir.path().join("state"));
    engine.iter().for_each(|pid| signal(*pid, Signal::STOP));
    let (taken, slowest) = (Mutex::new(0u64), Mutex::new(Duration::ZERO));
    let full = Mutex::new(BTreeSet::new());
    let until = Instant::now() + Duration::from_secs(6);
    std::thread::scope(|scope| {
        for sender in 0..50 {
            let (daemon, taken, slowest, full) = (&daemon, &taken, &slowest, &full);
            scope.spawn(move || {
                let mut number = 0;
                while Instant::now() < until {
                    number += 1;
                    let message = format!("{sender} {number} {}", "x".repeat(4000));
                    let body = otlp::export_of(&message);
                    let start = Instant::now();
                    let is_taken = if sender % 2 == 0 {
                        let kind = "application/x-protobuf";
                        let answer = http::post(daemon.http, "/v1/logs", kind, &body).unwrap();
                        if answer.status != 200 {
                            assert!(matches!(answer.status, 429 | 503), "{}", answer.status);
                            assert!(answer.header("retry-after").is_some());
                            full.lock().unwrap().insert("http");
                        }
                        answer.status == 200
                    } else {
                        let body = grpc::framed(0, &body);
                        let called = grpc::call(daemon.grpc, grpc::EXPORT, &[], body);
                        if called.code() != 0 {
                            assert!(matches!(called.code(), 8 | 14), "{}", called.code());
                            full.lock().unwrap().insert("grpc");
                        }
                        called.code() == 0
                    };
                    let took = start.elapsed();
                    let mut slowest = slowest.lock().unwrap();
                    *slowest = took.max(*slowest);
                    drop(slowest);
                    *taken.lock().unwrap() += u64::from(is_taken);
                    pause(Duration::from_millis(if is_taken { 5 } else { 100 }));
                }
            });
        }
    });
    let files = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    let files = files.count();
    engine.iter().for_each(|pid| signal(*pid, Signal::CONT));
    assert_eq!(full.lock().unwrap().len(), 2, "the queue was full for both");
    let slowest = *slowest.lock().unwrap();
    // Within a second, and some for a busy machine.
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
    assert!(files < 200, "{files} open files");
    daemon.wait_stored();
    let taken = *taken.lock().unwrap();
    assert_eq!(counts(&daemon), [taken; 2]);
    assert_eq!(post(&daemon, "after"), 202);
}

/// Case: a stop with streams open, idle connections of both kinds, and a client that reads nothing.
/// Must hold: it ends in good order within ten seconds, streams end, HTTP/2 hears GOAWAY.
#[test]
fn r_056_open_streams_and_idle_connections_do_not_keep_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let streams: Vec<_> = (0..3)
        .map(|_| Stream::open(daemon.web, "/api/logs/stream", &[]))
        .collect();
    let mut idle = TcpStream::connect(daemon.http).unwrap();
    idle.write_all(b"GET /v1/logs HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).unwrap();
    let mut channel = grpc::Frames::open(daemon.grpc);
    let _reads_nothing = grpc::Frames::open(daemon.grpc);
    let mut mute = TcpStream::connect(daemon.web).unwrap();
    mute.write_all(b"GET /api/logs/stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    pause(Duration::from_millis(300));

    let start = Instant::now();
    assert!(daemon.stop().success());
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    for stream in streams {
        // Ends, with or without a last event, instead of waiting.
        while stream.next(Duration::from_secs(5)).is_some() {}
    }
    let mut heard = Vec::new();
    while let Ok((kind, ..)) = channel.next() {
        heard.push(kind);
    }
    assert!(heard.contains(&grpc::GOAWAY), "{heard:?}");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
}

/// Case: of two viewers one stops reading under load. Must hold: the other misses nothing, memory stays,
/// and the slow one is told how many it missed and then sees what is new.
#[test]
fn r_057_a_slow_viewer_is_told_what_it_missed_and_delays_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let live = "live:\n  buffer: 256KiB\n  ring: 1MiB\n";
    let daemon = Daemon::start(dir.path(), live);
    let mut slow = TcpStream::connect(daemon.web).unwrap();
    let host = daemon.web;
    slow.write_all(format!("GET /api/logs/stream HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes())
        .unwrap();
    let normal = Stream::open(daemon.web, "/api/logs/stream", &[]);
    pause(Duration::from_millis(200));
    let before = daemon.memory_kib("VmRSS");
    let total = 20_000;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || normal.records(total, Duration::from_secs(60)));
        for batch in 0..200 {
            let records: Vec<_> = (0..100)
                .map(|n| {
                    format!(
                        r#"{{"message":"{} {}"}}"#,
                        batch * 100 + n,
                        "x".repeat(1000)
                    )
                })
                .collect();
            let body = format!("[{}]", records.join(","));
            let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
            assert_eq!(answer.unwrap().status, 202);
            pause(Duration::from_millis(20));
        }
        let seen = reader.join().unwrap();
        let numbers = seen.iter().map(|record| {
            let message = record["message"].as_str().unwrap();
            message.split(' ').next().unwrap().parse::<usize>().unwrap()
        });
        assert_eq!(numbers.collect::<Vec<_>>(), (0..total).collect::<Vec<_>>());
    });
    let grown = daemon.memory_kib("VmRSS").saturating_sub(before) / 1024;
    assert!(grown < 200, "memory grew by {grown} MiB");

    slow.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut text = String::new();
    let mut buffer = vec![0; 1 << 16];
    assert_eq!(post(&daemon, "the last of all"), 202);
    while !text.contains("the last of all") {
        let read = slow.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "the stream ended");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    assert!(text.contains("event: skipped"), "nothing told of a gap");
}
