//! Records by level.

use std::ops::AddAssign;

use crate::record::Level;

/// How many records of each level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelCounts([u64; Level::ALL.len()]);

impl LevelCounts {
    /// Counts one record.
    pub fn add(&mut self, level: Level) {
        self.0[level as usize] += 1;
    }

    /// How many there are of one level.
    #[must_use]
    pub fn get(&self, level: Level) -> u64 {
        self.0[level as usize]
    }

    /// How many there are in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The levels that occur, as a JSON object from name to count.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        Level::ALL
            .into_iter()
            .filter(|level| self.get(*level) > 0)
            .map(|level| (level.as_str().to_owned(), self.get(level).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

impl AddAssign for LevelCounts {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
