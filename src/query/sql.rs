//! The tree as a condition in SQL.
//!
//! What somebody wrote only ever becomes a bound parameter; the SQL around it is made here. Columns are
//! those of a table called `l`.
//!
//! Beside what decides, conditions that hold wherever that does say where to look: a LIKE on what the
//! message's text index is of, which ClickHouse answers from the index's dictionary of words, and hints at
//! the values among which an attribute's must be. Trace ids find their bloom filter by themselves.

use super::glob::Glob;
use super::needle::Needle;
use super::tree::{Column, Expr, Field, Scope, Test};
use super::{LevelSet, Query, number};
use crate::record::Level;
use crate::store::{Param, WORDS};

/// Shortest run of letters that the text index's dictionary is searched for; ClickHouse's
/// `text_index_like_min_pattern_length`.
const MIN_HINT: usize = 4;

impl Query {
    /// The condition, with its parameters appended to `params`; they are named after their places there.
    #[must_use]
    pub fn sql(&self, params: &mut Vec<Param>) -> String {
        let mut sql = Sql {
            params,
            is_inverted: false,
        };
        let mut condition = sql.expr(&self.0.expr);
        for needle in required(&self.0.expr) {
            sql.hint(needle, &mut condition);
        }
        condition
    }
}

/// Texts that the message of every match holds.
fn required(expr: &Expr) -> Vec<&Needle> {
    match expr {
        Expr::Message(needle) => vec![needle],
        Expr::And(parts) => parts.iter().flat_map(required).collect(),
        _ => Vec::new(),
    }
}

struct Sql<'a> {
    params: &'a mut Vec<Param>,
    /// Whether what does not match is asked for: no index says where that is not.
    is_inverted: bool,
}

impl Sql<'_> {
    fn text(&mut self, text: &str) -> String {
        let name = format!("p{}", self.params.len());
        self.params.push(Param::text(&name, text));
        format!("{{{name}:String}}")
    }

    /// Of a needle's runs of letters each is part of a word of the message. Those at its ends may be
    /// part of a longer word, so LIKE asks for a part, and the longest is the rarest.
    fn hint(&mut self, needle: &Needle, condition: &mut String) {
        let runs = needle
            .text()
            .split(|char: char| !char.is_ascii_alphabetic());
        let Some(run) = runs.max_by_key(|run| run.len()) else {
            return;
        };
        if run.len() >= MIN_HINT {
            let pattern = self.text(&format!("%{}%", run.to_ascii_lowercase()));
            condition.push_str(&format!(" AND {WORDS} LIKE {pattern}"));
        }
    }

    fn expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::All => "1".to_owned(),
            Expr::And(parts) => self.join(parts, " AND "),
            Expr::Or(parts) => self.join(parts, " OR "),
            Expr::Not(part) => {
                self.is_inverted = !self.is_inverted;
                let condition = self.expr(part);
                self.is_inverted = !self.is_inverted;
                format!("NOT {condition}")
            }
            Expr::Levels(levels) => level_in(*levels),
            Expr::Id(relation, id) => format!("(l.id {} {id})", relation.sign()),
            Expr::Field(Field::Column(column), test) => self.column(*column, test),
            Expr::Field(Field::Attribute(scope, key), test) => self.attribute(*scope, key, test),
            Expr::Message(needle) => self.contains(needle, "l.message"),
            Expr::Anywhere(needle) => {
                let message = self.contains(needle, "l.message");
                let value = self.contains(needle, "v");
                format!(
                    "({message} OR arrayExists(v -> {value}, mapValues(l.attributes)) \
                     OR arrayExists(v -> {value}, l.resource.values))"
                )
            }
            Expr::Matches(pattern) => {
                let pattern = self.text(pattern.re2());
                format!("match(l.message, {pattern})")
            }
        }
    }

    fn join(&mut self, parts: &[Expr], with: &str) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.expr(part)).collect();
        format!("({})", parts.join(with))
    }

    fn contains(&mut self, needle: &Needle, value: &str) -> String {
        match needle.folded() {
            Some(pattern) => {
                let pattern = self.text(pattern.re2());
                format!("match({value}, {pattern})")
            }
            None => {
                let text = self.text(needle.text());
                format!("(positionCaseInsensitive({value}, {text}) > 0)")
            }
        }
    }

    fn column(&mut self, column: Column, test: &Test) -> String {
        let value = format!("l.{}", column.sql());
        match test {
            Test::Present => format!("({value} != '')"),
            Test::OneOf(_) => self.passes(&value, test),
            _ => format!("({value} != '' AND {})", self.passes(&value, test)),
        }
    }

    fn attribute(&mut self, scope: Scope, key: &str, test: &Test) -> String {
        let key = self.text(key);
        let attribute = self.entry("l.attributes", "mapValues(l.attributes)", &key, test);
        let resource = self.entry("l.resource", "l.resource.values", &key, test);
        match scope {
            Scope::Attributes => attribute,
            Scope::Resource => resource,
            Scope::Any => {
                format!("({attribute} OR (NOT mapContains(l.attributes, {key}) AND {resource}))")
            }
        }
    }

    /// The map has the key, and its value passes. Where it can only be one of a few, `values` among which
    /// they are says to the index where to look, and is not looked at itself.
    fn entry(&mut self, map: &str, values: &str, key: &str, test: &Test) -> String {
        let has = format!("mapContains({map}, {key})");
        if *test == Test::Present {
            return has;
        }
        let passes = self.passes(&format!("{map}[{key}]"), test);
        let Some(exact) = exact(test) else {
            return format!("({has} AND {passes})");
        };
        // Of a key that is not there the value is the empty text.
        let has = if exact.contains(&"") {
            format!("{has} AND ")
        } else {
            String::new()
        };
        if self.is_inverted {
            return format!("({has}{passes})");
        }
        let exact: Vec<_> = exact.into_iter().map(|text| self.text(text)).collect();
        let exact = exact.join(", ");
        format!("({has}{passes} AND indexHint(hasAny({values}, [{exact}])))")
    }

    fn passes(&mut self, value: &str, test: &Test) -> String {
        match test {
            Test::Present => "1".to_owned(),
            Test::OneOf(values) => self.one_of(value, values),
            Test::Number(relation, than) => {
                let (sign, than) = (relation.sign(), self.text(&than.text));
                let is_number = format!("match({value}, '{}')", number::RE2.replace('\\', "\\\\"));
                format!(
                    "({is_number} AND toDecimal128OrZero({value}, 18) {sign} toDecimal128OrZero({than}, 18))"
                )
            }
            Test::Text(relation, than) => {
                let than = self.text(than);
                format!("({value} {} {than})", relation.sign())
            }
        }
    }

    fn one_of(&mut self, value: &str, values: &[Glob]) -> String {
        let mut exact = Vec::new();
        let mut any = Vec::new();
        for glob in values {
            match glob.as_exact() {
                Some(text) => exact.push(self.text(text)),
                None => {
                    let pattern = self.text(&glob.like());
                    any.push(format!("{value} LIKE {pattern}"));
                }
            }
        }
        match exact.as_slice() {
            [] => {}
            [only] => any.push(format!("{value} = {only}")),
            _ => any.push(format!("{value} IN ({})", exact.join(", "))),
        }
        format!("({})", any.join(" OR "))
    }
}

/// The values of which a value must be one, if that is what the test says.
fn exact(test: &Test) -> Option<Vec<&str>> {
    match test {
        Test::OneOf(globs) => globs.iter().map(Glob::as_exact).collect(),
        _ => None,
    }
}

fn level_in(levels: LevelSet) -> String {
    let names: Vec<String> = levels
        .iter()
        .map(|level| format!("'{}'", Level::as_str(level)))
        .collect();
    if names.is_empty() {
        return "0".to_owned();
    }
    format!("(l.level IN ({}))", names.join(", "))
}
