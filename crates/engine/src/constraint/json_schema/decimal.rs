//! Decimal numbers as JSON writes them, compared exactly.
//!
//! A number is its sign, its significant digits and the power of ten of the first digit.
//!
//! # Cost
//!
//! Comparing takes one pass over the digits, for any exponents.
//!
//! # Alternatives considered
//!
//! `f64` was rejected: it cannot represent `0.1`, big identifiers or `1e400`.

use std::cmp::Ordering;

/// A decimal number in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    negative: bool,
    /// Without leading and trailing zeros; empty for zero.
    digits: Vec<u8>,
    /// The value is `0.DIGITS * 10^point`.
    point: i64,
}

impl Number {
    /// Reads the text of a JSON number (already checked by the JSON parser).
    pub fn new(text: &str) -> Number {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
        let leading = all.iter().take_while(|&&d| d == 0).count();
        let mut digits = all[leading..].to_vec();
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Number { negative: false, digits, point: 0 };
        }
        let point = (whole.len() as i64 - leading as i64).saturating_add(exponent);
        Number { negative, digits, point }
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Returns true if the value has no fraction.
    pub fn is_integer(&self) -> bool {
        self.digits.is_empty() || self.point >= self.digits.len() as i64
    }

    /// Returns `Some(k)` if this is `10^-k` with `k >= 0`.
    pub fn negative_power_of_ten(&self) -> Option<u32> {
        let unit = !self.negative && self.digits == [1] && self.point <= 1;
        unit.then(|| u32::try_from(1 - self.point).ok()).flatten()
    }

    /// Returns the value as a count: `None` if negative or fractional, saturating at `u32::MAX`.
    pub fn count(&self) -> Option<u32> {
        if self.negative || !self.is_integer() {
            return None;
        }
        if self.point > 10 {
            return Some(u32::MAX);
        }
        let mut value: u64 = 0;
        for i in 0..self.point.max(0) as usize {
            value = value * 10 + u64::from(self.digits.get(i).copied().unwrap_or(0));
        }
        Some(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Returns `Some((n, s))` if the absolute value is `n / 10^s` with n below `limit` and s at
    /// most 20.
    pub fn scaled(&self, limit: u64) -> Option<(u64, u32)> {
        let exponent = self.point.checked_sub(self.digits.len() as i64)?;
        let zeros = usize::try_from(exponent.clamp(0, 20)).ok()?;
        if !(-20..=20).contains(&exponent) || self.digits.len() + zeros > 18 {
            return None;
        }
        let digits = self.digits.iter().chain(std::iter::repeat_n(&0, zeros));
        let n = digits.fold(0u64, |n, &d| n * 10 + u64::from(d));
        (n < limit).then_some((n, exponent.min(0).unsigned_abs() as u32))
    }

    /// Returns true if this is a multiple of `divisor`; `None` if the numbers are too long to
    /// decide cheaply.
    pub fn is_multiple_of(&self, divisor: &Number) -> Option<bool> {
        if self.is_zero() {
            return Some(true);
        }
        if divisor.is_zero() {
            return Some(false);
        }
        // Scale both to integers: this = d1 * 10^e1, divisor = d2 * 10^e2.
        let e1 = self.point.checked_sub(self.digits.len() as i64)?;
        let e2 = divisor.point.checked_sub(divisor.digits.len() as i64)?;
        let shift = e1.checked_sub(e2)?;
        if divisor.digits.len() > 18 || shift.unsigned_abs() > 5_000 {
            return None;
        }
        let d2 = divisor.digits.iter().fold(0u128, |n, &d| n * 10 + u128::from(d));
        if shift < 0 {
            // d1 has no trailing zero, so it is divisible by d2 * 10^n only if no power of ten is
            // left.
            return Some(false);
        }
        let mut rest = 0u128;
        for &d in self.digits.iter().chain(std::iter::repeat_n(&0, shift as usize)) {
            rest = (rest * 10 + u128::from(d)) % d2;
        }
        Some(rest == 0)
    }
}

fn parse_exponent(text: &str) -> i64 {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    // Beyond this no exponent matters; saturating keeps the order of sane numbers.
    let value = digits
        .bytes()
        .fold(0i64, |n, d| n.saturating_mul(10).saturating_add(i64::from(d - b'0')))
        .min(1 << 40);
    if negative { -value } else { value }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |n: &Number| if n.is_zero() { 0 } else { 1 - 2 * i32::from(n.negative) };
        let (a, b) = (sign(self), sign(other));
        if a != b || a == 0 {
            return a.cmp(&b);
        }
        let size = self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        if a < 0 { size.reverse() } else { size }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_agrees_with_machine_numbers() {
        let texts = ["-1e3", "-12.5", "-1", "-0.01", "0", "0.001", "0.1", "1", "9.99", "10", "1e2", "123456"];
        for (i, a) in texts.iter().enumerate() {
            for (j, b) in texts.iter().enumerate() {
                assert_eq!(Number::new(a).cmp(&Number::new(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(Number::new("1.0"), Number::new("10e-1"));
        assert_eq!(Number::new("-0.0"), Number::new("0"));
    }

    #[test]
    fn multiples_and_counts() {
        let multiple = |a: &str, b: &str| Number::new(a).is_multiple_of(&Number::new(b));
        assert_eq!(multiple("4.02", "0.01"), Some(true));
        assert_eq!(multiple("4.025", "0.01"), Some(false));
        assert_eq!(multiple("35", "7"), Some(true));
        assert_eq!(multiple("36", "7"), Some(false));
        assert_eq!(multiple("1e3", "8"), Some(true));
        assert_eq!(multiple("1", "1e1"), Some(false));
        assert_eq!(multiple("25", "1e1"), Some(false));
        assert_eq!(multiple("2.5", "0.5"), Some(true));
        assert_eq!(Number::new("3.0").count(), Some(3));
        assert_eq!(Number::new("1e2").count(), Some(100));
        assert_eq!(Number::new("3.5").count(), None);
        assert_eq!(Number::new("1e99").count(), Some(u32::MAX));
        assert_eq!(Number::new("0.01").negative_power_of_ten(), Some(2));
        assert_eq!(Number::new("1").negative_power_of_ten(), Some(0));
        assert_eq!(Number::new("10").negative_power_of_ten(), None);
        assert_eq!(Number::new("0.02").negative_power_of_ten(), None);
    }
}
