//! The query language: one parser, one syntax tree, two evaluators.
//!
//! [`Query::parse`] reads what somebody typed. [`Query::rows`] picks the rows of a frame's block that
//! match (live view), [`Query::sql`] writes the same condition for ClickHouse (search). Which records
//! match is defined here, and only in terms that both sides can do to the letter; a property test holds
//! them to it.
//!
//! ```text
//! query := or ; or := and ("OR" and)* ; and := not+ (AND optional) ; not := ("-" | "NOT")? atom
//! atom  := "(" or ")" | ident op value | ident ":(" values ")" | ident ":*" | phrase | word | "/" regex "/"
//! op    := ":" | ">" | ">=" | "<" | "<="    ident starts with a letter or "_", may hold . _ - /, ends in a
//!          letter, a digit or "_"; no space around op; "odd key": quotes any key
//! ```
//!
//! # What matches
//!
//! - **Words and phrases** are looked for anywhere in the message. A–Z equal a–z. Any other letter equals
//!   its upper and its lower case where that is one character; so `Ä` equals `ä`, and `ß` only itself.
//!   `*:word` looks into the values of all attributes and of the resource too.
//! - **`key:value`** compares the whole value, letters as they are; `*` in an unquoted value stands for any
//!   text, also none. `key:(a OR b)` is any of them. `key:*` asks that the key is there, or for a column
//!   that it is not empty. Trace and span ids are compared in lower case, levels by name.
//! - **Columns** are `level service environment (env) message trace_id span_id event scope receiver id`. Any
//!   other key is an attribute; where a record has no such attribute, it is looked up in its resource.
//!   `attributes.` or `resource.` before a key looks only there.
//! - **`key>value`** compares numbers where the query's value is one, and then only records whose value is
//!   a number match; otherwise it compares bytes. A number is a sign, up to 18 digits, and up to 18 more
//!   after a point: exactly what fits a `Decimal(38, 18)`. No exponents. `level>=warn` compares severity.
//! - **A missing key** matches nothing but a negation: `-user:5` holds for records without a `user`. An
//!   empty column is a missing one, except that `service:""` asks for just that.
//! - **`/regex/`** is looked for in the message, letters as they are unless it says `(?i)`. Syntax is that
//!   of Rust's `regex` without Unicode classes; `\d \w \s \b` are ASCII, `.` is not a line break.
//!
//! # What cannot be read
//!
//! Text that is no query is looked for as it stands, and says why ([`Query::literal`]); only a query over
//! [`MAX_BYTES`] is an error. Depth, number of terms and size of expressions are bounded.

mod fault;
mod glob;
mod levels;
mod lexer;
mod needle;
mod number;
mod parser;
mod pattern;
mod rows;
mod show;
mod sql;
#[cfg(test)]
mod tests;
mod tree;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

pub use fault::{Fault, Hint};
pub use levels::LevelSet;
use needle::Needle;
pub use tree::Column;
use tree::{Expr, Field, Scope, Test};

/// Longest query, in bytes.
pub const MAX_BYTES: usize = 4 << 10;

/// A query, ready to be asked; cheap to clone. Two are equal when they ask the same in the same words.
#[derive(Debug, Clone)]
pub struct Query(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    expr: Expr,
    text: String,
    literal: Option<Fault>,
    hints: Vec<Hint>,
}

static EVERYTHING: LazyLock<Query> = LazyLock::new(|| Query::of(Expr::All));

impl Default for Query {
    fn default() -> Self {
        EVERYTHING.clone()
    }
}

impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Query {}

impl Hash for Query {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl Query {
    /// Reads a query. Text that is none becomes a search for that text.
    ///
    /// # Errors
    /// When it is longer than [`MAX_BYTES`].
    pub fn parse(text: &str) -> Result<Query, Fault> {
        if text.len() > MAX_BYTES {
            let words = format!("a query has {} bytes; {MAX_BYTES} are allowed", text.len());
            return Err(Fault::new(MAX_BYTES, words));
        }
        Ok(match parser::parse(text) {
            Ok((expr, hints)) => Query::with(expr, None, hints),
            Err(fault) => Query::with(Expr::message(text.trim()), Some(fault), Vec::new()),
        })
    }

    /// Records of these levels.
    #[must_use]
    pub fn levels(levels: LevelSet) -> Query {
        Query::of(Expr::levels(levels))
    }

    /// Records whose column holds one of these texts; any record where there are none.
    #[must_use]
    pub fn one_of(column: Column, values: &[String]) -> Query {
        if values.is_empty() {
            return Query::default();
        }
        let values = values.iter().map(|value| glob::Glob::exact(value));
        Query::of(Expr::Field(
            Field::Column(column),
            Test::OneOf(values.collect()),
        ))
    }

    /// Records whose resource has this attribute.
    #[must_use]
    pub fn resource(key: &str, value: &str) -> Query {
        Query::of(Expr::Field(
            Field::Attribute(Scope::Resource, key.to_owned()),
            Test::OneOf(vec![glob::Glob::exact(value)]),
        ))
    }

    /// Records with this text in their message.
    #[must_use]
    pub fn message(text: &str) -> Query {
        Query::of(Expr::message(text))
    }

    /// Records that match both.
    #[must_use]
    pub fn and(self, other: Query) -> Query {
        if self.is_everything() {
            return other;
        }
        if other.is_everything() {
            return self;
        }
        let literal = self.literal().or(other.literal()).cloned();
        let hints = [self.hints(), other.hints()].concat();
        let expr = Expr::all(vec![self.0.expr.clone(), other.0.expr.clone()]);
        Query::with(expr, literal, hints)
    }

    /// Whether every record matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self.0.expr, Expr::All)
    }

    /// Why the text was no query and is looked for as it stands.
    #[must_use]
    pub fn literal(&self) -> Option<&Fault> {
        self.0.literal.as_ref()
    }

    /// What the writer may have meant instead.
    #[must_use]
    pub fn hints(&self) -> &[Hint] {
        &self.0.hints
    }

    /// The query as it was understood, for people: its text, and what there is to say about it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        all.insert("understood".to_owned(), json!(self.0.text));
        if let Some(fault) = self.literal() {
            all.insert("searched_as_text".to_owned(), fault.to_json());
        }
        if !self.hints().is_empty() {
            let hints: Vec<_> = self.hints().iter().map(Hint::to_json).collect();
            all.insert("hints".to_owned(), json!(hints));
        }
        Value::Object(all)
    }

    fn of(expr: Expr) -> Query {
        Query::with(expr, None, Vec::new())
    }

    fn with(expr: Expr, literal: Option<Fault>, hints: Vec<Hint>) -> Query {
        let text = expr.to_string();
        Query(Arc::new(Inner {
            expr,
            text,
            literal,
            hints,
        }))
    }
}
