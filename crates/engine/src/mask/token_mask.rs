//! The mask of a configuration: which tokens may come next.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::vocab::TokenId;

/// The tokens that a configuration allows: a packed base row and a list of further tokens.
#[derive(Debug, Clone)]
pub(crate) struct Mask {
    /// Packed bits, at most as long as a mask row; `None` if `tokens` holds the whole mask.
    pub(super) base: Option<Arc<[u32]>>,
    /// Further tokens, sorted; some of them may also be in the base.
    pub(super) tokens: Box<[TokenId]>,
}

impl Mask {
    /// Returns the mask of exactly these tokens, which are sorted and unique. It is packed where
    /// that is smaller.
    pub(crate) fn of_tokens(tokens: Vec<TokenId>) -> Mask {
        let words = tokens.last().map_or(0, |&t| t as usize / 32 + 1);
        if tokens.len() <= words {
            return Mask { base: None, tokens: tokens.into() };
        }
        let mut row = vec![0u32; words];
        for t in tokens {
            row[t as usize / 32] |= 1 << (t % 32);
        }
        Mask { base: Some(row.into()), tokens: Box::default() }
    }

    /// Writes the mask into `row` (bit `t % 32` of word `t / 32` for token `t`) and overwrites all
    /// of it.
    pub(crate) fn write(&self, row: &mut [u32]) {
        let copied = match &self.base {
            Some(base) => {
                let n = base.len().min(row.len());
                row[..n].copy_from_slice(&base[..n]);
                n
            }
            None => 0,
        };
        row[copied..].fill(0);
        for &t in self.tokens.iter() {
            row[t as usize / 32] |= 1 << (t % 32);
        }
    }

    /// Returns true if a token is in the mask.
    pub(crate) fn contains(&self, token: TokenId) -> bool {
        let in_base = self
            .base
            .as_ref()
            .and_then(|b| b.get(token as usize / 32))
            .is_some_and(|w| w >> (token % 32) & 1 == 1);
        in_base || self.tokens.binary_search(&token).is_ok()
    }

    /// Returns the dense part: packed words, as many as are needed.
    pub(crate) fn base(&self) -> &[u32] {
        self.base.as_deref().unwrap_or(&[])
    }

    /// Returns the further tokens, sorted.
    pub(crate) fn more(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Removes tokens from the mask.
    pub(super) fn remove(&mut self, out: &[TokenId]) {
        if out.is_empty() {
            return;
        }
        if let Some(base) = &mut self.base {
            let base = Arc::make_mut(base);
            for token in out {
                if let Some(word) = base.get_mut(*token as usize / 32) {
                    *word &= !(1 << (token % 32));
                }
            }
        }
        let tokens = std::mem::take(&mut self.tokens).into_vec();
        let out: FxHashSet<TokenId> = out.iter().copied().collect();
        self.tokens = tokens.into_iter().filter(|t| !out.contains(t)).collect();
    }

    /// Returns the bytes that only this mask holds, without a shared base.
    pub(crate) fn bytes(&self) -> usize {
        self.tokens.len() * 4 + 64 + self.base.as_ref().map_or(0, alone)
    }
}

/// Returns the bytes of a mask row that has no other owner yet, else 0.
pub(super) fn alone(row: &Arc<[u32]>) -> usize {
    if Arc::strong_count(row) == 1 { size_of_val(&**row) } else { 0 }
}

/// Returns the tokens of a mask row.
pub(super) fn tokens_of(row: &[u32]) -> impl Iterator<Item = TokenId> + '_ {
    (0..).step_by(32).zip(row).flat_map(|(first, &word)| {
        let mut bits = word;
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(first + bit)
        })
    })
}
