//! A writer at work, with a queue before it.

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use watchtower::queue::Queue;
use watchtower::queue::dead::DeadLetters;
use watchtower::store::{Client, Writer, WriterStatus};

use super::engine::TestEngine;

/// Rows and different messages in the table.
pub(crate) const COUNT: &str = "SELECT count(), uniqExact(message) FROM watchtower.logs FORMAT CSV";

/// A writer that runs until it is drained or dropped.
pub(crate) struct Running {
    pub(crate) queue: Queue,
    pub(crate) dead: DeadLetters,
    pub(crate) status: watch::Receiver<WriterStatus>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts a writer on the queue of the engine's state directory.
    pub(crate) fn start(engine: &TestEngine, client: Client) -> Running {
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

    pub(crate) async fn wait_for(&mut self, condition: impl FnMut(&WriterStatus) -> bool) {
        let reached = timeout(Duration::from_secs(30), self.status.wait_for(condition)).await;
        drop(reached.expect("in time").expect("the writer runs"));
    }

    /// Ends the writer in the middle of whatever it does, as a crash would, and closes the queue.
    pub(crate) async fn crash(self) {
        self.task.abort();
        self.task.await.ok();
        self.queue.close().await;
    }

    /// Asks the writer to drain the queue and waits for its end.
    pub(crate) async fn drain(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        timeout(Duration::from_secs(30), self.task)
            .await
            .expect("in time")
            .unwrap();
    }
}
