//! The mask cache: the masks of configurations, and the memo tables from which they are made.
//!
//! The tables of a base are shared and read only; each grammar adds its own ([`MaskBuilder`]).
//!
//! The buffers of walks and unions are not safe to use after a panic, so a cache is dropped then
//! (see [`matcher`](crate::matcher)).

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::builder::MaskBuilder;
use super::memo::{BaseMasks, ExitId, MaskTables};
use super::token_mask::Mask;
use crate::machine::{ConfigId, LocalState, Machine, StackMachine};
use crate::vocab::Vocabulary;

/// The masks of one grammar over one vocabulary.
pub(crate) struct MaskCache {
    pub(super) builder: MaskBuilder,
    full: FxHashMap<ConfigId, Arc<Mask>>,
    /// Bytes held by `full`.
    full_bytes: usize,
}

/// Maximum number of bytes of configuration masks kept per grammar. When it is exceeded, the table
/// is emptied and masks are recomputed.
const MAX_FULL_BYTES: usize = 64 << 20;

impl MaskCache {
    /// Makes the tables of a base: the masks of the first `states` local states of `machine`.
    pub(crate) fn base(vocab: &Vocabulary, machine: &mut StackMachine, states: u32) -> Arc<BaseMasks> {
        let slice_masks: Vec<Arc<[u32]>> = vocab.slices().iter().map(|s| s.mask.as_slice().into()).collect();
        let shared = |layers| BaseMasks { layers, slice_masks: slice_masks.clone(), up_to: Mutex::default() };
        let shared_none = Arc::new(shared(MaskTables::default()));
        let mut masks = MaskBuilder::new(vocab, shared_none, MaskTables::default());
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
        let mut layers = masks.memo.own;
        let even = |id: ExitId| id - 1;
        layers.exit_index.values_mut().for_each(|id| *id = even(*id));
        for mask in layers.local.values_mut().chain(layers.next.values_mut()) {
            mask.exits.iter_mut().for_each(|id| *id = even(*id));
        }
        layers.next = layers.next.into_iter().map(|((local, id), mask)| ((local, even(id)), mask)).collect();
        Arc::new(shared(layers))
    }

    /// Creates empty tables on top of a base.
    pub(crate) fn new(vocab: &Vocabulary, shared: Arc<BaseMasks>) -> Self {
        let builder = MaskBuilder::new(vocab, shared, MaskTables::default());
        MaskCache { builder, full: FxHashMap::default(), full_bytes: 0 }
    }

    /// Returns the mask of a configuration, without end tokens.
    pub(crate) fn mask(&mut self, machine: &mut Machine, config: ConfigId) -> Arc<Mask> {
        if let Some(mask) = self.full.get(&config) {
            return mask.clone();
        }
        let threads = machine.threads(config);
        let mut mask = self.builder.union_of(&mut machine.core, &threads);
        if machine.tracks_names() {
            self.builder.remove_repeated_names(machine, config, &mut mask);
        }
        if machine.has_unique_items() {
            let repeats = super::unique_items::repeating_tokens(&self.builder.vocab, machine, config, &mask);
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
    pub(crate) fn renewed(&self) -> Self {
        MaskCache::new(&self.builder.vocab, self.builder.memo.shared.clone())
    }

    /// Returns a copy that shares the dense parts of masks. The copy has its own reference counts
    /// for masks. Two threads that changed the same counts would wait for each other's cache lines.
    pub(crate) fn copy(&self) -> Self {
        let own = |(&config, mask): (&ConfigId, &Arc<Mask>)| (config, Arc::new(Mask::clone(mask)));
        let MaskBuilder { vocab, memo, .. } = &self.builder;
        MaskCache {
            builder: MaskBuilder::new(vocab, memo.shared.clone(), memo.own.clone()),
            full: self.full.iter().map(own).collect(),
            full_bytes: self.full_bytes,
        }
    }

    /// Returns the bytes of the masks, without those of the base.
    pub(crate) fn bytes(&self) -> usize {
        self.builder.bytes() + self.full_bytes + self.full.capacity() * 13
    }

    /// Returns the number of masks held for configurations, local states and returns.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let own = &self.builder.memo.own;
        [self.full.len(), own.local.len(), own.next.len()]
    }
}
