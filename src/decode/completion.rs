//! Ending in time: a short completion of the output is kept at hand, and emitted when the limit is near.
//!
//! A [`CompletionKeeper`] holds bytes that complete the output from where it stands. After each token it finds out
//! whether they, or an end of them, still do, which is nearly always so (text goes on inside a string,
//! a comma was written that stood in the completion); only otherwise, or when they are too long for
//! what is left, it asks the constraint for the shortest ([`Matcher::shortest_completion`]). Of bytes, that is: where it
//! does not fit, one of more bytes may have fewer tokens. That search goes over bytes in layers: states of equal length
//! that look alike (the same mask, the same shape of the bytes that led there) are taken for one. Cost: a
//! validation of the completion per token, a few steps for each byte of a new one, and [`MAX_STATES`] masks where the end is near.
//! Machines over tokens know their completions themselves.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashSet, FxHasher};

use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// Most states that the search for fewer tokens looks at.
const MAX_STATES: usize = 6000;
/// Most states of one length.
const MAX_LAYER: usize = 256;
/// By how many bytes such a completion may be longer.
const MORE_LAYERS: usize = 12;
/// Bytes legal at one place beyond which the one taken says little about the state.
const FEW: usize = 4;

/// Keeps a completion within reach.
pub(super) struct CompletionKeeper {
    /// Completes the output from where it stands.
    completion: Vec<u8>,
    /// The same for a machine over tokens, instead of bytes.
    of_tokens: Option<Vec<TokenId>>,
    /// The token of each single byte.
    singles: Vec<Option<TokenId>>,
    row: Vec<u32>,
}

/// A state of the search.
struct Node {
    matcher: Matcher,
    bytes: Vec<u8>,
    /// `bytes` without what was one of many choices.
    shape: Vec<u8>,
}

impl CompletionKeeper {
    /// A closer at the start of an output of at most `left` tokens; none if no completion is found that
    /// fits.
    ///
    /// `thinking` is the text that ends what may come before: it is closed by that and a completion
    /// behind it.
    pub(super) fn new(matcher: &Matcher, thinking: Option<&str>, left: usize) -> Option<CompletionKeeper> {
        let vocab = matcher.vocabulary().clone();
        let trie = vocab.trie();
        let single = |b: u8| trie.child(0, b).and_then(|node| trie.tokens_at(node).first().copied());
        let singles = (0..=u8::MAX).map(single).collect();
        let row = vec![0; vocab.bitmask_words()];
        let mut closer = CompletionKeeper { completion: Vec::new(), of_tokens: None, singles, row };
        if matcher.is_token_level() {
            closer.of_tokens = matcher.token_completion().filter(|tokens| tokens.len() <= left);
            return closer.of_tokens.is_some().then_some(closer);
        }
        let prefix = thinking.unwrap_or_default().as_bytes();
        let mut behind = matcher.fork();
        for token in fewest(&vocab, prefix)? {
            behind.accept_token(token).ok()?;
        }
        closer.completion = [prefix, &closer.search(&behind, left)?].concat();
        fits(&vocab, &closer.completion, left).then_some(closer)
    }

    /// Whether the output can be complete `left` tokens behind `next`, the state after a token of
    /// `bytes`. If so, that is remembered; otherwise nothing changes.
    pub(super) fn advance(&mut self, next: &Matcher, bytes: &[u8], left: usize) -> bool {
        if self.of_tokens.is_some() {
            let completion = next.token_completion().filter(|tokens| tokens.len() <= left);
            let found = completion.is_some();
            self.of_tokens = completion.or(self.of_tokens.take());
            return found;
        }
        let found = self.adapt(next, bytes).filter(|c| fits(next.vocabulary(), c, left));
        match found.or_else(|| self.search(next, left)) {
            Some(completion) => {
                self.completion = completion;
                true
            }
            None => false,
        }
    }

    /// The completion as tokens.
    pub(super) fn tokens(&self, vocab: &Vocabulary) -> Vec<TokenId> {
        match &self.of_tokens {
            Some(tokens) => tokens.clone(),
            None => fewest(vocab, &self.completion).unwrap_or_default(),
        }
    }

    /// What is left of the completion behind a token, or the shortest end of it that still completes.
    fn adapt(&self, next: &Matcher, bytes: &[u8]) -> Option<Vec<u8>> {
        let kept = &self.completion;
        if let Some(rest) = kept.strip_prefix(bytes) {
            return Some(rest.to_vec());
        }
        (0..=kept.len()).rev().map(|i| &kept[i..]).find(|rest| completes(next, rest)).map(<[u8]>::to_vec)
    }

    /// A completion of at most `left` tokens, of few tokens.
    fn search(&mut self, start: &Matcher, left: usize) -> Option<Vec<u8>> {
        let vocab = start.vocabulary().clone();
        let shortest = start.shortest_completion(left.saturating_mul(vocab.max_token_len()))?;
        if fits(&vocab, &shortest, left) {
            return Some(shortest);
        }
        self.in_fewest_tokens(start, shortest.len() + MORE_LAYERS).filter(|bytes| fits(&vocab, bytes, left))
    }

    /// The completion of at most `longest` bytes that has the fewest tokens, of those that a search over bytes finds.
    fn in_fewest_tokens(&mut self, start: &Matcher, longest: usize) -> Option<Vec<u8>> {
        let mut best: Option<(usize, Vec<u8>)> = None;
        let mut layer = vec![Node { matcher: start.fork(), bytes: Vec::new(), shape: Vec::new() }];
        let mut states = 0;
        for _ in 0..=longest {
            for node in layer.iter().filter(|n| n.matcher.is_accepting()) {
                let Some(tokens) = fewest(start.vocabulary(), &node.bytes) else { continue };
                if best.as_ref().is_none_or(|b| tokens.len() < b.0) {
                    best = Some((tokens.len(), node.bytes.clone()));
                }
            }
            states += layer.len();
            if layer.is_empty() || states > MAX_STATES {
                break;
            }
            layer = self.next_layer(layer);
        }
        best.map(|b| b.1)
    }

    /// The states one byte further.
    fn next_layer(&mut self, layer: Vec<Node>) -> Vec<Node> {
        let mut seen = FxHashSet::default();
        let mut next = Vec::new();
        for mut node in layer {
            if next.len() >= MAX_LAYER {
                break;
            }
            let legal = self.legal_bytes(&mut node.matcher);
            for &(byte, token) in &legal {
                let mut matcher = node.matcher.fork();
                if next.len() >= MAX_LAYER || matcher.accept_token(token).is_err() {
                    continue;
                }
                let mut shape = node.shape.clone();
                shape.push(if legal.len() > FEW { class(byte) } else { byte });
                matcher.fill_bitmask(&mut self.row);
                let mut hasher = FxHasher::default();
                (&self.row, &shape, matcher.in_string()).hash(&mut hasher);
                if seen.insert(hasher.finish()) {
                    let mut bytes = node.bytes.clone();
                    bytes.push(byte);
                    next.push(Node { matcher, bytes, shape });
                }
            }
        }
        next
    }

    /// The bytes worth trying: of an open string only the quote, if it may be closed, and otherwise
    /// plain characters, if there are any.
    fn legal_bytes(&mut self, matcher: &mut Matcher) -> Vec<(u8, TokenId)> {
        matcher.fill_bitmask(&mut self.row);
        let legal = |t: TokenId| self.row[t as usize / 32] >> (t % 32) & 1 == 1;
        let singles = self.singles.iter().enumerate();
        let mut bytes: Vec<(u8, TokenId)> =
            singles.filter_map(|(b, t)| t.filter(|&t| legal(t)).map(|t| (b as u8, t))).collect();
        if matcher.in_string() {
            if let Some(quote) = bytes.iter().find(|b| b.0 == b'"') {
                return vec![*quote];
            }
            let plain = |b: &(u8, TokenId)| b.0.is_ascii_alphanumeric() || b.0 == b' ';
            if bytes.iter().any(plain) {
                bytes.retain(plain);
            }
        }
        bytes
    }
}

/// Bytes that mostly come in company.
fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => b'0',
        b'a'..=b'z' | b'A'..=b'Z' => b'a',
        0x80.. => 0x80,
        _ => byte,
    }
}

/// Whether `bytes` lead from `matcher` to where the output may end.
fn completes(matcher: &Matcher, bytes: &[u8]) -> bool {
    let Some(tokens) = fewest(matcher.vocabulary(), bytes) else { return false };
    let mut matcher = matcher.fork();
    tokens.iter().all(|&t| matcher.accept_token(t).is_ok()) && matcher.is_accepting()
}

fn fits(vocab: &Vocabulary, bytes: &[u8], left: usize) -> bool {
    fewest(vocab, bytes).is_some_and(|tokens| tokens.len() <= left)
}

/// `bytes` in the fewest tokens, found from the end; none if there are bytes without a token.
fn fewest(vocab: &Vocabulary, bytes: &[u8]) -> Option<Vec<TokenId>> {
    let trie = vocab.trie();
    // For each place: how many tokens from there, and the first of them with its length.
    let mut best: Vec<Option<(usize, TokenId, usize)>> = vec![None; bytes.len() + 1];
    best[bytes.len()] = Some((0, 0, 0));
    for from in (0..bytes.len()).rev() {
        let mut node = 0;
        for (i, &byte) in bytes[from..].iter().enumerate() {
            let Some(child) = trie.child(node, byte) else { break };
            node = child;
            let Some(&token) = trie.tokens_at(node).first() else { continue };
            if let Some((n, ..)) = best[from + i + 1]
                && best[from].is_none_or(|b| n + 1 < b.0)
            {
                best[from] = Some((n + 1, token, i + 1));
            }
        }
    }
    let (mut at, mut tokens) = (0, Vec::new());
    while at < bytes.len() {
        let (_, token, len) = best[at]?;
        tokens.push(token);
        at += len;
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::Constraint;
    use crate::matcher::Compiler;

    fn vocabulary() -> Vocabulary {
        crate::model::embedded::vocabulary().unwrap()
    }

    #[test]
    fn fewest_tokens_are_never_more_than_the_tokenizer_takes() {
        let vocab = vocabulary();
        for text in ["", "{\"name\":\"x\"}", "internationalisation", "aé\u{1f600} \n\t"] {
            let tokens = fewest(&vocab, text.as_bytes()).unwrap();
            assert_eq!(vocab.decode(&tokens), text.as_bytes());
            assert!(tokens.len() <= vocab.encode(text).unwrap().len());
        }
    }

    #[test]
    fn finds_the_shortest_of_a_finite_language() {
        let vocab = vocabulary();
        let compiler = Compiler::new(vocab.clone());
        let choices = ["internationalisation", "qxzj", "the", "zq", "because of the weather", "invoice"];
        let mut x = 1u32;
        for _ in 0..60 {
            let mut some: Vec<&str> = Vec::new();
            while some.is_empty() {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                some = choices.iter().enumerate().filter(|c| x >> (8 + c.0) & 1 == 1).map(|c| *c.1).collect();
            }
            let least = some.iter().map(|c| fewest(&vocab, c.as_bytes()).unwrap().len()).min().unwrap();
            let grammar = compiler.compile(&Constraint::choice(&some).unwrap()).unwrap();
            let matcher = grammar.matcher();
            let closer = CompletionKeeper::new(&matcher, None, least).expect("it fits");
            assert_eq!(closer.tokens(&vocab).len(), least);
            assert!(CompletionKeeper::new(&matcher, None, least - 1).is_none());
        }
    }

    #[test]
    fn finds_completions_behind_thousands_of_choices() {
        let names: Vec<String> = (0..40).map(|i| format!("property_{i}")).collect();
        let words: Vec<String> = (0..400).map(|i| format!("value {}", i * 7919 % 4001)).collect();
        let properties: serde_json::Map<String, serde_json::Value> =
            names.iter().map(|name| (name.clone(), serde_json::json!({"enum": words}))).collect();
        let required: Vec<&String> = names.iter().step_by(2).collect();
        let schema = serde_json::json!({"type": "object", "properties": properties, "required": required});
        let compiler = Compiler::new(vocabulary());
        let grammar = compiler.compile(&Constraint::json_schema(&schema.to_string()).unwrap()).unwrap();
        let mut matcher = grammar.matcher();
        let closer = CompletionKeeper::new(&matcher, None, 2000).expect("there is one");
        let tokens = closer.tokens(matcher.vocabulary());
        for &token in &tokens {
            matcher.accept_token(token).unwrap();
        }
        assert!(matcher.is_accepting());
        assert!(CompletionKeeper::new(&grammar.matcher(), None, tokens.len()).is_some());
        assert!(CompletionKeeper::new(&grammar.matcher(), None, tokens.len() / 2).is_none());
    }
}
