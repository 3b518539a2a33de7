//! Sets of levels.

use std::fmt;

use crate::record::Level;

/// A set of levels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LevelSet(u8);

impl LevelSet {
    /// Every level.
    pub const ALL: LevelSet = LevelSet((1 << Level::ALL.len()) - 1);
    /// No level.
    pub const NONE: LevelSet = LevelSet(0);

    /// The levels of which this holds.
    #[must_use]
    pub fn of(holds: impl Fn(Level) -> bool) -> Self {
        let levels = Level::ALL.into_iter().filter(|level| holds(*level));
        levels.fold(Self::NONE, Self::with)
    }

    /// This level and all that are more severe.
    #[must_use]
    pub fn at_least(least: Level) -> Self {
        Self::of(|level| level >= least)
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

    /// The levels that are not in it.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self(!self.0 & Self::ALL.0)
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
