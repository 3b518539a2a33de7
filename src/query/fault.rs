//! What is said about a query's text: why it is none, and what may have been meant.

use serde_json::{Value, json};

/// Why a text is not a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// Where in the text, in bytes.
    pub position: usize,
    /// What is wrong there.
    pub text: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl Fault {
    pub(super) fn new(position: usize, text: impl Into<String>) -> Fault {
        Fault {
            position,
            text: text.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.hint {
            Some(hint) => json!({"position": self.position, "text": self.text, "hint": hint}),
            None => json!({"position": self.position, "text": self.text}),
        }
    }
}

/// A query that can be read, and may still not be what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Where in the text, in bytes.
    pub position: usize,
    /// What to write instead.
    pub instead: String,
    /// The field that the query asks for. Where records have it, nothing is amiss.
    pub field: Option<String>,
}

impl Hint {
    pub(super) fn to_json(&self) -> Value {
        json!({"position": self.position, "instead": self.instead})
    }
}
