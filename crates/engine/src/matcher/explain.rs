//! Explains why a token may not come next: the part that fits, and what could follow it.
//!
//! The explanations are for people, not for decoding loops.
//!
//! # Cost
//!
//! The text is stepped byte by byte in a fork, and at the first failure each byte of the alphabet
//! is tried: a few hundred steps in all. Example tokens also take one mask.
//!
//! # Alternatives considered
//!
//! Storing the reasons for rejections in the masks was rejected: it would make every mask more
//! expensive.

use super::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// Largest number of example tokens of an [`Explanation`].
const MAX_EXAMPLES: usize = 24;

/// The result of the check whether a text may come next, with the reason if it may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The text may come next.
    Legal,
    /// The byte after the fitting part is not legal there.
    Byte(u8),
    /// The byte after the fitting part is not a token by itself in this vocabulary, so no
    /// constraint allows it.
    Unspellable(u8),
    /// An end token at a position where the output may not end yet.
    Unfinished,
    /// A special token: never text.
    Special,
    /// An id without text.
    Unknown,
    /// The state of a machine over tokens has no transition on the token after the fitting part.
    NoTransition,
    /// An end token was accepted; nothing follows.
    Ended,
}

/// The result of [`Matcher::explain`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The result of the check, with the reason if the text may not come next.
    pub verdict: Verdict,
    /// Number of its bytes that fit.
    pub fits: usize,
    /// The bytes that could follow the fitting part, in ascending order.
    pub expected: Vec<u8>,
    /// Some tokens that could follow the fitting part: the longest for each first byte, at most 24.
    pub examples: Vec<TokenId>,
    /// True if the output could end after the fitting part.
    pub may_end: bool,
    /// JSON pointer of the position after the fitting part; empty at the top level.
    pub path: String,
    /// Description of the state of a machine over tokens after the fitting part.
    pub state: Option<String>,
}

impl Explanation {
    /// Returns the verdict in words.
    pub fn reason(&self) -> String {
        let shown =
            |b: u8| if b.is_ascii_graphic() { format!("{:?}", b as char) } else { format!("0x{b:02x}") };
        let fits = self.fits;
        match self.verdict {
            Verdict::Legal => "it may come next".into(),
            Verdict::Byte(b) => format!("byte {fits}, {}, cannot stand there", shown(b)),
            Verdict::Unspellable(b) => {
                format!("byte {fits}, {}, is no token of its own in this vocabulary", shown(b))
            }
            Verdict::Unfinished => "an end token, and the output may not end here".into(),
            Verdict::Special => "a special token is never text".into(),
            Verdict::Unknown => "an id without text".into(),
            Verdict::NoTransition => format!("no transition continues it after {fits} bytes"),
            Verdict::Ended => "the output has ended".into(),
        }
    }
}

impl Matcher {
    /// Explains whether a token may come next, and if not, why. The state does not change.
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
        // An end token fits with zero bytes; of a legal token all bytes fit.
        self.explained(if legal { bytes } else { &[] }, verdict)
    }

    /// Explains whether a text may come next, whatever its tokens, and if not, why. The state does
    /// not change.
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

    /// Explains a text for a machine over tokens, tokenised as the tokenizer does.
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
        // A tokenizer may put a space in front of its input.
        let fits = self.vocab.decode(&taken).len().min(bytes.len());
        explained(fork, fits, verdict)
    }

    /// Explains the position after `fitting`, which is known to fit.
    fn explained(&self, fitting: &[u8], verdict: Verdict) -> Explanation {
        let mut fork = self.fork();
        for token in fitting.iter().filter_map(|&b| token_of_byte(self.vocabulary(), b)) {
            if fork.accept_token(token).is_err() {
                break;
            }
        }
        explained(fork, fitting.len(), verdict)
    }

    /// Returns the longest legal token for each first byte that may come next, after the legal end
    /// tokens; at most `most` tokens. Costs a mask and a pass over the vocabulary.
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

/// Explains the position of a machine over tokens, whose states have names.
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

/// Returns the token that is this byte alone. Constraints are restricted to bytes with such a
/// token.
fn token_of_byte(vocab: &Vocabulary, byte: u8) -> Option<TokenId> {
    vocab.trie().find(&[byte]).and_then(|node| vocab.trie().tokens_at(node).first().copied())
}
