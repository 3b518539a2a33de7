//! A frame while one request fills it.

use super::{Error, Permit};
use crate::frame::BlockBuilder;
use crate::record::{Group, NoRoom, Record, Sink};

/// Takes the records of one request, and takes from the budget what they come to while they come: a
/// small body can ask for far more memory than its own size.
#[derive(Debug)]
pub struct Filling {
    pub(super) builder: BlockBuilder,
    /// The request's.
    pub(super) permit: Permit,
    /// Records of other requests, which came before.
    before: usize,
}

impl Filling {
    /// For a request whose records are thrown away.
    #[must_use]
    pub fn new(permit: Permit) -> Self {
        Self::of(BlockBuilder::new(), permit)
    }

    pub(super) fn of(builder: BlockBuilder, permit: Permit) -> Self {
        let before = builder.len();
        Self {
            builder,
            permit,
            before,
        }
    }

    /// Whether one of the request's records has this time, in nanoseconds since the epoch.
    #[must_use]
    pub fn has_time(&self, nanos: i64) -> bool {
        self.builder.has_time(self.before, nanos)
    }
}

impl Sink for Filling {
    fn group(&mut self, group: &Group<'_>) {
        self.builder.group(group);
    }

    fn push(&mut self, record: &Record<'_>) {
        self.builder.push(record);
    }

    fn hold(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.permit.cover(bytes).map_err(|error| match error {
            Error::Busy { used, cap } | Error::Receiving { used, cap } => NoRoom { used, cap },
            _ => NoRoom { used: 0, cap: 0 },
        })
    }
}
