//! Days that were stored before there was a catalogue: their names are read once, in the background.

use std::time::Duration;

use tracing::{debug, info};

use super::tally::{LONGEST, MOST};
use super::{Catalogue, name};
use crate::store::{Error, Param};

const WITHIN: Duration = Duration::from_secs(5);

impl Catalogue {
    /// Days of which there are records and no names, newest first. Asked before anything is stored: the
    /// names of new records would hide those of older ones of the same day.
    pub(in crate::store) async fn unread(&self) -> Vec<jiff::civil::Date> {
        let days = self.days_without_names().await;
        days.unwrap_or_else(|error| {
            debug!(%error, "not known which days have no field names");
            Vec::new()
        })
    }

    async fn days_without_names(&self) -> Result<Vec<jiff::civil::Date>, Error> {
        let names = name(self.schema.database());
        let sql = format!(
            "SELECT DISTINCT partition FROM system.parts \
             WHERE database = {{database:String}} AND table = 'logs' AND active AND rows > 0 \
             AND partition NOT IN (SELECT toString(day) FROM {names}) ORDER BY partition DESC"
        );
        let database = Param::text("database", &self.database);
        let answer = self.client.select(&sql, &[], &[database], WITHIN).await?;
        let answer = String::from_utf8_lossy(&answer);
        Ok(answer.lines().filter_map(|day| day.parse().ok()).collect())
    }

    /// Reads the names of these days. A day that is too much in its time is left out.
    pub(in crate::store) async fn fill(self, days: Vec<jiff::civil::Date>) {
        for day in &days {
            let read = self.client.execute(&self.names_of(*day)).await;
            if let Err(error) = read {
                debug!(%error, %day, "field names of a day not read");
            }
        }
        if let [newest, ..] = days.as_slice() {
            info!(days = days.len(), %newest, "field names of earlier days read");
        }
    }

    fn names_of(&self, day: jiff::civil::Date) -> String {
        let (names, logs) = (name(self.schema.database()), self.schema.table());
        let of = |column: &str, kind: &str| {
            format!(
                "SELECT {kind} AS kind, arrayJoin(mapKeys({column})) AS name FROM {logs} \
                 WHERE timestamp >= toDateTime64('{day} 00:00:00', 9, 'UTC') \
                 AND timestamp < toDateTime64('{day} 00:00:00', 9, 'UTC') + INTERVAL 1 DAY"
            )
        };
        format!(
            "INSERT INTO {names} (day, kind, name, records) \
             SELECT toDate('{day}'), kind, name, count() FROM ({} UNION ALL {}) \
             WHERE name != '' AND length(name) <= {LONGEST} GROUP BY kind, name \
             ORDER BY count() DESC LIMIT {MOST} \
             SETTINGS max_threads = 1, max_execution_time = 50, max_memory_usage = 500000000",
            of(
                "attributes",
                "if(startsWith(name, 'otel.scope.'), 'scope', 'attribute')"
            ),
            of("resource", "'resource'")
        )
    }
}
