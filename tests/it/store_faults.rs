//! Faults between the writer and ClickHouse: nothing is lost, nothing is doubled.

use std::time::Duration;

use tokio::time::sleep;
use watchtower::config::Secret;
use watchtower::store::{Client, Endpoint, Kind, Reader, ReaderLimits};

use crate::support::engine::{TestEngine, query};
use crate::support::proxy::{Fault, Proxy};
use crate::support::records::{id_at, now_ms, numbered, record};
use crate::support::writer::{COUNT, Running};

/// Waits until the proxy saw so many inserts.
async fn wait_for_inserts(proxy: &Proxy, count: u64) {
    for _ in 0..1_000 {
        if proxy.inserts() >= count {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{} of {count} inserts came in time", proxy.inserts());
}

async fn proxy(engine: &TestEngine, fault: Fault) -> Proxy {
    Proxy::start(engine.engine().endpoint(), fault, "").await
}

/// The insert succeeded, its answer was lost.
#[tokio::test]
async fn r_033_a_lost_answer_doubles_nothing() {
    let engine = TestEngine::start().await;
    let proxy = proxy(&engine, Fault::CutAnswer).await;
    let client = proxy.client(engine.endpoint().await);
    let mut running = Running::start(&engine, client.clone());
    running.queue.append(numbered(0, 500)).await.unwrap();
    wait_for_inserts(&proxy, 4).await;
    assert_eq!(running.status.borrow().stored_records, [0, 0, 0]);
    proxy.set(Fault::None);
    running
        .wait_for(|status| status.stored_records == [0, 500, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "500,500");
}

/// The daemon, or the network, ends in the middle of an insert, between two of its frames.
#[tokio::test]
async fn cut_insert_stores_nothing() {
    let engine = TestEngine::start().await;
    let direct = engine.client_with_tables().await;
    let proxy = proxy(&engine, Fault::CutRequest).await;
    let client = proxy.client(engine.endpoint().await);
    let queue = watchtower::queue::Queue::open(&engine.config).unwrap();
    for i in 0..3 {
        queue.append(numbered(i * 100, 100)).await.unwrap();
    }
    queue.close().await;
    let mut running = Running::start(&engine, client);
    wait_for_inserts(&proxy, 2).await;
    running.wait_for(|status| status.error.is_some()).await;
    assert_eq!(query(&direct, COUNT).await, "0,0");
    proxy.set(Fault::None);
    running
        .wait_for(|status| status.stored_records == [0, 300, 0])
        .await;
    assert_eq!(query(&direct, COUNT).await, "300,300");
}

/// Nothing of an insert that is not waited for any longer stays behind.
#[tokio::test]
async fn insert_that_takes_too_long_closes_its_socket() {
    let engine = TestEngine::start().await;
    let proxy = proxy(&engine, Fault::Silence).await;
    let client = proxy.client(engine.endpoint().await);
    let mut silent = proxy.silent();
    let insert = "INSERT INTO watchtower.logs FORMAT Native";
    let frame = numbered(0, 10);
    let within = Duration::from_millis(500);
    let inserted = client.insert(insert, &[], [frame.payload()], within);
    let (inserted, waiting) = tokio::join!(inserted, async {
        silent.wait_for(|silent| *silent == 1).await.is_ok()
    });
    assert!(waiting);
    assert_eq!(inserted.unwrap_err().kind(), Kind::Retryable);
    let closed = silent.wait_for(|silent| *silent == 0);
    let closed = tokio::time::timeout(Duration::from_secs(5), closed).await;
    drop(closed.expect("in time").unwrap());
}

/// As above, with a crash of the daemon and a restart of ClickHouse in between.
#[tokio::test]
async fn r_033_a_lost_answer_and_restarts_double_nothing() {
    let mut engine = TestEngine::start().await;
    let cut = proxy(&engine, Fault::CutAnswer).await;
    let running = Running::start(&engine, cut.client(engine.endpoint().await));
    running.queue.append(numbered(0, 300)).await.unwrap();
    running.queue.append(numbered(300, 200)).await.unwrap();
    wait_for_inserts(&cut, 2).await;
    running.crash().await;
    engine.restart().await;
    let client = engine.client();
    assert_eq!(query(&client, COUNT).await, "500,500");

    let mut running = Running::start(&engine, client.clone());
    running.queue.append(numbered(500, 100)).await.unwrap();
    running
        .wait_for(|status| status.stored_records == [0, 600, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "600,600");
}

/// A claim of which a part is stored already, and whose token is forgotten.
#[tokio::test]
async fn what_is_missing_of_an_old_claim_is_added() {
    let engine = TestEngine::start().await;
    let direct = engine.client_with_tables().await;
    let now = now_ms();
    let records: Vec<_> = (0..10)
        .map(|i| record((now + i) * 1_000_000, format!("message number {i}")))
        .collect();
    let first_id = id_at(now, 0);
    let part = crate::support::records::frame(first_id, &records[..4]);
    let insert = "INSERT INTO watchtower.logs FORMAT Native";
    let within = Duration::from_secs(10);
    direct
        .insert(insert, &[], [part.payload()], within)
        .await
        .unwrap();

    let proxy = proxy(&engine, Fault::Refuse).await;
    let client = proxy.client(engine.endpoint().await);
    let mut running = Running::start(&engine, client);
    let whole = crate::support::records::frame(first_id, &records);
    running.queue.append(whole).await.unwrap();
    running.queue.append(numbered(100, 50)).await.unwrap();
    wait_for_inserts(&proxy, 1).await;
    proxy.set(Fault::None);
    running
        .wait_for(|status| status.stored_records == [0, 60, 0])
        .await;
    assert_eq!(query(&direct, COUNT).await, "60,60");
}

/// Status 200 with an exception's header.
#[tokio::test]
async fn r_034_an_exception_under_status_200_is_no_success() {
    let engine = TestEngine::start().await;
    let proxy = proxy(&engine, Fault::Exception(200, 241)).await;
    let client = proxy.client(engine.endpoint().await);
    let mut running = Running::start(&engine, client.clone());
    running.queue.append(numbered(0, 100)).await.unwrap();
    wait_for_inserts(&proxy, 3).await;
    assert_eq!(running.queue.depth().await.frames, 1);
    running
        .wait_for(|status| {
            status
                .error
                .as_ref()
                .is_some_and(|error| error.contains("241"))
        })
        .await;
    proxy.set(Fault::None);
    running
        .wait_for(|status| status.stored_records == [0, 100, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "100,100");
}

/// Code 252 slows the writer down and drops nothing.
#[tokio::test]
async fn r_038_too_many_parts_is_waited_out() {
    let engine = TestEngine::start().await;
    let proxy = proxy(&engine, Fault::Exception(500, 252)).await;
    let client = proxy.client(engine.endpoint().await);
    let mut running = Running::start(&engine, client.clone());
    for i in 0..5 {
        running.queue.append(numbered(i * 10, 10)).await.unwrap();
    }
    wait_for_inserts(&proxy, 3).await;
    proxy.set(Fault::None);
    running
        .wait_for(|status| status.stored_records == [0, 50, 0])
        .await;
    assert!(running.dead.list().unwrap().is_empty());
    assert_eq!(query(&client, COUNT).await, "50,50");
}

/// The server closes idle sockets without a word.
#[tokio::test]
async fn r_036_a_stale_socket_is_no_error() {
    let engine = TestEngine::start().await;
    // This proxy closes every socket after one answer that promised to keep it.
    let proxy = proxy(&engine, Fault::None).await;
    let client = proxy.client(engine.endpoint().await);
    let mut running = Running::start(&engine, client.clone());
    for i in 0..5 {
        running.queue.append(numbered(i, 1)).await.unwrap();
        let stored = i as u64 + 1;
        running
            .wait_for(|status| status.stored_records[1] == stored)
            .await;
        assert_eq!(running.status.borrow().error, None);
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(query(&client, COUNT).await, "5,5");
}

/// The server closes the socket in the moment in which it is used.
#[tokio::test]
async fn r_036_an_insert_without_any_answer_is_left_to_the_writer() {
    let engine = TestEngine::start().await;
    let proxy = proxy(&engine, Fault::Refuse).await;
    let client = proxy.client(engine.endpoint().await);
    let insert = "INSERT INTO watchtower.logs FORMAT Native";
    let frame = numbered(0, 10);
    let within = Duration::from_secs(10);
    let inserted = client.insert(insert, &[], [frame.payload()], within);
    assert_eq!(inserted.await.unwrap_err().kind(), Kind::Retryable);
    assert_eq!(proxy.inserts(), 1);
}

/// A server whose zone is not UTC.
#[tokio::test]
async fn r_040_times_do_not_depend_on_the_servers_zone() {
    let mut engine = TestEngine::start().await;
    engine.config.retention = watchtower::config::Period::days(3650);
    let zone = "&session_timezone=America%2FNew_York";
    let proxy = Proxy::start(engine.engine().endpoint(), Fault::None, zone).await;
    let client = proxy.client(engine.endpoint().await);
    let mut running = Running::start(&engine, client.clone());
    // Half past two of a night that has no such hour in New York, and now.
    let night = 1_772_937_000_123_456_789;
    let now = now_ms() * 1_000_000 + 1;
    let records = [night, now].map(|at| record(at, format!("at {at}")));
    let frame = crate::support::records::frame(id_at(now_ms(), 0), &records);
    running.queue.append(frame).await.unwrap();
    running
        .wait_for(|status| status.stored_records == [0, 2, 0])
        .await;
    assert_eq!(
        query(&client, "SELECT timezone()").await,
        "America/New_York"
    );

    let reader = Reader::new(client, &engine.config, ReaderLimits::default());
    for at in [night, now] {
        let query = watchtower::api::SearchQuery {
            from: Some(at),
            to: Some(at + 1),
            ..crate::store_search::everything()
        };
        let page = reader.page(&query).await.unwrap();
        let found: Vec<i64> = page.records.iter().map(|record| record.timestamp).collect();
        assert_eq!(found, [at]);
    }
}

#[tokio::test]
async fn wrong_password_is_said_clearly_and_loses_nothing() {
    let engine = TestEngine::start().await;
    let direct = engine.client_with_tables().await;
    let mut endpoint = engine.endpoint().await;
    endpoint.password = Secret::new("wrong".to_owned());
    let proxy = proxy(&engine, Fault::None).await;
    let client = proxy.client(endpoint);
    let refused = client.execute("SELECT 1").await.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Auth, Some(516)));
    assert!(
        refused.to_string().contains("Authentication failed"),
        "{refused}"
    );
    assert!(!refused.to_string().contains("wrong"), "{refused}");

    let mut running = Running::start(&engine, client);
    running.queue.append(numbered(0, 10)).await.unwrap();
    running.wait_for(|status| status.error.is_some()).await;
    running.crash().await;
    let mut running = Running::start(&engine, direct.clone());
    running
        .wait_for(|status| status.stored_records == [0, 10, 0])
        .await;
    assert_eq!(query(&direct, COUNT).await, "10,10");
}

/// A server that goes away in the middle of an insert of many pieces, as one that is killed does. Found
/// by `scripts/torture`: the client took the end of the connection for success.
#[tokio::test]
async fn an_insert_that_is_cut_off_is_no_success() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint {
        url: format!("http://{}", listener.local_addr().unwrap()),
        user: "default".to_owned(),
        password: Secret::default(),
    };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = vec![0; 50_000];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut some)
                .await
                .ok();
            // Dropped with bytes unread: a reset.
        }
    });
    let client = Client::at(endpoint).unwrap();
    for _ in 0..20 {
        let pieces = vec![bytes::Bytes::from(vec![7; 20_000]); 100];
        let insert = "INSERT INTO t FORMAT Native";
        let result = client
            .insert(insert, &[], pieces, Duration::from_secs(10))
            .await;
        assert!(result.is_err());
    }
}
