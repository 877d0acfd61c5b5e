//! The tokens whose logits the rows of a draft need, where these are few: after a key, between
//! values, in numbers.
//!
//! # Cost
//!
//! A mask for each position of the draft, which verification needs as well.

use super::FinishedDraft;
use crate::decode::watch::OutputWatch;
use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// The logits of a row are computed for the legal tokens alone if these are at most this fraction
/// of the vocabulary: one in 16.
pub(super) const FEW_LEGAL_DIVISOR: usize = 16;

/// Returns the legal tokens, sorted; empty if they are more than `most`.
pub(super) fn legal_if_few(matcher: &mut Matcher, most: usize) -> Vec<TokenId> {
    let mask = matcher.bitmask();
    let count: u32 = mask.base().iter().map(|word| word.count_ones()).sum();
    if count as usize > most {
        return Vec::new();
    }
    let mut tokens = Vec::with_capacity(count as usize + mask.more().len() + mask.ends().len());
    for (i, word) in mask.base().iter().enumerate() {
        let mut word = *word;
        while word != 0 {
            tokens.push(i as TokenId * 32 + word.trailing_zeros());
            word &= word - 1;
        }
    }
    tokens.extend(mask.more().iter().chain(mask.ends()));
    tokens.sort_unstable();
    tokens.dedup();
    if tokens.len() > most { Vec::new() } else { tokens }
}

/// Returns for each row of a draft the tokens whose logits it needs; an empty list stands for all.
/// `watch` is at the end of the output. Returns nothing without a constraint.
pub(in crate::decode) fn needed_logits(
    draft: &FinishedDraft,
    watch: Option<&OutputWatch>,
    vocab: &Vocabulary,
) -> Vec<Vec<TokenId>> {
    let mut rows = Vec::with_capacity(1 + draft.run.len());
    let mut watch = watch.cloned();
    let mut tokens = draft.run.tokens();
    for i in 0..=draft.run.len() {
        let Some(mut matcher) = draft.run.matcher_after(i) else { break };
        rows.push(needed_at(&mut matcher, watch.as_ref(), vocab));
        if let (Some(watch), Some(token)) = (&mut watch, tokens.next()) {
            watch.advance(vocab.token_bytes(token));
        }
    }
    rows
}

/// Returns the tokens whose logits a position needs, where these are few. Near the limit of a
/// string it needs all of them.
fn needed_at(matcher: &mut Matcher, watch: Option<&OutputWatch>, vocab: &Vocabulary) -> Vec<TokenId> {
    if watch.is_some_and(|watch| watch.room(matcher).is_some()) {
        return Vec::new();
    }
    legal_if_few(matcher, vocab.len() / FEW_LEGAL_DIVISOR)
}
