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

use super::dead::{SOON, dead_tokens};
use super::deadly::{Deadly, Incoming, Into, propagate};
use crate::bytes::Bytes;
use crate::machine::{Local, Machine, StackId, Thread};
use crate::vocab::{ByteSet, ClassSet, Slice, SliceKind, Vocabulary, byte_group, byte_set, each_class};

/// Most states looked at per slice; what lies behind is taken for dead or alive, whichever is safe.
const MAX_STATES: usize = 600;
/// Of so many first bytes a state may die for a slice to be of use; where more kill, a walk ends soon anyway.
const FEW: u32 = 3;
/// Or of bytes that so few tokens have, of each 1,000.
const RARE: u64 = 80;
/// A narrow slice is given up if most of so many states die of some byte.
const SAMPLE: usize = 32;
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
    /// Those with a byte of these classes are not among them.
    pub without: ClassSet,
    /// The same for the states that they lead to.
    near: Arc<Near>,
}

impl Contained {
    /// What kills the state, if that is known.
    pub fn deadly(&self, state: u32) -> Option<&Deadly> {
        self.near.deadly(state)
    }

    /// What is known of the states that strings lead to.
    pub fn near(&self) -> &Near {
        &self.near
    }
}

/// How long strings are that keep each of some states alive, and what those hold that do not, by state; the
/// least is known of every state.
#[derive(Debug)]
pub(super) struct Near {
    /// The states between characters.
    between: Vec<u32>,
    alive: Vec<Alive>,
    /// Empty where nothing can die.
    deadly: Vec<Deadly>,
}

impl Near {
    const UNKNOWN: Alive = Alive { safe: 0, most: u32::MAX };

    #[inline]
    pub fn of(&self, state: u32) -> Alive {
        self.alive.get(state as usize).copied().unwrap_or(Self::UNKNOWN)
    }

    /// What kills the state, if that is known.
    #[inline]
    pub fn deadly(&self, state: u32) -> Option<&Deadly> {
        self.deadly.get(state as usize)
    }

    /// Whether strings from a state need a look at few places only.
    fn is_useful(&self, vocab: &Vocabulary, state: u32) -> bool {
        let few = |deadly: &Deadly| are_few(vocab, deadly.at_once());
        self.of(state).safe > 0 || self.deadly(state).is_some_and(few)
    }
}

/// Whether a state may die of these bytes for a slice to be of use.
fn are_few(vocab: &Vocabulary, bytes: ByteSet) -> bool {
    let rare = || u64::from(vocab.classes().having(bytes)) * 1_000 <= vocab.len() as u64 * RARE;
    bytes.count_ones() <= FEW || rare()
}

/// What is said of a state, and other states for which the slice is as good, with what is said of them.
pub(super) type Answer = (Contained, Vec<(u32, Contained)>);

/// What the widest slice is worth for a state.
pub(super) enum Widest {
    /// Of nearly all of its tokens it is known whether they stay inside.
    Good(Answer),
    /// A narrower one may be better; with the bytes that kill.
    Poor(Answer, Box<[bool; 128]>),
    /// Many of its strings die soon.
    Useless,
    /// So do those of all others.
    AllUseless,
}

impl Widest {
    /// Tries the widest slice with or without a leading blank within the rule of a state.
    pub fn of(machine: &mut Machine, vocab: &Vocabulary, thread: Thread, spaced: bool) -> Widest {
        // Every slice has these letters; most states of a grammar take none of them.
        let state = thread.local.state;
        if [b'a', b'e', b'z'].into_iter().any(|b| vocab.has_byte(b) && machine.step_state(state, b) == 0) {
            return Widest::AllUseless;
        }
        let first = vocab.slices().iter().position(|s| s.spaced == spaced);
        let Some((answer, killers)) = first.and_then(|first| try_slice(machine, vocab, thread, first)) else {
            return Widest::Useless;
        };
        if answer.0.alive.safe >= MANY || is_cheap(machine, vocab, (state, spaced), &answer.0) {
            return Widest::Good(answer);
        }
        Widest::Poor(answer, Box::new(killers))
    }

    /// The widest slice of whose strings the state takes many, after the widest of all was tried.
    pub fn or_narrower(
        self,
        machine: &mut Machine,
        vocab: &Vocabulary,
        thread: Thread,
        spaced: bool,
    ) -> Option<Answer> {
        let mut second = match self {
            Widest::Good(answer) => return Some(answer),
            Widest::AllUseless => return None,
            Widest::Useless => None,
            Widest::Poor(answer, killers) => Some((answer, *killers)),
        };
        let slices = vocab.slices().iter().enumerate().filter(|(_, s)| s.spaced == spaced);
        for (slice, data) in slices.skip(1) {
            let holds =
                |killers: &[bool; 128]| (0..0x80).any(|b| killers[b as usize] && data.kind.has_ascii(b));
            if second.as_ref().is_some_and(|(_, killers)| holds(killers)) {
                // What kills in a wider slice is in this one, too.
                continue;
            }
            let Some((answer, killers)) = try_slice(machine, vocab, thread, slice) else { continue };
            if answer.0.alive.safe >= MANY {
                return Some(answer);
            }
            second = second.or(Some((answer, killers)));
        }
        second.map(|(answer, _)| answer)
    }
}

/// Whether the tokens of a slice that kill a state are found soon. Who takes the slice finds them again: what is kept would
/// mostly be of slices that are not taken.
fn is_cheap(
    machine: &mut Machine,
    vocab: &Vocabulary,
    (state, spaced): (u32, bool),
    contained: &Contained,
) -> bool {
    let top = if spaced { vocab.trie().first(b' ') } else { 0 };
    let slice = &vocab.slices()[contained.slice];
    dead_tokens(machine, vocab, slice, (top, state), contained, SOON).is_some()
}

/// What a slice tells of a state, and which bytes kill.
fn try_slice(
    machine: &mut Machine,
    vocab: &Vocabulary,
    Thread { local: Local { state, .. }, stack }: Thread,
    slice: usize,
) -> Option<(Answer, [bool; 128])> {
    let found = Explored::from(machine, vocab, &vocab.slices()[slice], (state, stack))?;
    let without = found.uniform(vocab);
    let (need, near) = (found.need, found.near(without));
    let contained = |alive| Contained { slice, need, alive, without, near: near.clone() };
    // Wider slices were tried for this state only; they keep no state alive for longer.
    let others = near.between.iter().copied().filter(|&other| near.is_useful(vocab, other));
    let others =
        others.filter(|&other| slice == 0 || near.of(other).safe > 0 && near.of(other).most < u32::MAX);
    let others = others.map(|state| (state, contained(near.of(state)))).collect();
    Some(((contained(near.of(state)), others), found.killers))
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
    /// Those that kill the first state, and whether they kill wherever a character begins, and nothing else does.
    first: Bytes,
    uniform: bool,
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
            first: Bytes::default(),
            uniform: true,
            body,
            inside: FxHashMap::default(),
        };
        let mut index = FxHashMap::from_iter([((state, body), 0u32)]);
        let mut leads_out = false;
        while found.known < found.nodes.len().min(MAX_STATES) {
            leads_out |= machine.leads_out(found.nodes[found.known].0, stack);
            found.expand(machine, vocab, slice.kind, &mut index);
            // Where a narrower class loses some letters, there is a narrower one without them.
            let bearable = match slice.kind.has_unicode() {
                true => found.uniform || are_few(vocab, found.deadly[0]),
                false => found.deadly[0] == 0,
            };
            // So do enumerations and the like, whose ends are no use, either.
            let dying = || found.deadly[1..].iter().filter(|&&set| set != 0).count() * 2 > found.known;
            if !bearable || found.known == SAMPLE && !slice.kind.has_unicode() && dying() {
                return None;
            }
        }
        let whole = found.known == found.nodes.len();
        if found.uniform(vocab) == 0 && !are_few(vocab, found.deadly[0]) {
            return None;
        }
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
        let mut kills = Bytes::default();
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
                kills.insert(b, b);
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
        if self.known == 0 {
            self.first = kills;
            self.uniform = (0x80..=0xff).all(|b| !kills.has(b));
        }
        let expected = if text == self.body { self.first } else { Bytes::default() };
        self.uniform &= kills == expected;
        self.edges.push(edges);
        self.deadly.push(deadly);
        self.known += 1;
    }

    /// The classes of the bytes that kill, if each of them kills wherever a character begins, and nothing else
    /// does anywhere.
    fn uniform(&self, vocab: &Vocabulary) -> ClassSet {
        let (mut others, whole) = (self.first, self.known == self.nodes.len());
        let classes = vocab.classes().wholly(|b| self.first.has(b));
        for class in each_class(classes) {
            vocab.classes().members(class).iter().for_each(|&b| others.remove(b));
        }
        if self.uniform && whole && others == Bytes::default() { classes } else { 0 }
    }

    /// The answers for the states of all nodes. One that is met both between characters and inside one, or
    /// inside different ones, gets the worst.
    /// Of strings without some bytes where those alone kill.
    fn near(&self, without: ClassSet) -> Arc<Near> {
        let nodes = || self.nodes[..self.known].iter().map(|node| node.0);
        let between = self.nodes[..self.known].iter().filter(|node| node.1 == self.body);
        let states = nodes().max().map_or(0, |most| most as usize + 1);
        let mut near = Near {
            between: between.map(|node| node.0).collect(),
            alive: vec![Near::UNKNOWN; states],
            deadly: Vec::new(),
        };
        if without != 0 || self.known == self.nodes.len() && self.deadly.iter().all(|&d| d == 0) {
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
