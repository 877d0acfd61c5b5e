//! Masks of local states: the choice of the strategy.
//!
//! [`MaskBuilder`] tries the strategies in the order that the parent module lists, and memoises what
//! they give. Other files add the strategies: layer 2 is in `returns`, layer 3 in
//! `configuration_union`.

use std::sync::Arc;

use super::class_loops::{LoopThresholds, loop_mask};
use super::exits::{ExitLimit, ExitToken, Exits, below, exits_of, in_vocabulary};
use super::memo::{BaseMasks, CountedMask, ExitId, LocalMask, MaskMemo, MaskTables, SlicePart};
use super::slice_search::ByteRuns;
use super::trie_walk::{ByteFilter, WalkOptions, WalkResult, Walker};
use super::union::{DENSE_FROM, Sorter, empty_row, set_all, with_row};
use crate::machine::{LocalState, ROOT_STACK, StackMachine, TRIED, Thread, UNKNOWN_STACK};
use crate::vocab::{TokenId, Trie, Vocabulary, begins_char};

/// Makes and memoises the masks of states and returns, for one grammar over one vocabulary.
pub(super) struct MaskBuilder {
    pub(super) vocab: Vocabulary,
    pub(super) memo: MaskMemo,
    pub(super) walker: Walker,
    /// Number of calls that are being followed, one inside the other.
    pub(super) depth: usize,
    /// True while walks enter all rules that are called.
    pub(super) enters_calls: bool,
    /// The most exits of a mask that is being made.
    pub(super) limit: ExitLimit,
    pub(super) sorter: Sorter,
    pub(super) byte_runs: ByteRuns,
    /// The tokens that a state rejects, for the state whose slice was requested last. The key is
    /// the state, whether a blank precedes, and the slice.
    pub(super) rejected: Option<((u32, bool, usize), Vec<TokenId>)>,
}

/// Maximum number of tokens that [`MaskBuilder::pattern_text_mask`] tries one by one.
const MAX_TRIED_TOKENS: usize = 8_000;

/// Fewest characters that may follow in a raw text for which the tokens that are too long are few.
const MIN_RAW_REST: u32 = if cfg!(test) { 2 } else { 24 };

impl MaskBuilder {
    /// Creates a builder with some tables on top of a base.
    pub(super) fn new(vocab: &Vocabulary, shared: Arc<BaseMasks>, own: MaskTables) -> Self {
        MaskBuilder {
            vocab: vocab.clone(),
            memo: MaskMemo { shared, own },
            walker: Walker::default(),
            depth: 0,
            enters_calls: false,
            limit: ExitLimit::NONE,
            sorter: Sorter::default(),
            byte_runs: ByteRuns::default(),
            rejected: None,
        }
    }

    /// Returns the bytes held, without those of the base.
    pub(super) fn bytes(&self) -> usize {
        self.memo.own.bytes() + self.walker.bytes()
    }

    /// Layer 1: returns the mask of a local state.
    pub(super) fn local(&mut self, machine: &mut StackMachine, local: LocalState) -> LocalMask {
        let local = machine.local.canonical(local, self.vocab.max_token_len() as u32);
        if let Some(known) = self.memo.find(|tables| &tables.local, &local) {
            return known.clone();
        }
        let mask = self.local_uncached(machine, local);
        if mask.truncated {
            self.memo.own.truncated.insert((local, UNKNOWN_STACK));
            return mask;
        }
        self.memo.keep(|own| &mut own.local, local, mask)
    }

    /// Layer 1 for a state of the root rule in which the output may end, now or soon. Free text may
    /// end after every character. Each such end would be an exit for all longer tokens, although
    /// nothing can follow.
    pub(super) fn root_mask(&mut self, machine: &mut StackMachine, local: LocalState) -> LocalMask {
        if let Some(known) = self.memo.own.root.get(&local) {
            return known.clone();
        }
        let mask = self.walked(machine, Thread { local, stack: ROOT_STACK });
        self.memo.keep(|own| &mut own.root, local, mask)
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
        if let Some(mask) = self.raw_text_mask(machine, local) {
            return mask;
        }
        self.walked(machine, Thread { local, stack: UNKNOWN_STACK })
    }

    /// Returns the mask of a raw text near its longest length: that of the text without a bound, but
    /// tokens that would be too long leave the text where it still fits.
    fn raw_text_mask(&mut self, machine: &mut StackMachine, local: LocalState) -> Option<LocalMask> {
        let rest = machine.local.raw_rest(local).filter(|&rest| rest >= MIN_RAW_REST)? as usize;
        let free = self.local(machine, LocalState { register: 0, n: 0, ..local });
        if free.truncated {
            return None;
        }
        let vocab = self.vocab.clone();
        let mut row = free.base.unwrap_or_else(|| empty_row(vocab.len()));
        set_all(&mut row, free.tokens.iter().copied());
        let mut exits = Exits::default();
        for &id in &free.exits {
            let set = self.memo.exit_set(id);
            if set.wide.iter().any(|&node| vocab.trie().depth(node) > rest) {
                return None;
            }
            exits.wide.extend(&set.wide);
            let fits = |exit: &&ExitToken| {
                let before = &vocab.token_bytes(exit.token)[..exit.offset as usize];
                before.len() <= rest || before.iter().filter(|&&b| begins_char(b)).count() <= rest
            };
            exits.tokens.extend(set.entries.iter().filter(fits));
        }
        let words = Arc::make_mut(&mut row);
        for token in vocab.longer_than(rest) {
            let Some(word) = words.get_mut(token as usize / 32) else { continue };
            let bit = 1 << (token % 32);
            if *word & bit != 0 {
                *word &= !bit;
                let bytes = vocab.token_bytes(token);
                let ends = (1..bytes.len()).filter(|&at| begins_char(bytes[at])).take(rest);
                exits.tokens.extend(ends.map(|at| ExitToken { token, offset: at as u16 }));
            }
        }
        Some(self.local_mask(Some(row), [].into_iter(), exits))
    }

    /// Returns the mask of a state on a stack: from a class loop, or slices and a walk.
    pub(super) fn walked(&mut self, machine: &mut StackMachine, thread: Thread) -> LocalMask {
        if let Some(mask) = self.class_loop_mask(machine, thread) {
            return mask;
        }
        let mut walked = self.walk(machine, thread);
        let mut base = self.accepted_row(&walked, u32::MAX);
        if let Some(row) = walked.row.take() {
            base = Some(with_row(base, row));
        }
        if walked.truncated {
            return LocalMask::above_limit();
        }
        let exits = Exits { tokens: walked.exits.iter().map(|e| e.0).collect(), wide: walked.wide };
        let mut mask = self.local_mask(base, walked.tokens.iter().map(|t| t.0), exits);
        match self.follow_calls(machine, walked.calls, &mut mask) {
            true => mask,
            false => self.entering_calls(|builder| builder.walked(machine, thread)),
        }
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

    /// Makes a mask by `make` with walks that enter all rules that are called.
    pub(super) fn entering_calls(&mut self, make: impl FnOnce(&mut Self) -> LocalMask) -> LocalMask {
        let outer = std::mem::replace(&mut self.enters_calls, true);
        let mask = make(self);
        self.enters_calls = outer;
        mask
    }

    /// Makes a mask by `make` with another limit of its exits.
    pub(super) fn limited(
        &mut self,
        limit: ExitLimit,
        make: impl FnOnce(&mut Self) -> LocalMask,
    ) -> LocalMask {
        let outer = std::mem::replace(&mut self.limit, limit);
        let mask = make(self);
        self.limit = outer;
        mask
    }

    pub(super) fn intern_exits(&mut self, exits: impl Into<Exits>) -> Option<ExitId> {
        self.memo.intern_exits(&self.vocab, exits.into())
    }

    /// Walks the trie from a local state on a stack, or only the residue of the slice that fits.
    fn walk(&mut self, machine: &mut StackMachine, thread: Thread) -> CountedMask {
        let vocab = self.vocab.clone();
        let local = thread.local;
        let sliced = local.is_unbounded();
        let contained = if sliced { self.slice_of(machine, thread, false) } else { None };
        let mut walked = CountedMask::default();
        let (trie, need) = match &contained {
            None => (vocab.trie(), ByteFilter::NOTHING),
            Some(contained) => {
                self.take_slice(machine, (0, local), contained, &mut walked);
                (vocab.slices()[contained.slice].residue(), contained.need)
            }
        };
        let spaced = if sliced && contained.is_none_or(|c| c.slice > 0) {
            self.walk_spaced(machine, &vocab, thread, &mut walked)
        } else {
            false
        };
        let options = WalkOptions { need, skip: spaced.then_some(b' '), ..self.walk_options(machine, local) };
        self.walk_trie(machine, (trie, 0), thread, options, &mut walked);
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
        self.take_slice(machine, (blank, after), &contained, walked);
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
        self.walker.walk_below(machine, trie, 0, &[start], options, &mut found);
        if options.only_legality {
            let mut row = None;
            if !found.subtrees.is_empty() {
                let row = row.get_or_insert_with(|| vec![0; self.vocab.len().div_ceil(32)]);
                found.set_bits(trie, row);
            }
            let exits = exits_of(&self.vocab, (trie, before), &found, row.as_deref(), self.limit);
            walked.truncated |= exits.is_none();
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
        if let Some(known) = self.memo.find(|tables| &tables.text, &state) {
            return known.clone();
        }
        let counting = LocalState { state, register: 0, n: 0 }.with_char_count();
        let text = Arc::new(self.walk(machine, Thread { local: counting, stack: UNKNOWN_STACK }));
        self.memo.own.heap += text.bytes();
        self.memo.own.text.insert(state, text.clone());
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
