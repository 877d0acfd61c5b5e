//! Which tokens of a slice kill a state.
//!
//! What a token must hold to kill (`deadly`) is known of the states that strings over the slice lead to. Most first
//! bytes lead to the same state: the tokens that hold what kills that one are had from rows of bits, and tried one
//! by one. Behind the others, and where those would be many, a walk of the trie visits only those places from which a dead
//! state is near enough, and below which the bytes are that lead there. Cost: half a microsecond per byte of a way to
//! die, some tens of nanoseconds per token tried, a few per node visited. Rejected: the walk alone, which looks
//! at all first letters of the words of a vocabulary to find few tokens or none.

use smallvec::SmallVec;

use super::rejection_bytes::{RejectCondition, may_reject};
use super::slice_fit::{SliceFit, StateFits};
use super::union::tokens_of;
use crate::machine::Machine;
use crate::vocab::{ByteGroups, Slice, TokenId, Trie, TrieNode, Vocabulary, byte_set};

/// Most steps to find the tokens that kill a state for that to be no reason to try a narrower slice.
pub(super) const REJECT_SEARCH_STEPS: usize = 12_000;
/// Most tokens that are tried one by one because they have the bytes that kill.
const MAX_CANDIDATES: usize = 5_000;

/// The tokens of a slice strictly below the node `top` that kill a state: `state`, where the way to `top`
/// leads, and of which `contained` tells. `None` if more than `most` steps would be needed.
pub(super) fn rejected_tokens(
    machine: &mut Machine,
    vocab: &Vocabulary,
    slice: &Slice,
    (top, state): (TrieNode, u32),
    contained: &SliceFit,
    most: usize,
) -> Option<Vec<TokenId>> {
    let trie = vocab.trie();
    let (row, mut left) = (machine.transitions(state), most);
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
    let found = contained.deadly(main).map(|ways| candidates(vocab, slice, ways));
    let Some((suspects, _)) = found.filter(|found| main != 0 && found.1 <= MAX_CANDIDATES) else {
        return walk(machine, vocab, slice, (top, state), contained, &mut left);
    };
    let offset = trie.depth(top);
    let kills = |t: &TokenId| {
        let bytes = vocab.token_bytes(*t).get(offset..).unwrap_or_default();
        bytes.iter().fold(state, |state, &b| if state == 0 { 0 } else { machine.step_state(state, b) }) == 0
    };
    let mut dead: Vec<TokenId> = tokens_of(&suspects).filter(kills).collect();
    for p in trie.children(top).filter(first) {
        match row[trie.byte(p) as usize] {
            0 => {
                let inside = |t: &&TokenId| slice.mask[**t as usize / 32] >> (**t % 32) & 1 == 1;
                dead.extend(trie.tokens_below(p).iter().filter(inside));
            }
            to if to == main => {}
            to => dead.extend(walk(machine, vocab, slice, (p, to), contained, &mut left)?),
        }
    }
    dead.sort_unstable();
    dead.dedup();
    Some(dead)
}

/// The tokens of a slice that have the bytes of which a state dies, and how many they are.
fn candidates(vocab: &Vocabulary, slice: &Slice, ways: &[RejectCondition]) -> (Vec<u32>, usize) {
    let pairs = ways.iter().map(|way| (way.all, way.any));
    let row = vocab.classes().with_all_and_any(pairs, &slice.mask);
    let count = row.iter().map(|word| word.count_ones() as usize).sum();
    (row, count)
}

/// The children of a node of the trie that are still to be looked at.
#[derive(Clone, Copy)]
struct Level<'a> {
    /// The next child, and one past the last: in the list of children, or as nodes.
    next: u32,
    end: u32,
    listed: bool,
    /// Where the way to the node leads, and what kills there, if that is known.
    state: u32,
    deadly: Option<&'a [RejectCondition]>,
}

impl<'a> Level<'a> {
    #[inline]
    fn of(trie: &Trie, near: &'a StateFits, p: TrieNode, state: u32) -> Self {
        let deadly = near.deadly(state);
        match trie.fan(p).map(|fan| trie.listed_in(fan)) {
            Some(list) => {
                Level { next: list.start as u32, end: list.end as u32, listed: true, state, deadly }
            }
            None => Level { next: p + 1, end: trie.end(p), listed: false, state, deadly },
        }
    }
}

/// The tokens of a slice strictly below the node `top` that kill a state, with those that are too long to
/// keep it alive; `state` is where the way to `top` leads, and `contained` tells of it. `None` if more steps
/// would be needed than are left.
fn walk(
    machine: &mut Machine,
    vocab: &Vocabulary,
    slice: &Slice,
    (top, state): (TrieNode, u32),
    contained: &SliceFit,
    left: &mut usize,
) -> Option<Vec<TokenId>> {
    let (kind, trie, below) = (slice.kind, vocab.trie(), vocab.byte_sets());
    let mut dead = Vec::new();
    let near: &StateFits = contained.near();
    let (listed, sets) = (trie.listed(), vocab.listed_sets());
    let mut current = Level::of(trie, near, top, state);
    let mut levels = Vec::new();
    loop {
        *left = left.checked_sub(1)?;
        let ways = current.deadly;
        let spared = |set: ByteGroups| ways.is_some_and(|ways| !may_reject(ways, set));
        let (p, set) = if current.next < current.end {
            let i = current.next;
            current.next += 1;
            match current.listed {
                true => (listed[i as usize], sets[i as usize]),
                false => {
                    current.next = trie.end(i);
                    (i, below[i as usize] | byte_set(trie.byte(i)))
                }
            }
        } else {
            match levels.pop() {
                Some(above) => current = above,
                None => break,
            }
            continue;
        };
        if spared(set) {
            continue;
        }
        let byte = trie.byte(p);
        let inside = if byte < 0x80 { kind.has_ascii(byte) } else { kind.has_unicode() };
        if !inside {
            continue;
        }
        let to = machine.step_state(current.state, byte);
        if to == 0 {
            dead.extend_from_slice(trie.tokens_below(p));
            continue;
        }
        let alive = near.of(to);
        if trie.height(p) as u64 <= u64::from(alive.safe) {
            continue;
        }
        if alive.most == 0 {
            dead.extend_from_slice(&trie.tokens_below(p)[trie.tokens_at(p).len()..]);
            continue;
        }
        let below = Level::of(trie, near, p, to);
        // Of a level that is through nothing is left to come back to: most nodes have one child.
        match current.next < current.end {
            true => levels.push(std::mem::replace(&mut current, below)),
            false => current = below,
        }
    }
    // Below a node there are also tokens that leave the slice before they are too long for it.
    dead.retain(|&t| slice.mask[t as usize / 32] >> (t % 32) & 1 == 1);
    Some(dead)
}
