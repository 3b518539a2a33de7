//! What the configuration names outside of itself: files, directories, programs. `check` and the start
//! of the daemon look at them before anything is opened.

use crate::config::{Config, Conflict};
use crate::{engine, server};

use super::state_dir;

/// Everything that the daemon could not use. Nothing is made or changed.
#[must_use]
pub fn inspect(config: &Config) -> Vec<Conflict> {
    let mut found = Vec::new();
    let tls = &config.tls;
    // That only one of the two is set is told with the other conflicts.
    if tls.cert_file.is_some() == tls.key_file.is_some()
        && let Err(error) = server::acceptor(tls)
    {
        let (key, problem) = error.blame();
        found.push(Conflict::of(key, problem));
    }
    // An empty one is told likewise.
    if !config.state_dir.as_os_str().is_empty()
        && let Err(problem) = state_dir::inspect(&config.state_dir)
    {
        found.push(Conflict::of("state_dir", problem));
    }
    if config.store.url.is_none()
        && let Err(error) = engine::inspect(config)
        && let Some((key, problem)) = blame(&error)
    {
        found.push(Conflict::of(key, problem));
    }
    found
}

/// What is missing on this machine, though nothing in the configuration is wrong.
#[must_use]
pub fn missing(config: &Config) -> Option<String> {
    let error = match config.store.url {
        None => engine::inspect(config).err()?,
        Some(_) => return None,
    };
    blame(&error).is_none().then(|| error.to_string())
}

/// The key that names something that is no engine.
fn blame(error: &engine::Error) -> Option<(&'static str, String)> {
    let (key, problem) = match error {
        engine::Error::Missing { key, path } => (
            *key,
            format!("{} is not there; write the right path", path.display()),
        ),
        engine::Error::Unusable { key, path, fault } => {
            (*key, format!("{} {fault}", path.display()))
        }
        _ => return None,
    };
    // An environment variable names it otherwise.
    key.starts_with("engine.").then_some((key, problem))
}
