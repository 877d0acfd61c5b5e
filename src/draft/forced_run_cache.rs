//! A long forced run, kept from draft to draft.
//!
//! A draft takes a piece of a run, and the next one goes on where that ended. To step along the run and to split it
//! anew each time took longer than a forward of a small model; so some pieces are looked at together, and what is left of them
//! serves the next drafts. Where the target splits in another way the rest of the token that its own ends inside is split by
//! longest token, and behind it all stays as it was. Short runs, which most are, are not kept.
//! Cost: a comparison with the text since then for each draft.

use super::TokenId;
use crate::matcher::{ForcedPrefix, Matcher};
use crate::vocab::Vocabulary;

/// Drafts that a look is meant for.
const DRAFTS_PER_LOOKAHEAD: usize = 8;
/// Bytes in front of a run that must be as they were: drafts may be rejected, and the output comes to the same length with
/// another text. What is taken for forced all the same is not legal, and ends the draft.
const CONTEXT_BYTES: usize = 32;

/// What is known of a run.
#[derive(Debug, Default)]
pub struct ForcedRunCache {
    /// Where in the output it begins.
    at: usize,
    /// What stands in front of that.
    before: Vec<u8>,
    bytes: Vec<u8>,
    tokens: Vec<TokenId>,
    /// Where in `bytes` each token ends.
    ends: Vec<usize>,
    /// Whether the run ends with the bytes.
    whole: bool,
}

impl ForcedRunCache {
    /// The beginning of the forced run behind the output `text`, whose last token is `last`, in at least `room` tokens if
    /// there are so many; `matcher` stands there.
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

    /// What is left of the run, if `text` has gone on along it and enough is left.
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
        // What the target's token left of one.
        let piece = &self.bytes[since.len()..self.ends[next]];
        let (first, split) = vocab.trie().longest_split(piece);
        let enough = self.whole || first.len() + self.tokens.len() - next > room;
        (split == piece.len() && enough).then(|| self.part(next + 1, first, room))
    }

    /// The tokens in front and so many of those from `from` on that there are `room` in all.
    fn part(&self, from: usize, mut tokens: Vec<TokenId>, room: usize) -> ForcedPrefix {
        let left = &self.tokens[from..];
        let taken = room.saturating_sub(tokens.len()).min(left.len());
        tokens.extend_from_slice(&left[..taken]);
        ForcedPrefix { tokens, whole: self.whole && taken == left.len() }
    }
}

/// The end of a text.
fn before(text: &[u8]) -> &[u8] {
    &text[text.len().saturating_sub(CONTEXT_BYTES)..]
}

#[cfg(test)]
mod tests {
    use super::super::draft_vocab::tests::vocabulary;
    use super::*;
    use crate::{Compiler, Constraint};
    use ffwd_testkit::random::Random;

    /// Follows a constant in tokens of its own choice; each time the beginning of the run must be that of the rest of the
    /// constant, in tokens that spell it.
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
                // The target takes some of it, and then a token of its own.
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
            .compile(&Constraint::regex(&format!("({0}a|{0}b){0}", "ab".repeat(40))).unwrap())
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
        // As long as the kept one, and other bytes.
        assert!(ahead.rest(&vocab, "b".repeat(other.len() + 3).as_bytes(), 2).is_none());
        assert!(ahead.rest(&vocab, b"", 2).is_none(), "in front of it");
    }
}
