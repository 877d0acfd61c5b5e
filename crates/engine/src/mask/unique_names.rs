//! Masks of names that must not repeat: the masks without that condition, less the tokens that
//! repeat a known name or contain one twice.
//!
//! A name is complete where it ends. In plain text only the exits that complete a known name are
//! wrong. In a language of names, the tokens that can only become a known name are wrong, too.
//! Tokens that hold a name twice by themselves are removed from the whole mask, because masks are
//! made without memory of names that are only tried. So are tokens that complete the last possible
//! name and begin another.
//!
//! # Cost
//!
//! A check of each exit, or of the bytes of each name that was seen.
//!
//! # Alternatives considered
//!
//! Walks that remember names: there would be a different walk for every set of names.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::builder::MaskBuilder;
use super::exits::ExitToken;
use super::memo::LocalMask;
use super::token_mask::Mask;
use crate::machine::{ConfigId, LocalState, Machine, StackMachine, TRIED};
use crate::vocab::TokenId;

impl MaskBuilder {
    /// Removes the tokens that hold a name twice. Masks are made without memory of names that are
    /// only tried.
    pub(super) fn remove_repeated_names(&self, machine: &mut Machine, config: ConfigId, mask: &mut Mask) {
        let mut repeats = Vec::new();
        for token in self.vocab.repeating_tokens(machine.core.local.automaton.has_scalar_sets()) {
            if mask.contains(token) && !machine.allows(config, self.vocab.token_bytes(token)) {
                repeats.push(token);
            }
        }
        // A name that a token completes may be the last one, so that no other can begin.
        let automaton = &machine.core.local.automaton;
        let is_closed = |local| automaton.is_unique_name(local) && !automaton.is_open_text(local);
        if machine.threads(config).iter().any(|thread| is_closed(thread.local)) {
            let going_on = self.vocab.separators().quoted.iter().filter(|&&token| mask.contains(token));
            let refused = going_on.filter(|&&t| !machine.allows(config, self.vocab.token_bytes(t)));
            repeats.extend(refused);
        }
        mask.remove(&repeats);
    }

    /// Returns the mask of text that must not become one of some names. Only an exit can complete a
    /// name.
    pub(super) fn unique_text_mask(&mut self, machine: &mut StackMachine, local: LocalState) -> LocalMask {
        let text = self.text(machine, local.state);
        let vocab = self.vocab.clone();
        let (now, next) = (machine.local.would_repeat(local, &[]), machine.local.repeating_bytes(local));
        let completes = |tail: &ExitToken| {
            // The byte at the exit is the closing quote.
            match &vocab.token_bytes(tail.token)[..(tail.offset as usize).saturating_sub(1)] {
                [] => now,
                rest => next[rest[0] as usize] && machine.local.would_repeat(local, rest),
            }
        };
        let exits: Vec<ExitToken> = text.exits.iter().map(|e| e.0).filter(|t| !completes(t)).collect();
        if exits.len() == text.exits.len() {
            return self.local(machine, LocalState { register: 0, n: 0, ..local });
        }
        let base = self.accepted_row(&text, u32::MAX);
        self.local_mask(base, text.tokens.iter().map(|t| t.0), exits)
    }

    /// Returns the mask of text of a language that must not become a known name, from the mask of
    /// the language.
    pub(super) fn unique_language_mask(
        &mut self,
        machine: &mut StackMachine,
        local: LocalState,
        free: LocalMask,
    ) -> LocalMask {
        let vocab = self.vocab.clone();
        let trie = vocab.trie();
        // Tokens that complete a known name, or can only become one.
        let mut stuck = FxHashSet::default();
        for rest in machine.local.remaining_names(local) {
            let mut at = Some(local);
            for (i, &byte) in rest.iter().enumerate() {
                let Some(node) = trie.find(&rest[..=i]) else { break };
                at = at.and_then(|at| machine.local.step(at, byte, TRIED));
                if at.is_none() {
                    stuck.extend(trie.tokens_below(node).iter().copied());
                    break;
                }
            }
        }
        if stuck.is_empty() {
            return free;
        }
        let base = free.base.map(|base| {
            let mut row = base.to_vec();
            for &t in &stuck {
                if let Some(word) = row.get_mut(t as usize / 32) {
                    *word &= !(1 << (t % 32));
                }
            }
            Arc::from(row)
        });
        let tokens: Vec<TokenId> = free.tokens.iter().copied().filter(|t| !stuck.contains(t)).collect();
        // Exits of text are never wide.
        let tails = free.exits.iter().flat_map(|&exits| self.memo.exit_set(exits).entries.iter());
        let exits: Vec<ExitToken> = tails.filter(|tail| !stuck.contains(&tail.token)).copied().collect();
        self.local_mask(base, tokens.into_iter(), exits)
    }
}
