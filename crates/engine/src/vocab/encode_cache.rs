//! Short texts that were encoded before.
//!
//! The runs that a constraint forces are the same in every output, and a tokenizer takes some ten microseconds for
//! each: more than all else that drafting it costs. Cost: a look-up, behind a lock that nobody waits for. The least
//! recently used would be better to forget than all at once, which is what happens here, but costs more to know.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::TokenId;

/// Longest text that is kept, in bytes.
const LONGEST: usize = 96;
/// Most texts that are kept.
const MOST: usize = 4096;

/// The tokens of some texts.
#[derive(Default)]
pub(super) struct Memo(Mutex<FxHashMap<Box<str>, Arc<[TokenId]>>>);

impl Memo {
    /// The tokens of `text`, from `encode` if they are not known. Of several threads at once one is served and the
    /// others encode.
    pub fn get<E>(
        &self,
        text: &str,
        encode: impl FnOnce() -> Result<Vec<TokenId>, E>,
    ) -> Result<Arc<[TokenId]>, E> {
        if text.len() > LONGEST {
            return encode().map(Arc::from);
        }
        if let Ok(known) = self.0.try_lock()
            && let Some(tokens) = known.get(text)
        {
            return Ok(tokens.clone());
        }
        let tokens: Arc<[TokenId]> = encode()?.into();
        if let Ok(mut known) = self.0.try_lock() {
            if known.len() >= MOST {
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
        let memo = Memo::default();
        let of = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        for _ in 0..2 {
            for i in 0..MOST + 10 {
                let text = format!("{i}");
                assert_eq!(*memo.get(&text, || Ok::<_, ()>(of(&text))).unwrap(), of(&text));
                let again = memo.get(&text, || Err(())).unwrap();
                assert_eq!(*again, of(&text));
            }
        }
        assert!(memo.0.lock().unwrap().len() <= MOST);
        let long = "x".repeat(LONGEST + 1);
        memo.get(&long, || Ok::<_, ()>(of(&long))).unwrap();
        assert!(memo.get(&long, || Err(())).is_err(), "long texts are not kept");
        assert!(memo.get("new", || Err(())).is_err());
        assert!(memo.get("new", || Ok::<_, ()>(of("new"))).is_ok(), "an error is not kept");
    }
}
