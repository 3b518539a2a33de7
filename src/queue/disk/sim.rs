//! A directory in memory that behaves as badly as a real one may.
//!
//! - A crash forgets what was not synced; of the unsynced writes each may be on the disk, or not, or
//!   torn; of the unsynced names the first few are.
//! - After a failed sync the writes before it look as if they were there and will never be, even when
//!   a later sync succeeds.
//! - A failed write may have written a part.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::io::{File, Io};

/// What an operation does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Enospc,
    Eio,
    /// From here on nothing works until [`Disk::restart`].
    Crash,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                let end = at + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(new);
            }
            Change::Truncate(len) => bytes.resize(*len, 0),
        }
    }
}

#[derive(Debug, Clone)]
enum Naming {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Naming::Link(name, node) => {
                names.insert(name.clone(), *node);
            }
            Naming::Unlink(name) => {
                names.remove(name);
            }
            Naming::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Node {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsynced_names: Vec<Naming>,
    nodes: BTreeMap<u64, Node>,
    /// Operations until the fault, the fault, and how many operations it lasts.
    fault: Option<(u32, Fault, u32)>,
    crashed: bool,
    /// A file that may not be opened, under whatever directory.
    forbidden: Option<String>,
    random: u64,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    inner: Arc<Mutex<Inner>>,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        let disk = Disk::default();
        disk.inner().random = seed | 1;
        disk
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Lets an operation fail, so many from now, and `lasts - 1` after it.
    pub(super) fn fail_after(&self, operations: u32, fault: Fault, lasts: u32) {
        self.inner().fault = Some((operations, fault, lasts));
    }

    pub(super) fn heal(&self) {
        self.inner().fault = None;
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.inner().crashed
    }

    /// Power off and on.
    pub(super) fn restart(&self) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        inner.fault = None;
        inner.crashed = false;
        let mut names = inner.durable_names.clone();
        let unsynced = std::mem::take(&mut inner.unsynced_names);
        let survive = random(&mut inner.random) as usize % (unsynced.len() + 1);
        for naming in &unsynced[..survive] {
            naming.apply(&mut names);
        }
        for node in inner.nodes.values_mut() {
            for change in std::mem::take(&mut node.unsynced) {
                match (random(&mut inner.random) % 3, change) {
                    (0, change) => change.apply(&mut node.durable),
                    (1, Change::Write(at, mut bytes)) => {
                        let torn = random(&mut inner.random) as usize % (bytes.len() + 1);
                        bytes.truncate(torn);
                        Change::Write(at, bytes).apply(&mut node.durable);
                    }
                    _ => {}
                }
            }
            node.now.clone_from(&node.durable);
        }
        inner.durable_names.clone_from(&names);
        inner.names = names;
    }

    /// Lets nobody open a file, or everybody again.
    pub(super) fn forbid(&self, name: &str, forbidden: bool) {
        self.inner().forbidden = forbidden.then(|| name.to_owned());
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.inner().names.keys().cloned().collect()
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Enospc => io::ErrorKind::StorageFull.into(),
        Fault::Eio => rustix::io::Errno::IO.into(),
        Fault::Crash => io::Error::other("the machine is off"),
    }
}

impl Inner {
    /// Counts an operation, and says how it fails.
    fn operate(&mut self) -> Option<Fault> {
        if self.crashed {
            return Some(Fault::Crash);
        }
        let (after, fault, lasts) = self.fault?;
        if after > 0 {
            self.fault = Some((after - 1, fault, lasts));
            return None;
        }
        self.fault = (lasts > 1).then_some((0, fault, lasts - 1));
        self.crashed = fault == Fault::Crash;
        Some(fault)
    }

    fn check(&mut self) -> io::Result<()> {
        self.operate().map_or(Ok(()), |fault| Err(error(fault)))
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.unsynced_names.push(naming);
    }
}

impl Io for Disk {
    fn list(&self, sub: &str) -> io::Result<Vec<String>> {
        let mut inner = self.inner();
        inner.check()?;
        let here = |name: &String| match name.rsplit_once('/') {
            Some((dir, name)) => (dir == sub).then(|| name.to_owned()),
            None => sub.is_empty().then(|| name.clone()),
        };
        Ok(inner.names.keys().filter_map(here).collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut inner = self.inner();
        inner.check()?;
        let node = inner.nodes.len() as u64;
        inner.nodes.insert(node, Node::default());
        inner.name(Naming::Link(name.to_owned(), node));
        drop(inner);
        Ok(Box::new(Handle {
            disk: self.clone(),
            node,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut inner = self.inner();
        inner.check()?;
        let node = *inner.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        if inner.forbidden.as_ref().is_some_and(|f| name.ends_with(f)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        drop(inner);
        Ok(Box::new(Handle {
            disk: self.clone(),
            node,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.check()?;
        inner.name(Naming::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.check()?;
        if !inner.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        inner.name(Naming::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.check()?;
        inner.durable_names = inner.names.clone();
        inner.unsynced_names.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

struct Handle {
    disk: Disk,
    node: u64,
}

impl Handle {
    fn change(&self, inner: &mut Inner, change: Change) {
        let node = inner.nodes.get_mut(&self.node).unwrap();
        change.apply(&mut node.now);
        node.unsynced.push(change);
    }
}

impl File for Handle {
    fn write_at(&self, offset: u64, buffers: &[&[u8]]) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let mut bytes = buffers.concat();
        let fault = inner.operate();
        if fault.is_some() {
            let part = random(&mut inner.random) as usize % (bytes.len() + 1);
            bytes.truncate(part);
        }
        self.change(&mut inner, Change::Write(offset as usize, bytes));
        fault.map_or(Ok(()), |fault| Err(error(fault)))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.disk.inner();
        inner.check()?;
        let bytes = &inner.nodes[&self.node].now;
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let read = from.len().min(buffer.len());
        buffer[..read].copy_from_slice(&from[..read]);
        Ok(read)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner().nodes[&self.node].now.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        inner.check()?;
        self.change(&mut inner, Change::Truncate(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let fault = inner.operate();
        let node = inner.nodes.get_mut(&self.node).unwrap();
        match fault {
            None => {
                for change in std::mem::take(&mut node.unsynced) {
                    change.apply(&mut node.durable);
                }
                Ok(())
            }
            Some(Fault::Crash) => Err(error(Fault::Crash)),
            Some(fault) => {
                // The pages are clean now, and were never written.
                node.unsynced.clear();
                Err(error(fault))
            }
        }
    }
}
