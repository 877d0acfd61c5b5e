//! The reduced vocabulary of a draft model: the tokens that it chooses among.
//!
//! In a small model the output matrix is most of the weights; in the embedded draft model it is two
//! thirds. The model's proposals are mostly copied from the prompt. So it only needs the prompt's
//! tokens, the same words at the start of a value (without the leading space), short tokens and
//! punctuation. A missing token is a missed draft; the target never uses this list.
//!
//! # Cost
//!
//! A pass over the vocabulary once, and one over the prompt in each generation.
//!
//! # Alternatives considered
//!
//! The most frequent tokens of a corpus (FR-Spec, Zhao et al. 2025) were rejected: names and codes
//! are not among them, and values are full of these.

use crate::vocab::{TokenId, Vocabulary};

/// Maximum length of tokens that are on every list, in bytes.
const MAX_SHORT_BYTES: usize = 2;
/// Maximum length of punctuation that is on every list, in bytes.
const MAX_PUNCTUATION_BYTES: usize = 6;
/// A list with more than one token in N of the vocabulary saves too little.
const MAX_VOCAB_SHARE: usize = 2;

/// Returns the tokens that are on every list of a vocabulary, sorted.
pub(crate) fn always_listed(vocab: &Vocabulary) -> Vec<TokenId> {
    let listed = |id: &TokenId| {
        let bytes = vocab.token_bytes(*id);
        let punctuation = bytes.len() <= MAX_PUNCTUATION_BYTES
            && !bytes.iter().any(|b| b.is_ascii_alphanumeric() || *b > 127);
        bytes.len() <= MAX_SHORT_BYTES || punctuation || vocab.eos().contains(id)
    };
    (0..vocab.len() as TokenId).filter(listed).collect()
}

/// Returns the tokens for a prompt, sorted. Returns no tokens if the list would be too long to pay.
pub(super) fn shortlist(vocab: &Vocabulary, always: &[TokenId], prompt: &[TokenId]) -> Vec<TokenId> {
    let trie = vocab.trie();
    let mut listed = vec![0u64; vocab.len().div_ceil(64)];
    // Returns true if the token is new.
    let mut add = |id: TokenId| {
        let (word, bit) = (&mut listed[id as usize / 64], 1 << (id % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    };
    always.iter().for_each(|id| _ = add(*id));
    for id in prompt.iter().copied().filter(|id| (*id as usize) < vocab.len()) {
        // A listed token has its prefixes on the list already, or is short.
        if !add(id) {
            continue;
        }
        let Some(word) = vocab.token_bytes(id).strip_prefix(b" ") else { continue };
        let mut node = 0;
        for byte in word {
            let Some(next) = trie.child(node, *byte) else { break };
            node = next;
            trie.tokens_at(node).iter().for_each(|id| _ = add(*id));
        }
    }
    let count: usize = listed.iter().map(|word| word.count_ones() as usize).sum();
    if count * MAX_VOCAB_SHARE > vocab.len() {
        return Vec::new();
    }
    let mut list = Vec::with_capacity(count);
    for (i, mut word) in listed.into_iter().enumerate() {
        while word != 0 {
            list.push(i as TokenId * 64 + word.trailing_zeros());
            word &= word - 1;
        }
    }
    list
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a vocabulary of these tokens, in this order; `Ġ` is a space.
    pub(crate) fn vocabulary(tokens: &[&str]) -> Vocabulary {
        let vocab: serde_json::Map<_, _> =
            (0..).zip(tokens).map(|(id, token)| ((*token).to_owned(), serde_json::Value::from(id))).collect();
        let tokenizer = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                "use_regex": true},
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": false, "vocab": vocab, "merges": []},
        });
        Vocabulary::from_bytes(tokenizer.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn words_of_the_prompt_and_what_is_short_are_listed() {
        let letters = ["Ġ", "t", "a", "b", "l", "e", "c", "h", "i", "r", "\"", ":", ","];
        let words =
            ["Ġtable", "table", "tab", "chair", "Ġchair", "\":\"", "able", "air", "chai", "hair", "tabl"];
        let all: Vec<&str> =
            letters.into_iter().chain(words).chain(["lab", "bale", "char", "heir"]).collect();
        let vocab = vocabulary(&all);
        let id = |token: &str| all.iter().position(|t| *t == token).unwrap() as TokenId;
        let list = shortlist(&vocab, &always_listed(&vocab), &[id("Ġtable")]);
        assert!(list.is_empty(), "most of so small a vocabulary is short");
        // With enough other words the list pays.
        let more: Vec<String> =
            (0..60).map(|i| format!("{}{}", "chair".repeat(1 + i / 10), "abc".repeat(1 + i % 10))).collect();
        let all: Vec<&str> = all.iter().copied().chain(more.iter().map(String::as_str)).collect();
        let vocab = vocabulary(&all);
        let list = shortlist(&vocab, &always_listed(&vocab), &[id("Ġtable"), 1_000_000]);
        assert!(list.is_sorted());
        for token in ["Ġtable", "table", "tab", "tabl", "t", "\"", "\":\""] {
            assert!(list.contains(&id(token)), "{token}");
        }
        for token in ["chair", "Ġchair", "able", "hair", "lab"] {
            assert!(!list.contains(&id(token)), "{token}");
        }
    }
}
