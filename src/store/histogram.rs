//! How many records there are when.
//!
//! Where buckets are of whole five minutes and the query asks for nothing but level, service and
//! environment, the counts are those that the table keeps beside its rows (its projection `counts`), and
//! only the last minutes are read. ClickHouse reads the rows of parts that have no counts yet.

use super::condition::Where;
use super::explore::Row;
use super::{Error, Kind, Reader};
use crate::api::{Buckets, Histogram};

/// Nanoseconds of five minutes, for which the table keeps counts.
const KEPT: i64 = 300_000_000_000;
const SECOND: i64 = 1_000_000_000;

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
        let sql = format!(
            "SELECT key, name, toString(sum(records)) AS count FROM (\n{}\n)\n\
             GROUP BY key, name\nFORMAT JSONEachRow",
            self.parts(buckets, &condition).join("\nUNION ALL\n")
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

    /// The selects that count; all numbers in them are ours.
    fn parts(&self, buckets: &Buckets, condition: &str) -> Vec<String> {
        let Buckets {
            query,
            start,
            end,
            step,
        } = buckets;
        let select = |bucket: &str, range: &str| {
            format!(
                "SELECT toString({bucket}) AS key, level AS name, count() AS records\nFROM {} AS l\n\
                 WHERE {range} AND {condition}\nGROUP BY key, name",
                self.table
            )
        };
        let mut parts = Vec::new();
        let mut from = *start;
        if step % KEPT == 0 && start % KEPT == 0 && query.is_of_counted_columns() {
            let cut = end - end.rem_euclid(KEPT);
            let [from_s, cut_s, step_s] = [*start, cut, *step].map(|time| time / SECOND);
            let time = "toStartOfFiveMinutes(l.timestamp)";
            parts.push(select(
                &format!("intDiv(toUnixTimestamp({time}) - {from_s}, {step_s})"),
                &format!("{time} >= toDateTime({from_s}) AND {time} < toDateTime({cut_s})"),
            ));
            from = cut;
        }
        parts.push(select(
            &format!("intDiv(toUnixTimestamp64Nano(l.timestamp) - {start}, {step})"),
            &format!(
                "l.timestamp >= fromUnixTimestamp64Nano({from}, 'UTC') \
                 AND l.timestamp < fromUnixTimestamp64Nano({end}, 'UTC')"
            ),
        ));
        parts
    }
}
