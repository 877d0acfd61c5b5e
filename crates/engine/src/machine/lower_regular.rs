//! Lowering of the regular nodes of the representation to automaton states.
//!
//! Each function is given the state that follows and returns the state to enter (continuation
//! passing). Text inside JSON strings is lowered in *escaped* form: an edge on a character that
//! JSON must escape becomes the path of its only escape sequence. So patterns, lengths and escapes
//! are one automaton, and every decoded text has exactly one sequence of bytes.

use std::ops::Range;

use crate::byte_set::ByteSet;
use crate::constraint::ir::{AutomatonState, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};
use crate::json_escape::{needs_escape, short_escape};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::alphabet::Alphabet;
use super::intern::Nodes;
use super::nfa::{Call, DEAD, MID_ESCAPE, Nfa, NfaId, QUOTE, RegisterIx, RuleIx, State, TEXT};

/// Maximum number of automaton states of one grammar.
pub(super) const MAX_NFA_STATES: usize = 1_000_000;
/// Maximum nesting of regular nodes.
const MAX_DEPTH: usize = 1_000;
/// Maximum number of branches whose edges are moved to one state. Most classes of characters have
/// fewer.
const MAX_UNFOLDED: usize = 64;

/// The rule and register of a value; `None` if it cannot match.
pub(super) type Value = Option<(RuleIx, RegisterIx)>;

/// Lowers the nodes that are no plain bytes.
pub(super) trait Calls {
    /// Returns the rule that matches `node`.
    fn value(&mut self, node: NodeId) -> Result<Value>;
}

/// For text languages, which have no calls.
pub(super) struct NoCalls;

impl Calls for NoCalls {
    fn value(&mut self, _: NodeId) -> Result<Value> {
        let message = "the language of a string must be regular: it may not hold JSON values or rules";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// Lowers regular nodes into one arena.
pub(super) struct RegularLowering<'a> {
    pub ir: Nodes<'a>,
    pub nfa: &'a mut Nfa,
    /// The bytes that the vocabulary can write.
    pub alphabet: &'a Alphabet,
    /// True if the bytes are the decoded text of a JSON string.
    pub escaped: bool,
    /// True if the bytes are a span of a source.
    pub quotes: bool,
    /// Inside an automaton: the states made for it.
    shared: Option<Box<Shared>>,
}

/// The paths that the states of one automaton share. Most states lead to the same few others, each
/// with its own class of characters. The paths through the bytes of UTF-8 and through escapes are
/// then mostly the same.
#[derive(Default)]
struct Shared {
    /// The entry of a node followed by a state.
    entries: FxHashMap<(NodeId, NfaId), NfaId>,
    /// The state after a backslash, by the characters that may be escaped (see [`escape_bit`]) and
    /// the state that follows.
    escapes: FxHashMap<(u64, NfaId), NfaId>,
}

impl<'a> RegularLowering<'a> {
    /// Lowers into `nfa`; `escaped` if the bytes are the decoded text of a JSON string.
    pub(super) fn new(ir: Nodes<'a>, nfa: &'a mut Nfa, alphabet: &'a Alphabet, escaped: bool) -> Self {
        RegularLowering { ir, nfa, alphabet, escaped, quotes: false, shared: None }
    }

    /// Returns the entry of `node` followed by `to`.
    pub(super) fn node(
        &mut self,
        calls: &mut dyn Calls,
        node: NodeId,
        to: NfaId,
        depth: usize,
    ) -> Result<NfaId> {
        if depth > MAX_DEPTH {
            return Err(too_complex("nesting depth", MAX_DEPTH));
        }
        if self.nfa.len() > MAX_NFA_STATES {
            return Err(too_complex("automaton states", MAX_NFA_STATES));
        }
        let node = self.ir.same(node);
        let shared = match self.ir.node(node) {
            Node::Class(_) | Node::Concat(_) | Node::Union(_) => self.shared.as_ref(),
            _ => None,
        };
        let Some(shared) = shared else { return self.made(calls, node, to, depth) };
        if let Some(&known) = shared.entries.get(&(node, to)) {
            return Ok(known);
        }
        let entry = self.made(calls, node, to, depth)?;
        if let Some(shared) = &mut self.shared {
            shared.entries.insert((node, to), entry);
        }
        Ok(entry)
    }

    /// Makes the entry of a node.
    fn made(&mut self, calls: &mut dyn Calls, node: NodeId, to: NfaId, depth: usize) -> Result<NfaId> {
        let ir = self.ir;
        match ir.node(node) {
            Node::Never => Ok(DEAD),
            Node::Empty => Ok(to),
            Node::Bytes(bytes) => Ok(self.bytes(bytes, to)),
            Node::Class(ranges) => Ok(self.class(ranges, to)),
            Node::Literals(list) => Ok(self.literals(list, to)),
            Node::Concat(parts) => {
                parts.iter().rev().try_fold(to, |to, &part| self.node(calls, part, to, depth + 1))
            }
            Node::Union(parts) => {
                let mut starts: SmallVec<[NfaId; 8]> = SmallVec::with_capacity(parts.len());
                for &part in parts {
                    let start = self.node(calls, part, to, depth + 1)?;
                    if start != DEAD {
                        starts.push(start);
                    }
                }
                Ok(self.union(&starts))
            }
            Node::Repeat { node, min, max } => self.repeat(calls, *node, (*min, *max), to, depth),
            Node::Automaton { states, quotes } => {
                let outside = std::mem::replace(&mut self.quotes, *quotes);
                let others = self.shared.replace(Box::default());
                let start = self.automaton(calls, states, to, depth);
                (self.quotes, self.shared) = (outside, others);
                start
            }
            _ => Ok(match calls.value(node)? {
                Some((rule, register)) if to != DEAD => {
                    self.nfa.push(State::Call(Call::Rule(rule, register, to)), 0)
                }
                _ => DEAD,
            }),
        }
    }

    /// Returns a fork without the branches that match nothing.
    pub(super) fn union(&mut self, starts: &[NfaId]) -> NfaId {
        let starts: SmallVec<[NfaId; 8]> = starts.iter().copied().filter(|&s| s != DEAD).collect();
        match starts[..] {
            [] => DEAD,
            [one] => one,
            _ => self.nfa.push(State::Union(&starts), 0),
        }
    }

    pub(super) fn flags(&self) -> u8 {
        let text = if self.escaped { TEXT } else { 0 };
        if self.quotes { text | QUOTE } else { text }
    }

    /// Returns the entry of one byte, if the vocabulary has it.
    pub(super) fn byte(&mut self, b: u8, to: NfaId, flags: u8) -> NfaId {
        if to == DEAD || !self.alphabet.has(b) {
            return DEAD;
        }
        self.nfa.push(State::Byte { lo: b, hi: b, to }, flags)
    }

    /// Returns the entry of a byte string.
    pub(super) fn bytes(&mut self, bytes: &[u8], to: NfaId) -> NfaId {
        let plain = |&b: &u8| self.alphabet.plain_end(b, self.escaped) > u16::from(b);
        if to != DEAD && bytes.iter().all(plain) {
            return self.nfa.push_run(bytes, to, self.flags());
        }
        bytes.iter().rev().fold(to, |to, &b| {
            if self.escaped && needs_escape(b) {
                self.class(&[(b, b)], to)
            } else {
                self.byte(b, to, self.flags())
            }
        })
    }

    /// Returns the entry of one byte of some ranges.
    pub(super) fn class(&mut self, ranges: &[(u8, u8)], to: NfaId) -> NfaId {
        if to == DEAD {
            return DEAD;
        }
        if let [(lo, hi)] = *ranges
            && self.alphabet.plain_end(lo, self.escaped) > u16::from(hi)
        {
            return self.nfa.push(State::Byte { lo, hi, to }, self.flags());
        }
        let mut edges: SmallVec<[(u8, u8, NfaId); 8]> = SmallVec::new();
        let mut escaped: SmallVec<[u8; 36]> = SmallVec::new();
        for &(lo, hi) in ranges {
            let mut b = u16::from(lo);
            while b <= u16::from(hi) {
                let first = b as u8;
                if self.escaped && needs_escape(first) {
                    escaped.push(first);
                    b += 1;
                    continue;
                }
                // Up to the next byte that is escaped or missing.
                let end = self.alphabet.plain_end(first, self.escaped).min(u16::from(hi) + 1);
                if end == b {
                    b += 1;
                    continue;
                }
                match edges.last_mut() {
                    Some(last) if u16::from(last.1) + 1 == b => last.1 = (end - 1) as u8,
                    _ => edges.push((first, (end - 1) as u8, to)),
                }
                b = end;
            }
        }
        if !escaped.is_empty() && self.alphabet.has(b'\\') {
            let after = self.escapes(&escaped, to);
            if after != DEAD {
                edges.push((b'\\', b'\\', after));
                edges.sort_unstable();
            }
        }
        self.sparse(&edges, self.flags())
    }

    /// Returns the state after the backslash of one of some characters.
    fn escapes(&mut self, escaped: &[u8], to: NfaId) -> NfaId {
        let key = (escaped.iter().fold(0, |set, &b| set | escape_bit(b)), to);
        if let Some(&known) = self.shared.as_ref().and_then(|shared| shared.escapes.get(&key)) {
            return known;
        }
        let short = |&b: &u8| short_escape(b).map(|letter| (letter, letter, to));
        let mut letters: SmallVec<[(u8, u8, NfaId); 8]> = escaped.iter().filter_map(short).collect();
        let controls: SmallVec<[u8; 32]> =
            escaped.iter().copied().filter(|&b| short_escape(b).is_none()).collect();
        if !controls.is_empty() {
            let u = self.control_escapes(&controls, to);
            if u != DEAD {
                letters.push((b'u', b'u', u));
            }
        }
        letters.retain(|e| self.alphabet.has(e.0));
        letters.sort_unstable();
        let after = self.sparse(&letters, MID_ESCAPE | self.flags());
        if let Some(shared) = &mut self.shared {
            shared.escapes.insert(key, after);
        }
        after
    }

    /// Returns the entry of `00` and two lower-case hexadecimal digits, for control characters
    /// without a short escape.
    fn control_escapes(&mut self, controls: &[u8], to: NfaId) -> NfaId {
        let hex = |n: u8| b"0123456789abcdef"[n as usize & 15];
        let mut high: SmallVec<[(u8, u8, NfaId); 2]> = SmallVec::new();
        for digit in 0..2u8 {
            let low: SmallVec<[(u8, u8, NfaId); 16]> = controls
                .iter()
                .filter(|&&c| c >> 4 == digit)
                .map(|&c| (hex(c), hex(c), to))
                .filter(|e| self.alphabet.has(e.0))
                .collect();
            if !low.is_empty() && self.alphabet.has(hex(digit)) {
                let low = self.sparse(&low, MID_ESCAPE | self.flags());
                high.push((hex(digit), hex(digit), low));
            }
        }
        let high = self.sparse(&high, MID_ESCAPE | self.flags());
        let zero = self.byte(b'0', high, MID_ESCAPE | self.flags());
        self.byte(b'0', zero, MID_ESCAPE | self.flags())
    }

    pub(super) fn sparse(&mut self, edges: &[(u8, u8, NfaId)], flags: u8) -> NfaId {
        match *edges {
            [] => DEAD,
            [(lo, hi, to)] => self.nfa.push(State::Byte { lo, hi, to }, flags),
            _ => self.nfa.push(State::Sparse(edges), flags),
        }
    }

    /// Lowers an automaton: one state for each of its states, with the edges of all of its classes.
    /// Classes that begin with the same bytes, as escapes and characters of several bytes may,
    /// become branches. States are made in reverse order, so that most are made after those that
    /// they lead to.
    ///
    /// A branch for each class was rejected: determinisation would then join and sort sets of
    /// several states where one suffices.
    fn automaton(
        &mut self,
        calls: &mut dyn Calls,
        states: &[AutomatonState],
        to: NfaId,
        depth: usize,
    ) -> Result<NfaId> {
        if to == DEAD {
            return Ok(DEAD);
        }
        let mut here: Vec<Option<NfaId>> = vec![None; states.len()];
        let flags = self.flags();
        let (mut parts, mut edges) = (Vec::new(), Vec::new());
        for (q, state) in states.iter().enumerate().rev() {
            parts.clear();
            edges.clear();
            for &(node, next) in &state.edges {
                // A state that does not exist matches nothing.
                let next = match here.get_mut(next as usize) {
                    Some(next) => *next.get_or_insert_with(|| self.nfa.push(State::Dead, flags)),
                    None => DEAD,
                };
                if let Some((lo, hi)) = self.plain(node) {
                    edges.push((lo, hi, next));
                    continue;
                }
                let part = self.node(calls, node, next, depth + 1)?;
                if part != DEAD {
                    parts.push(part);
                }
            }
            if self.nfa.len() > MAX_NFA_STATES {
                return Err(too_complex("automaton states", MAX_NFA_STATES));
            }
            if state.accept {
                parts.push(to);
            }
            edges.retain(|e| e.2 != DEAD);
            self.fold(&mut parts, &mut edges);
            edges.sort_unstable();
            match here[q] {
                Some(at) if parts.is_empty() && !edges.is_empty() => self.nfa.set(at, State::Sparse(&edges)),
                known => {
                    let plain = self.sparse(&edges, flags);
                    if plain != DEAD {
                        parts.push(plain);
                    }
                    match known {
                        Some(at) => self.nfa.set(at, State::Union(&parts)),
                        None => here[q] = Some(self.union(&parts)),
                    }
                }
            }
        }
        Ok(here.first().copied().flatten().unwrap_or(DEAD))
    }

    /// Moves the edges of branches to the edges of the state, where that makes one state of
    /// several.
    fn fold(&self, parts: &mut Vec<NfaId>, edges: &mut Vec<(u8, u8, NfaId)>) {
        let plain = !edges.is_empty();
        let (mut folded, mut last) = (0, DEAD);
        parts.retain(|&part| {
            let fits = self.unfold(part, edges);
            (folded, last) = if fits { (folded + 1, part) } else { (folded, last) };
            !fits
        });
        if !plain && folded == 1 {
            // That one branch has all edges already.
            edges.clear();
            parts.push(last);
        }
    }

    /// Adds the edges of a state and its branches, and returns true. Returns false with nothing
    /// added if they have other transitions, have other flags than the automaton, or would repeat a
    /// byte.
    fn unfold(&self, from: NfaId, edges: &mut Vec<(u8, u8, NfaId)>) -> bool {
        let before = edges.len();
        let mut todo: SmallVec<[NfaId; 16]> = smallvec![from];
        let mut left = MAX_UNFOLDED;
        while let Some(state) = todo.pop() {
            let alike = left > 0 && self.nfa.flags(state) == self.flags();
            left = left.saturating_sub(1);
            match self.nfa.state(state) {
                State::Union(parts) if left > 0 => todo.extend_from_slice(parts),
                State::Byte { lo, hi, to } if alike => edges.push((lo, hi, to)),
                State::Sparse(list) if alike => edges.extend_from_slice(list),
                _ => left = 0,
            }
            if left == 0 {
                break;
            }
        }
        let (old, new) = edges.split_at(before);
        let mut taken = ByteSet::default();
        old.iter().for_each(|&(lo, hi, _)| taken.insert(lo, hi));
        let fits = |taken: &mut ByteSet, &(lo, hi, _): &(u8, u8, NfaId)| {
            let mut own = ByteSet::default();
            own.insert(lo, hi);
            let free = own.and(taken) == ByteSet::default();
            taken.insert(lo, hi);
            free
        };
        let unfolded = left > 0 && new.iter().all(|edge| fits(&mut taken, edge));
        if !unfolded {
            edges.truncate(before);
        }
        unfolded
    }

    /// Returns the bytes of a node that is one range of bytes which need no escape.
    fn plain(&self, node: NodeId) -> Option<(u8, u8)> {
        let (lo, hi) = match self.ir.node(node) {
            Node::Bytes(bytes) => match bytes[..] {
                [byte] => (byte, byte),
                _ => return None,
            },
            Node::Class(ranges) => match ranges[..] {
                [range] => range,
                _ => return None,
            },
            _ => return None,
        };
        let plain = |b: u8| self.alphabet.plain_end(b, self.escaped) > u16::from(b);
        (lo..=hi).all(plain).then_some((lo, hi))
    }

    /// Returns true if any path from a state consumes or calls something.
    fn consumes(&self, from: NfaId) -> bool {
        let (mut seen, mut todo) = (FxHashSet::default(), vec![from]);
        while let Some(s) = todo.pop() {
            match self.nfa.state(s) {
                State::Dead | State::Accept => {}
                State::Union(parts) => todo.extend(parts.iter().filter(|&&p| seen.insert(p))),
                _ => return true,
            }
        }
        false
    }

    fn repeat(
        &mut self,
        calls: &mut dyn Calls,
        node: NodeId,
        (min, max): (u32, Option<u32>),
        to: NfaId,
        depth: usize,
    ) -> Result<NfaId> {
        let (mut at, mut made) = (to, None);
        match max {
            Some(max) if max < min => return Ok(DEAD),
            Some(max) => {
                for _ in min..max {
                    let body = self.once_more(calls, node, at, depth, &mut made)?;
                    if body == at {
                        break;
                    }
                    at = self.union(&[body, to]);
                }
            }
            None => {
                let loop_state = self.nfa.push(State::Dead, 0);
                let body = self.once_more(calls, node, loop_state, depth, &mut made)?;
                if self.consumes(body) {
                    self.nfa.set(loop_state, State::Union(&[body, to]));
                    at = loop_state;
                } else {
                    // The empty text, repeated: no loop, because loops count as endless text.
                    self.nfa.set(loop_state, State::Union(&[to]));
                }
            }
        }
        for _ in 0..min {
            let body = self.once_more(calls, node, at, depth, &mut made)?;
            if body == at || body == DEAD {
                return Ok(body);
            }
            at = body;
        }
        Ok(at)
    }

    /// Returns the entry of a repeated node: lowered the first time, copied afterwards.
    fn once_more(
        &mut self,
        calls: &mut dyn Calls,
        node: NodeId,
        to: NfaId,
        depth: usize,
        made: &mut Option<Made>,
    ) -> Result<NfaId> {
        // Within an automaton a node may share states that lead to the target of the first one.
        if let Some(Made { states, entry, to: before }) = made.as_ref().filter(|_| self.shared.is_none()) {
            if self.nfa.len() + states.len() > MAX_NFA_STATES {
                return Err(too_complex("automaton states", MAX_NFA_STATES));
            }
            return Ok(self.nfa.copy(states.clone(), *entry, (*before, to)));
        }
        let first = self.nfa.len() as NfaId;
        let entry = self.node(calls, node, to, depth + 1)?;
        *made = Some(Made { states: first..self.nfa.len() as NfaId, entry, to });
        Ok(entry)
    }
}

/// The states of a repeated node.
struct Made {
    states: Range<NfaId>,
    entry: NfaId,
    /// The state that they lead to.
    to: NfaId,
}

/// Returns the bit of a character that must be escaped, in a set of them.
fn escape_bit(b: u8) -> u64 {
    match b {
        b'"' => 1 << 32,
        b'\\' => 1 << 33,
        control => 1 << (control & 0x1f),
    }
}

/// Returns an error that names the limit.
pub(super) fn too_complex(what: &str, limit: usize) -> Error {
    Error::new(ErrorKind::TooComplex, format!("the constraint needs more than {limit} {what}"))
        .hint("simplify it: large counts in repetitions and very deep nesting cost most")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::nfa::ACCEPT;
    use super::*;
    use crate::constraint::ir::{ByteString, Ir};
    use crate::constraint::test_reference;
    use ffwd_testkit::random::Random;

    /// A random node without calls, mostly with repetitions; some nodes hold others.
    fn node(random: &mut Random, ir: &mut Ir, depth: usize) -> NodeId {
        match random.below(if depth == 0 { 3 } else { 8 }) {
            0 => ir.bytes(["a", "ab", "ba", ""][random.below(4)]),
            1 => ir.push(Node::Class(smallvec![[(b'a', b'b'), (b'b', b'c')][random.below(2)]])),
            2 => {
                let all = ["", "a", "ab", "abc", "abcb", "b", "bca", "cc"];
                let some = all.iter().filter(|_| random.below(2) == 0);
                let list = some.map(|text| ByteString::from_slice(text.as_bytes())).collect();
                ir.push(Node::Literals(list))
            }
            3 => {
                let parts = vec![node(random, ir, depth - 1), node(random, ir, depth - 1)];
                ir.union(parts)
            }
            4 => {
                let parts = vec![node(random, ir, depth - 1), node(random, ir, depth - 1)];
                ir.concat(parts)
            }
            _ => {
                let part = node(random, ir, depth - 1);
                let min = random.below(3) as u32;
                let max = (random.below(4) > 0).then(|| min + random.below(4) as u32);
                ir.push(Node::Repeat { node: part, min, max })
            }
        }
    }

    /// Returns true if the states from `start` on match a whole text.
    fn accepts(nfa: &Nfa, start: NfaId, text: &[u8]) -> bool {
        let closed = |mut todo: Vec<NfaId>| {
            let mut all = BTreeSet::new();
            while let Some(s) = todo.pop() {
                if all.insert(s)
                    && let State::Union(parts) = nfa.state(s)
                {
                    todo.extend_from_slice(parts);
                }
            }
            all
        };
        let step = |states: BTreeSet<NfaId>, b: &u8| {
            let mut next = Vec::new();
            for s in states {
                match nfa.state(s) {
                    State::Byte { lo, hi, to } if (lo..=hi).contains(b) => next.push(to),
                    State::Sparse(edges) => {
                        next.extend(edges.iter().filter(|e| (e.0..=e.1).contains(b)).map(|e| e.2));
                    }
                    _ => {}
                }
            }
            closed(next)
        };
        text.iter().fold(closed(vec![start]), step).contains(&ACCEPT)
    }

    #[test]
    fn repetitions_and_literals_match_what_they_say() {
        let alphabet = Alphabet::new(&[true; 256]);
        let mut random = Random::new(31);
        let (mut matched, mut others, mut large) = (0, 0, 0);
        for _ in 0..3_000 {
            let mut ir = Ir::new();
            let node = node(&mut random, &mut ir, 3);
            let mut nfa = Nfa::default();
            let mut lowering = RegularLowering::new(Nodes::of(&ir), &mut nfa, &alphabet, false);
            let start = lowering.node(&mut NoCalls, node, ACCEPT, 0).unwrap();
            large += usize::from(nfa.len() > 30);
            for _ in 0..40 {
                let text: Vec<u8> = (0..random.below(9)).map(|_| b"abc"[random.below(3)]).collect();
                let expected = test_reference::matches(&ir, node, &text);
                assert_eq!(
                    accepts(&nfa, start, &text),
                    expected,
                    "{ir:?} {:?}",
                    String::from_utf8_lossy(&text)
                );
                *(if expected { &mut matched } else { &mut others }) += 1;
            }
        }
        assert!(matched > 10_000 && others > 10_000 && large > 200, "{matched} {others} {large}");
    }
}
