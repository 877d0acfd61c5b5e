//! Slow reference matcher for regular nodes (sets of positions), and random members for tests.

use std::collections::BTreeSet;

use ffwd_testkit::random::Random;

use super::ir::{Ir, Node, NodeId};
use crate::{Compiler, Constraint, ErrorKind, Policy, Vocabulary};

/// Returns true if a text is an output of a constraint, byte by byte.
pub(crate) fn accepts(ir: &Ir, text: &str) -> bool {
    let bytes: Vec<Vec<u8>> = (0..=255).map(|b| vec![b]).chain([vec![]]).collect();
    let vocab = Vocabulary::from_token_bytes(&bytes, &[], vec![256]).expect("all bytes");
    let constraint = Constraint::from_ir(ir.clone(), Policy::default());
    match Compiler::new(vocab).compile(&constraint) {
        Ok(grammar) => {
            let mut matcher = grammar.matcher();
            text.bytes().all(|b| matcher.accept_token(b.into()).is_ok()) && matcher.is_accepting()
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsatisfiable, "{error}");
            false
        }
    }
}

/// Returns true if `text` as a whole is in the language of `node`.
pub(crate) fn matches(ir: &Ir, node: NodeId, text: &[u8]) -> bool {
    ends(ir, node, text, &BTreeSet::from([0])).contains(&text.len())
}

/// Returns the ends of all matches of `node` that begin at one of `starts`.
fn ends(ir: &Ir, node: NodeId, text: &[u8], starts: &BTreeSet<usize>) -> BTreeSet<usize> {
    if starts.is_empty() {
        return BTreeSet::new();
    }
    let literal = |bytes: &[u8]| -> Vec<usize> {
        starts.iter().filter(|&&s| text[s..].starts_with(bytes)).map(|&s| s + bytes.len()).collect()
    };
    match ir.node(node) {
        Node::Never => BTreeSet::new(),
        Node::Empty => starts.clone(),
        Node::Bytes(bytes) => literal(bytes).into_iter().collect(),
        Node::Literals(all) => all.iter().flat_map(|bytes| literal(bytes)).collect(),
        Node::Class(ranges) => starts
            .iter()
            .filter(|&&s| s < text.len() && ranges.iter().any(|&(lo, hi)| lo <= text[s] && text[s] <= hi))
            .map(|&s| s + 1)
            .collect(),
        Node::Concat(parts) => parts.iter().fold(starts.clone(), |at, &part| ends(ir, part, text, &at)),
        Node::Union(parts) => parts.iter().flat_map(|&part| ends(ir, part, text, starts)).collect(),
        Node::Repeat { node, min, max } => {
            let mut at = starts.clone();
            let mut found = if *min == 0 { at.clone() } else { BTreeSet::new() };
            let mut count = 0u32;
            while max.is_none_or(|max| count < max) {
                let next = ends(ir, *node, text, &at);
                count += 1;
                let before = found.len();
                if count >= *min {
                    found.extend(&next);
                }
                // Further rounds change nothing once the positions repeat and all of them are
                // found.
                if next.is_empty() || (count > *min && (next == at || found.len() == before)) {
                    break;
                }
                at = next;
            }
            found
        }
        Node::Automaton { states, .. } => {
            let mut seen: BTreeSet<(u32, usize)> = BTreeSet::new();
            let mut todo: Vec<(u32, usize)> = starts.iter().map(|&s| (0, s)).collect();
            while let Some((q, at)) = todo.pop() {
                if seen.insert((q, at)) {
                    for &(node, to) in &states[q as usize].edges {
                        todo.extend(
                            ends(ir, node, text, &BTreeSet::from([at])).into_iter().map(|end| (to, end)),
                        );
                    }
                }
            }
            seen.into_iter().filter(|s| states[s.0 as usize].accept).map(|s| s.1).collect()
        }
        other => panic!("not a regular node: {other:?}"),
    }
}

/// Returns a random member of a language, or `None` if the random path met an empty branch.
pub(crate) fn member(ir: &Ir, node: NodeId, random: &mut Random) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    extend(ir, node, random, &mut out).then_some(out)
}

fn extend(ir: &Ir, node: NodeId, random: &mut Random, out: &mut Vec<u8>) -> bool {
    match ir.node(node) {
        Node::Never => false,
        Node::Empty => true,
        Node::Bytes(bytes) => {
            out.extend_from_slice(bytes);
            true
        }
        Node::Literals(all) => {
            out.extend_from_slice(&random.pick(&all[..])[..]);
            true
        }
        Node::Class(ranges) => {
            let (lo, hi) = *random.pick(ranges);
            out.push(lo + random.below(usize::from(hi - lo) + 1) as u8);
            true
        }
        Node::Concat(parts) => parts.iter().all(|&part| extend(ir, part, random, out)),
        Node::Union(parts) => extend(ir, *random.pick(parts), random, out),
        Node::Repeat { node, min, max } => {
            let (min, room) = (*min as usize, max.map_or(6, |max| (max - min) as usize));
            // Mostly few repetitions, sometimes all.
            let more = if random.below(4) == 0 { room } else { random.below(room.min(6) + 1) };
            (0..min + more).all(|_| extend(ir, *node, random, out))
        }
        Node::Automaton { states, .. } => {
            let mut at = &states[0];
            loop {
                let ways = at.edges.len() + usize::from(at.accept);
                let Some(&(node, to)) = at.edges.get(random.below(ways.max(1))) else { return at.accept };
                if !extend(ir, node, random, out) {
                    return false;
                }
                at = &states[to as usize];
            }
        }
        other => panic!("not a regular node: {other:?}"),
    }
}
