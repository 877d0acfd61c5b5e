//! JSON strings and numbers: their automata, and the lengths their states can still reach.
//!
//! A string is a quote, the escaped text, a quote. With `minLength` or `maxLength` beside a pattern,
//! a state is alive only if some word of a legal length remains; [`lengths`] works out once, per
//! state, which numbers of further characters lead to the end, so that the run-time check is two
//! comparisons. Unrolling the counter into the automaton was rejected: it costs a state per character.

use regex_syntax::utf8::Utf8Sequences;
use rustc_hash::FxHashMap;

use crate::constraint::Policy;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};

use super::dfa::{Dfa, DfaId};
use super::liveness::{Liveness, trim};
use super::nfa::{ACCEPT, DEAD, Nfa, NfaId, State, TEXT};
use super::register::{Lengths, NameTrie, OFF_TRIE, Reach};
use super::regular::{Lowering, NoCalls, too_complex};

/// Most deterministic states of a pattern that has length bounds beside it.
const MAX_LENGTH_STATES: usize = 20_000;
/// Most bits in all exact length tables of one pattern.
const MAX_LENGTH_BITS: usize = 8_000_000;

/// The well-formed UTF-8 sequences (Unicode 16.0, table 3-7).
const UTF8: [&[(u8, u8)]; 9] = [
    &[(0x00, 0x7f)],
    &[(0xc2, 0xdf), (0x80, 0xbf)],
    &[(0xe0, 0xe0), (0xa0, 0xbf), (0x80, 0xbf)],
    &[(0xe1, 0xec), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xed, 0xed), (0x80, 0x9f), (0x80, 0xbf)],
    &[(0xee, 0xef), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xf0, 0xf0), (0x90, 0xbf), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xf1, 0xf3), (0x80, 0xbf), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xf4, 0xf4), (0x80, 0x8f), (0x80, 0xbf), (0x80, 0xbf)],
];

/// The start of the rule for a string with any text.
pub(super) fn plain_string(nfa: &mut Nfa, alphabet: &[bool; 256]) -> NfaId {
    let ir = Ir::new();
    let from = nfa.len() as NfaId;
    let mut lowering = Lowering { ir: &ir, nfa, alphabet, escaped: true };
    let body = lowering.nfa.push(State::Dead, 0);
    let close = lowering.byte(b'"', ACCEPT, TEXT);
    let mut parts: Vec<NfaId> = UTF8
        .iter()
        .map(|seq| seq.iter().rev().fold(body, |to, &range| lowering.class(&[range], to)))
        .collect();
    parts.push(close);
    let start = lowering.byte(b'"', body, 0);
    nfa.set(body, State::Union(parts.into()));
    trim_text(nfa, from, start)
}

/// White space as ECMA-262 has it beyond ASCII (`\s`), and U+0085, which other dialects add.
const SPACES: [(u32, u32); 9] = [
    (0x20, 0x20),
    (0x85, 0x85),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
];

/// The start of the rule for a string without white space: the class of a vocabulary slice.
pub(super) fn unspaced_string(nfa: &mut Nfa, alphabet: &[bool; 256]) -> NfaId {
    let ir = Ir::new();
    let from = nfa.len() as NfaId;
    let mut lowering = Lowering { ir: &ir, nfa, alphabet, escaped: true };
    let body = lowering.nfa.push(State::Dead, 0);
    let mut parts = vec![lowering.byte(b'"', ACCEPT, TEXT)];
    let mut next = 0x21;
    for (lo, hi) in SPACES.into_iter().skip(1).chain([(0xfeff, 0xfeff), (0x11_0000, 0)]) {
        // Surrogates are left out by `Utf8Sequences`.
        if let (Some(first), Some(last)) = (char::from_u32(next), char::from_u32(lo - 1)) {
            for sequence in Utf8Sequences::new(first, last) {
                let ranges = sequence.as_slice().iter().rev();
                parts.push(ranges.fold(body, |to, r| lowering.class(&[(r.start, r.end)], to)));
            }
        }
        next = hi + 1;
    }
    let start = lowering.byte(b'"', body, 0);
    nfa.set(body, State::Union(parts.into()));
    trim_text(nfa, from, start)
}

/// The start of the rule for a string whose text lies in `lang`; [`DEAD`] if there is none.
pub(super) fn string_of(nfa: &mut Nfa, alphabet: &[bool; 256], ir: &Ir, lang: NodeId) -> Result<NfaId> {
    let from = nfa.len() as NfaId;
    let mut lowering = Lowering { ir, nfa, alphabet, escaped: true };
    let close = lowering.byte(b'"', ACCEPT, TEXT);
    let body = lowering.node(&mut NoCalls, lang, close, 0)?;
    let start = lowering.byte(b'"', body, 0);
    Ok(trim_text(nfa, from, start))
}

/// Trims the states `from..`, which hold one rule without calls, so that it can be determinised.
fn trim_text(nfa: &mut Nfa, from: NfaId, start: NfaId) -> NfaId {
    let (live, _) = Liveness::solve(nfa, &[], &[], from, &[]).result();
    trim(nfa, from, &live);
    if start >= from && live[(start - from) as usize] { start } else { DEAD }
}

/// The automaton of any JSON number under the policy's caps.
pub(super) fn any_number(nfa: &mut Nfa, alphabet: &[bool; 256], policy: &Policy) -> Result<NfaId> {
    let mut ir = Ir::new();
    let digit = ir.push(Node::Class(vec![(b'0', b'9')]));
    let nonzero = ir.push(Node::Class(vec![(b'1', b'9')]));
    let more = ir.repeat(digit, 0, Some(u32::from(policy.max_integer_digits.max(1)) - 1));
    let integer = ir.concat(vec![nonzero, more]);
    let zero = ir.bytes("0");
    let integer = ir.union(vec![zero, integer]);
    let minus = ir.bytes("-");
    let minus = ir.repeat(minus, 0, Some(1));
    let mut parts = vec![minus, integer];
    if policy.max_fraction_digits > 0 {
        let point = ir.bytes(".");
        let digits = ir.repeat(digit, 1, Some(u32::from(policy.max_fraction_digits)));
        let fraction = ir.concat(vec![point, digits]);
        parts.push(ir.repeat(fraction, 0, Some(1)));
    }
    if policy.exponent {
        let e = ir.push(Node::Class(vec![(b'E', b'E'), (b'e', b'e')]));
        let sign = ir.push(Node::Class(vec![(b'+', b'+'), (b'-', b'-')]));
        let sign = ir.repeat(sign, 0, Some(1));
        let digits = ir.repeat(digit, 1, Some(3));
        let exponent = ir.concat(vec![e, sign, digits]);
        parts.push(ir.repeat(exponent, 0, Some(1)));
    }
    let number = ir.concat(parts);
    Lowering { ir: &ir, nfa, alphabet, escaped: false }.node(&mut NoCalls, number, ACCEPT, 0)
}

/// Whether byte `b` out of a state begins a new character of the text.
#[inline]
pub fn begins_char(mid_escape: bool, b: u8) -> bool {
    !mid_escape && b != b'"' && b & 0xc0 != 0x80
}

/// For every state of the string rule at `start`, which lengths remain, and the bounds that are not
/// implied by the language itself. `None` if no word has a legal length.
pub(super) fn lengths(
    nfa: &Nfa,
    dfa: &mut Dfa,
    start: NfaId,
    min: u32,
    max: u32,
) -> Result<Option<(u32, u32, Lengths)>> {
    let graph = Graph::explore(nfa, dfa, start)?;
    let shortest = graph.shortest();
    let longest = graph.longest();
    let min = if shortest[0] >= min { 0 } else { min };
    let max = if longest[0] <= max { u32::MAX } else { max };
    let closable = shortest.iter().all(|&n| n == 0);
    let exact = if closable || min == 0 || max == u32::MAX { None } else { Some(graph.exact(max)?) };
    let mut states = Vec::with_capacity(graph.ids.len());
    for (i, &id) in graph.ids.iter().enumerate() {
        let bits = exact.as_ref().map(|e| e[i].clone());
        let end = graph.accepting[i];
        states.push((id, Reach { end, shortest: shortest[i], longest: longest[i], exact: bits }));
    }
    let possible = states[0].1.within(min, max);
    Ok(possible.then(|| (min, max, Lengths::new(states))))
}

/// The deterministic states of one string rule with the characters each step adds (0 or 1).
struct Graph {
    ids: Vec<DfaId>,
    edges: Vec<Vec<(usize, u32)>>,
    accepting: Vec<bool>,
}

impl Graph {
    fn explore(nfa: &Nfa, dfa: &mut Dfa, start: NfaId) -> Result<Graph> {
        let first = dfa.start(nfa, start);
        let mut graph = Graph { ids: vec![first], edges: Vec::new(), accepting: Vec::new() };
        let mut index: FxHashMap<DfaId, usize> = FxHashMap::from_iter([(first, 0)]);
        let mut next = 0;
        while next < graph.ids.len() {
            if graph.ids.len() > MAX_LENGTH_STATES {
                return Err(too_complex("states in a pattern with a length bound", MAX_LENGTH_STATES));
            }
            let id = graph.ids[next];
            next += 1;
            let state = dfa.state(id);
            let (mid, accept) = (state.mid_escape(), state.accept);
            graph.accepting.push(accept);
            let mut edges: Vec<(usize, u32)> = Vec::new();
            for (lo, _, to) in dfa.ranges(nfa, id) {
                let count = u32::from(begins_char(mid, lo));
                let to = *index.entry(to).or_insert_with(|| {
                    graph.ids.push(to);
                    graph.ids.len() - 1
                });
                edges.push((to, count));
            }
            edges.sort_unstable();
            edges.dedup();
            graph.edges.push(edges);
        }
        Ok(graph)
    }

    fn backward(&self) -> Vec<Vec<(usize, u32)>> {
        let mut into = vec![Vec::new(); self.ids.len()];
        for (from, edges) in self.edges.iter().enumerate() {
            for &(to, count) in edges {
                into[to].push((from, count));
            }
        }
        into
    }

    /// Fewest further characters until the end (0-1 breadth-first search from the end).
    fn shortest(&self) -> Vec<u32> {
        let into = self.backward();
        let mut best = vec![u32::MAX; self.ids.len()];
        let mut queue: std::collections::VecDeque<usize> =
            (0..self.ids.len()).filter(|&i| self.accepting[i]).collect();
        queue.iter().for_each(|&i| best[i] = 0);
        while let Some(i) = queue.pop_front() {
            for &(from, count) in &into[i] {
                let n = best[i].saturating_add(count);
                if n < best[from] {
                    best[from] = n;
                    if count == 0 { queue.push_front(from) } else { queue.push_back(from) }
                }
            }
        }
        best
    }

    /// Most further characters until the end; states that can reach a loop have no most.
    fn longest(&self) -> Vec<u32> {
        let into = self.backward();
        let mut open: Vec<usize> = self.edges.iter().map(Vec::len).collect();
        let mut most = vec![u32::MAX; self.ids.len()];
        let mut ready: Vec<usize> = (0..self.ids.len()).filter(|&i| open[i] == 0).collect();
        while let Some(i) = ready.pop() {
            most[i] =
                self.edges[i].iter().map(|&(to, count)| most[to].saturating_add(count)).max().unwrap_or(0);
            for &(from, _) in &into[i] {
                open[from] -= 1;
                if open[from] == 0 {
                    ready.push(from);
                }
            }
        }
        most
    }

    /// Exactly which numbers of further characters up to `max` are possible, as bit sets.
    fn exact(&self, max: u32) -> Result<Vec<Box<[u64]>>> {
        let words = max as usize / 64 + 1;
        if words.saturating_mul(64 * self.ids.len()) > MAX_LENGTH_BITS {
            return Err(Error::new(
                ErrorKind::TooComplex,
                format!("minLength and maxLength {max} beside this pattern need more than {MAX_LENGTH_BITS} table bits"),
            )
            .hint("drop minLength, or bound the length inside the pattern"));
        }
        let mut bits: Vec<Box<[u64]>> = vec![vec![0u64; words].into(); self.ids.len()];
        for (i, set) in bits.iter_mut().enumerate() {
            set[0] = u64::from(self.accepting[i]);
        }
        let into = self.backward();
        let mut todo: Vec<usize> = (0..self.ids.len()).filter(|&i| self.accepting[i]).collect();
        let mut queued = self.accepting.clone();
        while let Some(i) = todo.pop() {
            queued[i] = false;
            for &(from, count) in &into[i] {
                if merge_shifted(&mut bits, from, i, count) && !std::mem::replace(&mut queued[from], true) {
                    todo.push(from);
                }
            }
        }
        Ok(bits)
    }
}

/// `bits[to] |= bits[from] << count` (count 0 or 1); whether anything was added.
fn merge_shifted(bits: &mut [Box<[u64]>], to: usize, from: usize, count: u32) -> bool {
    let source = bits[from].clone();
    let mut carry = 0;
    let mut changed = false;
    for (word, &s) in bits[to].iter_mut().zip(source.iter()) {
        let shifted = if count == 0 { s } else { s << 1 | carry };
        carry = s >> 63;
        changed |= shifted & !*word != 0;
        *word |= shifted;
    }
    changed
}

/// The string rule at `start` without the words in `names`. States whose text has left the trie of
/// names are those of the rule itself; only the others are new.
pub(super) fn without_names(nfa: &mut Nfa, dfa: &mut Dfa, start: NfaId, names: &NameTrie) -> Result<NfaId> {
    let from = nfa.len() as NfaId;
    let first = dfa.start(nfa, start);
    let mut made: FxHashMap<(DfaId, u32), NfaId> = FxHashMap::default();
    let mut todo = Vec::new();
    let entry = nfa.push(State::Dead, dfa.state(first).flags);
    made.insert((first, 0), entry);
    todo.push((first, 0u32));
    while let Some((d, n)) = todo.pop() {
        if made.len() > MAX_LENGTH_STATES {
            return Err(too_complex(
                "states in a property name pattern beside declared names",
                MAX_LENGTH_STATES,
            ));
        }
        let at = made[&(d, n)];
        if n == OFF_TRIE {
            let set = dfa.members(d).to_vec();
            nfa.set(at, State::Union(set.into()));
            continue;
        }
        let mid = dfa.state(d).mid_escape();
        let mut edges: Vec<(u8, u8, NfaId)> = Vec::new();
        for (lo, hi, to) in dfa.ranges(nfa, d) {
            for b in lo..=hi {
                let quote = b == b'"' && !mid;
                let target = if quote && dfa.state(to).accept {
                    if names.is_name(n) {
                        continue;
                    }
                    ACCEPT
                } else {
                    let m = if quote { n } else { names.step(n, b) };
                    *made.entry((to, m)).or_insert_with(|| {
                        todo.push((to, m));
                        nfa.push(State::Dead, dfa.state(to).flags)
                    })
                };
                match edges.last_mut() {
                    Some(last) if last.2 == target && u16::from(last.1) + 1 == u16::from(b) => last.1 = b,
                    _ => edges.push((b, b, target)),
                }
            }
        }
        nfa.set(at, State::Sparse(edges.into()));
    }
    Ok(trim_text(nfa, from, entry))
}
