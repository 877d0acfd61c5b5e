//! The tokens of a slice that a state rejects.
//!
//! For the states that strings over the slice lead to, necessary conditions of rejection are known
//! (`rejection_bytes`). Most first bytes lead to the same state. For that state, candidates come
//! from mask rows and are tried one by one. For the other first bytes, and where there are too many
//! candidates, a walk of the trie finds them. The walk visits only nodes from which a rejecting
//! state is near enough, with such bytes below them.
//!
//! # Cost
//!
//! An operation on mask rows for each byte of a condition, a try for each candidate, and a few
//! nanoseconds for each visited node.
//!
//! # Alternatives considered
//!
//! The walk alone: it visits the first letters of all words of a vocabulary to find few tokens or
//! none.

use smallvec::SmallVec;

use super::rejection_bytes::{RejectCondition, may_reject};
use super::state_fits::{SliceFit, StateFits};
use super::token_mask::tokens_of;
use crate::machine::Automaton;
use crate::vocab::{Siblings, Slice, TokenId, Trie, TrieNode, Vocabulary};

/// Maximum number of steps to find the rejected tokens of the widest slice. Beyond it, narrower
/// slices are tried.
pub(super) const REJECT_SEARCH_STEPS: usize = 12_000;
/// Maximum number of candidates that are tried one by one.
const MAX_CANDIDATES: usize = 5_000;

/// Returns the tokens of a slice strictly below the node `top` that `state` rejects. The path to
/// `top` leads to `state`, and `contained` is the fit of the slice there. Returns `None` if more
/// than `most` steps are needed.
pub(super) fn rejected_tokens(
    automaton: &mut Automaton,
    vocab: &Vocabulary,
    (top, state): (TrieNode, u32),
    contained: &SliceFit,
    most: usize,
) -> Option<Vec<TokenId>> {
    let (trie, slice) = (vocab.trie(), &vocab.slices()[contained.slice]);
    let (row, mut left) = (automaton.transitions(state), most);
    let inside = |byte: u8| if byte < 0x80 { slice.kind.has_ascii(byte) } else { slice.kind.has_unicode() };
    let first = |p: &TrieNode| inside(trie.byte(*p));
    // The state that most tokens lead to with their first byte.
    let weight = |p: TrieNode| trie.end(p) - p;
    let mut ends: SmallVec<[(u32, u32); 8]> = SmallVec::new();
    for p in trie.children(top).filter(first) {
        let to = row[trie.byte(p) as usize];
        match ends.iter_mut().find(|end| end.0 == to) {
            Some(end) => end.1 += weight(p),
            None => ends.push((to, weight(p))),
        }
    }
    let main = ends.iter().filter(|end| end.0 != 0).max_by_key(|end| end.1).map_or(0, |end| end.0);
    let found = contained.near.conditions(main).map(|ways| candidates(vocab, slice, ways));
    let Some((suspects, _)) = found.filter(|found| main != 0 && found.1 <= MAX_CANDIDATES) else {
        return walk(automaton, vocab, (top, state), contained, &mut left);
    };
    let offset = trie.depth(top);
    let is_rejected = |t: &TokenId| {
        let bytes = vocab.token_bytes(*t).get(offset..).unwrap_or_default();
        bytes.iter().fold(state, |state, &b| if state == 0 { 0 } else { automaton.step(state, b) }) == 0
    };
    let mut rejected: Vec<TokenId> = tokens_of(&suspects).filter(is_rejected).collect();
    for p in trie.children(top).filter(first) {
        match row[trie.byte(p) as usize] {
            0 => {
                let inside = |t: &&TokenId| slice.mask[**t as usize / 32] >> (**t % 32) & 1 == 1;
                rejected.extend(trie.tokens_below(p).iter().filter(inside));
            }
            to if to == main => {}
            to => rejected.extend(walk(automaton, vocab, (p, to), contained, &mut left)?),
        }
    }
    rejected.sort_unstable();
    rejected.dedup();
    Some(rejected)
}

/// Returns the tokens of a slice that meet one of the conditions of rejection, and their number.
fn candidates(vocab: &Vocabulary, slice: &Slice, ways: &[RejectCondition]) -> (Vec<u32>, usize) {
    let pairs = ways.iter().map(|way| (way.all, way.any));
    let row = vocab.classes().with_all_and_any(pairs, &slice.mask);
    let count = row.iter().map(|word| word.count_ones() as usize).sum();
    (row, count)
}

/// A node whose children are visited.
#[derive(Clone, Copy)]
struct Level<'a> {
    children: Siblings,
    /// The state that the path to the node leads to, and its conditions of rejection if they are
    /// known.
    state: u32,
    conditions: Option<&'a [RejectCondition]>,
}

impl<'a> Level<'a> {
    #[inline]
    fn of(trie: &Trie, near: &'a StateFits, p: TrieNode, state: u32) -> Self {
        Level { children: Siblings::below(trie, p), state, conditions: near.conditions(state) }
    }
}

/// Walks the trie and returns the tokens of a slice strictly below the node `top` that `state`
/// rejects, including those that are too long for it. The path to `top` leads to `state`, and
/// `contained` is the fit of the slice there. Returns `None` if more steps are needed than are
/// left.
fn walk(
    automaton: &mut Automaton,
    vocab: &Vocabulary,
    (top, state): (TrieNode, u32),
    contained: &SliceFit,
    left: &mut usize,
) -> Option<Vec<TokenId>> {
    let slice = &vocab.slices()[contained.slice];
    let (kind, trie, sets) = (slice.kind, vocab.trie(), vocab.node_sets());
    let mut rejected = Vec::new();
    let near: &StateFits = &contained.near;
    let mut current = Level::of(trie, near, top, state);
    let mut levels = Vec::new();
    loop {
        *left = left.checked_sub(1)?;
        let Some((p, set)) = current.children.next(trie, sets) else {
            match levels.pop() {
                Some(above) => current = above,
                None => break,
            }
            continue;
        };
        if current.conditions.is_some_and(|conditions| !may_reject(conditions, set)) {
            continue;
        }
        let byte = trie.byte(p);
        let inside = if byte < 0x80 { kind.has_ascii(byte) } else { kind.has_unicode() };
        if !inside {
            continue;
        }
        let to = automaton.step(current.state, byte);
        if to == 0 {
            rejected.extend_from_slice(trie.tokens_below(p));
            continue;
        }
        let alive = near.of(to);
        if trie.height(p) as u64 <= u64::from(alive.safe) {
            continue;
        }
        if alive.most == 0 {
            rejected.extend_from_slice(&trie.tokens_below(p)[trie.tokens_at(p).len()..]);
            continue;
        }
        let below = Level::of(trie, near, p, to);
        // A finished level need not be kept: most nodes have one child.
        match current.children.is_done() {
            true => current = below,
            false => levels.push(std::mem::replace(&mut current, below)),
        }
    }
    // Below a node there are also tokens that leave the slice before they are too long for it.
    rejected.retain(|&t| slice.mask[t as usize / 32] >> (t % 32) & 1 == 1);
    Some(rejected)
}
