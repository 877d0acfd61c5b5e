//! Unions of masks: dense mask rows are merged word by word, single tokens are collected.
//!
//! If all parts have the same mask row, it is shared and not copied. This is the usual case inside
//! strings.

use std::sync::Arc;

use super::token_mask::Mask;
use crate::vocab::TokenId;

/// Number of single tokens from which on a mask becomes dense.
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

    /// Returns the dense part alone.
    pub(super) fn into_base(self) -> Option<Arc<[u32]>> {
        self.base
    }

    pub(super) fn add_base(&mut self, base: Option<&Arc<[u32]>>) {
        let Some(other) = base else { return };
        match &mut self.base {
            None => self.base = Some(other.clone()),
            Some(mine) if Arc::ptr_eq(mine, other) => {}
            // Copies the row once; then it is this union's own.
            Some(mine) => {
                let mine = Arc::make_mut(mine);
                mine.iter_mut().zip(other.iter()).for_each(|(mine, other)| *mine |= other);
            }
        }
    }

    /// Returns the tokens of a mask row that are not in the union. Returns `None` if the union has
    /// no dense part or if more than `most` tokens are missing.
    pub(super) fn missing(&self, row: &[u32], most: usize) -> Option<Vec<u32>> {
        let base = self.base.as_ref()?.iter().chain(std::iter::repeat(&0));
        let mut missing: Vec<u32> = row.iter().zip(base).map(|(all, has)| all & !has).collect();
        for &t in &self.tokens {
            if let Some(word) = missing.get_mut(t as usize / 32) {
                *word &= !(1 << (t % 32));
            }
        }
        let count: usize = missing.iter().map(|word| word.count_ones() as usize).sum();
        (count <= most).then_some(missing)
    }

    pub(super) fn finish(self, tokens: usize, sorter: &mut Sorter) -> Mask {
        if self.tokens.len() > DENSE_FROM {
            let mut dense = self.base.unwrap_or_else(|| empty_row(tokens));
            set_all(&mut dense, self.tokens.into_iter());
            return Mask { base: Some(dense), tokens: Box::default() };
        }
        Mask { base: self.base, tokens: sorter.sorted(self.tokens, tokens) }
    }
}

/// Returns an empty mask row for `tokens` tokens.
pub(super) fn empty_row(tokens: usize) -> Arc<[u32]> {
    std::iter::repeat_n(0, tokens.div_ceil(32)).collect()
}

/// Returns the union of a mask row, if there is one, and another one.
pub(super) fn with_row(base: Option<Arc<[u32]>>, mut row: Vec<u32>) -> Arc<[u32]> {
    row.iter_mut().zip(base.iter().flat_map(|base| base.iter())).for_each(|(all, more)| *all |= more);
    row.into()
}

/// Sets bits of a mask row, which is copied first if it is shared.
pub(super) fn set_all(row: &mut Arc<[u32]>, tokens: impl Iterator<Item = TokenId>) {
    let row = Arc::make_mut(row);
    tokens.for_each(|t| row[t as usize / 32] |= 1 << (t % 32));
}

/// Sorts sets of tokens through a row of bits, which is faster than comparing for all but small
/// sets.
#[derive(Default)]
pub(super) struct Sorter {
    /// All zero between calls.
    row: Vec<u64>,
}

impl Sorter {
    /// Up to this number of tokens, sets are sorted by comparing.
    const SORT_BY_COMPARING_UP_TO: usize = 150;

    /// Returns the tokens in order, each once. All must be below `limit`.
    fn sorted(&mut self, mut tokens: Vec<TokenId>, limit: usize) -> Box<[TokenId]> {
        if tokens.len() <= Self::SORT_BY_COMPARING_UP_TO {
            tokens.sort_unstable();
            tokens.dedup();
            return tokens.into();
        }
        self.row.resize(limit.div_ceil(64), 0);
        tokens.iter().for_each(|&t| self.row[t as usize / 64] |= 1 << (t % 64));
        tokens.clear();
        for (first, words) in (0..).step_by(512).zip(self.row.chunks_mut(8)) {
            if words.iter().fold(0, |any, word| any | *word) == 0 {
                continue;
            }
            for (first, word) in (first..).step_by(64).zip(words) {
                let mut bits = std::mem::take(word);
                while bits != 0 {
                    tokens.push(first + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
        tokens.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    #[test]
    fn sets_are_sorted() {
        let mut random = Random::new(9);
        let mut sorter = Sorter::default();
        for _ in 0..50 {
            let tokens: Vec<TokenId> =
                (0..random.below(400)).map(|_| random.below(5_000) as TokenId).collect();
            let mut expected = tokens.clone();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(*sorter.sorted(tokens, 5_000), *expected);
        }
    }
}
