//! Values with `*` in them.

use std::fmt;

/// A value to compare with: its pieces between the stars, so one piece is the exact text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Glob {
    pieces: Vec<String>,
}

impl Glob {
    /// Exactly this text.
    pub(super) fn exact(text: &str) -> Glob {
        Glob {
            pieces: vec![text.to_owned()],
        }
    }

    /// Pieces with any text between each two of them; there is at least one.
    pub(super) fn new(mut pieces: Vec<String>) -> Glob {
        if pieces.is_empty() {
            pieces.push(String::new());
        }
        // Several stars are one.
        let last = pieces.len() - 1;
        let mut at = 0;
        pieces.retain(|piece| {
            at += 1;
            at == 1 || at == last + 1 || !piece.is_empty()
        });
        Glob { pieces }
    }

    /// The text, where there is no star.
    pub(super) fn as_exact(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether it is a lone star.
    pub(super) fn is_anything(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(String::is_empty)
    }

    /// As it is in lower case, ASCII letters only.
    pub(super) fn to_ascii_lowercase(&self) -> Glob {
        let pieces = self.pieces.iter().map(|piece| piece.to_ascii_lowercase());
        Glob {
            pieces: pieces.collect(),
        }
    }

    /// Whether a text is as the value says.
    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.as_exact() == Some(text);
        };
        let Some(rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else {
            return false;
        };
        for piece in middle {
            let Some((_, after)) = rest.split_once(piece.as_str()) else {
                return false;
            };
            rest = after;
        }
        true
    }

    /// As a pattern of SQL's LIKE.
    pub(super) fn like(&self) -> String {
        let mut pattern = String::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                pattern.push('%');
            }
            push_like(&mut pattern, piece);
        }
        pattern
    }
}

/// Appends text that LIKE takes as it is.
fn push_like(pattern: &mut String, text: &str) {
    for char in text.chars() {
        if matches!(char, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.as_exact() {
            return super::show::value(f, text);
        }
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                f.write_str("*")?;
            }
            for char in piece.chars() {
                if char.is_whitespace() || "*\\\"()".contains(char) {
                    f.write_str("\\")?;
                }
                write!(f, "{char}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::new(text.split('*').map(str::to_owned).collect())
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (value, text, expected) in [
            ("api*", "api", true),
            ("api*", "api-1", true),
            ("api*", "my-api", false),
            ("*api", "my-api", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
            ("**", "x", true),
            ("a**b", "a\nb", true),
            ("*aa*aa*", "aaa", false),
            ("x", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(value).matches(text), expected, "{value} {text}");
        }
        assert_eq!(glob("a**b"), glob("a*b"));
        assert_eq!(glob("50%_\\*").like(), "50\\%\\_\\\\%");
    }
}
