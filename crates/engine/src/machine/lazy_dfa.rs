//! Lazy determinisation: sets of automaton states become numbered states with a transition table.
//!
//! The subset construction (Rabin and Scott 1959) makes one state at a time, when a walk first
//! visits it. States are never dropped, so ids stay valid for the life of a grammar. Most states of
//! a JSON grammar are inside a literal and have one transition. So transitions are a short list of
//! ranges where that is enough, and a table of 256 entries elsewhere.
//!
//! # Alternatives considered
//!
//! The lazy DFA of `regex-automata`: its ids change when its cache is cleared, and it has no calls.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::byte_set::ByteSet;

use super::nfa::{ACCEPT, Call, MID_ESCAPE, Nfa, NfaId, QUOTE, State, TEXT};

/// Index of a deterministic state.
pub(super) type DfaId = u32;

/// The deterministic state without transitions.
pub(super) const DEAD_STATE: DfaId = 0;

#[derive(Debug, Clone)]
enum Table {
    Unknown,
    /// Usually one or two ranges.
    Ranges(SmallVec<[(u8, u8, DfaId); 2]>),
    Dense(Arc<Dense>),
}

/// A state with many transitions.
#[derive(Debug)]
struct Dense {
    row: [DfaId; 256],
    /// The bytes with a transition.
    bytes: ByteSet,
}

impl Table {
    fn bytes(&self) -> usize {
        match self {
            Table::Unknown => 0,
            Table::Ranges(ranges) => spilled(ranges),
            Table::Dense(table) => size_of_val(&**table),
        }
    }
}

/// Returns the bytes of a list that are not stored inline.
fn spilled<A: smallvec::Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() { list.capacity() * size_of::<A::Item>() } else { 0 }
}

/// One deterministic state. Its lists are usually short and stored inline.
#[derive(Debug, Clone)]
pub(super) struct DState {
    set: SmallVec<[NfaId; 4]>,
    /// Calls that start here.
    pub calls: SmallVec<[Call; 1]>,
    /// True if the rule has matched here.
    pub accept: bool,
    /// True if some byte can be consumed here.
    pub scans: bool,
    /// Union of the flags of the automaton states.
    pub flags: u8,
}

impl DState {
    /// Returns true if the state does nothing but end its rule.
    #[inline]
    pub(super) fn only_accepts(&self) -> bool {
        self.accept && !self.scans && self.calls.is_empty()
    }

    /// Returns the automaton states of the set.
    pub(super) fn members(&self) -> &[NfaId] {
        &self.set
    }

    /// Returns true if the next byte is inside an escape sequence.
    #[inline]
    pub(super) fn mid_escape(&self) -> bool {
        self.flags & MID_ESCAPE != 0
    }

    /// Returns true if the next byte is text of a JSON string, or closes it.
    #[inline]
    pub(super) fn in_text(&self) -> bool {
        self.flags & TEXT != 0
    }
}

/// The deterministic states made so far: those of a base, which its grammars share, and its own.
#[derive(Debug, Clone)]
pub(super) struct LazyDfa {
    base: Arc<States>,
    /// Number of states of the base.
    first: usize,
    own: States,
    /// By state: whether it accepts or calls, and whether it calls. Walks read these, so they are
    /// stored apart from the rest for the sake of the cache.
    busy: Vec<bool>,
    calling: Vec<bool>,
    /// By automaton state: one plus the state of its closure, or 0 if there is none outside of the
    /// base. A table of zeros costs nothing before it is used.
    single: Vec<DfaId>,
    stamp: Vec<u32>,
    round: u32,
    /// Bytes of the lists and tables of its own states.
    heap: usize,
}

/// States, and the index to find them.
#[derive(Debug, Clone, Default)]
struct States {
    list: Vec<DState>,
    /// Transitions of the states. Those of the base are not copied, because counting references to
    /// each table would take a considerable part of the time to compile a small schema.
    tables: Vec<Table>,
    /// The states of the list, by their automaton states.
    index: HashTable<DfaId>,
    /// Of a base, by automaton state: see [`LazyDfa::single`].
    single: Vec<DfaId>,
}

/// Returns the hash of a set of automaton states.
fn hash(set: &[NfaId]) -> u64 {
    FxBuildHasher.hash_one(set)
}

impl States {
    /// Returns the state of a set, if there is one; `first` is the number of the first state in the
    /// list.
    fn find(&self, set: &[NfaId], hash: u64, first: usize) -> Option<DfaId> {
        self.index.find(hash, |&id| self.list[id as usize - first].set[..] == *set).copied()
    }
}

impl Default for LazyDfa {
    fn default() -> Self {
        let none =
            DState { set: SmallVec::new(), calls: SmallVec::new(), accept: false, scans: false, flags: 0 };
        let mut index = HashTable::new();
        index.insert_unique(hash(&[]), DEAD_STATE, |_| hash(&[]));
        LazyDfa {
            base: Arc::default(),
            first: 0,
            own: States {
                list: vec![none],
                tables: vec![Table::Ranges(SmallVec::new())],
                index,
                single: vec![],
            },
            busy: vec![false],
            calling: vec![false],
            single: Vec::new(),
            stamp: Vec::new(),
            round: 0,
            heap: 0,
        }
    }
}

impl LazyDfa {
    /// Makes the present states the base of others. All transitions must be known: see
    /// [`Program::determinise`](crate::machine::Program::determinise).
    pub(super) fn freeze(&mut self) {
        let mut base = std::mem::take(&mut self.own);
        base.single = std::mem::take(&mut self.single);
        self.first = base.list.len();
        self.base = Arc::new(base);
        self.stamp = Vec::new();
        self.round = 0;
    }

    /// Returns the bytes of its own states, without those of the base.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.own.tables.capacity() * size_of::<Table>() + self.busy.capacity() * 2;
        let own = self.own.list.capacity() * size_of::<DState>() + self.own.index.capacity() * 5;
        lists + own + (self.single.capacity() + self.stamp.capacity()) * 4 + self.heap
    }

    /// Returns the bytes of the base.
    pub(super) fn base_bytes(&self) -> usize {
        let states = self.base.list.iter().map(|s| spilled(&s.set) + spilled(&s.calls));
        let list = self.base.list.capacity() * size_of::<DState>();
        let tables = self.base.tables.iter().map(|t| size_of::<Table>() + t.bytes());
        states.sum::<usize>() + list + tables.sum::<usize>() + self.base.index.capacity() * 5
    }

    /// Returns a copy without its own states.
    pub(super) fn renewed(&self) -> LazyDfa {
        if self.first == 0 {
            return LazyDfa::default();
        }
        LazyDfa {
            base: self.base.clone(),
            first: self.first,
            own: States::default(),
            busy: self.busy[..self.first].to_vec(),
            calling: self.calling[..self.first].to_vec(),
            single: Vec::new(),
            stamp: Vec::new(),
            round: 0,
            heap: 0,
        }
    }

    /// Returns a state.
    #[inline]
    pub(super) fn state(&self, id: DfaId) -> &DState {
        match (id as usize).checked_sub(self.first) {
            Some(own) => &self.own.list[own],
            None => &self.base.list[id as usize],
        }
    }

    #[inline]
    fn table(&self, id: DfaId) -> &Table {
        match (id as usize).checked_sub(self.first) {
            Some(own) => &self.own.tables[own],
            None => &self.base.tables[id as usize],
        }
    }

    /// Returns true if entering a state needs more than noting it: it accepts or calls.
    #[inline]
    pub(super) fn is_busy(&self, id: DfaId) -> bool {
        self.busy[id as usize]
    }

    /// Returns true if a state calls a rule.
    #[inline]
    pub(super) fn calls(&self, id: DfaId) -> bool {
        self.calling[id as usize]
    }

    /// Returns the automaton states of a state.
    pub(super) fn members(&self, id: DfaId) -> &[NfaId] {
        &self.state(id).set
    }

    /// Returns the number of states made so far.
    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }

    /// Returns the state of the closure of one automaton state.
    pub(super) fn start(&mut self, nfa: &Nfa, state: NfaId) -> DfaId {
        let at = state as usize;
        if let Some(&known) = self.base.single.get(at)
            && known != 0
        {
            return known - 1;
        }
        if self.single.is_empty() {
            self.single = vec![0; nfa.len()];
        } else if self.single.len() < nfa.len() {
            self.single.resize(nfa.len(), 0);
        }
        let known = self.single[at];
        if known != 0 {
            return known - 1;
        }
        let id = self.closure(nfa, &[state]);
        self.single[at] = id + 1;
        id
    }

    /// Returns the target of byte `b` from `id`, or [`DEAD_STATE`].
    #[inline]
    pub(super) fn step(&mut self, nfa: &Nfa, id: DfaId, b: u8) -> DfaId {
        match self.table(id) {
            Table::Dense(table) => table.row[b as usize],
            Table::Ranges(ranges) => {
                for &(lo, hi, to) in ranges.iter() {
                    if b <= hi {
                        return if lo <= b { to } else { DEAD_STATE };
                    }
                }
                DEAD_STATE
            }
            Table::Unknown => {
                self.expand(nfa, id);
                self.step(nfa, id, b)
            }
        }
    }

    /// Returns the transitions of `id`, which are known then.
    #[inline]
    fn expanded(&mut self, nfa: &Nfa, id: DfaId) -> &Table {
        if matches!(self.table(id), Table::Unknown) {
            self.expand(nfa, id);
        }
        self.table(id)
    }

    /// Returns the bytes that `id` accepts.
    pub(super) fn live(&mut self, nfa: &Nfa, id: DfaId) -> ByteSet {
        let mut bytes = ByteSet::default();
        match self.expanded(nfa, id) {
            Table::Ranges(ranges) => ranges.iter().for_each(|&(lo, hi, _)| bytes.insert(lo, hi)),
            Table::Dense(table) => bytes = table.bytes,
            Table::Unknown => {}
        }
        bytes
    }

    /// Returns the target of each byte from `id`.
    pub(super) fn row(&mut self, nfa: &Nfa, id: DfaId) -> [DfaId; 256] {
        let mut row = [DEAD_STATE; 256];
        match self.expanded(nfa, id) {
            Table::Ranges(ranges) => {
                ranges.iter().for_each(|&(lo, hi, to)| row[lo as usize..=hi as usize].fill(to))
            }
            Table::Dense(table) => return table.row,
            Table::Unknown => {}
        }
        row
    }

    /// Returns whether byte `b` continues a span of a source, and if so, whether the span is text
    /// of a JSON string.
    pub(super) fn quotes(&self, nfa: &Nfa, id: DfaId, b: u8) -> Option<bool> {
        let reads = |&&s: &&NfaId| match nfa.state(s) {
            State::Byte { lo, hi, .. } => (lo..=hi).contains(&b),
            State::Sparse(ranges) => ranges.iter().any(|&(lo, hi, _)| (lo..=hi).contains(&b)),
            _ => false,
        };
        let span = self.members(id).iter().filter(|&&s| nfa.flags(s) & QUOTE != 0).find(reads)?;
        Some(nfa.flags(*span) & TEXT != 0)
    }

    /// Returns the byte ranges that `id` accepts, in order.
    pub(super) fn ranges(&mut self, nfa: &Nfa, id: DfaId) -> Vec<(u8, u8, DfaId)> {
        match self.expanded(nfa, id) {
            Table::Ranges(ranges) => ranges.to_vec(),
            Table::Dense(table) => {
                let mut ranges: Vec<(u8, u8, DfaId)> = Vec::new();
                for (b, &to) in table.row.iter().enumerate().filter(|e| *e.1 != DEAD_STATE) {
                    match ranges.last_mut() {
                        Some(last) if last.2 == to && last.1 as usize + 1 == b => last.1 = b as u8,
                        _ => ranges.push((b as u8, b as u8, to)),
                    }
                }
                ranges
            }
            Table::Unknown => Vec::new(),
        }
    }

    /// Returns the deterministic state of the epsilon closure of `from`.
    fn closure(&mut self, nfa: &Nfa, from: &[NfaId]) -> DfaId {
        if self.stamp.is_empty() {
            self.stamp = vec![0; nfa.len()];
        } else if self.stamp.len() < nfa.len() {
            self.stamp.resize(nfa.len(), 0);
        }
        self.round += 1;
        let mut set: SmallVec<[NfaId; 16]> = SmallVec::new();
        let mut todo: SmallVec<[NfaId; 16]> = SmallVec::from_slice(from);
        while let Some(s) = todo.pop() {
            if std::mem::replace(&mut self.stamp[s as usize], self.round) == self.round {
                continue;
            }
            match nfa.state(s) {
                State::Dead => {}
                State::Union(parts) => todo.extend_from_slice(parts),
                _ => set.push(s),
            }
        }
        set.sort_unstable();
        self.intern(nfa, &set)
    }

    fn intern(&mut self, nfa: &Nfa, set: &[NfaId]) -> DfaId {
        let hashed = hash(set);
        let known = self.base.find(set, hashed, 0).or_else(|| self.own.find(set, hashed, self.first));
        if let Some(id) = known {
            return id;
        }
        let set: SmallVec<[NfaId; 4]> = SmallVec::from_slice(set);
        let id = self.busy.len() as DfaId;
        let mut flags = 0;
        let mut scans = false;
        let mut calls: SmallVec<[Call; 1]> = SmallVec::new();
        for &s in set.iter() {
            flags |= nfa.flags(s);
            match nfa.state(s) {
                State::Byte { .. } | State::Sparse(_) => scans = true,
                State::Call(call) => calls.push(call),
                _ => {}
            }
        }
        self.busy.push(!calls.is_empty() || set.contains(&ACCEPT));
        self.calling.push(!calls.is_empty());
        #[cfg(test)]
        crate::fault::pass(crate::fault::Point::State);
        self.own.tables.push(if scans { Table::Unknown } else { self.table(DEAD_STATE).clone() });
        self.heap += spilled(&set) + spilled(&calls);
        self.own.list.push(DState { accept: set.contains(&ACCEPT), set, calls, scans, flags });
        let States { list, index, .. } = &mut self.own;
        let first = self.first;
        index.insert_unique(hashed, id, |&id| hash(&list[id as usize - first].set));
        id
    }

    /// Computes the transitions of a state.
    fn expand(&mut self, nfa: &Nfa, id: DfaId) {
        let set = self.state(id).set.clone();
        let mut edges: SmallVec<[(u8, u8, NfaId); 16]> = SmallVec::new();
        for &s in set.iter() {
            match nfa.state(s) {
                State::Byte { lo, hi, to } => edges.push((lo, hi, to)),
                State::Sparse(ranges) => edges.extend_from_slice(ranges),
                _ => {}
            }
        }
        let ranges = self.split(nfa, &mut edges);
        let table = if ranges.len() <= 4 {
            Table::Ranges(SmallVec::from_slice(&ranges))
        } else {
            let (mut row, mut bytes) = ([DEAD_STATE; 256], ByteSet::default());
            for &(lo, hi, to) in &ranges {
                row[lo as usize..=hi as usize].fill(to);
                bytes.insert(lo, hi);
            }
            Table::Dense(Arc::new(Dense { row, bytes }))
        };
        self.heap += table.bytes();
        // Those of a base are all known.
        self.own.tables[id as usize - self.first] = table;
    }

    /// Cuts overlapping edges into disjoint ranges with one target each.
    fn split(&mut self, nfa: &Nfa, edges: &mut [(u8, u8, NfaId)]) -> SmallVec<[(u8, u8, DfaId); 8]> {
        edges.sort_unstable();
        let mut cuts: SmallVec<[u16; 32]> =
            edges.iter().flat_map(|&(lo, hi, _)| [u16::from(lo), u16::from(hi) + 1]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut ranges: SmallVec<[(u8, u8, DfaId); 8]> = SmallVec::new();
        let mut active: SmallVec<[(u8, NfaId); 16]> = SmallVec::new();
        let mut next = 0;
        let mut targets: SmallVec<[NfaId; 16]> = SmallVec::new();
        // In a search for a word, most of the ranges between its letters have the same target. Its
        // closure is made once.
        let mut met: SmallVec<[(SmallVec<[NfaId; 8]>, DfaId); 8]> = SmallVec::new();
        for pair in cuts.windows(2) {
            let (lo, hi) = (pair[0] as u8, (pair[1] - 1) as u8);
            active.retain(|&mut (end, _)| end >= lo);
            while next < edges.len() && edges[next].0 <= lo {
                active.push((edges[next].1, edges[next].2));
                next += 1;
            }
            targets.clear();
            targets.extend(active.iter().map(|a| a.1));
            targets.sort_unstable();
            targets.dedup();
            let to = match targets[..] {
                [] => DEAD_STATE,
                [one] => self.start(nfa, one),
                _ => match met.iter().find(|(known, _)| known[..] == targets[..]) {
                    Some(&(_, to)) => to,
                    None => {
                        let to = self.closure(nfa, &targets);
                        met.push((SmallVec::from_slice(&targets), to));
                        to
                    }
                },
            };
            if to == DEAD_STATE {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.2 == to && u16::from(last.1) + 1 == u16::from(lo) => last.1 = hi,
                _ => ranges.push((lo, hi, to)),
            }
        }
        ranges
    }
}
