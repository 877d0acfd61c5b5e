//! Exact decimal numbers of any length, as JSON writes them.
//!
//! A number is its sign, its significant digits and the position of the point. Equal numbers are
//! equal values, however they are written: `1`, `1.0` and `10e-1`. Constraints keep bounds, literals
//! and divisors in this form, and the automaton compares the items of arrays with it.
//!
//! # Cost
//!
//! Reading, comparing and printing are linear in the digits, for any exponents. Short numbers need
//! no allocation.
//!
//! # Alternatives considered
//!
//! Floats were rejected: a bound such as 0.1, 2^53 + 1 or 1e400 must not be rounded. Digits of a
//! larger base were rejected: most numbers are short, and their decimal digits are what automata
//! over texts need.

use std::cmp::Ordering;
use std::fmt;

use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};

/// Maximum number of significant digits, and maximum distance of the point from them, of a number
/// that [`Decimal::parse`] accepts.
const MAX_DECIMAL_DIGITS: usize = 10_000;
/// Exponents of a greater magnitude are treated as this one, so that sums stay in range.
const MAX_EXPONENT: i64 = i64::MAX / 4;

/// An exact decimal number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    /// Sign; never set for zero.
    negative: bool,
    /// Significant digits (0 to 9) without zeros at either end; empty for zero.
    digits: SmallVec<[u8; 16]>,
    /// Exponent: the value is `0.digits * 10^point`. It is 0 for zero.
    point: i64,
}

impl Decimal {
    /// Reads the text of a JSON number, which is known to be one. Any other text gives some number.
    pub(crate) fn new(text: impl AsRef<[u8]>) -> Decimal {
        let (negative, text) = match text.as_ref() {
            [b'-', rest @ ..] => (true, rest),
            text => (false, text),
        };
        let end = text.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(text.len());
        let exponent = text[end..].get(1..).map_or(0, exponent);
        let mantissa = &text[..end];
        let whole = mantissa.iter().position(|&b| b == b'.').unwrap_or(end);
        let mut digits: SmallVec<[u8; 16]> = SmallVec::new();
        let mut leading = 0;
        for digit in mantissa.iter().filter(|b| b.is_ascii_digit()).map(|b| b - b'0') {
            if digit == 0 && digits.is_empty() {
                leading += 1;
            } else {
                digits.push(digit);
            }
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Decimal { negative: false, digits, point: 0 };
        }
        Decimal { negative, digits, point: whole as i64 - leading + exponent }
    }

    /// Parses the text of a JSON number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if the text is not a number, [`ErrorKind::TooComplex`] if its
    /// digits or its magnitude exceed `MAX_DECIMAL_DIGITS`.
    pub(crate) fn parse(text: &str) -> Result<Decimal> {
        if !is_json_number(text) {
            let shown: String = text.chars().take(40).collect();
            return Err(Error::new(ErrorKind::InvalidJson, format!("not a number: `{shown}`")));
        }
        let number = Decimal::new(text);
        let reach = (number.digits.len() as u64).max(number.point.unsigned_abs());
        if reach > MAX_DECIMAL_DIGITS as u64 {
            let message =
                format!("a number spans {reach} decimal places, more than the limit of {MAX_DECIMAL_DIGITS}");
            return Err(Error::new(ErrorKind::TooComplex, message).hint("leave the bound out"));
        }
        Ok(number)
    }

    /// Returns true if the number is less than zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Returns true if the number is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Returns true if the value has no fraction.
    pub(crate) fn is_integer(&self) -> bool {
        self.digits.is_empty() || self.point >= self.digits.len() as i64
    }

    /// Returns the number with the opposite sign.
    pub(crate) fn negated(&self) -> Decimal {
        Decimal { negative: !self.negative && !self.is_zero(), ..self.clone() }
    }

    /// Returns the digits (0 to 9) of the magnitude before and after the point. The integer part
    /// has at least one digit and no leading zeros; the fraction has no trailing zeros.
    pub(crate) fn digits(&self) -> (Vec<u8>, Vec<u8>) {
        let point = usize::try_from(self.point).unwrap_or(0);
        let split = point.min(self.digits.len());
        let mut integer = self.digits[..split].to_vec();
        integer.resize(point.max(1), 0);
        let mut fraction = vec![0; usize::try_from(-self.point).unwrap_or(0)];
        fraction.extend_from_slice(&self.digits[split..]);
        (integer, fraction)
    }

    /// Returns `Some(k)` if this is `10^-k` with `k >= 0`.
    pub(crate) fn negative_power_of_ten(&self) -> Option<u32> {
        let unit = !self.negative && self.digits[..] == [1] && self.point <= 1;
        unit.then(|| u32::try_from(1 - self.point).ok()).flatten()
    }

    /// Returns the value as a count: `None` if negative or fractional, saturating at `u32::MAX`.
    pub(crate) fn count(&self) -> Option<u32> {
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

    /// Returns the exponent of the last digit: the magnitude is the digits as an integer, times ten
    /// to this power.
    fn unit(&self) -> i64 {
        self.point - self.digits.len() as i64
    }

    /// Returns `Some((n, s))` if the absolute value is `n / 10^s` with n below `limit` and s at
    /// most 20.
    pub(crate) fn scaled(&self, limit: u64) -> Option<(u64, u32)> {
        let exponent = self.unit();
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
    pub(crate) fn is_multiple_of(&self, divisor: &Decimal) -> Option<bool> {
        if self.is_zero() {
            return Some(true);
        }
        if divisor.is_zero() {
            return Some(false);
        }
        // Both are scaled to integers.
        let shift = self.unit() - divisor.unit();
        if divisor.digits.len() > 18 || shift.unsigned_abs() > 5_000 {
            return None;
        }
        if shift < 0 {
            // The digits have no zero at their end, so they are divisible only if no power of ten
            // is left.
            return Some(false);
        }
        let by = divisor.digits.iter().fold(0u128, |n, &d| n * 10 + u128::from(d));
        let mut rest = 0u128;
        for &d in self.digits.iter().chain(std::iter::repeat_n(&0, shift as usize)) {
            rest = (rest * 10 + u128::from(d)) % by;
        }
        Some(rest == 0)
    }

    /// Returns true if a number that begins with a text may still become this one. Also returns
    /// true for some beginnings that cannot, because an exponent may still move the point.
    pub(crate) fn may_begin(&self, text: &[u8]) -> bool {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        if negative != self.negative && !self.is_zero() {
            return false;
        }
        let mantissa = text.iter().take_while(|b| !matches!(b, b'e' | b'E'));
        let digits = mantissa.filter(|b| b.is_ascii_digit()).map(|b| b - b'0').skip_while(|&d| d == 0);
        digits.enumerate().all(|(i, d)| d == self.digits.get(i).copied().unwrap_or(0))
    }
}

/// Returns the value of the text after an `e`.
fn exponent(text: &[u8]) -> i64 {
    let digits = text.iter().filter(|b| b.is_ascii_digit());
    let value = digits.fold(0i64, |n, d| n.saturating_mul(10).saturating_add(i64::from(d - b'0')));
    let value = value.min(MAX_EXPONENT);
    if text.first() == Some(&b'-') { -value } else { value }
}

/// Returns true for the texts of RFC 8259, section 6.
fn is_json_number(text: &str) -> bool {
    // White space around a value is no part of the raw text.
    let value = serde_json::from_str(text).map_or("", RawValue::get);
    value.len() == text.len() && text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |d: &Decimal| i8::from(!d.is_zero()) * if d.negative { -1 } else { 1 };
        let by_sign = sign(self).cmp(&sign(other));
        if by_sign != Ordering::Equal {
            return by_sign;
        }
        let by_magnitude = (self.point, &self.digits).cmp(&(other.point, &other.digits));
        if self.negative { by_magnitude.reverse() } else { by_magnitude }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |digits: &[u8]| digits.iter().map(|d| char::from(b'0' + d)).collect::<String>();
        if self.negative {
            f.write_str("-")?;
        }
        if self.point.unsigned_abs() > 30 {
            let rest = if self.digits.len() > 1 { "." } else { "" };
            return write!(
                f,
                "{}{rest}{}e{}",
                text(&self.digits[..1]),
                text(&self.digits[1..]),
                self.point - 1
            );
        }
        let (integer, fraction) = self.digits();
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{}{point}{}", text(&integer), text(&fraction))
    }
}

#[cfg(test)]
mod tests;
