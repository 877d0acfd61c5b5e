//! Why a token may not come next: how far it fits, and what could stand where it does not.
//!
//! For people, not for decoding loops: the text is stepped byte by byte in a fork, and each byte of the
//! alphabet is tried where it fails, a few hundred steps in all; with example tokens also one mask.
//! Keeping the reasons of refusals in the masks was rejected: they would cost every mask something.

use super::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// Most example tokens of an [`Explanation`].
const MAX_EXAMPLES: usize = 24;

/// Whether a text may come next, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It may.
    Legal,
    /// The byte behind those that fit may not stand there.
    Byte(u8),
    /// The byte behind those that fit is no token of its own in this vocabulary, so no constraint allows
    /// it.
    Unspellable(u8),
    /// An end token where the output may not end yet.
    Unfinished,
    /// A special token: never text.
    Special,
    /// An id without text.
    Unknown,
    /// The state of a machine over tokens has no transition by the token behind what fits.
    NoTransition,
    /// An end token was accepted; nothing follows.
    Ended,
}

/// What [`Matcher::explain`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Whether it may come, and if not, why.
    pub verdict: Verdict,
    /// How many bytes of it fit.
    pub fits: usize,
    /// The bytes that could stand behind those that fit, in order.
    pub expected: Vec<u8>,
    /// Some tokens that could stand there: the longest for each first byte, at most 24.
    pub examples: Vec<TokenId>,
    /// Whether the output could end there.
    pub may_end: bool,
    /// Where in a JSON structure that is, as a JSON pointer; empty at the top level.
    pub path: String,
    /// The state of a machine over tokens there, in words.
    pub state: Option<String>,
}

impl Matcher {
    /// Explains whether and why a token may or may not come next. The state does not change.
    pub fn explain(&self, token: TokenId) -> Explanation {
        let bytes = self.vocabulary().token_bytes(token);
        let legal = self.fork().allows(token);
        let is_end = self.vocabulary().eos().contains(&token);
        let verdict = match () {
            () if legal => Verdict::Legal,
            () if self.ended => Verdict::Ended,
            () if self.is_at_tokens() && !is_end => Verdict::NoTransition,
            () if !bytes.is_empty() => return self.explain_bytes(bytes),
            () if is_end => Verdict::Unfinished,
            () if self.vocabulary().is_special(token) => Verdict::Special,
            () => Verdict::Unknown,
        };
        if self.is_at_tokens() {
            let mut fork = self.fork();
            let fits = if legal && fork.accept_token(token).is_ok() { bytes.len() } else { 0 };
            return explained(fork, fits, verdict);
        }
        // An end token fits without bytes; of a legal token everything does.
        self.explained(if legal { bytes } else { &[] }, verdict)
    }

    /// Explains whether and why a text may or may not come next, whatever its tokens. The state does not
    /// change.
    pub fn explain_bytes(&self, bytes: &[u8]) -> Explanation {
        if self.ended {
            return self.explained(&[], Verdict::Ended);
        }
        if self.is_at_tokens() {
            return self.explain_text(bytes);
        }
        let mut fork = self.fork();
        for (fits, &byte) in bytes.iter().enumerate() {
            let token = token_of_byte(self.vocabulary(), byte);
            if token.is_none_or(|t| fork.accept_token(t).is_err()) {
                let verdict = if token.is_some() { Verdict::Byte(byte) } else { Verdict::Unspellable(byte) };
                return explained(fork, fits, verdict);
            }
        }
        explained(fork, bytes.len(), Verdict::Legal)
    }

    /// The same for a machine over tokens: the text is split as the tokenizer does.
    fn explain_text(&self, bytes: &[u8]) -> Explanation {
        let encoded = std::str::from_utf8(bytes).ok().and_then(|text| self.vocab.encode(text).ok());
        let mut fork = self.fork();
        let mut accepted =
            |tokens: &[TokenId]| tokens.iter().take_while(|&&t| fork.accept_token(t).is_ok()).count();
        let (taken, all) = encoded.map_or((Vec::new(), false), |mut tokens| {
            let legal = accepted(&tokens);
            let all = legal == tokens.len();
            tokens.truncate(legal);
            (tokens, all)
        });
        let verdict = if all { Verdict::Legal } else { Verdict::NoTransition };
        // A tokenizer may put a space in front of what it is given.
        let fits = self.vocab.decode(&taken).len().min(bytes.len());
        explained(fork, fits, verdict)
    }

    /// The explanation at the place behind `fitting`, which is known to fit.
    fn explained(&self, fitting: &[u8], verdict: Verdict) -> Explanation {
        let mut fork = self.fork();
        for token in fitting.iter().filter_map(|&b| token_of_byte(self.vocabulary(), b)) {
            if fork.accept_token(token).is_err() {
                break;
            }
        }
        explained(fork, fitting.len(), verdict)
    }

    /// For each byte that may come next the longest legal token that begins with it; end tokens, if they
    /// are legal, come first. At most `most` of them. Costs a mask and a pass over the vocabulary.
    pub fn example_tokens(&mut self, most: usize) -> Vec<TokenId> {
        let vocab = self.vocabulary().clone();
        let mut row = vec![0u32; vocab.bitmask_words()];
        self.fill_bitmask(&mut row);
        let legal = |t: &TokenId| row[*t as usize / 32] >> (t % 32) & 1 == 1;
        let mut longest: [Option<TokenId>; 256] = [None; 256];
        for id in (0..vocab.len() as TokenId).filter(legal) {
            let bytes = vocab.token_bytes(id);
            if let Some(&first) = bytes.first() {
                let best = &mut longest[first as usize];
                if best.is_none_or(|b| vocab.token_bytes(b).len() < bytes.len()) {
                    *best = Some(id);
                }
            }
        }
        let ends = vocab.eos().iter().copied().filter(legal);
        ends.chain(longest.into_iter().flatten()).take(most).collect()
    }
}

fn explained(mut at: Matcher, fits: usize, verdict: Verdict) -> Explanation {
    let vocab = at.vocabulary().clone();
    if at.is_at_tokens() {
        return explained_state(at, fits, verdict);
    }
    let possible = |b: &u8| token_of_byte(&vocab, *b).is_some_and(|t| at.allows(t));
    let expected = (0..=u8::MAX).filter(possible).collect();
    Explanation {
        verdict,
        fits,
        expected,
        examples: at.example_tokens(MAX_EXAMPLES),
        may_end: at.is_accepting(),
        path: at.path(),
        state: None,
    }
}

/// The same for a machine over tokens, whose states have names.
fn explained_state(at: Matcher, fits: usize, verdict: Verdict) -> Explanation {
    let config = at.history.current();
    let mut runtime = at.replica.lock();
    let (mut examples, state) = match runtime.tokens(config).filter(|_| !at.ended) {
        Some(tables) => (tables.tokens(config), Some(tables.describe(config, &at.vocab))),
        None => (Vec::new(), None),
    };
    drop(runtime);
    let firsts = examples.iter().filter_map(|&t| at.vocab.token_bytes(t).first().copied());
    let mut expected: Vec<u8> = firsts.collect();
    expected.sort_unstable();
    expected.dedup();
    examples.truncate(MAX_EXAMPLES);
    Explanation { verdict, fits, expected, examples, may_end: at.is_accepting(), path: String::new(), state }
}

/// The token that is this byte alone. Constraints are restricted to bytes that have one.
fn token_of_byte(vocab: &Vocabulary, byte: u8) -> Option<TokenId> {
    vocab.trie().find(&[byte]).and_then(|node| vocab.trie().tokens_at(node).first().copied())
}
