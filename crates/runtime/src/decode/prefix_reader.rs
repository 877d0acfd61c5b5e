//! A model that reads token sequences with common prefixes.

use super::engine::Engine;
use crate::error::Result;
use crate::model::{KvCache, Model};
use crate::vocab::TokenId;

/// Runs a model over token sequences that share prefixes.
pub(super) struct PrefixReader<'a> {
    model: &'a Model,
    pub cache: KvCache,
    /// The tokens in the cache.
    seen: Vec<TokenId>,
}

impl PrefixReader<'_> {
    /// Returns the logits after the first `from` tokens, which are at least one, and after each later
    /// one. The token before the first of them goes through the model even if it is in the cache.
    pub(super) fn logits_from(&mut self, tokens: &[TokenId], from: usize) -> Result<Vec<Vec<f32>>> {
        let shared = self.seen.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let keep = shared.min(from - 1);
        self.cache.truncate(keep);
        let rows = from - 1 - keep..tokens.len() - keep;
        let result = self.model.forward(&tokens[keep..], &mut self.cache, rows);
        self.seen.clear();
        self.seen.extend_from_slice(&tokens[..self.cache.len()]);
        result
    }
}

impl Engine {
    /// Returns a reader whose cache begins with the cached prefix of a prompt, and the number of
    /// tokens that should be cached if that is more.
    pub(super) fn reader(&self, prompt: &[TokenId]) -> Result<(PrefixReader<'_>, Option<usize>)> {
        let model = self.target();
        let (known, shared) = self.cached_prefix(prompt);
        let cache = known.map_or_else(|| model.new_cache(), |known| Ok(known.0))?;
        Ok((PrefixReader { model, seen: prompt[..cache.len()].to_vec(), cache }, shared))
    }
}
