//! Conversion of `regex_syntax`'s HIR to the common representation.
//!
//! Both regular expression dialects and the element patterns meet in HIR, which is already
//! simplified. This module turns it into nodes. Anchors at the two ends of an alternative say where
//! any text may precede or follow a match. All other conditions, such as those of `(^|,)x`, are for
//! [`lookaround`](crate::constraint::ecma).
//!
//! # Cost
//!
//! Linear in the HIR.
//!
//! # Alternatives considered
//!
//! Building a Thompson automaton here was rejected: the machine has its own, which also has
//! counters and values. Four languages for each part, one for each condition under which it matches,
//! were rejected: they make the combinators long, and inner anchors are rare.

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look};

use crate::char_lang::char_class::{self, ANY_CHAR};
use crate::char_lang::pattern_text::fault;
use crate::constraint::ir::{ByteString, Ir, MIN_COUNTED, Node, NodeId, Parts, Ranges, is_counted};
use crate::constraint::regular::utf8_class;
use crate::error::{ErrorKind, Result};

/// Maximum number of byte states of one pattern, with counted repetitions expanded.
pub(crate) const MAX_STATES: u64 = 200_000;

/// Refuses languages above [`MAX_STATES`]; `base` is the length of the arena before the pattern.
pub(crate) fn check_states(text: &str, ir: &Ir, base: usize, root: NodeId) -> Result<()> {
    let states = states(ir, base, root);
    if states <= MAX_STATES {
        return Ok(());
    }
    let reached = if states == u64::MAX { "too many to count".to_owned() } else { states.to_string() };
    let message = format!("the pattern needs {reached} states, more than the limit of {MAX_STATES}");
    let shown: String = text.chars().take(200).collect();
    Err(fault(ErrorKind::TooComplex, message, &shown, 0, shown.len())
        .hint("lower the counts of the repetitions"))
}

/// Returns the byte states of a regular node, with repetitions expanded. Shared nodes count once
/// per use, and nodes below `base` that the root refers to count one.
pub(crate) fn states(ir: &Ir, base: usize, root: NodeId) -> u64 {
    let mut sizes: Vec<u64> = Vec::with_capacity((root.0 as usize + 1).saturating_sub(base));
    // Children are always pushed before their parents.
    for id in base..=root.0 as usize {
        let of = |child: NodeId| (child.0 as usize).checked_sub(base).map_or(1, |at| sizes[at]);
        let sum = |parts: &[NodeId]| parts.iter().fold(0u64, |n, &p| n.saturating_add(of(p)));
        sizes.push(match ir.node(NodeId(id as u32)) {
            Node::Bytes(bytes) => bytes.len() as u64,
            Node::Literals(all) => all.iter().map(|text| text.len() as u64).sum(),
            Node::Automaton { states, .. } => states.len() as u64,
            Node::Concat(parts) | Node::Union(parts) => sum(parts),
            Node::Repeat { node, min, max } => {
                of(*node).max(1).saturating_mul(u64::from(max.unwrap_or((*min).max(1))))
            }
            _ => 1,
        });
    }
    (root.0 as usize).checked_sub(base).map_or(1, |at| sizes[at])
}

/// A sequence without conditions, and whether any text may precede and may follow it.
type Alternative<'h> = ((bool, bool), &'h [Hir]);

/// Returns the texts that contain a match of `hir`. The flags of `around` say whether any text may
/// precede and whether any text may follow the match. Returns `None` if there are conditions other
/// than anchors at the ends of alternatives. Alternatives between the same texts stay together, so
/// that a deterministic automaton need not remember which of them it met.
pub(crate) fn language(hir: &Hir, around: (bool, bool), ir: &mut Ir) -> Option<NodeId> {
    let mut all = Vec::new();
    alternatives(hir, around, &mut all)?;
    let ways = [(false, false), (true, false), (false, true), (true, true)].map(|around| {
        let own: Vec<&[Hir]> = all.iter().filter(|way| way.0 == around).map(|way| way.1).collect();
        surrounded(&own, around, ir)
    });
    Some(any_of(ways.into(), ir))
}

/// Adds the alternatives of `hir`. The recursion follows the nesting, which the parsers limit.
fn alternatives<'h>(hir: &'h Hir, around: (bool, bool), found: &mut Vec<Alternative<'h>>) -> Option<()> {
    let has_condition = |item: &Hir| !item.properties().look_set().is_empty();
    let items = match hir.kind() {
        HirKind::Alternation(parts) if has_condition(hir) => {
            return parts.iter().try_for_each(|part| alternatives(part, around, found));
        }
        HirKind::Capture(capture) => return alternatives(&capture.sub, around, found),
        HirKind::Concat(items) => items,
        _ => std::slice::from_ref(hir),
    };
    let (start, end, items) = between_anchors(items);
    let around = (around.0 && !start, around.1 && !end);
    match items {
        [one] if !std::ptr::eq(one, hir) => alternatives(one, around, found),
        _ if items.iter().any(has_condition) => None,
        _ => {
            found.push((around, items));
            Some(())
        }
    }
}

/// Returns whether a sequence has `^` at its start and `$` at its end, and the items between them.
pub(crate) fn between_anchors(mut items: &[Hir]) -> (bool, bool, &[Hir]) {
    let (mut start, mut end) = (false, false);
    while let [first, rest @ ..] = items
        && *first.kind() == HirKind::Look(Look::Start)
    {
        (start, items) = (true, rest);
    }
    while let [rest @ .., last] = items
        && *last.kind() == HirKind::Look(Look::End)
    {
        (end, items) = (true, rest);
    }
    (start, end, items)
}

/// Returns the texts of some sequences without conditions, between any texts where `around` says.
fn surrounded(ways: &[&[Hir]], (before, after): (bool, bool), ir: &mut Ir) -> NodeId {
    let may_be_empty = |items: &&[Hir]| items.iter().all(|item| item.properties().minimum_len() == Some(0));
    let absorbs = (before || after) && ways.iter().any(may_be_empty);
    let whole = if absorbs { Vec::new() } else { ways.iter().map(|items| sequence(items, ir)).collect() };
    let whole = any_of(whole, ir);
    if !absorbs && (*ir.node(whole) == Node::Never || !before && !after) {
        return whole;
    }
    let any = utf8_class::class(&[ANY_CHAR], ir);
    let any = ir.repeat(any, 0, None);
    let parts = [before.then_some(any), Some(whole), after.then_some(any)];
    if absorbs { any } else { ir.concat(parts.into_iter().flatten().collect::<Parts>()) }
}

/// Returns the texts that match `hir`, which has no conditions.
pub(crate) fn node(hir: &Hir, ir: &mut Ir) -> NodeId {
    match hir.kind() {
        HirKind::Empty => ir.push(Node::Empty),
        HirKind::Literal(literal) => ir.bytes(&literal.0),
        HirKind::Class(Class::Unicode(class)) => {
            utf8_class::class(&char_class::ranges(class).collect::<Vec<_>>(), ir)
        }
        HirKind::Class(Class::Bytes(class)) => {
            let ranges: Ranges = class.ranges().iter().map(|r| (r.start(), r.end())).collect();
            ir.push(if ranges.is_empty() { Node::Never } else { Node::Class(ranges) })
        }
        HirKind::Look(_) => ir.push(Node::Never),
        HirKind::Capture(capture) => node(&capture.sub, ir),
        HirKind::Repetition(repetition) => {
            let (min, max) = (repetition.min, repetition.max);
            if ir.counts
                && let Some(max @ MIN_COUNTED..) = max
                && let Some(ranges) = characters(&repetition.sub).filter(|ranges| is_counted(ranges, max))
            {
                let class = utf8_class::class(&ranges, ir);
                return ir.counted(class, min, max);
            }
            let part = node(&repetition.sub, ir);
            match (ir.node(part), min) {
                (Node::Never, 0) => ir.push(Node::Empty),
                (Node::Never, _) => part,
                _ => ir.repeat(part, min, max),
            }
        }
        HirKind::Concat(items) => sequence(items, ir),
        HirKind::Alternation(parts) => {
            let parts = parts.iter().map(|part| node(part, ir)).collect();
            any_of(parts, ir)
        }
    }
}

/// Returns the characters of a part that matches one of them.
fn characters(hir: &Hir) -> Option<Vec<(char, char)>> {
    fn class(hir: &Hir) -> Option<ClassUnicode> {
        match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => Some(class.clone()),
            HirKind::Capture(capture) => class(&capture.sub),
            HirKind::Literal(literal) => {
                let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
                let c = chars.next().filter(|_| chars.next().is_none())?;
                Some(char_class::unicode(&[(c, c)]))
            }
            HirKind::Alternation(parts) => parts.iter().try_fold(ClassUnicode::empty(), |mut all, part| {
                all.union(&class(part)?);
                Some(all)
            }),
            _ => None,
        }
    }
    class(hir).map(|class| char_class::ranges(&class).collect())
}

fn sequence(items: &[Hir], ir: &mut Ir) -> NodeId {
    let parts: Parts = items.iter().map(|item| node(item, ir)).collect();
    match parts.iter().find(|&&part| *ir.node(part) == Node::Never) {
        Some(&never) => never,
        None => ir.concat(parts),
    }
}

/// Returns a union with its literals gathered in one trie.
fn any_of(parts: Vec<NodeId>, ir: &mut Ir) -> NodeId {
    let mut texts: Vec<ByteString> = Vec::new();
    let mut rest = Parts::new();
    for id in parts {
        match ir.node(id) {
            Node::Never => {}
            Node::Bytes(bytes) => texts.push(bytes.clone()),
            Node::Literals(all) => texts.extend(all.iter().cloned()),
            _ if rest.contains(&id) => {}
            _ => rest.push(id),
        }
    }
    texts.sort_unstable();
    texts.dedup();
    match texts.len() {
        0 => {}
        1 => rest.push(ir.bytes(&texts[0])),
        _ => rest.push(ir.literals(texts)),
    }
    ir.union(rest)
}
