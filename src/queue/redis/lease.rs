//! Leases: this worker's, its node number, and those of workers that are gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};

use super::connect::{Endpoint, random, words};
use super::scripts;
use super::worker::{Shared, unsealed_name};
use crate::queue::{Error, now_ms};

/// Node numbers: ids have ten bits for them.
const NODES: u16 = 1 << 10;
/// A node number is kept this many times as long as a worker's lease: a number that two daemons use at
/// once could give the same id twice, while a number that lies idle costs nothing.
const NODE_LEASES: u64 = 20;

/// A node number on loan.
#[derive(Debug, Clone)]
pub(super) struct Node {
    number: u16,
    holder: String,
}

/// Renews the leases and adopts, until told to stop.
pub(super) struct Keeper {
    pub(super) endpoint: Endpoint,
    pub(super) shared: Arc<Shared>,
    pub(super) node: watch::Receiver<Option<Node>>,
    pub(super) adopted: Arc<Notify>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Keeper {
    pub(super) async fn run(self) {
        let mut connection = None;
        let mut stop = self.stop.clone();
        let period = Duration::from_millis((self.shared.lease_ms / 4).max(50));
        loop {
            let round = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                round = self.round(&mut connection) => round,
            };
            if let Err(error) = round {
                // Appends and claims tell of a Redis that is away; this only comes back with it.
                tracing::debug!(error = words(&error), "leases were not renewed");
                connection = None;
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(period) => {}
            }
        }
    }

    async fn round(&self, kept: &mut Option<MultiplexedConnection>) -> Result<(), RedisError> {
        let connection = match kept {
            Some(connection) => connection,
            None => kept.insert(self.endpoint.connect().await?),
        };
        let (shared, keys) = (&self.shared, &self.shared.keys);
        let epoch = shared.epoch();
        if !epoch.is_empty() {
            let lease = keys.lease(&shared.worker);
            renew(connection, &lease, &epoch, shared.lease_ms).await?;
        }
        let node = self.node.borrow().clone();
        if let Some(node) = node {
            self.renew_node(connection, &node).await?;
        }
        if !epoch.is_empty() {
            self.adopt(connection, &epoch).await?;
        }
        self.audit(connection).await
    }

    /// Notices that frames are gone which nobody took.
    async fn audit(&self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        let keys = &self.shared.keys;
        let (missing, a, b, c): (i64, u64, u64, u64) = scripts::AUDIT
            .key(keys.depth())
            .key(keys.queue())
            .key(keys.workers())
            .arg(keys.claim(""))
            .arg(keys.claims(""))
            .arg(keys.sealed_of_all())
            .invoke_async(connection)
            .await?;
        let vanished = self.shared.vanished.lock();
        let mut vanished = vanished.unwrap_or_else(PoisonError::into_inner);
        if missing > 0 && missing != vanished.missing {
            tracing::error!(
                frames = missing,
                "frames have vanished from redis; does it evict keys, or did somebody delete them?"
            );
        }
        vanished.missing = missing;
        if missing > 0 && a + b + c > 0 {
            vanished.missing = 0;
            vanished.times += 1;
            for (sum, lost) in vanished.records.iter_mut().zip([a, b, c]) {
                *sum += lost;
            }
        }
        Ok(())
    }

    async fn renew_node(
        &self,
        connection: &mut MultiplexedConnection,
        node: &Node,
    ) -> Result<(), RedisError> {
        let key = self.shared.keys.node(node.number);
        let ms = self.shared.lease_ms * NODE_LEASES;
        if renew(connection, &key, &node.holder, ms).await?
            || take(connection, &key, &node.holder, ms).await?
        {
            return Ok(());
        }
        tracing::error!(
            node = node.number,
            "another daemon has this daemon's node number: it was away for too long; start it again to get another number"
        );
        Ok(())
    }

    /// Takes over the lists of workers without a lease.
    async fn adopt(
        &self,
        connection: &mut MultiplexedConnection,
        epoch: &str,
    ) -> Result<(), RedisError> {
        let (shared, keys) = (&self.shared, &self.shared.keys);
        let workers: Vec<String> = redis::cmd("SMEMBERS")
            .arg(keys.workers())
            .query_async(connection)
            .await?;
        for worker in workers.iter().filter(|worker| **worker != shared.worker) {
            let taken: i64 = scripts::ADOPT
                .key(keys.lease(worker))
                .key(keys.claim(worker))
                .key(keys.claims(worker))
                .key(keys.lease(&shared.worker))
                .key(keys.claims(&shared.worker))
                .key(keys.workers())
                .arg(epoch)
                .arg(shared.lease_ms)
                .arg(keys.sealed(worker, ""))
                .arg(keys.sealed(&shared.worker, ""))
                .arg(worker)
                .arg(unsealed_name(worker))
                .arg(now_ms())
                .invoke_async(connection)
                .await?;
            if taken > 0 {
                tracing::warn!(
                    worker,
                    lists = taken,
                    "took over what a silent worker had claimed"
                );
                shared.adopted.store(true, Ordering::Release);
                self.adopted.notify_waiters();
            }
        }
        Ok(())
    }
}

async fn renew(
    connection: &mut MultiplexedConnection,
    key: &str,
    value: &str,
    ms: u64,
) -> Result<bool, RedisError> {
    scripts::RENEW
        .key(key)
        .arg(value)
        .arg(ms)
        .invoke_async(connection)
        .await
}

async fn take(
    connection: &mut MultiplexedConnection,
    key: &str,
    value: &str,
    ms: u64,
) -> Result<bool, RedisError> {
    let taken: Option<String> = redis::cmd("SET")
        .arg(key)
        .arg(value)
        .arg("NX")
        .arg("PX")
        .arg(ms)
        .query_async(connection)
        .await?;
    Ok(taken.is_some())
}

/// Finds a node number that nobody has.
pub(super) async fn lease_node(endpoint: &Endpoint, shared: &Shared) -> Result<Node, Error> {
    let failed = |error: RedisError| Error::Redis(words(&error));
    let mut connection = endpoint.connect().await.map_err(failed)?;
    let holder = format!("{}:{:016x}", shared.worker, random());
    let ms = shared.lease_ms * NODE_LEASES;
    for number in 0..NODES {
        let key = shared.keys.node(number);
        if take(&mut connection, &key, &holder, ms)
            .await
            .map_err(failed)?
        {
            return Ok(Node { number, holder });
        }
    }
    Err(Error::Redis(format!("all {NODES} node numbers are taken")))
}

impl Node {
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Gives the number back, so that the next daemon can have it at once.
    pub(super) async fn give_back(&self, endpoint: &Endpoint, shared: &Shared) {
        let work = async {
            let mut connection = endpoint.connect().await?;
            renew(
                &mut connection,
                &shared.keys.node(self.number),
                &self.holder,
                0,
            )
            .await
        };
        if let Err(error) = work.await {
            tracing::debug!(error = words(&error), "the node number runs out by itself");
        }
    }
}
