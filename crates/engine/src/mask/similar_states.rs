//! States with many ways on, of which most lead where those of a known state do.
//!
//! In free text every beginning of a trigger is a state of its own, but two of them differ in where a few
//! bytes lead, and tokens that begin with other bytes need no second look. Comparing two states costs 256
//! transitions, a walk some hundred thousand. Splitting all masks by their first byte was rejected: most
//! states have few ways on, and theirs are cheap as they are.

use std::collections::VecDeque;

use super::memo::LocalMask;
use crate::machine::{LocalState, Machine, StackId};

/// States with many ways on whose masks are known.
#[derive(Clone, Default)]
pub(super) struct RecentStates {
    recent: VecDeque<(StackId, Box<[u32; 256]>, LocalMask)>,
}

impl RecentStates {
    /// Fewest first bytes of a state that is worth a comparison.
    pub(super) const MIN_LIVE_BYTES: u32 = 128;
    /// Most first bytes in which two states may differ.
    const MAX_DIFFERENT_BYTES: usize = 8;
    /// States kept.
    const CAPACITY: usize = 8;

    /// Where each byte leads from a state with many ways on and nothing to count.
    pub(super) fn row(machine: &mut Machine, local: LocalState) -> Option<Box<[u32; 256]>> {
        if local.register != 0 {
            return None;
        }
        let many = machine.live_bytes(local.state).len() >= Self::MIN_LIVE_BYTES;
        many.then(|| Box::new(machine.transitions(local.state)))
    }

    /// The mask of a state on the same kind of stack that is almost alike, and the bytes in which it
    /// differs.
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
