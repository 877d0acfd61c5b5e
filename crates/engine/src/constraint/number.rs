//! JSON numbers within bounds, as exact automata over their decimal text.
//!
//! A bound is kept as decimal digits of any length, never as a float. A text within bounds is of
//! one of two kinds. Either its integer part lies strictly between those of the bounds, and the
//! fraction is free. Or its integer part equals one of them, and the fraction is compared digit by
//! digit.
//!
//! `-0` is a text of the value 0, but not among the integers: readers that expect an integer often
//! refuse it.
//!
//! # Cost
//!
//! With caps of `D` integer and `F` fraction digits, at most some `D² + F²` byte states per sign.
//! That is about 1,000 for 20 and 20, and a handful for bounds such as 0 and 100.
//!
//! # Alternatives considered
//!
//! Comparing values while generating was rejected: "some continuation stays in bounds" is then a
//! search at every digit, and floats would round it.

use smallvec::smallvec;

use super::ir::{FreeNumber, Ir, Node, NodeId, Parts};
use super::policy::Policy;
use crate::decimal::Decimal;
use crate::error::Result;

/// Conditions on a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumberSpec {
    /// Only integers, written without exponent.
    pub integer: bool,
    /// True if integers may have zeros after a point.
    pub zeros: bool,
    /// Lower bound, and true if it is exclusive.
    pub minimum: Option<(Decimal, bool)>,
    /// Upper bound, and true if it is exclusive.
    pub maximum: Option<(Decimal, bool)>,
    /// Maximum number of fraction digits (a multiple of `10^-scale`); `None` sets no limit.
    pub scale: Option<u32>,
    /// Greatest exponent, if exponents are possible; `None`: up to three digits.
    pub max_exponent: Option<u32>,
}

/// Returns the JSON texts of numbers without bounds, built from regular nodes.
///
/// # Errors
/// The same as [`number`].
pub fn free(numbers: FreeNumber, ir: &mut Ir) -> Result<NodeId> {
    let FreeNumber { integer, zeros, exponent, digits: (max_integer_digits, max_fraction_digits) } = numbers;
    let policy = Policy { max_integer_digits, max_fraction_digits, exponent, ..Policy::default() };
    number(&NumberSpec { integer, zeros, ..NumberSpec::default() }, &policy, ir)
}

/// Returns the JSON texts of the numbers that satisfy `spec`, with no more digits than `policy`
/// allows. The result is a [`Node::Never`] if there are none. An exponent is possible only if the
/// policy allows one and `spec` has neither bounds nor a scale.
///
/// # Errors
/// None at present; bounds were checked when they were parsed.
pub fn number(spec: &NumberSpec, policy: &Policy, ir: &mut Ir) -> Result<NodeId> {
    let fraction = match spec.scale {
        _ if spec.integer => 0,
        Some(scale) => scale.min(u32::from(policy.max_fraction_digits)) as usize,
        None => usize::from(policy.max_fraction_digits),
    };
    let mut texts = Texts { ir, integer: usize::from(policy.max_integer_digits).max(1), fraction };
    // Magnitudes of the texts without sign, and of those after a minus sign.
    let positive = texts.side(spec.minimum.as_ref(), spec.maximum.as_ref(), true);
    let below_zero = spec.maximum.as_ref().map(mirrored);
    let above_zero = spec.minimum.as_ref().map(mirrored);
    let negative = texts.side(below_zero.as_ref(), above_zero.as_ref(), !spec.integer);
    let ir = texts.ir;
    let mut signed = Vec::new();
    match (positive, negative) {
        // Without bounds both sides are the same node, so the sign is optional.
        (Some(magnitude), Some(_)) if spec.minimum.is_none() && spec.maximum.is_none() && !spec.integer => {
            let minus = ir.bytes("-");
            let sign = ir.repeat(minus, 0, Some(1));
            signed.push(ir.concat(vec![sign, magnitude]));
        }
        (positive, negative) => {
            signed.extend(positive);
            if let Some(negative) = negative {
                let minus = ir.bytes("-");
                signed.push(ir.concat(vec![minus, negative]));
            }
        }
    }
    let bounded = spec.minimum.is_some() || spec.maximum.is_some();
    let mut root = ir.union(signed);
    if spec.integer && spec.zeros && policy.max_fraction_digits > 0 {
        let zeros = zeros(ir, policy.max_fraction_digits);
        root = ir.concat(vec![root, zeros]);
    }
    if policy.exponent && !bounded && !spec.integer && spec.scale.is_none() {
        let exponent = exponent(spec.max_exponent, ir);
        return Ok(ir.concat(vec![root, exponent]));
    }
    Ok(root)
}

fn mirrored(bound: &(Decimal, bool)) -> (Decimal, bool) {
    (bound.0.negated(), bound.1)
}

/// Returns an optional exponent of up to three digits, and of at most `max`.
fn exponent(max: Option<u32>, ir: &mut Ir) -> NodeId {
    let e = ir.push(Node::Class(smallvec![(b'E', b'E'), (b'e', b'e')]));
    let digit = ir.push(Node::Class(smallvec![(b'0', b'9')]));
    let digits = ir.repeat(digit, 1, Some(3));
    let signed = match max {
        None => {
            let sign = ir.push(Node::Class(smallvec![(b'+', b'+'), (b'-', b'-')]));
            let sign = ir.repeat(sign, 0, Some(1));
            ir.concat(vec![sign, digits])
        }
        Some(max) => {
            let (minus, plus) = (ir.bytes("-"), ir.bytes("+"));
            let plus = ir.repeat(plus, 0, Some(1));
            let up_to = ir.literals((0..=max.min(999)).flat_map(|n| {
                let forms = [format!("{n}"), format!("{n:02}"), format!("{n:03}")];
                forms.into_iter().enumerate().filter(move |(i, form)| form.len() == i + 1).map(|form| form.1)
            }));
            let (below, above) = (ir.concat(vec![minus, digits]), ir.concat(vec![plus, up_to]));
            ir.union(vec![below, above])
        }
    };
    let all = ir.concat(vec![e, signed]);
    ir.repeat(all, 0, Some(1))
}

/// Zeros that may follow the digits of a number: true if a point comes first, and their maximum
/// number.
pub(super) type Tail = (bool, u8);

/// Returns the shortest texts of one number without exponent (two for zero, which may have a sign),
/// and the zeros that may follow them under `policy`. Returns `None` if the number has more digits
/// than the policy allows. Numbers with the same tail can share it ([`tail`]).
pub(super) fn equal_texts(value: &Decimal, policy: &Policy) -> Option<(Vec<Vec<u8>>, Tail)> {
    let (integer, fraction) = value.digits();
    let left = usize::from(policy.max_fraction_digits).checked_sub(fraction.len())? as u8;
    if integer.len() > usize::from(policy.max_integer_digits).max(1) {
        return None;
    }
    let mut text: Vec<u8> = Vec::with_capacity(integer.len() + fraction.len() + 2);
    text.extend(value.is_negative().then_some(b'-'));
    text.extend(integer.iter().map(|digit| b'0' + digit));
    text.extend((!fraction.is_empty()).then_some(b'.'));
    text.extend(fraction.iter().map(|digit| b'0' + digit));
    let signed = value.is_zero().then(|| b"-0".to_vec());
    Some(([text].into_iter().chain(signed).collect(), (fraction.is_empty(), left)))
}

/// Returns the texts of a tail.
pub(super) fn tail((point, most): Tail, ir: &mut Ir) -> NodeId {
    match (point, most) {
        (_, 0) => ir.push(Node::Empty),
        (true, _) => zeros(ir, most),
        (false, _) => {
            let zero = ir.bytes("0");
            ir.repeat(zero, 0, Some(u32::from(most)))
        }
    }
}

/// Returns the empty text, or a point and at most `most` zeros.
fn zeros(ir: &mut Ir, most: u8) -> NodeId {
    let (point, zero) = (ir.bytes("."), ir.bytes("0"));
    let zeros = ir.repeat(zero, 1, Some(u32::from(most)));
    let all = ir.concat(vec![point, zeros]);
    ir.repeat(all, 0, Some(1))
}

/// A bound on a magnitude, as digits before and after the point. The integer part has at least one
/// digit and no leading zeros; the fraction has no trailing zeros.
struct Bound {
    integer: Vec<u8>,
    fraction: Vec<u8>,
    /// True if the bound itself is excluded.
    exclusive: bool,
}

impl Bound {
    fn new((value, exclusive): &(Decimal, bool)) -> Self {
        let (integer, fraction) = value.digits();
        Bound { integer, fraction, exclusive: *exclusive }
    }
}

/// Builds texts of magnitudes with at most `integer` and `fraction` digits.
struct Texts<'a> {
    ir: &'a mut Ir,
    integer: usize,
    fraction: usize,
}

impl Texts<'_> {
    /// Returns the texts without sign of the magnitudes between the bounds. They include zero only
    /// if `zero` is set.
    fn side(
        &mut self,
        minimum: Option<&(Decimal, bool)>,
        maximum: Option<&(Decimal, bool)>,
        zero: bool,
    ) -> Option<NodeId> {
        // A lower bound below zero does not limit; an upper bound below zero excludes every
        // magnitude.
        let low = minimum.filter(|(value, _)| !value.is_negative()).map(Bound::new);
        let high = match maximum {
            Some((value, _)) if value.is_negative() => return None,
            other => other.map(Bound::new),
        };
        // Without zero: more than zero.
        let low = match low {
            None if !zero => Some(Bound { integer: vec![0], fraction: vec![], exclusive: true }),
            Some(b) if !zero && b.integer == [0] && b.fraction.is_empty() => {
                Some(Bound { exclusive: true, ..b })
            }
            other => other,
        };
        let mut parts = Vec::new();
        if let Some(inner) = self.integers(low.as_ref(), high.as_ref()) {
            let free = self.fraction_part(None, None);
            parts.extend(free.map(|free| self.ir.concat(vec![inner, free])));
        }
        match (&low, &high) {
            (Some(l), Some(h)) if l.integer == h.integer => {
                parts.extend(self.edge(&l.integer, Some(l), Some(h)));
            }
            (Some(l), Some(h)) if !less(&l.integer, &h.integer) => return None,
            (low, high) => {
                for (l, h) in [(low.as_ref(), None), (None, high.as_ref())] {
                    if let Some(bound) = l.or(h) {
                        parts.extend(self.edge(&bound.integer, l, h));
                    }
                }
            }
        }
        if parts.is_empty() { None } else { Some(self.ir.union(parts)) }
    }

    /// Returns the texts with exactly this integer part, which is that of the given bounds.
    fn edge(&mut self, integer: &[u8], low: Option<&Bound>, high: Option<&Bound>) -> Option<NodeId> {
        if integer.len() > self.integer {
            return None;
        }
        let fraction = self.fraction_part(low, high)?;
        let text: Vec<u8> = integer.iter().map(|d| b'0' + d).collect();
        let integer = self.ir.push(Node::Bytes(text.into()));
        Some(self.ir.concat(vec![integer, fraction]))
    }

    /// Returns the integer parts strictly between those of the bounds.
    fn integers(&mut self, low: Option<&Bound>, high: Option<&Bound>) -> Option<NodeId> {
        let mut parts = Vec::new();
        let (low, high) = (low.map(|b| b.integer.as_slice()), high.map(|b| b.integer.as_slice()));
        // Lengths at which no bound has to be compared.
        let shortest = low.map_or(1, |l| l.len() + 1);
        let longest = high.map_or(self.integer, |h| (h.len() - 1).min(self.integer));
        if shortest <= longest {
            if shortest == 1 {
                parts.push(self.ir.bytes("0"));
            }
            let lead = self.class(1, 9);
            let rest = self.digits(shortest - 1, longest - 1);
            parts.push(self.ir.concat(vec![lead, rest]));
        }
        match (low, high) {
            (Some(l), Some(h)) if l.len() == h.len() => parts.extend(self.between(l, h)),
            (low, high) => {
                parts.extend(low.and_then(|l| self.beyond(l, 0, true)));
                parts.extend(high.and_then(|h| self.beyond(h, 0, false)));
            }
        }
        if parts.is_empty() { None } else { Some(self.ir.union(parts)) }
    }

    /// Returns the integer parts strictly between `low` and `high`, which have the same length.
    fn between(&mut self, low: &[u8], high: &[u8]) -> Option<NodeId> {
        let length = low.len();
        if length > self.integer || !less(low, high) {
            return None;
        }
        // `less` holds, so there is a first difference.
        let split = low.iter().zip(high).position(|(a, b)| a != b)?;
        let mut parts = Vec::new();
        if high[split] - low[split] > 1 {
            let inner = self.class(low[split] + 1, high[split] - 1);
            let rest = self.digits(length - split - 1, length - split - 1);
            parts.push(self.ir.concat(vec![inner, rest]));
        }
        for (bound, upward) in [(low, true), (high, false)] {
            if let Some(rest) = self.beyond(bound, split + 1, upward) {
                let same = self.class(bound[split], bound[split]);
                parts.push(self.ir.concat(vec![same, rest]));
            }
        }
        if parts.is_empty() {
            return None;
        }
        let tail = self.ir.union(parts);
        let prefix: Vec<u8> = low[..split].iter().map(|d| b'0' + d).collect();
        let prefix = if prefix.is_empty() { None } else { Some(self.ir.push(Node::Bytes(prefix.into()))) };
        let parts: Parts = prefix.into_iter().chain([tail]).collect();
        Some(self.ir.concat(parts))
    }

    /// Returns the digits from position `from` on that make the integer part greater (`upward`) or
    /// less than `bound`. The length and the digits before `from` are those of `bound`.
    fn beyond(&mut self, bound: &[u8], from: usize, upward: bool) -> Option<NodeId> {
        let length = bound.len();
        if length > self.integer {
            return None;
        }
        let mut tail: Option<NodeId> = None;
        for at in (from..length).rev() {
            let smallest = u8::from(at == 0 && length > 1);
            let mut parts = Vec::new();
            let (lo, hi) = if upward { (bound[at] + 1, 9) } else { (smallest, bound[at].wrapping_sub(1)) };
            if lo <= hi && hi <= 9 {
                let class = self.class(lo, hi);
                let rest = self.digits(length - at - 1, length - at - 1);
                parts.push(self.ir.concat(vec![class, rest]));
            }
            if let Some(tail) = tail {
                let same = self.class(bound[at], bound[at]);
                parts.push(self.ir.concat(vec![same, tail]));
            }
            tail = if parts.is_empty() { None } else { Some(self.ir.union(parts)) };
        }
        tail
    }

    /// Returns the optional fraction with its point, after an integer part that equals that of the
    /// given bounds.
    fn fraction_part(&mut self, low: Option<&Bound>, high: Option<&Bound>) -> Option<NodeId> {
        let none = self.may_end(low, high, 0).then(|| self.ir.push(Node::Empty));
        let some = self.fraction_digits(low, high).map(|digits| {
            let point = self.ir.bytes(".");
            self.ir.concat(vec![point, digits])
        });
        match (none, some) {
            (Some(_), Some(some)) => Some(self.ir.repeat(some, 0, Some(1))),
            (none, some) => none.or(some),
        }
    }

    /// Returns true if a fraction may end after `digits` digits that are those of the bounds.
    fn may_end(&self, low: Option<&Bound>, high: Option<&Bound>, digits: usize) -> bool {
        low.is_none_or(|b| b.fraction.len() <= digits && !b.exclusive)
            && high.is_none_or(|b| b.fraction.len() > digits || !b.exclusive)
    }

    /// Returns one to `fraction` digits that keep the fraction within the bounds.
    fn fraction_digits(&mut self, low: Option<&Bound>, high: Option<&Bound>) -> Option<NodeId> {
        let digit = |b: &Bound, at: usize| b.fraction.get(at).copied().unwrap_or(0);
        // Every fraction is at least zero.
        let low = low.filter(|b| b.exclusive || !b.fraction.is_empty());
        // First difference of the bounds; after it, the text follows at most one of them.
        let split = match (low, high) {
            (Some(l), Some(h)) => (0..self.fraction).find(|&at| digit(l, at) != digit(h, at)),
            _ => Some(0),
        };
        let agree = split.unwrap_or(self.fraction);
        let mut tail: Option<NodeId> = None;
        if let Some(at) = split
            && at < self.fraction
        {
            let lo = low.map_or(0, |b| digit(b, at) + 1);
            let hi = high.map_or(9, |b| digit(b, at).wrapping_sub(1));
            let mut parts = Vec::new();
            // With both bounds: the digits between them. With one: all digits on its permitted
            // side.
            if lo <= hi && hi <= 9 {
                let class = self.class(lo, hi);
                let rest = self.digits(0, self.fraction - at - 1);
                parts.push(self.ir.concat(vec![class, rest]));
            }
            // With both bounds, the lower digit at the split must not exceed the upper one.
            let ordered = match (low, high) {
                (Some(l), Some(h)) => digit(l, at) < digit(h, at),
                _ => true,
            };
            if !ordered {
                return None;
            }
            for (l, h) in [(low, None), (None, high)] {
                if let Some(bound) = l.or(h) {
                    parts.extend(self.follow(digit(bound, at), l, h, at));
                }
            }
            tail = if parts.is_empty() { None } else { Some(self.ir.union(parts)) };
        }
        for at in (0..agree).rev() {
            let shared = low.map_or(0, |b| digit(b, at));
            let end = self.may_end(low, high, at + 1);
            tail = self.step(shared, end, tail);
        }
        tail
    }

    /// Returns the digit at `at` equal to that of the one bound given, and the digits that may
    /// follow it.
    fn follow(&mut self, digit: u8, low: Option<&Bound>, high: Option<&Bound>, at: usize) -> Option<NodeId> {
        let bound = low.or(high)?;
        // After the last digit of an inclusive lower bound, every digit is allowed.
        let free = if low.is_some_and(|b| !b.exclusive) {
            bound.fraction.len().max(at + 1).min(self.fraction)
        } else {
            self.fraction
        };
        let mut tail = (free < self.fraction).then(|| self.digits(1, self.fraction - free));
        for next in (at + 1..free).rev() {
            let value = bound.fraction.get(next).copied().unwrap_or(0);
            let (lo, hi) = if low.is_some() { (value + 1, 9) } else { (0, value.wrapping_sub(1)) };
            let mut parts = Vec::new();
            if lo <= hi && hi <= 9 {
                let class = self.class(lo, hi);
                let rest = self.digits(0, self.fraction - next - 1);
                parts.push(self.ir.concat(vec![class, rest]));
            }
            let end = self.may_end(low, high, next + 1);
            parts.extend(self.step(value, end, tail));
            tail = if parts.is_empty() { None } else { Some(self.ir.union(parts)) };
        }
        let end = self.may_end(low, high, at + 1);
        self.step(digit, end, tail)
    }

    /// Returns `digit`, followed by the end (if allowed) or by `tail`.
    fn step(&mut self, digit: u8, end: bool, tail: Option<NodeId>) -> Option<NodeId> {
        let class = self.class(digit, digit);
        match (end, tail) {
            (true, None) => Some(class),
            (false, None) => None,
            (true, Some(tail)) => {
                let rest = self.ir.repeat(tail, 0, Some(1));
                Some(self.ir.concat(vec![class, rest]))
            }
            (false, Some(tail)) => Some(self.ir.concat(vec![class, tail])),
        }
    }

    fn class(&mut self, lo: u8, hi: u8) -> NodeId {
        self.ir.push(Node::Class(smallvec![(b'0' + lo, b'0' + hi)]))
    }

    /// Returns `min` to `max` digits.
    fn digits(&mut self, min: usize, max: usize) -> NodeId {
        let class = self.class(0, 9);
        self.ir.repeat(class, min as u32, Some(max as u32))
    }
}

/// Returns true if integer part `a` is less than `b`. Neither has leading zeros.
fn less(a: &[u8], b: &[u8]) -> bool {
    (a.len(), a) < (b.len(), b)
}

#[cfg(test)]
mod tests;
