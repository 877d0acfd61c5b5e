//! Cache of the tokens of short texts that were encoded before.
//!
//! The runs that a constraint forces are the same in every output. Encoding one takes the tokenizer
//! some ten microseconds, more than everything else that drafting the run costs.
//!
//! # Cost
//!
//! A hash lookup under a lock. A thread that finds the lock taken encodes the text instead of
//! waiting.
//!
//! # Alternatives considered
//!
//! When the cache is full, it is cleared. Evicting the least recently used text would keep more of
//! it, but costs more bookkeeping.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::TokenId;

/// Longest cached text, in bytes.
const MAX_TEXT_BYTES: usize = 96;
/// Largest number of cached texts.
const CAPACITY: usize = 4096;

/// Tokens by text.
#[derive(Default)]
pub(super) struct EncodeCache(Mutex<FxHashMap<Box<str>, Arc<[TokenId]>>>);

impl EncodeCache {
    /// Returns the tokens of `text`, from `encode` if they are not cached. If several threads call
    /// at once, one uses the cache and the others encode.
    pub(super) fn get<E>(
        &self,
        text: &str,
        encode: impl FnOnce() -> Result<Vec<TokenId>, E>,
    ) -> Result<Arc<[TokenId]>, E> {
        if text.len() > MAX_TEXT_BYTES {
            return encode().map(Arc::from);
        }
        if let Ok(known) = self.0.try_lock()
            && let Some(tokens) = known.get(text)
        {
            return Ok(tokens.clone());
        }
        let tokens: Arc<[TokenId]> = encode()?.into();
        if let Ok(mut known) = self.0.try_lock() {
            if known.len() >= CAPACITY {
                known.clear();
            }
            known.insert(text.into(), tokens.clone());
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_encoded_again_and_what_is_kept_is_bounded() {
        let memo = EncodeCache::default();
        let of = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        for _ in 0..2 {
            for i in 0..CAPACITY + 10 {
                let text = format!("{i}");
                assert_eq!(*memo.get(&text, || Ok::<_, ()>(of(&text))).unwrap(), of(&text));
                let again = memo.get(&text, || Err(())).unwrap();
                assert_eq!(*again, of(&text));
            }
        }
        assert!(memo.0.lock().unwrap().len() <= CAPACITY);
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        memo.get(&long, || Ok::<_, ()>(of(&long))).unwrap();
        assert!(memo.get(&long, || Err(())).is_err(), "long texts are not kept");
        assert!(memo.get("new", || Err(())).is_err());
        assert!(memo.get("new", || Ok::<_, ()>(of("new"))).is_ok(), "an error is not kept");
    }
}
