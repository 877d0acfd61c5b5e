//! The mask cache: makes the mask of a configuration and memoises its parts.
//!
//! [`MaskCache::mask`] tries the strategies in the order that the parent module lists. Layer 1 is
//! the table of local states, layer 2 the table of returns, layer 3 the table of configurations.
//! The tables of a base are shared and read only; each grammar adds its own.
//!
//! The cache also keeps the buffers of walks and unions. They are not safe to use after a panic, so a
//! cache is dropped then (see [`matcher`](crate::matcher)).

use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use super::class_loops::{LoopThresholds, loop_mask};
use super::exits::{ExitLimit, ExitSet, ExitToken, Exits, below, exits_of, in_vocabulary, set_key};
use super::memo::{BaseMasks, CountedMask, ExitId, LocalMask, MaskTables, SlicePart};
use super::similar_states::RecentStates;
use super::slice_search::ByteRuns;
use super::token_mask::Mask;
use super::trie_walk::{ByteFilter, WalkOptions, WalkResult, Walker};
use super::union::{DENSE_FROM, Sorter, Union, empty_row, set_all, with_row};
use crate::machine::{
    Automaton, ConfigId, LocalState, Machine, ROOT_STACK, StackId, StackMachine, TRIED, Thread, UNKNOWN_STACK,
};
use crate::vocab::{TokenId, Trie, Vocabulary};

/// The masks of one grammar over one vocabulary.
pub struct MaskCache {
    pub(super) vocab: Vocabulary,
    pub(super) shared: Arc<BaseMasks>,
    pub(super) own: MaskTables,
    /// Layer 1 for states of the root rule in which the output may end: see
    /// [`MaskCache::root_mask()`].
    root_mask: FxHashMap<LocalState, LocalMask>,
    recent_states: RecentStates,
    full: FxHashMap<ConfigId, Arc<Mask>>,
    /// Bytes held by `full`.
    full_bytes: usize,
    pub(super) walker: Walker,
    /// Number of calls that are being followed, one inside the other.
    pub(super) depth: usize,
    /// True while walks enter all rules that are called.
    pub(super) enters_calls: bool,
    /// The most exits of a mask that is being made.
    pub(super) limit: ExitLimit,
    pub(super) sorter: Sorter,
    pub(super) spelled: ByteRuns,
    /// The tokens that a state rejects, for the state whose slice was requested last. The key is
    /// the state, whether a blank precedes, and the slice.
    pub(super) rejected: Option<((u32, bool, usize), Vec<TokenId>)>,
}

/// Maximum number of bytes of configuration masks kept per grammar. When it is exceeded, the table
/// is emptied and masks are recomputed.
const MAX_FULL_BYTES: usize = 64 << 20;
/// Number of pairs of a set of exits and a stack from which on [`MaskCache::sweep_stacks`]
/// is used. A smaller number
/// slows down grammars with some dozens of stacks whose sets are all known. Unit tests use a
/// smaller one so that they reach the sweep.
pub(super) const SWEEP_AFTER_PAIRS: usize = if cfg!(test) { 32 } else { 2_000 };
/// Number of exits walked for one mask from which on the sweep is used.
const SWEEP_AFTER_EXITS: usize = 200_000;
/// Maximum number of tokens that [`MaskCache::pattern_text_mask`] tries one by one.
const MAX_TRIED_TOKENS: usize = 8_000;

impl MaskCache {
    /// Makes the tables of a base: the masks of the first `states` local states of `machine`.
    pub fn base(vocab: &Vocabulary, machine: &mut StackMachine, states: u32) -> Arc<BaseMasks> {
        let slice_masks: Vec<Arc<[u32]>> = vocab.slices().iter().map(|s| s.mask.as_slice().into()).collect();
        let shared = |layers| BaseMasks { layers, slice_masks: slice_masks.clone(), up_to: Mutex::default() };
        let mut masks = MaskCache::new(vocab, Arc::new(shared(MaskTables::default())));
        for state in 1..states {
            masks.local(machine, LocalState { state, register: 0, n: 0 });
        }
        let object = machine.local.automaton.any_object_states();
        for &local in &object {
            masks.local(machine, local);
        }
        let body = machine.local.automaton.string_interior();
        if body != 0 {
            let text = LocalState { state: body, register: 0, n: 0 };
            masks.text(machine, body);
            for exits in masks.local(machine, text).exits {
                for ret in machine.local.automaton.return_states() {
                    masks.after_return(machine, LocalState { state: ret, register: 0, n: 0 }, exits);
                }
                for &local in &object {
                    masks.after_return(machine, local, exits);
                }
            }
        }
        // Ids of the grammar become ids of the base: odd to even.
        let mut layers = masks.own;
        let even = |id: ExitId| id - 1;
        layers.exit_index.values_mut().for_each(|id| *id = even(*id));
        for mask in layers.local.values_mut().chain(layers.next.values_mut()) {
            mask.exits.iter_mut().for_each(|id| *id = even(*id));
        }
        layers.next = layers.next.into_iter().map(|((local, id), mask)| ((local, even(id)), mask)).collect();
        Arc::new(shared(layers))
    }

    /// Creates empty tables on top of a base.
    pub fn new(vocab: &Vocabulary, shared: Arc<BaseMasks>) -> Self {
        MaskCache {
            vocab: vocab.clone(),
            shared,
            own: MaskTables::default(),
            root_mask: FxHashMap::default(),
            recent_states: RecentStates::default(),
            full: FxHashMap::default(),
            full_bytes: 0,
            walker: Walker::default(),
            depth: 0,
            enters_calls: false,
            limit: ExitLimit::NONE,
            sorter: Sorter::default(),
            spelled: ByteRuns::default(),
            rejected: None,
        }
    }

    /// Returns the mask of a configuration, without end tokens.
    pub fn mask(&mut self, machine: &mut Machine, config: ConfigId) -> Arc<Mask> {
        if let Some(mask) = self.full.get(&config) {
            return mask.clone();
        }
        let threads = machine.threads(config);
        let mut mask = self.compose(&mut machine.core, threads);
        if machine.tracks_names() {
            self.remove_repeated_names(machine, config, &mut mask);
        }
        if machine.has_unique_items() {
            let repeats = super::unique_items::repeating_tokens(&self.vocab, machine, config, &mask);
            mask.remove(&repeats);
        }
        let mask = Arc::new(mask);
        if self.full_bytes > MAX_FULL_BYTES {
            self.full.clear();
            self.full_bytes = 0;
        }
        self.full_bytes += mask.bytes();
        self.full.insert(config, mask.clone());
        mask
    }

    /// Creates empty tables on top of the same base.
    pub fn renewed(&self) -> Self {
        MaskCache::new(&self.vocab, self.shared.clone())
    }

    /// Returns a copy that shares the dense parts of masks. The copy has its own reference counts
    /// for masks. Two threads that changed the same counts would wait for each other's cache lines.
    pub fn copy(&self) -> Self {
        let own = |(&config, mask): (&ConfigId, &Arc<Mask>)| (config, Arc::new(Mask::clone(mask)));
        MaskCache {
            vocab: self.vocab.clone(),
            shared: self.shared.clone(),
            own: self.own.clone(),
            root_mask: self.root_mask.clone(),
            recent_states: self.recent_states.clone(),
            full: self.full.iter().map(own).collect(),
            full_bytes: self.full_bytes,
            walker: Walker::default(),
            depth: 0,
            enters_calls: false,
            limit: ExitLimit::NONE,
            sorter: Sorter::default(),
            spelled: ByteRuns::default(),
            rejected: None,
        }
    }

    /// Returns the bytes of the masks, without those of the base.
    pub fn bytes(&self) -> usize {
        self.own.bytes() + self.full_bytes + self.full.capacity() * 13 + self.walker.bytes()
    }

    /// Returns the number of masks held for configurations, local states and returns.
    pub fn sizes(&self) -> [usize; 3] {
        [self.full.len(), self.own.local.len(), self.own.next.len()]
    }

    fn compose(&mut self, machine: &mut StackMachine, threads: Arc<[Thread]>) -> Mask {
        let mut union = Union::default();
        let mut todo: Vec<(ExitId, StackId)> = Vec::new();
        // Exits of names; after the return the object has one more name.
        let mut named: Vec<(ExitId, StackId)> = Vec::new();
        // Threads and frames are sorted, so those with the same continuation are adjacent. Only
        // ambiguous grammars have many.
        let alike =
            |a: &Thread, b: &Thread| a.local == b.local && (a.stack == ROOT_STACK) == (b.stack == ROOT_STACK);
        let threads = self.merge_parallel_threads(machine, threads);
        for group in threads.chunk_by(alike) {
            let Thread { local, stack } = group[0];
            let exits = if machine.local.automaton.is_unique_name(local) { &mut named } else { &mut todo };
            #[cfg(test)]
            crate::fault::pass(crate::fault::Point::Mask);
            let further = if stack == ROOT_STACK { None } else { self.added_by(machine, local, &union) };
            // A state that does not accept may lead to ones that do. Those of a base are known
            // already.
            let apart = stack == ROOT_STACK && local.register == 0;
            let rooted = |automaton: &Automaton| {
                automaton.calls_nothing() && !self.shared.layers.local.contains_key(&local)
                    || automaton.accepts(local.state)
            };
            let local = match further {
                Some(mask) => mask,
                None if apart && rooted(&machine.local.automaton) => self.root_mask(machine, local),
                None => match self.light(machine, local) {
                    Some(mask) => mask,
                    None => {
                        for &thread in group {
                            self.add_in_context(machine, thread, &mut union, exits);
                        }
                        continue;
                    }
                },
            };
            self.add(&mut union, &local);
            exits.extend(group.iter().flat_map(|thread| local.exits.iter().map(|&e| (e, thread.stack))));
        }
        let mut seen: FxHashSet<(ExitId, StackId)> = FxHashSet::default();
        let mut added: FxHashSet<(LocalState, ExitId)> = FxHashSet::default();
        let mut walked = 0;
        for (exits, stack) in named {
            for frame in machine.stacks.frames(stack).clone().iter() {
                let ret = machine.local.after_unique_name(frame.ret);
                let next = self.after_return(machine, ret, exits);
                self.add(&mut union, &next);
                todo.extend(next.further(exits).map(|e| (e, frame.parent)));
            }
        }
        while let Some((exits, stack)) = todo.pop() {
            if stack == ROOT_STACK || !seen.insert((exits, stack)) {
                continue;
            }
            if seen.len() > SWEEP_AFTER_PAIRS || todo.len() > SWEEP_AFTER_PAIRS || walked > SWEEP_AFTER_EXITS
            {
                todo.push((exits, stack));
                return self.sweep_stacks(machine, union, todo);
            }
            for group in machine.stacks.frames(stack).clone().chunk_by(|a, b| a.ret == b.ret) {
                let ret = group[0].ret;
                let known = self.own.next.len();
                let next = self.after_return(machine, ret, exits);
                if self.own.next.len() > known {
                    walked += self.exit_set(exits).entries.len();
                }
                if added.insert((ret, exits)) {
                    self.add(&mut union, &next);
                }
                for frame in group {
                    todo.extend(next.further(exits).map(|e| (e, frame.parent)));
                }
            }
        }
        union.finish(self.vocab.len(), &mut self.sorter)
    }

    /// Merges threads with many live bytes that share a stack into one thread each. Together they
    /// need one walk, and a slice fits their union more often, so fewer tokens are tried one by
    /// one. Threads whose masks are known stay apart, because those masks are ready.
    fn merge_parallel_threads(&self, machine: &mut StackMachine, threads: Arc<[Thread]>) -> Arc<[Thread]> {
        if threads.len() < 2 {
            return threads;
        }
        let mut wide = |thread: &&Thread| {
            let Thread { local, stack } = **thread;
            local.register == 0
                && stack != ROOT_STACK
                && !self.shared.layers.local.contains_key(&local)
                && !self.own.local.contains_key(&local)
                && machine.local.automaton.live_bytes(local.state).len() >= RecentStates::MIN_LIVE_BYTES
        };
        let mut joint: Vec<Thread> = threads.iter().filter(&mut wide).copied().collect();
        if joint.len() < 2 {
            return threads;
        }
        joint.sort_unstable_by_key(|thread| (thread.stack, thread.local));
        let mut all: Vec<Thread> = threads.iter().filter(|thread| !joint.contains(thread)).copied().collect();
        for group in joint.chunk_by(|a, b| a.stack == b.stack) {
            let states: Vec<u32> = group.iter().map(|thread| thread.local.state).collect();
            let state =
                if states.len() == 1 { states[0] } else { machine.local.automaton.merged_state(&states) };
            all.push(Thread { local: LocalState { state, register: 0, n: 0 }, stack: group[0].stack });
        }
        all.sort_unstable();
        all.into()
    }

    pub(super) fn add(&self, union: &mut Union, mask: &LocalMask) {
        union.add_tokens(&mask.tokens);
        for &exits in &mask.exits {
            union.add_tokens(&self.exit_set(exits).ending);
        }
        union.add_base(mask.base.as_ref());
    }

    pub(super) fn exit_set(&self, id: ExitId) -> &Arc<ExitSet> {
        let layers = if id.is_multiple_of(2) { &self.shared.layers } else { &self.own };
        &layers.exits[id as usize / 2]
    }

    pub(super) fn intern_exits(&mut self, exits: impl Into<Exits>) -> Option<ExitId> {
        let exits = exits.into();
        if exits.tokens.is_empty() && exits.wide.is_empty() {
            return None;
        }
        let mut key = set_key(&exits);
        loop {
            let known = self.shared.layers.exit_index.get(&key);
            match known.or_else(|| self.own.exit_index.get(&key)) {
                Some(&id) if self.exit_set(id).has_same_exits(&exits) => return Some(id),
                Some(_) => key = key.wrapping_add(1),
                None => break,
            }
        }
        let id = self.own.exits.len() as ExitId * 2 + 1;
        let tails = ExitSet::new(&self.vocab, exits);
        self.own.exit_index.insert(key, id);
        self.own.heap += tails.bytes();
        self.own.exits.push(Arc::new(tails));
        Some(id)
    }

    /// Layer 1: returns the mask of a local state.
    pub(super) fn local(&mut self, machine: &mut StackMachine, local: LocalState) -> LocalMask {
        let local = machine.local.canonical(local, self.vocab.max_token_len() as u32);
        if let Some(known) = self.shared.layers.local.get(&local).or_else(|| self.own.local.get(&local)) {
            return known.clone();
        }
        let mask = self.local_uncached(machine, local);
        if mask.heavy {
            self.own.heavy.insert((local, UNKNOWN_STACK));
            return mask;
        }
        self.own.heap += mask.bytes();
        self.own.local.insert(local, mask.clone());
        mask
    }

    /// Layer 1 for a state of the root rule in which the output may end, now or soon. Free text may
    /// end after every character. Each such end would be an exit for all longer tokens, although
    /// nothing can follow.
    fn root_mask(&mut self, machine: &mut StackMachine, local: LocalState) -> LocalMask {
        if let Some(known) = self.root_mask.get(&local) {
            return known.clone();
        }
        let mask = self.walked(machine, Thread { local, stack: ROOT_STACK });
        self.own.heap += mask.bytes() + size_of::<(LocalState, LocalMask)>();
        self.root_mask.insert(local, mask.clone());
        mask
    }

    fn local_uncached(&mut self, machine: &mut StackMachine, local: LocalState) -> LocalMask {
        if local.register != 0 && machine.local.automaton.is_text_state(local.state) {
            if let Some((min, max)) = machine.local.char_bounds(local) {
                return self.bounded_text(machine, local, min, max);
            }
            if machine.local.automaton.is_open_text(local) {
                return self.unique_text_mask(machine, local);
            }
            if machine.local.automaton.is_unique_name(local) {
                let free = self.local(machine, LocalState { register: 0, n: 0, ..local });
                return self.unique_language_mask(machine, local, free);
            }
            if let Some(mask) = self.pattern_text_mask(machine, local) {
                return mask;
            }
        }
        self.walked(machine, Thread { local, stack: UNKNOWN_STACK })
    }

    /// Returns the mask of a state on a stack: from a similar state, a class loop, or slices and a
    /// walk.
    pub(super) fn walked(&mut self, machine: &mut StackMachine, thread: Thread) -> LocalMask {
        let row = RecentStates::row(&mut machine.local.automaton, thread.local);
        let near = row.as_ref().and_then(|row| self.recent_states.near(thread.stack, row));
        // If a wide slice fits, the walk that is left is smaller than the tokens of a few first
        // bytes.
        let near = near.filter(|_| !self.has_wide_slice(machine, thread));
        let mask = match near {
            Some((mask, bytes)) => self.mask_from_similar(machine, thread, &mask, &bytes),
            None => {
                if let Some(mask) = self.class_loop_mask(machine, thread) {
                    return mask;
                }
                let mut walked = self.walk(machine, thread.local, thread.stack);
                let mut base = self.accepted_row(&walked, u32::MAX);
                if let Some(row) = walked.row.take() {
                    base = Some(with_row(base, row));
                }
                if walked.heavy {
                    return LocalMask { heavy: true, ..LocalMask::default() };
                }
                let exits = Exits { tokens: walked.exits.iter().map(|e| e.0).collect(), wide: walked.wide };
                let mut mask = self.local_mask(base, walked.tokens.iter().map(|t| t.0), exits);
                if !self.follow_calls(machine, walked.calls, &mut mask) {
                    let outer = std::mem::replace(&mut self.enters_calls, true);
                    mask = self.walked(machine, thread);
                    self.enters_calls = outer;
                    return mask;
                }
                mask
            }
        };
        if let Some(row) = row {
            self.recent_states.push(thread.stack, row, mask.clone());
        }
        mask
    }

    /// Returns the mask of a state that no wide slice fits, but that loops in another class of
    /// bytes.
    fn class_loop_mask(&mut self, machine: &mut StackMachine, thread: Thread) -> Option<LocalMask> {
        if thread.local.register != 0 || self.has_wide_slice(machine, thread) {
            return None;
        }
        let vocab = self.vocab.clone();
        let (row, found) = loop_mask(machine, &vocab, &mut self.walker, thread, LoopThresholds::USUAL)?;
        let exits = exits_of(&vocab, (vocab.trie(), 0), &found, None, ExitLimit::NONE)?;
        let mut row: Arc<[u32]> = row.into();
        set_all(&mut row, found.tokens.iter().map(|t| t.0));
        let exits = self.intern_exits(exits).into_iter().collect();
        Some(LocalMask { base: Some(row), exits, ..LocalMask::default() })
    }

    /// Returns the mask of a state from the mask of one that differs in a few first bytes.
    fn mask_from_similar(
        &mut self,
        machine: &mut StackMachine,
        thread: Thread,
        near: &LocalMask,
        bytes: &[u8],
    ) -> LocalMask {
        let vocab = self.vocab.clone();
        let trie = vocab.trie();
        let mut dense = near.base.as_ref().map_or_else(Vec::new, |base| base.to_vec());
        dense.resize(vocab.len().div_ceil(32), 0);
        near.tokens.iter().for_each(|&t| dense[t as usize / 32] |= 1 << (t % 32));
        let mut found = WalkResult::default();
        for &byte in bytes {
            let top = trie.first(byte);
            if top != 0 {
                trie.tokens_below(top).iter().for_each(|&t| dense[t as usize / 32] &= !(1 << (t % 32)));
                self.walker.walk_from(machine, trie, top, &[thread], WalkOptions::ALL, &mut found);
            }
        }
        found.tokens.iter().for_each(|&(t, _)| dense[t as usize / 32] |= 1 << (t % 32));
        let mut exits = exits_of(&vocab, (trie, 0), &found, None, ExitLimit::NONE).unwrap_or_default();
        for &known in &near.exits {
            let known = self.exit_set(known);
            let same = |token: TokenId| !bytes.contains(&vocab.token_bytes(token)[0]);
            exits.tokens.extend(known.entries.iter().filter(|tail| same(tail.token)));
            exits.wide.extend(known.wide.iter().filter(|&&node| same(trie.tokens_below(node)[0])));
        }
        exits.tokens.sort_unstable();
        exits.tokens.dedup();
        exits.wide.sort_unstable();
        exits.wide.dedup();
        let exits = self.intern_exits(exits).into_iter().collect();
        LocalMask { base: Some(dense.into()), exits, ..LocalMask::default() }
    }

    pub(super) fn local_mask(
        &mut self,
        mut base: Option<Arc<[u32]>>,
        tokens: impl ExactSizeIterator<Item = TokenId>,
        exits: impl Into<Exits>,
    ) -> LocalMask {
        let exits = self.intern_exits(exits).into_iter().collect();
        if tokens.len() < DENSE_FROM {
            return LocalMask { base, tokens: tokens.collect(), exits, ..LocalMask::default() };
        }
        let mut dense = base.take().unwrap_or_else(|| empty_row(self.vocab.len()));
        set_all(&mut dense, tokens);
        LocalMask { base: Some(dense), exits, ..LocalMask::default() }
    }

    /// Walks the trie from a local state on a stack, or only the residue of the slice that fits.
    fn walk(&mut self, machine: &mut StackMachine, local: LocalState, stack: StackId) -> CountedMask {
        let vocab = self.vocab.clone();
        let sliced = local.is_unbounded();
        let contained = if sliced { self.slice_of(machine, Thread { local, stack }, false) } else { None };
        let mut walked = CountedMask::default();
        let (trie, need) = match &contained {
            None => (vocab.trie(), ByteFilter::NOTHING),
            Some(contained) => {
                self.take_slice(machine, &vocab, (0, local), contained, &mut walked);
                (vocab.slices()[contained.slice].residue(), contained.need)
            }
        };
        let spaced = if sliced && contained.is_none_or(|c| c.slice > 0) {
            self.walk_spaced(machine, &vocab, Thread { local, stack }, &mut walked)
        } else {
            false
        };
        let options = WalkOptions { need, skip: spaced.then_some(b' '), ..self.walk_options(machine, local) };
        self.walk_trie(machine, (trie, 0), Thread { local, stack }, options, &mut walked);
        self.rejected = None;
        walked
    }

    /// Adds the tokens with a leading blank, if a slice of them fits the state after the blank.
    /// Returns false, with nothing added, if none does.
    fn walk_spaced(
        &mut self,
        machine: &mut StackMachine,
        vocab: &Vocabulary,
        Thread { local, stack }: Thread,
        walked: &mut CountedMask,
    ) -> bool {
        let Some(after) = machine
            .local
            .step(local, b' ', TRIED)
            .filter(|l| machine.local.automaton.stays_in_rule(l.state, stack))
        else {
            return false;
        };
        let Some(contained) = self.slice_of(machine, Thread { local: after, stack }, true) else {
            return false;
        };
        let blank = vocab.trie().first(b' ');
        if blank == 0 {
            return false;
        }
        self.take_slice(machine, vocab, (blank, after), &contained, walked);
        walked.tokens.extend(vocab.trie().tokens_at(blank).iter().map(|&t| (t, after.n)));
        let (trie, need) = (vocab.slices()[contained.slice].residue(), contained.need);
        let options = WalkOptions { need, ..self.walk_options(machine, local) };
        self.walk_trie(machine, (trie, 1), Thread { local: after, stack }, options, walked);
        true
    }

    /// Walks a trie of tokens without their first `before` bytes.
    fn walk_trie(
        &mut self,
        machine: &mut StackMachine,
        (trie, before): (&Trie, u16),
        start: Thread,
        options: WalkOptions,
        walked: &mut CountedMask,
    ) {
        let mut found = WalkResult::default();
        self.walker.walk(machine, trie, &[start], options, &mut found);
        if options.only_legality {
            let mut row = None;
            if !found.subtrees.is_empty() {
                let row = row.get_or_insert_with(|| vec![0; self.vocab.len().div_ceil(32)]);
                found.set_bits(trie, row);
            }
            let exits = exits_of(&self.vocab, (trie, before), &found, row.as_deref(), self.limit);
            walked.heavy |= exits.is_none();
            let exits = exits.unwrap_or_default();
            if let Some(row) = row {
                found.tokens.clear();
                walked.add_row(row);
            }
            let calls = found.calls.iter();
            let node = |p| in_vocabulary(&self.vocab, (trie, before), p);
            walked.calls.extend(calls.filter_map(|&(p, call)| node(p).map(|p| (call, p))));
            walked.exits.extend(exits.tokens.into_iter().map(|tail| (tail, 0)));
            walked.wide.extend(exits.wide);
        } else {
            for (node, n) in found.exits {
                let tails = below(trie, node).map(|t| ExitToken { offset: t.offset + before, ..t });
                walked.exits.extend(tails.map(|t| (t, n)));
            }
        }
        walked.tokens.append(&mut found.tokens);
    }

    /// Returns the mask of text with a bounded length: the unbounded mask, with tokens and exits
    /// filtered by their character counts.
    fn bounded_text(
        &mut self,
        machine: &mut StackMachine,
        local: LocalState,
        min: u32,
        max: u32,
    ) -> LocalMask {
        let text = self.text(machine, local.state);
        let base = self.accepted_row(&text, max);
        let exits: Vec<ExitToken> =
            text.exits.iter().filter(|e| (min..=max).contains(&e.1)).map(|e| e.0).collect();
        let tokens: Vec<TokenId> = text.tokens.iter().filter(|t| t.1 <= max).map(|t| t.0).collect();
        self.local_mask(base, tokens.into_iter(), exits)
    }

    /// Returns the mask of text under a pattern with a bounded length, if few tokens can reach the
    /// bound. Shorter tokens keep their bit. Longer ones are tried one by one.
    fn pattern_text_mask(&mut self, machine: &mut StackMachine, local: LocalState) -> Option<LocalMask> {
        let (spare, rest) = machine.local.slack_chars(local)?;
        let text = self.text(machine, local.state);
        let vocab = self.vocab.clone();
        let of_slice =
            |s: &SlicePart| vocab.slices()[s.slice].between(spare.saturating_sub(s.before), s.most);
        let walked = text.tokens.iter().filter(|t| t.1 > spare).map(|t| t.0);
        let longer: Vec<TokenId> = text.slices.iter().flat_map(of_slice).chain(walked).collect();
        if longer.len() > MAX_TRIED_TOKENS {
            return None;
        }
        let base = self.accepted_row(&text, spare);
        let mut tokens: Vec<TokenId> = text.tokens.iter().filter(|t| t.1 <= spare).map(|t| t.0).collect();
        for token in longer {
            let bytes = vocab.token_bytes(token);
            let fits = bytes.iter().try_fold(local, |l, &b| machine.local.step(l, b, TRIED)).is_some();
            tokens.extend(fits.then_some(token));
        }
        let exits: Vec<ExitToken> = text.exits.iter().filter(|e| e.1 <= rest).map(|e| e.0).collect();
        Some(self.local_mask(base, tokens.into_iter(), exits))
    }

    /// Returns the tokens and exits that a text state allows, with character counts.
    pub(super) fn text(&mut self, machine: &mut StackMachine, state: u32) -> Arc<CountedMask> {
        if let Some(known) = self.shared.layers.text.get(&state).or_else(|| self.own.text.get(&state)) {
            return known.clone();
        }
        let counting = LocalState { state, register: 0, n: 0 }.with_char_count();
        let text = Arc::new(self.walk(machine, counting, UNKNOWN_STACK));
        self.own.heap += text.bytes();
        self.own.text.insert(state, text.clone());
        text
    }

    /// Returns what a walk from a local state must report. Inside strings, some exits are removed
    /// later, by the names or the numbers of characters before them.
    fn walk_options(&self, machine: &StackMachine, local: LocalState) -> WalkOptions {
        let filtered = local.counts_chars() || machine.local.automaton.is_text_state(local.state);
        let leave_calls = !filtered && self.leaves_calls();
        WalkOptions { only_legality: !filtered, leave_calls, ..WalkOptions::ALL }
    }
}
