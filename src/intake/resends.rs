//! Requests that were sent again: a client that got no answer in time sends the same bytes once more,
//! although the first ones were taken.
//!
//! A request is known by its digest ([`Digest`]): of its body, or of the key that its sender gave it.
//! It is *under way* from the moment at which its records are being added until their commit is done;
//! one with the same digest waits for the same outcome. When the commit failed the digest is free
//! again; when it went well the digest is remembered for the window (`intake.dedup_window`), and
//! requests with it are acknowledged without being stored.
//!
//! Digests survive a restart in two places: with their records in the queue (in the frame's header),
//! and in a journal (`resends/journal.rs`), which has them before a sender is answered and is kept
//! for as long as the window. Memory is bounded by `intake.dedup_requests`: about 60 bytes each.
//! A digest of a request of 300 KB (1,000 records) takes 70 µs on a busy machine of 2 cores, remembering
//! it below one.

mod journal;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use self::journal::Journal;
use super::{Error, Receipt, unix_millis};
use crate::config;

/// Names a request.
pub type Digest = [u8; 16];

/// The digest of a request: `seed` tells senders apart that have different tokens.
#[must_use]
pub fn digest(bytes: &[u8], seed: u64) -> Digest {
    xxhash_rust::xxh3::xxh3_128_with_seed(bytes, seed).to_le_bytes()
}

/// Whether a request was taken before.
#[derive(Debug)]
pub enum Seen {
    /// It was not: it is under way from now on.
    New(Ticket),
    /// It was, and the queue or the store has it.
    Before(Receipt),
}

/// A request that is under way. Dropping it frees the digest: the request came to nothing.
#[derive(Debug)]
#[must_use = "a ticket that is dropped says that the request came to nothing"]
pub struct Ticket {
    inner: Arc<Inner>,
    digest: Digest,
}

impl Ticket {
    /// The request's digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Those that wait learn of it by the end of their channel.
        self.inner.lock().under_way.remove(&self.digest);
    }
}

/// Recognizes requests. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Resends {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    window_ms: i64,
    most: usize,
    /// The time at the start, so that later changes of the clock do not matter.
    start: (Instant, i64),
}

#[derive(Debug, Default)]
struct State {
    accepted: HashSet<Digest>,
    /// The same, oldest first, with their times in milliseconds since the epoch.
    order: VecDeque<(Digest, i64)>,
    /// The channel is made when somebody waits.
    under_way: HashMap<Digest, Option<watch::Sender<()>>>,
    journal: Option<Journal>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        let (start, at) = self.start;
        at.saturating_add(i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}

impl State {
    fn remember(&mut self, digest: Digest, at: i64) {
        if self.accepted.insert(digest) {
            self.order.push_back((digest, at));
        }
    }

    fn trim(&mut self, since: i64, most: usize) {
        while let Some((digest, at)) = self.order.front().copied() {
            if at >= since && self.order.len() <= most {
                break;
            }
            self.order.pop_front();
            self.accepted.remove(&digest);
        }
    }
}

impl Resends {
    /// Recognizes what was taken before the start too, as far as the journal in `state_dir` has it.
    /// Without a readable journal it begins with nothing, and says so in the log.
    #[must_use]
    pub fn open(state_dir: &Path, config: &config::Intake) -> Resends {
        let resends = Resends::new(config);
        let since = resends.since();
        match Journal::open(state_dir, since, config.dedup_requests) {
            Ok((journal, known)) => {
                resends.learn(known);
                resends.inner.lock().journal = Some(journal);
            }
            Err(error) => {
                tracing::warn!(%error, path = %state_dir.display(), "the journal of accepted requests cannot be used; requests sent again after a restart are stored again");
            }
        }
        resends
    }

    fn new(config: &config::Intake) -> Resends {
        let window = config.dedup_window.duration().as_millis();
        Resends {
            inner: Arc::new(Inner {
                state: Mutex::default(),
                window_ms: i64::try_from(window).unwrap_or(i64::MAX),
                most: config.dedup_requests,
                start: (
                    Instant::now(),
                    i64::try_from(unix_millis()).unwrap_or(i64::MAX),
                ),
            }),
        }
    }

    /// What was accepted before this time, in milliseconds since the epoch, is forgotten.
    #[must_use]
    pub fn since(&self) -> i64 {
        self.inner.now_ms().saturating_sub(self.inner.window_ms)
    }

    /// Takes note of requests that were accepted at these times before the start.
    pub fn learn(&self, known: impl IntoIterator<Item = (Digest, i64)>) {
        let since = self.since();
        let mut state = self.inner.lock();
        let known = known.into_iter().filter(|(_, at)| *at >= since);
        known.for_each(|(digest, at)| state.remember(digest, at));
        state.order.make_contiguous().sort_by_key(|(_, at)| *at);
        state.trim(since, self.inner.most);
    }

    /// Begins a request, or waits until the same one that is under way is done.
    ///
    /// # Errors
    /// [`Error::Timeout`] when that takes longer than `within`.
    pub async fn begin(&self, digest: Digest, within: Duration) -> Result<Seen, Error> {
        let wait = async {
            loop {
                let mut done = match self.look(digest) {
                    Ok(seen) => return seen,
                    Err(done) => done,
                };
                // It never says anything; it ends.
                done.changed().await.ok();
            }
        };
        let seen = tokio::time::timeout(within, wait).await;
        seen.map_err(|_| Error::Timeout(within))
    }

    fn look(&self, digest: Digest) -> Result<Seen, watch::Receiver<()>> {
        let since = self.since();
        let mut state = self.inner.lock();
        state.trim(since, self.inner.most);
        if state.accepted.contains(&digest) {
            return Ok(Seen::Before(Receipt { num_records: 0 }));
        }
        if let Some(waiting) = state.under_way.get_mut(&digest) {
            let sender = waiting.get_or_insert_with(|| watch::Sender::new(()));
            return Err(sender.subscribe());
        }
        state.under_way.insert(digest, None);
        Ok(Seen::New(Ticket {
            inner: Arc::clone(&self.inner),
            digest,
        }))
    }

    /// Remembers the requests of a commit, which is done.
    pub(super) fn accept(tickets: Vec<Ticket>) {
        let Some(inner) = tickets.first().map(|ticket| Arc::clone(&ticket.inner)) else {
            return;
        };
        let now = inner.now_ms();
        let mut state = inner.lock();
        for ticket in &tickets {
            state.remember(ticket.digest, now);
        }
        let digests = tickets.iter().map(Ticket::digest);
        if let Some(journal) = &mut state.journal {
            journal.write(digests, now, now.saturating_sub(inner.window_ms));
        }
        drop(state);
        // Ends what others wait for.
        drop(tickets);
    }
}

#[cfg(test)]
mod tests;
