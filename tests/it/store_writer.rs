//! The writer against the real engine: what is in the queue is in the table, once.

use std::time::Duration;

use tokio::time::sleep;
use watchtower::frame::{Frame, Seal};

use crate::support::engine::{TestEngine, query};
use crate::support::records::{NODE, id_at, now_ms, numbered};
use crate::support::writer::{COUNT, Running};

#[tokio::test]
async fn queued_frames_are_stored_and_acknowledged() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    let mut running = Running::start(&engine, client.clone());
    for i in 0..10 {
        running.queue.append(numbered(i * 100, 100)).await.unwrap();
    }
    running
        .wait_for(|status| status.stored_records == [0, 1000, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "1000,1000");
    let queue = running.queue.clone();
    let dead = running.dead.clone();
    running.drain().await;
    assert_eq!(queue.depth().await.frames, 0);
    assert!(dead.list().unwrap().is_empty());
}

#[tokio::test]
async fn bad_frame_is_buried_alone_and_good_ones_are_stored() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    let bad = |sequence| {
        let seal = Seal {
            node: NODE,
            first_id: id_at(now_ms(), sequence),
            sealed_at: now_ms(),
            digests: vec![],
        };
        // A block that ends in the middle of its first column's name.
        Frame::seal(&seal, [0, 0, 3], 4, |out| out.extend([18, 3, 9, b't']))
    };
    let mut running = Running::start(&engine, client.clone());
    for i in 0..9 {
        let frame = match i {
            4 | 6 => bad(i as u64 * 100),
            _ => numbered(i * 100, 100),
        };
        running.queue.append(frame).await.unwrap();
    }
    running
        .wait_for(|status| status.buried_records == [0, 0, 6])
        .await;
    running
        .wait_for(|status| status.stored_records == [0, 700, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "700,700");
    let letters = running.dead.list().unwrap();
    assert_eq!(letters.len(), 2);
    assert!(letters[0].reason.code.is_some(), "{letters:?}");
    let queue = running.queue.clone();
    running.drain().await;
    assert_eq!(queue.depth().await.frames, 0);
}

#[tokio::test]
async fn killed_engine_costs_no_record_and_doubles_none() {
    let engine = TestEngine::start().await;
    let client = engine.client();
    let mut running = Running::start(&engine, client.clone());
    for i in 0..60 {
        running.queue.append(numbered(i * 500, 500)).await.unwrap();
        if i % 20 == 10 {
            engine.kill();
        }
        sleep(Duration::from_millis(50)).await;
    }
    running
        .wait_for(|status| status.stored_records == [0, 30_000, 0])
        .await;
    assert_eq!(query(&client, COUNT).await, "30000,30000");
}
