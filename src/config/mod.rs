//! The configuration file: one struct a section, its loading and its checks.
//!
//! `load` reads, expands `${VAR}`, parses and validates; it reports every fault at once, each with
//! file, line and the nearest key, and it changes nothing else in the process.

mod checks;
mod expand;
mod fault;
mod flag;
mod load;
mod otlp;
mod redis_url;
mod retention;
mod schema;
mod secret;
mod sections;
mod tree;
mod units;

pub use checks::Conflict;
pub use fault::{Fault, Faults, Origin};
pub use load::{find_file, load, load_inspected, load_sections, load_text};
pub use otlp::{Cors, Digits, Levels, OtherSignals, Otlp};
pub use retention::{Exception, Kept};
pub use secret::Secret;
pub use sections::*;
pub use units::{ByteSize, Period};

impl Config {
    /// What is allowed and yet unlikely to be meant; to be logged at start and shown by `check`.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        checks::warnings(self)
    }

    /// The whole configuration as YAML, with `***` for every secret.
    ///
    /// # Panics
    /// Never: the configuration's own types can all be written as YAML.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(self)
            .expect("the configuration's own types can all be written as YAML")
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
