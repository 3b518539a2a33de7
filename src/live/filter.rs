//! What a viewer wants to see.

use std::fmt;

use serde_json::{Value, json};

use super::text::Needle;
use crate::frame::{Block, LowCardinality};
use crate::record::Level;

/// A set of levels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LevelSet(u8);

impl LevelSet {
    /// Every level.
    pub const ALL: LevelSet = LevelSet((1 << Level::ALL.len()) - 1);
    /// No level.
    pub const NONE: LevelSet = LevelSet(0);

    /// This level and all that are more severe.
    #[must_use]
    pub fn at_least(least: Level) -> Self {
        Level::ALL
            .into_iter()
            .filter(|level| *level >= least)
            .fold(Self::NONE, Self::with)
    }

    /// This set and one more level.
    #[must_use]
    pub fn with(self, level: Level) -> Self {
        Self(self.0 | 1 << level as u8)
    }

    /// The levels that are in both sets.
    #[must_use]
    pub fn and(self, other: LevelSet) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether a level is in it.
    #[must_use]
    pub fn contains(self, level: Level) -> bool {
        self.0 & (1 << level as u8) != 0
    }

    /// The levels in it, least severe first.
    pub fn iter(self) -> impl Iterator<Item = Level> {
        Level::ALL
            .into_iter()
            .filter(move |level| self.contains(*level))
    }
}

impl fmt::Debug for LevelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Which records to show. A record must pass all of it; the default lets everything pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    levels: LevelSet,
    services: Vec<String>,
    environments: Vec<String>,
    text: String,
    needle: Needle,
}

impl Default for Filter {
    fn default() -> Self {
        Self::new(LevelSet::ALL, Vec::new(), Vec::new(), String::new())
    }
}

impl Filter {
    /// Records of one of these levels, of one of these services and environments (an empty list
    /// means all), with this text in their message whatever the case of its letters.
    #[must_use]
    pub fn new(
        levels: LevelSet,
        mut services: Vec<String>,
        mut environments: Vec<String>,
        text: String,
    ) -> Self {
        services.sort();
        services.dedup();
        environments.sort();
        environments.dedup();
        Self {
            needle: Needle::new(&text),
            levels,
            services,
            environments,
            text,
        }
    }

    /// The levels that pass.
    #[must_use]
    pub fn levels(&self) -> LevelSet {
        self.levels
    }

    /// The services that pass; empty: all.
    #[must_use]
    pub fn services(&self) -> &[String] {
        &self.services
    }

    /// The environments that pass; empty: all.
    #[must_use]
    pub fn environments(&self) -> &[String] {
        &self.environments
    }

    /// The text that messages must hold; empty: any.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether every record passes.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self == &Filter::default()
    }

    /// The filter as the stream's `hello` shows it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "levels": self.levels.iter().map(Level::as_str).collect::<Vec<_>>(),
            "services": self.services,
            "environments": self.environments,
            "text": self.text,
        })
    }

    /// Appends the numbers of the block's rows that pass, in their order.
    ///
    /// Columns of few distinct strings are looked at once per string; only rows that pass all of
    /// them have their message searched.
    pub fn rows(&self, block: &Block<'_>, rows: &mut Vec<u32>) {
        let services = wanted(&self.services, block.service());
        let environments = wanted(&self.environments, block.environment());
        let mut scratch = String::new();
        let passing = (0..block.len()).filter(|&row| {
            self.levels.contains(block.level(row))
                && services
                    .as_ref()
                    .is_none_or(|wanted| wanted[block.service().index(row)])
                && environments
                    .as_ref()
                    .is_none_or(|wanted| wanted[block.environment().index(row)])
                && (self.text.is_empty() || self.needle.is_in(block.messages()[row], &mut scratch))
        });
        rows.extend(passing.filter_map(|row| u32::try_from(row).ok()));
    }
}

/// Which strings of a column's dictionary are among `names`; `None` when all pass.
fn wanted(names: &[String], column: &LowCardinality<'_>) -> Option<Vec<bool>> {
    (!names.is_empty()).then(|| {
        let is_wanted = |text: &&str| names.iter().any(|name| name == text);
        column.dictionary().iter().map(is_wanted).collect()
    })
}
