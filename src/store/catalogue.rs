//! The catalogue of fields: which keys records had on each day, and in about how many records.
//!
//! The writer notes the keys of what it has stored. A key that is new for its day goes into the table
//! before the queue forgets the records that have it, so that a crash loses no name; counts go every
//! half minute, and a crash may lose some or count some twice. Nothing here can fail an insert of
//! records: what does not work is tried again later, and whoever waits for it waits a second at most.
//!
//! Everything is bounded: a node notes [`tally::MOST`] names a day, each of [`tally::LONGEST`] bytes.

mod fill;
mod read;
mod table;
mod tally;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{debug, warn};

pub(super) use self::table::{create, name, ttl};
use self::tally::{Row, Tally};
use super::{Client, Error, Kind, Schema};
use crate::frame::{self, Frame};

/// How often counts go to the table, and how long after a failure nobody waits for it again.
const EVERY: Duration = Duration::from_secs(30);
/// Longest insert; the queue may wait for it before it forgets a claim.
const WITHIN: Duration = Duration::from_secs(1);
const SETTINGS: [(&str, &str); 1] = [("async_insert", "0")];

/// Notes the fields of stored records. All clones are one catalogue.
#[derive(Clone)]
pub(super) struct Catalogue {
    client: Client,
    schema: Schema,
    /// The database's name as it is, not as an identifier.
    database: Arc<str>,
    tally: Arc<Mutex<Tally>>,
    /// Held by whoever inserts.
    pace: Arc<tokio::sync::Mutex<Pace>>,
}

struct Pace {
    /// When counts are due.
    due: Instant,
    /// Until when new names wait, too, because the table did not take any.
    resting_until: Instant,
}

impl Catalogue {
    pub(super) fn new(client: Client, schema: Schema, database: &str) -> Catalogue {
        let now = Instant::now();
        Catalogue {
            client,
            schema,
            database: database.into(),
            tally: Arc::default(),
            pace: Arc::new(tokio::sync::Mutex::new(Pace {
                due: now + EVERY,
                resting_until: now,
            })),
        }
    }

    /// Notes the keys of frames that are stored. Afterwards those that are new are in the table, unless
    /// the table is away.
    pub(super) async fn note(&self, frames: &[Frame]) {
        let (tally, frames) = (Arc::clone(&self.tally), frames.to_vec());
        // Some milliseconds for a large claim.
        let counted = tokio::task::spawn_blocking(move || count(&tally, &frames)).await;
        let has_new = counted.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if has_new {
            let mut pace = self.pace.lock().await;
            if pace.resting_until <= Instant::now() {
                self.insert(&mut pace).await;
            }
        }
    }

    /// Inserts the counts that wait, if it is time.
    pub(super) async fn tick(&self) {
        let mut pace = self.pace.lock().await;
        if pace.due <= Instant::now() {
            self.insert(&mut pace).await;
        }
    }

    /// Inserts all that waits, at the end.
    pub(super) async fn finish(&self) {
        let mut pace = self.pace.lock().await;
        self.insert(&mut pace).await;
    }

    async fn insert(&self, pace: &mut Pace) {
        let rows = locked(&self.tally).waiting();
        pace.due = Instant::now() + EVERY;
        if rows.is_empty() {
            return;
        }
        let mut result = self.insert_rows(&rows).await;
        if result
            .as_ref()
            .is_err_and(|error| error.kind() == Kind::Schema)
        {
            // Somebody dropped the table.
            result = match self.client.execute(&self.schema.field_names()).await {
                Ok(()) => self.insert_rows(&rows).await,
                Err(error) => Err(error),
            };
        }
        match result {
            Ok(()) => locked(&self.tally).stored(&rows),
            Err(error) => {
                debug!(%error, names = rows.len(), "field names are not stored, will retry");
                pace.due = Instant::now() + EVERY;
                pace.resting_until = pace.due;
            }
        }
    }

    async fn insert_rows(&self, rows: &[Row]) -> Result<(), Error> {
        let table = name(self.schema.database());
        let sql = format!("INSERT INTO {table} (day, kind, name, records) FORMAT JSONEachRow");
        let body: Bytes = rows.iter().map(Row::line).collect::<String>().into();
        self.client.insert(&sql, &SETTINGS, [body], WITHIN).await
    }
}

/// Adds the keys of frames to the tally; says whether one is new.
fn count(tally: &Mutex<Tally>, frames: &[Frame]) -> bool {
    let today = jiff::Timestamp::now().as_second().div_euclid(86_400);
    let mut has_new = false;
    for frame in frames {
        // One that cannot be read was buried.
        let counts = frame::keys(frame).unwrap_or_default();
        let mut tally = locked(tally);
        tally.begin(today);
        for count in &counts {
            has_new |= tally.add(count);
        }
        if tally.is_first_left_out() {
            warn!(
                most = tally::MOST,
                "records have more field names than the catalogue notes in a day; the others are not offered"
            );
        }
    }
    has_new
}

fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
