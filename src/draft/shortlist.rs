//! The tokens that a draft model chooses among.
//!
//! In a small model the output matrix is most of the weights: two thirds of the embedded draft model's. What
//! it is asked about is mostly copied from the prompt, so it need only tell the prompt's tokens apart, the
//! same words as they begin a value (without the blank in front), short tokens and punctuation. A token
//! that is missing is a draft missed; the target never sees the list. Costs a pass over the vocabulary once
//! in a generation. The most frequent tokens of a corpus (as in FR-Spec, Zhao et al. 2025) were rejected:
//! names and codes are not among them, and values are full of these.

use crate::vocab::{TokenId, Vocabulary};

/// Longest token that is on every list.
const SHORT: usize = 2;
/// Longest punctuation that is on every list.
const PUNCTUATION: usize = 6;
/// A list longer than this share of the vocabulary spares too little.
const SHARE: usize = 2;

/// The tokens for a prompt, sorted; none if they are too many to be worth it.
pub(super) fn shortlist(vocab: &Vocabulary, prompt: &[TokenId]) -> Vec<TokenId> {
    let mut listed = vec![false; vocab.len()];
    let mut list = |id: TokenId| {
        if let Some(listed) = listed.get_mut(id as usize) {
            *listed = true;
        }
    };
    for id in 0..vocab.len() as TokenId {
        let bytes = vocab.token_bytes(id);
        let punctuation =
            bytes.len() <= PUNCTUATION && !bytes.iter().any(|b| b.is_ascii_alphanumeric() || *b > 127);
        if bytes.len() <= SHORT || punctuation {
            list(id);
        }
    }
    vocab.eos().iter().for_each(|id| list(*id));
    let trie = vocab.trie();
    for &id in prompt {
        list(id);
        let Some(word) = vocab.token_bytes(id).strip_prefix(b" ") else { continue };
        for len in 1..=word.len() {
            let Some(node) = trie.find(&word[..len]) else { break };
            trie.tokens_at(node).iter().for_each(|id| list(*id));
        }
    }
    let list: Vec<TokenId> = (0..).zip(&listed).filter(|(_, listed)| **listed).map(|(id, _)| id).collect();
    if list.len() * SHARE > vocab.len() { Vec::new() } else { list }
}
