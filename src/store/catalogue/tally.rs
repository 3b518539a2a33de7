//! Names and counts that the daemon has seen today, and what of them the table does not have yet.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use crate::frame::KeyCount;

/// Names that are noted between midnight and midnight, each once for every day that its records are of.
/// A machine's logs have some hundreds; names made of ids, such as a JSON object by user, have no end.
pub(super) const MOST: usize = 10_000;
/// Bytes of a name.
pub(super) const LONGEST: usize = 200;

const SCOPE: &str = "otel.scope.";

/// See the module.
#[derive(Default)]
pub(super) struct Tally {
    /// Records that the table does not know of, by day and kind, then by name.
    names: BTreeMap<(u16, &'static str), HashMap<Box<str>, u64>>,
    len: usize,
    /// Days from the epoch to the one that began last.
    today: i64,
    left_out: u64,
    has_told: bool,
}

/// A row for the table.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Row {
    #[serde(serialize_with = "as_date")]
    day: u16,
    kind: &'static str,
    name: Box<str>,
    records: u64,
}

/// Days from the epoch as in `2026-12-01`.
fn as_date<S: Serializer>(day: &u16, serializer: S) -> Result<S::Ok, S::Error> {
    let epoch = jiff::civil::date(1970, 1, 1);
    serializer.collect_str(&(epoch + jiff::Span::new().days(*day)))
}

impl Row {
    /// As `JSONEachRow`.
    pub(super) fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("texts and numbers have a JSON form");
        line.push('\n');
        line
    }
}

impl Tally {
    /// Forgets what it has seen, but for what waits, where another day has begun.
    pub(super) fn begin(&mut self, today: i64) {
        if self.today == today {
            return;
        }
        self.today = today;
        (self.left_out, self.has_told) = (0, false);
        for names in self.names.values_mut() {
            names.retain(|_, waiting| *waiting > 0);
        }
        self.names.retain(|_, names| !names.is_empty());
        self.len = self.names.values().map(HashMap::len).sum();
    }

    /// Adds a key's records; says whether it was not seen before.
    pub(super) fn add(&mut self, count: &KeyCount<'_>) -> bool {
        let KeyCount {
            day,
            column,
            key,
            records,
        } = *count;
        let Ok(day) = u16::try_from(day) else {
            return false;
        };
        if key.is_empty() || key.len() > LONGEST {
            return false;
        }
        let kind = match column {
            "resource" => "resource",
            _ if key.starts_with(SCOPE) => "scope",
            _ => "attribute",
        };
        let known = self.names.get_mut(&(day, kind));
        if let Some(waiting) = known.and_then(|names| names.get_mut(key)) {
            *waiting += records;
            return false;
        }
        if self.len == MOST {
            self.left_out += 1;
            return false;
        }
        self.len += 1;
        let names = self.names.entry((day, kind)).or_default();
        names.insert(key.into(), records);
        true
    }

    /// Whether a name was left out, said once a day.
    pub(super) fn is_first_left_out(&mut self) -> bool {
        let is_first = self.left_out > 0 && !self.has_told;
        self.has_told |= is_first;
        is_first
    }

    /// What the table does not have.
    pub(super) fn waiting(&self) -> Vec<Row> {
        let all = self.names.iter();
        all.flat_map(|((day, kind), names)| {
            let waiting = names.iter().filter(|(_, records)| **records > 0);
            waiting.map(|(name, records)| Row {
                day: *day,
                kind,
                name: name.clone(),
                records: *records,
            })
        })
        .collect()
    }

    /// The table has these.
    pub(super) fn stored(&mut self, rows: &[Row]) {
        for row in rows {
            let names = self.names.get_mut(&(row.day, row.kind));
            if let Some(waiting) = names.and_then(|names| names.get_mut(&row.name)) {
                *waiting = waiting.saturating_sub(row.records);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(day: i64, column: &'static str, key: &'static str, records: u64) -> KeyCount<'static> {
        KeyCount {
            day,
            column,
            key,
            records,
        }
    }

    fn waiting(tally: &Tally) -> Vec<(u16, &'static str, String, u64)> {
        let rows = tally.waiting().into_iter();
        let mut rows: Vec<_> = rows
            .map(|row| (row.day, row.kind, row.name.into(), row.records))
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn what_comes_while_rows_are_stored_waits_for_the_next_time() {
        let mut tally = Tally::default();
        tally.begin(5);
        assert!(tally.add(&key(5, "attributes", "user", 3)));
        assert!(tally.add(&key(5, "attributes", "otel.scope.lib", 1)));
        assert!(tally.add(&key(5, "resource", "user", 2)));
        assert!(!tally.add(&key(5, "attributes", "user", 4)));
        let rows = tally.waiting();
        let line =
            "{\"day\":\"1970-01-06\",\"kind\":\"attribute\",\"name\":\"user\",\"records\":7}\n";
        assert!(rows.iter().any(|row| row.line() == line));
        assert!(!tally.add(&key(5, "attributes", "user", 10)));
        assert_eq!(
            waiting(&tally),
            [
                (5, "attribute", "user".to_owned(), 17),
                (5, "resource", "user".to_owned(), 2),
                (5, "scope", "otel.scope.lib".to_owned(), 1),
            ]
        );
        tally.stored(&rows);
        assert_eq!(waiting(&tally), [(5, "attribute", "user".to_owned(), 10)]);
        // A new day keeps what waits, and takes the others for new.
        tally.begin(6);
        assert_eq!(waiting(&tally), [(5, "attribute", "user".to_owned(), 10)]);
        assert!(tally.add(&key(5, "resource", "user", 1)));
    }

    #[test]
    fn names_are_bounded_in_number_and_length_and_days_are_those_of_the_table() {
        let mut tally = Tally::default();
        for n in 0..MOST + 5 {
            let name: &'static str = format!("n{n}").leak();
            assert_eq!(tally.add(&key(1, "attributes", name, 1)), n < MOST);
        }
        assert!(!tally.add(&key(1, "attributes", "n3", 1)));
        assert_eq!(tally.waiting().len(), MOST);
        assert!(tally.is_first_left_out());
        assert!(!tally.is_first_left_out());
        tally.stored(&tally.waiting());
        tally.begin(2);
        let [longest, long] = [LONGEST, LONGEST + 1].map(|len| &*"x".repeat(len).leak());
        for (day, name) in [(1, ""), (1, long), (-1, "a"), (70_000, "a")] {
            assert!(!tally.add(&key(day, "attributes", name, 1)), "{day} {name}");
        }
        assert!(tally.add(&key(1, "attributes", longest, 1)));
        assert!(!tally.is_first_left_out());
    }
}
