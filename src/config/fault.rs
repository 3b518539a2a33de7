//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file, and the line in it where that is known.
    File(PathBuf, Option<usize>),
    /// A `--set` flag.
    Flag,
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Flag => f.write_str("--set"),
            Self::Default => f.write_str("configuration"),
        }
    }
}

/// One thing that is wrong: where, which key, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it stands.
    pub origin: Origin,
    /// The key's whole path; empty where no key is to blame.
    pub key: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)
    }
}

/// Everything that is wrong with a configuration, in the order in which it stands there; one line
/// each when printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// The faults, if there are any.
    pub(super) fn check(mut faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|fault| match &fault.origin {
            Origin::File(_, line) => (0, *line),
            Origin::Flag => (1, None),
            Origin::Default => (2, None),
        });
        Err(Self(faults))
    }

    /// A single fault.
    pub(super) fn one(origin: Origin, key: &str, problem: String) -> Self {
        let key = key.to_owned();
        Self(vec![Fault {
            origin,
            key,
            problem,
        }])
    }

    /// Each fault.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Fault> {
        self.0.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
