//! Severity: numbers and texts to levels.

use super::Decimal;
use crate::config::Digits;
use crate::record::Level;

/// Longest spelling in the table below.
const LONGEST_NAME: usize = 13;

/// The level of an OTLP severity number; `None` outside 1 to 24.
pub(crate) fn level_of_number(number: i64) -> Option<Level> {
    Some(match number {
        1..=4 => Level::Trace,
        5..=8 => Level::Debug,
        9..=12 => Level::Info,
        13..=16 => Level::Warn,
        17..=20 => Level::Error,
        21..=24 => Level::Fatal,
        _ => return None,
    })
}

/// The first severity number of a level; 0 for unspecified.
pub(crate) fn number_of_level(level: Level) -> u8 {
    match level {
        Level::Unspecified => 0,
        Level::Trace => 1,
        Level::Debug => 5,
        Level::Info => 9,
        Level::Warn => 13,
        Level::Error => 17,
        Level::Fatal => 21,
    }
}

/// The level that a severity text means: any of the usual spellings in either case, in brackets or
/// not, with OTLP's trailing digit (`INFO2`) or Go's offset (`INFO+2`), or a number as pino and
/// bunyan write it. Bare digits mean different things elsewhere (Python 10 to 50, syslog 0 to 7):
/// `digits` says which.
pub(crate) fn level_of_text(text: &str, digits: Digits) -> Level {
    let text = text.trim_matches(|c: char| c.is_whitespace() || "[]<>():".contains(c));
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let number = text.parse().ok();
        return number.map_or(Level::Unspecified, |number| level_of_digits(number, digits));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        // A logger whose numbers are floats means the same by 50.0 as by 50.
        let number = Decimal::parse(text).and_then(Decimal::whole);
        let number = number.and_then(|number| u16::try_from(number).ok());
        return number.map_or(Level::Unspecified, |number| level_of_digits(number, digits));
    }
    let name = without_offset(text).as_bytes();
    let mut lower = [0; LONGEST_NAME];
    let Some(lower) = lower.get_mut(..name.len()) else {
        return Level::Unspecified;
    };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    level_of_name(lower)
}

fn level_of_digits(number: u16, digits: Digits) -> Level {
    match (digits, number) {
        (Digits::Pino, 10) => Level::Trace,
        (Digits::Pino, 20) | (Digits::Python, 10) | (Digits::Syslog, 7) => Level::Debug,
        (Digits::Pino, 30) | (Digits::Python, 20) | (Digits::Syslog, 5 | 6) => Level::Info,
        (Digits::Pino, 40) | (Digits::Python, 30) | (Digits::Syslog, 4) => Level::Warn,
        (Digits::Pino, 50) | (Digits::Python, 40) | (Digits::Syslog, 2 | 3) => Level::Error,
        (Digits::Pino, 60) | (Digits::Python, 50) | (Digits::Syslog, 0 | 1) => Level::Fatal,
        (Digits::Pino, _) => level_of_number(number.into()).unwrap_or_default(),
        _ => Level::Unspecified,
    }
}

/// Cuts `+2` and `-1`, or one trailing digit from 1 to 4.
fn without_offset(text: &str) -> &str {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if letters.len() == text.len() {
        return text;
    }
    if let Some(name) = letters.strip_suffix(['+', '-']) {
        return name;
    }
    match text.strip_suffix(['1', '2', '3', '4']) {
        Some(name) if name.len() == letters.len() => name,
        _ => text,
    }
}

fn level_of_name(lower: &[u8]) -> Level {
    match lower {
        b"trace" | b"trc" | b"verbose" | b"verb" | b"vrb" | b"finest" | b"finer" | b"all"
        | b"silly" | b"t" | b"v" => Level::Trace,
        b"debug" | b"dbg" | b"dbug" | b"debugging" | b"fine" | b"config" | b"d" => Level::Debug,
        b"info" | b"inf" | b"information" | b"informational" | b"informative" | b"notice"
        | b"note" | b"normal" | b"log" | b"ok" | b"success" | b"audit" | b"i" | b"n" => Level::Info,
        b"warn" | b"warning" | b"wrn" | b"wrng" | b"w" => Level::Warn,
        b"error" | b"err" | b"erro" | b"eror" | b"severe" | b"failure" | b"failed"
        | b"exception" | b"fault" | b"crit" | b"alert" | b"dpanic" | b"panic" | b"e" => {
            Level::Error
        }
        b"fatal" | b"ftl" | b"critical" | b"emergency" | b"emerg" | b"wtf" | b"assert" | b"f"
        | b"a" | b"c" => Level::Fatal,
        _ => Level::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level_of_text(text: &str) -> Level {
        super::level_of_text(text, Digits::Pino)
    }

    #[test]
    fn m_05_bare_digits_mean_what_is_configured() {
        let read = |digits, text| super::level_of_text(text, digits);
        for (text, pino, python, syslog) in [
            ("10", Level::Trace, Level::Debug, Level::Unspecified),
            ("20", Level::Debug, Level::Info, Level::Unspecified),
            ("50", Level::Error, Level::Fatal, Level::Unspecified),
            ("3", Level::Trace, Level::Unspecified, Level::Error),
            ("7", Level::Debug, Level::Unspecified, Level::Debug),
            ("0", Level::Unspecified, Level::Unspecified, Level::Fatal),
            (
                "200",
                Level::Unspecified,
                Level::Unspecified,
                Level::Unspecified,
            ),
            ("warn", Level::Warn, Level::Warn, Level::Warn),
        ] {
            assert_eq!(read(Digits::Pino, text), pino, "{text}");
            assert_eq!(read(Digits::Python, text), python, "{text}");
            assert_eq!(read(Digits::Syslog, text), syslog, "{text}");
        }
        for (text, level) in [
            ("50.0", Level::Error),
            ("5e1", Level::Error),
            ("3.0E+1", Level::Info),
            ("50.5", Level::Unspecified),
            ("5e9", Level::Unspecified),
            ("5x", Level::Unspecified),
        ] {
            assert_eq!(read(Digits::Pino, text), level, "{text}");
        }
        assert_eq!(read(Digits::None, "50.0"), Level::Unspecified);
        assert_eq!(read(Digits::None, "30"), Level::Unspecified);
        assert_eq!(read(Digits::None, "INFO2"), Level::Info);
    }

    #[test]
    fn m_1_every_number_has_its_level() {
        let expected = "tttt dddd iiii wwww eeee ffff".replace(' ', "");
        for (number, letter) in (1..).zip(expected.chars()) {
            let level = level_of_number(number).expect("1 to 24");
            assert!(level.as_str().starts_with(letter), "{number}: {level:?}");
        }
        for number in [0, -1, 25, 200, i64::MIN, i64::MAX] {
            assert_eq!(level_of_number(number), None);
        }
    }

    #[test]
    fn m_1_every_spelling_has_its_level() {
        let table = [
            (
                Level::Trace,
                "trace trc verbose verb vrb finest finer all silly t v",
            ),
            (Level::Debug, "debug dbg dbug debugging fine config d"),
            (
                Level::Info,
                "info inf information informational informative notice note normal log ok success audit i n",
            ),
            (Level::Warn, "warn warning wrn wrng w"),
            (
                Level::Error,
                "error err erro eror severe failure failed exception fault crit alert dpanic panic e",
            ),
            (
                Level::Fatal,
                "fatal ftl critical emergency emerg wtf assert f a c",
            ),
            (
                Level::Unspecified,
                "empty unknown unset notset none off default log_always undefined informationalx",
            ),
        ];
        for (level, names) in table {
            for name in names.split(' ') {
                assert_eq!(level_of_text(name), level, "{name}");
                assert_eq!(level_of_text(&name.to_uppercase()), level, "{name}");
                assert_eq!(level_of_text(&format!(" [{name}] ")), level, "{name}");
                assert_eq!(level_of_text(&format!("<{name}>:")), level, "{name}");
            }
        }
        assert_eq!(level_of_text(""), Level::Unspecified);
        assert_eq!(level_of_text("хорошо"), Level::Unspecified);
    }

    #[test]
    fn m_1_digits_and_offsets() {
        for (text, level) in [
            ("10", Level::Trace),
            ("20", Level::Debug),
            ("30", Level::Info),
            ("40", Level::Warn),
            ("50", Level::Error),
            ("60", Level::Fatal),
            ("9", Level::Info),
            ("24", Level::Fatal),
            ("0", Level::Unspecified),
            ("25", Level::Unspecified),
            ("200", Level::Unspecified),
            ("INFO2", Level::Info),
            ("TRACE4", Level::Trace),
            ("INFO5", Level::Unspecified),
            ("INFO22", Level::Unspecified),
            ("INFO+2", Level::Info),
            ("ERROR-1", Level::Error),
            ("DEBUG+12", Level::Debug),
            ("+2", Level::Unspecified),
            ("-", Level::Unspecified),
        ] {
            assert_eq!(level_of_text(text), level, "{text}");
        }
    }

    #[test]
    fn m_06_names_of_python_dotnet_and_java() {
        for (text, level) in [
            ("WARN", Level::Warn),
            ("FATAL", Level::Fatal),
            ("WARNING", Level::Warn),
            ("CRITICAL", Level::Fatal),
            ("Information", Level::Info),
            ("Critical", Level::Fatal),
            ("SEVERE", Level::Error),
            ("CONFIG", Level::Debug),
        ] {
            assert_eq!(level_of_text(text), level, "{text}");
        }
    }
}
