//! The daemon's own log: to standard error, for a person or for a machine.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::{MakeWriter, SubscriberBuilder};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::limited::{Form, Limited};
use crate::config::{Log, LogFormat};

/// Sets the level of the log that was begun.
type SetLevel = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;
static SET_LEVEL: OnceLock<SetLevel> = OnceLock::new();

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why logging was not set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A word that is neither a level nor `target=level`. The filter's own parser would take it for
    /// a target and silence everything else.
    #[error(
        "\"{0}\" is not a level; write error, warn, info, debug or trace, or a filter such as info,watchtower::queue=debug"
    )]
    Level(String),
    /// Something else in the filter.
    #[error(
        "not a log filter: {0}; write a level, or a filter such as info,watchtower::queue=debug"
    )]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The level cannot be changed.
    #[error("the level cannot be changed: {0}")]
    Change(String),
    /// Logging is set up already.
    #[error("logging cannot be set up: {0}")]
    Init(#[from] TryInitError),
}

/// Reads `log.level`.
///
/// # Errors
/// When it is neither a level nor a filter.
pub fn parse_filter(level: &str) -> Result<EnvFilter, Error> {
    for directive in level.split(',').map(str::trim) {
        let level = directive
            .rsplit_once('=')
            .map_or(directive, |(_, level)| level);
        if !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(Error::Level(level.to_owned()));
        }
    }
    Ok(EnvFilter::builder().parse(level)?)
}

/// Sends the log of this process to standard error from now on.
///
/// Under systemd the journal keeps the time and the priority of each line, so the line itself has no time;
/// colours are for terminals. Of one place in the code lines are few ([`Limited`]).
///
/// # Errors
/// When `log.level` is wrong, or when it was called before.
pub fn init(log: &Log) -> Result<(), Error> {
    let terminal = std::io::stderr().is_terminal();
    let journal = std::env::var_os("JOURNAL_STREAM").is_some() && !terminal;
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let form = match (log.format, journal) {
        (LogFormat::Json, _) => Form::Json,
        (LogFormat::Human, true) => Form::Journal,
        (LogFormat::Human, false) => Form::Plain,
    };
    let writer = Limited::new(std::io::stderr, form);
    let (subscriber, set_level) = subscriber(log, writer, colour, !journal)?;
    subscriber.try_init()?;
    SET_LEVEL.get_or_init(|| set_level);
    Ok(())
}

/// Changes the level of the log that [`init`] began.
///
/// # Errors
/// When the level is wrong, or there is no log.
pub fn set_level(level: &str) -> Result<(), Error> {
    let filter = parse_filter(level)?;
    match SET_LEVEL.get() {
        Some(set) => set(filter).map_err(Error::Change),
        None => Err(Error::Change("there is no log".to_owned())),
    }
}

fn subscriber<W>(
    log: &Log,
    writer: W,
    colour: bool,
    time: bool,
) -> Result<(Box<dyn Subscriber + Send + Sync>, SetLevel), Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = SubscriberBuilder::default()
        .with_env_filter(parse_filter(&log.level)?)
        .with_span_events(FmtSpan::NONE)
        .with_ansi(colour)
        .with_writer(writer);
    // Each format is a type of its own, and so is its handle.
    macro_rules! finish {
        ($builder:expr) => {{
            let builder = $builder.with_filter_reloading();
            let handle = builder.reload_handle();
            let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            (Box::new(builder.finish()), Box::new(set))
        }};
    }
    Ok(match (log.format, time) {
        (LogFormat::Human, true) => finish!(builder),
        (LogFormat::Human, false) => finish!(builder.without_time()),
        (LogFormat::Json, _) => finish!(builder.json().flatten_event(true)),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Everything that is logged, as one text.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str, format: LogFormat, time: bool) -> String {
        let lines = Lines::default();
        let log = Log {
            level: level.to_owned(),
            format,
        };
        let writer = lines.clone();
        let (subscriber, _) = subscriber(&log, move || writer.clone(), false, time).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("too small");
            tracing::warn!(frames = 3, "disk is nearly full");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_for_the_journal_has_no_time_of_its_own() {
        let line = logged("info", LogFormat::Human, false);
        assert_eq!(
            line.trim(),
            "WARN watchtower::telemetry::logging::tests: disk is nearly full frames=3"
        );
        let line = logged("info", LogFormat::Human, true);
        assert!(line.starts_with("20"), "{line}");
    }

    #[test]
    fn a_json_line_is_one_object() {
        let line = logged("warn", LogFormat::Json, true);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["level"], "WARN");
        assert_eq!(value["message"], "disk is nearly full");
        assert_eq!(value["frames"], 3);
    }

    #[test]
    fn a_filter_is_levels_and_targets_and_nothing_else() {
        for good in ["info", "WARN", "info,watchtower::queue=debug", "off"] {
            assert!(parse_filter(good).is_ok(), "{good}");
        }
        for bad in ["infoo", "", "info,verbose", "watchtower=loud", "info,"] {
            let error = parse_filter(bad).unwrap_err().to_string();
            assert!(
                error.contains("is not a level; write error, warn, info"),
                "{bad}: {error}"
            );
        }
    }
}
