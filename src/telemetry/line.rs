//! Texts from outside, such as errors of ClickHouse or Redis with a stack below them, made fit for a
//! line of the log, of a status or of a list.

/// Most characters kept of a text.
const LIMIT: usize = 1 << 10;
/// Where ClickHouse's stack begins, which says nothing to the reader of an error.
const STACKS: [&str; 2] = ["Stack trace:", "(version "];

/// The beginning of a text, in one line. Control characters and white space become one blank.
#[must_use]
pub fn one_line(text: &str) -> String {
    let end = STACKS.iter().filter_map(|mark| text.find(mark)).min();
    // A text that is nothing else is kept.
    let text = match end.and_then(|end| text.get(..end)) {
        Some(start) if !start.trim().is_empty() => start.trim_end().trim_end_matches([',', ':']),
        _ => text,
    };
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()) {
        if word.is_empty() {
            continue;
        }
        if chars > 0 {
            line.push(' ');
        }
        for char in word.chars() {
            if chars >= LIMIT {
                line.push('…');
                return line;
            }
            line.push(char);
            chars += 1;
        }
        chars += 1;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_many_lines_becomes_one_of_bounded_length() {
        let text =
            "Code: 60. DB::Exception: Table x\n\tdoes not exist.\x1b[0m Stack trace:\n\n0. a @ 0x1";
        assert_eq!(
            one_line(text),
            "Code: 60. DB::Exception: Table x does not exist. [0m"
        );
        assert_eq!(one_line("  a\r\nb  "), "a b");
        assert_eq!(one_line("Stack trace: 1"), "Stack trace: 1");
        let long = one_line(&"wört \n".repeat(5000));
        assert!(long.chars().count() <= LIMIT + 2, "{}", long.len());
        assert!(long.starts_with("wört wört") && long.ends_with('…'));
    }
}
