//! Case-insensitive search for a piece of text.

/// Looks for one text, whatever the case of its letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Needle {
    lower: String,
}

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        Self {
            lower: text.to_lowercase(),
        }
    }

    /// Whether `haystack` holds it. `scratch` is working space, to be kept between calls.
    pub(super) fn is_in(&self, haystack: &str, scratch: &mut String) -> bool {
        if self.lower.is_ascii() {
            return self.is_in_ascii(haystack.as_bytes());
        }
        scratch.clear();
        scratch.extend(haystack.chars().flat_map(char::to_lowercase));
        memchr::memmem::find(scratch.as_bytes(), self.lower.as_bytes()).is_some()
    }

    /// Compares bytes; in UTF-8 an ASCII byte is never part of another character.
    fn is_in_ascii(&self, mut haystack: &[u8]) -> bool {
        let needle = self.lower.as_bytes();
        let Some(&first) = needle.first() else {
            return true;
        };
        let upper = first.to_ascii_uppercase();
        while let Some(at) = memchr::memchr2(first, upper, haystack) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needle: &str, haystack: &str) -> bool {
        Needle::new(needle).is_in(haystack, &mut String::new())
    }

    #[test]
    fn finds_text_in_any_case() {
        assert!(found("Time", "connection tIMEout"));
        assert!(found("out", "connection timeOUT"));
        assert!(found("", "anything") && found("", ""));
        assert!(found("ÄRGER", "viel ärger hier"));
        assert!(found("aab", "aaaab"));
    }

    #[test]
    fn finds_nothing_where_it_is_not() {
        assert!(!found("timeouts", "timeout"));
        assert!(!found("x", ""));
        assert!(!found("é", "e"));
        assert!(!found("ab", "a b"));
    }
}
