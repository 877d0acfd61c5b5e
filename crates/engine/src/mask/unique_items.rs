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

use crate::machine::{ConfigId, ExtensionProbe, Machine, ProbeStep, separates};
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
        let places = machine.depths(config);
        let list = if text { &separators.quoted } else { &separators.any };
        let has_separator = |token: &TokenId| {
            let bytes = vocab.token_bytes(*token);
            places.iter().any(|&place| separates(place, bytes))
        };
        suspects.extend(list.iter().copied().filter(|&t| mask.contains(t)).filter(has_separator));
    }
    if machine.has_spoiling() {
        suspects.extend_from_slice(&separators.brackets);
    }
    let mut wrong = Vec::new();
    if let Some(place) = machine.extension_probe(config) {
        follow_seen_items(vocab.trie(), machine, place, mask, (&mut suspects, &mut wrong));
    }
    suspects.retain(|&token| mask.contains(token));
    suspects.sort_unstable();
    suspects.dedup();
    suspects.retain(|&token| !machine.allows(config, vocab.token_bytes(token)));
    wrong.append(&mut suspects);
    wrong
}

/// Follows the tokens along which an item may still become an earlier one. Wrong tokens are added
/// to the second list. Tokens that continue after the item are added to the first.
fn follow_seen_items(
    trie: &Trie,
    machine: &mut Machine,
    place: ExtensionProbe,
    mask: &Mask,
    (suspects, wrong): (&mut Vec<TokenId>, &mut Vec<TokenId>),
) {
    let mut todo = vec![(0, place)];
    while let Some((node, place)) = todo.pop() {
        let expected = machine.probe_bytes(&place);
        for child in trie.children(node).filter(|&child| expected[trie.byte(child) as usize]) {
            match machine.follow_byte(&place, trie.byte(child)) {
                ProbeStep::Impossible | ProbeStep::Unconstrained => {}
                ProbeStep::Repeats => {
                    wrong.extend(trie.tokens_below(child).iter().copied().filter(|&t| mask.contains(t)));
                }
                ProbeStep::ItemEnded => suspects.extend_from_slice(trie.tokens_below(child)),
                ProbeStep::Probe(next) => {
                    let tokens: Vec<TokenId> =
                        trie.tokens_at(child).iter().copied().filter(|&t| mask.contains(t)).collect();
                    if trie.end(child) > child + 1 {
                        todo.push((child, next.clone()));
                    }
                    if !tokens.is_empty() && !machine.can_extend_probe(next) {
                        wrong.extend(tokens);
                    }
                }
            }
        }
    }
}
