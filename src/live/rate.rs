//! Which records a viewer is shown when more come than it asked for.
//!
//! Errors first, then warnings, then an even sample of the rest. Errors have an allowance of their
//! own beside the common one, so that a flood of other records before them cannot use it up.

use std::time::Instant;

use crate::record::Level;

/// An allowance of so many records a second, which fills up to one second's worth.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    common: f64,
    errors: f64,
    filled: Instant,
}

impl Rate {
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second);
        Self {
            per_second,
            common: per_second,
            errors: per_second,
            filled: now,
        }
    }

    /// Keeps as many of `rows` as the allowance has room for, in their order, and calls `drop` for
    /// the level of each of the others.
    pub(super) fn limit(
        &mut self,
        now: Instant,
        rows: &mut Vec<u32>,
        level: impl Fn(u32) -> Level,
        mut drop: impl FnMut(u32, Level),
    ) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.common = (self.common + elapsed * self.per_second).min(self.per_second);
        self.errors = (self.errors + elapsed * self.per_second).min(self.per_second);
        if rows.len() <= whole(self.common) {
            self.common -= rows.len() as f64;
            return;
        }
        let mut classes = [Class::default(); 3];
        for row in rows.iter() {
            classes[class(level(*row))].of += 1;
        }
        let mut room = whole(self.common);
        for class in &mut classes {
            class.keep = class.of.min(room);
            room -= class.keep;
            self.common -= class.keep as f64;
        }
        let more_errors = (classes[0].of - classes[0].keep).min(whole(self.errors));
        classes[0].keep += more_errors;
        self.errors -= more_errors as f64;
        rows.retain(|row| {
            let level = level(*row);
            let kept = classes[class(level)].next();
            if !kept {
                drop(*row, level);
            }
            kept
        });
    }
}

/// Keeps `keep` of `of` rows, evenly spread.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    of: usize,
    keep: usize,
    seen: usize,
}

impl Class {
    fn next(&mut self) -> bool {
        let before = self.seen * self.keep / self.of;
        self.seen += 1;
        self.seen * self.keep / self.of != before
    }
}

fn class(level: Level) -> usize {
    match level {
        Level::Error | Level::Fatal => 0,
        Level::Warn => 1,
        _ => 2,
    }
}

/// The whole records in an allowance, which is never negative.
fn whole(allowance: f64) -> usize {
    allowance.max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Every tenth row an error, every fifth a warning.
    fn level(row: u32) -> Level {
        match row {
            row if row % 10 == 0 => Level::Error,
            row if row % 5 == 0 => Level::Warn,
            _ => Level::Info,
        }
    }

    #[test]
    fn everything_passes_below_the_rate() {
        let start = Instant::now();
        let mut rate = Rate::new(100, start);
        for second in 0..3 {
            let mut rows: Vec<u32> = (0..100).collect();
            let now = start + Duration::from_secs(second);
            rate.limit(now, &mut rows, level, |_, _| panic!("none is dropped"));
            assert_eq!(rows.len(), 100);
        }
    }

    #[test]
    fn errors_are_kept_first_then_warnings_then_an_even_sample() {
        let mut rate = Rate::new(100, Instant::now());
        let mut rows: Vec<u32> = (0..500).collect();
        let mut dropped = [0; 7];
        rate.limit(Instant::now(), &mut rows, level, |_, level| {
            dropped[level as usize] += 1
        });
        let kept = |wanted| rows.iter().filter(|row| level(**row) == wanted).count();
        assert_eq!(
            (kept(Level::Error), kept(Level::Warn), kept(Level::Info)),
            (50, 50, 0)
        );
        assert_eq!(dropped, [0, 0, 0, 400, 0, 0, 0]);

        let mut rate = Rate::new(200, Instant::now());
        let mut rows: Vec<u32> = (0..500).collect();
        rate.limit(Instant::now(), &mut rows, level, |_, _| {});
        assert_eq!(rows.len(), 200);
        assert!(rows.is_sorted());
        let first_half = rows.iter().filter(|row| **row < 250).count();
        assert!((98..=102).contains(&first_half), "{first_half}");
    }

    #[test]
    fn a_flood_before_them_does_not_use_up_the_errors_allowance() {
        let now = Instant::now();
        let mut rate = Rate::new(100, now);
        let mut flood: Vec<u32> = (0..1000).collect();
        rate.limit(now, &mut flood, |_| Level::Info, |_, _| {});
        assert_eq!(flood.len(), 100);
        let mut errors: Vec<u32> = (0..80).collect();
        rate.limit(
            now,
            &mut errors,
            |_| Level::Error,
            |_, _| panic!("errors pass"),
        );
        assert_eq!(errors.len(), 80);
    }
}
