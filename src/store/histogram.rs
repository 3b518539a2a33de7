//! How many records there are when.

use super::condition::Where;
use super::explore::Row;
use super::{Error, Kind, Reader};
use crate::api::{Buckets, Histogram};

impl Reader {
    /// The time of the oldest record; the table's parts know it.
    pub(super) async fn oldest_time(&self) -> Result<Option<i64>, Error> {
        let sql = format!(
            "SELECT toString(count()) AS key, '' AS name, \
             toString(toUnixTimestamp64Nano(min(timestamp))) AS count\nFROM {}\nFORMAT JSONEachRow",
            self.table
        );
        let rows: Vec<Row> = self.rows(&sql, &[]).await?;
        let known = rows.first().filter(|row| row.key != "0");
        Ok(known.and_then(|row| row.count.parse().ok()))
    }

    /// Counts matching records by time and level.
    pub(super) async fn count(&self, buckets: &Buckets) -> Result<Histogram, Error> {
        let mut condition = Where::default();
        condition.query(&buckets.query);
        let (condition, params) = condition.finish();
        let Buckets {
            start, end, step, ..
        } = buckets;
        // All of these numbers are ours.
        let sql = format!(
            "SELECT toString(intDiv(toUnixTimestamp64Nano(l.timestamp) - {start}, {step})) AS key, level AS name, \
             toString(count()) AS count\nFROM {} AS l\n\
             WHERE l.timestamp >= fromUnixTimestamp64Nano({start}, 'UTC') \
             AND l.timestamp < fromUnixTimestamp64Nano({end}, 'UTC') AND {condition}\n\
             GROUP BY key, name\nFORMAT JSONEachRow",
            self.table
        );
        let rows: Vec<Row> = match self.rows(&sql, &params).await {
            Ok(rows) => rows,
            Err(error) if error.kind() == Kind::Limit => return Ok(Histogram::default()),
            Err(error) => return Err(error),
        };
        Ok(Histogram {
            counts: rows
                .into_iter()
                .filter_map(|row| Some((row.key.parse().ok()?, row.name, row.count.parse().ok()?)))
                .collect(),
            complete: true,
        })
    }
}
