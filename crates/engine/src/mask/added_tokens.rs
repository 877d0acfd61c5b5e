//! The tokens that one more text state adds to a mask that has nearly all text already.
//!
//! An object with several patterns for its names has an automaton for each set of patterns that a
//! name may match. While a name is written, all of them are alive. The first of them makes nearly
//! all tokens of text legal. For each of the others, two groups of tokens are left to check:
//!
//! - the tokens of text that the mask does not have yet;
//! - the tokens outside of the widest slice, through which the name may end.
//!
//! # Cost
//!
//! One try for each missing token, and once for each state a walk of the residue.
//!
//! # Alternatives considered
//!
//! The mask of each state by itself: it searches as many automata as there are sets of patterns.

use super::builder::MaskBuilder;
use super::exits::{ExitToken, below};
use super::memo::LocalMask;
use super::token_mask::tokens_of;
use super::trie_walk::{ByteFilter, WalkOptions, WalkResult};
use super::union::Union;
use crate::machine::{LocalState, StackMachine, TRIED, Thread, UNKNOWN_STACK};
use crate::vocab::{Slice, SliceKind, TokenId, byte_group};

/// Maximum number of missing tokens of text that are tried one by one.
const MAX_MISSING_TOKENS: usize = 1_000;

impl MaskBuilder {
    /// Returns what a state inside a text adds to a mask that has nearly all tokens of text.
    /// Returns `None` if the mask of the state is known, or must be made in the usual way.
    pub(super) fn added_by(
        &mut self,
        machine: &mut StackMachine,
        local: LocalState,
        union: &Union,
    ) -> Option<LocalMask> {
        let local = machine.local.canonical(local, self.vocab.max_token_len() as u32);
        let free = LocalState { register: 0, n: 0, ..local };
        let is_known = |at| self.memo.find(|tables| &tables.local, at).is_some();
        let is_new = local == free
            || machine.local.automaton.is_unique_name(local) && !machine.local.automaton.is_open_text(local);
        if is_known(&local)
            || is_known(&free)
            || !is_new
            || !machine.local.automaton.is_purely_in_string(local.state)
        {
            return None;
        }
        let vocab = self.vocab.clone();
        let slice = vocab.slices().iter().find(|slice| slice.kind == SliceKind::JsonText && !slice.spaced)?;
        let missing = union.missing(&slice.mask, MAX_MISSING_TOKENS)?;
        let stays = |t: &TokenId| {
            let mut bytes = vocab.token_bytes(*t).iter();
            bytes.try_fold(free, |at, &b| machine.local.step(at, b, TRIED)).is_some()
        };
        let more: Vec<TokenId> = tokens_of(&missing).filter(stays).collect();
        let mut mask = self.outside(machine, free, slice);
        if !more.is_empty() {
            mask.tokens = mask.tokens.iter().copied().chain(more).collect();
        }
        Some(if local == free { mask } else { self.unique_language_mask(machine, local, mask) })
    }

    /// Returns what a state inside a text allows of the tokens outside of the text slice.
    fn outside(&mut self, machine: &mut StackMachine, local: LocalState, slice: &Slice) -> LocalMask {
        if let Some(known) = self.memo.own.outside.get(&local.state) {
            return known.clone();
        }
        // Besides text, a string accepts quotes, backslashes and parts of characters.
        let groups = [b'"', b'\\', 0x80].into_iter().fold(0, |all, b| all | byte_group(b));
        let need = ByteFilter { groups, reach: u32::MAX };
        let mut found = WalkResult::default();
        let thread = [Thread { local, stack: UNKNOWN_STACK }];
        let options = WalkOptions { need, ..WalkOptions::ALL };
        self.walker.walk_below(machine, slice.residue(), 0, &thread, options, &mut found);
        let exits: Vec<ExitToken> = found.exits.iter().flat_map(|e| below(slice.residue(), e.0)).collect();
        let mask = self.local_mask(None, found.tokens.iter().map(|t| t.0), exits);
        self.memo.keep(|own| &mut own.outside, local.state, mask)
    }
}
