//! The configuration file: one struct a section, its loading and its checks.
//!
//! `load` reads, expands `${VAR}`, parses and validates; it reports every fault at once, each with
//! file, line and the nearest key, and it changes nothing else in the process.

mod sections;
mod units;

pub use sections::*;
pub use units::{ByteSize, Period, Secret};
