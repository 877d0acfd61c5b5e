//! Completion within the token limit: keeps a short completion of the output, to be emitted near
//! the limit.
//!
//! A [`CompletionKeeper`] holds bytes that complete the output from its current end. After each
//! token it checks whether these bytes, or a suffix of them, still do. That is nearly always so:
//! text continues inside a string, or the comma was written that the completion contained. Only
//! otherwise, or if they are too long for the remaining limit, it computes the shortest completion
//! ([`Matcher::shortest_completion`]).
//!
//! That is the shortest in bytes. Where it does not fit, a completion with more bytes may have
//! fewer tokens. The search for one goes over bytes in layers and merges states of equal length
//! that look the same (the same mask, the same shape of the bytes that led there). Machines over
//! tokens compute their completions themselves.
//!
//! # Cost
//!
//! A validation of the completion per token, a few steps for each byte of a new one, and up to
//! [`MAX_STATES`] masks near the limit.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashSet, FxHasher};

use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// Largest number of states in the search for fewer tokens.
const MAX_STATES: usize = 6000;
/// Largest number of states of one length.
const MAX_LAYER: usize = 256;
/// Number of bytes by which such a completion may exceed the shortest.
const MORE_LAYERS: usize = 12;
/// Number of legal bytes above which the chosen byte says little about the state.
const MAX_INFORMATIVE_CHOICES: usize = 4;

/// Keeps a completion that fits into the remaining limit.
pub(super) struct CompletionKeeper {
    /// Completes the output from its current end.
    completion: Vec<u8>,
    /// The completion of a machine over tokens, instead of bytes.
    of_tokens: Option<Vec<TokenId>>,
    /// The token of each single byte.
    singles: Vec<Option<TokenId>>,
    row: Vec<u32>,
}

/// A state of the search.
struct SearchNode {
    matcher: Matcher,
    bytes: Vec<u8>,
    /// `bytes` with each byte that was one of many choices replaced by its class.
    shape: Vec<u8>,
}

impl CompletionKeeper {
    /// Creates a keeper at the start of an output of at most `left` tokens; `None` if no completion
    /// is found that fits.
    ///
    /// `thinking` is the text that ends the thinking before the answer; the completion then
    /// consists of that text and the completion after it.
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

    /// Checks whether the output can be completed within `left` tokens after `next`, the state
    /// after a token of `bytes`, or another state if `bytes` are empty. If so, that completion is kept; otherwise nothing changes.
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

    /// Returns the completion as tokens.
    pub(super) fn tokens(&self, vocab: &Vocabulary) -> Vec<TokenId> {
        match &self.of_tokens {
            Some(tokens) => tokens.clone(),
            None => fewest(vocab, &self.completion).unwrap_or_default(),
        }
    }

    /// Returns the rest of the completion after a token, or its shortest suffix that still
    /// completes the output.
    fn adapt(&self, next: &Matcher, bytes: &[u8]) -> Option<Vec<u8>> {
        let kept = &self.completion;
        if !bytes.is_empty()
            && let Some(rest) = kept.strip_prefix(bytes)
        {
            return Some(rest.to_vec());
        }
        (0..=kept.len()).rev().map(|i| &kept[i..]).find(|rest| completes(next, rest)).map(<[u8]>::to_vec)
    }

    /// Returns a completion of at most `left` tokens, with few tokens.
    fn search(&mut self, start: &Matcher, left: usize) -> Option<Vec<u8>> {
        let vocab = start.vocabulary().clone();
        let shortest = start.shortest_completion(left.saturating_mul(vocab.max_token_len()))?;
        if fits(&vocab, &shortest, left) {
            return Some(shortest);
        }
        self.in_fewest_tokens(start, shortest.len() + MORE_LAYERS).filter(|bytes| fits(&vocab, bytes, left))
    }

    /// Returns, among the completions of at most `longest` bytes that the byte search finds, the
    /// one with the fewest tokens.
    fn in_fewest_tokens(&mut self, start: &Matcher, longest: usize) -> Option<Vec<u8>> {
        let mut best: Option<(usize, Vec<u8>)> = None;
        let mut layer = vec![SearchNode { matcher: start.fork(), bytes: Vec::new(), shape: Vec::new() }];
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

    /// Returns the states one byte further.
    fn next_layer(&mut self, layer: Vec<SearchNode>) -> Vec<SearchNode> {
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
                shape.push(if legal.len() > MAX_INFORMATIVE_CHOICES { class(byte) } else { byte });
                matcher.fill_bitmask(&mut self.row);
                let mut hasher = FxHasher::default();
                (&self.row, &shape, matcher.in_string()).hash(&mut hasher);
                if seen.insert(hasher.finish()) {
                    let mut bytes = node.bytes.clone();
                    bytes.push(byte);
                    next.push(SearchNode { matcher, bytes, shape });
                }
            }
        }
        next
    }

    /// Returns the bytes to try: only the quotation mark in an open string that may end, otherwise
    /// plain characters if any are legal.
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

/// Returns the class of a byte, the same for bytes that are usually legal together.
fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => b'0',
        b'a'..=b'z' | b'A'..=b'Z' => b'a',
        0x80.. => 0x80,
        _ => byte,
    }
}

/// Returns true if `bytes` lead from `matcher` to a state where the output may end.
fn completes(matcher: &Matcher, bytes: &[u8]) -> bool {
    let Some(tokens) = fewest(matcher.vocabulary(), bytes) else { return false };
    let mut matcher = matcher.fork();
    tokens.iter().all(|&t| matcher.accept_token(t).is_ok()) && matcher.is_accepting()
}

fn fits(vocab: &Vocabulary, bytes: &[u8], left: usize) -> bool {
    fewest(vocab, bytes).is_some_and(|tokens| tokens.len() <= left)
}

/// Splits `bytes` into the fewest tokens, computed from the end; `None` if there are bytes without
/// a token.
fn fewest(vocab: &Vocabulary, bytes: &[u8]) -> Option<Vec<TokenId>> {
    let trie = vocab.trie();
    // For each offset: the number of tokens from there, and the first of them with its length.
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
        let grammar = compiler.compile(&Constraint::json_schema(schema.to_string()).unwrap()).unwrap();
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
