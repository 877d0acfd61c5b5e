//! The data types of the memo tables, and the bytes that they hold.
//!
//! Bytes are added up when entries are made, so counting them takes constant time. A mask row that
//! several entries share counts where it was made.

use std::hash::Hash;
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::exits::{ExitSet, ExitToken, Exits, set_key};
use super::state_fits::SliceFit;
use super::token_mask::alone;
use crate::machine::{LocalState, PendingCall, StackId};
use crate::vocab::{ClassSet, TokenId, TrieNode, Vocabulary};

/// Index of an interned set of exits: even ones belong to the base, odd ones to the grammar.
pub(super) type ExitId = u32;

/// The tokens that stay inside a rule, and the exits that leave it.
#[derive(Debug, Clone, Default)]
pub(super) struct LocalMask {
    pub(super) base: Option<Arc<[u32]>>,
    pub(super) tokens: Arc<[TokenId]>,
    pub(super) exits: SmallVec<[ExitId; 2]>,
    /// True if the rule may end right after the return, so that the exits it was entered with also
    /// leave it.
    pub(super) passes: bool,
    /// True if there are more exits than the limit; they are left out.
    pub(super) truncated: bool,
}

/// The tokens and exits of a state without a bounded register, with character counts. The mask for
/// every bound is filtered from it.
#[derive(Debug, Default)]
pub(super) struct CountedMask {
    /// Slices whose tokens stay inside.
    pub(super) slices: Vec<SlicePart>,
    /// Tokens of these slices that do not stay inside.
    pub(super) rejected: Vec<TokenId>,
    /// Other tokens that stay inside, as a row, where characters are not counted.
    pub(super) row: Option<Vec<u32>>,
    /// Other tokens that stay inside, with their numbers of characters.
    pub(super) tokens: Vec<(TokenId, u32)>,
    /// Tokens that leave, with the number of characters before the exit.
    pub(super) exits: Vec<(ExitToken, u32)>,
    /// Wide exits, where characters are not counted.
    pub(super) wide: Vec<TrieNode>,
    /// Calls that are still to be followed, and the nodes of the trie of the vocabulary at which
    /// they are made.
    pub(super) calls: Vec<(PendingCall, TrieNode)>,
    /// True if there are more exits than the limit; they are left out.
    pub(super) truncated: bool,
}

/// The tokens of a slice up to a length.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlicePart {
    pub(super) slice: usize,
    /// Number of characters before the part that is compared with the slice.
    pub(super) before: u32,
    /// Maximum number of characters of that part.
    pub(super) most: u32,
    /// Tokens with a byte of these classes in that part do not stay inside.
    pub(super) without: ClassSet,
}

/// The memo tables that do not depend on stacks.
#[derive(Default, Clone)]
pub(super) struct MaskTables {
    pub(super) local: FxHashMap<LocalState, LocalMask>,
    /// The masks of states of the root rule in which the output may end.
    pub(super) root: FxHashMap<LocalState, LocalMask>,
    pub(super) text: FxHashMap<u32, Arc<CountedMask>>,
    /// By state inside a text: its mask of the tokens outside of the text slice.
    pub(super) outside: FxHashMap<u32, LocalMask>,
    pub(super) slice_of: FxHashMap<(u32, bool, bool), Option<SliceFit>>,
    pub(super) exits: Vec<Arc<ExitSet>>,
    /// The states, with the context above their rule, whose masks are truncated.
    pub(super) truncated: FxHashSet<(LocalState, StackId)>,
    /// The called states and sets of exits for which the same holds.
    pub(super) truncated_calls: FxHashSet<(LocalState, ExitId)>,
    /// The masks of states with a context above their rule.
    pub(super) in_context: FxHashMap<(LocalState, StackId), LocalMask>,
    /// By [`set_key`](super::exits::set_key); on a collision, the next free number.
    pub(super) exit_index: FxHashMap<u64, ExitId>,
    pub(super) next: FxHashMap<(LocalState, ExitId), LocalMask>,
    /// Bytes of what the tables refer to and nothing else does.
    pub(super) heap: usize,
}

impl MaskTables {
    pub(super) fn bytes(&self) -> usize {
        // Keys and values in hash tables, an eighth of whose slots are free.
        let masks = (self.local.capacity() + self.root.capacity())
            * (size_of::<(LocalState, LocalMask)>() + 1)
            + self.next.capacity() * (size_of::<(LocalState, ExitId, LocalMask)>() + 1);
        let contexts = self.in_context.capacity() * (size_of::<(LocalState, StackId, LocalMask)>() + 1)
            + (self.truncated.capacity() + self.truncated_calls.capacity()) * 17;
        let outside = self.outside.capacity() * (size_of::<(u32, LocalMask)>() + 1);
        let exits = self.exits.capacity() * 8 + self.exit_index.capacity() * 17;
        masks
            + contexts
            + outside
            + exits
            + self.slice_of.capacity() * 32
            + self.text.capacity() * 17
            + self.heap
    }
}

/// The memo tables of a grammar, and those of its base.
pub(super) struct MaskMemo {
    pub(super) shared: Arc<BaseMasks>,
    pub(super) own: MaskTables,
}

impl MaskMemo {
    /// Returns an entry of one of the tables.
    pub(super) fn find<K: Eq + Hash + 'static, V: 'static>(
        &self,
        table: impl Fn(&MaskTables) -> &FxHashMap<K, V>,
        key: &K,
    ) -> Option<&V> {
        table(&self.shared.layers).get(key).or_else(|| table(&self.own).get(key))
    }

    /// Adds a mask to one of the grammar's own tables, and returns it.
    pub(super) fn keep<K: Eq + Hash>(
        &mut self,
        table: impl Fn(&mut MaskTables) -> &mut FxHashMap<K, LocalMask>,
        key: K,
        mask: LocalMask,
    ) -> LocalMask {
        self.own.heap += mask.bytes();
        table(&mut self.own).insert(key, mask.clone());
        mask
    }

    pub(super) fn exit_set(&self, id: ExitId) -> &Arc<ExitSet> {
        let layers = if id.is_multiple_of(2) { &self.shared.layers } else { &self.own };
        &layers.exits[id as usize / 2]
    }

    /// Returns the id of a set of exits, or `None` if it is empty.
    pub(super) fn intern_exits(&mut self, vocab: &Vocabulary, exits: Exits) -> Option<ExitId> {
        if exits.tokens.is_empty() && exits.wide.is_empty() {
            return None;
        }
        let mut key = set_key(&exits);
        while let Some(&id) = self.find(|tables| &tables.exit_index, &key) {
            if self.exit_set(id).has_same_exits(&exits) {
                return Some(id);
            }
            key = key.wrapping_add(1);
        }
        let id = self.own.exits.len() as ExitId * 2 + 1;
        let tails = ExitSet::new(vocab, exits);
        self.own.exit_index.insert(key, id);
        self.own.heap += tails.bytes();
        self.own.exits.push(Arc::new(tails));
        Some(id)
    }
}

impl LocalMask {
    /// Stands for a mask with more exits than the limit.
    pub(super) fn above_limit() -> Self {
        LocalMask { truncated: true, ..LocalMask::default() }
    }

    /// Returns the sets of exits that leave the rule, if it was entered with the set `given`.
    pub(super) fn further(&self, given: ExitId) -> impl Iterator<Item = ExitId> + '_ {
        self.exits.iter().copied().chain(self.passes.then_some(given))
    }

    /// Returns the bytes on the heap. The base row counts only if this mask alone refers to it.
    pub(super) fn bytes(&self) -> usize {
        16 + size_of_val(&*self.tokens) + self.base.as_ref().map_or(0, alone)
    }
}

impl CountedMask {
    /// Adds tokens that stay inside.
    pub(super) fn add_row(&mut self, row: Vec<u32>) {
        match &mut self.row {
            Some(all) => all.iter_mut().zip(row).for_each(|(all, more)| *all |= more),
            None => self.row = Some(row),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let exits = self.exits.capacity() * size_of::<(ExitToken, u32)>();
        let lists = self.tokens.capacity() * 8
            + (self.rejected.capacity() + self.wide.capacity()) * 4
            + self.slices.capacity() * size_of::<SlicePart>();
        size_of::<CountedMask>() + exits + lists
    }
}

/// The tables of a base, and slice masks by length. Every grammar on top of the base reads them.
pub(crate) struct BaseMasks {
    pub(super) layers: MaskTables,
    pub(super) slice_masks: Vec<Arc<[u32]>>,
    pub(super) up_to: Mutex<UpTo>,
}

/// By slice and limit: the tokens of the slice with at most that number of characters.
pub(super) type UpTo = FxHashMap<(usize, u32), Arc<[u32]>>;

impl BaseMasks {
    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.slice_masks.iter().map(|m| size_of_val(&**m)).sum::<usize>();
        let up_to = self.up_to.lock().unwrap_or_else(|e| e.into_inner());
        self.layers.bytes() + rows + up_to.values().map(|m| size_of_val(&**m)).sum::<usize>()
    }
}
