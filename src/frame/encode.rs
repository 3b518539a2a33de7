//! Records to a Native block, column by column.

use super::{Frame, Seal};
use crate::record::{Group, Record, Sink};

/// Builds one Native block out of records.
#[derive(Debug, Default)]
pub struct BlockBuilder {}

/// A place in a [`BlockBuilder`] to go back to.
#[derive(Debug, Clone)]
pub struct Mark {}

impl BlockBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Records it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }
    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// About how many bytes the frame would have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        0
    }
    /// The place to which [`BlockBuilder::rollback`] goes back.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {}
    }
    /// Forgets every record that came after the mark.
    pub fn rollback(&mut self, _mark: &Mark) {}
    /// Makes the frame and leaves the builder empty, its buffers kept.
    pub fn seal(&mut self, seal: &Seal) -> Frame {
        Frame::seal(seal, [1, 0, 0], 0, |_| {})
    }
}

impl Sink for BlockBuilder {
    fn group(&mut self, _group: &Group<'_>) {}
    fn push(&mut self, _record: &Record<'_>) {}
}
