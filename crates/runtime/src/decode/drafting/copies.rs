//! Copies as proposals: their tokens, and what is forced after a copied value.

use crate::draft::{
    CopyKind, CopySpan, DraftRun, ForcedKind, OutputRegion, Proposal, ProposalContext, ProposalKind,
};
use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// Returns copied tokens as proposals.
pub(super) fn copies(tokens: Vec<TokenId>, place: ProposalContext) -> impl Iterator<Item = Proposal> {
    let first = if place.class == OutputRegion::Opening { CopyKind::AfterLabel } else { CopyKind::First };
    tokens.into_iter().enumerate().map(move |(i, token)| {
        let kind = if i == 0 { first } else { CopyKind::Further };
        Proposal { token, kind: ProposalKind::Lookup(kind), context: place }
    })
}

/// Returns proposals for a span inside a JSON string. If the value ends with the span, the closing
/// quotation mark and the forced bytes after it follow, as far as there is `room`. All of it is
/// tokenised as one text. They begin at the position of `matcher`.
pub(super) fn encode_value(
    vocab: &Vocabulary,
    matcher: Matcher,
    span: &CopySpan,
    place: ProposalContext,
    room: usize,
) -> DraftRun {
    let mut bytes = ffwd_engine::json_escape::escape(&span.text);
    let value = bytes.len();
    if span.ends {
        bytes.push(b'"');
        match matcher.forced_bytes_after(&bytes, room) {
            Some(forced) => bytes.extend(forced),
            None => bytes.truncate(value),
        }
    }
    let tokens = std::str::from_utf8(&bytes).map(|text| encode_by_word(vocab, text)).unwrap_or_default();
    let mut at = 0;
    let proposals = copies(tokens, place).map(|copy| {
        let forced = at > value;
        at += vocab.token_bytes(copy.token).len();
        match forced {
            true => Proposal { kind: ProposalKind::Forced(ForcedKind::Inside), ..copy },
            false => copy,
        }
    });
    DraftRun::legal(Some(matcher), proposals, usize::MAX)
}

/// Encodes a text word by word: tokenizers cut there too, and words recur where copies do not, so
/// the cache of encoded texts helps. A draft may be tokenised differently from the tokenizer's own
/// choice.
pub(super) fn encode_by_word(vocab: &Vocabulary, text: &str) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    let mut begin = 0;
    let bytes = text.as_bytes();
    let ends = |at: usize| match bytes[at] {
        b' ' => bytes[at - 1] != b' ',
        b'"' => bytes[at - 1].is_ascii_alphanumeric(),
        _ => false,
    };
    for end in (1..bytes.len()).filter(|&at| ends(at)).chain([bytes.len()]) {
        let Ok(word) = vocab.encode_cached(&text[begin..end]) else { break };
        tokens.extend_from_slice(&word);
        begin = end;
    }
    tokens
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_where_the_tokenizer_splits() {
        let vocab = crate::model::embedded::vocabulary().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/eval/handwritten_dev.jsonl");
        let mut texts = 0;
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            // Both prose and JSON, escapes included.
            for text in [entry["text"].as_str().unwrap(), &entry["gold"].to_string(), line] {
                assert_eq!(encode_by_word(&vocab, text), vocab.encode(text).unwrap(), "{text}");
                texts += 1;
            }
        }
        assert!(texts >= 100);
        assert!(encode_by_word(&vocab, "").is_empty());
    }
}
