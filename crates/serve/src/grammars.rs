//! Compiled grammars of recent requests: clients send the same schema again and again.
//!
//! # Cost
//! A lookup by the whole text of the constraint. The least recently used grammars are dropped when
//! the bytes of all exceed the limit.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ffwd_runtime::matcher::CompiledGrammar;

/// Largest number of bytes of all tables.
const MAX_BYTES: usize = 256 << 20;
/// Largest number of grammars.
const MAX_GRAMMARS: usize = 256;

/// The cache.
#[derive(Default)]
pub(super) struct GrammarCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    grammars: HashMap<String, CachedGrammar>,
    clock: u64,
}

struct CachedGrammar {
    grammar: CompiledGrammar,
    used: u64,
}

impl GrammarCache {
    pub(crate) fn get(&self, key: &str) -> Option<CompiledGrammar> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let found = state.grammars.get_mut(key)?;
        found.used = now;
        Some(found.grammar.clone())
    }

    pub(crate) fn put(&self, key: String, grammar: CompiledGrammar) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let used = state.clock;
        state.grammars.insert(key, CachedGrammar { grammar, used });
        let size = |(key, cached): (&String, &CachedGrammar)| key.len() + cached.grammar.memory().total();
        let mut bytes: usize = state.grammars.iter().map(size).sum();
        while state.grammars.len() > 1 && (bytes > MAX_BYTES || state.grammars.len() > MAX_GRAMMARS) {
            let oldest = state.grammars.iter().min_by_key(|(_, cached)| cached.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            if let Some(gone) = state.grammars.remove(&oldest) {
                bytes = bytes.saturating_sub(size((&oldest, &gone)));
            }
        }
    }
}
