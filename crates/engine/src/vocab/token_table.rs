//! The byte strings of all tokens in one piece of memory, and their order.
//!
//! # Cost
//!
//! One sort. Every trie over some of the tokens then takes one pass over them: two neighbours of a
//! selection share as many bytes as any two between them.
//!
//! # Alternatives considered
//!
//! A vector for each token was rejected: as many allocations take longer than the sort.

use super::{TokenId, Trie};

/// The byte strings of the tokens of a vocabulary. A token without bytes has an empty string.
pub(super) struct TokenTable {
    /// Byte strings of all tokens, concatenated.
    bytes: Vec<u8>,
    /// `bytes[starts[t]..starts[t + 1]]` are the bytes of token t.
    starts: Vec<u32>,
    /// The tokens with bytes, but none that is too long for a trie, in the order of their bytes
    /// and then of their ids.
    order: Vec<Ordered>,
}

/// A token in the order of the bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ordered {
    pub token: TokenId,
    /// Number of bytes at the beginning that it shares with the token before it.
    pub common: u16,
}

/// Collects the byte strings of tokens, in the order of their ids.
pub(super) struct TokenTableBuilder {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl TokenTableBuilder {
    pub(super) fn new(tokens: usize) -> Self {
        let mut starts = Vec::with_capacity(tokens + 1);
        starts.push(0);
        TokenTableBuilder { bytes: Vec::with_capacity(tokens * 8), starts }
    }

    /// Appends a token, whose bytes `write` appends. It returns false if the token has no bytes.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.bytes.len();
        if !write(&mut self.bytes) {
            self.bytes.truncate(start);
        }
        self.starts.push(self.bytes.len() as u32);
    }

    fn token(&self, id: usize) -> &[u8] {
        &self.bytes[self.starts[id] as usize..self.starts[id + 1] as usize]
    }

    /// Returns the bytes that are tokens by themselves.
    pub(super) fn alphabet(&self) -> [bool; 256] {
        let mut alphabet = [false; 256];
        for id in 0..self.starts.len() - 1 {
            if let [byte] = *self.token(id) {
                alphabet[byte as usize] = true;
            }
        }
        alphabet
    }

    /// Makes the tokens empty that have a byte outside of the alphabet. Returns their number.
    pub(super) fn keep_only(&mut self, alphabet: &[bool; 256]) -> usize {
        if alphabet.iter().all(|&has| has) {
            return 0;
        }
        let (mut kept, mut left_out) = (TokenTableBuilder::new(self.starts.len() - 1), 0);
        for id in 0..self.starts.len() - 1 {
            let token = self.token(id);
            let good = token.iter().all(|&b| alphabet[b as usize]);
            left_out += usize::from(!good);
            kept.push(|bytes| {
                bytes.extend_from_slice(token);
                good
            });
        }
        *self = kept;
        left_out
    }

    /// Sorts the tokens.
    pub(super) fn finish(mut self) -> TokenTable {
        self.bytes.shrink_to_fit();
        let order = sorted(self.starts.len() - 1, |id| self.token(id as usize));
        TokenTable { bytes: self.bytes, starts: self.starts, order }
    }
}

impl TokenTable {
    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the bytes of a token; none if there is no such token.
    #[inline]
    pub(super) fn token(&self, id: TokenId) -> &[u8] {
        match self.starts.get(id as usize..id as usize + 2) {
            Some(&[from, to]) => &self.bytes[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Iterates over the tokens with bytes, in the order of their ids.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&[u8], TokenId)> {
        let starts = self.starts.windows(2).zip(0..);
        starts
            .map(|(s, id)| (&self.bytes[s[0] as usize..s[1] as usize], id))
            .filter(|pair| !pair.0.is_empty())
    }

    /// Returns the trie of all tokens.
    pub(super) fn trie(&self) -> Trie {
        Trie::of_sorted(self.order.iter().map(|o| (self.token(o.token), *o)))
    }

    /// Returns the trie of the tokens that begin with `before` and are not in the packed bitmask
    /// `without`. They are in it without this beginning.
    pub(super) fn trie_without(&self, before: &[u8], without: &[u32]) -> Trie {
        // The tokens with this beginning are neighbours.
        let first = self.order.partition_point(|o| self.token(o.token) < before);
        let mut common = u16::MAX;
        let rest = self.order[first..].iter().map_while(|o| {
            let bytes = self.token(o.token).strip_prefix(before)?;
            common = common.min(o.common.saturating_sub(before.len() as u16));
            let inside = without[o.token as usize / 32] >> (o.token % 32) & 1 == 1 || bytes.is_empty();
            let entry = (bytes, Ordered { token: o.token, common });
            common = if inside { common } else { u16::MAX };
            Some((!inside).then_some(entry))
        });
        Trie::of_sorted(rest.flatten())
    }
}

/// Returns the tokens below `count` in the order of their bytes, then of their ids, without those
/// that have no bytes or too many. Most byte strings differ in the first eight bytes or are no
/// longer than that; as numbers they are compared without a branch.
pub(super) fn sorted<'a>(count: usize, token: impl Fn(TokenId) -> &'a [u8]) -> Vec<Ordered> {
    let number = |id: u32| {
        let bytes = token(id);
        let len = bytes.len().min(9) as u128;
        let fits = !bytes.is_empty() && bytes.len() <= Trie::MAX_DEPTH;
        fits.then(|| u128::from(beginning(bytes)) << 64 | len << 32 | u128::from(id))
    };
    let mut numbers: Vec<u128> = (0..count as u32).filter_map(number).collect();
    numbers.sort_unstable();
    let mut order: Vec<Ordered> =
        numbers.iter().map(|&number| Ordered { token: number as u32, common: 0 }).collect();
    let mut first = 0;
    for alike in numbers.chunk_by(|a, b| a >> 32 == b >> 32) {
        let part = &mut order[first..first + alike.len()];
        first += alike.len();
        if part.len() > 1 {
            part.sort_unstable_by_key(|o| (token(o.token), o.token));
        }
    }
    let mut previous: &[u8] = &[];
    for o in &mut order {
        let bytes = token(o.token);
        o.common = bytes.iter().zip(previous).take_while(|(a, b)| a == b).count() as u16;
        previous = bytes;
    }
    order
}

/// Returns the first eight bytes as a number that sorts like them, padded with zeros.
fn beginning(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    #[test]
    fn selections_have_the_trie_of_their_tokens() {
        let mut random = Random::new(7);
        for round in 0..40 {
            let mut word = || -> Vec<u8> {
                (0..random.below(if round % 4 == 0 { 12 } else { 4 }))
                    .map(|_| *random.pick(b" ab\xc3"))
                    .collect()
            };
            let words: Vec<Vec<u8>> = (0..300).map(|_| word()).collect();
            let mut builder = TokenTableBuilder::new(words.len());
            for w in &words {
                builder.push(|bytes| {
                    bytes.extend_from_slice(w);
                    true
                });
            }
            let table = builder.finish();
            assert!(words.iter().zip(0..).all(|(w, id)| table.token(id) == w));
            assert_eq!((table.token(300), table.len()), (&b""[..], 300));
            let pairs = || words.iter().map(Vec::as_slice).zip(0u32..);
            assert!(table.pairs().eq(pairs().filter(|p| !p.0.is_empty())));
            let same = |a: &Trie, b: &Trie| assert_eq!(format!("{a:?}"), format!("{b:?}"));
            same(&table.trie(), &Trie::new(pairs()));
            for before in [&b""[..], b" ", b"ab", b"\xff"] {
                let without: Vec<u32> =
                    (0..10).map(|_| random.next() as u32 & random.next() as u32).collect();
                let outside = pairs().filter(|p| without[p.1 as usize / 32] >> (p.1 % 32) & 1 == 0);
                let stripped = outside.filter_map(|(b, id)| Some((b.strip_prefix(before)?, id)));
                same(&table.trie_without(before, &without), &Trie::new(stripped));
            }
        }
    }

    #[test]
    fn tokens_outside_of_the_alphabet_are_left_out() {
        let mut builder = TokenTableBuilder::new(5);
        for (text, good) in [("a", true), ("ab", true), ("", true), ("aa", true), ("b", false)] {
            builder.push(|bytes| {
                bytes.extend_from_slice(text.as_bytes());
                good
            });
        }
        let alphabet = builder.alphabet();
        assert_eq!((0..=255u8).filter(|&b| alphabet[b as usize]).collect::<Vec<_>>(), b"a");
        assert_eq!(builder.keep_only(&alphabet), 1);
        let table = builder.finish();
        assert_eq!((0..5).map(|id| table.token(id)).collect::<Vec<_>>(), [&b"a"[..], b"", b"", b"aa", b""]);
    }
}
