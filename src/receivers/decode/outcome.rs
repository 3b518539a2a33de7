//! What came of a body, as its sender is told.

use std::fmt::Write;

use crate::normalize::Repairs;
use crate::normalize::text::head;

/// Most rejections that are listed; all are counted.
const MAX_REJECTIONS: usize = 100;

/// Longest message to a sender. OTLP bounds the whole response.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Why nothing of a body was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not what they should be.
    #[error("cannot read {path} at byte {offset}: {what}")]
    Damaged {
        /// The field, such as `resource_logs[0].scope_logs[2].log_records[7].body`.
        path: String,
        /// The byte of the body, after decompression.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// There is nothing in a body that should hold JSON.
    #[error("body is empty where JSON should be")]
    Empty,
    /// The records would take far more memory than the body.
    #[error(
        "its records take more than {limit} bytes together, each with its resource and scope; send smaller batches"
    )]
    Expands {
        /// The limit in bytes.
        limit: usize,
    },
    /// There is no memory for the records now; the body may come again.
    #[error("too much is waiting to be queued: {used} of {cap} bytes; see `limits.in_flight`")]
    NoRoom {
        /// Bytes waiting.
        used: usize,
        /// Bytes that may wait.
        cap: usize,
    },
}

/// A record that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Its place in the body, from 0.
    pub index: u32,
    /// Why, and what to change.
    pub error: String,
}

/// What came of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Records the sink took.
    pub accepted: u32,
    /// Records that were not taken.
    pub rejected: u32,
    /// The first of those that were not taken.
    pub rejections: Vec<Rejection>,
    /// What to tell the sender, if anything: why records were rejected and what to change, or a
    /// warning. English, at most 1 KiB, never empty.
    pub message: Option<String>,
    /// What was mended.
    pub repairs: Repairs,
}

impl Outcome {
    /// Counts a rejection, and lists it while there is room.
    pub(super) fn reject(&mut self, index: u32, error: impl FnOnce() -> String) {
        self.rejected = self.rejected.saturating_add(1);
        if self.rejections.len() < MAX_REJECTIONS {
            self.rejections.push(Rejection {
                index,
                error: error(),
            });
        }
    }

    /// Completes the message: rejections first, then `warning`, then what the repairs say.
    pub(super) fn explain(&mut self, warning: Option<String>) {
        let mut message = String::new();
        if let Some(first) = self.rejections.first() {
            write!(
                message,
                "{} of {} records rejected; record {}: {}",
                self.rejected,
                u64::from(self.rejected) + u64::from(self.accepted),
                first.index,
                first.error
            )
            .expect("strings take all");
        }
        if self.repairs.legacy_logs > 0 {
            separate(&mut message);
            message.push_str(
                "logs in the form that OTLP had before 2022 (instrumentationLibraryLogs) are not read and \
                 were lost; update the sender",
            );
        }
        if let Some(warning) = warning {
            separate(&mut message);
            message.push_str(&warning);
        }
        message.truncate(head(&message, MAX_MESSAGE_BYTES).len());
        self.message = (!message.is_empty()).then_some(message);
    }
}

fn separate(message: &mut String) {
    if !message.is_empty() {
        message.push_str("; ");
    }
}
