//! The memo layers and how they are filled.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Mask;
use super::walk::{Found, Walker};
use crate::machine::{BASE, ConfigId, Local, Machine, OFF_TRIE, ROOT, Reached, StackId, Thread};
use crate::vocab::{Slice, TokenId, TrieNode, Vocabulary};

/// Index of an interned set of exits.
type ExitId = u32;
/// The empty set of exits.
const NO_EXITS: ExitId = 0;

/// Tokens that stay inside a rule, and where it ends.
#[derive(Debug, Clone)]
struct LocalMask {
    base: Option<Arc<[u32]>>,
    tokens: Arc<[TokenId]>,
    exits: ExitId,
}

/// The same for text with its character counts, from which every bounded variant is filtered.
#[derive(Debug)]
struct TextMask {
    /// Index of the slice that holds all of its tokens.
    slice: Option<usize>,
    tokens: Vec<(TokenId, u32)>,
    exits: Vec<(TrieNode, u32)>,
}

/// The memo layers of one grammar; `shared` are those of the base it extends.
#[derive(Default)]
struct Layers {
    local: FxHashMap<Local, LocalMask>,
    text: FxHashMap<u32, Arc<TextMask>>,
    slice_of: FxHashMap<u32, Option<usize>>,
    exit_sets: Vec<Arc<[TrieNode]>>,
    exit_index: FxHashMap<Arc<[TrieNode]>, ExitId>,
    next: FxHashMap<(Local, ExitId), LocalMask>,
}

/// Masks of one grammar over one vocabulary.
pub struct Masks {
    vocab: Vocabulary,
    shared: Option<Arc<Shared>>,
    own: Layers,
    full: FxHashMap<ConfigId, Arc<Mask>>,
    /// Bytes held by `full`.
    full_bytes: usize,
    walker: Walker,
}

/// The layers of a base, and slice masks by character limit; read by every grammar on top of it.
pub struct Shared {
    layers: Layers,
    /// Deterministic states of the base; larger ids belong to single grammars.
    states: u32,
    slice_masks: Vec<Arc<[u32]>>,
    up_to: std::sync::Mutex<FxHashMap<(usize, u32), Arc<[u32]>>>,
}

/// Most bytes of configuration masks kept per grammar; beyond, they are computed again.
const MAX_FULL_BYTES: usize = 64 << 20;
/// From this many tokens on a mask without a base becomes dense.
const DENSE_FROM: usize = 4_000;
/// Most states looked at to find whether a slice is contained in a state's language.
const MAX_SLICE_STATES: usize = 64;

impl Masks {
    /// The layers of a base: every local state of `machine` is answered now.
    pub fn base(vocab: &Vocabulary, machine: &mut Machine, states: u32) -> Arc<Shared> {
        let slice_masks = vocab.slices().iter().map(|s| s.mask.as_slice().into()).collect();
        let empty = Shared { layers: Layers::default(), states, slice_masks, up_to: Default::default() };
        let mut masks = Masks::new(vocab, Arc::new(empty));
        // The first set is the empty one: `NO_EXITS`.
        masks.intern_exits(Vec::new());
        for state in 1..states {
            masks.local(machine, Local { state, register: 0, n: 0 });
        }
        let body = machine.string_body();
        if body != 0 {
            masks.text(machine, body);
        }
        let (slice_masks, up_to) = match masks.shared.take().and_then(Arc::into_inner) {
            Some(shared) => (shared.slice_masks, shared.up_to),
            // The only other owner was the local variable moved above.
            None => (Vec::new(), Default::default()),
        };
        Arc::new(Shared { layers: masks.own, states, slice_masks, up_to })
    }

    /// Empty layers on top of a base.
    pub fn new(vocab: &Vocabulary, shared: Arc<Shared>) -> Self {
        Masks {
            vocab: vocab.clone(),
            shared: Some(shared),
            own: Layers::default(),
            full: FxHashMap::default(),
            full_bytes: 0,
            walker: Walker::default(),
        }
    }

    /// The mask of a configuration, without end tokens.
    pub fn mask(&mut self, machine: &mut Machine, config: ConfigId) -> Arc<Mask> {
        if let Some(mask) = self.full.get(&config) {
            return mask.clone();
        }
        let mask = Arc::new(self.compose(machine, config));
        if self.full_bytes > MAX_FULL_BYTES {
            self.full.clear();
            self.full_bytes = 0;
        }
        self.full_bytes += mask.bytes();
        self.full.insert(config, mask.clone());
        mask
    }

    /// Number of masks of configurations, local states and continuations held.
    pub fn sizes(&self) -> [usize; 3] {
        [self.full.len(), self.own.local.len(), self.own.next.len()]
    }

    fn compose(&mut self, machine: &mut Machine, config: ConfigId) -> Mask {
        let mut union = Union::default();
        let mut todo: Vec<(ExitId, StackId)> = Vec::new();
        for thread in machine.threads(config).iter() {
            let local = self.local(machine, thread.local);
            union.add(&local);
            self.add_exits(&mut union, local.exits);
            todo.push((local.exits, thread.stack));
        }
        let mut seen: FxHashSet<(ExitId, StackId)> = FxHashSet::default();
        while let Some((exits, stack)) = todo.pop() {
            if exits == NO_EXITS || stack == ROOT || !seen.insert((exits, stack)) {
                continue;
            }
            for frame in machine.frames(stack).iter() {
                let next = self.next(machine, frame.ret, exits);
                union.add(&next);
                self.add_exits(&mut union, next.exits);
                todo.push((next.exits, frame.parent));
            }
        }
        union.finish(self.vocab.len())
    }

    fn add_exits(&self, union: &mut Union, exits: ExitId) {
        let trie = self.vocab.trie();
        for &node in self.exit_set(exits).iter() {
            union.tokens.extend_from_slice(trie.tokens_at(node));
        }
    }

    fn shared_layers(&self) -> Option<&Layers> {
        self.shared.as_ref().map(|s| &s.layers)
    }

    fn exit_set(&self, id: ExitId) -> &Arc<[TrieNode]> {
        let shared = self.shared_layers().map_or(&[][..], |l| &l.exit_sets);
        match shared.get(id as usize) {
            Some(set) => set,
            None => &self.own.exit_sets[id as usize - shared.len()],
        }
    }

    fn intern_exits(&mut self, exits: Vec<TrieNode>) -> ExitId {
        let shared = self.shared_layers();
        if let Some(&id) = shared.and_then(|l| l.exit_index.get(&exits[..])) {
            return id;
        }
        if let Some(&id) = self.own.exit_index.get(&exits[..]) {
            return id;
        }
        let id = (shared.map_or(0, |l| l.exit_sets.len()) + self.own.exit_sets.len()) as ExitId;
        let set: Arc<[TrieNode]> = exits.into();
        self.own.exit_sets.push(set.clone());
        self.own.exit_index.insert(set, id);
        id
    }

    /// Layer 1: the mask of a local state.
    fn local(&mut self, machine: &mut Machine, local: Local) -> LocalMask {
        let horizon = self.vocab.max_token_len() as u32;
        let local = machine.settled(local, horizon);
        let shared = self.shared_layers().and_then(|l| l.local.get(&local));
        if let Some(known) = shared.or_else(|| self.own.local.get(&local)) {
            return known.clone();
        }
        let mask = self.local_uncached(machine, local);
        self.own.local.insert(local, mask.clone());
        mask
    }

    fn local_uncached(&mut self, machine: &mut Machine, local: Local) -> LocalMask {
        if local.register != 0 && machine.is_text_state(local.state) {
            if let Some((min, max)) = machine.char_bounds(local) {
                return self.bounded_text(machine, local, min, max);
            }
            if let Some(names) = machine.names(local) {
                return self.unnamed_text(machine, local, &names);
            }
        }
        let slice = if local.register == 0 { self.slice_of(machine, local.state) } else { None };
        let found = self.walk_local(machine, local, slice);
        let base = slice.and_then(|i| self.slice_mask(i));
        self.local_mask(base, found)
    }

    fn local_mask(&mut self, base: Option<Arc<[u32]>>, found: Found) -> LocalMask {
        let exits = self.intern_exits(sorted(found.exits.into_iter().map(|e| e.0).collect()));
        LocalMask { base, tokens: found.tokens.into_iter().map(|t| t.0).collect(), exits }
    }

    /// Walks the trie, or only the part outside a slice, from a local state.
    fn walk_local(&mut self, machine: &mut Machine, local: Local, slice: Option<usize>) -> Found {
        let mut found = Found::default();
        let vocab = self.vocab.clone();
        let start = [Thread { local, stack: BASE }];
        match slice.map(|i| &vocab.slices()[i]) {
            None => self.walker.walk(machine, vocab.trie(), 0, &start, &mut found),
            Some(slice) => {
                self.walker.walk(machine, &slice.residue, 0, &start, &mut found);
                for exit in &mut found.exits {
                    exit.0 = slice.full_node[exit.0 as usize];
                }
            }
        }
        found
    }

    /// Text whose length is bounded: the unbounded mask with tokens and exits filtered by count.
    fn bounded_text(&mut self, machine: &mut Machine, local: Local, min: u32, max: u32) -> LocalMask {
        let text = self.text(machine, local.state);
        let base = text.slice.and_then(|i| self.slice_up_to(i, max));
        let exits = text.exits.iter().filter(|e| (min..=max).contains(&e.1)).map(|e| e.0).collect();
        let exits = self.intern_exits(sorted(exits));
        let tokens = text.tokens.iter().filter(|t| t.1 <= max).map(|t| t.0).collect();
        LocalMask { base, tokens, exits }
    }

    /// Text that must not become one of some names: only exits can complete a name.
    fn unnamed_text(
        &mut self,
        machine: &mut Machine,
        local: Local,
        names: &crate::machine::register::NameTrie,
    ) -> LocalMask {
        let text = self.text(machine, local.state);
        let trie = self.vocab.trie();
        let completes = |node: TrieNode| {
            let token = trie.tokens_below(node).first().copied().unwrap_or_default();
            let path = &self.vocab.token_bytes(token)[..trie.depth(node)];
            let mut n = local.n;
            for &b in &path[..path.len().saturating_sub(1)] {
                n = names.step(n, b);
                if n == OFF_TRIE {
                    return false;
                }
            }
            names.is_name(n)
        };
        let exits = text.exits.iter().map(|e| e.0).filter(|&node| !completes(node)).collect();
        let exits = self.intern_exits(sorted(exits));
        let base = text.slice.and_then(|i| self.slice_mask(i));
        LocalMask { base, tokens: text.tokens.iter().map(|t| t.0).collect(), exits }
    }

    /// The mask of a text state with character counts.
    fn text(&mut self, machine: &mut Machine, state: u32) -> Arc<TextMask> {
        let shared = self.shared_layers().and_then(|l| l.text.get(&state));
        if let Some(known) = shared.or_else(|| self.own.text.get(&state)) {
            return known.clone();
        }
        let plain = Local { state, register: 0, n: 0 };
        let slice = self.slice_of(machine, state);
        let Found { tokens, exits } = self.walk_local(machine, machine.counting(plain), slice);
        let text = Arc::new(TextMask { slice, tokens, exits });
        self.own.text.insert(state, text.clone());
        text
    }

    /// Layer 2: what follows where a rule ended at `exits` and returns to `ret`.
    fn next(&mut self, machine: &mut Machine, ret: Local, exits: ExitId) -> LocalMask {
        let ret = machine.settled(ret, self.vocab.max_token_len() as u32);
        let key = (ret, exits);
        let shared = self.shared_layers().and_then(|l| l.next.get(&key));
        if let Some(known) = shared.or_else(|| self.own.next.get(&key)) {
            return known.clone();
        }
        let mut reached = Reached::default();
        machine.enter(ret, BASE, &mut reached);
        let nodes = self.exit_set(exits).clone();
        let vocab = self.vocab.clone();
        let mut found = Found::default();
        for &node in nodes.iter() {
            if reached.exit.is_some() {
                found.exits.push((node, 0));
            }
            if vocab.trie().end(node) > node + 1 && !reached.threads.is_empty() {
                self.walker.walk(machine, vocab.trie(), node, &reached.threads, &mut found);
            }
        }
        let mask = self.local_mask(None, found);
        self.own.next.insert(key, mask.clone());
        mask
    }

    fn slice_mask(&self, slice: usize) -> Option<Arc<[u32]>> {
        self.shared.as_ref().map(|s| s.slice_masks[slice].clone())
    }

    fn slice_up_to(&self, slice: usize, limit: u32) -> Option<Arc<[u32]>> {
        let shared = self.shared.as_ref()?;
        let data: &Slice = &self.vocab.slices()[slice];
        if data.all_up_to(limit) {
            return self.slice_mask(slice);
        }
        // A poisoned lock only means that another thread panicked; the table stays valid.
        let mut table = shared.up_to.lock().unwrap_or_else(|e| e.into_inner());
        Some(table.entry((slice, limit)).or_insert_with(|| data.mask_up_to(limit).into()).clone())
    }

    /// The widest slice all of whose strings keep `state` alive within its rule.
    fn slice_of(&mut self, machine: &mut Machine, state: u32) -> Option<usize> {
        let shared = self.shared.as_ref().filter(|s| state < s.states);
        if let Some(&known) =
            shared.and_then(|s| s.layers.slice_of.get(&state)).or_else(|| self.own.slice_of.get(&state))
        {
            return known;
        }
        let vocab = self.vocab.clone();
        let found = (0..vocab.slices().len()).find(|&i| contains_slice(machine, &vocab, &vocab.slices()[i], state));
        self.own.slice_of.insert(state, found);
        found
    }
}

fn sorted(mut nodes: Vec<TrieNode>) -> Vec<TrieNode> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Whether every string over the slice's characters keeps `state` alive within its rule: explores the
/// states reached, in step with the plain string automaton where characters have several bytes.
fn contains_slice(machine: &mut Machine, vocab: &Vocabulary, slice: &Slice, state: u32) -> bool {
    let ascii: Vec<u8> = (0..0x80).filter(|&b| slice.kind.has_ascii(b) && vocab.has_byte(b)).collect();
    let body = machine.string_body();
    let mut seen: FxHashSet<(u32, u32)> = FxHashSet::from_iter([(state, body)]);
    let mut todo = vec![(state, body)];
    while let Some((state, text)) = todo.pop() {
        if seen.len() > MAX_SLICE_STATES {
            return false;
        }
        let mut bytes: Vec<u8> = Vec::new();
        if text == body {
            bytes.extend_from_slice(&ascii);
        }
        if slice.kind.has_unicode() {
            bytes.extend((0x80..=0xff).filter(|&b| machine.step_state(text, b) != 0));
        }
        for b in bytes {
            let next = machine.step_state(state, b);
            if next == 0 {
                return false;
            }
            let text = if b < 0x80 { body } else { machine.step_state(text, b) };
            if seen.insert((next, text)) {
                todo.push((next, text));
            }
        }
    }
    !ascii.is_empty()
}

/// A union of masks under construction.
#[derive(Default)]
struct Union {
    base: Option<Arc<[u32]>>,
    tokens: Vec<TokenId>,
}

impl Union {
    fn add(&mut self, mask: &LocalMask) {
        self.tokens.extend_from_slice(&mask.tokens);
        match (&self.base, &mask.base) {
            (_, None) => {}
            (None, Some(base)) => self.base = Some(base.clone()),
            (Some(mine), Some(other)) if Arc::ptr_eq(mine, other) => {}
            (Some(mine), Some(other)) => {
                let merged: Vec<u32> = mine.iter().zip(other.iter()).map(|(a, b)| a | b).collect();
                self.base = Some(merged.into());
            }
        }
    }

    fn finish(mut self, tokens: usize) -> Mask {
        self.tokens.sort_unstable();
        self.tokens.dedup();
        if self.tokens.len() > DENSE_FROM {
            let mut dense = match &self.base {
                Some(base) => base.to_vec(),
                None => vec![0u32; tokens.div_ceil(32)],
            };
            for &t in &self.tokens {
                dense[t as usize / 32] |= 1 << (t % 32);
            }
            return Mask { base: Some(dense.into()), tokens: Box::default() };
        }
        Mask { base: self.base, tokens: self.tokens.into() }
    }
}
