//! Reads the pieces of a query's text: phrases, expressions, keys, values, words.

use super::fault::Fault;

/// A place in a query's text.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// What stands between a key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Is,
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A value: pieces between stars, and whether it was quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) pieces: Vec<String>,
    pub(super) quoted: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Where it is, in bytes.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Goes over this text if it comes next.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += char.len_utf8();
        Some(char)
    }

    /// Goes over an operator in capitals, if it comes next as a word of its own.
    pub(super) fn take_operator(&mut self, name: &str) -> bool {
        let Some(after) = self.rest().strip_prefix(name) else {
            return false;
        };
        let ends = match after.chars().next() {
            None => true,
            Some(char) => char.is_whitespace() || matches!(char, '(' | ')' | '"'),
        };
        if ends {
            self.at += name.len();
        }
        ends
    }

    /// A phrase, from its opening quotation mark. `\"` and `\\` are the mark and the backslash.
    pub(super) fn phrase(&mut self) -> Result<String, Fault> {
        let start = self.at;
        self.next();
        let mut phrase = String::new();
        while let Some(char) = self.next() {
            match (char, self.peek()) {
                ('"', _) => return Ok(phrase),
                ('\\', Some(next @ ('"' | '\\'))) => {
                    self.next();
                    phrase.push(next);
                }
                _ => phrase.push(char),
            }
        }
        Err(Fault::new(start, "a quotation mark is not closed")
            .hint("write \\\" for the mark itself"))
    }

    /// An expression between slashes. It must end where a word ends: `/var/log` is text.
    pub(super) fn regex(&mut self) -> Option<String> {
        let mut ahead = self.clone();
        ahead.next();
        let mut regex = String::new();
        loop {
            match (ahead.next()?, ahead.peek()) {
                ('\\', Some('/')) => {
                    ahead.next();
                    regex.push('/');
                }
                ('\\', Some(next)) => {
                    ahead.next();
                    regex.extend(['\\', next]);
                }
                ('/', after) => {
                    let ends = after.is_none_or(|char| char.is_whitespace() || char == ')');
                    if !ends || regex.is_empty() {
                        return None;
                    }
                    *self = ahead;
                    return Some(regex);
                }
                (char, _) => regex.push(char),
            }
        }
    }

    /// A key and the operator behind it, if that is what comes next and a value follows.
    pub(super) fn key(&mut self) -> Option<(String, Op)> {
        let mut ahead = self.clone();
        let (name, quoted) = if ahead.peek() == Some('"') {
            (ahead.phrase().ok()?, true)
        } else {
            (ahead.ident()?, false)
        };
        let op = ahead.op()?;
        let is_text = match ahead.peek() {
            None => true,
            Some(char) if char.is_whitespace() || char == ')' => true,
            // `https://x`, `std::string`
            Some('/' | ':') if op == Op::Is && !quoted => {
                ahead.rest().starts_with("//") || ahead.rest().starts_with(':')
            }
            Some(_) => false,
        };
        if is_text || name.is_empty() {
            return None;
        }
        *self = ahead;
        Some((name, op))
    }

    fn ident(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|char| !is_key_char(char)).unwrap_or(rest.len());
        let name = rest.get(..end).filter(|name| is_key(name))?;
        self.at += end;
        Some(name.to_owned())
    }

    fn op(&mut self) -> Option<Op> {
        let ops = [
            (">=", Op::AtLeast),
            ("<=", Op::AtMost),
            (">", Op::Above),
            ("<", Op::Below),
            (":", Op::Is),
        ];
        let (_, op) = ops.into_iter().find(|(sign, _)| self.take(sign))?;
        Some(op)
    }

    /// A value: a phrase, or all up to the next space or closing bracket. A backslash takes the meaning
    /// of a star, a bracket, a quotation mark, a space and itself.
    pub(super) fn value(&mut self, in_group: bool) -> Result<Value, Fault> {
        if self.peek() == Some('"') {
            let pieces = vec![self.phrase()?];
            return Ok(Value {
                pieces,
                quoted: true,
            });
        }
        let mut pieces = Vec::new();
        let mut piece = String::new();
        let mut open = 0_usize;
        while let Some(char) = self.peek() {
            if char.is_whitespace() || (char == ')' && open == 0 && in_group) {
                break;
            }
            self.next();
            match char {
                '*' => pieces.push(std::mem::take(&mut piece)),
                '\\' => match self.peek() {
                    Some(next) if next.is_whitespace() || "*\\\"()".contains(next) => {
                        self.next();
                        piece.push(next);
                    }
                    _ => piece.push(char),
                },
                '(' => {
                    open += 1;
                    piece.push(char);
                }
                ')' => {
                    open = open.saturating_sub(1);
                    piece.push(char);
                }
                _ => piece.push(char),
            }
        }
        pieces.push(piece);
        Ok(Value {
            pieces,
            quoted: false,
        })
    }

    /// A word: all up to the next space, or the bracket that closes a group outside of it.
    pub(super) fn word(&mut self, in_group: bool) -> &'a str {
        let rest = self.rest();
        let mut open = 0_usize;
        let end = rest.find(|char: char| match char {
            '(' => {
                open += 1;
                false
            }
            ')' if open > 0 => {
                open -= 1;
                false
            }
            ')' => in_group,
            _ => char.is_whitespace(),
        });
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        self.at += word.len();
        word
    }
}

/// Whether a name can be a key without quotation marks.
pub(super) fn is_key(name: &str) -> bool {
    name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && name.ends_with(|char: char| char.is_ascii_alphanumeric() || char == '_')
        && name.chars().all(is_key_char)
}

fn is_key_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || "._-/".contains(char)
}
