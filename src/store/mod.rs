//! The store: ClickHouse, as the daemon writes it and reads it.
//!
//! [`Client`] speaks to whatever [`Endpoint`] is current, [`Schema`] makes the tables, [`Writer`]
//! moves claims from the queue into them, [`Reader`] searches them.

mod backfill;
mod catalogue;
mod client;
mod condition;
mod error;
mod explore;
mod guard;
mod heard;
mod histogram;
mod life;
mod line;
mod param;
mod reader;
mod schema;
mod select;
mod stream;
mod windows;
mod writer;

pub use backfill::StoreBackfill;
pub use client::{Client, Endpoint, EndpointSource};
pub use error::{Error, Kind};
pub use guard::{Guard, GuardStatus};
pub use param::Param;
pub use reader::{Reader, ReaderLimits};
pub(crate) use schema::WORDS;
pub use schema::{Schema, statements, statements_for};
pub use stream::Stream;
pub use writer::{Writer, WriterStatus};
