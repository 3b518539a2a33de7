//! Values for the places in a query, so that nothing from outside becomes SQL.

use serde::Serialize;

/// A bound parameter: what stands in the SQL as `{name:Type}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub(super) name: String,
    pub(super) value: Value,
}

/// A parameter's value; the crate escapes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    One(String),
    Many(Vec<String>),
}

impl Param {
    /// A text.
    #[must_use]
    pub fn text(name: impl Into<String>, text: &str) -> Param {
        Param {
            name: name.into(),
            value: Value::One(text.to_owned()),
        }
    }

    /// A list of texts, for `Array(String)`.
    #[must_use]
    pub fn texts<'a>(name: impl Into<String>, texts: impl IntoIterator<Item = &'a str>) -> Param {
        let texts = texts.into_iter().map(str::to_owned);
        Param {
            name: name.into(),
            value: Value::Many(texts.collect()),
        }
    }

    /// A number.
    #[must_use]
    pub fn number(name: impl Into<String>, number: impl std::fmt::Display) -> Param {
        Param::text(name, &number.to_string())
    }
}
