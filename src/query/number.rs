//! Numbers in attributes: decimals that both evaluators compare exactly.

/// Digits on either side of the point.
const DIGITS: usize = 18;

/// The same grammar for ClickHouse.
pub(super) const RE2: &str = r"^[+-]?[0-9]{1,18}(\.[0-9]{1,18})?$";

/// A decimal times 10^18, or `None` where the text is no number.
pub(super) fn parse(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let whole = read(parts.next()?)?;
    let mut value = whole.checked_mul(10_i128.pow(DIGITS as u32))?;
    if let Some(fraction) = parts.next() {
        let zeros = u32::try_from(DIGITS.checked_sub(fraction.len())?).ok()?;
        value += read(fraction)? * 10_i128.pow(zeros);
    }
    Some(if negative { -value } else { value })
}

fn read(digits: &[u8]) -> Option<i128> {
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i128::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn decimals_are_numbers_and_nothing_else_is() {
        let one = 10_i128.pow(18);
        assert_eq!(parse("500"), Some(500 * one));
        assert_eq!(parse("-0.5"), Some(-one / 2));
        assert_eq!(parse("+007"), Some(7 * one));
        assert_eq!(parse("0.000000000000000001"), Some(1));
        assert_eq!(
            parse("999999999999999999.999999999999999999"),
            Some(10_i128.pow(36) - 1)
        );
        for text in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "1e3",
            " 1",
            "1 ",
            "0x1",
            "--1",
            "1.2.3",
            "٣",
            "5ms",
            "1000000000000000000",
            "0.0000000000000000001",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
