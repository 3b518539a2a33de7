//! Case-insensitive search for a piece of text.

/// Up to this length a needle is compared at every place where its first letter stands. That costs
/// needle times haystack where both are `aaaa…`, so longer ones take the search that never does.
const SHORT: usize = 32;

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
        let is_ascii = self.lower.is_ascii();
        if is_ascii && self.lower.len() <= SHORT {
            return self.is_in_ascii(haystack.as_bytes());
        }
        scratch.clear();
        if is_ascii {
            scratch.push_str(haystack);
            scratch.make_ascii_lowercase();
        } else {
            scratch.extend(haystack.chars().flat_map(char::to_lowercase));
        }
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
    fn long_text_is_found_in_any_case_and_in_time() {
        let (needle, haystack) = ("aA".repeat(1000) + "b", "a".repeat(1 << 20));
        let started = std::time::Instant::now();
        for _ in 0..10 {
            assert!(!found(&needle, &haystack));
        }
        // Compared at every place it would be 20 billion steps.
        assert!(started.elapsed() < std::time::Duration::from_secs(10));
        assert!(found(&needle, &(haystack + "B")));
        // A Kelvin sign is a k to Unicode and none to ASCII, whatever the length.
        for length in [1, 100] {
            assert!(!found(&"k".repeat(length), &"\u{212a}".repeat(length)));
        }
    }

    #[test]
    fn finds_nothing_where_it_is_not() {
        assert!(!found("timeouts", "timeout"));
        assert!(!found("x", ""));
        assert!(!found("é", "e"));
        assert!(!found("ab", "a b"));
    }
}
