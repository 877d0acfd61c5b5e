//! Search of the states that strings over a slice of the vocabulary lead to.
//!
//! The search begins at one state and follows shorter strings first. A node is a pair of a state
//! and a position inside a character. Characters of several bytes need many more states than ASCII,
//! so they are followed near the first state only. Further away, each of their bytes counts as
//! rejected or as accepted, whichever is safe. So does everything that was not visited.
//!
//! From the nodes that reject, and from those that were not visited, the answers ([`StateFits`])
//! are computed backwards. They are shortest and longest paths, and the bytes that a rejected
//! string must have.
//!
//! # Cost
//!
//! About the same small time for each visited state, most of it to make the state, and a few steps
//! for each edge.
//!
//! # Alternatives considered
//!
//! The same number of states for all characters: under `(\S+\s+){0,49}` the search then sees half
//! as many words ahead and takes nearly twice as long.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::rejection_bytes::{InEdge, RejectConditions, propagate};
use super::state_fits::{CharBoundary, SafeLengths, StateFits, are_tolerable};
use crate::byte_set::ByteSet;
use crate::incoming::Incoming;
use crate::machine::{Automaton, StackId};
use crate::vocab::{ByteGroups, ClassSet, SliceKind, Vocabulary, byte_group, byte_set, each_class};

/// Maximum number of states visited for a slice. What follows them counts as rejected or accepted,
/// whichever is safe.
const MAX_STATES: usize = 600;
/// Beyond this number of states, characters of several bytes are not followed. They take many more
/// states than ASCII, and tokens that have some rarely have much text in front of them.
const FULL_UTF8_STATES: usize = if cfg!(test) { 40 } else { 300 };
/// Maximum number of states between characters that are visited beyond those.
const ASCII_ONLY_STATES: usize = if cfg!(test) { 6 } else { 32 };
/// A narrow slice is given up if most of the first states, of this number, reject some byte.
const EARLY_EXIT_SAMPLE: usize = 32;

/// The target of some bytes.
#[derive(Clone, Copy)]
struct Edge {
    to: u32,
    /// True if a character ends there.
    ends: bool,
    bytes: ByteGroups,
}

/// Adjacent bytes, and the position inside a character after them. `after` is a state of the text
/// automaton, or `None` if the bytes are not in the slice there.
#[derive(Clone, Copy)]
struct Run {
    lo: u8,
    hi: u8,
    after: Option<u32>,
    bytes: ByteGroups,
}

/// The runs of bytes by slice and state of the text automaton. All searches of a grammar share
/// them.
#[derive(Clone, Default)]
pub(super) struct ByteRuns(FxHashMap<(usize, u32), Arc<[Run]>>);

impl ByteRuns {
    /// Returns all bytes between characters, or the continuation bytes inside one.
    fn runs(
        &mut self,
        automaton: &mut Automaton,
        vocab: &Vocabulary,
        (slice, text, body): (usize, u32, u32),
    ) -> Arc<[Run]> {
        let kind = vocab.slices()[slice].kind;
        let made = || {
            let mut runs: Vec<Run> = Vec::new();
            // Inside a character of several bytes, other bytes do not matter.
            for b in if text == body { 0..=0xff } else { 0x80..=0xbf } {
                let after = match b {
                    0x80.. if kind.has_unicode() => Some(automaton.step(text, b)).filter(|&to| to != 0),
                    ..0x80 if kind.has_ascii(b) && vocab.has_byte(b) => Some(body),
                    _ => None,
                };
                match runs.last_mut().filter(|run| run.after == after) {
                    Some(run) => (run.hi, run.bytes) = (b, run.bytes | byte_set(b)),
                    None => runs.push(Run { lo: b, hi: b, after, bytes: byte_set(b) }),
                }
            }
            runs.into()
        };
        self.0.entry((slice, text)).or_insert_with(made).clone()
    }
}

/// The states that strings over a slice lead to.
#[derive(Default)]
pub(super) struct SliceSearch {
    /// Each node is a state and a state of the plain string automaton, which knows where a
    /// character of several bytes ends.
    nodes: Vec<(u32, u32)>,
    edges: Vec<SmallVec<[Edge; 4]>>,
    /// By node: the bytes of the slice that it rejects.
    rejected: Vec<ByteGroups>,
    /// Number of visited nodes. The others count as rejecting and as accepting strings of any
    /// length.
    known: usize,
    /// Number of those from which only ASCII was followed, and which they are.
    far: usize,
    is_far: Vec<bool>,
    /// Byte groups of which a legal token outside of the slice has at least one, if its ASCII bytes
    /// lead only to visited states.
    pub need: u16,
    /// ASCII bytes of the slice that some node rejects.
    pub rejected_ascii: ByteSet,
    /// The bytes that the first node rejects. `uniform` is true if every node between characters
    /// rejects exactly these, and no other node rejects any.
    first: ByteSet,
    uniform: bool,
    /// True if the rule may end at some node and some strings are rejected: what follows the rule
    /// may accept them.
    pub ends: bool,
    /// The state of the text automaton between characters.
    body: u32,
}

impl SliceSearch {
    /// Follows the strings over the characters of the slice from `state`. Returns `None` if many
    /// first bytes are rejected, or if the slice decides too little.
    pub(super) fn from(
        automaton: &mut Automaton,
        vocab: &Vocabulary,
        slice: usize,
        spelled: &mut ByteRuns,
        (state, stack): (u32, StackId),
    ) -> Option<SliceSearch> {
        let kind = vocab.slices()[slice].kind;
        let ascii: Vec<u8> = (0..0x80).filter(|&b| kind.has_ascii(b) && vocab.has_byte(b)).collect();
        let unspaced = kind == SliceKind::JsonUnspaced;
        let body = if unspaced { automaton.unspaced_interior() } else { automaton.string_interior() };
        if ascii.is_empty() || body == 0 && kind.has_unicode() {
            // A vocabulary that cannot write strings has no such automaton.
            return None;
        }
        // A token that ends inside a character is outside of the slice, too.
        let need = if kind.has_unicode() { byte_group(0x80) } else { 0 };
        let mut found =
            SliceSearch { nodes: vec![(state, body)], need, uniform: true, body, ..SliceSearch::default() };
        let (leads_out, calls) = found.visit(automaton, vocab, slice, spelled, stack)?;
        let (whole, rejects) = (found.is_whole(), found.rejected.iter().any(|&set| set != 0));
        if found.uniform(vocab) == 0 && !are_tolerable(vocab, found.rejected[0])
            // A string that is rejected inside the rule may continue after it, or in another rule.
            || leads_out && !whole
            || calls && rejects
            // The same holds for a string that is rejected where no state was visited.
            || !whole && !automaton.calls_nothing() && !automaton.is_purely_in_string(state)
        {
            return None;
        }
        found.ends = leads_out && rejects;
        if leads_out {
            // What follows there may hold any byte.
            found.need = u16::MAX;
        }
        Some(found)
    }

    /// Visits the states, those after shorter strings first. Returns whether the rule may end at
    /// one, and whether one calls another rule. Returns `None` if the slice decides too little.
    fn visit(
        &mut self,
        automaton: &mut Automaton,
        vocab: &Vocabulary,
        slice: usize,
        spelled: &mut ByteRuns,
        stack: StackId,
    ) -> Option<(bool, bool)> {
        let kind = vocab.slices()[slice].kind;
        let mut index = FxHashMap::from_iter([(self.nodes[0], 0u32)]);
        let (mut leads_out, mut calls) = (false, false);
        while self.known < self.nodes.len().min(MAX_STATES) {
            if self.far == ASCII_ONLY_STATES && self.is_far_now(kind) {
                break;
            }
            leads_out |= automaton.may_leave_rule(self.nodes[self.known].0, stack);
            calls |= automaton.has_calls(self.nodes[self.known].0);
            self.expand(automaton, vocab, slice, spelled, &mut index);
            // Where a narrow class is rejected in part, there is a narrower one without the
            // rejected letters.
            let bearable = match kind.has_unicode() {
                true => self.uniform || are_tolerable(vocab, self.rejected[0]),
                false => self.rejected[0] == 0,
            };
            // Enumerations and the like reject most strings, and the lengths that they accept do
            // not help.
            let mostly_rejects =
                || self.rejected[1..].iter().filter(|&&set| set != 0).count() * 2 > self.known;
            if !bearable || self.known == EARLY_EXIT_SAMPLE && !kind.has_unicode() && mostly_rejects() {
                return None;
            }
        }
        Some((leads_out, calls))
    }

    /// Returns true if all states were visited in full.
    fn is_whole(&self) -> bool {
        self.known == self.nodes.len() && self.far == 0
    }

    /// Returns true if only ASCII is to be followed from the next node.
    fn is_far_now(&self, kind: SliceKind) -> bool {
        self.known >= FULL_UTF8_STATES && kind.has_unicode() && self.nodes[self.known].1 == self.body
    }

    /// Finds the targets of the bytes from the next node.
    fn expand(
        &mut self,
        automaton: &mut Automaton,
        vocab: &Vocabulary,
        slice: usize,
        spelled: &mut ByteRuns,
        index: &mut FxHashMap<(u32, u32), u32>,
    ) {
        let (state, text) = self.nodes[self.known];
        let runs = spelled.runs(automaton, vocab, (slice, text, self.body));
        let is_far = self.is_far_now(vocab.slices()[slice].kind);
        let mut edges: SmallVec<[Edge; 4]> = SmallVec::new();
        let mut rejecting = 0;
        let mut refused = ByteSet::default();
        let row = automaton.transitions(state);
        for run in runs.iter().take_while(|run| !(is_far && run.lo >= 0x80)) {
            let mut lo = run.lo as usize;
            while lo <= run.hi as usize {
                let next = row[lo];
                let same = row[lo..=run.hi as usize].iter().take_while(|&&to| to == next).count();
                let (from, to) = (lo as u8, (lo + same - 1) as u8);
                lo += same;
                let bytes = match (from, to) == (run.lo, run.hi) {
                    true => run.bytes,
                    false => (from..=to).fold(0, |set, b| set | byte_set(b)),
                };
                match (run.after, next) {
                    (None, 0) => {}
                    (None, _) => self.need |= (from..=to).fold(0, |need, b| need | byte_group(b)),
                    (Some(_), 0) => {
                        rejecting |= bytes;
                        refused.insert(from, to);
                        self.rejected_ascii.insert(from, to.min(0x7f));
                    }
                    (Some(after), _) => self.add_edge(&mut edges, index, (next, after), bytes),
                }
            }
        }
        if is_far {
            // Whichever is safe: each of these bytes may be rejected, and none must be.
            rejecting |= (0x80..=0xff).fold(0, |set, b| set | byte_set(b));
        }
        if self.known == 0 {
            self.first = refused;
            self.uniform = (0x80..=0xff).all(|b| !refused.has(b));
        }
        let expected = if text == self.body { self.first } else { ByteSet::default() };
        self.uniform &= refused == expected;
        self.edges.push(edges);
        self.rejected.push(rejecting);
        self.is_far.push(is_far);
        self.far += usize::from(is_far);
        self.known += 1;
    }

    /// Adds bytes to the edge to a node, which may be new.
    fn add_edge(
        &mut self,
        edges: &mut SmallVec<[Edge; 4]>,
        index: &mut FxHashMap<(u32, u32), u32>,
        node: (u32, u32),
        bytes: ByteGroups,
    ) {
        let to = *index.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        });
        match edges.iter_mut().find(|edge| edge.to == to) {
            Some(edge) => edge.bytes |= bytes,
            None => edges.push(Edge { to, ends: node.1 == self.body, bytes }),
        }
    }

    /// Returns the classes of the rejected bytes, if the same bytes are rejected wherever a
    /// character begins and nothing else is rejected. Otherwise returns the empty set.
    pub(super) fn uniform(&self, vocab: &Vocabulary) -> ClassSet {
        let (mut others, whole) = (self.first, self.is_whole());
        let classes = vocab.classes().wholly(|b| self.first.has(b));
        for class in each_class(classes) {
            vocab.classes().members(class).iter().for_each(|&b| others.remove(b));
        }
        if self.uniform && whole && others == ByteSet::default() { classes } else { 0 }
    }

    /// Returns the answers for the states of all nodes. `without` are classes of bytes that alone
    /// are rejected. A state that occurs in several nodes gets the weakest answer.
    pub(super) fn state_fits(&self, without: ClassSet) -> Arc<StateFits> {
        let numbers = self.nodes[..self.known].iter().map(|node| node.0);
        let first = numbers.clone().min().unwrap_or_default();
        let states = numbers.max().map_or(0, |last| (last - first) as usize + 1);
        let between = (0..self.known).filter(|&n| self.nodes[n].1 == self.body);
        let alive = vec![StateFits::UNKNOWN; states];
        let mut near =
            StateFits { between: Vec::new(), first, lengths: alive, ways: Vec::new(), starts: Vec::new() };
        if without != 0 || self.is_whole() && self.rejected.iter().all(|&d| d == 0) {
            let all = |n: usize| CharBoundary { state: self.nodes[n].0, clear: u32::MAX, reach: u32::MAX };
            near.between = between.map(all).collect();
            self.nodes
                .iter()
                .for_each(|node| near.lengths[(node.0 - first) as usize] = SafeLengths::UNBOUNDED);
            return Arc::new(near);
        }
        let into = self.incoming_edges();
        let safe = self.distances(&into, |n| n >= self.known || self.rejected[n] != 0);
        let clear = self.distances(&into, |n| n >= self.known || self.is_far[n]);
        // `need` covers characters of several bytes.
        let reach = self.distances(&into, |n| n >= self.known && self.nodes[n].1 == self.body);
        let between =
            between.map(|n| CharBoundary { state: self.nodes[n].0, clear: clear[n], reach: reach[n] });
        near.between = between.collect();
        let (most, mut conditions) =
            (self.longest_paths(&into), propagate(self.immediate_rejections(), &into));
        // The first node of each state.
        let mut of: Vec<Option<usize>> = vec![None; states];
        for (n, node) in self.nodes.iter().enumerate() {
            let state = node.0.wrapping_sub(first) as usize;
            match of.get_mut(state) {
                None => {} // not visited
                Some(None) => {
                    of[state] = Some(n);
                    near.lengths[state] = SafeLengths { safe: safe[n], most: most[n] };
                }
                Some(&mut Some(other)) => {
                    let alive = &mut near.lengths[state];
                    *alive = SafeLengths { safe: alive.safe.min(safe[n]), most: alive.most.max(most[n]) };
                    let ways = std::mem::take(&mut conditions[n]);
                    conditions[other].join(&ways);
                }
            }
        }
        let unknown = RejectConditions::unknown();
        near.starts.push(0);
        for node in of {
            near.ways.extend_from_slice(node.map_or(&unknown, |n| &conditions[n]).as_slice());
            near.starts.push(near.ways.len() as u32);
        }
        Arc::new(near)
    }

    /// Returns the edges into each node.
    fn incoming_edges(&self) -> Incoming<InEdge> {
        Incoming::new(self.nodes.len(), |add| {
            for (from, edges) in (0..).zip(&self.edges) {
                for &Edge { to, ends, bytes } in edges {
                    let byte = if bytes.is_power_of_two() { bytes } else { 0 };
                    add(to as usize, InEdge { from, byte, ends });
                }
            }
        })
    }

    /// Returns the conditions of rejection by the next byte, for each node.
    fn immediate_rejections(&self) -> Vec<RejectConditions> {
        let known = self
            .rejected
            .iter()
            .map(|&set| if set == 0 { RejectConditions::default() } else { RejectConditions::of(set) });
        let unknown = std::iter::repeat_with(RejectConditions::unknown).take(self.nodes.len() - self.known);
        known.chain(unknown).collect()
    }

    /// Returns, for each node, the number of whole characters before the nearest of some nodes.
    fn distances(&self, into: &Incoming<InEdge>, ends: impl Fn(usize) -> bool) -> Vec<u32> {
        into.shortest((0..self.nodes.len()).filter(|&n| ends(n)), InEdge::source)
    }

    /// Returns, for each node, the maximum number of characters that can follow: [`u32::MAX`] where
    /// there is a cycle or a node that was not visited.
    fn longest_paths(&self, into: &Incoming<InEdge>) -> Vec<u32> {
        // A node that was followed in part has one more edge, which leads nowhere.
        let edges = self.edges.iter().zip(&self.is_far);
        let open = edges.map(|(edges, &is_far)| edges.len() as u32 + u32::from(is_far)).collect();
        into.longest(open, InEdge::source)
    }
}
