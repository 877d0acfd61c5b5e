//! Good ends for a string near its `maxLength`.
//!
//! The mask leaves only tokens that fit. Near the limit these are not what the model would write.
//! So its choice is made among tokens of text of any length. While the chosen token fits, it is
//! taken. If it does not, the string has ended: at its last sentence if that is near, otherwise at
//! its last word. The result is the text that the model writes without the limit, cut at a good
//! end.
//!
//! # Cost
//!
//! Near a limit a copy of the logits of each position. A string that does not fit costs the tokens
//! after its good end, and one more forward.
//!
//! # Alternatives considered
//!
//! Raising the probability of the quotation mark near the limit was rejected: it needs weights, ends
//! strings that would have fitted, and still cuts words that turn out too long.

use crate::decode::utf8::last_char;
use crate::vocab::{TokenId, Vocabulary};
use ffwd_engine::json_scan::StringScan;

/// Number of characters before the limit from which on the ends of words are noted.
const WORD_ZONE: usize = 32;
/// Largest number of characters before the limit from which on the ends of sentences are noted; at
/// most a third of the string.
const SENTENCE_ZONE: usize = 96;
/// Number of characters from which on a text without any word end is cut as it is. A shorter one
/// has a limit that shapes it, such as that of a code.
const CUT_ANYWHERE: usize = 16;

/// The number of characters of each token that is plain text of a JSON string, 0 for all others.
pub(in crate::decode) struct PlainTokens(Vec<u8>);

impl PlainTokens {
    pub(in crate::decode) fn new(vocab: &Vocabulary) -> Self {
        let plain = |c: char| c >= ' ' && c != '"' && c != '\\';
        let count = |token| {
            let text = std::str::from_utf8(vocab.token_bytes(token)).ok()?;
            text.chars().all(plain).then(|| text.chars().count().min(usize::from(u8::MAX)) as u8)
        };
        PlainTokens((0..vocab.len() as TokenId).map(|token| count(token).unwrap_or(0)).collect())
    }

    /// Adds to a mask row the tokens of more than `room` characters; returns true if there are any.
    pub(super) fn lift(&self, row: &mut [u32], room: usize) -> bool {
        let mut any = false;
        for (word, chars) in row.iter_mut().zip(self.0.chunks(32)) {
            let longer = chars.iter().enumerate().filter(|(_, n)| usize::from(**n) > room);
            let bits = longer.fold(0, |bits, (i, _)| bits | 1 << i);
            *word |= bits;
            any |= bits != 0;
        }
        any
    }
}

/// Returns true if ends are to be noted in a string with `room` characters before its limit.
pub(super) fn is_near(string: &StringScan, room: usize) -> bool {
    let most = string.chars + room;
    room <= WORD_ZONE.max(SENTENCE_ZONE.min(most / 3))
}

/// A position at which a string may be cut: the numbers of tokens and bytes of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::decode) struct CutPoint {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// The good ends of a string so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GoodEnds {
    sentence: Option<CutPoint>,
    word: Option<CutPoint>,
}

/// How a string ends whose next token does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::decode) enum StringEnd {
    /// Here.
    Here,
    /// At an earlier position.
    Back(CutPoint),
    /// Not yet: it is filled with what fits.
    Filled,
}

impl GoodEnds {
    /// Notes the position `at`, with `text` of the string before it, if it is a good end before
    /// `next`.
    pub(super) fn note(&mut self, at: CutPoint, text: &[u8], next: &[u8]) {
        match kind(text, next) {
            Some(End::Sentence) => (self.sentence, self.word) = (Some(at), Some(at)),
            Some(End::Word) => self.word = Some(at),
            None => {}
        }
    }

    /// Returns the number of bytes of the output that will not be cut.
    pub(super) fn kept(&self) -> Option<usize> {
        self.sentence.or(self.word).map(|end| end.bytes)
    }

    /// Returns the end of a string with `text`, after which `next` does not fit. `closes` is true
    /// if it may be closed there.
    pub(super) fn choose(&self, string: &StringScan, text: &[u8], next: &[u8], closes: bool) -> StringEnd {
        match (kind(text, next).filter(|_| closes), self.sentence, self.word) {
            (Some(End::Sentence), ..) => StringEnd::Here,
            (_, Some(sentence), _) => StringEnd::Back(sentence),
            (Some(End::Word), ..) => StringEnd::Here,
            (None, None, Some(word)) => StringEnd::Back(word),
            (None, None, None) if closes && string.chars >= CUT_ANYWHERE => StringEnd::Here,
            (None, None, None) => StringEnd::Filled,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sentence,
    Word,
}

/// Returns what ends between `text` and `next`.
fn kind(text: &[u8], next: &[u8]) -> Option<End> {
    let last = last_char(text)?;
    let first = std::str::from_utf8(&next[..next.len().min(4)])
        .or_else(|e| std::str::from_utf8(&next[..e.valid_up_to()]))
        .ok()?
        .chars()
        .next()?;
    let space = first.is_whitespace() || next.starts_with(b"\\n");
    match last {
        '.' | '!' | '?' if space => Some(End::Sentence),
        '\u{3002}' | '\u{ff01}' | '\u{ff1f}' => Some(End::Sentence),
        ')' | ']' | '%' | '\'' | '\u{201d}' | '\u{2019}' if space => Some(End::Word),
        _ if has_no_spaces(last) => Some(End::Word),
        _ if last.is_alphanumeric() && (space || matches!(first, ',' | ';' | '!' | '?')) => Some(End::Word),
        _ => None,
    }
}

/// Returns true for the letters of scripts that put no spaces between words.
fn has_no_spaces(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_sentences_end_where_readers_see_it() {
        for (text, next, expected) in [
            ("a word", " and", Some(End::Word)),
            ("a wor", "d and", None),
            ("a word", ", and", Some(End::Word)),
            ("a word.", " And", Some(End::Sentence)),
            ("a word.", "\\nAnd", Some(End::Sentence)),
            ("version 3.", "14", None),
            ("version 3", ".14", None),
            ("example", ".com", None),
            ("don", "'t", None),
            ("well", "-known", None),
            ("a ", "word", None),
            ("a word,", " and", None),
            ("(so)", " and", Some(End::Word)),
            ("\u{6771}\u{4eac}", "\u{90fd}", Some(End::Word)),
            ("\u{6771}\u{4eac}\u{3002}", "\u{90fd}", Some(End::Sentence)),
            ("caf\u{e9}", " au", Some(End::Word)),
            ("", " and", None),
            ("a word", "", None),
        ] {
            assert_eq!(kind(text.as_bytes(), next.as_bytes()), expected, "{text}|{next}");
        }
        assert_eq!(kind(b"caf\xc3", b"\xa9"), None);
        assert_eq!(kind("\u{6771}\u{4eac}".as_bytes(), b"\xe9\x83"), None, "the next is not known");
    }

    #[test]
    fn the_best_end_is_chosen() {
        let at = |n: usize| CutPoint { tokens: n, bytes: 10 * n };
        let mut scan = ffwd_engine::json_scan::JsonScan::of_first_value(10);
        b"{\"a\":\"One. Two thr".iter().for_each(|b| {
            scan.feed(*b);
        });
        let string = *scan.string().unwrap();
        let mut ends = GoodEnds::default();
        let (text, next) = (&b"One. Two thr"[..], &b"ee"[..]);
        assert_eq!(ends.choose(&string, text, next, true), StringEnd::Filled, "too short");
        assert_eq!(ends.choose(&string, b"One. Two", b" three", true), StringEnd::Here);
        assert_eq!(ends.choose(&string, b"One. Two", b" three", false), StringEnd::Filled);
        ends.note(at(1), b"One", b" and");
        assert_eq!(ends.choose(&string, text, next, true), StringEnd::Back(at(1)));
        ends.note(at(2), b"One.", b" And");
        ends.note(at(3), b"One. Two", b" and");
        assert_eq!(ends.choose(&string, text, next, true), StringEnd::Back(at(2)));
        assert_eq!(ends.choose(&string, b"One. Two", b" three", true), StringEnd::Back(at(2)));
        assert_eq!(ends.choose(&string, b"One. Two.", b" Three", true), StringEnd::Here);
        assert_eq!(ends.kept(), Some(20));
    }

    #[test]
    fn only_longer_text_is_lifted() {
        let vocab = crate::model::embedded::vocabulary().unwrap();
        let plain = PlainTokens::new(&vocab);
        let mut row = vec![0u32; vocab.bitmask_words()];
        assert!(plain.lift(&mut row, 2));
        let mut lifted = 0;
        for token in 0..vocab.len() as TokenId {
            let set = row[token as usize / 32] >> (token % 32) & 1 == 1;
            let text = std::str::from_utf8(vocab.token_bytes(token)).unwrap_or("");
            let expected =
                text.chars().count() > 2 && !text.chars().any(|c| c < ' ' || c == '"' || c == '\\');
            assert_eq!(set, expected, "{text:?}");
            lifted += usize::from(set);
        }
        assert!(lifted > 100);
        assert!(!plain.lift(&mut row, 255));
    }
}
