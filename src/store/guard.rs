//! Keeps the store within its bytes and the disk from filling: drops the oldest days.
//!
//! A day is a partition, and goes whole. Today's never goes, nor what lies ahead of it.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::{debug, error, warn};

use super::schema::quoted;
use super::{Client, Error};
use crate::config::{ByteSize, Config};
use crate::queue::disk::free_bytes;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(60);
const WITHIN: Duration = Duration::from_secs(30);
/// Of a bound, where the first warning comes.
const WARN_PERCENT: u64 = 90;

/// What the store holds, and what the guard did since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuardStatus {
    /// Bytes on disk; none before the first look.
    pub bytes: Option<u64>,
    /// Days dropped.
    pub dropped_days: u64,
    /// Records dropped with them.
    pub dropped_records: u64,
}

/// A partition of the records table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Day {
    /// As in `2026-12-01`, UTC.
    date: String,
    bytes: u64,
    records: u64,
}

/// See the module.
pub struct Guard {
    client: Client,
    database: String,
    max_disk: Option<u64>,
    /// The embedded engine's directory, and the bytes to be left free on its disk.
    min_free: Option<(PathBuf, u64)>,
    has_warned: bool,
    status: watch::Sender<GuardStatus>,
}

impl Guard {
    /// A guard by `store.max_disk` and, for the embedded engine, `store.min_free`.
    #[must_use]
    pub fn new(client: Client, config: &Config) -> Guard {
        let bound = |size: ByteSize| (size.as_u64() > 0).then_some(size.as_u64());
        let own_disk = config.store.url.is_none().then(|| config.state_dir.clone());
        Guard {
            client,
            database: config.store.database.clone(),
            max_disk: bound(config.store.max_disk),
            min_free: own_disk.zip(bound(config.store.min_free)),
            has_warned: false,
            status: watch::Sender::default(),
        }
    }

    /// What it found and did.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<GuardStatus> {
        self.status.subscribe()
    }

    /// Looks every minute, for ever.
    pub async fn run(mut self) {
        let mut interval = tokio::time::interval(EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = self.look().await {
                debug!(%error, "could not look at the store's size");
            }
        }
    }

    /// Looks once, and drops what is too much.
    ///
    /// # Errors
    /// When ClickHouse does not answer or refuses.
    pub async fn look(&mut self) -> Result<(), Error> {
        let days = self.days(true).await?;
        let bytes: u64 = days.iter().map(|day| day.bytes).sum();
        self.status.send_modify(|status| status.bytes = Some(bytes));
        let mut excess = self.max_disk.map_or(0, |max| bytes.saturating_sub(max));
        let mut why = "store.max_disk";
        let free = self.min_free.as_ref().and_then(|(path, floor)| {
            let free = free_bytes(path).ok()?;
            Some((free, *floor))
        });
        if let Some((free, floor)) = free {
            // What was dropped before is taken off the disk some minutes later.
            let coming: u64 = self.days(false).await?.iter().map(|day| day.bytes).sum();
            let lacking = floor.saturating_sub(free.saturating_add(coming));
            if lacking > excess {
                (excess, why) = (lacking, "store.min_free");
            }
        }
        self.warn(bytes, free);
        let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        for day in too_old(&days, excess, &today) {
            self.drop_day(day, why).await?;
        }
        Ok(())
    }

    async fn drop_day(&self, day: &Day, why: &str) -> Result<(), Error> {
        let Day {
            date,
            bytes,
            records,
        } = day;
        let database = quoted(&self.database);
        let drop = format!("ALTER TABLE {database}.logs DROP PARTITION '{date}'");
        self.client.execute(&drop).await?;
        let names = super::catalogue::name(&database);
        let forget = format!("ALTER TABLE {names} DELETE WHERE day = '{date}'");
        if let Err(error) = self.client.execute(&forget).await {
            debug!(%error, date, "field names of a dropped day are not forgotten");
        }
        error!(
            date,
            records,
            bytes,
            bound = why,
            "oldest day dropped to make room"
        );
        self.status.send_modify(|status| {
            status.bytes = status.bytes.map(|all| all.saturating_sub(*bytes));
            status.dropped_days += 1;
            status.dropped_records += records;
        });
        Ok(())
    }

    /// Says once that a bound is near.
    fn warn(&mut self, bytes: u64, free: Option<(u64, u64)>) {
        let near = |used: u64, bound: u64| used >= bound / 100 * WARN_PERCENT;
        let by_size = self.max_disk.is_some_and(|max| near(bytes, max));
        let by_room = free.is_some_and(|(free, floor)| near(floor, free));
        if (by_size || by_room) && !self.has_warned {
            let free = free.map(|(free, _)| free);
            warn!(
                bytes,
                ?free,
                "the oldest days will be dropped soon; see `store.max_disk`, `store.min_free` and `retention`"
            );
        }
        self.has_warned = by_size || by_room;
    }

    /// The days that are there, or of which the files wait to be removed; oldest first.
    async fn days(&self, active: bool) -> Result<Vec<Day>, Error> {
        let database = super::Param::text("database", &self.database);
        let sql = format!(
            "SELECT partition, sum(bytes_on_disk), sum(rows) FROM system.parts \
             WHERE database = {{database:String}} AND table = 'logs' AND active = {} \
             GROUP BY partition ORDER BY partition FORMAT TabSeparated",
            u8::from(active)
        );
        let answer = self.client.select(&sql, &[], &[database], WITHIN).await?;
        let text = String::from_utf8_lossy(&answer);
        let day = |line: &str| {
            let mut fields = line.split('\t');
            Some(Day {
                date: fields.next()?.to_owned(),
                bytes: fields.next()?.parse().ok()?,
                records: fields.next()?.parse().ok()?,
            })
        };
        Ok(text.lines().filter_map(day).collect())
    }
}

/// The oldest days before today that together have so many bytes, or all of them.
fn too_old<'a>(days: &'a [Day], excess: u64, today: &str) -> Vec<&'a Day> {
    let mut left = excess;
    let old = days.iter().filter(|day| day.date.as_str() < today);
    old.take_while(|day| {
        let is_wanted = left > 0;
        left = left.saturating_sub(day.bytes);
        is_wanted
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_of_the_oldest_go_as_it_takes_but_never_today() {
        let days: Vec<Day> = [
            ("2026-11-28", 10),
            ("2026-11-29", 5),
            ("2026-12-01", 70),
            ("2026-12-02", 1),
        ]
        .map(|(date, bytes)| Day {
            date: date.to_owned(),
            bytes,
            records: 1,
        })
        .to_vec();
        for (excess, gone) in [(0, 0), (1, 1), (10, 1), (11, 2), (15, 2), (80, 2)] {
            let found = too_old(&days, excess, "2026-12-01");
            assert_eq!(
                found,
                days.iter().take(gone).collect::<Vec<_>>(),
                "{excess}"
            );
        }
    }
}
