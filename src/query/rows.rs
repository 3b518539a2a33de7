//! The tree over a frame's block: which rows match.
//!
//! Every part narrows a list of candidates, the cheap parts first. Columns of few distinct strings are
//! looked at once per string, and keys of attributes are looked up once per block.

use super::Query;
use super::glob::Glob;
use super::number;
use super::tree::{Column, Expr, Field, Scope, Test};
use crate::frame::{Block, LowCardinality, MapColumn};

impl Query {
    /// Appends the numbers of the block's rows that match, in their order.
    pub fn rows(&self, block: &Block<'_>, rows: &mut Vec<u32>) {
        let Ok(num_rows) = u32::try_from(block.len()) else {
            return;
        };
        let mut candidates: Vec<u32> = (0..num_rows).collect();
        narrow(&self.0.expr, block, &mut candidates);
        rows.append(&mut candidates);
    }
}

/// Keeps the candidates that match; they are in rising order.
fn narrow(expr: &Expr, block: &Block<'_>, rows: &mut Vec<u32>) {
    if rows.is_empty() {
        return;
    }
    match expr {
        Expr::All => {}
        Expr::And(parts) => {
            let mut parts: Vec<&Expr> = parts.iter().collect();
            parts.sort_by_key(|part| cost(part));
            for part in parts {
                narrow(part, block, rows);
            }
        }
        Expr::Or(parts) => {
            let mut left = rows.clone();
            for part in parts {
                let mut found = left.clone();
                narrow(part, block, &mut found);
                remove(&mut left, &found);
            }
            remove(rows, &left);
        }
        Expr::Not(part) => {
            let mut found = rows.clone();
            narrow(part, block, &mut found);
            remove(rows, &found);
        }
        Expr::Levels(levels) => rows.retain(|row| levels.contains(block.level(*row as usize))),
        Expr::Id(relation, id) => {
            rows.retain(|row| relation.holds(&block.id(*row as usize), id));
        }
        Expr::Field(Field::Column(column), test) => by_column(*column, test, block, rows),
        Expr::Field(Field::Attribute(scope, key), test) => {
            by_attribute(*scope, key, test, block, rows);
        }
        Expr::Message(needle) => rows.retain(|row| needle.is_in(block.messages()[*row as usize])),
        Expr::Anywhere(needle) => rows.retain(|row| {
            let row = *row as usize;
            let in_map =
                |map: &MapColumn<'_>| map.entries(row).any(|(_, value)| needle.is_in(value));
            needle.is_in(block.messages()[row])
                || in_map(block.attributes())
                || in_map(block.resource())
        }),
        Expr::Matches(pattern) => rows.retain(|row| pattern.is_in(block.messages()[*row as usize])),
    }
}

/// What looking at a row costs, roughly.
fn cost(expr: &Expr) -> u32 {
    match expr {
        Expr::All | Expr::Levels(_) | Expr::Id(..) => 0,
        Expr::Field(Field::Column(Column::Message), _) => 3,
        Expr::Field(Field::Column(_), _) => 1,
        Expr::Field(Field::Attribute(..), _) => 2,
        Expr::Message(_) => 4,
        Expr::Matches(_) => 5,
        Expr::Anywhere(_) => 6,
        Expr::Not(part) => cost(part),
        Expr::And(parts) | Expr::Or(parts) => parts.iter().map(cost).sum(),
    }
}

/// Takes out of a rising list what is in another that is part of it.
fn remove(rows: &mut Vec<u32>, gone: &[u32]) {
    let mut gone = gone.iter().peekable();
    rows.retain(|row| gone.next_if_eq(&row).is_none());
}

fn by_column(column: Column, test: &Test, block: &Block<'_>, rows: &mut Vec<u32>) {
    let texts = match column {
        Column::Service => return by_dictionary(block.service(), test, rows),
        Column::Environment => return by_dictionary(block.environment(), test, rows),
        Column::Event => return by_dictionary(block.event_name(), test, rows),
        Column::Scope => return by_dictionary(block.scope_name(), test, rows),
        Column::Receiver => {
            return rows.retain(|row| passes_column(test, block.receiver(*row as usize).as_str()));
        }
        Column::Message => block.messages(),
        Column::TraceId => block.trace_ids(),
        Column::SpanId => block.span_ids(),
    };
    rows.retain(|row| passes_column(test, texts[*row as usize]));
}

fn by_dictionary(column: &LowCardinality<'_>, test: &Test, rows: &mut Vec<u32>) {
    let entries = column.dictionary().iter();
    let passing: Vec<bool> = entries.map(|text| passes_column(test, text)).collect();
    rows.retain(|row| passing[column.index(*row as usize)]);
}

fn by_attribute(scope: Scope, key: &str, test: &Test, block: &Block<'_>, rows: &mut Vec<u32>) {
    let find = |map: &MapColumn<'_>| map.keys().position(key);
    let attribute = find(block.attributes()).filter(|_| scope != Scope::Resource);
    let resource = find(block.resource()).filter(|_| scope != Scope::Attributes);
    rows.retain(|row| {
        let row = *row as usize;
        let value = attribute.and_then(|key| block.attributes().value(row, key));
        let value = value.or_else(|| block.resource().value(row, resource?));
        value.is_some_and(|value| passes(test, value))
    });
}

/// An empty column is a missing value, unless just that is asked for.
fn passes_column(test: &Test, text: &str) -> bool {
    match test {
        Test::OneOf(_) => passes(test, text),
        _ => !text.is_empty() && passes(test, text),
    }
}

/// Whether a value that is there passes.
fn passes(test: &Test, text: &str) -> bool {
    match test {
        Test::Present => true,
        Test::OneOf(values) => values.iter().any(|value: &Glob| value.matches(text)),
        Test::Number(relation, than) => {
            number::parse(text).is_some_and(|number| relation.holds(&number, &than.value))
        }
        Test::Text(relation, than) => relation.holds(text, than.as_str()),
    }
}
