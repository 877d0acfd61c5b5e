//! For how long the strings over a vocabulary slice keep a state alive.
//!
//! Explores the deterministic states reached by strings over the slice's characters. If none is dead,
//! every token of the slice is legal. If some are, it is known for each state how many characters are
//! always safe, and after how many none is left: `[0-9A-F]{12}` or "at most 50 words" are such states, and
//! so is a search for a word that must not come twice. Of the tokens in between, a walk of the trie visits
//! only those places from which a dead state is near enough. Sound for any automaton, and complete for the
//! class loop, unlike a syntactic test on the regular expression. The same search tells which bytes
//! outside the slice can come first, so that the walk of the other tokens can skip subtrees without any
//! of them. Cost: at most [`MAX_STATES`] states times the bytes of the slice, once for all of them.
//! Rejected: a walk of the whole trie for every state that is not contained for ever, which makes
//! counted repetitions the slowest states there are.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::machine::{Local, Machine, StackId, Thread};
use crate::vocab::{Slice, SliceKind, TokenId, Trie, TrieNode, Vocabulary, byte_group};

/// Most states looked at per slice; what lies behind is taken for dead or alive, whichever is safe.
const MAX_STATES: usize = 1_200;
/// So many safe characters are worth more than a narrower slice that is contained for ever.
const MANY: u32 = 6;

/// How long strings over a slice are that keep a state alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alive {
    /// All of so many characters and fewer do.
    pub safe: u32,
    /// None with more characters does.
    pub most: u32,
}

impl Alive {
    /// All strings, however long.
    const FOR_EVER: Alive = Alive { safe: u32::MAX, most: u32::MAX };

    /// Whether the length alone decides.
    pub fn is_exact(self) -> bool {
        self.safe == self.most
    }
}

/// A slice of which a state takes many strings.
#[derive(Debug, Clone)]
pub(super) struct Contained {
    /// Index of the slice.
    pub slice: usize,
    /// Byte groups of which a legal token outside the slice has at least one.
    pub need: u16,
    /// How long the strings are.
    pub alive: Alive,
    /// The same for the states that they lead to.
    near: Arc<Near>,
}

/// How long strings are that keep each of some states alive, by state; the least is known of every state.
#[derive(Debug)]
struct Near(Vec<Alive>);

impl Near {
    const UNKNOWN: Alive = Alive { safe: 0, most: u32::MAX };

    #[inline]
    fn of(&self, state: u32) -> Alive {
        self.0.get(state as usize).copied().unwrap_or(Self::UNKNOWN)
    }

    /// The states of which more is known.
    fn known(&self) -> impl Iterator<Item = (u32, Alive)> + '_ {
        (0..).zip(self.0.iter().copied()).filter(|known| known.1 != Self::UNKNOWN)
    }
}

/// The widest slice of whose strings `state` takes many within its rule, among those with or without a
/// leading blank; and other states for which the slice is as good, with their answers.
pub(super) fn widest_slice(
    machine: &mut Machine,
    vocab: &Vocabulary,
    Thread { local: Local { state, .. }, stack }: Thread,
    spaced: bool,
) -> Option<(Contained, Vec<(u32, Contained)>)> {
    // Every slice has these letters; most states of a grammar take none of them.
    if [b'a', b'e', b'z'].into_iter().any(|b| vocab.has_byte(b) && machine.step_state(state, b) == 0) {
        return None;
    }
    let slices = vocab.slices().iter().enumerate().filter(|(_, s)| s.spaced == spaced);
    let mut second: Option<(Contained, Vec<(u32, Contained)>)> = None;
    let mut killers = [false; 128];
    for (slice, data) in slices {
        if second.is_some() && (0..0x80).any(|b| killers[b as usize] && data.kind.has_ascii(b)) {
            // What kills in a wider slice is in this one, too.
            continue;
        }
        let Some(found) = Explored::from(machine, vocab, data, (state, stack)) else { continue };
        let (need, near) = (found.need, found.near());
        let alive = near.of(state);
        let contained = |alive| Contained { slice, need, alive, near: near.clone() };
        // Wider slices were tried for this state only; they keep no state alive for longer.
        let alike = |other: &Alive| slice == 0 || other.most < u32::MAX;
        let others = near.known().filter(|(_, other)| other.safe > 0 && alike(other));
        let others = others.map(|(state, other)| (state, contained(other))).collect();
        if alive.safe >= MANY {
            return Some((contained(alive), others));
        }
        if second.is_none() {
            second = Some((contained(alive), others));
            killers = found.killers;
        }
    }
    second
}

/// The states that strings over a slice lead to.
struct Explored {
    /// Each with the state of the plain string automaton, which knows where a character of several bytes
    /// ends.
    nodes: Vec<(u32, u32)>,
    /// Per node, where its bytes lead, and whether a character ends there.
    edges: Vec<SmallVec<[(u32, bool); 4]>>,
    /// Nodes that a byte of the slice may kill.
    deadly: Vec<bool>,
    /// How many nodes were looked at; the others count as deadly and as alive for ever.
    known: usize,
    need: u16,
    /// ASCII bytes of the slice that kill somewhere.
    killers: [bool; 128],
    /// The text automaton between characters.
    body: u32,
    /// By state of the text automaton, which bytes belong to the slice there, and where they lead in it.
    inside: FxHashMap<u32, Rc<[u32; 256]>>,
}

impl Explored {
    /// Follows the strings over the slice's characters from `state`; `None` if the first character may kill.
    fn from(
        machine: &mut Machine,
        vocab: &Vocabulary,
        slice: &Slice,
        (state, stack): (u32, StackId),
    ) -> Option<Explored> {
        let ascii: Vec<u8> = (0..0x80).filter(|&b| slice.kind.has_ascii(b) && vocab.has_byte(b)).collect();
        let unspaced = slice.kind == SliceKind::JsonUnspaced;
        let body = if unspaced { machine.unspaced_body() } else { machine.string_body() };
        if ascii.is_empty() || body == 0 && slice.kind.has_unicode() {
            // A vocabulary that cannot spell strings has no such automaton.
            return None;
        }
        // A token that ends inside a character is outside the slice, too.
        let need = if slice.kind.has_unicode() { byte_group(0x80) } else { 0 };
        let mut found = Explored {
            nodes: vec![(state, body)],
            edges: vec![],
            deadly: vec![],
            known: 0,
            need,
            killers: [false; 128],
            body,
            inside: FxHashMap::default(),
        };
        let mut index = FxHashMap::from_iter([((state, body), 0u32)]);
        let mut leads_out = false;
        while found.known < found.nodes.len().min(MAX_STATES) {
            leads_out |= machine.leads_out(found.nodes[found.known].0, stack);
            found.expand(machine, vocab, slice.kind, &mut index);
            if found.deadly[0] {
                return None;
            }
        }
        let whole = found.known == found.nodes.len();
        if leads_out && !(whole && found.deadly.iter().all(|d| !d)) {
            // What dies inside the rule may live on behind it.
            return None;
        }
        if leads_out || !whole {
            // What follows there may hold any byte.
            found.need = u16::MAX;
        }
        Some(found)
    }

    /// The bytes of the slice in a state of the text automaton with where they lead in it, one more each; 0
    /// for the others.
    fn inside(
        &mut self,
        machine: &mut Machine,
        vocab: &Vocabulary,
        kind: SliceKind,
        text: u32,
    ) -> Rc<[u32; 256]> {
        let body = self.body;
        let table = self.inside.entry(text).or_insert_with(|| {
            Rc::new(std::array::from_fn(|b| match b as u8 {
                b @ 0x80.. if kind.has_unicode() => match machine.step_state(text, b) {
                    0 => 0,
                    after => after + 1,
                },
                b @ ..0x80 if text == body && kind.has_ascii(b) && vocab.has_byte(b) => body + 1,
                _ => 0,
            }))
        });
        table.clone()
    }

    /// Finds where the bytes lead from the next node.
    fn expand(
        &mut self,
        machine: &mut Machine,
        vocab: &Vocabulary,
        kind: SliceKind,
        index: &mut FxHashMap<(u32, u32), u32>,
    ) {
        let (state, text) = self.nodes[self.known];
        let inside = self.inside(machine, vocab, kind, text);
        let mut edges: SmallVec<[(u32, bool); 4]> = SmallVec::new();
        let mut deadly = false;
        let mut last = (0, 0);
        for b in 0..=255u8 {
            let after = inside[b as usize];
            // Inside a character there are few ways on.
            if after == 0 && text != self.body && b < 0x80 {
                continue;
            }
            let next = machine.step_state(state, b);
            if after == 0 {
                self.need |= if next == 0 { 0 } else { byte_group(b) };
            } else if next == 0 {
                deadly = true;
                if b < 0x80 {
                    self.killers[b as usize] = true;
                }
            } else if (next, after) != last {
                // Bytes that stand together mostly lead to the same place.
                last = (next, after);
                let to = *index.entry((next, after - 1)).or_insert_with(|| {
                    self.nodes.push((next, after - 1));
                    self.nodes.len() as u32 - 1
                });
                let edge = (to, after - 1 == self.body);
                if !edges.contains(&edge) {
                    edges.push(edge);
                }
            }
        }
        self.edges.push(edges);
        self.deadly.push(deadly);
        self.known += 1;
    }

    /// The answers for all nodes between characters.
    fn near(&self) -> Arc<Near> {
        let between = || (0..self.known).filter(|&n| self.nodes[n].1 == self.body);
        let most = between().map(|n| self.nodes[n].0 as usize + 1).max().unwrap_or(0);
        let mut near = Near(vec![Near::UNKNOWN; most]);
        if self.known == self.nodes.len() && self.deadly.iter().all(|d| !d) {
            between().for_each(|n| near.0[self.nodes[n].0 as usize] = Alive::FOR_EVER);
        } else {
            let (safe, most) = (self.safe(), self.most());
            between().for_each(|n| {
                near.0[self.nodes[n].0 as usize] = Alive { safe: safe[n], most: most[n] };
            });
        }
        Arc::new(near)
    }

    /// For each node, how many whole characters can follow before one may kill: a shortest path to a
    /// deadly node, on which the edges that end a character have length 1.
    fn safe(&self) -> Vec<u32> {
        let mut into: Vec<Vec<(u32, bool)>> = vec![Vec::new(); self.nodes.len()];
        for (from, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|&(to, ends)| into[to as usize].push((from as u32, ends)));
        }
        let mut safe = vec![u32::MAX; self.nodes.len()];
        let mut todo = VecDeque::new();
        for n in (0..self.nodes.len()).filter(|&n| n >= self.known || self.deadly[n]) {
            safe[n] = 0;
            todo.push_back((n, 0));
        }
        while let Some((n, length)) = todo.pop_front() {
            if safe[n] < length {
                continue;
            }
            for &(from, ends) in &into[n] {
                let (from, longer) = (from as usize, length + u32::from(ends));
                if longer < safe[from] {
                    safe[from] = longer;
                    if ends { todo.push_back((from, longer)) } else { todo.push_front((from, longer)) }
                }
            }
        }
        safe
    }

    /// For each node, how many characters can follow at most: a longest path, [`u32::MAX`] where there is a
    /// cycle, or a node that was not looked at.
    fn most(&self) -> Vec<u32> {
        let mut into: Vec<Vec<(u32, bool)>> = vec![Vec::new(); self.nodes.len()];
        let mut left: Vec<usize> = self.edges.iter().map(SmallVec::len).collect();
        for (from, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|&(to, ends)| into[to as usize].push((from as u32, ends)));
        }
        let mut longest = vec![0; self.nodes.len()];
        let mut settled = vec![false; self.nodes.len()];
        let mut todo: Vec<usize> = (0..self.known).filter(|&n| left[n] == 0).collect();
        while let Some(n) = todo.pop() {
            settled[n] = true;
            for &(from, ends) in &into[n] {
                let from = from as usize;
                longest[from] = longest[from].max(longest[n] + u32::from(ends));
                left[from] -= 1;
                if left[from] == 0 {
                    todo.push(from);
                }
            }
        }
        longest.iter().zip(settled).map(|(&n, settled)| if settled { n } else { u32::MAX }).collect()
    }
}

/// The tokens of a slice strictly below the node `top` that kill a state, with those that are too long to
/// keep it alive; `state` is where the way to `top` leads, and `contained` tells of it.
pub(super) fn dead_tokens(
    machine: &mut Machine,
    trie: &Trie,
    slice: &Slice,
    (top, state): (TrieNode, u32),
    contained: &Contained,
) -> Vec<TokenId> {
    let kind = slice.kind;
    let mut dead = Vec::new();
    let mut levels = vec![(trie.end(top), state)];
    let mut p = top + 1;
    while let Some(&(end, state)) = levels.last() {
        if p >= end {
            levels.pop();
            continue;
        }
        let byte = trie.byte(p);
        let inside = if byte < 0x80 { kind.has_ascii(byte) } else { kind.has_unicode() };
        if !inside {
            p = trie.end(p);
            continue;
        }
        let to = machine.step_state(state, byte);
        if to == 0 {
            dead.extend_from_slice(trie.tokens_below(p));
            p = trie.end(p);
            continue;
        }
        // Only between characters is it known how far the next dead state is.
        let alive = if byte < 0x80 { contained.near.of(to) } else { Near::UNKNOWN };
        if trie.height(p) as u64 <= u64::from(alive.safe) {
            p = trie.end(p);
            continue;
        }
        if alive.most == 0 {
            dead.extend_from_slice(&trie.tokens_below(p)[trie.tokens_at(p).len()..]);
            p = trie.end(p);
            continue;
        }
        levels.push((trie.end(p), to));
        p += 1;
    }
    // Below a node there are also tokens that leave the slice before they are too long for it.
    dead.retain(|&t| slice.mask[t as usize / 32] >> (t % 32) & 1 == 1);
    dead
}
