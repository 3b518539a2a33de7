//! The writer against the real engine: what is in the queue is in the table, once.

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use watchtower::queue::Queue;
use watchtower::queue::dead::DeadLetters;
use watchtower::store::{Client, Writer, WriterStatus};

use crate::support::engine::{TestEngine, query};
use crate::support::records::numbered;

const COUNT: &str = "SELECT count(), uniqExact(message) FROM watchtower.logs FORMAT CSV";

/// A writer at work, with the queue before it.
struct Running {
    queue: Queue,
    dead: DeadLetters,
    status: watch::Receiver<WriterStatus>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(engine: &TestEngine, client: Client) -> Running {
        let queue = Queue::open(&engine.config).unwrap();
        let dead = DeadLetters::open(&engine.config.state_dir.join("dead-letters")).unwrap();
        let writer = Writer::new(queue.clone(), client, dead.clone(), &engine.config);
        let (stop, stopped) = oneshot::channel();
        Running {
            queue,
            dead,
            status: writer.status(),
            stop: Some(stop),
            task: tokio::spawn(writer.run(async {
                stopped.await.ok();
            })),
        }
    }

    async fn wait_for(&mut self, condition: impl FnMut(&WriterStatus) -> bool) {
        let reached = timeout(Duration::from_secs(30), self.status.wait_for(condition)).await;
        drop(reached.expect("in time").expect("the writer runs"));
    }

    /// Asks the writer to drain the queue and waits for its end.
    async fn drain(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        timeout(Duration::from_secs(30), self.task)
            .await
            .expect("in time")
            .unwrap();
    }
}

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
