//! Numbers: bounds, decimal places and `multipleOf`.
//!
//! A divisor D / 10^s divides a decimal text iff D divides the text's value times 10^s. Reading a
//! digit turns the remainder r into (10 r + digit) mod D, so remainders are states. After the
//! point, the digits up to the s-th count as well, and later ones must be 0. The automaton ignores
//! signs, leading zeros and bounds: it is intersected with a number language that checks them.
//!
//! # Cost
//!
//! D (s + 2) states before minimisation, and few after it for divisors like 1000.

use super::super::read::{Bound, Id, Keyword, Types};
use super::super::shape::Shape;
use super::lowering::SchemaLowering;
use super::nodes::{LiteralSet, number_or_never};
use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::{CharDfa, MAX_STATES, Range};
use crate::constraint::ir::{ByteString, Ir, NodeId};
use crate::constraint::number::NumberSpec;
use crate::constraint::policy::Policy;
use crate::constraint::regular;
use crate::decimal::Decimal;
use crate::error::Result;

/// Maximum number of integers between bounds that are tried one by one for a `multipleOf`.
const MAX_MULTIPLES: u64 = 2_000;

impl SchemaLowering<'_> {
    /// Builds the numbers of a shape; `None` if all of them were added to the literals.
    pub(super) fn number(&mut self, shape: &Shape, words: &mut LiteralSet) -> Result<Option<NodeId>> {
        let integer = !shape.types.meets(Types::FRACTION);
        if integer && self.listed_multiples(shape, words)? {
            return Ok(None);
        }
        let at = self.representative_schema(shape);
        let part = &shape.number;
        let key = |b: &Option<Bound>| b.as_ref().map(|b| (b.text, b.exclusive));
        let scale = if integer { None } else { part.scale };
        let max_exponent = self.max_exponent(shape, integer);
        let key = (integer, key(&part.min), key(&part.max), scale, max_exponent);
        let whole = shape.types.meets(Types::INT);
        // Zeros after the last digit that counts do not change the value.
        let finer = match scale {
            Some(scale) if self.nodes.policy.equal_numbers => {
                multiples(&Decimal::new(format!("1e-{scale}")))?
            }
            _ => None,
        };
        let spec = NumberSpec {
            integer,
            zeros: integer && self.nodes.equal_integers,
            minimum: self.decimal(&part.min, at)?,
            maximum: self.decimal(&part.max, at)?,
            scale: scale.filter(|_| finer.is_none()),
            max_exponent,
        };
        if part.divisors.is_empty() && whole && finer.is_none() {
            let node = self.nodes.number_node(key, &spec);
            return node.map(Some).map_err(self.normalizer.context.locate(at));
        }
        self.computed_numbers(shape, &spec, (whole, finer)).map(Some)
    }

    /// Returns the greatest exponent with which numbers stay below the power of ten that a format
    /// sets; `None` if there are no exponents or no format.
    fn max_exponent(&self, shape: &Shape, integer: bool) -> Option<u32> {
        let policy = self.nodes.policy;
        let part = &shape.number;
        let bounded = part.min.is_some() || part.max.is_some() || part.scale.is_some();
        let magnitude = part.magnitude.filter(|_| policy.exponent && !integer && !bounded)?;
        Some(magnitude.saturating_sub(u32::from(policy.max_integer_digits.max(1))))
    }

    fn decimal(&self, bound: &Option<Bound>, at: Id) -> Result<Option<(Decimal, bool)>> {
        let Some(bound) = bound else { return Ok(None) };
        let context = &self.normalizer.context;
        let decimal = Decimal::parse(context.doc.name(bound.text)).map_err(context.locate(at))?;
        Ok(Some((decimal, bound.exclusive)))
    }

    /// Builds the numbers of a specification, restricted by the divisors: each must divide them or
    /// must not. If `among` is given, they are also in it; without `whole`, they are not integers.
    /// They are written without exponents, in any policy.
    fn computed_numbers(
        &mut self,
        shape: &Shape,
        spec: &NumberSpec,
        (whole, among): (bool, Option<CharDfa>),
    ) -> Result<NodeId> {
        let own = self.representative_schema(shape);
        let at = shape.number.divisors.first().map_or(own, |d| d.1);
        let context = &self.normalizer.context;
        let policy = Policy { exponent: false, ..context.policy.clone() };
        let mut scratch = Ir::new();
        let numbers = number_or_never(spec, &policy, &mut scratch).map_err(context.locate(own))?;
        let Some(numbers) = numbers else { return Ok(self.nodes.never) };
        let mut all = CharDfa::from_nfa(&ByteNfa::new(&scratch, numbers)?)?;
        for &(text, at, divides) in &shape.number.divisors {
            let Some(multiples) = multiples(&Decimal::new(context.doc.name(text)))? else {
                return Err(context.unsupported(Keyword::MultipleOf, at));
            };
            let wanted = if divides { all.intersect(&multiples) } else { all.without(&multiples) };
            all = wanted.map_err(context.locate(at))?;
        }
        if let Some(others) = among {
            all = all.intersect(&others).map_err(context.locate(at))?;
        }
        if !whole && let Some(integers) = multiples(&Decimal::new("1"))? {
            all = all.without(&integers).map_err(context.locate(at))?;
        }
        regular::to_ir::lower(&all, &mut self.nodes.ir).map_err(context.locate(at))
    }

    /// Adds the integers between bounds that the divisors divide, one by one; `false` if there are
    /// no divisors, or too many integers.
    fn listed_multiples(&mut self, shape: &Shape, words: &mut LiteralSet) -> Result<bool> {
        let part = &shape.number;
        let Some(&(_, at, _)) = part.divisors.first() else { return Ok(false) };
        let doc = &self.normalizer.context.doc;
        let bound = |b: &Option<Bound>| -> Option<(i64, bool)> {
            let bound = b.as_ref()?;
            let number = doc.name(bound.text).parse::<i64>().ok().filter(|n| n.unsigned_abs() < 1 << 50)?;
            Some((number, bound.exclusive))
        };
        let (Some((min, above)), Some((max, below))) = (bound(&part.min), bound(&part.max)) else {
            return Ok(false);
        };
        let count = (max - min).unsigned_abs();
        if self.nodes.policy.equal_numbers || count > MAX_MULTIPLES {
            return Ok(false);
        }
        let divisors: Vec<(Decimal, bool)> =
            part.divisors.iter().map(|d| (Decimal::new(doc.name(d.0)), d.2)).collect();
        self.normalizer.context.step(count / 4, at)?;
        let mut found = LiteralSet::new();
        for n in min..=max {
            if above && n == min || below && n == max {
                continue;
            }
            let text = n.to_string();
            let number = Decimal::new(&text);
            let mut divides = true;
            for (divisor, wanted) in &divisors {
                match number.is_multiple_of(divisor) {
                    Some(holds) => divides &= holds == *wanted,
                    None => return Ok(false),
                }
            }
            found.extend(divides.then(|| ByteString::from_slice(text.as_bytes())));
        }
        words.extend(found);
        Ok(true)
    }
}

/// Returns the texts of numbers that `divisor` divides; `None` if that takes too many states.
///
/// # Errors
/// None for a divisor that passes the size check.
fn multiples(divisor: &Decimal) -> Result<Option<CharDfa>> {
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
