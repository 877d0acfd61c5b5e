//! Lazy determinisation: sets of automaton states become numbered states with a transition table.
//!
//! The subset construction (Rabin and Scott 1959) is done one state at a time, when a walk first
//! looks at it, and never thrown away: ids stay valid for the life of a grammar. Most states of a
//! JSON grammar are inside a literal and have one way out, so transitions are a short list of ranges
//! where that is enough and a 256-entry table elsewhere. `regex-automata`'s lazy DFA was not used
//! here because its ids change when its cache is cleared, and because it knows no calls.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::byte_set::ByteSet;

use super::nfa::{ACCEPT, GuardKind, MID_ESCAPE, Nfa, NfaId, QUOTE, RegisterIx, RuleIx, State, TEXT};

/// Index of a deterministic state.
pub type DfaId = u32;

/// The deterministic state without any way on.
pub const DEAD_STATE: DfaId = 0;

/// A call out of a deterministic state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A fixed rule; the automaton state is where to go on.
    Rule(RuleIx, RegisterIx, NfaId),
    /// The array item that the register says is next.
    Item(NfaId),
    /// A text that must be new to the object.
    Fresh(RuleIx, RegisterIx, NfaId),
    /// No call: goes on in the state if the object's register allows it.
    Guard(GuardKind, NfaId),
}

impl Call {
    /// Where it goes on.
    pub fn to(&self) -> NfaId {
        match *self {
            Call::Rule(_, _, to) | Call::Item(to) | Call::Fresh(_, _, to) | Call::Guard(_, to) => to,
        }
    }
}

#[derive(Debug, Clone)]
enum Table {
    Unknown,
    /// Mostly one or two.
    Ranges(SmallVec<[(u8, u8, DfaId); 2]>),
    Dense(Arc<Dense>),
}

/// A state with many ways on.
#[derive(Debug)]
struct Dense {
    row: [DfaId; 256],
    /// The bytes with a way on.
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

/// Bytes of a list that are not in the list itself.
fn spilled<A: smallvec::Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() { list.capacity() * size_of::<A::Item>() } else { 0 }
}

/// One deterministic state. What it holds is mostly little, and lies in it.
#[derive(Debug, Clone)]
pub struct DState {
    set: SmallVec<[NfaId; 4]>,
    /// Calls that start here.
    pub calls: SmallVec<[Call; 1]>,
    /// Whether the rule has matched here.
    pub accept: bool,
    /// Whether some byte can be consumed here.
    pub scans: bool,
    /// Union of the flags of the automaton states.
    pub flags: u8,
}

impl DState {
    /// Whether the state does nothing but end its rule.
    #[inline]
    pub fn only_accepts(&self) -> bool {
        self.accept && !self.scans && self.calls.is_empty()
    }

    /// The automaton states it stands for.
    pub fn members(&self) -> &[NfaId] {
        &self.set
    }

    /// Whether the next byte is inside an escape sequence.
    #[inline]
    pub fn mid_escape(&self) -> bool {
        self.flags & MID_ESCAPE != 0
    }

    /// Whether the next byte is text of a JSON string (or closes it).
    #[inline]
    pub fn in_text(&self) -> bool {
        self.flags & TEXT != 0
    }
}

/// The deterministic states made so far: those of a base, which every grammar on top of it shares, and
/// its own.
#[derive(Debug, Clone)]
pub struct LazyDfa {
    base: Arc<States>,
    /// Number of states of the base.
    first: usize,
    own: States,
    /// Whether a state accepts or calls, and whether it calls, of all states: what walks look at, apart
    /// from the rest for the sake of the cache.
    busy: Vec<bool>,
    calling: Vec<bool>,
    /// One plus the state of the closure of each single automaton state that the base does not have, or
    /// 0; a table of zeros costs nothing before it is used.
    single: Vec<DfaId>,
    stamp: Vec<u32>,
    round: u32,
    /// Bytes of the lists and tables of the states of its own.
    heap: usize,
}

/// States, and how to find them.
#[derive(Debug, Clone, Default)]
struct States {
    list: Vec<DState>,
    /// Their transitions. Those of the base are not copied: to count the references to each of a few hundred
    /// tables was a tenth of the time to compile a small schema.
    tables: Vec<Table>,
    /// Those of the list, by what they stand for.
    index: HashTable<DfaId>,
    /// Of a base, by automaton state: see [`LazyDfa::single`].
    single: Vec<DfaId>,
}

/// Of what a state stands for.
fn hash(set: &[NfaId]) -> u64 {
    FxBuildHasher.hash_one(set)
}

impl States {
    /// The state that stands for these, if there is one; the number of the first in the list is `first`.
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
    /// Makes what there is the base of others. All transitions must be known: see `Program::determinise`.
    pub fn freeze(&mut self) {
        let mut base = std::mem::take(&mut self.own);
        base.single = std::mem::take(&mut self.single);
        self.first = base.list.len();
        self.base = Arc::new(base);
        self.stamp = Vec::new();
        self.round = 0;
    }

    /// Bytes of the states of its own, those of the base not counted.
    pub fn bytes(&self) -> usize {
        let lists = self.own.tables.capacity() * size_of::<Table>() + self.busy.capacity() * 2;
        let own = self.own.list.capacity() * size_of::<DState>() + self.own.index.capacity() * 5;
        lists + own + (self.single.capacity() + self.stamp.capacity()) * 4 + self.heap
    }

    /// Bytes of the base.
    pub fn base_bytes(&self) -> usize {
        let states = self.base.list.iter().map(|s| spilled(&s.set) + spilled(&s.calls));
        let list = self.base.list.capacity() * size_of::<DState>();
        let tables = self.base.tables.iter().map(|t| size_of::<Table>() + t.bytes());
        states.sum::<usize>() + list + tables.sum::<usize>() + self.base.index.capacity() * 5
    }

    /// Without the states of its own, as before the first look at any.
    pub fn renewed(&self) -> LazyDfa {
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

    /// A state.
    #[inline]
    pub fn state(&self, id: DfaId) -> &DState {
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

    /// Whether entering a state needs more than noting it: it accepts or calls.
    #[inline]
    pub fn is_busy(&self, id: DfaId) -> bool {
        self.busy[id as usize]
    }

    /// Whether a state calls a rule.
    #[inline]
    pub fn calls(&self, id: DfaId) -> bool {
        self.calling[id as usize]
    }

    /// The automaton states a state stands for.
    pub fn members(&self, id: DfaId) -> &[NfaId] {
        &self.state(id).set
    }

    /// Number of states made so far.
    pub fn len(&self) -> usize {
        self.busy.len()
    }

    /// Never true: the state without a way on always exists.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The state of the closure of one automaton state.
    pub fn start(&mut self, nfa: &Nfa, state: NfaId) -> DfaId {
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

    /// Where byte `b` leads from `id`, [`DEAD_STATE`] if nowhere.
    #[inline]
    pub fn step(&mut self, nfa: &Nfa, id: DfaId, b: u8) -> DfaId {
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

    /// The bytes on which `id` has a way on.
    pub fn live(&mut self, nfa: &Nfa, id: DfaId) -> ByteSet {
        if matches!(self.table(id), Table::Unknown) {
            self.expand(nfa, id);
        }
        let mut bytes = ByteSet::default();
        match self.table(id) {
            Table::Ranges(ranges) => ranges.iter().for_each(|&(lo, hi, _)| bytes.insert(lo, hi)),
            Table::Dense(table) => bytes = table.bytes,
            // `expand` has just replaced it.
            Table::Unknown => {}
        }
        bytes
    }

    /// Where each byte leads from `id`.
    pub fn row(&mut self, nfa: &Nfa, id: DfaId) -> [DfaId; 256] {
        if matches!(self.table(id), Table::Unknown) {
            self.expand(nfa, id);
        }
        if let Table::Dense(table) = self.table(id) {
            return table.row;
        }
        let mut row = [DEAD_STATE; 256];
        if let Table::Ranges(ranges) = self.table(id) {
            ranges.iter().for_each(|&(lo, hi, to)| row[lo as usize..=hi as usize].fill(to));
        }
        row
    }

    /// Whether byte `b` goes on inside a span of a source, and whether that is the text of a JSON string.
    pub fn quotes(&self, nfa: &Nfa, id: DfaId, b: u8) -> Option<bool> {
        let reads = |&&s: &&NfaId| match nfa.state(s) {
            State::Byte { lo, hi, .. } => (lo..=hi).contains(&b),
            State::Sparse(ranges) => ranges.iter().any(|&(lo, hi, _)| (lo..=hi).contains(&b)),
            _ => false,
        };
        let span = self.members(id).iter().filter(|&&s| nfa.flags(s) & QUOTE != 0).find(reads)?;
        Some(nfa.flags(*span) & TEXT != 0)
    }

    /// The byte ranges on which `id` has a way on, in order.
    pub fn ranges(&mut self, nfa: &Nfa, id: DfaId) -> Vec<(u8, u8, DfaId)> {
        if matches!(self.table(id), Table::Unknown) {
            self.expand(nfa, id);
        }
        match self.table(id) {
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
            // `expand` has just replaced it.
            Table::Unknown => Vec::new(),
        }
    }

    /// The deterministic state for the epsilon closure of `from`.
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

    /// The state that stands for all that some states stand for.
    pub fn joined(&mut self, nfa: &Nfa, states: &[DfaId]) -> DfaId {
        let members: SmallVec<[NfaId; 32]> =
            states.iter().flat_map(|&id| self.members(id)).copied().collect();
        self.closure(nfa, &members)
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
                State::Call { rule, register, to } => calls.push(Call::Rule(rule, register, to)),
                State::CallItem { to } => calls.push(Call::Item(to)),
                State::CallFresh { rule, register, to } => calls.push(Call::Fresh(rule, register, to)),
                State::Guard { test, to } => calls.push(Call::Guard(test, to)),
                _ => {}
            }
        }
        self.busy.push(!calls.is_empty() || set.contains(&ACCEPT));
        self.calling.push(!calls.is_empty());
        self.own.tables.push(if scans { Table::Unknown } else { self.table(DEAD_STATE).clone() });
        self.heap += spilled(&set) + spilled(&calls);
        self.own.list.push(DState { accept: set.contains(&ACCEPT), set, calls, scans, flags });
        let States { list, index, .. } = &mut self.own;
        let first = self.first;
        index.insert_unique(hashed, id, |&id| hash(&list[id as usize - first].set));
        id
    }

    /// Works out the transitions of a state.
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
        let ranges = match edges.windows(2).all(|pair| pair[0].1 < pair[1].0) {
            true => self.closures(nfa, &edges),
            false => self.split(nfa, &mut edges),
        };
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

    /// Where edges lead that are in order and do not overlap, as most states have them.
    fn closures(&mut self, nfa: &Nfa, edges: &[(u8, u8, NfaId)]) -> SmallVec<[(u8, u8, DfaId); 8]> {
        let mut ranges: SmallVec<[(u8, u8, DfaId); 8]> = SmallVec::new();
        for &(lo, hi, to) in edges {
            match (self.start(nfa, to), ranges.last_mut()) {
                (DEAD_STATE, _) => {}
                (to, Some(last)) if last.2 == to && u16::from(last.1) + 1 == u16::from(lo) => last.1 = hi,
                (to, _) => ranges.push((lo, hi, to)),
            }
        }
        ranges
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
        // What stands between the letters of a word that is looked for mostly leads to one place: its closure is made
        // once.
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
