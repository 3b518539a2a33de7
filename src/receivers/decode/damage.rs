//! Why a body cannot be read: what, at which byte, in which field.

use std::fmt::Write;

use super::DecodeError;
use crate::normalize::Expands;
use crate::record::NoRoom;

/// Why reading stops. Boxed, as a result is returned for every field.
#[derive(Debug)]
pub(super) struct Damage(Box<Detail>);

#[derive(Debug)]
struct Detail {
    cause: Cause,
    /// The fields around it, the innermost first.
    path: Vec<(&'static str, Option<usize>)>,
}

#[derive(Debug)]
enum Cause {
    Broken { what: &'static str, offset: usize },
    Expands(Expands),
}

impl Damage {
    /// Something is wrong at a byte of the body.
    #[cold]
    pub(super) fn new(what: &'static str, offset: usize) -> Self {
        Self(Box::new(Detail {
            cause: Cause::Broken { what, offset },
            path: Vec::new(),
        }))
    }

    /// Adds the field around it.
    #[cold]
    pub(super) fn within(mut self, field: &'static str) -> Self {
        self.0.path.push((field, None));
        self
    }

    /// Adds the member of a repeated field around it.
    #[cold]
    pub(super) fn within_member(mut self, field: &'static str, index: usize) -> Self {
        self.0.path.push((field, Some(index)));
        self
    }
}

impl From<Expands> for Damage {
    #[cold]
    fn from(expands: Expands) -> Self {
        Self(Box::new(Detail {
            cause: Cause::Expands(expands),
            path: Vec::new(),
        }))
    }
}

impl From<Expands> for DecodeError {
    fn from(expands: Expands) -> Self {
        match expands {
            Expands::Limit(limit) => Self::Expands { limit },
            Expands::NoRoom(NoRoom { used, cap }) => Self::NoRoom { used, cap },
        }
    }
}

impl From<Damage> for DecodeError {
    #[cold]
    fn from(damage: Damage) -> Self {
        let Detail { cause, path } = *damage.0;
        match cause {
            Cause::Broken { what, offset } => Self::Damaged {
                what,
                offset,
                path: joined(&path),
            },
            Cause::Expands(expands) => expands.into(),
        }
    }
}

/// `resource_logs[0].scope_logs[2].log_records[7].body`.
fn joined(path: &[(&'static str, Option<usize>)]) -> String {
    let mut text = String::new();
    for (field, index) in path.iter().rev() {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(field);
        if let Some(index) = index {
            write!(text, "[{index}]").expect("strings take all");
        }
    }
    if text.is_empty() {
        text.push_str("the request");
    }
    text
}
