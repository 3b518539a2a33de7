//! The syntax tree.

use super::LevelSet;
use super::glob::Glob;
use super::needle::Needle;
use super::pattern::Pattern;

/// Which records match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    /// Every record.
    All,
    /// Records that match all of these; two or more.
    And(Vec<Expr>),
    /// Records that match any of these; two or more.
    Or(Vec<Expr>),
    /// Records that do not match.
    Not(Box<Expr>),
    /// Records of these levels.
    Levels(LevelSet),
    /// Records with an id in this relation to a number.
    Id(Relation, u64),
    /// Records with a field that passes.
    Field(Field, Test),
    /// Records with this text in their message.
    Message(Needle),
    /// Records with this text in their message or the value of an attribute.
    Anywhere(Needle),
    /// Records whose message this expression is found in.
    Matches(Pattern),
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    Column(Column),
    Attribute(Scope, String),
}

/// Where an attribute is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Among the attributes, and else in the resource.
    Any,
    Attributes,
    Resource,
}

/// A column of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// The service.
    Service,
    /// The environment.
    Environment,
    /// The message.
    Message,
    /// The trace id.
    TraceId,
    /// The span id.
    SpanId,
    /// The event's name.
    Event,
    /// The scope's name.
    Scope,
    /// The receiver.
    Receiver,
}

/// What a value must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// There.
    Present,
    /// As one of these says.
    OneOf(Vec<Glob>),
    /// In this relation to a number.
    Number(Relation, Decimal),
    /// In this relation to a text, by its bytes.
    Text(Relation, String),
}

/// A number of the query, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) value: i128,
    pub(super) text: String,
}

/// How a value compares with the query's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Expr {
    /// Records with this text in their message.
    pub(super) fn message(text: &str) -> Expr {
        if text.is_empty() {
            return Expr::All;
        }
        Expr::Message(Needle::new(text))
    }

    pub(super) fn levels(levels: LevelSet) -> Expr {
        if levels == LevelSet::ALL {
            return Expr::All;
        }
        Expr::Levels(levels)
    }

    /// Records that match all of these.
    pub(super) fn all(parts: Vec<Expr>) -> Expr {
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Expr::All => {}
                Expr::And(inner) => all.extend(inner),
                other => all.push(other),
            }
        }
        match all.len() {
            0 => Expr::All,
            1 => all.swap_remove(0),
            _ => Expr::And(all),
        }
    }

    /// Records that match any of these.
    pub(super) fn any(parts: Vec<Expr>) -> Expr {
        let mut any = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Expr::All => return Expr::All,
                Expr::Or(inner) => any.extend(inner),
                other => any.push(other),
            }
        }
        match any.len() {
            1 => any.swap_remove(0),
            _ => Expr::Or(any),
        }
    }

    /// Records that do not match.
    pub(super) fn not(part: Expr) -> Expr {
        match part {
            Expr::Not(inner) => *inner,
            Expr::Levels(levels) => Expr::levels(levels.inverse()),
            Expr::All => Expr::Levels(LevelSet::NONE),
            other => Expr::Not(Box::new(other)),
        }
    }
}

impl Column {
    /// The column that a query names so.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Column> {
        Some(match name {
            "service" => Column::Service,
            "environment" | "env" => Column::Environment,
            "message" => Column::Message,
            "trace_id" => Column::TraceId,
            "span_id" => Column::SpanId,
            "event" => Column::Event,
            "scope" => Column::Scope,
            "receiver" => Column::Receiver,
            _ => return None,
        })
    }

    /// Its name in a query.
    pub(super) fn name(self) -> &'static str {
        match self {
            Column::Service => "service",
            Column::Environment => "environment",
            Column::Message => "message",
            Column::TraceId => "trace_id",
            Column::SpanId => "span_id",
            Column::Event => "event",
            Column::Scope => "scope",
            Column::Receiver => "receiver",
        }
    }

    /// Its name in the table.
    #[must_use]
    pub fn sql(self) -> &'static str {
        match self {
            Column::Event => "event_name",
            Column::Scope => "scope_name",
            other => other.name(),
        }
    }

    /// Whether its values are in lower case whatever was sent.
    pub(super) fn is_lower(self) -> bool {
        matches!(self, Column::TraceId | Column::SpanId)
    }
}

impl Relation {
    /// Whether `left` stands in this relation to `right`.
    pub(super) fn holds<T: Ord + ?Sized>(self, left: &T, right: &T) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::Above => left > right,
            Relation::AtLeast => left >= right,
            Relation::Below => left < right,
            Relation::AtMost => left <= right,
        }
    }

    /// Its sign in SQL.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::Above => ">",
            Relation::AtLeast => ">=",
            Relation::Below => "<",
            Relation::AtMost => "<=",
        }
    }
}
