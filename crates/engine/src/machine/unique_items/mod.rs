//! Arrays with unique items (`uniqueItems`) of any kind: scopes, scans and comparisons.
//!
//! Such an array has a rule of its own that only calls the array's rule. It runs with a register
//! whose number says at which text of the output the array began: a *scope*. Everything else
//! follows from the text: a scan of it finds the end of each item and the items so far. So neither
//! states nor masks inside an item depend on earlier items.
//!
//! A comma or bracket after a repeated item is refused to the stacks through its scope.
//! [`extensible`] checks whether a new item can still come.
//!
//! # Cost
//!
//! A hash lookup per byte of output, and reading an item when it ends.
//!
//! # Alternatives considered
//!
//! Keeping the set of items in the states: every mask inside an item would be different.

pub(super) mod extensible;
pub(super) mod feasible;
mod matching;
mod unbounded;
mod value;

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::automaton::Automaton;
use super::closure::{StackMachine, StepResult};
use super::nfa::RegisterIx;
use super::register::Register;
use super::stack::Scope;
use super::thread::Thread;
use crate::machine::properties::seen_names::{NO_TEXT, SeenNames, TextId};
use crate::machine::unique_items::matching::all_differ;
use crate::machine::unique_items::unbounded::UnboundedStates;
use crate::machine::unique_items::value::{ValueCursor, ValueId, Values, is_space};

/// Maximum number of scans that are kept; others are made again.
const MAX_SCANS: usize = 1 << 18;
/// Of a text that is scanned in one go, one scan in this number of bytes is kept, and the last.
const SCAN_INTERVAL: usize = 64;
/// Maximum number of cursors that are kept.
const MAX_CURSORS: usize = 50_000;

/// The state of an array at a position of its text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scan {
    /// Number of open brackets, including that of the array.
    pub depth: u32,
    /// 1 inside a string, 2 after a backslash there.
    pub quote: u8,
    /// True if the current item has begun.
    begun: bool,
    /// The text before the current item.
    pub item: TextId,
    /// The items so far, as an index of the chain of items.
    items: u32,
    /// The part that ended with the last byte.
    pub ended: Ended,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ended {
    #[default]
    Nothing,
    /// An array without items.
    Empty,
    /// An item.
    Item(ValueId),
    /// A repeated item.
    Again,
}

/// An array with unique items around a position.
#[derive(Debug)]
pub(crate) struct UniqueArray {
    /// Number of open brackets, including that of the array.
    pub depth: u32,
    /// 1 inside a string, 2 after a backslash there.
    pub quote: u8,
    /// The earlier items that the current item may still become.
    pub repeatable: Arc<[ValueCursor]>,
}

impl UniqueArray {
    /// Returns true if a byte ends an item or the array.
    pub(crate) fn is_ended_by(&self, b: u8) -> bool {
        self.depth == 1 && self.quote == 0 && matches!(b, b',' | b']')
    }

    /// Returns true if a text has a comma between two items of the array.
    pub(crate) fn is_continued_in(&self, bytes: &[u8]) -> bool {
        let (mut depth, mut quote) = (self.depth, self.quote);
        bytes.iter().any(|&b| {
            let separates = depth == 1 && quote == 0 && b == b',';
            scan(b, &mut depth, &mut quote);
            separates
        })
    }
}

/// The items of arrays with unique items met so far.
#[derive(Debug, Clone, Default)]
pub(super) struct ItemTables {
    /// True if there are such arrays.
    pub on: bool,
    pub values: Values,
    /// The items before, the last one, and the number of all. One plus its index stands for an entry,
    /// and 0 for no items.
    links: IndexMap<(u32, ValueId), u32, FxBuildHasher>,
    scans: FxHashMap<(TextId, TextId), Scan>,
    pub unbounded: UnboundedStates,
    /// The earlier items that an item may still become, by scope and text, for recent texts.
    recent: FxHashMap<(Scope, TextId), Arc<[ValueCursor]>>,
    /// Number of cursors in `recent`.
    cursors: usize,
    /// By register and items so far: values that would leave too few for the positions that must
    /// follow.
    spoiling: FxHashMap<(RegisterIx, u32), Arc<[ValueId]>>,
    /// By register: the positions that must be filled and have few values, with these values.
    few: FxHashMap<RegisterIx, Vec<(u32, Vec<ValueId>)>>,
}

/// Updates brackets and string state by one byte.
pub(super) fn scan(b: u8, depth: &mut u32, quote: &mut u8) {
    match (*quote, b) {
        (2, _) => *quote = 1,
        (1, b'\\') => *quote = 2,
        (1, b'"') => *quote = 0,
        (1, _) => {}
        (_, b'"') => *quote = 1,
        (_, b'[' | b'{') => *depth += 1,
        (_, b']' | b'}') => *depth = depth.saturating_sub(1),
        _ => {}
    }
}

impl ItemTables {
    /// Makes the tables of an automaton.
    pub(super) fn new(automaton: &Automaton) -> Self {
        if !automaton.has_scopes() {
            return ItemTables::default();
        }
        let unbounded = UnboundedStates::of(automaton);
        let mut tables = ItemTables { on: true, unbounded, ..ItemTables::default() };
        for (ix, register) in automaton.registers.iter().enumerate() {
            let Register::Distinct(distinct) = register else { continue };
            if !distinct.few.is_empty() {
                let mut read = |texts: &[Box<[u8]>]| texts.iter().map(|t| tables.values.read(t)).collect();
                let few = distinct.few.iter().map(|(place, texts)| (*place, read(texts))).collect();
                tables.few.insert(ix as RegisterIx, few);
            }
        }
        tables
    }

    /// Returns the bytes held, approximately: texts read, values, and cursors.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.links.capacity() * 29;
        let scans = self.scans.capacity() * (size_of::<Scan>() + 9);
        let kept = self.recent.capacity() * 40 + self.cursors * size_of::<ValueCursor>();
        lists + scans + kept + self.values.bytes() + self.spoiling.capacity() * 40
    }

    /// Returns the items of an array, the last one first.
    fn items(&self, items: u32) -> impl Iterator<Item = ValueId> + '_ {
        let link = |at: u32| Some(*self.links.get_index(at.checked_sub(1)? as usize)?.0);
        std::iter::successors(link(items), move |&(before, _)| link(before)).map(|(_, value)| value)
    }

    fn count(&self, items: u32) -> u32 {
        items.checked_sub(1).map_or(0, |at| self.links[at as usize])
    }

    fn with(&mut self, before: u32, value: ValueId) -> u32 {
        let count = self.count(before) + 1;
        self.links.insert_full((before, value), count).0 as u32 + 1
    }

    /// Returns the values that may not be the next item although they are new: later positions
    /// would have none.
    fn spoiling(&mut self, register: RegisterIx, items: u32) -> Arc<[ValueId]> {
        let Some(few) = self.few.get(&register) else { return Arc::from([]) };
        if let Some(known) = self.spoiling.get(&(register, items)) {
            return known.clone();
        }
        let (here, taken) = (self.count(items), self.items(items).collect::<FxHashSet<_>>());
        let places: Vec<&Vec<ValueId>> = few.iter().filter(|p| p.0 > here).map(|p| &p.1).collect();
        let mut values: Vec<ValueId> = places.iter().flat_map(|p| p.iter().copied()).collect();
        values.sort_unstable();
        values.dedup();
        values.retain(|&v| !all_differ(&places, |other| other == v || taken.contains(&other)));
        let values: Arc<[ValueId]> = values.into();
        self.spoiling.insert((register, items), values.clone());
        values
    }

    /// Returns true if an array may have no suitable first item.
    pub(super) fn has_spoiling(&self) -> bool {
        !self.few.is_empty()
    }

    /// Returns the scan of a scope's text.
    pub(super) fn scan(&mut self, names: &SeenNames, start: TextId, text: TextId) -> Scan {
        let (mut at, mut bytes) = (text, Vec::new());
        let mut scanned = loop {
            if at == start {
                break Scan::default();
            }
            if let Some(&known) = self.scans.get(&(start, at)) {
                break known;
            }
            let Some((before, byte)) = names.last_byte(at) else { break Scan::default() };
            bytes.push((byte, at));
            at = before;
        };
        if self.scans.len() > MAX_SCANS {
            self.scans.clear();
        }
        let mut before = at;
        for (left, &(b, at)) in bytes.iter().enumerate().rev() {
            scanned = self.scan_byte(names, scanned, b, (before, at));
            #[cfg(test)]
            crate::fault::pass(crate::fault::Point::Scan);
            // Not all of a long text: the scans of deeply nested arrays would evict each other.
            if left % SCAN_INTERVAL == 0 {
                self.scans.insert((start, at), scanned);
            }
            before = at;
        }
        scanned
    }

    /// Scans one more byte of a scope's text, from the text `before` to `after`.
    fn scan_byte(
        &mut self,
        names: &SeenNames,
        mut at: Scan,
        b: u8,
        (before, after): (TextId, TextId),
    ) -> Scan {
        at.ended = Ended::Nothing;
        let separates = at.quote == 0 && at.depth == 1 && matches!(b, b',' | b']');
        if separates && at.begun {
            let text = names.between(at.item, before);
            let value = self.values.read(&text);
            at.ended = Ended::Again;
            if !self.items(at.items).any(|item| item == value) {
                at.ended = Ended::Item(value);
                at.items = self.with(at.items, value);
            }
        } else if separates {
            at.ended = Ended::Empty;
        }
        let opens = at.depth == 0 && b == b'[';
        scan(b, &mut at.depth, &mut at.quote);
        if opens || separates {
            (at.begun, at.item) = (false, after);
        } else if at.depth > 0 && !is_space(b) {
            at.begun = true;
        }
        at
    }

    /// Returns true if the last byte ended an item that its array may not have.
    pub(super) fn repeats(&mut self, names: &SeenNames, scope: Scope, text: TextId) -> bool {
        let scanned = self.scan(names, scope.1, text);
        match scanned.ended {
            Ended::Again => true,
            Ended::Item(value) if self.has_spoiling() => {
                let before = self.links.get_index(scanned.items as usize - 1).map_or(0, |link| link.0.0);
                self.spoiling(scope.0, before).contains(&value)
            }
            _ => false,
        }
    }

    /// Returns the earlier items that the current item of a scope may still become.
    pub(super) fn matching_items(
        &mut self,
        names: &SeenNames,
        scope: Scope,
        text: TextId,
    ) -> Arc<[ValueCursor]> {
        let scanned = self.scan(names, scope.1, text);
        let (mut at, mut bytes) = (text, Vec::new());
        let mut cursors: Arc<[ValueCursor]> = loop {
            if let Some(known) = self.recent.get(&(scope, at)) {
                break known.clone();
            }
            match names.last_byte(at) {
                Some((before, byte)) if scanned.depth > 0 && at != scanned.item => {
                    bytes.push(byte);
                    at = before;
                }
                // Before its bracket an array has no item.
                _ if scanned.depth == 0 => return Arc::from([]),
                _ => {
                    let mut values: Vec<ValueId> = self.items(scanned.items).collect();
                    values.extend_from_slice(&self.spoiling(scope.0, scanned.items));
                    break values.into_iter().map(ValueCursor::new).collect();
                }
            }
        };
        for b in bytes.into_iter().rev() {
            cursors = self.followed(&cursors, b);
        }
        if self.cursors > MAX_CURSORS {
            self.recent.clear();
            self.cursors = 0;
        }
        self.cursors += cursors.len() + 1;
        self.recent.insert((scope, text), cursors.clone());
        cursors
    }

    /// Returns the cursors that accept a byte, after it.
    pub(super) fn followed(&self, cursors: &[ValueCursor], b: u8) -> Arc<[ValueCursor]> {
        let expecting = cursors.iter().filter(|cursor| cursor.next_bytes(&self.values).has(b));
        let mut next = Vec::new();
        for mut cursor in expecting.cloned() {
            if cursor.step(b, &self.values) {
                next.push(cursor);
            }
        }
        next.into()
    }

    /// Takes one byte of output from `threads` after `text`. Returns the text after it.
    pub(super) fn advance(
        &mut self,
        machine: &mut StackMachine,
        (threads, text): (&[Thread], TextId),
        b: u8,
        reached: &mut StepResult,
    ) -> TextId {
        if !self.on || machine.stacks.scopes(threads).is_empty() {
            machine.step(threads, b, NO_TEXT, reached);
            return NO_TEXT;
        }
        let after = machine.local.names.with_byte(text, b, true);
        self.advance_to(machine, (threads, after), b, reached);
        // Outside of all scopes no text matters, and equal positions must be equal configurations.
        if machine.stacks.scopes(&reached.threads).is_empty() { NO_TEXT } else { after }
    }

    /// Takes one byte of output that ends the text `after`.
    pub(super) fn advance_to(
        &mut self,
        machine: &mut StackMachine,
        (threads, after): (&[Thread], TextId),
        b: u8,
        reached: &mut StepResult,
    ) {
        let mut scopes = machine.stacks.scopes(threads);
        scopes.retain(|&scope| self.repeats(&machine.local.names, scope, after));
        if scopes.is_empty() {
            machine.step(threads, b, after, reached);
        } else {
            let threads = machine.stacks.threads_without(threads, &scopes);
            machine.step(&threads, b, after, reached);
        }
    }
}

/// Returns the bytes that some thread accepts and that make a difference to values; at most `most`
/// of those with the same target.
fn distinguishing_bytes(
    automaton: &mut Automaton,
    threads: &[Thread],
    in_text: bool,
    most: usize,
) -> Vec<u8> {
    // A required blank is a byte like others.
    let spaces = in_text || automaton.min_separator_bytes > 0;
    let mut bytes: Vec<u8> = Vec::new();
    for thread in threads {
        for (lo, hi, _) in automaton.ranges(thread.local.state) {
            bytes.extend((lo..=hi).filter(|&b| spaces || !is_space(b)).take(most));
        }
    }
    bytes.sort_unstable();
    bytes.dedup();
    bytes
}
