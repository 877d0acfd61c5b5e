//! Configurations of the machine, and its steps along an output.
//!
//! A *thread* is a local state (deterministic state and register) on a stack of return frames. A
//! *configuration* is the set of threads that are alive after some bytes, usually one or two.
//!
//! Configurations are interned as numbers. A schema without recursion has finitely many, and the
//! machine is a lazily flattened automaton. A rollback is the return to an older number.
//!
//! The tables of a machine only grow, because generations hold their numbers. So they are never
//! trimmed but begun anew. The program is shared between a machine and its successor.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::byte_set::ByteSet;

use super::closure::{StackMachine, StepResult};
use super::program::Program;
use super::properties::seen_names::{NO_TEXT, TextId, WholeStrings};
use super::shortest::lower_bound::LowerBounds;
use super::thread::{ROOT_STACK, Thread};
use super::unique_items::{ItemTables, UniqueArray, scan};

/// Index of an interned configuration.
pub(crate) type ConfigId = u32;
/// The configuration without threads in which the output has not ended: the bytes were rejected.
pub(crate) const DEAD_CONFIG: ConfigId = 0;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Config {
    threads: Arc<[Thread]>,
    ended: bool,
    /// The text since the start of the outermost open array with unique items.
    text: TextId,
}

/// All configurations met so far.
#[derive(Debug, Clone, Default)]
struct Configs {
    list: IndexSet<Config, FxBuildHasher>,
    /// Bytes of the lists of threads.
    heap: usize,
}

impl Configs {
    fn get(&self, config: ConfigId) -> &Config {
        &self.list[config as usize]
    }

    fn intern(&mut self, reached: &StepResult) -> ConfigId {
        let StepResult { threads, ended, text, .. } = reached;
        let config = Config { threads: threads.as_slice().into(), ended: *ended, text: *text };
        let (id, is_new) = self.list.insert_full(config);
        self.heap += if is_new { 16 + size_of_val(&**threads) } else { 0 };
        id as ConfigId
    }

    fn bytes(&self) -> usize {
        self.list.capacity() * (size_of::<Config>() + 17) + self.heap
    }
}

/// A program with the states, stacks and configurations met so far. It knows bytes, not tokens.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// Steps of threads.
    pub core: StackMachine,
    /// The items of arrays with unique items.
    items: ItemTables,
    configs: Configs,
    initial: ConfigId,
    /// Lower bounds of the bytes to the end, once they were requested.
    bounds: Option<Arc<LowerBounds>>,
}

impl Machine {
    /// Creates a machine at the start of `program`; `shown` are the quoted texts inside single
    /// tokens.
    pub(crate) fn new(program: Program, shown: Arc<WholeStrings>) -> Self {
        Machine::started(StackMachine::new(program, shown))
    }

    /// Creates an empty machine for the same program. It reads nothing that a step changes.
    pub(crate) fn emptied(&self) -> Self {
        Machine::started(self.core.renewed())
    }

    fn started(mut core: StackMachine) -> Self {
        let (items, mut configs) = (ItemTables::new(&core.local.automaton), Configs::default());
        let dead = configs.intern(&StepResult::default());
        debug_assert_eq!(dead, DEAD_CONFIG);
        let root = core.local.automaton.root;
        let initial = configs.intern(&core.at_start(root, ROOT_STACK));
        Machine { core, items, configs, initial, bounds: None }
    }

    /// Returns the bytes that copies of the machine share.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.core.local.automaton.fixed_bytes()
    }

    /// Returns the bytes of what was met so far: states, stacks, configurations, names.
    pub(crate) fn bytes(&self) -> usize {
        let bounds = self.bounds.as_ref().map_or(0, |bounds| bounds.bytes());
        self.core.bytes() + self.items.bytes() + self.configs.bytes() + bounds
    }

    /// Returns sizes for reports: automaton states, deterministic states, stack nodes,
    /// configurations.
    pub(crate) fn sizes(&self) -> [usize; 4] {
        let [states, deterministic] = self.core.local.automaton.sizes();
        [states, deterministic, self.core.stacks.len(), self.configs.list.len()]
    }

    /// Returns the configuration before the first byte.
    pub(crate) fn initial(&self) -> ConfigId {
        self.initial
    }

    /// Returns the threads of a configuration.
    pub(crate) fn threads(&self, config: ConfigId) -> Arc<[Thread]> {
        self.configs.get(config).threads.clone()
    }

    /// Returns whether byte `b` continues a span of a source, and if so, whether the span is text
    /// of a JSON string.
    pub(crate) fn copies_source(&self, config: ConfigId, b: u8) -> Option<bool> {
        let threads = &self.configs.get(config).threads;
        threads.iter().find_map(|thread| self.core.local.automaton.copies_source(thread.local.state, b))
    }

    /// Returns true if the output may end here.
    pub(crate) fn is_accepting(&self, config: ConfigId) -> bool {
        self.configs.get(config).ended
    }

    /// Returns true if the output must end here.
    pub(crate) fn is_final(&self, config: ConfigId) -> bool {
        let config = self.configs.get(config);
        config.ended && config.threads.is_empty()
    }

    /// Returns true if the next byte may be text of a JSON string.
    pub(crate) fn in_text(&self, config: ConfigId) -> bool {
        let automaton = &self.core.local.automaton;
        self.configs.get(config).threads.iter().any(|t| automaton.in_text(t.local.state))
    }

    /// Returns true if the next byte can only be text of a JSON string, or close it.
    pub(crate) fn only_in_text(&self, config: ConfigId) -> bool {
        let automaton = &self.core.local.automaton;
        self.configs.get(config).threads.iter().all(|t| automaton.in_text(t.local.state))
    }

    /// Returns the fewest and the most characters that can follow in the open JSON string, if it is
    /// counted and nothing else matters to it.
    pub(crate) fn text_bounds(&self, config: ConfigId) -> Option<(u32, u32)> {
        let local = &self.core.local;
        let threads = self.configs.get(config).threads.iter();
        let texts = threads.filter(|t| local.automaton.in_text(t.local.state));
        texts.map(|text| local.string_bounds(text.local)).reduce(|all, one| {
            let ((all_least, all_most), (least, most)) = (all?, one?);
            Some((least.min(all_least), most.max(all_most)))
        })?
    }

    /// Returns the configuration after `bytes`, or [`DEAD_CONFIG`] if they are rejected.
    pub(crate) fn step_bytes(&mut self, config: ConfigId, bytes: &[u8]) -> ConfigId {
        if bytes.is_empty() {
            return config;
        }
        let mut reached = StepResult::default();
        match self.follow(config, bytes, &mut reached) {
            true => self.configs.intern(&reached),
            false => DEAD_CONFIG,
        }
    }

    /// Returns true if `bytes` are accepted from `config`. Every name on the path is remembered.
    pub(crate) fn allows(&mut self, config: ConfigId, bytes: &[u8]) -> bool {
        self.follow(config, bytes, &mut StepResult::default())
    }

    fn follow(&mut self, config: ConfigId, bytes: &[u8], reached: &mut StepResult) -> bool {
        let Config { threads, text, .. } = self.configs.get(config);
        let (mut from, mut text) = (threads.to_vec(), *text);
        for &b in bytes {
            text = self.items.advance(&mut self.core, (&from, text), b, reached);
            std::mem::swap(&mut from, &mut reached.threads);
            if from.is_empty() && !reached.ended {
                break;
            }
        }
        if self.items.on && !from.is_empty() && !self.items.can_extend(&mut self.core, &from, text) {
            (from, text) = (Vec::new(), NO_TEXT);
        }
        std::mem::swap(&mut from, &mut reached.threads);
        reached.text = text;
        !reached.is_dead()
    }

    /// Returns the byte that must come next, if there is exactly one and the output may not end.
    pub(crate) fn forced_byte(&mut self, config: ConfigId) -> Option<u8> {
        if self.is_accepting(config) {
            return None;
        }
        let threads = self.threads(config);
        if self.is_scoped(config) {
            return self.only_new_byte(config);
        }
        let mut only = None;
        for thread in threads.iter() {
            for (lo, hi) in self.core.local.ranges(thread.local) {
                if lo != hi || only.is_some_and(|b| b != lo) {
                    return None;
                }
                only = Some(lo);
            }
        }
        only
    }

    /// Returns the byte that must come next, if not white space, where both are allowed and the output
    /// may not end.
    pub(crate) fn forced_behind_space(&mut self, config: ConfigId) -> Option<u8> {
        if self.is_accepting(config) {
            return None;
        }
        let (mut only, mut spaced) = (None, false);
        for thread in self.threads(config).iter() {
            for (lo, hi) in self.core.local.ranges(thread.local) {
                let blank = |byte: u8| b" \t\n\r".contains(&byte);
                if lo <= b'\r' && hi > b' ' || lo != hi && !(blank(lo) && blank(hi)) {
                    return None;
                }
                spaced |= blank(lo);
                if !blank(lo) && only.replace(lo).is_some_and(|other| other != lo) {
                    return None;
                }
            }
        }
        only.filter(|_| spaced)
    }

    /// Returns the byte that must come next where items must differ.
    fn only_new_byte(&mut self, config: ConfigId) -> Option<u8> {
        let mut only = None;
        for thread in self.threads(config).iter() {
            let ranges = self.core.local.ranges(thread.local);
            for b in ranges.into_iter().flat_map(|(lo, hi)| lo..=hi) {
                if only != Some(b) && self.allows(config, &[b]) && only.replace(b).is_some() {
                    return None;
                }
            }
        }
        only
    }

    /// Returns true if some name had to be new so far.
    pub(crate) fn tracks_names(&self) -> bool {
        self.core.local.names.remembers()
    }

    /// Returns true if there are arrays with unique items of any kind.
    pub(crate) fn has_unique_items(&self) -> bool {
        self.items.on
    }

    /// Returns true if an array may have no suitable first item.
    pub(crate) fn has_spoiling(&self) -> bool {
        self.items.has_spoiling()
    }

    /// Returns true if a configuration is inside an array with unique items.
    pub(crate) fn is_scoped(&self, config: ConfigId) -> bool {
        self.items.on && !self.core.stacks.scopes(&self.configs.get(config).threads).is_empty()
    }

    /// Returns the arrays with unique items around a configuration.
    pub(crate) fn unique_arrays(&mut self, config: ConfigId) -> Vec<UniqueArray> {
        let Config { threads, text, .. } = self.configs.get(config);
        let names = &self.core.local.names;
        let mut arrays = Vec::new();
        for scope in self.core.stacks.scopes(threads) {
            let scan = self.items.scan(names, scope.1, *text);
            let repeatable = self.items.matching_items(names, scope, *text);
            arrays.push(UniqueArray { depth: scan.depth, quote: scan.quote, repeatable });
        }
        arrays
    }

    /// Returns the bytes along which the item of an array may still become an earlier one.
    pub(crate) fn repeating_bytes(&self, array: &UniqueArray) -> ByteSet {
        let bytes = array.repeatable.iter().map(|cursor| cursor.next_bytes(&self.items.values));
        bytes.fold(ByteSet::default(), |all, bytes| all.or(&bytes))
    }

    /// Returns the array one byte later, within the same item.
    pub(crate) fn unique_array_after(&self, array: &UniqueArray, b: u8) -> UniqueArray {
        let mut next = UniqueArray { repeatable: self.items.followed(&array.repeatable, b), ..*array };
        scan(b, &mut next.depth, &mut next.quote);
        next
    }

    /// Returns the lower bounds of the bytes to the end; makes them on the first call.
    pub(super) fn lower_bounds(&mut self) -> Arc<LowerBounds> {
        let automaton = &self.core.local.automaton;
        self.bounds.get_or_insert_with(|| Arc::new(LowerBounds::of(automaton))).clone()
    }
}
