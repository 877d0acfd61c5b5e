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
mod unbounded;
mod value;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::configuration::{Frame, LocalState, Machine, StackId, StepResult, Thread};
use super::nfa::{RegisterIx, RuleIx};
use super::register::Register;
use crate::machine::properties::seen_names::{NO_TEXT, TextId};
use crate::machine::unique_items::value::{ValueCursor, ValueId, Values, is_space};

/// An open array with unique items: its register, and the text before it.
pub(super) type Scope = (RegisterIx, TextId);

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
    depth: u32,
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

/// The items of an array so far.
#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    value: ValueId,
    count: u32,
}

/// The tables for arrays with unique items.
#[derive(Debug, Clone, Default)]
pub(super) struct Distinct {
    /// True if there are any.
    pub on: bool,
    pub values: Values,
    links: Vec<Link>,
    link_index: FxHashMap<(u32, ValueId), u32>,
    scans: FxHashMap<(TextId, TextId), Scan>,
    /// The scopes below each stack node.
    pub of_stack: Vec<Arc<[Scope]>>,
    /// By automaton state: true if unboundedly many values can follow.
    pub rich: Vec<bool>,
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
fn scan(b: u8, depth: &mut u32, quote: &mut u8) {
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

impl Distinct {
    /// Returns the bytes held, approximately: texts read, values, and cursors.
    pub fn bytes(&self) -> usize {
        let lists = self.links.capacity() * size_of::<Link>() + self.link_index.capacity() * 16;
        let scans = self.scans.capacity() * (size_of::<Scan>() + 9);
        let kept = self.recent.capacity() * 40 + self.cursors * size_of::<ValueCursor>();
        lists + scans + kept + self.values.bytes() + self.of_stack.len() * 24 + self.spoiling.capacity() * 40
    }

    /// Returns true if an array has a value.
    fn has(&self, mut items: u32, value: ValueId) -> bool {
        while items != 0 {
            let link = self.links[items as usize - 1];
            if link.value == value {
                return true;
            }
            items = link.before;
        }
        false
    }

    fn count(&self, items: u32) -> u32 {
        items.checked_sub(1).map_or(0, |at| self.links[at as usize].count)
    }

    fn with(&mut self, before: u32, value: ValueId) -> u32 {
        let count = self.count(before) + 1;
        *self.link_index.entry((before, value)).or_insert_with(|| {
            self.links.push(Link { before, value, count });
            self.links.len() as u32
        })
    }

    fn items(&self, mut items: u32) -> Vec<ValueId> {
        let mut all = Vec::with_capacity(self.count(items) as usize);
        while items != 0 {
            let link = self.links[items as usize - 1];
            all.push(link.value);
            items = link.before;
        }
        all
    }

    /// Returns the values that may not be the next item although they are new: later positions
    /// would have none.
    fn spoiling(&mut self, register: RegisterIx, items: u32) -> Arc<[ValueId]> {
        let Some(few) = self.few.get(&register) else { return Arc::from([]) };
        if let Some(known) = self.spoiling.get(&(register, items)) {
            return known.clone();
        }
        let (here, taken) = (self.count(items), self.items(items));
        let places: Vec<&Vec<ValueId>> = few.iter().filter(|p| p.0 > here).map(|p| &p.1).collect();
        let mut values: Vec<ValueId> = places.iter().flat_map(|p| p.iter().copied()).collect();
        values.sort_unstable();
        values.dedup();
        values.retain(|&v| !all_differ(&places, |other| other == v || taken.contains(&other)));
        let values: Arc<[ValueId]> = values.into();
        self.spoiling.insert((register, items), values.clone());
        values
    }
}

/// Returns true if each position can have a value of its list that no other has and that is not
/// taken. It is a matching by augmenting paths, each a search over the positions.
pub(super) fn all_differ(places: &[&Vec<ValueId>], taken: impl Fn(ValueId) -> bool) -> bool {
    let mut holder: FxHashMap<ValueId, usize> = FxHashMap::default();
    for place in 0..places.len() {
        // Breadth first: each value is reached from one position, so the path back is known.
        let mut from: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut todo = std::collections::VecDeque::from([place]);
        let mut free = None;
        'search: while let Some(at) = todo.pop_front() {
            for &value in places[at].iter().filter(|&&v| !taken(v)) {
                if from.contains_key(&value) {
                    continue;
                }
                from.insert(value, at);
                match holder.get(&value) {
                    Some(&other) => todo.push_back(other),
                    None => {
                        free = Some(value);
                        break 'search;
                    }
                }
            }
        }
        let Some(mut value) = free else { return false };
        loop {
            let at = from[&value];
            let held = holder.iter().find(|h| *h.1 == at).map(|h| *h.0);
            holder.insert(value, at);
            match held {
                Some(old) if at != place => {
                    holder.remove(&old);
                    value = old;
                }
                _ => break,
            }
        }
    }
    true
}

impl Machine {
    /// Makes the tables for arrays with unique items.
    pub(super) fn prepare_distinct(&mut self) {
        for (ix, register) in self.registers.iter().enumerate() {
            let Register::Distinct(distinct) = register else { continue };
            self.distinct.on = true;
            if !distinct.few.is_empty() {
                let values = &mut self.distinct.values;
                let mut read = |texts: &[Box<[u8]>]| texts.iter().map(|t| values.read(t)).collect();
                let few = distinct.few.iter().map(|(place, texts)| (*place, read(texts))).collect();
                self.distinct.few.insert(ix as RegisterIx, few);
            }
        }
        if self.distinct.on {
            self.distinct.rich = crate::machine::unique_items::unbounded::unbounded_states(
                &self.nfa,
                &self.starts,
                &self.registers,
            );
        }
        // The scopes of the two stacks that always exist.
        self.distinct.of_stack = vec![Arc::from([]), Arc::from([])];
    }

    /// Returns true if there are arrays with unique items of any kind.
    pub fn has_unique_items(&self) -> bool {
        self.distinct.on
    }

    /// Returns true if an array may have no suitable first item.
    pub fn has_spoiling(&self) -> bool {
        !self.distinct.few.is_empty()
    }

    /// Returns true if a configuration is inside an array with unique items.
    pub fn is_scoped(&self, config: u32) -> bool {
        self.distinct.on && !self.scopes(&self.threads(config)).is_empty()
    }

    /// Notes the scopes below a stack node that was just made.
    pub(super) fn note_scopes(&mut self, frames: &[Frame]) {
        if !self.distinct.on {
            return;
        }
        let mut all: Vec<Scope> = Vec::new();
        for frame in frames {
            all.extend(self.scope(frame));
            all.extend_from_slice(&self.distinct.of_stack[frame.parent as usize]);
        }
        all.sort_unstable();
        all.dedup();
        self.distinct.of_stack.push(all.into());
    }

    fn scope(&self, frame: &Frame) -> Option<Scope> {
        self.is_distinct(frame.ret.register).then_some((frame.ret.register, frame.ret.n))
    }

    /// Returns the scopes that some of the threads are in.
    pub(super) fn scopes(&self, threads: &[Thread]) -> Vec<Scope> {
        let of = |t: &Thread| self.distinct.of_stack[t.stack as usize].iter().copied();
        let mut all: Vec<Scope> = threads.iter().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the scan of a scope's text.
    pub(super) fn scan(&mut self, start: TextId, text: TextId) -> Scan {
        let (mut at, mut bytes) = (text, Vec::new());
        let mut scanned = loop {
            if at == start {
                break Scan::default();
            }
            if let Some(&known) = self.distinct.scans.get(&(start, at)) {
                break known;
            }
            let Some((before, byte)) = self.seen_names.last_byte(at) else { break Scan::default() };
            bytes.push((byte, at));
            at = before;
        };
        if self.distinct.scans.len() > MAX_SCANS {
            self.distinct.scans.clear();
        }
        let mut before = at;
        for (left, &(b, at)) in bytes.iter().enumerate().rev() {
            scanned = self.scan_byte(scanned, b, before, at);
            // Not all of a long text: the scans of deeply nested arrays would evict each other.
            if left % SCAN_INTERVAL == 0 {
                self.distinct.scans.insert((start, at), scanned);
            }
            before = at;
        }
        scanned
    }

    /// Scans one more byte of a scope's text, from the text `before` to `after`.
    fn scan_byte(&mut self, mut at: Scan, b: u8, before: TextId, after: TextId) -> Scan {
        at.ended = Ended::Nothing;
        let separates = at.quote == 0 && at.depth == 1 && matches!(b, b',' | b']');
        if separates && at.begun {
            let text = self.seen_names.between(at.item, before);
            let value = self.distinct.values.read(&text);
            at.ended = Ended::Again;
            if !self.distinct.has(at.items, value) {
                at.ended = Ended::Item(value);
                at.items = self.distinct.with(at.items, value);
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
    pub(super) fn repeats(&mut self, scope: Scope, text: TextId) -> bool {
        let scanned = self.scan(scope.1, text);
        match scanned.ended {
            Ended::Again => true,
            Ended::Item(value) if self.has_spoiling() => {
                let before = self.distinct.links[scanned.items as usize - 1].before;
                self.distinct.spoiling(scope.0, before).contains(&value)
            }
            _ => false,
        }
    }

    /// Returns the earlier items that the current item of a scope may still become.
    pub(super) fn matching_items(&mut self, scope: Scope, text: TextId) -> Arc<[ValueCursor]> {
        let scanned = self.scan(scope.1, text);
        let (mut at, mut bytes) = (text, Vec::new());
        let mut cursors: Arc<[ValueCursor]> = loop {
            if let Some(known) = self.distinct.recent.get(&(scope, at)) {
                break known.clone();
            }
            match self.seen_names.last_byte(at) {
                Some((before, byte)) if scanned.depth > 0 && at != scanned.item => {
                    bytes.push(byte);
                    at = before;
                }
                // Before its bracket an array has no item.
                _ if scanned.depth == 0 => return Arc::from([]),
                _ => {
                    let mut values = self.distinct.items(scanned.items);
                    values.extend_from_slice(&self.distinct.spoiling(scope.0, scanned.items));
                    break values.into_iter().map(ValueCursor::new).collect();
                }
            }
        };
        if !cursors.is_empty() && !bytes.is_empty() {
            let mut left = cursors.to_vec();
            for b in bytes.into_iter().rev() {
                left.retain_mut(|cursor| cursor.step(b, &self.distinct.values));
                if left.is_empty() {
                    break;
                }
            }
            cursors = left.into();
        }
        if self.distinct.cursors > MAX_CURSORS {
            self.distinct.recent.clear();
            self.distinct.cursors = 0;
        }
        self.distinct.cursors += cursors.len() + 1;
        self.distinct.recent.insert((scope, text), cursors.clone());
        cursors
    }

    /// Returns the cursors that accept a byte, after it.
    pub(super) fn followed(&self, cursors: &[ValueCursor], b: u8) -> Arc<[ValueCursor]> {
        let values = &self.distinct.values;
        let mut next = Vec::new();
        for cursor in cursors.iter().filter(|c| c.expects(b, values)) {
            let mut cursor = cursor.clone();
            if cursor.step(b, values) {
                next.push(cursor);
            }
        }
        next.into()
    }

    /// Returns a stack without the paths through some scopes, or `None` if nothing is left.
    pub(super) fn drop_scopes(&mut self, stack: StackId, bad: &[Scope]) -> Option<StackId> {
        let touched = |machine: &Machine, s: StackId| {
            machine.distinct.of_stack[s as usize].iter().any(|scope| bad.contains(scope))
        };
        if !touched(self, stack) {
            return Some(stack);
        }
        let mut all = vec![stack];
        let mut next = 0;
        while let Some(&at) = all.get(next) {
            for frame in self.stacks[at as usize].clone().iter() {
                if touched(self, frame.parent) && !all.contains(&frame.parent) {
                    all.push(frame.parent);
                }
            }
            next += 1;
        }
        // A node is made after those below it.
        all.sort_unstable();
        let mut made: FxHashMap<StackId, Option<StackId>> = FxHashMap::default();
        for at in all {
            let mut frames = Vec::new();
            for frame in self.stacks[at as usize].clone().iter() {
                if self.scope(frame).is_some_and(|scope| bad.contains(&scope)) {
                    continue;
                }
                let parent = made.get(&frame.parent).copied().unwrap_or(Some(frame.parent));
                frames.extend(parent.map(|parent| Frame { parent, ..*frame }));
            }
            frames.sort_unstable();
            frames.dedup();
            let node = if frames.is_empty() { None } else { Some(self.intern_stack(&frames)) };
            made.insert(at, node);
        }
        made.get(&stack).copied().flatten()
    }

    pub(super) fn all_without(&mut self, threads: &[Thread], bad: &[Scope]) -> Vec<Thread> {
        if bad.is_empty() {
            return threads.to_vec();
        }
        let mut left = Vec::with_capacity(threads.len());
        for thread in threads {
            left.extend(self.drop_scopes(thread.stack, bad).map(|stack| Thread { stack, ..*thread }));
        }
        left
    }

    /// Takes one byte of output from `threads` after `text`. Returns the text after it.
    pub(super) fn advance(
        &mut self,
        threads: &[Thread],
        text: TextId,
        b: u8,
        reached: &mut StepResult,
    ) -> TextId {
        if !self.distinct.on {
            self.step(threads, b, reached);
            return NO_TEXT;
        }
        if self.scopes(threads).is_empty() {
            self.here = NO_TEXT;
            self.step(threads, b, reached);
            return NO_TEXT;
        }
        let after = self.seen_names.with_byte(text, b, true);
        self.advance_to(threads, after, b, reached);
        // Outside of all scopes no text matters, and equal positions must be equal configurations.
        if self.scopes(&reached.threads).is_empty() { NO_TEXT } else { after }
    }

    /// Takes one byte of output that ends the text `after`.
    pub(super) fn advance_to(&mut self, threads: &[Thread], after: TextId, b: u8, reached: &mut StepResult) {
        self.here = after;
        let mut scopes = self.scopes(threads);
        scopes.retain(|&scope| self.repeats(scope, after));
        if scopes.is_empty() {
            self.step(threads, b, reached);
        } else {
            let threads = self.all_without(threads, &scopes);
            self.step(&threads, b, reached);
        }
    }

    /// Returns, for each array around a configuration, the number of open brackets inside it and
    /// its string state.
    pub fn depths(&mut self, config: u32) -> Vec<(u32, u8)> {
        let (threads, text) = (self.threads(config), self.text(config));
        let scopes = self.scopes(&threads);
        scopes.into_iter().map(|scope| self.scan(scope.1, text)).map(|s| (s.depth, s.quote)).collect()
    }

    /// Returns true if a text holds a comma between the items of an array, from the position that
    /// [`Machine::depths`] returned.
    pub fn separates((mut depth, mut quote): (u32, u8), bytes: &[u8]) -> bool {
        bytes.iter().any(|&b| {
            let separates = depth == 1 && quote == 0 && b == b',';
            scan(b, &mut depth, &mut quote);
            separates
        })
    }

    /// Returns the threads at the start of a rule on a stack below which no text exists.
    pub(super) fn at_start(&mut self, (rule, register): (RuleIx, RegisterIx), stack: StackId) -> StepResult {
        let state = self.dfa.start(&self.nfa, self.starts[rule.0 as usize]);
        let mut reached = StepResult::default();
        (self.tracking, self.here) = (true, NO_TEXT);
        self.closure_from(LocalState { state, register, n: 0 }, stack, &mut reached);
        self.tracking = false;
        reached
    }

    /// Returns true if a register is that of a scope.
    pub(super) fn is_distinct(&self, register: RegisterIx) -> bool {
        matches!(self.registers[register as usize], Register::Distinct(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the positions one after the other, in every way.
    fn slow(places: &[&Vec<ValueId>], taken: &mut Vec<ValueId>) -> bool {
        let Some((first, rest)) = places.split_first() else { return true };
        first.iter().any(|&value| {
            let free = !taken.contains(&value);
            taken.push(value);
            let filled = free && slow(rest, taken);
            taken.pop();
            filled
        })
    }

    #[test]
    fn matchings_are_found_where_there_are_any() {
        let (mut found, mut state) = (0, 1u64);
        for _ in 0..2_000 {
            let mut random = |n: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % n
            };
            let lists: Vec<Vec<ValueId>> =
                (0..random(6)).map(|_| (0..random(4)).map(|_| random(6) as ValueId).collect()).collect();
            let (places, gone) = (lists.iter().collect::<Vec<_>>(), random(6) as ValueId);
            let fast = all_differ(&places, |v| v == gone);
            assert_eq!(fast, slow(&places, &mut vec![gone]), "{lists:?} without {gone}");
            found += usize::from(fast);
        }
        assert!((200..1_800).contains(&found), "{found} of 2000");
    }
}
