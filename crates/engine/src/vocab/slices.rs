//! Vocabulary slices: the tokens made only of characters of one class.
//!
//! Most of a vocabulary is ordinary text. If a state accepts every string over a class, all tokens
//! of that class are legal there. Only the others (the *residue*, a trie of its own) need a trie
//! walk. On the Llama 3 vocabulary the widest slice contains 95% of the tokens.
//!
//! # Cost
//!
//! One pass over the bytes of all tokens gives the masks of all slices. The residue and the lengths
//! of a slice take a pass each when they are first used; most grammars use those of few slices.
//!
//! # Alternatives considered
//!
//! Making everything at once was rejected: the tries of all residues have several times the nodes
//! of the trie of all tokens.

use std::sync::{Arc, OnceLock};

use super::token_table::TokenTable;
use super::{ByteGroups, TokenId, Trie, byte_set};

/// Returns true for white space beyond ASCII in any dialect of regular expressions.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// The class of characters of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SliceKind {
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
    pub(crate) const fn has_ascii(self, b: u8) -> bool {
        match self {
            SliceKind::JsonText => matches!(b, 0x20..=0x7f) && b != b'"' && b != b'\\',
            SliceKind::JsonAscii => matches!(b, 0x20..=0x7e) && b != b'"' && b != b'\\',
            SliceKind::JsonUnspaced => matches!(b, 0x21..=0x7f) && b != b'"' && b != b'\\',
            SliceKind::Alnum => b.is_ascii_alphanumeric(),
            SliceKind::LowerLetters => b.is_ascii_lowercase(),
            SliceKind::Word => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            SliceKind::Lower => b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-',
        }
    }

    /// Returns true if characters beyond ASCII belong to the class: all of them, except white space
    /// in `JsonUnspaced`.
    pub(crate) fn has_unicode(self) -> bool {
        matches!(self, SliceKind::JsonText | SliceKind::JsonUnspaced)
    }

    const ALL: [SliceKind; 7] = {
        use SliceKind::*;
        [JsonText, JsonAscii, JsonUnspaced, Word, Alnum, Lower, LowerLetters]
    };
}

/// A set of classes: one bit for each of [`SliceKind::ALL`].
type KindSet = u8;

/// The classes that each byte belongs to; all classes for bytes beyond ASCII.
const KINDS_OF_BYTE: [KindSet; 256] = {
    let mut table = [KindSet::MAX; 256];
    let mut byte = 0;
    while byte < 0x80 {
        table[byte] = 0;
        let mut i = 0;
        while i < SliceKind::ALL.len() {
            table[byte] |= (SliceKind::ALL[i].has_ascii(byte as u8) as KindSet) << i;
            i += 1;
        }
        byte += 1;
    }
    table
};

/// Returns the classes of which a text, which is not empty, is made.
fn kinds(bytes: &[u8]) -> KindSet {
    let kinds = bytes.iter().fold(KindSet::MAX, |kinds, &b| kinds & KINDS_OF_BYTE[b as usize]);
    if kinds == 0 || bytes.is_ascii() {
        return kinds;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    let spaced = text.chars().any(is_space);
    let holds = |kind: &SliceKind| kind.has_unicode() && !(spaced && *kind == SliceKind::JsonUnspaced);
    (0..).zip(&SliceKind::ALL).filter(|k| holds(k.1)).fold(0, |set, (i, _)| set | 1 << i) & kinds
}

/// One slice: its mask and the trie of the tokens outside it.
pub(crate) struct Slice {
    /// The class.
    pub kind: SliceKind,
    /// True if the tokens have a leading blank, which is not part of the strings compared; most
    /// words of a vocabulary have one.
    pub spaced: bool,
    /// Packed bitmask of the tokens in the slice.
    pub mask: Vec<u32>,
    tokens: Arc<TokenTable>,
    residue: OnceLock<Trie>,
    lengths: OnceLock<Lengths>,
}

/// The tokens of a slice by their lengths.
struct Lengths {
    /// (characters, token) of the slice, shortest first; characters saturate at 255.
    tokens: Vec<(u8, TokenId)>,
    /// The bytes of the tokens with more than [`Slice::SHORT`] characters.
    long_sets: Vec<ByteGroups>,
}

impl Slice {
    /// The bytes of tokens with more characters than this are kept.
    pub(crate) const SHORT: u32 = 8;

    /// Builds all slices of a vocabulary, widest first, those without a leading blank before those
    /// with one.
    pub(super) fn all(tokens: &Arc<TokenTable>) -> Vec<Slice> {
        use SliceKind::*;
        let spaced = [JsonUnspaced, Word, Alnum, Lower, LowerLetters].map(|kind| (kind, true));
        let empty = |(kind, spaced)| Slice {
            kind,
            spaced,
            mask: vec![0; tokens.len().div_ceil(32)],
            tokens: tokens.clone(),
            residue: OnceLock::new(),
            lengths: OnceLock::new(),
        };
        let mut slices: Vec<Slice> =
            SliceKind::ALL.map(|kind| (kind, false)).into_iter().chain(spaced).map(empty).collect();
        // For each slice its bit in the sets of classes of a token and of its rest after a blank.
        let bits: Vec<u32> = slices
            .iter()
            .map(|s| SliceKind::ALL.iter().position(|k| *k == s.kind).unwrap_or(0) as u32)
            .zip(&slices)
            .map(|(bit, s)| bit + if s.spaced { KindSet::BITS } else { 0 })
            .collect();
        for (bytes, id) in tokens.pairs() {
            let rest = bytes.strip_prefix(b" ").filter(|rest| !rest.is_empty());
            let set =
                u32::from(kinds(bytes)) | rest.map_or(0, |rest| u32::from(kinds(rest)) << KindSet::BITS);
            let (word, bit) = (id as usize / 32, id % 32);
            for (slice, at) in slices.iter_mut().zip(&bits) {
                slice.mask[word] |= (set >> at & 1) << bit;
            }
        }
        slices
    }

    /// Returns the trie of the other tokens. If the slice is spaced, of those with a leading blank,
    /// without it. The first call builds it.
    pub(crate) fn residue(&self) -> &Trie {
        let before: &[u8] = if self.spaced { b" " } else { b"" };
        self.residue.get_or_init(|| self.tokens.trie_without(before, &self.mask))
    }

    fn lengths(&self) -> &Lengths {
        self.lengths.get_or_init(|| {
            let mut by_length: Vec<Vec<TokenId>> = vec![Vec::new(); 256];
            for (i, &word) in self.mask.iter().enumerate() {
                let mut left = word;
                while left != 0 {
                    let id = i as u32 * 32 + left.trailing_zeros();
                    left &= left - 1;
                    let bytes = self.text(id);
                    let count = bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count();
                    by_length[count.min(255)].push(id);
                }
            }
            let with_length =
                |(n, ids): (usize, &Vec<TokenId>)| ids.iter().map(|&id| (n as u8, id)).collect::<Vec<_>>();
            let tokens = by_length.iter().enumerate().flat_map(with_length).collect();
            let long = by_length.iter().skip(Self::SHORT as usize + 1).flatten();
            let set = |&id: &TokenId| self.text(id).iter().fold(0, |set, &b| set | byte_set(b));
            Lengths { tokens, long_sets: long.map(set).collect() }
        })
    }

    /// Returns the bytes of a token that are compared.
    fn text(&self, id: TokenId) -> &[u8] {
        &self.tokens.token(id)[usize::from(self.spaced)..]
    }

    /// Builds what is otherwise built at its first use.
    pub(crate) fn prepare(&self) {
        self.residue();
        self.lengths();
    }

    /// Returns the packed bitmask of the tokens of the slice with at most `limit` characters. Costs
    /// a copy and the smaller of the two parts.
    pub(crate) fn mask_up_to(&self, limit: u32) -> Vec<u32> {
        let [short, long] = self.split(limit);
        let mut mask = if short.len() < long.len() { vec![0; self.mask.len()] } else { self.mask.clone() };
        let flip = if short.len() < long.len() { short } else { long };
        for &(_, id) in flip {
            mask[id as usize / 32] ^= 1 << (id % 32);
        }
        mask
    }

    /// Iterates over the tokens of the slice with more than `least` and at most `most` characters.
    pub(crate) fn between(&self, least: u32, most: u32) -> impl ExactSizeIterator<Item = TokenId> + '_ {
        let [shorter, longer] = [self.split(least)[0].len(), self.split(most)[0].len()];
        self.lengths().tokens[shorter..longer.max(shorter)].iter().map(|e| e.1)
    }

    /// Iterates like [`between`](Self::between) and adds the bytes of each token; `least` is at
    /// least [`Slice::SHORT`].
    pub(crate) fn long_between(
        &self,
        least: u32,
        most: u32,
    ) -> impl Iterator<Item = (TokenId, ByteGroups)> + '_ {
        let [long, before] = [self.split(Self::SHORT)[1].len(), self.split(least)[1].len()];
        let skipped = long.saturating_sub(before);
        self.between(least, most).zip(self.lengths().long_sets[skipped..].iter().copied())
    }

    /// Splits the tokens of the slice at `limit` characters. Tokens of 255 characters and more
    /// exceed every limit except `u32::MAX`, which means no limit.
    fn split(&self, limit: u32) -> [&[(u8, TokenId)]; 2] {
        let by_length = self.lengths().tokens.as_slice();
        if limit == u32::MAX {
            return [by_length, &[]];
        }
        let limit = limit.min(254) as u8;
        let (short, long) = by_length.split_at(by_length.partition_point(|e| e.0 <= limit));
        [short, long]
    }

    /// Returns true if a limit of `limit` characters excludes no token of the slice.
    pub(crate) fn all_up_to(&self, limit: u32) -> bool {
        self.split(limit)[1].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::token_table::TokenTableBuilder;
    use super::*;
    use ffwd_testkit::random::Random;

    /// The definition of a class.
    fn holds(kind: SliceKind, bytes: &[u8]) -> bool {
        if !bytes.iter().all(|&b| b >= 0x80 || kind.has_ascii(b)) {
            return false;
        }
        match std::str::from_utf8(bytes) {
            _ if bytes.is_ascii() => true,
            Ok(text) if kind == SliceKind::JsonUnspaced => !text.chars().any(is_space),
            Ok(_) => kind.has_unicode(),
            Err(_) => false,
        }
    }

    #[test]
    fn slices_agree_with_the_definition() {
        let mut random = Random::new(5);
        let parts: [&[u8]; 12] = [
            b" ",
            b"a",
            b"Z",
            b"7",
            b"_",
            b"-",
            b"\"",
            b"\x7f",
            "é".as_bytes(),
            "\u{a0}".as_bytes(),
            b"\xc3",
            b"x",
        ];
        let mut word = |n: usize| -> Vec<u8> {
            (0..random.below(n)).flat_map(|_| random.pick(&parts).to_vec()).collect()
        };
        let words: Vec<Vec<u8>> = (0..1_000).map(|i| word(if i % 9 == 0 { 300 } else { 6 })).collect();
        let mut table = TokenTableBuilder::new(words.len());
        words.iter().for_each(|w| {
            table.push(|bytes| {
                bytes.extend_from_slice(w);
                true
            })
        });
        let table = Arc::new(table.finish());
        for slice in Slice::all(&table) {
            let cut = |w: &Vec<u8>| match slice.spaced {
                true => w.strip_prefix(b" ").map(<[u8]>::to_vec),
                false => Some(w.clone()),
            };
            let (mut lengths, mut outside) = (Vec::new(), Vec::new());
            for (id, text) in words.iter().enumerate().filter_map(|(id, w)| Some((id, cut(w)?))) {
                let inside = !text.is_empty() && holds(slice.kind, &text);
                assert_eq!(slice.mask[id / 32] >> (id % 32) & 1 == 1, inside, "{:?} {text:?}", slice.kind);
                let set = text.iter().fold(0, |set, &b| set | byte_set(b));
                match inside {
                    true => lengths.push((String::from_utf8(text).unwrap().chars().count(), id as u32, set)),
                    false => outside.push((text, id as u32)),
                }
            }
            let bits: u32 = slice.mask.iter().map(|word| word.count_ones()).sum();
            assert_eq!(bits as usize, lengths.len());
            let residue = Trie::new(outside.iter().map(|(text, id)| (&text[..], *id)));
            assert_eq!(format!("{:?}", slice.residue()), format!("{residue:?}"));
            lengths.sort_unstable();
            for (least, most) in [(0, 3), (2, 254), (8, 40), (9, 11), (0, u32::MAX)] {
                let between =
                    lengths.iter().filter(|l| l.0 as u64 > least.into() && l.0 as u64 <= most.into());
                let mut want: Vec<(u32, ByteGroups)> = between.map(|l| (l.1, l.2)).collect();
                let mut got: Vec<u32> = slice.between(least, most).collect();
                got.sort_unstable();
                if least >= Slice::SHORT {
                    let mut long: Vec<_> = slice.long_between(least, most).collect();
                    long.sort_unstable();
                    want.sort_unstable();
                    assert_eq!(long, want);
                }
                want.sort_unstable();
                assert_eq!(got, want.iter().map(|w| w.0).collect::<Vec<_>>());
                let upto: usize = slice.mask_up_to(most).iter().map(|w| w.count_ones() as usize).sum();
                assert_eq!(upto, lengths.iter().filter(|l| l.0 <= most as usize).count());
            }
        }
    }
}
