//! The states that strings over a vocabulary slice lead to, and what they tell.
//!
//! A search from one state, the shorter strings first, through pairs of a state and where the text stands in a character.
//! Characters of several bytes take ten times as many states as ASCII, so they are followed near the first state only;
//! further away each of their bytes is taken for dead or alive, whichever is safe, and so is what lies behind the last
//! state looked at. Backwards from what kills and from what is unknown go the answers (`StateFits`): shortest and longest paths, and
//! the bytes that a deadly string must have. Cost: about a microsecond per state, most of it for making it, and a few
//! steps per edge. Rejected: the same number of states whatever their characters, which reaches nine words of
//! `(\S+\s+){0,49}` instead of twenty and takes nearly twice as long.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::rejection_bytes::{InEdge, Incoming, RejectConditions, propagate};
use super::slice_fit::{CharBoundary, SafeLengths, StateFits, are_few};
use crate::byte_set::ByteSet;
use crate::machine::{Machine, StackId};
use crate::vocab::{ByteGroups, ClassSet, SliceKind, Vocabulary, byte_group, byte_set, each_class};

/// Most states looked at per slice; what lies behind is taken for dead or alive, whichever is safe.
const MAX_STATES: usize = 600;
/// Behind so many, characters of several bytes are not followed: they take ten times as many states as ASCII, and tokens
/// that have some rarely have much before them.
const FULL_UTF8_STATES: usize = if cfg!(test) { 40 } else { 300 };
/// Most states between characters looked at behind those.
const ASCII_ONLY_STATES: usize = if cfg!(test) { 6 } else { 32 };
/// A narrow slice is given up if most of so many states die of some byte.
const EARLY_EXIT_SAMPLE: usize = 32;

/// Where some bytes lead.
#[derive(Clone, Copy)]
struct Edge {
    to: u32,
    /// Whether a character ends there.
    ends: bool,
    bytes: ByteGroups,
}

/// Bytes that stand together, and where the text stands in its character behind them: a state of the text automaton, or
/// none if they are not of the slice there.
#[derive(Clone, Copy)]
struct Run {
    lo: u8,
    hi: u8,
    after: Option<u32>,
    bytes: ByteGroups,
}

/// The runs of bytes by slice and state of the text automaton; the same for all searches of a grammar.
#[derive(Clone, Default)]
pub(super) struct ByteRuns(FxHashMap<(usize, u32), Arc<[Run]>>);

impl ByteRuns {
    /// All bytes between characters, and those that go on inside one.
    fn runs(
        &mut self,
        machine: &mut Machine,
        vocab: &Vocabulary,
        (slice, text, body): (usize, u32, u32),
    ) -> Arc<[Run]> {
        let kind = vocab.slices()[slice].kind;
        let made = || {
            let mut runs: Vec<Run> = Vec::new();
            // Inside a character there is one of several bytes already, and no need to know of others.
            for b in if text == body { 0..=0xff } else { 0x80..=0xbf } {
                let after = match b {
                    0x80.. if kind.has_unicode() => Some(machine.step_state(text, b)).filter(|&to| to != 0),
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
pub(super) struct SliceSearch {
    /// Each with the state of the plain string automaton, which knows where a character of several bytes
    /// ends.
    nodes: Vec<(u32, u32)>,
    edges: Vec<SmallVec<[Edge; 4]>>,
    /// Per node, the bytes of the slice that kill.
    deadly: Vec<ByteGroups>,
    /// How many nodes were looked at; the others count as deadly and as alive for ever.
    known: usize,
    /// From how many of those only characters of one byte were followed, and which.
    far: usize,
    is_far: Vec<bool>,
    /// Byte groups of which a legal token outside the slice has at least one, if it leads to nothing unknown by ASCII.
    pub need: u16,
    /// ASCII bytes of the slice that kill somewhere.
    pub killers: [bool; 128],
    /// Those that kill the first state, and whether they kill wherever a character begins, and nothing else does.
    first: ByteSet,
    uniform: bool,
    /// Whether the rule may end at some of the nodes, and then some of the strings die: what follows the rule may keep them.
    pub ends: bool,
    /// The text automaton between characters.
    body: u32,
}

impl SliceSearch {
    /// Follows the strings over the slice's characters from `state`; `None` if many first bytes kill.
    pub fn from(
        machine: &mut Machine,
        vocab: &Vocabulary,
        slice: usize,
        spelled: &mut ByteRuns,
        (state, stack): (u32, StackId),
    ) -> Option<SliceSearch> {
        let kind = vocab.slices()[slice].kind;
        let ascii: Vec<u8> = (0..0x80).filter(|&b| kind.has_ascii(b) && vocab.has_byte(b)).collect();
        let unspaced = kind == SliceKind::JsonUnspaced;
        let body = if unspaced { machine.unspaced_body() } else { machine.string_interior() };
        if ascii.is_empty() || body == 0 && kind.has_unicode() {
            // A vocabulary that cannot spell strings has no such automaton.
            return None;
        }
        // A token that ends inside a character is outside the slice, too.
        let need = if kind.has_unicode() { byte_group(0x80) } else { 0 };
        let mut found = SliceSearch {
            nodes: vec![(state, body)],
            edges: vec![],
            deadly: vec![],
            known: 0,
            far: 0,
            is_far: vec![],
            need,
            killers: [false; 128],
            first: ByteSet::default(),
            uniform: true,
            ends: false,
            body,
        };
        let mut index = FxHashMap::from_iter([((state, body), 0u32)]);
        let (mut leads_out, mut calls) = (false, false);
        while found.known < found.nodes.len().min(MAX_STATES) {
            if found.far == ASCII_ONLY_STATES && found.is_far_now(kind) {
                break;
            }
            leads_out |= machine.may_leave_rule(found.nodes[found.known].0, stack);
            calls |= machine.has_calls(found.nodes[found.known].0);
            found.expand(machine, vocab, slice, spelled, &mut index);
            // Where a narrower class loses some letters, there is a narrower one without them.
            let bearable = match kind.has_unicode() {
                true => found.uniform || are_few(vocab, found.deadly[0]),
                false => found.deadly[0] == 0,
            };
            // So do enumerations and the like, whose ends are no use, either.
            let dying = || found.deadly[1..].iter().filter(|&&set| set != 0).count() * 2 > found.known;
            if !bearable || found.known == EARLY_EXIT_SAMPLE && !kind.has_unicode() && dying() {
                return None;
            }
        }
        let whole = found.is_whole();
        if found.uniform(vocab) == 0 && !are_few(vocab, found.deadly[0]) {
            return None;
        }
        let dying = found.deadly.iter().any(|&d| d != 0);
        if leads_out && !whole || calls && dying {
            // What dies inside the rule may live on behind it, or in another one.
            return None;
        }
        found.ends = leads_out && dying;
        if !whole && !machine.calls_nothing() && !machine.is_purely_in_string(state) {
            // So may what dies where nothing was looked at.
            return None;
        }
        if leads_out {
            // What follows there may hold any byte.
            found.need = u16::MAX;
        }
        Some(found)
    }

    /// Whether all was looked at.
    fn is_whole(&self) -> bool {
        self.known == self.nodes.len() && self.far == 0
    }

    /// Whether of the next node only characters of one byte are to be followed.
    fn is_far_now(&self, kind: SliceKind) -> bool {
        self.known >= FULL_UTF8_STATES && kind.has_unicode() && self.nodes[self.known].1 == self.body
    }

    /// Finds where the bytes lead from the next node.
    fn expand(
        &mut self,
        machine: &mut Machine,
        vocab: &Vocabulary,
        slice: usize,
        spelled: &mut ByteRuns,
        index: &mut FxHashMap<(u32, u32), u32>,
    ) {
        let (state, text) = self.nodes[self.known];
        let runs = spelled.runs(machine, vocab, (slice, text, self.body));
        let is_far = self.is_far_now(vocab.slices()[slice].kind);
        let mut edges: SmallVec<[Edge; 4]> = SmallVec::new();
        let mut deadly = 0;
        let mut kills = ByteSet::default();
        let row = machine.transitions(state);
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
                        deadly |= bytes;
                        kills.insert(from, to);
                        (from..=to.min(0x7f)).for_each(|b| self.killers[b as usize] = true);
                    }
                    (Some(after), _) => self.add_edge(&mut edges, index, (next, after), bytes),
                }
            }
        }
        if is_far {
            // Whichever is safe: each of them may kill, and none has to.
            deadly |= (0x80..=0xff).fold(0, |set, b| set | byte_set(b));
        }
        if self.known == 0 {
            self.first = kills;
            self.uniform = (0x80..=0xff).all(|b| !kills.has(b));
        }
        let expected = if text == self.body { self.first } else { ByteSet::default() };
        self.uniform &= kills == expected;
        self.edges.push(edges);
        self.deadly.push(deadly);
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

    /// The classes of the bytes that kill, if each of them kills wherever a character begins, and nothing else
    /// does anywhere.
    pub fn uniform(&self, vocab: &Vocabulary) -> ClassSet {
        let (mut others, whole) = (self.first, self.is_whole());
        let classes = vocab.classes().wholly(|b| self.first.has(b));
        for class in each_class(classes) {
            vocab.classes().members(class).iter().for_each(|&b| others.remove(b));
        }
        if self.uniform && whole && others == ByteSet::default() { classes } else { 0 }
    }

    /// The answers for the states of all nodes, of strings without some bytes where those alone kill. A state that is met
    /// both between characters and inside one, or inside different ones, gets the worst.
    pub fn near(&self, without: ClassSet) -> Arc<StateFits> {
        let numbers = self.nodes[..self.known].iter().map(|node| node.0);
        let first = numbers.clone().min().unwrap_or_default();
        let states = numbers.max().map_or(0, |last| (last - first) as usize + 1);
        let between = (0..self.known).filter(|&n| self.nodes[n].1 == self.body);
        let alive = vec![StateFits::UNKNOWN; states];
        let mut near = StateFits { between: Vec::new(), first, alive, ways: Vec::new(), starts: Vec::new() };
        if without != 0 || self.is_whole() && self.deadly.iter().all(|&d| d == 0) {
            let all = |n: usize| CharBoundary { state: self.nodes[n].0, clear: u32::MAX, reach: u32::MAX };
            near.between = between.map(all).collect();
            self.nodes.iter().for_each(|node| near.alive[(node.0 - first) as usize] = SafeLengths::UNBOUNDED);
            return Arc::new(near);
        }
        let into = self.into();
        let safe = self.distances(&into, |n| n >= self.known || self.deadly[n] != 0);
        let clear = self.distances(&into, |n| n >= self.known || self.is_far[n]);
        // Characters of several bytes are asked for by `need`.
        let reach = self.distances(&into, |n| n >= self.known && self.nodes[n].1 == self.body);
        let between =
            between.map(|n| CharBoundary { state: self.nodes[n].0, clear: clear[n], reach: reach[n] });
        near.between = between.collect();
        let (most, mut deadly) = (self.most(&into), propagate(self.kills(), &into));
        // The node of each state.
        let mut of: Vec<Option<usize>> = vec![None; states];
        for (n, node) in self.nodes.iter().enumerate() {
            let state = node.0.wrapping_sub(first) as usize;
            match of.get_mut(state) {
                None => {} // not looked at
                Some(None) => {
                    of[state] = Some(n);
                    near.alive[state] = SafeLengths { safe: safe[n], most: most[n] };
                }
                Some(&mut Some(other)) => {
                    let alive = &mut near.alive[state];
                    *alive = SafeLengths { safe: alive.safe.min(safe[n]), most: alive.most.max(most[n]) };
                    let ways = std::mem::take(&mut deadly[n]);
                    deadly[other].join(&ways);
                }
            }
        }
        let unknown = RejectConditions::unknown();
        near.starts.push(0);
        for node in of {
            near.ways.extend_from_slice(node.map_or(&unknown, |n| &deadly[n]).ways());
            near.starts.push(near.ways.len() as u32);
        }
        Arc::new(near)
    }

    /// For each node, the edges into it.
    fn into(&self) -> Incoming {
        let edges = (0..).zip(&self.edges).flat_map(|(from, edges)| {
            edges.iter().map(move |&Edge { to, ends, bytes }| {
                let byte = if bytes.is_power_of_two() { bytes } else { 0 };
                (to, InEdge { from, byte, ends })
            })
        });
        Incoming::new(self.nodes.len(), edges)
    }

    /// For each node, what kills it at once.
    fn kills(&self) -> Vec<RejectConditions> {
        let known = self
            .deadly
            .iter()
            .map(|&set| if set == 0 { RejectConditions::default() } else { RejectConditions::of(set) });
        let unknown = std::iter::repeat_with(RejectConditions::unknown).take(self.nodes.len() - self.known);
        known.chain(unknown).collect()
    }

    /// For each node, how many whole characters can follow before one of some nodes is met: a shortest path, on which
    /// the edges that end a character have length 1.
    fn distances(&self, into: &Incoming, ends: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut lengths = vec![u32::MAX; self.nodes.len()];
        let mut todo = VecDeque::new();
        for n in (0..self.nodes.len()).filter(|&n| ends(n)) {
            lengths[n] = 0;
            todo.push_back((n, 0));
        }
        while let Some((n, length)) = todo.pop_front() {
            if lengths[n] < length {
                continue;
            }
            for &InEdge { from, ends, .. } in into.of(n) {
                let (from, longer) = (from as usize, length + u32::from(ends));
                if longer < lengths[from] {
                    lengths[from] = longer;
                    if ends { todo.push_back((from, longer)) } else { todo.push_front((from, longer)) }
                }
            }
        }
        lengths
    }

    /// For each node, how many characters can follow at most: a longest path, [`u32::MAX`] where there is a
    /// cycle, or a node that was not looked at.
    fn most(&self, into: &Incoming) -> Vec<u32> {
        // Behind those that are far there is one more that is never settled.
        let left =
            self.edges.iter().zip(&self.is_far).map(|(edges, &is_far)| edges.len() + usize::from(is_far));
        let mut left: Vec<usize> = left.collect();
        let mut longest = vec![0; self.nodes.len()];
        let mut settled = vec![false; self.nodes.len()];
        let mut todo: Vec<usize> = (0..self.known).filter(|&n| left[n] == 0).collect();
        while let Some(n) = todo.pop() {
            settled[n] = true;
            for &InEdge { from, ends, .. } in into.of(n) {
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
