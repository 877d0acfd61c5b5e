//! The union of masks: dense rows are merged word by word, single tokens are collected.
//!
//! One row that is the same everywhere is shared and not copied, which is the usual case inside strings.

use std::sync::Arc;

use super::Mask;
use crate::vocab::TokenId;

/// From this many tokens on a mask becomes dense.
pub(super) const DENSE_FROM: usize = 1_000;

/// A union of masks under construction.
#[derive(Default)]
pub(super) struct Union {
    base: Option<Arc<[u32]>>,
    tokens: Vec<TokenId>,
}

impl Union {
    pub(super) fn add_tokens(&mut self, tokens: &[TokenId]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// The dense part alone.
    pub(super) fn into_base(self) -> Option<Arc<[u32]>> {
        self.base
    }

    pub(super) fn add_base(&mut self, base: Option<&Arc<[u32]>>) {
        let Some(other) = base else { return };
        match &self.base {
            None => self.base = Some(other.clone()),
            Some(mine) if Arc::ptr_eq(mine, other) => {}
            Some(mine) => {
                let merged: Vec<u32> = mine.iter().zip(other.iter()).map(|(a, b)| a | b).collect();
                self.base = Some(merged.into());
            }
        }
    }

    pub(super) fn finish(mut self, tokens: usize) -> Mask {
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
        self.tokens.sort_unstable();
        self.tokens.dedup();
        Mask { base: self.base, tokens: self.tokens.into() }
    }
}
