//! Stop texts and stop tokens of a generation. They end the answer: thinking before it may contain
//! them.
//!
//! After each token only the end of the text is searched: the rest was searched after earlier
//! tokens.
//!
//! # Cost
//!
//! For each stop text, the length of the token plus that of the longest stop text.
//!
//! # Alternatives considered
//!
//! An automaton over all stop texts was rejected: requests have a handful of them, of a few bytes
//! each.

use crate::error::{Error, ErrorKind, Result};
use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// The stop texts and stop tokens besides the end token.
#[derive(Debug, Clone, Default)]
pub(super) struct Stops {
    strings: Vec<String>,
    tokens: Vec<TokenId>,
    longest: usize,
}

impl Stops {
    /// # Errors
    /// Fails if a text is empty: the output would stop before its first token.
    pub(super) fn new(strings: Vec<String>, tokens: Vec<TokenId>) -> Result<Self> {
        if strings.iter().any(String::is_empty) {
            return Err(Error::new(ErrorKind::InvalidOption, "a stop text is empty")
                .hint("leave it out, or allow no tokens at all"));
        }
        let longest = strings.iter().map(String::len).max().unwrap_or(0);
        Ok(Stops { strings, tokens, longest })
    }

    /// Returns true if this token stops the generation.
    pub(super) fn is_stop(&self, token: TokenId) -> bool {
        self.tokens.contains(&token)
    }

    /// Returns the number of last bytes of the text that later searches need.
    pub(super) fn memory(&self) -> usize {
        self.longest.saturating_sub(1)
    }

    /// As [`find`](Self::find), in the part of `text` from `answer` on; there is none while the model
    /// thinks.
    pub(super) fn find_in_answer(
        &self,
        text: &[u8],
        answer: Option<usize>,
        new: usize,
    ) -> Option<(usize, usize)> {
        let begin = answer?.min(text.len());
        let (at, index) = self.find(&text[begin..], new.min(text.len() - begin))?;
        Some((begin + at, index))
    }

    /// As [`undecided`](Self::undecided), in the part of `text` from `answer` on.
    pub(super) fn undecided_in_answer(&self, text: &[u8], answer: Option<usize>) -> usize {
        answer.map_or(0, |begin| self.undecided(&text[begin.min(text.len())..]))
    }

    /// Returns the leftmost stop text that ends in the last `new` bytes of `text`: its offset and
    /// its index. Among several at one offset the first in the list counts.
    pub(super) fn find(&self, text: &[u8], new: usize) -> Option<(usize, usize)> {
        let found = |(i, stop): (usize, &String)| {
            let stop = stop.as_bytes();
            let from = (text.len() + 1).saturating_sub(new + stop.len());
            let at = text[from..].windows(stop.len()).position(|w| w == stop)?;
            Some((from + at, i))
        };
        self.strings.iter().enumerate().filter_map(found).min()
    }

    /// Returns a stop text by its index.
    pub(super) fn text(&self, index: usize) -> &str {
        &self.strings[index]
    }

    /// Returns the length of the longest suffix of `text` that may become a stop text and must not
    /// be streamed yet.
    pub(super) fn undecided(&self, text: &[u8]) -> usize {
        let begins = |n: usize| {
            let tail = &text[text.len() - n..];
            self.strings.iter().any(|s| s.len() > n && s.as_bytes().starts_with(tail))
        };
        (1..=self.memory().min(text.len())).rev().find(|&n| begins(n)).unwrap_or(0)
    }
}

/// Returns true if `text` satisfies the constraint, of which `matcher` has just accepted `tokens`.
/// The text may be cut, so that its last token differs from the generated one.
pub(super) fn satisfies(matcher: &Matcher, tokens: &[TokenId], text: &[u8], vocab: &Vocabulary) -> bool {
    let mut matcher = matcher.fork();
    let (mut kept, mut bytes) = (0, 0);
    for &token in tokens {
        let len = vocab.token_bytes(token).len();
        if bytes + len > text.len() {
            break;
        }
        bytes += len;
        kept += 1;
    }
    matcher.rollback(tokens.len() - kept);
    let mut rest = &text[bytes..];
    while let Some((token, len)) = vocab.trie().longest_prefix(rest) {
        if matcher.accept_token(token).is_err() {
            return false;
        }
        rest = &rest[len..];
    }
    rest.is_empty() && matcher.is_accepting()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the offset after the first token that completes some stop text, and the cut.
    fn naive(pieces: &[&str], stops: &[&str]) -> Option<(usize, usize)> {
        let mut text = String::new();
        for (n, piece) in pieces.iter().enumerate() {
            text.push_str(piece);
            if let Some(cut) = stops.iter().filter_map(|s| text.find(s)).min() {
                return Some((n, cut));
            }
        }
        None
    }

    #[test]
    fn finds_what_a_scan_of_the_whole_text_finds() {
        // All divisions of all short texts over two letters, with a few sets of stop texts.
        let sets: [&[&str]; 5] =
            [&["ab"], &["aab", "b"], &["bb", "abab"], &["a", "ab"], &["bab", "aa", "bbb"]];
        for bits in 0..256u32 {
            let text: String = (0..8).map(|i| if bits >> i & 1 == 1 { 'a' } else { 'b' }).collect();
            for cuts in 0..128u32 {
                let mut pieces = Vec::new();
                let mut from = 0;
                for i in 1..=8 {
                    if i == 8 || cuts >> (i - 1) & 1 == 1 {
                        pieces.push(&text[from..i]);
                        from = i;
                    }
                }
                for set in sets {
                    let stops = Stops::new(set.iter().map(|s| s.to_string()).collect(), Vec::new()).unwrap();
                    let mut seen = Vec::new();
                    let mut released = 0;
                    let mut got = None;
                    for (n, piece) in pieces.iter().enumerate() {
                        seen.extend_from_slice(piece.as_bytes());
                        if let Some((cut, _)) = stops.find(&seen, piece.len()) {
                            got = Some((n, cut));
                            assert!(released <= cut, "text handed out that is cut later");
                            break;
                        }
                        released = seen.len() - stops.undecided(&seen);
                    }
                    assert_eq!(got, naive(&pieces, set), "{pieces:?} {set:?}");
                }
            }
        }
    }

    #[test]
    fn an_answer_has_stop_texts_of_its_own() {
        let stops = Stops::new(vec!["ab".into()], vec![]).unwrap();
        // In all divisions the result is that of the answer alone.
        let text = b"ab</t>a</t>bab";
        for begin in 0..=text.len() {
            for new in 0..=text.len() {
                let alone = stops.find(&text[begin..], new.min(text.len() - begin));
                let found = stops.find_in_answer(text, Some(begin), new);
                assert_eq!(found, alone.map(|(at, index)| (begin + at, index)));
                assert!(found.is_none_or(|(at, _)| at >= begin));
            }
        }
        assert_eq!(stops.find_in_answer(text, None, text.len()), None);
        assert_eq!(stops.undecided_in_answer(b"xa", Some(1)), 1);
        assert_eq!(
            (stops.undecided_in_answer(b"xa", Some(2)), stops.undecided_in_answer(b"xa", None)),
            (0, 0)
        );
    }

    #[test]
    fn empty_texts_are_refused() {
        assert!(Stops::new(vec![String::new()], vec![]).is_err());
        assert_eq!(Stops::default().find(b"abc", 3), None);
        assert_eq!(Stops::default().undecided(b"abc"), 0);
    }
}
