//! Conversion of an automaton over code points back to a node of the common representation.
//!
//! Live states and the classes between them are converted one to one.
//!
//! # Cost
//!
//! Linear in the transitions.
//!
//! # Alternatives considered
//!
//! Eliminating the states to get a regular expression was rejected: four overlapping patterns yield
//! 60,000 parts, and five are too large.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{AutomatonState, Ir, Node, NodeId};
use crate::constraint::regular::utf8_class;
use crate::error::{Error, ErrorKind, Result};

/// Characters that lead to one state.
type Ranges = SmallVec<[(char, char); 8]>;

/// Maximum number of states of an automaton that is converted without merging equal states.
const MAX_UNMERGED: usize = 1_500;
/// Maximum number of live states of an automaton.
const MAX_LIVE: usize = 4_000;

/// Returns the language of `dfa` as a node; [`Node::Never`] if it is empty.
pub(crate) fn lower(dfa: &CharDfa, ir: &mut Ir) -> Result<NodeId> {
    if dfa.is_empty() {
        return Ok(ir.push(Node::Never));
    }
    // In typical products few states could be merged; finding them takes longer than converting
    // all.
    let dfa = if dfa.states() > MAX_UNMERGED { dfa.minimised()? } else { Cow::Borrowed(dfa) };
    let live = dfa.live();
    let count = live.iter().filter(|&&l| l).count();
    if count > MAX_LIVE {
        let message =
            format!("the combination of patterns needs {count} automaton states; the limit is {MAX_LIVE}");
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    // The start state is live and keeps the number 0.
    let mut numbers = vec![0u32; live.len()];
    let mut next = 0;
    for (number, &live) in numbers.iter_mut().zip(&live) {
        *number = next;
        next += u32::from(live);
    }
    let mut states = Vec::with_capacity(count);
    let mut classes: Vec<(u32, Ranges)> = Vec::new();
    // Classes beyond ASCII cost several nodes, and most states have the same few of them.
    let mut known: FxHashMap<Ranges, NodeId> = FxHashMap::default();
    let mut class = |ranges: Ranges| {
        if ranges.last().is_none_or(|last| last.1.is_ascii()) {
            return utf8_class::class(&ranges, ir);
        }
        *known.entry(ranges).or_insert_with_key(|ranges| utf8_class::class(ranges, ir))
    };
    for q in (0..dfa.states() as u32).filter(|&q| live[q as usize]) {
        classes.clear();
        for r in dfa.transitions(q).iter().filter(|r| live[r.to as usize]) {
            // Transitions cover scalar values only.
            let (Some(lo), Some(hi)) = (char::from_u32(r.lo), char::from_u32(r.hi)) else { continue };
            match classes.iter_mut().find(|c| c.0 == r.to) {
                Some(class) => class.1.push((lo, hi)),
                None => classes.push((r.to, smallvec![(lo, hi)])),
            }
        }
        let mut edges = SmallVec::with_capacity(classes.len());
        for (to, ranges) in classes.drain(..) {
            edges.push((class(ranges), numbers[to as usize]));
        }
        states.push(AutomatonState { accept: dfa.accept[q as usize], edges });
    }
    Ok(ir.push(Node::automaton(states)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::char_lang::byte_nfa::ByteNfa;

    fn dfa(ir: &Ir, node: NodeId) -> CharDfa {
        CharDfa::from_nfa(&ByteNfa::new(ir, node).unwrap()).unwrap()
    }

    #[test]
    fn states_of_large_automata_are_merged() {
        // After either letter the same counting, in separate states.
        let count = 2 * MAX_UNMERGED as u32 / 3;
        let mut ir = Ir::new();
        let [a, b] = ["a", "b"].map(|letter| {
            let (letter, x) = (ir.bytes(letter), ir.bytes("x"));
            let counted = ir.repeat(x, 0, Some(count));
            let node = ir.concat(vec![letter, counted]);
            dfa(&ir, node).complement()
        });
        let large = a.intersect(&b).unwrap().complement();
        assert!(large.states() > MAX_UNMERGED);
        let mut out = Ir::new();
        let node = lower(&large, &mut out).unwrap();
        let Node::Automaton { states, .. } = out.node(node) else { panic!("not an automaton") };
        assert!(states.len() < MAX_UNMERGED);
        let again = dfa(&out, node);
        assert!(large.without(&again).unwrap().is_empty() && again.without(&large).unwrap().is_empty());
    }

    #[test]
    fn there_and_back_is_the_same_language() {
        let mut ir = Ir::new();
        let letter = ir.push(Node::Class(smallvec![(b'a', b'c'), (b'x', b'x')]));
        let e = ir.bytes("é😀");
        let either = ir.union(vec![letter, e]);
        let some = ir.repeat(either, 2, Some(4));
        let many = ir.repeat(letter, 0, None);
        let dash = ir.bytes("-");
        let whole = ir.concat(vec![some, dash, many]);
        for node in [letter, e, either, some, many, whole] {
            let d = dfa(&ir, node);
            for d in [d.clone(), d.complement()] {
                let mut out = Ir::new();
                let back = lower(&d, &mut out).unwrap();
                let again = dfa(&out, back);
                let both = d.without(&again).unwrap();
                assert!(both.is_empty(), "lost a text");
                assert!(again.is_disjoint(&d.complement()).unwrap(), "gained a text");
            }
        }
    }
}
