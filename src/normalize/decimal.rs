//! Decimal numbers, exactly: what a float would round.

/// Digits that are kept; more than any 64-bit number with nine decimals has.
const MAX_DIGITS: u32 = 36;

/// `digits × 10^exponent`, with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// Reads digits with an optional sign, fraction and exponent. `None` for anything else, and for
    /// numbers far beyond 64 bits. Fractional digits beyond the 36th digit are dropped.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut number = Self {
            negative,
            digits: 0,
            exponent,
        };
        let mut kept = 0;
        for digit in whole.bytes() {
            number.push(digit, &mut kept)?;
        }
        for digit in fraction.bytes() {
            if kept == MAX_DIGITS && digit.is_ascii_digit() {
                continue;
            }
            number.push(digit, &mut kept)?;
            number.exponent = number.exponent.checked_sub(1)?;
        }
        Some(number)
    }

    fn push(&mut self, digit: u8, kept: &mut u32) -> Option<()> {
        if !digit.is_ascii_digit() || *kept == MAX_DIGITS {
            return None;
        }
        self.digits = self.digits * 10 + u128::from(digit - b'0');
        if self.digits > 0 {
            *kept += 1;
        }
        Some(())
    }

    /// The number times `10^power`, rounded down; `None` where that does not fit.
    pub(crate) fn scaled(self, power: i32) -> Option<i128> {
        let signed = i128::try_from(self.digits).ok()?;
        let signed = if self.negative { -signed } else { signed };
        let exponent = self.exponent.checked_add(power)?;
        let factor = 10i128.checked_pow(exponent.unsigned_abs());
        match (exponent >= 0, factor) {
            _ if signed == 0 => Some(0),
            (true, factor) => signed.checked_mul(factor?),
            (false, Some(factor)) => Some(signed.div_euclid(factor)),
            (false, None) => Some(if self.negative { -1 } else { 0 }),
        }
    }

    /// The number, if it is whole.
    pub(crate) fn whole(self) -> Option<i128> {
        let floor = self.scaled(0)?;
        let ceiling = Self {
            negative: !self.negative,
            ..self
        }
        .scaled(0)?;
        (floor == -ceiling).then_some(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<i128> {
        Decimal::parse(text)?.whole()
    }

    #[test]
    fn j_06_whole_numbers_in_any_notation() {
        assert_eq!(whole("42.0"), Some(42));
        assert_eq!(whole("1.5e18"), Some(1_500_000_000_000_000_000));
        assert_eq!(whole("1e3"), Some(1000));
        assert_eq!(whole("-120e-1"), Some(-12));
        assert_eq!(whole("0e999"), Some(0));
        assert_eq!(whole("9007199254740993"), Some(9_007_199_254_740_993));
        assert_eq!(whole("9223372036854775808"), Some(1 << 63));
        assert_eq!(whole("42.5"), None);
        assert_eq!(whole("-0.1"), None);
        assert_eq!(whole("1e-400"), None);
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1x",
            "0x10",
            "NaN",
            "1.2.3",
            "--1",
            "1e99999999999",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn scaling_rounds_down_and_never_overflows() {
        let scaled = |text: &str| Decimal::parse(text).and_then(|number| number.scaled(9));
        assert_eq!(scaled("1.23"), Some(1_230_000_000));
        assert_eq!(scaled("-0.0000000001"), Some(-1));
        assert_eq!(scaled("0.0000000001"), Some(0));
        assert_eq!(scaled("-1e-400"), Some(-1));
        assert_eq!(scaled("1e400"), None);
        assert_eq!(scaled(&"9".repeat(100)), None);
        assert_eq!(scaled(&format!("0.{}", "9".repeat(100))), Some(999_999_999));
    }
}
