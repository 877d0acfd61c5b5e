//! For how long the strings over a vocabulary slice keep a state alive.
//!
//! Explores the deterministic states reached by strings over the slice's characters. If none is dead,
//! every token of the slice is legal. If some are, it is known for each state how many characters are
//! always safe, and after how many none is left: `[0-9A-F]{12}` or "at most 50 words" are such states, and
//! so is a search for a word that must not come twice. Of the tokens in between, a walk of the trie visits
//! only those places from which a dead state is near enough, and below which the bytes are that lead there. Sound for any automaton, and complete for the
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

use super::deadly::{Deadly, Incoming, Into, Way, may_kill, propagate};
use crate::machine::{Local, Machine, StackId, Thread};
use crate::vocab::{ByteSet, Slice, SliceKind, TokenId, Trie, TrieNode, Vocabulary, byte_group, byte_set};

/// Most states looked at per slice; what lies behind is taken for dead or alive, whichever is safe.
const MAX_STATES: usize = 1_200;
/// Of so many first bytes a state may die for a slice to be of use; where more kill, a walk ends soon anyway.
const FEW: u32 = 3;
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

/// How long strings are that keep each of some states alive, and what those hold that do not, by state; the
/// least is known of every state.
#[derive(Debug)]
struct Near {
    /// The states between characters.
    between: Vec<u32>,
    alive: Vec<Alive>,
    /// Empty where nothing can die.
    deadly: Vec<Deadly>,
}

impl Near {
    const UNKNOWN: Alive = Alive { safe: 0, most: u32::MAX };

    #[inline]
    fn of(&self, state: u32) -> Alive {
        self.alive.get(state as usize).copied().unwrap_or(Self::UNKNOWN)
    }

    /// What kills the state, if that is known.
    #[inline]
    fn deadly(&self, state: u32) -> Option<&Deadly> {
        self.deadly.get(state as usize)
    }

    /// Whether strings from a state need a look at few places only.
    fn is_useful(&self, state: u32) -> bool {
        let few = |deadly: &Deadly| deadly.at_once().count_ones() <= FEW;
        self.of(state).safe > 0 || self.deadly(state).is_some_and(few)
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
        let others = near.between.iter().copied().filter(|&other| near.is_useful(other));
        let others =
            others.filter(|&other| slice == 0 || near.of(other).safe > 0 && near.of(other).most < u32::MAX);
        let others = others.map(|state| (state, contained(near.of(state)))).collect();
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

/// Where some bytes lead.
#[derive(Clone, Copy)]
struct Edge {
    to: u32,
    /// Whether a character ends there.
    ends: bool,
    bytes: ByteSet,
}

/// The states that strings over a slice lead to.
struct Explored {
    /// Each with the state of the plain string automaton, which knows where a character of several bytes
    /// ends.
    nodes: Vec<(u32, u32)>,
    edges: Vec<SmallVec<[Edge; 4]>>,
    /// Per node, the bytes of the slice that kill.
    deadly: Vec<ByteSet>,
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
    /// Follows the strings over the slice's characters from `state`; `None` if many first bytes kill.
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
            // Where a narrower class loses some letters, there is a narrower one without them.
            if found.deadly[0].count_ones() > if slice.kind.has_unicode() { FEW } else { 0 } {
                return None;
            }
        }
        let whole = found.known == found.nodes.len();
        if leads_out && !(whole && found.deadly.iter().all(|&d| d == 0)) {
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
        let mut edges: SmallVec<[Edge; 4]> = SmallVec::new();
        let mut deadly = 0;
        let mut last = (0, 0, 0);
        let row = machine.row(state);
        for b in 0..=255u8 {
            let after = inside[b as usize];
            // Inside a character there are few ways on.
            if after == 0 && text != self.body && b < 0x80 {
                continue;
            }
            let next = row[b as usize];
            if after == 0 {
                self.need |= if next == 0 { 0 } else { byte_group(b) };
            } else if next == 0 {
                deadly |= byte_set(b);
                if b < 0x80 {
                    self.killers[b as usize] = true;
                }
            } else if (next, after) == (last.0, last.1) {
                // Bytes that stand together mostly lead to the same place.
                edges[last.2].bytes |= byte_set(b);
            } else {
                let to = *index.entry((next, after - 1)).or_insert_with(|| {
                    self.nodes.push((next, after - 1));
                    self.nodes.len() as u32 - 1
                });
                let ends = after - 1 == self.body;
                let at = edges.iter().position(|e| (e.to, e.ends) == (to, ends)).unwrap_or(edges.len());
                if at == edges.len() {
                    edges.push(Edge { to, ends, bytes: 0 });
                }
                edges[at].bytes |= byte_set(b);
                last = (next, after, at);
            }
        }
        self.edges.push(edges);
        self.deadly.push(deadly);
        self.known += 1;
    }

    /// The answers for the states of all nodes. One that is met both between characters and inside one, or
    /// inside different ones, gets the worst.
    fn near(&self) -> Arc<Near> {
        let nodes = || self.nodes[..self.known].iter().map(|node| node.0);
        let between = self.nodes[..self.known].iter().filter(|node| node.1 == self.body);
        let states = nodes().max().map_or(0, |most| most as usize + 1);
        let mut near = Near {
            between: between.map(|node| node.0).collect(),
            alive: vec![Near::UNKNOWN; states],
            deadly: Vec::new(),
        };
        if self.known == self.nodes.len() && self.deadly.iter().all(|&d| d == 0) {
            nodes().for_each(|state| near.alive[state as usize] = Alive::FOR_EVER);
            return Arc::new(near);
        }
        let into = self.into();
        let (safe, most, deadly) = (self.safe(&into), self.most(&into), propagate(self.kills(), &into));
        let mut met = vec![false; states];
        near.deadly.resize(states, Deadly::unknown());
        for (n, deadly) in deadly.into_iter().enumerate() {
            let state = self.nodes[n].0 as usize;
            if state >= states {
                continue; // not looked at
            }
            if std::mem::replace(&mut met[state], true) {
                let alive = &mut near.alive[state];
                *alive = Alive { safe: alive.safe.min(safe[n]), most: alive.most.max(most[n]) };
                near.deadly[state].join(&deadly);
            } else {
                near.alive[state] = Alive { safe: safe[n], most: most[n] };
                near.deadly[state] = deadly;
            }
        }
        Arc::new(near)
    }

    /// For each node, the edges into it.
    fn into(&self) -> Incoming {
        let edges = (0..).zip(&self.edges).flat_map(|(from, edges)| {
            edges.iter().map(move |&Edge { to, ends, bytes }| {
                let byte = if bytes.is_power_of_two() { bytes } else { 0 };
                (to, Into { from, byte, ends })
            })
        });
        Incoming::new(self.nodes.len(), edges)
    }

    /// For each node, what kills it at once.
    fn kills(&self) -> Vec<Deadly> {
        let known = self.deadly.iter().map(|&set| if set == 0 { Deadly::default() } else { Deadly::of(set) });
        let unknown = std::iter::repeat_with(Deadly::unknown).take(self.nodes.len() - self.known);
        known.chain(unknown).collect()
    }

    /// For each node, how many whole characters can follow before one may kill: a shortest path to a
    /// deadly node, on which the edges that end a character have length 1.
    fn safe(&self, into: &Incoming) -> Vec<u32> {
        let mut safe = vec![u32::MAX; self.nodes.len()];
        let mut todo = VecDeque::new();
        for n in (0..self.nodes.len()).filter(|&n| n >= self.known || self.deadly[n] != 0) {
            safe[n] = 0;
            todo.push_back((n, 0));
        }
        while let Some((n, length)) = todo.pop_front() {
            if safe[n] < length {
                continue;
            }
            for &Into { from, ends, .. } in into.of(n) {
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
    fn most(&self, into: &Incoming) -> Vec<u32> {
        let mut left: Vec<usize> = self.edges.iter().map(SmallVec::len).collect();
        let mut longest = vec![0; self.nodes.len()];
        let mut settled = vec![false; self.nodes.len()];
        let mut todo: Vec<usize> = (0..self.known).filter(|&n| left[n] == 0).collect();
        while let Some(n) = todo.pop() {
            settled[n] = true;
            for &Into { from, ends, .. } in into.of(n) {
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

/// The children of a node of the trie that are still to be looked at.
#[derive(Clone, Copy)]
struct Level<'a> {
    /// The next child, and one past the last: in the list of children, or as nodes.
    next: u32,
    end: u32,
    listed: bool,
    /// Where the way to the node leads, and what kills there, if that is known.
    state: u32,
    deadly: Option<&'a [Way]>,
}

impl<'a> Level<'a> {
    #[inline]
    fn of(trie: &Trie, near: &'a Near, p: TrieNode, state: u32) -> Self {
        let deadly = near.deadly(state).map(Deadly::ways);
        match trie.fan(p).map(|fan| trie.listed_in(fan)) {
            Some(list) => {
                Level { next: list.start as u32, end: list.end as u32, listed: true, state, deadly }
            }
            None => Level { next: p + 1, end: trie.end(p), listed: false, state, deadly },
        }
    }
}

/// The tokens of a slice strictly below the node `top` that kill a state, with those that are too long to
/// keep it alive; `state` is where the way to `top` leads, and `contained` tells of it.
pub(super) fn dead_tokens(
    machine: &mut Machine,
    vocab: &Vocabulary,
    slice: &Slice,
    (top, state): (TrieNode, u32),
    contained: &Contained,
) -> Vec<TokenId> {
    let (kind, trie, below) = (slice.kind, vocab.trie(), vocab.byte_sets());
    let mut dead = Vec::new();
    let near = &contained.near;
    let (listed, sets) = (trie.listed(), vocab.listed_sets());
    let mut current = Level::of(trie, near, top, state);
    let mut levels = Vec::new();
    loop {
        let ways = current.deadly;
        let spared = |set: ByteSet| ways.is_some_and(|ways| !may_kill(ways, set));
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
    dead
}
