//! Recently masked states, for the masks of states that are nearly equal.
//!
//! In free text, every beginning of a trigger is a state of its own. Two of them differ only in the
//! targets of a few bytes. Tokens that start with other bytes need no second walk.
//!
//! # Cost
//!
//! Comparing two states takes 256 transitions, a walk of all tokens many thousands.
//!
//! # Alternatives considered
//!
//! A separate mask for each first byte: most states have few live bytes, and their masks are cheap
//! anyway.

use std::collections::VecDeque;

use super::memo::LocalMask;
use crate::machine::{Automaton, LocalState, StackId};

/// The states with many live bytes that were masked last.
#[derive(Clone, Default)]
pub(super) struct RecentStates {
    recent: VecDeque<(StackId, Box<[u32; 256]>, LocalMask)>,
}

impl RecentStates {
    /// Minimum number of live first bytes of a state that is compared.
    pub(super) const MIN_LIVE_BYTES: u32 = 128;
    /// Maximum number of first bytes in which two states may differ.
    const MAX_DIFFERENT_BYTES: usize = 8;
    /// Number of states kept.
    const CAPACITY: usize = 8;

    /// Returns the transitions of a state with many live bytes and without a register, else `None`.
    pub(super) fn row(automaton: &mut Automaton, local: LocalState) -> Option<Box<[u32; 256]>> {
        if local.register != 0 {
            return None;
        }
        let many = automaton.live_bytes(local.state).len() >= Self::MIN_LIVE_BYTES;
        many.then(|| Box::new(automaton.transitions(local.state)))
    }

    /// Returns the mask of a nearly equal state with the same stack, and the bytes in which the two
    /// differ.
    pub(super) fn near(&self, stack: StackId, row: &[u32; 256]) -> Option<(LocalMask, Vec<u8>)> {
        self.recent.iter().filter(|known| known.0 == stack).find_map(|(_, other, mask)| {
            let differs = |&b: &u8| row[b as usize] != other[b as usize];
            let bytes: Vec<u8> = (0..=255).filter(differs).take(Self::MAX_DIFFERENT_BYTES + 1).collect();
            (bytes.len() <= Self::MAX_DIFFERENT_BYTES).then(|| (mask.clone(), bytes))
        })
    }

    pub(super) fn push(&mut self, stack: StackId, row: Box<[u32; 256]>, mask: LocalMask) {
        if self.recent.len() == Self::CAPACITY {
            self.recent.pop_front();
        }
        self.recent.push_back((stack, row, mask));
    }
}
