//! `multipleOf`: the multiples of a number as a language of decimal texts.
//!
//! A divisor D / 10^s divides a decimal text iff D divides the text's value times 10^s. Reading a
//! digit turns the remainder r into (10 r + digit) mod D, so remainders are states. After the
//! point, the digits up to the s-th count as well, and later ones must be 0. The automaton ignores
//! signs, leading zeros and bounds: it is intersected with a number language that checks them.
//!
//! # Cost
//!
//! D (s + 2) states before minimisation, and few after it for divisors like 1000.

use crate::char_lang::char_dfa::{CharDfa, MAX_STATES, Range};
use crate::decimal::Decimal;
use crate::error::Result;

/// Returns the texts of numbers that `divisor` divides; `None` if that takes too many states.
///
/// # Errors
/// None for a divisor that passes the size check.
pub(super) fn multiples(divisor: &Decimal) -> Result<Option<CharDfa>> {
    let Some((modulus, scale)) = divisor.scaled(MAX_STATES as u64) else { return Ok(None) };
    // Phase 0 is before the point; phase i + 1 is after it and after i digits (at most `scale`).
    let phases = u64::from(scale) + 2;
    if modulus.saturating_mul(phases) >= MAX_STATES as u64 {
        return Ok(None);
    }
    let state = |phase: u64, rest: u64| (phase * modulus + rest) as u32;
    let dead = (phases * modulus) as u32;
    let mut dfa = CharDfa::with_capacity(dead as usize + 1, 12 * dead as usize);
    for phase in 0..phases {
        for rest in 0..modulus {
            let missing = if phase == 0 { scale } else { scale - (phase - 1) as u32 };
            let last = (0..missing).fold(rest, |r, _| r * 10 % modulus);
            let next = |c: char| match (c, phase, missing) {
                ('-', 0, _) => state(0, rest),
                ('.', 0, _) => state(1, rest),
                ('0'..='9', ..) => {
                    let digit = u64::from(c as u32 - '0' as u32);
                    let grown = (rest * 10 + digit) % modulus;
                    match (phase, missing) {
                        (0, _) => state(0, grown),
                        (_, 0) if digit == 0 => state(phase, rest),
                        (_, 0) => dead,
                        _ => state(phase + 1, grown),
                    }
                }
                _ => dead,
            };
            // The characters of numbers.
            let ways = ['-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'].map(|c| Range {
                lo: c.into(),
                hi: c.into(),
                to: next(c),
            });
            dfa.listed_state(last == 0, &ways, dead);
        }
    }
    dfa.uniform_state(false, dead);
    dfa.minimise().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_exact_arithmetic() {
        for divisor in [
            "1", "2", "3", "7", "10", "12", "64", "100", "1000", "2.5", "0.5", "0.25", "1.5", "0.03",
            "0.075", "3e1",
        ] {
            let number = Decimal::new(divisor);
            let dfa = multiples(&number).unwrap().unwrap();
            for n in -1_000..4_000i64 {
                for text in [
                    format!("{n}"),
                    format!("{n}.0"),
                    format!("{n}.5"),
                    format!("{n}.25"),
                    format!("{n}.750"),
                    format!("{n}.075"),
                    format!("{n}.{}", n.unsigned_abs() % 97),
                ] {
                    let want = Decimal::new(&text).is_multiple_of(&number).unwrap();
                    assert_eq!(dfa.matches(&text), want, "{text} of {divisor}");
                }
            }
        }
        assert!(multiples(&Decimal::new("4001")).unwrap().is_none());
        assert!(multiples(&Decimal::new("1e-300")).unwrap().is_none());
        assert!(multiples(&Decimal::new("1000")).unwrap().unwrap().states() < 20);
    }
}
