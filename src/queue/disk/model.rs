//! The model: whatever is appended, claimed and acknowledged, and wherever the disk fails or the
//! machine stops, every receipt is delivered until it is acknowledged, in order, nothing is invented,
//! and a claim that was handed out comes out again whole and under its token.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use super::io::Io;
use super::log::Log;
use super::sim::{Disk, Fault};
use super::state::{Choice, Selection, State};
use super::{Position, read, recovery};
use crate::config::{ByteSize, DiskQueueConfig, Fsync, Period};
use crate::frame::Frame;
use crate::queue::testing::frame;
use crate::queue::{Claim, ClaimKey, ClaimLimits, token};

#[derive(Debug, Clone)]
enum Op {
    /// Frames of these sizes, in one group.
    Append(Vec<usize>),
    Claim(usize),
    /// Which of the claims that are out.
    Ack(usize),
    Flush,
    /// After so many operations of the disk, for so many.
    Fail(u32, Fault, u32),
    Heal,
    /// Power off and on.
    Crash,
    /// As that, and once more after so many operations of the start.
    CrashTwice(u32),
    /// A clean end and a start.
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop::collection::vec(0usize..2000, 1..5).prop_map(Op::Append),
        5 => (1usize..8).prop_map(Op::Claim),
        4 => (0usize..4).prop_map(Op::Ack),
        1 => Just(Op::Flush),
        2 => (0u32..12, prop_oneof![Just(Fault::Enospc), Just(Fault::Eio)], 1u32..4)
            .prop_map(|(after, fault, lasts)| Op::Fail(after, fault, lasts)),
        2 => (0u32..20).prop_map(|after| Op::Fail(after, Fault::Crash, 1)),
        1 => Just(Op::Heal),
        1 => Just(Op::Crash),
        1 => (0u32..30).prop_map(Op::CrashTwice),
        1 => Just(Op::Restart),
    ]
}

/// Whether something has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    There,
    /// Its operation failed half-way, or was not synced before a crash.
    Open,
}

struct Run {
    disk: Disk,
    config: DiskQueueConfig,
    cache: u64,
    log: Log,
    state: Arc<Mutex<State>>,
    next_id: u64,
    /// Frames that no claim has, in order.
    waiting: VecDeque<(u64, Is)>,
    /// Frames refused since the last success, in the order of their ids.
    refused: Vec<u64>,
    /// Claims sealed and not acknowledged, in order.
    claims: Vec<(Claim, Is)>,
    /// Claims whose seal failed half-way since the last that did not: one of them may come out.
    half_sealed: Vec<Vec<Frame>>,
    /// Claims that a start has found and not handed out yet.
    due_again: VecDeque<(Claim, Is)>,
}

fn ids(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|f| f.header().first_id).collect()
}

impl Run {
    fn new(seed: u64, fsync: Fsync, cache: u64) -> Run {
        let disk = Disk::new(seed);
        let config = DiskQueueConfig {
            segment_bytes: ByteSize::bytes(6000),
            min_free: ByteSize::bytes(0),
            fsync,
            ..DiskQueueConfig::default()
        };
        let (log, state) = start(&disk, &config, cache).unwrap();
        Run {
            disk,
            config,
            cache,
            log,
            state,
            next_id: 1,
            waiting: VecDeque::new(),
            refused: Vec::new(),
            claims: Vec::new(),
            half_sealed: Vec::new(),
            due_again: VecDeque::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(sizes) => self.append(sizes),
            Op::Claim(rows) => self.claim(*rows),
            Op::Ack(which) => self.ack(*which),
            Op::Flush => drop(self.log.flush()),
            Op::Fail(after, fault, lasts) => self.disk.fail_after(*after, *fault, *lasts),
            Op::Heal => self.disk.heal(),
            Op::Crash => self.crash(None),
            Op::CrashTwice(after) => self.crash(Some(*after)),
            Op::Restart => {
                self.disk.heal();
                self.log.close().unwrap();
                self.crash(None);
            }
        }
        if self.disk.has_crashed() {
            self.crash(None);
        }
    }

    fn append(&mut self, sizes: &[usize]) {
        let frames: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(i, size)| frame(self.next_id + i as u64, 1, *size))
            .collect();
        self.next_id += frames.len() as u64;
        let result = self.log.append(&frames);
        let new = ids(&frames);
        match result {
            Ok(()) => {
                self.waiting
                    .extend(new.into_iter().map(|id| (id, Is::There)));
                self.refused.clear();
            }
            Err(_) if self.disk.has_crashed() => {
                self.waiting
                    .extend(new.into_iter().map(|id| (id, Is::Open)));
            }
            Err(_) => self.refused.extend(new),
        }
    }

    fn claim(&mut self, rows: usize) {
        // The thread does this as soon as the period is over.
        if self.log.is_homeless() && self.log.flush().is_err() {
            return;
        }
        let limits = ClaimLimits {
            rows,
            bytes: 4000,
            delay: Duration::ZERO,
        };
        let claim = match take(&mut self.log, &self.state, &self.disk, &limits) {
            Taken::Nothing => {
                let all_open = self.waiting.iter().all(|(_, is)| *is == Is::Open);
                assert!(all_open, "nothing comes out, but {:?} wait", self.waiting);
                assert!(self.due_again.iter().all(|(_, is)| *is == Is::Open));
                return;
            }
            Taken::Failed(frames) => {
                self.half_sealed.extend(frames);
                return;
            }
            Taken::Claim(claim) => claim,
        };
        assert_eq!(claim.token, token(&claim.frames));
        if claim.redelivered {
            loop {
                let (expected, is) = self
                    .due_again
                    .pop_front()
                    .expect("no other claim was sealed");
                if expected.token == claim.token {
                    assert_eq!(expected.frames, claim.frames);
                    break;
                }
                assert_eq!(is, Is::Open, "claim {} is missing", expected.token);
            }
        } else {
            assert!(self.due_again.iter().all(|(_, is)| *is == Is::Open));
            self.due_again.clear();
            self.half_sealed.clear();
            self.take_from_waiting(&claim.frames);
        }
        self.claims.push((claim, Is::There));
    }

    /// These frames are the next; those left out may only be such as need not be there.
    fn take_from_waiting(&mut self, frames: &[Frame]) {
        for id in ids(frames) {
            loop {
                let (expected, is) = self.waiting.pop_front().expect("nothing is invented");
                if expected == id {
                    break;
                }
                assert_eq!(is, Is::Open, "frame {expected} is missing before {id}");
            }
        }
    }

    fn ack(&mut self, which: usize) {
        if self.claims.is_empty() {
            return;
        }
        let which = which % self.claims.len();
        let ClaimKey::Disk(key) = self.claims[which].0.key else {
            unreachable!("the disk queue made it");
        };
        match self.log.ack(&[key]) {
            Ok(()) => {
                self.half_sealed.clear();
                drop(self.claims.remove(which));
            }
            Err(_) => self.claims[which].1 = Is::Open,
        }
    }

    fn crash(&mut self, again: Option<u32>) {
        let unsynced = self.log.unsynced();
        for (id, is) in &mut self.waiting {
            if unsynced.contains(id) {
                *is = Is::Open;
            }
        }
        if self.log.has_to_cut() {
            let refused = std::mem::take(&mut self.refused);
            self.waiting
                .extend(refused.into_iter().map(|id| (id, Is::Open)));
            self.waiting.make_contiguous().sort_by_key(|(id, _)| *id);
        }
        self.refused.clear();
        self.disk.restart();
        if let Some(after) = again {
            self.disk.fail_after(after, Fault::Crash, 1);
            drop(start(&self.disk, &self.config, self.cache));
            self.disk.restart();
        }
        // What was handed out and what was not yet handed out again, oldest first.
        let mut sealed = std::mem::take(&mut self.claims);
        sealed.extend(self.due_again.drain(..));
        sealed.sort_by_key(|(claim, _)| ids(&claim.frames));
        self.due_again = sealed.into();
        (self.log, self.state) = start(&self.disk, &self.config, self.cache).unwrap();
        for frames in std::mem::take(&mut self.half_sealed) {
            let known = self.state.lock().unwrap();
            let sealed = known
                .ledger
                .sealed
                .values()
                .any(|s| s.token == token(&frames));
            drop(known);
            let expected = |(claim, _): &(Claim, Is)| claim.token == token(&frames);
            if sealed && !self.due_again.iter().any(expected) {
                self.take_from_waiting(&frames);
                self.due_again.push_back((
                    Claim {
                        token: token(&frames),
                        frames,
                        sealed_at: 0,
                        redelivered: true,
                        key: ClaimKey::Disk(0),
                    },
                    Is::There,
                ));
            }
        }
    }

    /// Everything comes out in the end, and leaves nothing behind.
    fn finish(mut self) {
        self.apply(&Op::Restart);
        for _ in 0..10_000 {
            let before = self.claims.len();
            self.claim(3);
            if self.claims.len() == before {
                break;
            }
            self.ack(before);
        }
        let state = self.state.lock().unwrap();
        assert_eq!(state.unacked, super::segment::Tally::default());
        assert_eq!(state.unclaimed, super::segment::Tally::default());
        assert_eq!(state.lost, super::segment::Tally::default());
        assert_eq!(state.oldest(), None);
        let segments = self
            .disk
            .names()
            .iter()
            .filter(|n| n.ends_with(".seg"))
            .count();
        assert!(segments <= 1, "{:?}", self.disk.names());
    }
}

fn start(
    disk: &Disk,
    config: &DiskQueueConfig,
    cache: u64,
) -> std::io::Result<(Log, Arc<Mutex<State>>)> {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let (mut state, cursor) = recovery::recover(&io, config.fsync != Fsync::Never)?;
    state.cache_limit = cache;
    let state = Arc::new(Mutex::new(state));
    let mut log = Log::new(io, config.clone(), Arc::clone(&state), cursor);
    log.prune();
    Ok((log, state))
}

enum Taken {
    Claim(Claim),
    Nothing,
    /// With the frames that were being sealed.
    Failed(Option<Vec<Frame>>),
}

/// As the queue's own `take`, without its thread.
fn take(log: &mut Log, state: &Mutex<State>, disk: &Disk, limits: &ClaimLimits) -> Taken {
    let again = state.lock().unwrap().redeliver.front().copied();
    if let Some(key) = again {
        let (sealed, segments) = {
            let state = state.lock().unwrap();
            let segments: Vec<_> = state.segments.iter().map(|(n, s)| (*n, s.len)).collect();
            (state.ledger.sealed[&key].clone(), segments)
        };
        let mut selection = Selection::new(sealed.from, 0);
        if read::fill(disk, &mut selection, &segments, sealed.to, &read::WHOLE).is_err() {
            return Taken::Failed(None);
        }
        state.lock().unwrap().redeliver.pop_front();
        return Taken::Claim(Claim {
            token: sealed.token,
            frames: selection.frames,
            sealed_at: sealed.sealed_at,
            redelivered: true,
            key: ClaimKey::Disk(key),
        });
    }
    let choice = state.lock().unwrap().choose(limits);
    let selection = match choice {
        Choice::Nothing => return Taken::Nothing,
        Choice::Chosen(selection) => selection,
        Choice::Read {
            from,
            segments,
            moves,
        } => {
            let mut selection = Selection::new(from, moves);
            let end = Position {
                segment: u64::MAX,
                offset: u64::MAX,
            };
            if read::fill(disk, &mut selection, &segments, end, limits).is_err() {
                return Taken::Failed(None);
            }
            selection
        }
    };
    let frames = selection.frames.clone();
    match log.seal(selection) {
        Ok(true) => match state.lock().unwrap().ready.pop_front() {
            Some(claim) => Taken::Claim(claim),
            None => Taken::Failed(None),
        },
        Ok(false) => Taken::Failed(None),
        Err(_) => Taken::Failed(Some(frames)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_receipt_is_delivered_in_order_whatever_fails(
        seed in any::<u64>(),
        always in any::<bool>(),
        cache in prop_oneof![Just(0u64), Just(5000), Just(1 << 20)],
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let fsync = if always { Fsync::Always } else { Fsync::Interval(Period::millis(100)) };
        let mut run = Run::new(seed, fsync, cache);
        for op in &ops {
            run.apply(op);
        }
        run.finish();
    }
}
