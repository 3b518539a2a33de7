//! A record as a line in a terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;

/// When to use colours.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Colour {
    /// If standard output is a terminal and NO_COLOR is not set.
    Auto,
    Always,
    Never,
}

/// How records are printed.
#[derive(Debug, Args)]
pub(super) struct LineArgs {
    /// Print records as JSON, one a line
    #[arg(long)]
    json: bool,
    /// Print the attributes after the message
    #[arg(long, short)]
    attributes: bool,
    /// Print times in UTC, not in this machine's zone
    #[arg(long)]
    utc: bool,
    /// Use colours
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Colour,
}

impl LineArgs {
    pub(super) fn printer(&self) -> Printer {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Printer {
            json: self.json,
            attributes: self.attributes,
            zone: if self.utc {
                TimeZone::UTC
            } else {
                TimeZone::system()
            },
            colour: match self.color {
                Colour::Auto => std::io::stdout().is_terminal() && !no_colour,
                Colour::Always => true,
                Colour::Never => false,
            },
        }
    }
}

/// The parts of a record that are printed; see live-view's contract for the rest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    timestamp: String,
    level: String,
    service: String,
    environment: String,
    message: String,
    attributes: BTreeMap<String, serde_json::Value>,
}

/// Makes lines.
#[derive(Debug)]
pub(super) struct Printer {
    json: bool,
    attributes: bool,
    zone: TimeZone,
    colour: bool,
}

const DIM: &str = "2";
const YELLOW: &str = "33";

impl Printer {
    /// One record as a line, its newline included. JSON comes out as it came in.
    pub(super) fn record(&self, raw: &RawValue) -> serde_json::Result<String> {
        if self.json {
            return Ok(format!("{}\n", raw.get()));
        }
        let record: Record = serde_json::from_str(raw.get())?;
        let mut line = String::with_capacity(record.message.len() + 96);
        self.paint(&mut line, DIM, &self.time(&record.timestamp));
        line.push(' ');
        let (code, name) = level(&record.level);
        self.paint(&mut line, code, name);
        line.push(' ');
        let mut origin = String::new();
        push_safe(&mut origin, &record.service);
        if !record.environment.is_empty() {
            origin.push('/');
            push_safe(&mut origin, &record.environment);
        }
        self.paint(&mut line, "36", &origin);
        line.push(' ');
        push_safe(&mut line, &record.message);
        if self.attributes {
            let mut all = String::new();
            for (key, value) in &record.attributes {
                all.push(' ');
                push_safe(&mut all, key);
                all.push('=');
                push_safe(&mut all, value.as_str().unwrap_or(&value.to_string()));
            }
            self.paint(&mut line, DIM, &all);
        }
        line.push('\n');
        Ok(line)
    }

    /// A remark about the stream, in its place between the records. None in JSON, where every line is
    /// a record.
    pub(super) fn remark(&self, text: &str) -> Option<String> {
        if self.json {
            return None;
        }
        let mut line = String::new();
        let mut safe = String::new();
        push_safe(&mut safe, text);
        self.paint(&mut line, YELLOW, &format!("── {safe} ──"));
        line.push('\n');
        Some(line)
    }

    fn paint(&self, line: &mut String, code: &str, text: &str) {
        if self.colour && !text.is_empty() {
            line.push_str("\x1b[");
            line.push_str(code);
            line.push('m');
            line.push_str(text);
            line.push_str("\x1b[0m");
        } else {
            line.push_str(text);
        }
    }

    fn time(&self, nanoseconds: &str) -> String {
        let time = nanoseconds
            .parse()
            .ok()
            .and_then(|ns: i128| Timestamp::from_nanosecond(ns).ok());
        match time {
            Some(time) => {
                let time = time.to_zoned(self.zone.clone());
                time.strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
            }
            None => "-".to_owned(),
        }
    }
}

/// A level's colour and its name at full width.
fn level(name: &str) -> (&'static str, &'static str) {
    match name {
        "trace" => (DIM, "TRACE"),
        "debug" => (DIM, "DEBUG"),
        "info" => ("34", "INFO "),
        "warn" => (YELLOW, "WARN "),
        "error" => ("31", "ERROR"),
        "fatal" => ("37;45", "FATAL"),
        _ => (DIM, "-    "),
    }
}

/// Appends text from outside: nothing in it can move the cursor, change colours or the direction of
/// reading. Further lines are indented, so that a record can be told from the next.
fn push_safe(line: &mut String, text: &str) {
    for c in text.trim_end_matches(['\n', '\r']).chars() {
        match c {
            '\n' => line.push_str("\n    "),
            '\t' => line.push(c),
            '\r' => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => line.extend(c.escape_unicode()),
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer() -> Printer {
        Printer {
            json: false,
            attributes: false,
            zone: TimeZone::UTC,
            colour: false,
        }
    }

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    const RECORD: &str = r#"{"timestamp":"1785000000123456789","id":"7","level":"warn","service":"shop",
        "environment":"prod","message":"disk full","attributes":{"path":"/var","free":"0"}}"#;

    #[test]
    fn a_record_is_one_line() {
        let line = printer().record(&raw(RECORD)).unwrap();
        assert_eq!(line, "2026-07-25 17:20:00.123 WARN  shop/prod disk full\n");
        let with_attributes = Printer {
            attributes: true,
            ..printer()
        };
        let line = with_attributes.record(&raw(RECORD)).unwrap();
        assert!(line.ends_with("disk full free=0 path=/var\n"), "{line}");
    }

    #[test]
    fn json_is_printed_as_it_came() {
        let printer = Printer {
            json: true,
            ..printer()
        };
        let json = r#"{"z":1,"a":[1.10]}"#;
        assert_eq!(printer.record(&raw(json)).unwrap(), format!("{json}\n"));
        assert_eq!(printer.remark("gap"), None);
    }

    #[test]
    fn a_message_cannot_take_over_the_terminal() {
        let json =
            r#"{"service":"a\u001b]0;x\u0007","message":"\u001b[31mred\u202e\r\nnext\u009b2J\n"}"#;
        let line = printer().record(&raw(json)).unwrap();
        assert_eq!(
            line,
            "- -     a\\u{1b}]0;x\\u{7} \\u{1b}[31mred\\u{202e}\n    next\\u{9b}2J\n"
        );
    }

    #[test]
    fn colours_are_put_around_the_parts() {
        let printer = Printer {
            colour: true,
            ..printer()
        };
        let line = printer.record(&raw(RECORD)).unwrap();
        assert!(
            line.contains("\x1b[33mWARN \x1b[0m \x1b[36mshop/prod\x1b[0m disk full"),
            "{line:?}"
        );
    }
}
