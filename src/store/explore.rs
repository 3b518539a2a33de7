//! What is around a record, and which values a field has.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::reader::conditions;
use super::{Error, Kind, Param, Reader};
use crate::api::{Context, Counted, Order, Position, SearchError, SearchQuery};
use crate::live::StoredRecord;
use crate::query::Column;

/// Newest matching records that values are counted in. A page of facets must not read whole maps of
/// everything.
const SAMPLE: usize = 100_000;

/// A search's error out of the store's.
pub(super) fn search_error(error: &Error) -> SearchError {
    match (error.kind(), error) {
        (Kind::Limit | Kind::Memory, _) => SearchError::TooLarge(error.to_string()),
        // That it does not answer is said already.
        (_, Error::Connection(why)) => SearchError::Unavailable(why.clone()),
        _ => SearchError::Unavailable(error.to_string()),
    }
}

/// A count of something.
#[derive(Deserialize)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) count: String,
}

impl Reader {
    /// Records around a place, oldest first; the anchor itself is not among them.
    pub(super) async fn around(&self, context: &Context) -> Result<Vec<StoredRecord>, Error> {
        let side = |order, limit| SearchQuery {
            query: context.query.clone(),
            from: None,
            to: None,
            before: (order == Order::Newest).then_some(context.anchor),
            after: (order == Order::Oldest).then_some(context.anchor),
            order,
            limit,
        };
        let mut all = Vec::new();
        if context.before > 0 {
            let before = side(Order::Newest, context.before);
            all = self.page(&before).await?.records;
            all.reverse();
        }
        if context.after > 0 {
            let after = side(Order::Oldest, context.after);
            all.extend(self.page(&after).await?.records);
        }
        Ok(all)
    }

    /// The most common values of a field, or without one the most common fields, among the newest
    /// matching records.
    pub(super) async fn most_common(
        &self,
        query: &SearchQuery,
        field: Option<&str>,
        prefix: &str,
    ) -> Result<Counted, Error> {
        let (condition, mut params) = conditions(query).finish();
        let (columns, value) = match field {
            None => ("attributes, resource", KEYS.to_owned()),
            Some("level") => ("level", "level".to_owned()),
            Some(name) => match Column::from_name(name) {
                Some(column) => (column.sql(), column.sql().to_owned()),
                None => {
                    params.push(Param::text("field", name));
                    ("attributes, resource", VALUE.to_owned())
                }
            },
        };
        params.push(Param::text("prefix", prefix));
        let sql = format!(
            "SELECT {value} AS key, '' AS name, toString(count()) AS count\nFROM (\n\
             SELECT {columns} FROM {} AS l WHERE {condition} ORDER BY l.timestamp DESC LIMIT {SAMPLE}\n)\n\
             GROUP BY key\nHAVING key != '' AND startsWithCaseInsensitive(key, {{prefix:String}})\n\
             ORDER BY count() DESC, key\nLIMIT {}\nFORMAT JSONEachRow",
            self.table, query.limit
        );
        let rows: Vec<Row> = self.rows(&sql, &params).await?;
        let counts = rows
            .into_iter()
            .map(|row| Some((row.key, row.count.parse().ok()?)));
        Ok(Counted {
            counts: counts.flatten().collect(),
            sample: SAMPLE,
        })
    }

    /// Rows of an answer in `FORMAT JSONEachRow`.
    pub(super) async fn rows<T: DeserializeOwned>(
        &self,
        sql: &str,
        params: &[Param],
    ) -> Result<Vec<T>, Error> {
        let answer = self.run(sql, params, self.limits.time).await?;
        answer
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| {
                serde_json::from_slice(line)
                    .map_err(|error| Error::Format(crate::telemetry::one_line(&error.to_string())))
            })
            .collect()
    }
}

const KEYS: &str = "arrayJoin(arrayDistinct(arrayConcat(mapKeys(attributes), mapKeys(resource))))";
const VALUE: &str = "if(mapContains(attributes, {field:String}), attributes[{field:String}], resource[{field:String}])";

impl From<&StoredRecord> for Position {
    fn from(record: &StoredRecord) -> Position {
        Position {
            timestamp: record.timestamp,
            id: record.id,
        }
    }
}
