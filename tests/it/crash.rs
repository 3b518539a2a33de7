//! The daemon is killed while records flow. Case: senders that repeat what was not acknowledged; must
//! hold: everything acknowledged is in ClickHouse, and once.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::redis::Redis;
use crate::support::{http, pause};

const SENDERS: usize = 8;
const RECORDS_PER_REQUEST: u64 = 5;

/// Posts numbered records on one connection until told to stop; returns the acknowledged numbers.
fn send(address: SocketAddr, next: &AtomicU64, stop: &AtomicBool) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(stream) = TcpStream::connect(address) else {
            pause(Duration::from_millis(20));
            continue;
        };
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while !stop.load(Ordering::Relaxed) {
            let first = next.fetch_add(RECORDS_PER_REQUEST, Ordering::Relaxed);
            let numbers = first..first + RECORDS_PER_REQUEST;
            let body: String = numbers
                .clone()
                .map(|n| {
                    format!("{{\"message\":\"record {n}\",\"service\":\"crash\",\"n\":{n}}}\n")
                })
                .collect();
            let head = format!(
                "POST /api/logs HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            if (&stream).write_all((head + &body).as_bytes()).is_err() {
                break;
            }
            match http::read_answer(&mut reader) {
                Ok(answer) if answer.status == 202 => acknowledged.extend(numbers),
                // Refused: nothing was taken, and the number is not used again.
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
    acknowledged
}

fn kills_lose_nothing_and_double_nothing(extra: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path(), extra);
    let next = Arc::new(AtomicU64::new(0));
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let (next, stop, address) = (Arc::clone(&next), Arc::clone(&stop), daemon.web);
                std::thread::spawn(move || send(address, &next, &stop))
            })
            .collect();
        // Long enough that inserts are under way when it dies.
        pause(Duration::from_millis(1500));
        daemon = daemon.kill_and_restart();
        stop.store(true, Ordering::Relaxed);
        for sender in senders {
            acknowledged.extend(sender.join().unwrap());
        }
    }
    daemon.wait_stored();
    let mut stored: HashMap<u64, u64> = HashMap::new();
    for row in daemon.sql("SELECT attributes['n'] FROM logs WHERE service = 'crash'") {
        *stored.entry(row[0].parse().unwrap()).or_default() += 1;
    }
    assert!(
        acknowledged.len() > 500,
        "only {} records were acknowledged",
        acknowledged.len()
    );
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|n| !stored.contains_key(n))
        .collect();
    let doubled: Vec<_> = stored.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        lost.is_empty(),
        "{} of {} lost: {:?}",
        lost.len(),
        acknowledged.len(),
        &lost[..lost.len().min(20)]
    );
    assert!(
        doubled.is_empty(),
        "{} doubled: {:?}",
        doubled.len(),
        &doubled[..doubled.len().min(20)]
    );
}

#[test]
fn kills_lose_nothing_and_double_nothing_with_the_disk_queue() {
    kills_lose_nothing_and_double_nothing("");
}

#[test]
fn kills_lose_nothing_and_double_nothing_with_redis() {
    let redis = Redis::start();
    kills_lose_nothing_and_double_nothing(&format!(
        "queue:\n  kind: redis\n  redis:\n    url: {}\n",
        redis.url()
    ));
}
