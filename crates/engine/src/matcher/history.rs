//! Stack of the configurations of a generation, with constant-time rollback and fork.
//!
//! # Cost
//!
//! Full blocks are shared between forks through an [`Arc`]; only the last block, at most 64
//! entries, is copied. Rollback drops entries and visits one shared block per 64 tokens.
//!
//! # Alternatives considered
//!
//! A plain vector was rejected: a fork would copy the whole generation.

use std::sync::Arc;

use crate::machine::ConfigId;
use crate::vocab::TokenId;

const BLOCK: usize = 64;

type Entry = (TokenId, ConfigId);

struct Block {
    entries: [Entry; BLOCK],
    previous: Option<Arc<Block>>,
}

impl Drop for Block {
    /// Unlinks the blocks iteratively: a long chain must not recurse.
    fn drop(&mut self) {
        let mut next = self.previous.take();
        while let Some(mut block) = next.and_then(Arc::into_inner) {
            next = block.previous.take();
        }
    }
}

/// A stack of (token, configuration after it).
#[derive(Clone)]
pub(super) struct History {
    start: ConfigId,
    full: Option<Arc<Block>>,
    blocks: usize,
    tail: Vec<Entry>,
}

impl History {
    pub(super) fn new(start: ConfigId) -> Self {
        History { start, full: None, blocks: 0, tail: Vec::with_capacity(BLOCK) }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks * BLOCK + self.tail.len()
    }

    /// Returns the current configuration.
    pub(super) fn current(&self) -> ConfigId {
        match (self.tail.last(), &self.full) {
            (Some(entry), _) => entry.1,
            (None, Some(block)) => block.entries[BLOCK - 1].1,
            (None, None) => self.start,
        }
    }

    /// Returns the last token.
    pub(super) fn last(&self) -> Option<TokenId> {
        let full = self.full.as_ref().map(|block| &block.entries[BLOCK - 1]);
        self.tail.last().or(full).map(|entry| entry.0)
    }

    /// Returns the last tokens, at most `most` and at most those of two blocks, oldest first.
    pub(super) fn last_tokens(&self, most: usize) -> Vec<TokenId> {
        let full = self.full.iter().flat_map(|block| &block.entries);
        let all: Vec<TokenId> = full.chain(&self.tail).map(|entry| entry.0).collect();
        all[all.len().saturating_sub(most)..].to_vec()
    }

    pub(super) fn push(&mut self, token: TokenId, config: ConfigId) {
        if self.tail.len() == BLOCK {
            let mut entries = [(0, 0); BLOCK];
            entries.copy_from_slice(&self.tail);
            self.full = Some(Arc::new(Block { entries, previous: self.full.take() }));
            self.blocks += 1;
            self.tail.clear();
        }
        self.tail.push((token, config));
    }

    /// Drops the last `n` entries; `n` is at most `len`.
    pub(super) fn pop(&mut self, mut n: usize) {
        while n > self.tail.len() {
            n -= self.tail.len();
            self.tail.clear();
            let Some(block) = self.full.take() else { return };
            self.tail.extend_from_slice(&block.entries);
            self.full = block.previous.clone();
            self.blocks -= 1;
        }
        self.tail.truncate(self.tail.len() - n);
    }

    /// Returns the tokens, oldest first. Linear in their number; for error messages and reports.
    pub(super) fn tokens(&self) -> Vec<TokenId> {
        let mut blocks = Vec::new();
        let mut next = self.full.as_ref();
        while let Some(block) = next {
            blocks.push(block);
            next = block.previous.as_ref();
        }
        let full = blocks.iter().rev().flat_map(|b| b.entries.iter());
        full.chain(&self.tail).map(|e| e.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_vector_across_blocks() {
        let mut history = History::new(7);
        let mut plain: Vec<Entry> = Vec::new();
        let mut forks = Vec::new();
        let mut x = 12345u32;
        for i in 0..5_000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if x >> 28 < 2 {
                let n = (x as usize >> 8) % (plain.len() + 1);
                history.pop(n);
                plain.truncate(plain.len() - n);
            } else {
                history.push(i, x);
                plain.push((i, x));
            }
            assert_eq!(history.len(), plain.len());
            assert_eq!(history.last(), plain.last().map(|entry| entry.0));
            let four: Vec<TokenId> = plain.iter().map(|entry| entry.0).collect();
            assert_eq!(history.last_tokens(4), four[four.len().saturating_sub(4)..]);
            assert_eq!(history.current(), plain.last().map_or(7, |e| e.1));
            if i % 500 == 0 {
                forks.push((history.clone(), plain.clone()));
            }
        }
        for (fork, plain) in forks {
            assert_eq!(fork.tokens(), plain.iter().map(|e| e.0).collect::<Vec<_>>());
        }
    }
}
