//! Vocabulary slices: the tokens made only of characters of one class.
//!
//! Most of a vocabulary is ordinary text. If a state accepts every string over a class, all tokens
//! of that class are legal there. Only the others (the *residue*, a trie of its own) need a trie
//! walk. Slices are computed once per tokenizer. On the Llama 3 vocabulary the widest slice
//! contains 95% of the tokens.

use super::{ByteGroups, TokenId, Trie, byte_set};

/// Returns true for white space beyond ASCII in any dialect of regular expressions.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// The class of characters of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceKind {
    /// Any Unicode character that needs no escape in a JSON string, complete UTF-8 only.
    JsonText,
    /// Printable ASCII that needs no escape in a JSON string.
    JsonAscii,
    /// Like `JsonText`, without white space.
    JsonUnspaced,
    /// ASCII letters, digits, `_` and `-`.
    Word,
    /// ASCII letters and digits.
    Alnum,
    /// ASCII lower-case letters, digits and `-`.
    Lower,
    /// ASCII lower-case letters.
    LowerLetters,
}

impl SliceKind {
    /// Returns true if the ASCII byte belongs to the class.
    pub fn has_ascii(self, b: u8) -> bool {
        match self {
            SliceKind::JsonText => (0x20..0x80).contains(&b) && b != b'"' && b != b'\\',
            SliceKind::JsonAscii => (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\',
            SliceKind::JsonUnspaced => (0x21..0x80).contains(&b) && b != b'"' && b != b'\\',
            SliceKind::Alnum => b.is_ascii_alphanumeric(),
            SliceKind::LowerLetters => b.is_ascii_lowercase(),
            SliceKind::Word => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            SliceKind::Lower => b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-',
        }
    }

    /// Returns true if characters beyond ASCII belong to the class: all of them, except white space
    /// in `JsonUnspaced`.
    pub fn has_unicode(self) -> bool {
        matches!(self, SliceKind::JsonText | SliceKind::JsonUnspaced)
    }

    fn holds(self, bytes: &[u8]) -> bool {
        if !bytes.iter().all(|&b| b >= 0x80 || self.has_ascii(b)) {
            return false;
        }
        match std::str::from_utf8(bytes) {
            _ if bytes.is_ascii() => true,
            Ok(text) if self == SliceKind::JsonUnspaced => !text.chars().any(is_space),
            Ok(_) => self.has_unicode(),
            Err(_) => false,
        }
    }
}

/// One slice: its mask and the trie of the tokens outside it.
pub struct Slice {
    /// The class.
    pub kind: SliceKind,
    /// True if the tokens have a leading blank, which is not part of the strings compared; most
    /// words of a vocabulary have one. `residue` then contains the other tokens with a leading
    /// blank, without it.
    pub spaced: bool,
    /// Packed bitmask of the tokens in the slice.
    pub mask: Vec<u32>,
    /// The tokens outside the slice.
    pub residue: Trie,
    /// (characters, token) of the slice, shortest first; characters saturate at 255.
    by_length: Vec<(u8, TokenId)>,
    /// The bytes of the tokens with more than [`Slice::SHORT`] characters.
    long_sets: Vec<ByteGroups>,
}

impl Slice {
    /// The bytes of tokens with more characters than this are kept.
    pub const SHORT: u32 = 8;

    /// Builds all slices of a vocabulary, widest first, those without a leading blank before those
    /// with one.
    pub(super) fn all<'a, I>(pairs: impl Fn() -> I, len: usize) -> Vec<Slice>
    where
        I: Iterator<Item = (&'a [u8], TokenId)>,
    {
        use SliceKind::*;
        let plain = [JsonText, JsonAscii, JsonUnspaced, Word, Alnum, Lower, LowerLetters];
        let spaced = [JsonUnspaced, Word, Alnum, Lower, LowerLetters];
        let stripped = || pairs().filter_map(|(b, id)| Some((b.strip_prefix(b" ")?, id)));
        let plain = plain.into_iter().map(|kind| Slice::new(kind, false, pairs(), len));
        plain.chain(spaced.into_iter().map(|kind| Slice::new(kind, true, stripped(), len))).collect()
    }

    fn new<'a>(
        kind: SliceKind,
        spaced: bool,
        pairs: impl Iterator<Item = (&'a [u8], TokenId)>,
        len: usize,
    ) -> Slice {
        let mut mask = vec![0u32; len.div_ceil(32)];
        let mut by_length = Vec::new();
        let mut outside = Vec::new();
        for (bytes, id) in pairs {
            if !bytes.is_empty() && kind.holds(bytes) {
                mask[id as usize / 32] |= 1 << (id % 32);
                let count = bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count();
                let set = bytes.iter().fold(0, |set, &b| set | byte_set(b));
                by_length.push((count.min(255) as u8, id, set));
            } else {
                outside.push((bytes, id));
            }
        }
        let residue = Trie::new(outside);
        by_length.sort_unstable();
        let long = by_length.iter().filter(|e| u32::from(e.0) > Self::SHORT);
        let long_sets = long.map(|e| e.2).collect();
        let by_length = by_length.into_iter().map(|(count, id, _)| (count, id)).collect();
        Slice { kind, spaced, mask, residue, by_length, long_sets }
    }

    /// Returns the packed bitmask of the tokens of the slice with at most `limit` characters. Costs
    /// a copy and the smaller of the two parts.
    pub fn mask_up_to(&self, limit: u32) -> Vec<u32> {
        let [short, long] = self.split(limit);
        let mut mask = if short.len() < long.len() { vec![0; self.mask.len()] } else { self.mask.clone() };
        let flip = if short.len() < long.len() { short } else { long };
        for &(_, id) in flip {
            mask[id as usize / 32] ^= 1 << (id % 32);
        }
        mask
    }

    /// Iterates over the tokens of the slice with more than `least` and at most `most` characters.
    pub fn between(&self, least: u32, most: u32) -> impl ExactSizeIterator<Item = TokenId> + '_ {
        let [shorter, longer] = [self.split(least)[0].len(), self.split(most)[0].len()];
        self.by_length[shorter..longer.max(shorter)].iter().map(|e| e.1)
    }

    /// Iterates like [`between`](Self::between) and adds the bytes of each token; `least` is at
    /// least [`Slice::SHORT`].
    pub fn long_between(&self, least: u32, most: u32) -> impl Iterator<Item = (TokenId, ByteGroups)> + '_ {
        let [long, before] = [self.split(Self::SHORT)[1].len(), self.split(least)[1].len()];
        let skipped = long.saturating_sub(before);
        self.between(least, most).zip(self.long_sets[skipped..].iter().copied())
    }

    /// Splits the tokens of the slice at `limit` characters. Tokens of 255 characters and more
    /// exceed every limit except `u32::MAX`, which means no limit.
    fn split(&self, limit: u32) -> [&[(u8, TokenId)]; 2] {
        if limit == u32::MAX {
            return [&self.by_length, &[]];
        }
        let limit = limit.min(254) as u8;
        let (short, long) = self.by_length.split_at(self.by_length.partition_point(|e| e.0 <= limit));
        [short, long]
    }

    /// Returns true if a limit of `limit` characters excludes no token of the slice.
    pub fn all_up_to(&self, limit: u32) -> bool {
        self.split(limit)[1].is_empty()
    }
}
