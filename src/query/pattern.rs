//! Regular expressions that two engines understand as one.
//!
//! An expression is read once, by Rust's parser, into a form in which every class is a list of ranges,
//! case folding is done and every escape is resolved. That form runs here, and is printed for ClickHouse's
//! RE2 in the few signs whose meaning both share. So the two cannot differ in what `\w`, `(?i)` or `.` mean.

use std::fmt::Write;

use regex_automata::meta;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, HirKind, Look};

use super::needle::variants;

/// Longest expression, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 10;
/// Longest form printed for RE2. It goes with a URL.
const MAX_PRINTED: usize = 16 << 10;
/// Most often that a part may be repeated by number, parts within parts multiplied. RE2 takes 1,000.
const MAX_REPEAT: u32 = 500;
const MAX_DEPTH: u32 = 50;
const MAX_PROGRAM: usize = 1 << 20;

/// A regular expression, compiled.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    source: String,
    re2: String,
    regex: meta::Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.re2 == other.re2 && self.source == other.source
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Reads an expression; an error says what is wrong with it.
    pub(super) fn parse(source: &str) -> Result<Pattern, String> {
        if source.len() > MAX_BYTES {
            return Err(format!("an expression has at most {MAX_BYTES} bytes"));
        }
        let hir = ParserBuilder::new()
            .nest_limit(MAX_DEPTH)
            .build()
            .parse(&ascii_classes(source)?)
            .map_err(|error| match error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                other => other.to_string(),
            })?;
        Pattern::of(source, &hir)
    }

    /// A text whose letters may be of either case.
    pub(super) fn folded(text: &str) -> Pattern {
        let chars = text.chars().map(|char| {
            let ranges = variants(char).into_iter();
            let ranges = ranges.map(|char| ClassUnicodeRange::new(char, char));
            Hir::class(Class::Unicode(ClassUnicode::new(ranges)))
        });
        Pattern::of(text, &Hir::concat(chars.collect()))
            .expect("a list of small classes, not longer than a query, is within all limits")
    }

    fn of(source: &str, hir: &Hir) -> Result<Pattern, String> {
        let mut re2 = String::new();
        print(hir, 1, &mut re2)?;
        let config = meta::Config::new()
            .nfa_size_limit(Some(MAX_PROGRAM))
            .utf8_empty(true);
        let regex = meta::Builder::new()
            .configure(config)
            .build_from_hir(hir)
            .map_err(|_| "the expression is too large".to_owned())?;
        Ok(Pattern {
            source: source.to_owned(),
            re2,
            regex,
        })
    }

    /// As it was written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// For ClickHouse's `match`.
    pub(super) fn re2(&self) -> &str {
        &self.re2
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Writes the classes of letters out, as ASCII.
fn ascii_classes(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        out.push_str(match chars.next() {
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => r"[\t\n\x0B\f\r ]",
            Some('S') => r"[^\t\n\x0B\f\r ]",
            Some('b') => r"(?-u:\b)",
            Some(other @ ('B' | 'p' | 'P')) => return Err(format!("`\\{other}` is not supported")),
            Some(other) => {
                out.push('\\');
                out.push(other);
                continue;
            }
            None => "\\",
        });
    }
    Ok(out)
}

/// Prints an expression for RE2; `repeated` is how often what is around it is repeated.
fn print(hir: &Hir, repeated: u32, out: &mut String) -> Result<(), String> {
    if out.len() > MAX_PRINTED {
        return Err("the expression is too large".to_owned());
    }
    match hir.kind() {
        HirKind::Empty => out.push_str("(?:)"),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).map_err(|_| not_text())?;
            text.chars().for_each(|char| push_char(out, char));
        }
        HirKind::Class(class) => print_class(class, out)?,
        HirKind::Look(look) => out.push_str(match look {
            Look::Start => r"\A",
            Look::End => r"\z",
            Look::StartLF => "(?m:^)",
            Look::EndLF => "(?m:$)",
            Look::WordAscii => r"\b",
            _ => return Err("this kind of boundary is not supported".to_owned()),
        }),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min).max(1);
            let repeated = repeated.saturating_mul(most);
            if repeated > MAX_REPEAT {
                return Err(format!("repeated more than {MAX_REPEAT} times"));
            }
            group(&repetition.sub, repeated, out)?;
            let printed = match (repetition.min, repetition.max) {
                (0, None) => write!(out, "*"),
                (min, None) => write!(out, "{{{min},}}"),
                (min, Some(max)) => write!(out, "{{{min},{max}}}"),
            };
            printed.map_err(|_| not_text())?;
        }
        HirKind::Capture(capture) => group(&capture.sub, repeated, out)?,
        HirKind::Concat(parts) => {
            for part in parts {
                match part.kind() {
                    HirKind::Alternation(_) => group(part, repeated, out)?,
                    _ => print(part, repeated, out)?,
                }
            }
        }
        HirKind::Alternation(parts) => {
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                print(part, repeated, out)?;
            }
        }
    }
    Ok(())
}

fn group(hir: &Hir, repeated: u32, out: &mut String) -> Result<(), String> {
    out.push_str("(?:");
    print(hir, repeated, out)?;
    out.push(')');
    Ok(())
}

fn print_class(class: &Class, out: &mut String) -> Result<(), String> {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(class) => class.to_unicode_class().ok_or_else(not_text)?,
    };
    if Hir::class(Class::Unicode(class.clone())) == Hir::dot(Dot::AnyChar) {
        out.push_str("(?s:.)");
        return Ok(());
    }
    if class.ranges().is_empty() {
        out.push_str(r"[^\x{0}-\x{10FFFF}]");
        return Ok(());
    }
    out.push('[');
    for range in class.ranges() {
        push_char(out, range.start());
        if range.start() != range.end() {
            out.push('-');
            push_char(out, range.end());
        }
    }
    out.push(']');
    Ok(())
}

/// A character that means itself, within a class and outside of one.
fn push_char(out: &mut String, char: char) {
    if char.is_ascii_punctuation() {
        out.push('\\');
        out.push(char);
    } else if char.is_control() {
        let code = u32::from(char);
        write!(out, "\\x{{{code:X}}}").expect("writing to a string cannot fail");
    } else {
        out.push(char);
    }
}

fn not_text() -> String {
    "the expression is about bytes, not text".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn re2(source: &str) -> String {
        Pattern::parse(source).unwrap().re2().to_owned()
    }

    #[test]
    fn expressions_are_printed_with_every_class_resolved() {
        assert_eq!(re2(r"^\d{3}\b"), r"\A(?:[0-9]){3,3}\b");
        assert_eq!(re2("(?i)k1"), "[Kk\u{212a}]1");
        assert_eq!(re2(r"a|b(c|de)*"), "a|b(?:(?:c|de))*");
        assert_eq!(re2(r"/x\.[\]a-f]"), r"\/x\.[\]a-f]");
        assert_eq!(re2("."), r"[\x{0}-\x{9}\x{B}-".to_owned() + "\u{10ffff}]");
        assert_eq!(Pattern::folded("Gü").re2(), "[Gg][Üü]");
    }

    #[test]
    fn what_is_not_shared_is_refused() {
        for source in [
            "(",
            "[",
            r"\B",
            r"\pL",
            "(?-u:\\xff)",
            r"(a{100}){100}",
            "a{1001}",
        ] {
            assert!(Pattern::parse(source).is_err(), "{source}");
        }
        assert!(Pattern::parse(&"(".repeat(900)).is_err());
        assert!(Pattern::parse(&"a".repeat(2000)).is_err());
    }

    #[test]
    fn expressions_find_what_they_say() {
        let found = |source: &str, text: &str| Pattern::parse(source).unwrap().is_in(text);
        assert!(found(r"took \d+ms$", "GET / took 15ms"));
        assert!(!found(r"took \d+ms$", "GET / took ٣ms"));
        assert!(!found("a.b", "a\nb"));
        assert!(found("(?i)ÄRGER", "ärger"));
        assert!(found(r"\bfoo\b", "a foo b"));
    }
}
