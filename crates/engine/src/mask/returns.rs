//! Layer 2: masks after returns from rules.
//!
//! A rule that is called on an unknown stack ends at a set of exits. What may follow an exit belongs
//! to the state after the return, not to the path that led there. So the mask is memoised by that
//! state and the set of exits. It has the tokens that continue after the return, and the exits of
//! the calling rule in turn.
//!
//! # Cost
//!
//! A walk of the rests of the exits, and of the trie of the vocabulary below wide exits.
//!
//! # Alternatives considered
//!
//! One set for the exits that pass a return at once and those found after it: the first kind may be
//! thousands, which were copied at each return, and each path made sets of its own. Such sets stay
//! apart, and only small ones are merged.

use std::sync::Arc;

use super::builder::MaskBuilder;
use super::exits::{ExitLimit, exits_of};
use super::memo::{ExitId, LocalMask};
use super::trie_walk::{WalkOptions, WalkResult};
use crate::machine::{LocalState, StackMachine, StepResult, TRIED, UNKNOWN_STACK};

/// Up to this number of exits, those that pass a return are merged with those found after it. More
/// would be copied at each return, and each path would have sets of its own.
const MERGE_UP_TO: usize = if cfg!(test) { 20 } else { 1_000 };

impl MaskBuilder {
    /// Layer 2: returns the mask after a rule ended at `exits` and returned to `ret`.
    pub(super) fn after_return(
        &mut self,
        machine: &mut StackMachine,
        ret: LocalState,
        exits: ExitId,
    ) -> LocalMask {
        self.limited(ExitLimit::NONE, |builder| builder.continued(machine, ret, exits))
    }

    /// Returns the mask of a state that is entered at a set of exits, up to the limit.
    pub(super) fn continued(
        &mut self,
        machine: &mut StackMachine,
        ret: LocalState,
        exits: ExitId,
    ) -> LocalMask {
        let ret = machine.local.canonical(ret, self.vocab.max_token_len() as u32);
        let key = (ret, exits);
        if let Some(known) = self.memo.find(|tables| &tables.next, &key) {
            return known.clone();
        }
        let mut reached = StepResult::default();
        machine.closure_from(ret, UNKNOWN_STACK, TRIED, &mut reached);
        let tails = self.memo.exit_set(exits).clone();
        let vocab = self.vocab.clone();
        let mut found = WalkResult::default();
        self.walker.walk_below(machine, &tails.trie, 0, &reached.threads, WalkOptions::LEGALITY, &mut found);
        let mut in_wide = WalkResult::default();
        let calls = self.calls_at_wide(machine, ret, &tails, &mut reached);
        let options = WalkOptions { leave_calls: self.leaves_calls(), ..WalkOptions::LEGALITY };
        for &node in &tails.wide {
            self.walker.walk_below(machine, vocab.trie(), node, &reached.threads, options, &mut in_wide);
        }
        let mut base = None;
        if !in_wide.subtrees.is_empty() {
            let mut row = vec![0; vocab.len().div_ceil(32)];
            in_wide.set_bits(vocab.trie(), &mut row);
            base = Some(row);
        }
        let further = exits_of(&vocab, (vocab.trie(), 0), &in_wide, base.as_deref(), self.limit);
        let Some(mut further) = further else {
            return LocalMask::above_limit();
        };
        further.tokens.extend(found.exits.iter().flat_map(|e| tails.below(e.0)));
        let mut tokens = std::mem::take(&mut in_wide.tokens);
        let below = found.subtrees.iter().flat_map(|&node| tails.trie.tokens_below(node));
        let ids = found.tokens.iter().map(|t| &t.0).chain(below);
        tokens.extend(ids.map(|&id| (tails.entries[id as usize].token, 0)));
        let ends = reached.exit.is_some();
        let nothing_new = further.tokens.is_empty() && further.wide.is_empty();
        let apart = !tails.wide.is_empty() || tails.entries.len() > MERGE_UP_TO;
        if ends && !nothing_new && !apart {
            further.tokens.extend_from_slice(&tails.entries);
        }
        // A token that left at several offsets may leave again at one. Without this, exits would
        // multiply.
        if !found.exits.is_empty() || tails.wide.len() > 1 {
            further.tokens.sort_unstable();
            further.tokens.dedup();
        }
        let mut mask = self.local_mask(base.map(Arc::from), tokens.iter().map(|t| t.0), further);
        if ends && nothing_new {
            mask.exits.push(exits);
        }
        mask.passes = ends && !nothing_new && apart;
        if !calls.is_empty() || !in_wide.calls.is_empty() {
            let all = calls.into_iter().flat_map(|call| tails.wide.iter().map(move |&node| (call, node)));
            let all = all.chain(in_wide.calls.iter().map(|&(node, call)| (call, node))).collect();
            if !self.follow_calls(machine, all, &mut mask) {
                return self.entering_calls(|builder| builder.continued(machine, ret, exits));
            }
        }
        self.memo.keep(|own| &mut own.next, key, mask)
    }
}
