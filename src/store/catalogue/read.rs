//! What the catalogue has.

use serde::Deserialize;

use crate::api::{FieldName, FieldsQuery};
use crate::store::{Error, Param, Reader};

const DAY: i64 = 86_400_000_000_000;

#[derive(Deserialize)]
struct Row {
    name: String,
    kind: String,
    count: String,
    first_seen: String,
    last_seen: String,
}

impl Reader {
    /// The most common names.
    pub(in crate::store) async fn names(
        &self,
        query: &FieldsQuery,
    ) -> Result<Vec<FieldName>, Error> {
        // As the table's days: 0 to 65,535.
        let day = |at: i64| u16::try_from(at.div_euclid(DAY).max(0)).unwrap_or(u16::MAX);
        let first = query.from.map_or(0, day);
        let last = query.to.map_or(u16::MAX, |to| day(to.saturating_sub(1)));
        // `min` of the kinds is the one that a query looks at first.
        let sql = format!(
            "SELECT name, min(kind) AS kind, toString(sum(records)) AS count, \
             toString(min(day)) AS first_seen, toString(max(day)) AS last_seen\nFROM {}\n\
             WHERE day BETWEEN toDate({first}) AND toDate({last}) \
             AND startsWithCaseInsensitive(name, {{prefix:String}})\n\
             GROUP BY name\nORDER BY sum(records) DESC, name\nLIMIT {}\nFORMAT JSONEachRow",
            self.field_names, query.limit
        );
        let prefix = Param::text("prefix", &query.prefix);
        let rows: Vec<Row> = self.rows(&sql, &[prefix]).await?;
        let names = rows.into_iter().map(|row| FieldName {
            count: row.count.parse().unwrap_or_default(),
            name: row.name,
            kind: row.kind,
            first_seen: row.first_seen,
            last_seen: row.last_seen,
        });
        Ok(names.collect())
    }
}
