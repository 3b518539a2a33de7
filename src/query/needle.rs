//! Text to be found whatever the case of its letters.

use super::pattern::Pattern;

/// Up to this length a text is compared at every place where its first letter stands. That costs
/// needle times haystack where both are `aaaa…`, so longer ones take the search that never does.
const SHORT: usize = 32;

/// A piece of text to look for. A–Z equal a–z; any other letter equals its upper and lower case where
/// that is one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needle {
    text: String,
    /// Where the text has other letters than ASCII's that have a case.
    folded: Option<Pattern>,
}

impl Needle {
    /// The text must not be longer than a query.
    pub(super) fn new(text: &str) -> Self {
        let is_plain = |char: char| char.is_ascii() || variants(char).len() == 1;
        Self {
            text: text.to_owned(),
            folded: (!text.chars().all(is_plain)).then(|| Pattern::folded(text)),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text as a pattern, where letters beyond ASCII must be folded.
    pub(super) fn folded(&self) -> Option<&Pattern> {
        self.folded.as_ref()
    }

    pub(super) fn is_in(&self, haystack: &str) -> bool {
        match &self.folded {
            Some(pattern) => pattern.is_in(haystack),
            None if self.text.len() <= SHORT => {
                is_in_ascii(self.text.as_bytes(), haystack.as_bytes())
            }
            None => {
                let haystack = haystack.as_bytes().to_ascii_lowercase();
                let needle = self.text.to_ascii_lowercase();
                memchr::memmem::find(&haystack, needle.as_bytes()).is_some()
            }
        }
    }
}

/// The characters that one is equal to, itself among them; one of each.
pub(super) fn variants(char: char) -> Vec<char> {
    let mut all = vec![char];
    let mut lower = char.to_lowercase();
    let mut upper = char.to_uppercase();
    for (only, more) in [(lower.next(), lower.next()), (upper.next(), upper.next())] {
        if let (Some(other), None) = (only, more)
            && !all.contains(&other)
        {
            all.push(other);
        }
    }
    all
}

/// Compares bytes; in UTF-8 an ASCII byte is never part of another character.
fn is_in_ascii(needle: &[u8], mut haystack: &[u8]) -> bool {
    let Some(&first) = needle.first() else {
        return true;
    };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    while let Some(at) = memchr::memchr2(lower, upper, haystack) {
        let Some(rest) = haystack.get(at..) else {
            return false;
        };
        match rest.get(..needle.len()) {
            Some(found) if found.eq_ignore_ascii_case(needle) => return true,
            Some(_) => haystack = rest.get(1..).unwrap_or_default(),
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needle: &str, haystack: &str) -> bool {
        Needle::new(needle).is_in(haystack)
    }

    #[test]
    fn finds_text_in_any_case() {
        assert!(found("Time", "connection tIMEout"));
        assert!(found("out", "connection timeOUT"));
        assert!(found("", "anything") && found("", ""));
        assert!(found("ÄRGER", "viel ärger hier"));
        assert!(found("aab", "aaaab"));
        assert!(found("→ X[", "a → x["));
        assert!(found("ΣΑΣ", "σας") || found("σας", "σας"));
    }

    #[test]
    fn long_text_is_found_in_any_case_and_in_time() {
        let (needle, haystack) = ("aA".repeat(1000) + "b", "a".repeat(1 << 20));
        let started = std::time::Instant::now();
        for _ in 0..10 {
            assert!(!found(&needle, &haystack));
        }
        // Compared at every place it would be 20 billion steps.
        assert!(started.elapsed() < std::time::Duration::from_secs(10));
        assert!(found(&needle, &(haystack + "B")));
    }

    #[test]
    fn finds_nothing_where_it_is_not() {
        assert!(!found("timeouts", "timeout"));
        assert!(!found("x", ""));
        assert!(!found("é", "e"));
        assert!(!found("ab", "a b"));
        assert!(!found("ß", "SS"));
        assert!(!found("k", "\u{212a}"));
    }
}
