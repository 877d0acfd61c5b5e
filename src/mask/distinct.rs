//! Tokens that an array of different items does not allow, though its states do.
//!
//! Masks are made as if items might repeat, so that those inside items are the ones of any other place.
//! Two kinds of tokens can then be wrong: those along which the current item becomes, or may only become,
//! one that is there, which are few nodes of the trie, none if the item has begun like no other; and those
//! that end an item and begin another, which hold a comma. Each of them that the mask has is tried as if it
//! were written. That is some dozen tokens where an item may begin or end, and few elsewhere.

use crate::machine::{ConfigId, Machine, Probe, Probed};
use crate::vocab::{TokenId, Trie, Vocabulary};

use super::Mask;

/// The tokens of a mask that arrays of different items do not allow.
pub(super) fn repeating(
    vocab: &Vocabulary,
    machine: &mut Machine,
    config: ConfigId,
    mask: &Mask,
) -> Vec<TokenId> {
    let separators = vocab.separators();
    let text = machine.only_in_text(config);
    let mut suspects: Vec<TokenId> = match (machine.is_scoped(config), text) {
        (true, false) => separators.any.clone(),
        (true, true) => separators.quoted.clone(),
        // Only arrays that begin and go on in one token.
        (false, text) => separators.opening[usize::from(text)].clone(),
    };
    if machine.has_spoiling() {
        suspects.extend_from_slice(&separators.brackets);
    }
    for probe in machine.probes(config) {
        along(vocab.trie(), machine, probe, &mut suspects);
    }
    suspects.retain(|&token| mask.contains(token));
    suspects.sort_unstable();
    suspects.dedup();
    suspects.retain(|&token| !machine.allows(config, vocab.token_bytes(token)));
    suspects
}

/// Adds the tokens along which an item may still become one that is there, and those behind its end.
fn along(trie: &Trie, machine: &Machine, probe: Probe, suspects: &mut Vec<TokenId>) {
    let mut todo = vec![(0, probe)];
    while let Some((node, probe)) = todo.pop() {
        for child in trie.children(node) {
            match machine.probe(&probe, trie.byte(child)) {
                Probed::New => {}
                Probed::Ended => suspects.extend_from_slice(trie.tokens_below(child)),
                Probed::Goes(probe) => {
                    suspects.extend_from_slice(trie.tokens_at(child));
                    todo.push((child, probe));
                }
            }
        }
    }
}
