//! Anchored regular languages: matches that may have to lie at the start or the end of the text.
//!
//! A sub-expression with `^` and `$` is held as four ordinary languages. There is one per
//! combination of "no text may precede this match" and "no text may follow it". The combinators
//! compute concatenation, alternation and repetition on that form exactly, so an anchor may occur
//! anywhere. A branch whose anchor can never hold vanishes.
//!
//! # Cost
//!
//! A constant number of nodes for each combinator.
//!
//! # Alternatives considered
//!
//! Refusing inner anchors was rejected, because real patterns have them (`^a|b$`, `(^|,)x`). The
//! four languages also show what an unanchored search must add.

use crate::constraint::ir::{ByteString, Ir, Node, NodeId, Parts};

/// Index of a condition: bit 0 "at the start", bit 1 "at the end".
const FREE: usize = 0;
const AT_START: usize = 1;
const AT_END: usize = 2;
const WHOLE: usize = 3;

/// The languages of an expression by the condition under which they match.
///
/// `empty` holds the weakest conditions under which the empty text matches, one bit per condition.
/// Whenever bit `c` is set, `langs[c]` contains the empty text. `None` is the empty language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnchoredLanguages {
    langs: [Option<NodeId>; 4],
    empty: u8,
}

/// Drops conditions that a weaker one implies.
fn weakest(set: u8) -> u8 {
    if set & 1 << FREE != 0 {
        1 << FREE
    } else if set & (1 << AT_START | 1 << AT_END) != 0 {
        set & (1 << AT_START | 1 << AT_END)
    } else {
        set
    }
}

fn conditions(set: u8) -> impl Iterator<Item = usize> {
    (0..4).filter(move |c| set & 1 << c != 0)
}

impl AnchoredLanguages {
    /// The language that matches nothing.
    pub(crate) const NEVER: AnchoredLanguages = AnchoredLanguages { langs: [None; 4], empty: 0 };

    /// Creates an expression without anchors.
    pub(crate) fn plain(node: NodeId, nullable: bool) -> Self {
        AnchoredLanguages { langs: [Some(node), None, None, None], empty: u8::from(nullable) << FREE }
    }

    /// Creates `^`: the empty text at the start.
    pub(crate) fn start(ir: &mut Ir) -> Self {
        Self::anchor(AT_START, ir)
    }

    /// Creates `$`: the empty text at the end.
    pub(crate) fn end(ir: &mut Ir) -> Self {
        Self::anchor(AT_END, ir)
    }

    fn anchor(condition: usize, ir: &mut Ir) -> Self {
        let mut langs = [None; 4];
        langs[condition] = Some(ir.push(Node::Empty));
        AnchoredLanguages { langs, empty: 1 << condition }
    }

    fn is_plain(&self) -> bool {
        self.langs[AT_START].is_none() && self.langs[AT_END].is_none() && self.langs[WHOLE].is_none()
    }

    /// Returns the concatenation of some expressions.
    pub(crate) fn concat(parts: &[AnchoredLanguages], ir: &mut Ir) -> Self {
        let mut result: Option<AnchoredLanguages> = None;
        for run in parts.chunk_by(|a, b| a.is_plain() && b.is_plain()) {
            let next = if run[0].is_plain() { Self::concat_plain(run, ir) } else { run[0] };
            result = Some(match result {
                None => next,
                Some(before) => before.then(&next, ir),
            });
        }
        result.unwrap_or_else(|| Self::plain(ir.push(Node::Empty), true))
    }

    fn concat_plain(parts: &[AnchoredLanguages], ir: &mut Ir) -> Self {
        let mut nodes = Parts::new();
        for part in parts {
            match part.langs[FREE] {
                None => return Self::NEVER,
                Some(node) => nodes.push(node),
            }
        }
        let nullable = parts.iter().all(|p| p.empty != 0);
        Self::plain(join(&nodes, ir), nullable)
    }

    /// Returns `self` and then `next`, by condition. Either both meet in the middle freely, or one
    /// of them requires an end of the text in the middle and the other one is empty there.
    fn then(&self, next: &AnchoredLanguages, ir: &mut Ir) -> Self {
        let mut langs = [None; 4];
        for (condition, slot) in langs.iter_mut().enumerate() {
            let (start, end) = (condition & AT_START, condition & AT_END);
            let mut parts = Vec::new();
            if let (Some(a), Some(b)) = (self.langs[start], next.langs[end]) {
                parts.push(join(&[a, b], ir));
            }
            if end != 0 && conditions(next.empty).any(|c| c & AT_START == 0) {
                parts.extend(self.langs[condition]);
            }
            if start != 0 && conditions(self.empty).any(|c| c & AT_END == 0) {
                parts.extend(next.langs[condition]);
            }
            let clash = conditions(self.empty).any(|c| c & AT_END != 0)
                && conditions(next.empty).any(|c| c & AT_START != 0);
            if condition == WHOLE && clash {
                parts.push(ir.push(Node::Empty));
            }
            *slot = any_of(parts, ir);
        }
        let mut empty = 0;
        for a in conditions(self.empty) {
            for b in conditions(next.empty) {
                empty |= 1 << (a | b);
            }
        }
        AnchoredLanguages { langs, empty: weakest(empty) }
    }

    /// Returns the union of some expressions.
    pub(crate) fn alternation(parts: &[AnchoredLanguages], ir: &mut Ir) -> Self {
        let mut langs = [None; 4];
        for (condition, slot) in langs.iter_mut().enumerate() {
            *slot = any_of(parts.iter().filter_map(|p| p.langs[condition]).collect(), ir);
        }
        let empty = weakest(parts.iter().fold(0, |set, p| set | p.empty));
        AnchoredLanguages { langs, empty }
    }

    /// Returns `min` to `max` repetitions. Only the first one that is not empty can lie at the
    /// start, and only the last one at the end. Empty ones fill up to `min`, under their condition.
    pub(crate) fn repeat(&self, min: u32, max: Option<u32>, ir: &mut Ir) -> Self {
        if max == Some(0) {
            return Self::plain(ir.push(Node::Empty), true);
        }
        if self.is_plain() {
            return match self.langs[FREE] {
                Some(node) => Self::plain(ir.repeat(node, min, max), min == 0 || self.empty != 0),
                None if min == 0 => Self::plain(ir.push(Node::Empty), true),
                None => Self::NEVER,
            };
        }
        let langs = [FREE, AT_START, AT_END, WHOLE].map(|c| self.iterations(c, min, max, ir));
        AnchoredLanguages { langs, empty: if min == 0 { 1 << FREE } else { self.empty } }
    }

    /// Returns the texts of `min` to `max` iterations that match under `condition`.
    fn iterations(&self, condition: usize, min: u32, max: Option<u32>, ir: &mut Ir) -> Option<NodeId> {
        let free_filler = self.empty & 1 << FREE != 0;
        let filler = [AT_START, AT_END].iter().any(|&c| self.empty & 1 << c != 0 && c & !condition == 0);
        let min = if filler || free_filler { 0 } else { min };
        let mut parts = Vec::new();
        // Conditions of the first and of the last iteration; those between them are free.
        for (first, last) in [(FREE, FREE), (AT_START, FREE), (FREE, AT_END), (AT_START, AT_END)] {
            // With an empty iteration under the condition, weaker sequences need it too.
            let wanted = if filler { (first | last) & !condition == 0 } else { first | last == condition };
            if wanted {
                parts.extend(self.sequence(first != FREE, last != FREE, min, max, ir));
            }
        }
        if condition == WHOLE && min <= 1 {
            parts.extend(self.langs[WHOLE]);
        } else if condition == WHOLE && self.empty & 1 << WHOLE != 0 {
            // If start and end coincide, only empty iterations fit.
            parts.push(ir.push(Node::Empty));
        }
        any_of(parts, ir)
    }

    /// Returns `min` to `max` iterations. The first is at the start if `start`, the last is at the
    /// end if `end`, and all others are free.
    fn sequence(&self, start: bool, end: bool, min: u32, max: Option<u32>, ir: &mut Ir) -> Option<NodeId> {
        let mut parts = Vec::with_capacity(3);
        if start {
            parts.push(self.langs[AT_START]?);
        }
        let taken = u32::from(start) + u32::from(end);
        let middle_max = match max {
            Some(max) => Some(max.checked_sub(taken)?),
            None => None,
        };
        match self.langs[FREE] {
            Some(node) => parts.push(ir.repeat(node, min.saturating_sub(taken), middle_max)),
            None if min <= taken => parts.push(ir.push(Node::Empty)),
            None => return None,
        }
        if end {
            parts.push(self.langs[AT_END]?);
        }
        Some(join(&parts, ir))
    }

    /// Returns the texts that match as a whole.
    pub(crate) fn whole(&self, ir: &mut Ir) -> NodeId {
        any_of(self.langs.into_iter().flatten().collect(), ir).unwrap_or_else(|| ir.push(Node::Never))
    }

    /// Returns the texts that contain a match; `any` is the language of all texts.
    pub(crate) fn search(&self, any: NodeId, ir: &mut Ir) -> NodeId {
        if conditions(self.empty).any(|c| c != WHOLE) {
            return any;
        }
        let mut parts = Vec::new();
        for (condition, lang) in self.langs.iter().enumerate() {
            let Some(lang) = *lang else { continue };
            let before = (condition & AT_START == 0).then_some(any);
            let after = (condition & AT_END == 0).then_some(any);
            let around: Parts = before.into_iter().chain([lang]).chain(after).collect();
            parts.push(join(&around, ir));
        }
        any_of(parts, ir).unwrap_or_else(|| ir.push(Node::Never))
    }
}

/// Returns a concatenation, flat and with neighbouring literals merged.
fn join(parts: &[NodeId], ir: &mut Ir) -> NodeId {
    let mut flat = Parts::new();
    let mut literal = ByteString::new();
    let mut pending: Option<NodeId> = None;
    let mut items = Parts::new();
    for &id in parts {
        match ir.node(id) {
            Node::Concat(inner) => items.extend_from_slice(inner),
            _ => items.push(id),
        }
    }
    for id in items {
        match ir.node(id) {
            Node::Empty => {}
            Node::Bytes(bytes) => {
                // A single literal keeps its node; only a merged one needs a new node.
                pending = if literal.is_empty() { Some(id) } else { None };
                literal.extend_from_slice(bytes);
            }
            _ => {
                flush(&mut literal, pending.take(), &mut flat, ir);
                flat.push(id);
            }
        }
    }
    flush(&mut literal, pending, &mut flat, ir);
    ir.concat(flat)
}

fn flush(literal: &mut ByteString, single: Option<NodeId>, flat: &mut Parts, ir: &mut Ir) {
    if literal.is_empty() {
        return;
    }
    let bytes = std::mem::take(literal);
    flat.push(single.unwrap_or_else(|| ir.push(Node::Bytes(bytes))));
}

/// Returns a union with its literals gathered in one trie, or `None` for an empty list.
fn any_of(parts: Vec<NodeId>, ir: &mut Ir) -> Option<NodeId> {
    if parts.len() < 2 {
        return parts.first().copied();
    }
    let mut texts: Vec<ByteString> = Vec::new();
    let mut rest: Vec<NodeId> = Vec::new();
    let mut first_literal = None;
    for id in parts {
        match ir.node(id) {
            Node::Bytes(bytes) => texts.push(bytes.clone()),
            Node::Literals(all) => texts.extend(all.iter().cloned()),
            _ => {
                if !rest.contains(&id) {
                    rest.push(id);
                }
                continue;
            }
        }
        first_literal.get_or_insert(id);
    }
    texts.sort_unstable();
    texts.dedup();
    match (first_literal, texts.len()) {
        (None, _) => {}
        (Some(id), 1) => rest.push(id),
        _ => rest.push(ir.literals(texts)),
    }
    Some(ir.union(rest))
}
