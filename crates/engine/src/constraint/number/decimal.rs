//! Exact decimal numbers of any length, as JSON writes them.
//!
//! A number is kept as its digits and the position of the point.
//!
//! # Cost
//!
//! Reading, comparing and printing are linear in the digits.
//!
//! # Alternatives considered
//!
//! Floats were rejected: a bound such as 0.1 or 2^53 + 1 must not be rounded.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Maximum number of significant digits, and maximum distance of the point from them.
pub const MAX_DECIMAL_DIGITS: usize = 10_000;

/// An exact decimal number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Sign; never set for zero.
    negative: bool,
    /// Significant digits without zeros at either end; empty for zero.
    digits: Vec<u8>,
    /// Exponent: the value is `0.digits * 10^point`. It is 0 for zero.
    point: i64,
}

impl Decimal {
    /// Parses the text of a JSON number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if the text is not a number, [`ErrorKind::TooComplex`] if its
    /// digits or its magnitude exceed `MAX_DECIMAL_DIGITS`.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || {
            let shown: String = text.chars().take(40).collect();
            Error::new(ErrorKind::InvalidJson, format!("not a number: `{shown}`"))
        };
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (integer, fraction) = match mantissa.split_once('.') {
            Some((integer, fraction)) => (integer, Some(fraction)),
            None => (mantissa, None),
        };
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = integer.len() > 1 && integer.starts_with('0');
        if !all_digits(integer) || leading_zero || !fraction.is_none_or(all_digits) {
            return Err(invalid());
        }
        let exponent = match exponent {
            None => 0,
            Some(text) => {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
                if !all_digits(digits) {
                    return Err(invalid());
                }
                // Any exponent that does not fit is far beyond the limit, which is checked below.
                let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
                if text.starts_with('-') { -magnitude } else { magnitude }
            }
        };
        let digits = integer.bytes().chain(fraction.unwrap_or("").bytes()).map(|b| b - b'0').collect();
        Self::normalised(negative, digits, integer.len() as i64 + exponent)
    }

    fn normalised(negative: bool, mut digits: Vec<u8>, point: i64) -> Result<Self> {
        let leading = digits.iter().take_while(|&&d| d == 0).count();
        digits.drain(..leading);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Ok(Decimal { negative: false, digits, point: 0 });
        }
        let point = point - leading as i64;
        let reach = (digits.len() as u64).max(point.unsigned_abs());
        if reach > MAX_DECIMAL_DIGITS as u64 {
            let message =
                format!("a number spans {reach} decimal places, more than the limit of {MAX_DECIMAL_DIGITS}");
            return Err(Error::new(ErrorKind::TooComplex, message).hint("leave the bound out"));
        }
        Ok(Decimal { negative, digits, point })
    }

    /// Returns true if the number is less than zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Returns true if the number is zero.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Returns the number with the opposite sign.
    pub fn negated(&self) -> Self {
        Decimal { negative: !self.negative && !self.is_zero(), ..self.clone() }
    }

    /// Returns the digits (0 to 9) of the magnitude before and after the point. The integer part
    /// has at least one digit and no leading zeros; the fraction has no trailing zeros.
    pub fn digits(&self) -> (Vec<u8>, Vec<u8>) {
        let point = usize::try_from(self.point).unwrap_or(0);
        let split = point.min(self.digits.len());
        let mut integer = self.digits[..split].to_vec();
        integer.resize(point.max(1), 0);
        let mut fraction = vec![0; usize::try_from(-self.point).unwrap_or(0)];
        fraction.extend_from_slice(&self.digits[split..]);
        (integer, fraction)
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        let digits: Vec<u8> = value.unsigned_abs().to_string().bytes().map(|b| b - b'0').collect();
        let point = digits.len() as i64;
        // Nineteen digits are within every limit; zero is the value for a failure that cannot
        // occur.
        Self::normalised(value < 0, digits, point).unwrap_or(Decimal {
            negative: false,
            digits: vec![],
            point: 0,
        })
    }
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
