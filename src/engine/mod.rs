//! The embedded ClickHouse engine: ClickHouse itself, as a child process, from the shared library
//! `libchdb.so` or from a `clickhouse` binary.
//!
//! [`Engine`] is the daemon's side: it writes the engine's configuration, starts the child, waits
//! until it answers, starts it again when it dies, and stops it. [`run_child`] is the child's side,
//! behind `watchtower engine`. They share a directory under the state directory:
//!
//! ```text
//! engine/config.xml   the server's settings, written anew at each start
//! engine/users.xml    the two users, readable by the owner only, written anew at each start
//! engine/access       how people reach it with a user that only reads, for `watchtower sql`
//! engine/data/        ClickHouse's own
//! ```
//!
//! The engine listens on one loopback port. Its user `watchtower` has a fresh random password at each
//! start and rights on the one database. The other user, `default`, is the library's own session: it
//! may open the port and wait, and as it may have one session only, nobody else can log in as it.

mod child;
mod files;
mod library;
mod supervisor;
mod words;

pub use child::{ChildArgs, run_child};
pub use files::access;
pub use supervisor::{Engine, inspect};

use std::io;
use std::path::PathBuf;

/// Why the embedded engine does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no library to start.
    #[error(
        "no ClickHouse engine: looked for {}; run ./scripts/quickstart, which installs the npm package \
         {}, or set `engine.library`, or `store.url` to use a server",
        .searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        library::NPM_PACKAGE
    )]
    NoLibrary {
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// What the configuration names is not there.
    #[error(
        "`{key}` names {}, which is {}; correct it, leave it out and run ./scripts/quickstart, which \
         installs the npm package {}, or set `store.url` to use a server",
        .path.display(),
        if .path.exists() { "no file" } else { "not there" },
        library::NPM_PACKAGE
    )]
    Missing {
        /// The key of the configuration.
        key: &'static str,
        /// What it names.
        path: PathBuf,
    },
    /// What the configuration names is something else.
    #[error("`{key}` names {}, which {fault}", .path.display())]
    Unusable {
        /// The key of the configuration.
        key: &'static str,
        /// What it names.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// The library is there and cannot be used.
    #[error(
        "cannot use {} as ClickHouse's library: {source}; `engine.library` (or {}) must name the \
         libchdb.so of the npm package {}, or set `store.url` to use a server",
        .path.display(), library::VARIABLE, library::NPM_PACKAGE
    )]
    Load {
        /// The library.
        path: PathBuf,
        /// What the dynamic linker said.
        source: libloading::Error,
    },
    /// The binary is there and cannot be run.
    #[error(
        "cannot run {}: {source}; `engine.binary` must name a ClickHouse program for this machine that \
         this user may run; without it the library is used",
        .path.display()
    )]
    Exec {
        /// The binary.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file, a pipe or the process itself.
    #[error("engine {what} failed on {}: {source}", .path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The engine ended although nobody asked it to; it wrote why to standard error.
    #[error("the engine ended by itself")]
    Ended,
}

impl Error {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { what, path, source }
    }
}
