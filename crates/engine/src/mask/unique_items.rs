//! Tokens that would repeat an item of an array with unique items.
//!
//! Masks are made as if items could repeat, so positions inside items have the same masks
//! everywhere. Two kinds of tokens can then be wrong:
//!
//! - tokens along which the current item becomes an earlier item, or can only become one. These are
//!   few nodes of the trie, and none if no earlier item begins alike;
//! - tokens that end one item and begin another. They hold a comma.
//!
//! Each of them that the mask has is tried exactly.
//!
//! # Cost
//!
//! Some dozen tries where an item may begin or end, and few elsewhere.

use crate::machine::{ConfigId, Machine, UniqueArray};
use crate::vocab::{TokenId, Trie, Vocabulary};

use super::token_mask::Mask;

/// Returns the tokens of a mask that arrays with unique items do not allow.
pub(super) fn repeating_tokens(
    vocab: &Vocabulary,
    machine: &mut Machine,
    config: ConfigId,
    mask: &Mask,
) -> Vec<TokenId> {
    let separators = vocab.separators();
    let text = machine.only_in_text(config);
    // Arrays that begin and continue in one token.
    let mut suspects: Vec<TokenId> = separators.opening[usize::from(text)].clone();
    if machine.is_scoped(config) {
        let arrays = machine.unique_arrays(config);
        let list = if text { &separators.quoted } else { &separators.any };
        let has_separator = |token: &TokenId| {
            let bytes = vocab.token_bytes(*token);
            arrays.iter().any(|array| array.is_continued_in(bytes))
        };
        suspects.extend(list.iter().copied().filter(|&t| mask.contains(t)).filter(has_separator));
        arrays.into_iter().for_each(|array| follow_seen_items(vocab.trie(), machine, array, &mut suspects));
    }
    if machine.has_spoiling() {
        suspects.extend_from_slice(&separators.brackets);
    }
    suspects.retain(|&token| mask.contains(token));
    suspects.sort_unstable();
    suspects.dedup();
    suspects.retain(|&token| !machine.allows(config, vocab.token_bytes(token)));
    suspects
}

/// Adds the tokens along which the item of an array may still become an earlier one, and those that
/// continue after it.
fn follow_seen_items(trie: &Trie, machine: &Machine, array: UniqueArray, suspects: &mut Vec<TokenId>) {
    let mut todo = vec![(0, array)];
    while let Some((node, array)) = todo.pop() {
        if array.repeatable.is_empty() {
            continue;
        }
        let expected = machine.repeating_bytes(&array);
        for child in trie.children(node) {
            let byte = trie.byte(child);
            if array.is_ended_by(byte) {
                suspects.extend_from_slice(trie.tokens_below(child));
                continue;
            }
            if !expected.has(byte) {
                continue;
            }
            let next = machine.unique_array_after(&array, byte);
            if !next.repeatable.is_empty() {
                suspects.extend_from_slice(trie.tokens_at(child));
                todo.push((child, next));
            }
        }
    }
}
