//! JSON strings and numbers: their automata, and the lengths that their states can still reach.
//!
//! A string is a quote, the escaped text, a quote. With `minLength` or `maxLength` and a pattern, a
//! state is alive only if some word of a legal length remains. [`lengths`] computes once, for each
//! state, which numbers of further characters lead to the end. The check at run time is then two
//! comparisons.
//!
//! # Alternatives considered
//!
//! Unrolling the counter into the automaton: it costs a state per character.

use regex_syntax::utf8::Utf8Sequences;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::constraint::ir::{FreeNumber, Ir, Node, NodeId};
use crate::constraint::number;
use crate::error::{Error, ErrorKind, Result};
use crate::incoming::Incoming;

use super::alphabet::Alphabet;
use super::intern::Nodes;
use super::lazy_dfa::{DfaId, LazyDfa};
use super::lower_regular::{NoCalls, RegularLowering, too_complex};
use super::nfa::{ACCEPT, DEAD, MID_ESCAPE, Nfa, NfaId, State, TEXT};
use super::properties::name_trie::{NameTrie, OFF_TRIE};
use super::register::Lengths;
use crate::machine::liveness::{Liveness, StateRange, trim};

/// Maximum number of states of a pattern from which declared names are removed.
const MAX_NAMED_STATES: usize = 20_000;
/// Maximum number of bits in all exact length tables of one pattern.
const MAX_LENGTH_BITS: usize = 32_000_000;

/// Returns the start of the rule for a string with any text.
pub(super) fn plain_string(nfa: &mut Nfa, alphabet: &Alphabet) -> NfaId {
    string_without(nfa, alphabet, &[])
}

/// White space by ECMA-262 (`\s`) from the blank on, and U+0085, which other dialects add.
const SPACES: [(char, char); 10] = [
    ('\0', ' '),
    ('\u{85}', '\u{85}'),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{feff}', '\u{feff}'),
];

/// Returns the start of the rule for a string without white space: the class of a vocabulary slice.
pub(super) fn unspaced_string(nfa: &mut Nfa, alphabet: &Alphabet) -> NfaId {
    string_without(nfa, alphabet, &SPACES)
}

/// Returns the start of the rule for a string without the characters of some ranges, in order.
fn string_without(nfa: &mut Nfa, alphabet: &Alphabet, without: &[(char, char)]) -> NfaId {
    let ir = Ir::new();
    let from = nfa.len() as NfaId;
    let mut lowering = RegularLowering::new(Nodes::of(&ir), nfa, alphabet, true);
    let body = lowering.nfa.push(State::Dead, 0);
    let mut parts = vec![lowering.byte(b'"', ACCEPT, TEXT)];
    let mut next = 0;
    for (lo, hi) in without.iter().map(|&(lo, hi)| (lo as u32, hi as u32)).chain([(0x11_0000, 0)]) {
        // `Utf8Sequences` leaves out surrogates.
        if let (Some(first), Some(last)) = (char::from_u32(next), lo.checked_sub(1).and_then(char::from_u32))
        {
            for sequence in Utf8Sequences::new(first, last) {
                let ranges = sequence.as_slice().iter().rev();
                parts.push(ranges.fold(body, |to, r| lowering.class(&[(r.start, r.end)], to)));
            }
        }
        next = hi + 1;
    }
    let start = lowering.byte(b'"', body, 0);
    nfa.set(body, State::Union(&parts));
    trim_text(nfa, from, start)
}

/// Returns the start of the rule for a string whose text is in `lang`, or [`DEAD`] if there is
/// none.
pub(super) fn string_of(nfa: &mut Nfa, alphabet: &Alphabet, ir: Nodes<'_>, lang: NodeId) -> Result<NfaId> {
    let from = nfa.len() as NfaId;
    let mut lowering = RegularLowering::new(ir, nfa, alphabet, true);
    let close = lowering.byte(b'"', ACCEPT, TEXT);
    let body = lowering.node(&mut NoCalls, lang, close, 0)?;
    let start = lowering.byte(b'"', body, 0);
    Ok(trim_text(nfa, from, start))
}

/// Returns the start of the rule for a raw text of `lang` followed by `behind`, or [`DEAD`] if
/// there is none.
pub(super) fn text_of(
    nfa: &mut Nfa,
    alphabet: &Alphabet,
    ir: Nodes<'_>,
    lang: NodeId,
    behind: &str,
) -> Result<NfaId> {
    let from = nfa.len() as NfaId;
    let mut lowering = RegularLowering::new(ir, nfa, alphabet, false);
    let end = lowering.bytes(behind.as_bytes(), ACCEPT);
    let start = lowering.node(&mut NoCalls, lang, end, 0)?;
    // Only the empty text: it gets a state of its own, like all others.
    let start = if start == ACCEPT { nfa.push(State::Union(&[ACCEPT]), 0) } else { start };
    Ok(trim_text(nfa, from, start))
}

/// Returns the start of the rule for strings, literals and numbers, or [`DEAD`] if there are none.
pub(super) fn scalar(nfa: &mut Nfa, alphabet: &Alphabet, ir: Nodes<'_>, node: NodeId) -> Result<NfaId> {
    let from = nfa.len() as NfaId;
    let (mut todo, mut starts) = (vec![node], Vec::new());
    while let Some(node) = todo.pop() {
        starts.push(match ir.node(node) {
            Node::Union(parts) => {
                todo.extend_from_slice(parts);
                continue;
            }
            Node::JsonString { lang: None, min_chars: 0, max_chars: None } => plain_string(nfa, alphabet),
            Node::JsonString { lang: Some(lang), min_chars: 0, max_chars: None } => {
                string_of(nfa, alphabet, ir, *lang)?
            }
            _ => {
                let mut lowering = RegularLowering::new(ir, nfa, alphabet, false);
                lowering.node(&mut NoCalls, node, ACCEPT, 0)?
            }
        });
    }
    let start = RegularLowering::new(ir, nfa, alphabet, false).union(&starts);
    Ok(trim_text(nfa, from, start))
}

/// Trims the states `from..`, which hold one rule without calls, so that it can be determinised.
fn trim_text(nfa: &mut Nfa, from: NfaId, start: NfaId) -> NfaId {
    let block = StateRange { first: from, trimmed: false };
    let (live, _) = Liveness::solve(nfa, &[], &[], from, &[], Some(&[block])).result();
    trim(nfa, from, &live);
    if start >= from && nfa.state(start) != State::Dead { start } else { DEAD }
}

/// Returns the start of the rule for numbers without bounds.
pub(super) fn free_number(nfa: &mut Nfa, alphabet: &Alphabet, numbers: FreeNumber) -> Result<NfaId> {
    let mut ir = Ir::new();
    let number = number::free(numbers, &mut ir)?;
    RegularLowering::new(Nodes::of(&ir), nfa, alphabet, false).node(&mut NoCalls, number, ACCEPT, 0)
}

/// Returns true if byte `b` out of a state begins a new character of the text. The quote of a
/// string begins none, but in a `raw` text it is a character.
#[inline]
pub(super) fn begins_char(mid_escape: bool, raw: bool, b: u8) -> bool {
    !mid_escape && (raw || b != b'"') && b & 0xc0 != 0x80
}

/// Returns the remaining lengths of the states from `from` on, which are those of one string rule,
/// and the bounds that the language itself does not imply. Returns `None` if no word has a legal
/// length.
pub(super) fn lengths(
    nfa: &Nfa,
    dfa: &mut LazyDfa,
    (from, start): (NfaId, NfaId),
    (min, max): (u32, u32),
    raw: bool,
) -> Result<Option<(u32, u32, Lengths)>> {
    let graph = LengthGraph::new(nfa, from, raw);
    let (shortest, longest) = (graph.shortest(), graph.longest());
    let first = (start - from) as usize;
    let min = if shortest[first] >= min { 0 } else { min };
    let max = if longest[first] <= max { u32::MAX } else { max };
    // If every state may close at once, the count alone decides whether the minimum can be met.
    let closable = shortest.iter().all(|&n| n == 0 || n == u32::MAX);
    let exact = if closable || min == 0 || max == u32::MAX { None } else { Some(graph.exact(max)?) };
    let mut lengths = Lengths::new(from, shortest.into_iter().zip(longest).collect(), exact);
    lengths.uniform = is_uniform(nfa, dfa, start, &lengths);
    Ok(lengths.within(&[start], min, max).then_some((min, max, lengths)))
}

/// Returns true if every deterministic state may close at once and may continue without end. It
/// checks a few states only: patterns for which it holds are loops over a class.
fn is_uniform(nfa: &Nfa, dfa: &mut LazyDfa, start: NfaId, lengths: &Lengths) -> bool {
    let first = dfa.start(nfa, start);
    let mut seen = FxHashSet::from_iter([first]);
    let mut todo = vec![first];
    while let Some(id) = todo.pop() {
        let state = dfa.state(id);
        if !state.only_accepts() && lengths.bounds(state.members()) != (0, u32::MAX) {
            return false;
        }
        for (_, _, to) in dfa.ranges(nfa, id) {
            if seen.insert(to) {
                todo.push(to);
            }
        }
        if seen.len() > MAX_UNIFORM_STATES {
            return false;
        }
    }
    true
}

/// Maximum number of deterministic states of a pattern for which only the count of characters
/// matters.
const MAX_UNIFORM_STATES: usize = 100;

/// The states of one string rule as a graph, the end last, with the characters that each step adds
/// (0 or 1). It is made before determinisation: a set of states can reach what its members can, and
/// there may be many more sets than are ever met.
struct LengthGraph {
    len: usize,
    /// (from, to, characters)
    edges: Vec<(u32, u32, u32)>,
    /// (from, characters) by target.
    into: Incoming<(u32, u32)>,
}

impl LengthGraph {
    fn new(nfa: &Nfa, from: NfaId, raw: bool) -> LengthGraph {
        let len = nfa.len() - from as usize + 1;
        let place = |to: NfaId| if to == ACCEPT { len as u32 - 1 } else { to.wrapping_sub(from) };
        let mut edges: Vec<(u32, u32, u32)> = Vec::with_capacity(len);
        for s in from..nfa.len() as NfaId {
            let mid = nfa.flags(s) & MID_ESCAPE != 0;
            let mut add = |lo: u8, hi: u8, to: NfaId| {
                // A range may hold both bytes that begin a character and bytes that do not.
                for (piece_lo, piece_hi) in [(0, 0x7f), (0x80, 0xbf), (0xc0, 0xff)] {
                    let (lo, hi) = (lo.max(piece_lo), hi.min(piece_hi));
                    if lo <= hi && to != DEAD {
                        edges.push((s - from, place(to), u32::from(begins_char(mid, raw, lo))));
                    }
                }
            };
            match nfa.state(s) {
                State::Byte { lo, hi, to } => add(lo, hi, to),
                State::Sparse(ranges) => ranges.iter().for_each(|&(lo, hi, to)| add(lo, hi, to)),
                State::Union(parts) => {
                    edges.extend(parts.iter().filter(|&&p| p != DEAD).map(|&p| (s - from, place(p), 0)));
                }
                // Text calls nothing.
                _ => {}
            }
        }
        let into = Incoming::new(len, |edge| {
            edges.iter().for_each(|&(from, to, count)| edge(to as usize, (from, count)));
        });
        LengthGraph { len, edges, into }
    }

    /// Returns the minimum number of further characters to the end.
    fn shortest(&self) -> Vec<u32> {
        self.into.shortest([self.len - 1].into_iter(), |e| (e.0 as usize, e.1))
    }

    /// Returns the maximum number of further characters to the end; states that can reach a loop
    /// have none.
    fn longest(&self) -> Vec<u32> {
        let mut open = vec![0; self.len];
        self.edges.iter().for_each(|e| open[e.0 as usize] += 1);
        self.into.longest(open, |e| (e.0 as usize, e.1))
    }

    /// Returns exactly which numbers of further characters up to `max` are possible, as bit sets.
    ///
    /// # Errors
    ///
    /// Returns `TooComplex` beyond the maximum number of bits.
    fn exact(&self, max: u32) -> Result<Vec<Box<[u64]>>> {
        let words = max as usize / 64 + 1;
        if words.saturating_mul(64 * self.len) > MAX_LENGTH_BITS {
            return Err(Error::new(
                ErrorKind::TooComplex,
                format!("minLength and maxLength {max} beside this pattern need more than {MAX_LENGTH_BITS} table bits"),
            )
            .hint("drop minLength, or bound the length inside the pattern"));
        }
        let mut bits: Vec<Box<[u64]>> = vec![vec![0u64; words].into(); self.len];
        let end = self.len - 1;
        bits[end][0] = 1;
        let mut todo = std::collections::VecDeque::from([end]);
        let mut queued = vec![false; self.len];
        while let Some(i) = todo.pop_front() {
            queued[i] = false;
            for &(from, count) in self.into.of(i) {
                let from = from as usize;
                if merge_shifted(&mut bits, from, i, count) && !std::mem::replace(&mut queued[from], true) {
                    todo.push_back(from);
                }
            }
        }
        Ok(bits)
    }
}

/// Computes `bits[to] |= bits[from] << count` (count 0 or 1); returns true if anything was added.
fn merge_shifted(bits: &mut [Box<[u64]>], to: usize, from: usize, count: u32) -> bool {
    // Taken out temporarily; a state adds to itself only what it has, or one character more.
    let source = match to == from {
        true => bits[from].clone(),
        false => std::mem::take(&mut bits[from]),
    };
    let mut carry = 0;
    let mut changed = false;
    for (word, &s) in bits[to].iter_mut().zip(source.iter()) {
        let shifted = if count == 0 { s } else { s << 1 | carry };
        carry = s >> 63;
        changed |= shifted & !*word != 0;
        *word |= shifted;
    }
    if to != from {
        bits[from] = source;
    }
    changed
}

/// Splits a range of bytes into pieces: single bytes with which names continue, or that are the
/// quote, and the ranges between them.
struct Pieces<'n> {
    /// The edges of a node in the trie of names, sorted.
    names: &'n [(u8, u32)],
    quote: Option<u8>,
    /// Start of the next piece.
    next: Option<u8>,
    hi: u8,
}

impl Iterator for Pieces<'_> {
    /// First and last byte, and their target in the trie.
    type Item = (u8, u8, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let lo = self.next.filter(|&lo| lo <= self.hi)?;
        let at = self.names.partition_point(|e| e.0 < lo);
        let single = self.names.get(at).map(|e| e.0);
        let quote = self.quote.filter(|&quote| quote >= lo);
        let stop = [single, quote].into_iter().flatten().min().filter(|&stop| stop <= self.hi);
        let (last, to) = match stop {
            Some(stop) if stop == lo => (lo, if single == Some(lo) { self.names[at].1 } else { OFF_TRIE }),
            Some(stop) => (stop - 1, OFF_TRIE),
            None => (self.hi, OFF_TRIE),
        };
        self.next = last.checked_add(1);
        Some((lo, last, to))
    }
}

/// Returns the string rule at `start` without the words in `names`. States whose text has left the
/// trie of names are those of the rule itself; only the others are new.
pub(super) fn without_names(
    nfa: &mut Nfa,
    dfa: &mut LazyDfa,
    start: NfaId,
    names: &NameTrie,
    raw: bool,
) -> Result<NfaId> {
    let from = nfa.len() as NfaId;
    let first = dfa.start(nfa, start);
    let mut made: FxHashMap<(DfaId, u32), NfaId> = FxHashMap::default();
    let (mut todo, mut edges) = (Vec::new(), Vec::<(u8, u8, NfaId)>::new());
    let entry = nfa.push(State::Dead, dfa.state(first).flags);
    made.insert((first, 0), entry);
    todo.push((first, 0u32));
    while let Some((d, n)) = todo.pop() {
        if made.len() > MAX_NAMED_STATES {
            return Err(too_complex(
                "states in a property name pattern beside declared names",
                MAX_NAMED_STATES,
            ));
        }
        let at = made[&(d, n)];
        if n == OFF_TRIE {
            let set = dfa.members(d).to_vec();
            nfa.set(at, State::Union(&set));
            continue;
        }
        let mid = dfa.state(d).mid_escape();
        edges.clear();
        for (lo, hi, to) in dfa.ranges(nfa, d) {
            // Bytes with which no name continues leave the trie together; a quote ends the text.
            let mut pieces =
                Pieces { names: names.edges(n), quote: (!raw && !mid).then_some(b'"'), next: Some(lo), hi };
            while let Some((lo, hi, m)) = pieces.next() {
                let quote = pieces.quote == Some(lo);
                let target = if quote && dfa.state(to).accept {
                    if names.is_name(n) {
                        continue;
                    }
                    ACCEPT
                } else {
                    let m = if quote { n } else { m };
                    *made.entry((to, m)).or_insert_with(|| {
                        todo.push((to, m));
                        nfa.push(State::Dead, dfa.state(to).flags)
                    })
                };
                match edges.last_mut() {
                    Some(last) if last.2 == target && u16::from(last.1) + 1 == u16::from(lo) => last.1 = hi,
                    _ => edges.push((lo, hi, target)),
                }
            }
        }
        match raw && dfa.state(d).accept && !names.is_name(n) {
            true => {
                let more = nfa.push(State::Sparse(&edges), 0);
                nfa.set(at, State::Union(&[ACCEPT, more]));
            }
            false => nfa.set(at, State::Sparse(&edges)),
        }
    }
    Ok(trim_text(nfa, from, entry))
}
