//! The live view: committed frames in, Server-Sent Events out.
//!
//! - [`Hub::publish`] puts a frame into a ring of recent frames, bounded in bytes, and returns. It
//!   never waits for a viewer. Nobody watching: nothing else happens.
//! - One thread reads the ring while somebody watches. It decodes each frame once, evaluates each
//!   *distinct* query once, writes each matching record once, and hands the same bytes to every
//!   viewer of that filter. Falling behind the ring costs viewers records, which are counted and
//!   told, and costs intake nothing.
//! - A viewer has an [`outbox`] bounded in bytes. What does not fit is counted by level and told in
//!   its place in the stream (`skipped`).
//! - A [`Cursor`] is the last id of each node. Frames come in the order of their sealing, so ids of
//!   one node rise strictly, and a stream continues strictly after its cursor: from the ring while
//!   that reaches back far enough, else from the store ([`Backfill`]), else with a `gap`.
//!
//! `ring` holds the frames, `worker` is the thread, `channel` is one distinct query, `replay` is what a new viewer gets of
//! the past, `viewer` puts it all into one stream of bytes, `event` has the format of the stream.

mod backfill;
mod channel;
mod counts;
mod cursor;
mod event;
mod hub;
mod outbox;
mod rate;
mod record;
mod replay;
mod ring;
mod seats;
mod viewer;
mod worker;

#[cfg(test)]
mod tests;

pub use backfill::{Backfill, BackfillError, Backfilled};
pub use counts::LevelCounts;
pub use cursor::{Cursor, CursorError, node_of};
pub use hub::{Hub, HubConfig, HubStats, Subscribe};
pub(crate) use outbox::bye;
pub use record::{MESSAGE_LIMIT, StoredRecord};
pub use seats::{Seat, Seats, SeatsFull};
pub use viewer::Viewer;
