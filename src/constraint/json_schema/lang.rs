//! Regular languages of decoded text as complete automata over Unicode scalar values: intersection,
//! complement, membership, emptiness, and the way back into the representation.
//!
//! Patterns that must hold together (pattern and format, two patterns, a name that must not match a
//! pattern) need boolean operations that the representation does not have. They are done here: a byte
//! language is determinised over code points (subset construction, cost = states times transitions
//! under [`MAX_STATES`]), combined by products, and turned back by eliminating states in `lang_ir`.
//! Working over bytes was rejected: the complement would have to be cut down to valid UTF-8 and
//! would carry several states per character.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::nfa::{Closure, Nfa};
use crate::constraint::ir::{Ir, NodeId};
use crate::error::{Error, ErrorKind, Result};

/// Most states of one automaton over code points.
pub(super) const MAX_STATES: usize = 4_000;
/// Most transitions of one automaton.
const MAX_RANGES: usize = 200_000;
/// Most sets of automaton states during determinisation.
const MAX_SETS: usize = 40_000;

/// The Unicode scalar values.
pub(in crate::constraint) const SCALARS: [(u32, u32); 2] = [(0, 0xD7FF), (0xE000, 0x10FFFF)];

/// One transition: the code points `lo..=hi` lead to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::constraint) struct Range {
    pub lo: u32,
    pub hi: u32,
    pub to: u32,
}

/// A complete deterministic automaton; state 0 is the start.
#[derive(Debug, Clone)]
pub(in crate::constraint) struct Dfa {
    pub accept: Vec<bool>,
    /// Sorted ranges that cover all scalar values.
    pub rows: Vec<Vec<Range>>,
}

/// Adds a range to a row, merging it with its neighbour.
pub(super) fn add(row: &mut Vec<Range>, lo: u32, hi: u32, to: u32) {
    if let Some(last) = row.last_mut()
        && last.to == to
        && last.hi + 1 == lo
    {
        last.hi = hi;
        return;
    }
    row.push(Range { lo, hi, to });
}

pub(super) fn too_large(what: &str, limit: usize) -> Error {
    Error::new(
        ErrorKind::TooComplex,
        format!("combining patterns needs more than {limit} {what}; the limit cannot be raised here"),
    )
}

impl Dfa {
    /// The automaton of a regular node.
    pub fn of(ir: &Ir, node: NodeId) -> Result<Dfa> {
        Dfa::from_nfa(&Nfa::new(ir, node)?)
    }

    /// The automaton of a byte language; invalid UTF-8 in it is dropped.
    pub(super) fn from_nfa(nfa: &Nfa) -> Result<Dfa> {
        Determinise {
            nfa,
            sets: FxHashMap::default(),
            list: Vec::new(),
            steps: Vec::new(),
            tails: FxHashMap::default(),
            scratch: Closure::default(),
        }
        .run()
    }

    /// Exactly these words.
    pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Dfa> {
        let mut trie: Vec<(FxHashMap<u32, u32>, bool)> = vec![(FxHashMap::default(), false)];
        for word in words {
            let mut at = 0usize;
            for c in word.chars() {
                let next = trie.len() as u32;
                at = *trie[at].0.entry(c as u32).or_insert(next) as usize;
                if at == next as usize {
                    trie.push((FxHashMap::default(), false));
                }
                if trie.len() > MAX_STATES {
                    return Err(too_large("states", MAX_STATES));
                }
            }
            trie[at].1 = true;
        }
        let sink = trie.len() as u32;
        let mut rows = Vec::with_capacity(trie.len() + 1);
        for (children, _) in &trie {
            let mut edges: Vec<(u32, u32)> = children.iter().map(|(&c, &t)| (c, t)).collect();
            edges.sort_unstable();
            let mut row = Vec::new();
            for (lo, hi) in SCALARS {
                let mut from = lo;
                for &(c, to) in edges.iter().filter(|e| (lo..=hi).contains(&e.0)) {
                    if c > from {
                        add(&mut row, from, c - 1, sink);
                    }
                    add(&mut row, c, c, to);
                    from = c + 1;
                }
                if from <= hi {
                    add(&mut row, from, hi, sink);
                }
            }
            rows.push(row);
        }
        rows.push(SCALARS.iter().map(|&(lo, hi)| Range { lo, hi, to: sink }).collect());
        let mut accept: Vec<bool> = trie.iter().map(|t| t.1).collect();
        accept.push(false);
        Ok(Dfa { accept, rows })
    }

    /// Texts of `min` to `max` characters.
    pub fn lengths(min: u32, max: Option<u32>) -> Dfa {
        let last = max.map_or(min, |m| m.max(min).saturating_add(1));
        let row = |to: u32| SCALARS.iter().map(|&(lo, hi)| Range { lo, hi, to }).collect();
        Dfa {
            accept: (0..=last).map(|n| n >= min && max.is_none_or(|m| n <= m)).collect(),
            rows: (0..=last).map(|n| row((n + 1).min(last))).collect(),
        }
    }

    pub fn matches(&self, text: &str) -> bool {
        let mut at = 0;
        for c in text.chars() {
            let row = &self.rows[at as usize];
            let i = row.partition_point(|r| r.hi < c as u32);
            at = row[i].to;
        }
        self.accept[at as usize]
    }

    pub fn complement(mut self) -> Dfa {
        for accept in &mut self.accept {
            *accept = !*accept;
        }
        self
    }

    /// Texts in both languages. Pairs of states with a dead one are one state, without which the products
    /// of long chains would be several times larger.
    pub fn intersect(&self, other: &Dfa) -> Result<Dfa> {
        const SINK: (u32, u32) = (u32::MAX, u32::MAX);
        let (alive, other_alive) = (self.live(), other.live());
        let mut ids: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut pairs = vec![(0u32, 0u32)];
        ids.insert((0, 0), 0);
        let mut product = Dfa { accept: Vec::new(), rows: Vec::new() };
        let mut ranges = 0;
        while let Some(&(a, b)) = pairs.get(product.rows.len()) {
            if (a, b) == SINK {
                let to = product.rows.len() as u32;
                product.accept.push(false);
                product.rows.push(SCALARS.iter().map(|&(lo, hi)| Range { lo, hi, to }).collect());
                continue;
            }
            let (x, y) = (&self.rows[a as usize], &other.rows[b as usize]);
            let (mut i, mut j, mut row) = (0, 0, Vec::with_capacity(x.len().max(y.len())));
            while i < x.len() && j < y.len() {
                let (lo, hi) = (x[i].lo.max(y[j].lo), x[i].hi.min(y[j].hi));
                if lo <= hi {
                    let dead = !alive[x[i].to as usize] || !other_alive[y[j].to as usize];
                    let pair = if dead { SINK } else { (x[i].to, y[j].to) };
                    let next = pairs.len() as u32;
                    let to = *ids.entry(pair).or_insert(next);
                    if to == next {
                        pairs.push(pair);
                    }
                    add(&mut row, lo, hi, to);
                }
                if x[i].hi < y[j].hi { i += 1 } else { j += 1 }
            }
            ranges += row.len();
            if pairs.len() > MAX_STATES * 4 || ranges > MAX_RANGES {
                return Err(too_large("states", MAX_STATES * 4));
            }
            product.accept.push(self.accept[a as usize] && other.accept[b as usize]);
            product.rows.push(row);
        }
        // Most products are hardly larger than their factors, and only the last of a chain is written
        // out, which minimises it.
        if product.rows.len() > 2 * (self.rows.len() + other.rows.len()) {
            return product.minimise();
        }
        Ok(product)
    }

    /// The states that lead to each state.
    pub(super) fn incoming(&self) -> Incoming {
        let mut first = vec![0u32; self.rows.len() + 1];
        let edges =
            || self.rows.iter().zip(0u32..).flat_map(|(row, from)| row.iter().map(move |r| (from, r.to)));
        edges().for_each(|(_, to)| first[to as usize + 1] += 1);
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut next = first.clone();
        let mut from = vec![0; first[self.rows.len()] as usize];
        edges().for_each(|(q, to)| {
            from[next[to as usize] as usize] = q;
            next[to as usize] += 1;
        });
        Incoming { first, from }
    }

    /// Which states reach acceptance.
    pub fn live(&self) -> Vec<bool> {
        let back = self.incoming();
        let mut live = self.accept.clone();
        let mut todo: Vec<u32> = (0..live.len() as u32).filter(|&q| live[q as usize]).collect();
        while let Some(q) = todo.pop() {
            for &p in back.of(q) {
                if !live[p as usize] {
                    live[p as usize] = true;
                    todo.push(p);
                }
            }
        }
        live
    }

    pub fn is_empty(&self) -> bool {
        !self.live()[0]
    }

    /// Whether every text is accepted.
    pub fn is_everything(&self) -> bool {
        self.accept.iter().all(|&a| a)
    }

    /// Whether there are endlessly many words: a loop through live states.
    fn is_endless(&self, live: &[bool]) -> bool {
        // A state, and which of its ways on is next; 0: not met, 1: on the path, 2: done.
        let (mut path, mut met) = (vec![(0u32, 0usize)], vec![0u8; live.len()]);
        while let Some(&mut (q, ref mut next)) = path.last_mut() {
            met[q as usize] = 1;
            let Some(range) = self.rows[q as usize].get(*next) else {
                met[q as usize] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            match met[range.to as usize] {
                _ if !live[range.to as usize] => {}
                0 => path.push((range.to, 0)),
                1 => return true,
                _ => {}
            }
        }
        false
    }

    /// All words, if there are at most `limit`.
    pub fn finite(&self, limit: usize) -> Option<Vec<String>> {
        let live = self.live();
        if self.is_endless(&live) {
            return None;
        }
        let mut words = Vec::new();
        let mut layer: Vec<(u32, String)> = if live[0] { vec![(0, String::new())] } else { vec![] };
        for _ in 0..=self.rows.len() {
            let mut next = Vec::new();
            for (q, word) in layer {
                if self.accept[q as usize] {
                    words.push(word.clone());
                }
                for range in self.rows[q as usize].iter().filter(|r| live[r.to as usize]) {
                    if (range.hi - range.lo) as usize + next.len() + words.len() > limit {
                        return None;
                    }
                    for c in (range.lo..=range.hi).filter_map(char::from_u32) {
                        let mut longer = word.clone();
                        longer.push(c);
                        next.push((range.to, longer));
                    }
                }
            }
            if next.is_empty() {
                return (words.len() <= limit).then_some(words);
            }
            layer = next;
        }
        None
    }
}

/// Transitions by their target, one list after the other.
pub(super) struct Incoming {
    first: Vec<u32>,
    from: Vec<u32>,
}

impl Incoming {
    pub(super) fn of(&self, to: u32) -> &[u32] {
        &self.from[self.first[to as usize] as usize..self.first[to as usize + 1] as usize]
    }
}

/// Byte ranges and the sets they lead to.
type Steps = Rc<[(u8, u8, u32)]>;

/// The subset construction over code points.
struct Determinise<'a> {
    nfa: &'a Nfa,
    sets: FxHashMap<Rc<[u32]>, u32>,
    list: Vec<Rc<[u32]>>,
    /// Per set, its byte transitions once they are known; bytes that are missing lead nowhere.
    steps: Vec<Option<Steps>>,
    /// By set and number of continuation bytes: where they lead.
    tails: FxHashMap<(u32, u32), Rc<[Range]>>,
    scratch: Closure,
}

/// A set that no word leaves: the id of the empty set.
const DEAD: u32 = 0;

impl Determinise<'_> {
    fn run(mut self) -> Result<Dfa> {
        self.set(&[])?;
        let start = self.closed(&[self.nfa.start])?;
        let mut ids: FxHashMap<u32, u32> = FxHashMap::default();
        let mut states = vec![start];
        ids.insert(start, 0);
        let mut dfa = Dfa { accept: Vec::new(), rows: Vec::new() };
        let mut ranges = 0;
        while let Some(&set) = states.get(dfa.rows.len()) {
            let row = self.row(set)?;
            let row: Vec<Range> = row
                .into_iter()
                .map(|r| {
                    let next = states.len() as u32;
                    let to = *ids.entry(r.to).or_insert(next);
                    if to == next {
                        states.push(r.to);
                    }
                    Range { to, ..r }
                })
                .collect();
            ranges += row.len();
            if states.len() > MAX_STATES || ranges > MAX_RANGES {
                return Err(too_large("states", MAX_STATES));
            }
            dfa.accept.push(self.list[set as usize].contains(&self.nfa.accept));
            dfa.rows.push(row);
        }
        dfa.minimise()
    }

    /// The set of the states reachable by free moves.
    fn closed(&mut self, from: &[u32]) -> Result<u32> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let set = self.set(self.nfa.closure(from, &mut scratch));
        self.scratch = scratch;
        set
    }

    fn set(&mut self, states: &[u32]) -> Result<u32> {
        if let Some(&id) = self.sets.get(states) {
            return Ok(id);
        }
        if self.list.len() >= MAX_SETS {
            return Err(too_large("sets of states", MAX_SETS));
        }
        let id = self.list.len() as u32;
        let states: Rc<[u32]> = states.into();
        self.list.push(states.clone());
        self.sets.insert(states, id);
        self.steps.push(None);
        Ok(id)
    }

    /// The byte transitions of a set, sorted and disjoint.
    fn step(&mut self, set: u32) -> Result<Steps> {
        if let Some(known) = &self.steps[set as usize] {
            return Ok(known.clone());
        }
        let states = self.list[set as usize].clone();
        let mut cuts: SmallVec<[u16; 32]> = SmallVec::new();
        for &q in states.iter() {
            for &(lo, hi, _) in &self.nfa.states[q as usize].ranges {
                cuts.push(u16::from(lo));
                cuts.push(u16::from(hi) + 1);
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let (mut steps, mut targets) = (Vec::new(), Vec::new());
        for pair in cuts.windows(2) {
            let (lo, hi) = (pair[0] as u8, (pair[1] - 1) as u8);
            targets.clear();
            for &q in states.iter() {
                let ranges = &self.nfa.states[q as usize].ranges;
                targets.extend(ranges.iter().filter(|r| r.0 <= lo && hi <= r.1).map(|r| r.2));
            }
            if !targets.is_empty() {
                steps.push((lo, hi, self.closed(&targets)?));
            }
        }
        let steps: Steps = steps.into();
        self.steps[set as usize] = Some(steps.clone());
        Ok(steps)
    }

    /// The code point transitions of a set.
    fn row(&mut self, set: u32) -> Result<Vec<Range>> {
        let mut found: Vec<Range> = Vec::new();
        for &(lo, hi, to) in self.step(set)?.iter() {
            if lo < 0x80 {
                found.push(Range { lo: lo.into(), hi: hi.min(0x7F).into(), to });
            }
            for lead in lo.max(0xC2)..=hi.min(0xF4) {
                // Overlong forms and values beyond Unicode are not text.
                let (bits, more, least) = match lead {
                    0xC2..=0xDF => (u32::from(lead & 0x1F), 1, 0x80),
                    0xE0..=0xEF => (u32::from(lead & 0x0F), 2, 0x800),
                    _ => (u32::from(lead & 0x07), 3, 0x10000),
                };
                let base = bits << (6 * more);
                for &r in self.tail(to, more)?.iter() {
                    let (lo, hi) = ((base + r.lo).max(least), (base + r.hi).min(0x10FFFF));
                    if lo <= hi {
                        found.push(Range { lo, hi, to: r.to });
                    }
                }
            }
        }
        found.retain(|r| r.to != DEAD);
        found.sort_unstable_by_key(|r| r.lo);
        let mut row = Vec::new();
        for (lo, hi) in SCALARS {
            let mut from = lo;
            for r in found.iter().filter(|r| r.lo <= hi && r.hi >= lo) {
                let (a, b) = (r.lo.max(lo), r.hi.min(hi));
                if a > from {
                    add(&mut row, from, a - 1, DEAD);
                }
                add(&mut row, a, b, r.to);
                from = b + 1;
            }
            if from <= hi {
                add(&mut row, from, hi, DEAD);
            }
        }
        Ok(row)
    }

    /// What `more` continuation bytes do to a set, by the value of their payload bits.
    fn tail(&mut self, set: u32, more: u32) -> Result<Rc<[Range]>> {
        if let Some(known) = self.tails.get(&(set, more)) {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        for &(lo, hi, to) in self.step(set)?.iter() {
            let (lo, hi) = (lo.max(0x80), hi.min(0xBF));
            if lo > hi {
                continue;
            }
            let (first, last) = (u32::from(lo & 0x3F), u32::from(hi & 0x3F));
            if more == 1 {
                add(&mut found, first, last, to);
                continue;
            }
            let rest = self.tail(to, more - 1)?;
            for payload in first..=last {
                let base = payload << (6 * (more - 1));
                for r in rest.iter() {
                    add(&mut found, base + r.lo, base + r.hi, r.to);
                }
            }
        }
        let found: Rc<[Range]> = found.into();
        self.tails.insert((set, more), found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::ir::{Ir, Node};

    fn dfa(build: impl FnOnce(&mut Ir) -> crate::constraint::ir::NodeId) -> Dfa {
        let mut ir = Ir::new();
        let node = build(&mut ir);
        Dfa::from_nfa(&Nfa::new(&ir, node).unwrap()).unwrap()
    }

    #[test]
    fn code_points_of_every_length() {
        let texts = ["a", "é", "€", "😀", "\u{10FFFF}", "\u{D7FF}", "\u{E000}"];
        for text in texts {
            let d = dfa(|ir| ir.bytes(text));
            for other in texts {
                assert_eq!(d.matches(other), text == other, "{text} {other}");
                assert_eq!(d.clone().complement().matches(other), text != other);
            }
            assert_eq!(d.finite(3), Some(vec![text.to_string()]));
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_dropped() {
        // Overlong slash, a surrogate, a value beyond Unicode, a lone continuation byte.
        for bad in [
            &b"\xC0\xAF"[..],
            b"\xE0\x80\xAF",
            b"\xED\xA0\x80",
            b"\xF4\x90\x80\x80",
            b"\x80",
            b"\xF0\x80\x80\xAF",
        ] {
            let d = dfa(|ir| ir.bytes(bad));
            assert!(d.is_empty(), "{bad:x?}");
        }
    }

    #[test]
    fn products_and_words() {
        let letters = dfa(|ir| {
            let c = ir.push(Node::Class(smallvec::smallvec![(b'a', b'c')]));
            ir.repeat(c, 1, Some(3))
        });
        let words = Dfa::words(["ab", "abcd", "x", "c", ""]).unwrap();
        let mut both = letters.intersect(&words).unwrap().finite(10).unwrap();
        both.sort();
        assert_eq!(both, ["ab", "c"]);
        let none = letters.intersect(&letters.clone().complement()).unwrap();
        assert!(none.is_empty());
        assert!(!words.is_everything());
        assert!(none.complement().is_everything());
    }
}
