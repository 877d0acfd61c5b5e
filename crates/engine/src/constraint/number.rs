//! JSON numbers within bounds, as exact automata over their decimal text.
//!
//! A bound is kept as decimal digits of any length, never as a float. The automaton reads a text
//! digit by digit and compares it with both bounds. A state is the number of digits and the two
//! orders so far. An integer part is compared by its length first, which its end decides. After the
//! point, the first difference decides.
//!
//! `-0` is a text of the value 0, but not among the integers: readers that expect an integer often
//! refuse it.
//!
//! # Cost
//!
//! With caps of `D` integer and `F` fraction digits, at most some `4 (D + F)` states per sign, and a
//! handful for bounds such as 0 and 100.
//!
//! # Alternatives considered
//!
//! Comparing values while generating was rejected: "some continuation stays in bounds" is then a
//! search at every digit, and floats would round it. Expressions of classes and repetitions need
//! more states, because each position at which a text may leave a bound has its own rest.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::ir::{AutomatonState, Edges, FreeNumber, Ir, Node, NodeId, Parts};
use super::policy::Policy;
use crate::decimal::Decimal;
use crate::error::Result;

/// Conditions on a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NumberSpec {
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
pub(crate) fn free(numbers: FreeNumber, ir: &mut Ir) -> Result<NodeId> {
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
pub(crate) fn number(spec: &NumberSpec, policy: &Policy, ir: &mut Ir) -> Result<NodeId> {
    let fraction = match spec.scale {
        _ if spec.integer => 0,
        Some(scale) => scale.min(u32::from(policy.max_fraction_digits)) as usize,
        None => usize::from(policy.max_fraction_digits),
    };
    let digits = [usize::from(policy.max_integer_digits).max(1), fraction];
    let bounded = spec.minimum.is_some() || spec.maximum.is_some();
    // Magnitudes of the texts without sign, and of those after a minus sign.
    let positive = magnitudes([&spec.minimum, &spec.maximum].map(Option::as_ref), true, digits, ir);
    let minus = ir.bytes("-");
    let mut root = if bounded || spec.integer {
        let mirrored =
            [&spec.maximum, &spec.minimum].map(|b| b.as_ref().map(|(b, open)| (b.negated(), *open)));
        let negative = magnitudes(mirrored.each_ref().map(Option::as_ref), !spec.integer, digits, ir);
        let negative = negative.map(|negative| ir.concat(vec![minus, negative]));
        ir.union(positive.into_iter().chain(negative).collect::<Parts>())
    } else {
        // Both sides are the same, and the sign is optional.
        let sign = ir.repeat(minus, 0, Some(1));
        ir.concat([sign].into_iter().chain(positive).collect::<Parts>())
    };
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

/// Returns the texts without sign of the magnitudes between two bounds, with at most as many digits
/// before and after the point as `digits` says. They include zero only if `zero` is set. Returns
/// `None` if there are none.
fn magnitudes(
    [minimum, maximum]: [Option<&(Decimal, bool)>; 2],
    zero: bool,
    digits: [usize; 2],
    ir: &mut Ir,
) -> Option<NodeId> {
    // A lower bound below zero does not limit; an upper bound below zero excludes every magnitude.
    let low = minimum.filter(|(value, _)| !value.is_negative()).map(Bound::new);
    let high = match maximum {
        Some((value, _)) if value.is_negative() => return None,
        other => other.map(Bound::new),
    };
    let is_zero = |bound: &Bound| bound.integer == [0] && bound.fraction.is_empty();
    // Without zero: more than zero, which for integers is at least one.
    let one = |low: &Bound| digits[1] == 0 && low.integer == [1] && low.fraction.is_empty();
    let is_positive = |low: &Bound| if low.exclusive { is_zero(low) } else { one(low) };
    let zero = zero && !low.as_ref().is_some_and(is_positive);
    let low = low.filter(|low| !is_zero(low) && !is_positive(low));
    if high.as_ref().is_some_and(|high| is_zero(high) && (!zero || high.exclusive)) {
        return None;
    }
    if low.is_none() && high.is_none() && (zero || digits[1] == 0) {
        return Some(unbounded(zero, digits, ir));
    }
    let positive = || Bound { integer: vec![0], fraction: vec![], exclusive: true };
    let low = low.or_else(|| (!zero).then(positive));
    let (known, classes) = (FxHashMap::default(), FxHashMap::default());
    let mut texts = Magnitudes { ir, digits, bounds: [low, high], states: Vec::new(), known, classes };
    let start = texts.state(Progress { part: Part::Integer, digits: 0, orders: [Ordering::Equal; 2] })?;
    // The start was added last, and becomes the first state.
    texts.states.reverse();
    texts.states.iter_mut().flat_map(|s| &mut s.edges).for_each(|edge| edge.1 = start - edge.1);
    Some(texts.ir.push(Node::automaton(texts.states)))
}

/// Returns the texts of all magnitudes, or of the integers above zero. Most numbers of schemas are
/// these, and few nodes are enough.
fn unbounded(zero: bool, [integer, fraction]: [usize; 2], ir: &mut Ir) -> NodeId {
    let digit = ir.push(Node::Class(smallvec![(b'0', b'9')]));
    let first = ir.push(Node::Class(smallvec![(b'1', b'9')]));
    let rest = ir.repeat(digit, 0, Some(integer as u32 - 1));
    let mut whole = ir.concat(vec![first, rest]);
    if zero {
        let zero = ir.bytes("0");
        whole = ir.union(vec![zero, whole]);
    }
    if fraction == 0 {
        return whole;
    }
    let (point, digits) = (ir.bytes("."), ir.repeat(digit, 1, Some(fraction as u32)));
    let part = ir.concat(vec![point, digits]);
    let part = ir.repeat(part, 0, Some(1));
    ir.concat(vec![whole, part])
}

/// Builds the automaton of the texts of magnitudes.
struct Magnitudes<'a> {
    ir: &'a mut Ir,
    /// Maximum number of digits before and after the point.
    digits: [usize; 2],
    /// The lower and the upper bound.
    bounds: [Option<Bound>; 2],
    /// The states, each after those that it leads to.
    states: Vec<AutomatonState>,
    /// The states by what was read; `None` if no text continues there.
    known: FxHashMap<Progress, Option<u32>>,
    /// The nodes of ranges of bytes.
    classes: FxHashMap<(u8, u8), NodeId>,
}

/// What was read of a text, as far as the rest depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Progress {
    part: Part,
    /// Number of digits of the part.
    digits: usize,
    /// Orders of the digits relative to as many digits of the lower and of the upper bound.
    orders: [Ordering; 2],
}

/// The part of a text that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    /// The digits before the point.
    Integer,
    /// A zero before the point, which no digit follows.
    Zero,
    /// The digits after the point.
    Fraction,
}

impl Magnitudes<'_> {
    /// Returns the state with the rest of the texts; `None` if there is none. The recursion is as
    /// deep as the texts are long.
    fn state(&mut self, read: Progress) -> Option<u32> {
        if let Some(&known) = self.known.get(&read) {
            return known;
        }
        let above = |bound: &Bound| read.digits >= bound.integer.len() && read.orders[1] == Ordering::Greater;
        if read.part == Part::Integer && read.digits > 0 && self.bounds[1].as_ref().is_some_and(above) {
            return None;
        }
        let mut next: Vec<(u8, Progress)> = Vec::new();
        let mut accept = read.part == Part::Fraction && read.digits > 0 && self.is_within(read);
        if read.part != Part::Fraction && read.digits > 0 {
            // An integer part with fewer digits than that of a bound is less.
            let orders = self.orders(read.orders, |bound, order| match read.digits < bound.integer.len() {
                true => Ordering::Less,
                false => order,
            });
            let whole = Progress { part: Part::Fraction, digits: 0, orders };
            accept = self.is_within(whole);
            next.extend((self.digits[1] > 0).then_some((b'.', whole)));
        }
        let more = match read.part {
            Part::Integer => read.digits < self.digits[0],
            Part::Zero => false,
            // After the point, the first difference from a bound decides.
            Part::Fraction => read.digits < self.digits[1] && !self.is_outside(read.orders),
        };
        if more {
            next.extend((0..=9).map(|digit| (b'0' + digit, self.after(read, digit))));
        }
        let mut edges = Edges::new();
        for group in next.chunk_by(|a, b| a.1 == b.1) {
            let Some(to) = self.state(group[0].1) else { continue };
            let (range, ir) = ((group[0].0, group[group.len() - 1].0), &mut *self.ir);
            let class = self.classes.entry(range).or_insert_with(|| ir.push(Node::Class(smallvec![range])));
            edges.push((*class, to));
        }
        let state = (accept || !edges.is_empty()).then(|| {
            self.states.push(AutomatonState { accept, edges });
            self.states.len() as u32 - 1
        });
        self.known.insert(read, state);
        state
    }

    /// Returns what was read after one more digit.
    fn after(&self, read: Progress, digit: u8) -> Progress {
        let at = read.digits;
        let orders = self.orders(read.orders, |bound, order| match read.part {
            Part::Fraction => order.then(digit.cmp(bound.fraction.get(at).unwrap_or(&0))),
            // An integer part with more digits than that of a bound is greater.
            _ => bound.integer.get(at).map_or(Ordering::Greater, |own| order.then(digit.cmp(own))),
        });
        let part = if read.part == Part::Integer && at == 0 && digit == 0 { Part::Zero } else { read.part };
        Progress { part, digits: at + 1, orders }
    }

    /// Returns true if a text within the bounds may end after some digits of its fraction.
    fn is_within(&self, read: Progress) -> bool {
        let orders = self.orders(read.orders, |bound, order| match bound.fraction.len() > read.digits {
            true => order.then(Ordering::Less),
            false => order,
        });
        let excluded = |(order, bound): (&Ordering, &Option<Bound>)| {
            *order == Ordering::Equal && bound.as_ref().is_some_and(|bound| bound.exclusive)
        };
        !self.is_outside(orders) && !orders.iter().zip(&self.bounds).any(excluded)
    }

    /// Returns true for numbers below the lower or above the upper bound.
    fn is_outside(&self, orders: [Ordering; 2]) -> bool {
        orders[0] == Ordering::Less || orders[1] == Ordering::Greater
    }

    /// Returns new orders relative to the bounds. Every number is above no lower bound and below no
    /// upper bound.
    fn orders(&self, old: [Ordering; 2], new: impl Fn(&Bound, Ordering) -> Ordering) -> [Ordering; 2] {
        let unbounded = [Ordering::Greater, Ordering::Less];
        std::array::from_fn(|i| self.bounds[i].as_ref().map_or(unbounded[i], |bound| new(bound, old[i])))
    }
}

#[cfg(test)]
mod tests;
