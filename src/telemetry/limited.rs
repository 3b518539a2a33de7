//! The way of each line of the log to its end: few of a kind, and marked for the journal.
//!
//! What is logged for each request could fill a disk; and where a collector sends the daemon's own log to the
//! daemon, a line about a line would go round for ever. So each place in the code may write a number of lines
//! in a time. Those that are left out are counted, and told with the next one.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// For this time a place has its number of lines.
const PERIOD: Duration = Duration::from_secs(10);
/// Lines of one place in that time.
const LINES: u32 = 50;
/// The same for what is only written when somebody asked for all of it.
const DETAILED_LINES: u32 = 5_000;

/// How the ends of lines differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Plain,
    /// For people, by way of the journal, which takes a line's priority from its beginning (sd-daemon(3)).
    Journal,
    /// One JSON object a line.
    Json,
}

/// What one place in the code wrote.
#[derive(Debug)]
struct Place {
    since: Instant,
    written: u32,
    left_out: u64,
}

/// Makes the writers of single lines. There are as many places as the code has, so that what is kept is bounded.
pub(super) struct Limited<W> {
    writer: W,
    form: Form,
    places: Mutex<HashMap<Identifier, Place>>,
}

impl<W> Limited<W> {
    pub(super) fn new(writer: W, form: Form) -> Self {
        Self {
            writer,
            form,
            places: Mutex::default(),
        }
    }

    /// Whether a place may write a line now: with how many that were left out before it.
    fn take(&self, of: &Metadata<'_>, now: Instant) -> Option<u64> {
        let most = if *of.level() <= Level::INFO {
            LINES
        } else {
            DETAILED_LINES
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(of.callsite()).or_insert(Place {
            since: now,
            written: 0,
            left_out: 0,
        });
        if now.duration_since(place.since) >= PERIOD {
            (place.since, place.written) = (now, 0);
        }
        if place.written >= most {
            place.left_out += 1;
            return None;
        }
        place.written += 1;
        Some(std::mem::take(&mut place.left_out))
    }

    /// What stands before a line.
    fn before(&self, level: Level, left_out: u64) -> String {
        // As the journal has them; its debug is the lowest.
        let priority = match (self.form, level) {
            (Form::Plain | Form::Json, _) => "",
            (Form::Journal, Level::ERROR) => "<3>",
            (Form::Journal, Level::WARN) => "<4>",
            (Form::Journal, Level::INFO) => "<6>",
            (Form::Journal, _) => "<7>",
        };
        let told = match (self.form, left_out) {
            (_, 0) => String::new(),
            (Form::Json, _) => format!(
                "{{\"level\":\"{level}\",\"message\":\"lines like the next one were left out\",\"count\":{left_out}}}\n"
            ),
            (Form::Plain | Form::Journal, _) => {
                format!("{priority}{level} {left_out} lines like the next one were left out\n")
            }
        };
        told + priority
    }
}

/// The writer of one line.
pub(super) struct Line<W> {
    /// `None` where it is left out.
    writer: Option<W>,
    before: String,
}

impl<W: Write> Write for Line<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(writer) = &mut self.writer else {
            return Ok(bytes.len());
        };
        if self.before.is_empty() {
            return writer.write(bytes);
        }
        // In one piece, so that no other thread's line comes in between.
        let mut whole = std::mem::take(&mut self.before).into_bytes();
        whole.extend_from_slice(bytes);
        writer.write_all(&whole)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Limited<W> {
    type Writer = Line<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line {
            writer: Some(self.writer.make_writer()),
            before: String::new(),
        }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Self::Writer {
        let Some(left_out) = self.take(of, Instant::now()) else {
            return Line {
                writer: None,
                before: String::new(),
            };
        };
        Line {
            writer: Some(self.writer.make_writer_for(of)),
            before: self.before(*of.level(), left_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata of a place that warns, and of one that gives details.
    fn places() -> [&'static Metadata<'static>; 2] {
        use tracing::Callsite as _;
        let warns = tracing::callsite!(name: "warns", kind: tracing::metadata::Kind::EVENT, target: "t", level: Level::WARN, fields: message);
        let details = tracing::callsite!(name: "details", kind: tracing::metadata::Kind::EVENT, target: "t", level: Level::DEBUG, fields: message);
        [warns.metadata(), details.metadata()]
    }

    #[test]
    fn a_place_writes_so_many_lines_in_a_time_and_then_tells_how_many_it_did_not() {
        let limited = Limited::new(io::sink, Form::Plain);
        let ([warns, details], start) = (places(), Instant::now());
        let taken = |of, now| {
            (0..10_000)
                .filter(|_| limited.take(of, now).is_some())
                .count()
        };
        assert_eq!(taken(warns, start), 50);
        assert_eq!(taken(details, start), 5_000);
        assert_eq!(limited.take(warns, start + PERIOD / 2), None);
        assert_eq!(limited.take(warns, start + PERIOD), Some(9_951));
        assert_eq!(limited.take(warns, start + PERIOD), Some(0));
    }

    #[test]
    fn lines_say_what_was_left_out_in_the_form_of_the_log() {
        let before = |form, level, left_out| Limited::new(io::sink, form).before(level, left_out);
        assert_eq!(before(Form::Plain, Level::WARN, 0), "");
        assert_eq!(before(Form::Journal, Level::ERROR, 0), "<3>");
        assert_eq!(before(Form::Journal, Level::INFO, 0), "<6>");
        assert_eq!(before(Form::Journal, Level::TRACE, 0), "<7>");
        assert_eq!(
            before(Form::Journal, Level::WARN, 7),
            "<4>WARN 7 lines like the next one were left out\n<4>"
        );
        let json = before(Form::Json, Level::WARN, 7);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&json["level"], &json["count"]),
            (&"WARN".into(), &7.into())
        );
    }

    #[test]
    fn a_line_is_written_in_one_piece() {
        let mut out = Vec::new();
        let mut line = Line {
            writer: Some(&mut out),
            before: "<4>".to_owned(),
        };
        line.write_all(b"one\n").unwrap();
        assert_eq!(out, b"<4>one\n");
        let mut left_out = Line::<Vec<u8>> {
            writer: None,
            before: String::new(),
        };
        left_out.write_all(b"two\n").unwrap();
    }
}
