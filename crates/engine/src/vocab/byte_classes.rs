//! Bitmaps of the tokens that start with a byte of a class and of those that contain one later.
//!
//! Each of the forty classes has two mask rows: the tokens whose first byte is in the class, and
//! the tokens with such a byte after the first. The tokens made only of certain classes are then a
//! union of some rows and the complement of others. This serves the states that no vocabulary slice
//! (`slices`) fits. A third kind of row uses the classes of [`ByteGroups`] and finds the tokens
//! that contain all of some letters.
//!
//! # Cost
//!
//! One pass over the bytes of the vocabulary, and 2.3 MB for 128k tokens. A row has 16 KB for 128k
//! tokens, so each excluded class costs about half a microsecond, whichever class it is.
//!
//! # Alternatives considered
//!
//! Slices for more classes were rejected: each needs a trie of its own, and the next pattern needs
//! yet another class.

use super::{ByteGroups, TokenId, Trie, byte_set};

/// A set of classes, one bit each.
pub(crate) type ClassSet = u64;

/// Number of classes.
const COUNT: usize = 40;
/// Classes of letters and digits.
const PLAIN: ClassSet = 0b1_1111;
/// The class of the bytes beyond ASCII.
const BEYOND: usize = 7;

/// The class of each byte. Patterns mostly distinguish letters by case, hexadecimal letters from
/// others, and single punctuation marks, and so do the classes.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let (mut byte, mut next) = (0, 8);
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'a'..=b'f' => 0,
            b'g'..=b'z' => 1,
            b'A'..=b'F' => 2,
            b'G'..=b'Z' => 3,
            b'0'..=b'9' => 4,
            b' ' => 5,
            0..0x20 | 0x7f => 6,
            0x80.. => BEYOND as u8,
            _ => {
                next += 1;
                next - 1
            }
        };
        byte += 1;
    }
    assert!(next as usize == COUNT);
    class
};

/// The class bitmaps of a vocabulary.
pub(crate) struct Classes {
    /// Words of a mask row.
    words: usize,
    /// For each class, the tokens whose first byte is in the class.
    starts: Vec<u32>,
    /// For each class, the tokens with a byte of the class after the first byte.
    tails: Vec<u32>,
    /// For each class, the number of tokens in its row of `tails`.
    counts: [u32; COUNT],
    /// For each class of a [`ByteGroups`], the tokens that contain a byte of it, and their number.
    has: Vec<u32>,
    having: [u32; ByteGroups::BITS as usize],
    /// For each class, its bytes that occur in some token.
    members: Vec<Vec<u8>>,
    /// Tokens with more than [`Classes::SHORT`] bytes after the first, with the number of those
    /// bytes, longest first.
    long: Vec<(u16, TokenId)>,
}

impl Classes {
    /// Smallest limit on the bytes after the first that [`Classes::tails_within`] accepts.
    pub(crate) const SHORT: u32 = 8;

    /// Builds the bitmaps from the tokens with bytes of a vocabulary of `len` tokens.
    pub(super) fn new<'a>(pairs: impl Iterator<Item = (&'a [u8], TokenId)>, len: usize) -> Self {
        let words = len.div_ceil(32);
        let mut classes = Classes {
            words,
            starts: vec![0; COUNT * words],
            tails: vec![0; COUNT * words],
            counts: [0; COUNT],
            has: vec![0; ByteGroups::BITS as usize * words],
            having: [0; ByteGroups::BITS as usize],
            members: vec![Vec::new(); COUNT],
            long: Vec::new(),
        };
        let mut met = [false; 256];
        for (bytes, token) in pairs {
            let Some((&first, rest)) = bytes.split_first().filter(|_| bytes.len() <= Trie::MAX_DEPTH) else {
                continue;
            };
            let (word, bit) = (token as usize / 32, 1 << (token % 32));
            classes.starts[CLASS[first as usize] as usize * words + word] |= bit;
            let mut set: ClassSet = 0;
            for &b in rest {
                set |= 1 << CLASS[b as usize];
                met[b as usize] = true;
            }
            met[first as usize] = true;
            for class in each(set) {
                classes.tails[class * words + word] |= bit;
                classes.counts[class] += 1;
            }
            for class in each(bytes.iter().fold(0, |set, &b| set | byte_set(b))) {
                classes.has[class * words + word] |= bit;
                classes.having[class] += 1;
            }
            if rest.len() > Self::SHORT as usize {
                classes.long.push((rest.len() as u16, token));
            }
        }
        for byte in (0..=255u8).filter(|&b| met[b as usize]) {
            classes.members[CLASS[byte as usize] as usize].push(byte);
        }
        classes.long.sort_unstable_by_key(|&(len, token)| (std::cmp::Reverse(len), token));
        classes
    }

    /// Returns the bytes of a class that occur in some token.
    pub(crate) fn members(&self, class: usize) -> &[u8] {
        &self.members[class]
    }

    /// Returns the ASCII classes whose occurring bytes all satisfy `good`.
    pub(crate) fn wholly(&self, good: impl Fn(u8) -> bool) -> ClassSet {
        let whole =
            |&class: &usize| !self.members[class].is_empty() && self.members[class].iter().all(|&b| good(b));
        (0..COUNT).filter(|&class| class != BEYOND).filter(whole).fold(0, |set, class| set | 1 << class)
    }

    /// Returns the number of tokens with a byte of the class after their first byte.
    pub(crate) fn count(&self, class: usize) -> u32 {
        self.counts[class]
    }

    /// Returns the mask row of the tokens whose bytes after the first are all in `classes` and at
    /// most `most` in number. `most` is at least [`Classes::SHORT`]. The row also contains all ids
    /// without bytes.
    pub(crate) fn tails_within(&self, classes: ClassSet, most: u32) -> Vec<u32> {
        let mut row = vec![u32::MAX; self.words];
        for class in (0..COUNT).filter(|class| classes >> class & 1 == 0 && self.counts[*class] > 0) {
            row.iter_mut().zip(self.row(&self.tails, class)).for_each(|(word, others)| *word &= !others);
        }
        for &(_, token) in self.long.iter().take_while(|long| u32::from(long.0) > most) {
            row[token as usize / 32] &= !(1 << (token % 32));
        }
        row
    }

    /// Adds to `row` the tokens of `of` whose first byte is in the class.
    pub(crate) fn add_started(&self, class: usize, of: &[u32], row: &mut [u32]) {
        let started = self.row(&self.starts, class).iter().zip(of);
        row.iter_mut().zip(started).for_each(|(word, (starts, of))| *word |= starts & of);
    }

    /// Removes from `row` the tokens with a byte of the class; the first byte counts only if
    /// `first`.
    pub(crate) fn take_out(&self, class: usize, first: bool, row: &mut [u32]) {
        row.iter_mut().zip(self.row(&self.tails, class)).for_each(|(word, out)| *word &= !out);
        if first {
            row.iter_mut().zip(self.row(&self.starts, class)).for_each(|(word, out)| *word &= !out);
        }
    }

    /// Returns an upper bound on the number of tokens that contain one of the bytes.
    pub(crate) fn having(&self, bytes: ByteGroups) -> u32 {
        each(bytes).map(|class| self.having[class]).sum()
    }

    /// Returns the tokens of `of` that contain, for at least one pair, all bytes of its first set
    /// and some byte of its second set.
    pub(crate) fn with_all_and_any(
        &self,
        pairs: impl Iterator<Item = (ByteGroups, ByteGroups)>,
        of: &[u32],
    ) -> Vec<u32> {
        let mut found = vec![0; self.words];
        let mut some = vec![0; self.words];
        for (all, any) in pairs {
            let mut these = of.to_vec();
            for class in each(all) {
                these.iter_mut().zip(self.row(&self.has, class)).for_each(|(word, has)| *word &= has);
            }
            // Sets that overlap need no second test: a token with all bytes of `all` has one of
            // `any`.
            if all & any == 0 && any != ByteGroups::MAX {
                some.fill(0);
                for class in each(any) {
                    some.iter_mut().zip(self.row(&self.has, class)).for_each(|(word, has)| *word |= has);
                }
                these.iter_mut().zip(&some).for_each(|(word, some)| *word &= some);
            }
            found.iter_mut().zip(these).for_each(|(word, these)| *word |= these);
        }
        found
    }

    fn row<'a>(&self, rows: &'a [u32], class: usize) -> &'a [u32] {
        &rows[class * self.words..(class + 1) * self.words]
    }
}

/// Returns true if the set contains a class of letters or digits.
pub(crate) fn has_plain(classes: ClassSet) -> bool {
    classes & PLAIN != 0
}

/// Iterates over the classes of a set.
pub(crate) fn each(mut classes: ClassSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let class = (classes != 0).then(|| classes.trailing_zeros() as usize)?;
        classes &= classes - 1;
        Some(class)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    #[test]
    fn rows_agree_with_the_bytes() {
        let mut random = Random::new(3);
        let letters = b"ag9 Z-.\"\xc3\n";
        let mut token = |most: usize| -> Vec<u8> {
            (0..random.below(most)).map(|_| *random.pick(&letters[..])).collect()
        };
        let words: Vec<Vec<u8>> = (0..500).map(|i| token(if i % 5 == 0 { 30 } else { 5 })).collect();
        let pairs = words.iter().enumerate().filter(|w| !w.1.is_empty()).map(|(i, w)| (&w[..], i as TokenId));
        let classes = Classes::new(pairs, words.len());
        for _ in 0..50 {
            let good: Vec<u8> = letters.iter().copied().filter(|_| random.below(3) > 0).collect();
            let set = classes.wholly(|b| good.contains(&b));
            let most = Classes::SHORT + random.below(15) as u32;
            let row = classes.tails_within(set, most);
            let mut started = vec![0; row.len()];
            each(set).for_each(|class| classes.add_started(class, &row, &mut started));
            for (i, word) in words.iter().enumerate().filter(|w| !w.1.is_empty()) {
                let has = |row: &[u32]| row[i / 32] >> (i % 32) & 1 == 1;
                let inside = |b: &u8| *b < 0x80 && good.contains(b);
                let tail = word[1..].iter().all(inside) && word.len() as u32 - 1 <= most;
                assert_eq!(has(&row), tail, "{word:?} {good:?} {most}");
                let mut without = vec![u32::MAX; row.len()];
                each(set).for_each(|class| classes.take_out(class, true, &mut without));
                let set_of = |b: &u8| set >> CLASS[*b as usize] & 1 == 1;
                assert_eq!(has(&without), !word.iter().any(set_of));
                assert_eq!(has(&started), tail && inside(&word[0]), "{word:?} {good:?} {most}");
            }
        }
    }

    #[test]
    fn tokens_with_some_bytes_are_found() {
        let mut random = Random::new(4);
        let letters = b"abcde \"\xc3";
        let mut word = |most: usize| -> Vec<u8> {
            (0..random.below(most)).map(|_| *random.pick(&letters[..])).collect()
        };
        let words: Vec<Vec<u8>> = (0..300).map(|_| [word(6), b"a".to_vec()].concat()).collect();
        let set = |bytes: &[u8]| bytes.iter().fold(0, |set, &b| set | byte_set(b));
        let pairs = words.iter().enumerate().map(|(i, w)| (&w[1..], i as TokenId));
        let classes = Classes::new(pairs, words.len());
        let all = vec![u32::MAX; words.len().div_ceil(32)];
        for _ in 0..100 {
            let pairs: Vec<(ByteGroups, ByteGroups)> =
                (0..3).map(|_| (set(&word(4)), set(&word(4)))).collect();
            let pairs: Vec<_> = pairs.into_iter().filter(|pair| pair.1 != 0).collect();
            let row = classes.with_all_and_any(pairs.iter().copied(), &all);
            for (i, word) in words.iter().enumerate().filter(|w| w.1.len() > 1) {
                let has = set(&word[1..]);
                let expected = pairs.iter().any(|&(all, any)| all & !has == 0 && any & has != 0);
                assert_eq!(row[i / 32] >> (i % 32) & 1 == 1, expected);
            }
        }
    }
}
