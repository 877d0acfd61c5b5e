//! Cache of a long forced run, used by several drafts in turn.
//!
//! A draft takes a part of a run, and the next draft continues where that part ended. Stepping
//! through the run and tokenising it again each time takes longer than a forward of a small model.
//! So the cache computes several parts at once and serves the next drafts from the rest. If the
//! target tokenises the text differently, the cache splits the rest of its interrupted token by
//! longest token, and keeps all tokens after it. Short runs, which most are, are not kept.
//!
//! # Cost
//!
//! For each draft a comparison with the text written since the run was computed.

use crate::matcher::{ForcedPrefix, Matcher};
use crate::vocab::{TokenId, Vocabulary};

/// Number of drafts that one computation provides for.
const DRAFTS_PER_LOOKAHEAD: usize = 8;
/// Number of bytes before a run that must be unchanged. Drafts may be rejected, and the output may
/// reach the same length with another text. A stale run that passes this check is not legal, so it
/// only ends the draft.
const CONTEXT_BYTES: usize = 32;

/// The cached forced run.
#[derive(Debug, Default)]
pub struct ForcedRunCache {
    /// Position of the run in the output, in bytes.
    at: usize,
    /// The text before that position.
    before: Vec<u8>,
    bytes: Vec<u8>,
    tokens: Vec<TokenId>,
    /// For each token its end in `bytes`.
    ends: Vec<usize>,
    /// True if the run ends with these bytes.
    whole: bool,
}

impl ForcedRunCache {
    /// Returns the beginning of the forced run after the output `text`, whose last token is `last`:
    /// at least `room` tokens if there are that many. `matcher` is at the end of `text`.
    pub fn start(
        &mut self,
        vocab: &Vocabulary,
        matcher: &Matcher,
        (text, last): (&[u8], Option<TokenId>),
        room: usize,
    ) -> ForcedPrefix {
        if let Some(start) = self.rest(vocab, text, room) {
            return start;
        }
        let found = matcher.forced_prefix(last, room.saturating_mul(DRAFTS_PER_LOOKAHEAD));
        if matcher.is_token_level() || found.tokens.len() <= room {
            return found;
        }
        self.at = text.len();
        self.before.clear();
        self.before.extend_from_slice(before(text));
        self.bytes.clear();
        self.ends.clear();
        for token in &found.tokens {
            self.bytes.extend_from_slice(vocab.token_bytes(*token));
            self.ends.push(self.bytes.len());
        }
        (self.tokens, self.whole) = (found.tokens, found.whole);
        self.part(0, Vec::new(), room)
    }

    /// Returns the rest of the run, if `text` continued along it and enough is left.
    fn rest(&self, vocab: &Vocabulary, text: &[u8], room: usize) -> Option<ForcedPrefix> {
        let since = text.get(self.at..)?;
        let follows = self.bytes.starts_with(since) && before(&text[..self.at]) == self.before;
        if since.len() >= self.bytes.len() || !follows {
            return None;
        }
        let next = self.ends.partition_point(|end| *end <= since.len());
        let begins = next.checked_sub(1).map_or(0, |before| self.ends[before]);
        if begins == since.len() {
            return (self.whole || self.tokens.len() - next >= room)
                .then(|| self.part(next, Vec::new(), room));
        }
        // The bytes that the target's token left of a cached one.
        let piece = &self.bytes[since.len()..self.ends[next]];
        let (first, split) = vocab.trie().longest_split(piece);
        let enough = self.whole || first.len() + self.tokens.len() - next > room;
        (split == piece.len() && enough).then(|| self.part(next + 1, first, room))
    }

    /// Returns `tokens` and then the tokens from index `from` on, `room` tokens in all.
    fn part(&self, from: usize, mut tokens: Vec<TokenId>, room: usize) -> ForcedPrefix {
        let left = &self.tokens[from..];
        let taken = room.saturating_sub(tokens.len()).min(left.len());
        tokens.extend_from_slice(&left[..taken]);
        ForcedPrefix { tokens, whole: self.whole && taken == left.len() }
    }
}

/// Returns the end of a text.
fn before(text: &[u8]) -> &[u8] {
    &text[text.len().saturating_sub(CONTEXT_BYTES)..]
}

#[cfg(test)]
mod tests {
    use super::super::draft_vocab::tests::vocabulary;
    use super::*;
    use crate::{Compiler, Constraint};
    use ffwd_testkit::random::Random;

    /// Follows a constant in tokens of its own choice. Each time the run must be a prefix of the
    /// rest of the constant, in tokens that spell it.
    #[test]
    fn what_is_kept_spells_what_is_left() {
        let letters: Vec<String> = ('a'..='d').map(String::from).collect();
        let pairs = letters.iter().flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")));
        let triples = ["abc", "bcd", "dab", "ccc"].map(String::from);
        let all: Vec<String> = letters.iter().cloned().chain(pairs).chain(triples).collect();
        let vocab = vocabulary(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let mut random = Random::new(5);
        let (mut kept, mut whole) = (0, 0);
        for _ in 0..200 {
            let len = 1 + random.below(900);
            let text: String = (0..len).map(|_| char::from(b'a' + random.below(4) as u8)).collect();
            let compiler = Compiler::new(vocab.clone());
            let grammar = compiler.compile(&Constraint::choice([text.as_str()]).unwrap()).unwrap();
            let (mut matcher, mut ahead, mut output) =
                (grammar.matcher(), ForcedRunCache::default(), Vec::new());
            let mut last = None;
            while output.len() < text.len() {
                let room = 1 + random.below(9);
                let known = ahead.rest(&vocab, &output, room).is_some();
                let start = ahead.start(&vocab, &matcher, (&output, last), room);
                kept += usize::from(known);
                let spelled = vocab.decode(&start.tokens);
                let left = &text.as_bytes()[output.len()..];
                assert!(!spelled.is_empty() && left.starts_with(&spelled));
                assert!(start.whole || start.tokens.len() >= room.min(left.len().div_ceil(3)));
                if start.whole {
                    assert_eq!(spelled, left);
                    whole += 1;
                }
                // The target accepts some of it and then writes a token of its own.
                for token in &start.tokens[..random.below(1 + start.tokens.len())] {
                    matcher.accept_token(*token).unwrap();
                    output.extend_from_slice(vocab.token_bytes(*token));
                    last = Some(*token);
                }
                if let Some(byte) = text.as_bytes().get(output.len()) {
                    let token = vocab.trie().longest_prefix(&[*byte]).unwrap().0;
                    matcher.accept_token(token).unwrap();
                    output.push(*byte);
                    last = Some(token);
                }
            }
        }
        assert!(kept > 1000 && whole > 100, "{kept} {whole}");
    }

    #[test]
    fn a_run_that_was_left_is_not_gone_on_with() {
        let vocab = vocabulary(&["a", "b", "ab"]);
        let grammar = Compiler::new(vocab.clone())
            .compile(&Constraint::regex(format!("({0}a|{0}b){0}", "ab".repeat(40))).unwrap())
            .unwrap();
        let (mut matcher, mut ahead) = (grammar.matcher(), ForcedRunCache::default());
        let start = ahead.start(&vocab, &matcher, (b"", None), 4);
        assert_eq!((vocab.decode(&start.tokens), start.whole), (b"abab".to_vec(), false));
        let other = "ab".repeat(40) + "b";
        for token in vocab.encode(&other).unwrap() {
            matcher.accept_token(token).unwrap();
        }
        let start = ahead.start(&vocab, &matcher, (other.as_bytes(), None), 4);
        assert_eq!(vocab.decode(&start.tokens), b"abab");
        // As long as the kept text, but with other bytes.
        assert!(ahead.rest(&vocab, "b".repeat(other.len() + 3).as_bytes(), 2).is_none());
        assert!(ahead.rest(&vocab, b"", 2).is_none(), "in front of it");
    }
}
