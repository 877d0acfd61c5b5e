//! The legal tokens of one position, borrowed without a copy.
//!
//! A mask is stored as a dense base, which many positions share, and a list of further tokens. A
//! caller that tests a few tokens, counts them or iterates reads these parts directly.
//!
//! # Cost
//!
//! Writing the packed mask row copies 16 KB for 128k tokens. Reading the parts copies nothing.
//!
//! # Alternatives considered
//!
//! Returning the packed mask row itself was rejected: it would have to exist for every position.

use crate::mask::Mask;
use crate::vocab::TokenId;

/// The legal tokens of a position, as [`Matcher::bitmask`](super::Matcher::bitmask) lends them.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
/// use ffwd_engine::{Compiler, Constraint, Vocabulary};
///
/// let vocab = Vocabulary::from_bytes(tokenizer)?;
/// let mut matcher = Compiler::new(vocab.clone()).compile(&Constraint::choice(["7"])?)?.matcher();
/// let mask = matcher.bitmask();
/// assert_eq!(mask.count(), 1);
/// assert!(mask.contains(vocab.encode("7")?[0]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Bitmask<'a> {
    pub(super) mask: Option<&'a Mask>,
    /// The end tokens if the output may end here, otherwise empty.
    pub(super) ends: &'a [TokenId],
    /// Number of `u32` words in a packed mask row.
    pub(super) words: usize,
}

impl<'a> Bitmask<'a> {
    /// Returns true if a token is legal. Takes a comparison and a binary search in a short list.
    pub fn contains(&self, token: TokenId) -> bool {
        self.ends.contains(&token) || self.mask.is_some_and(|mask| mask.contains(token))
    }

    /// Returns the packed words shared with other positions, bit t % 32 of word t / 32; words
    /// missing at the end are 0. Further legal tokens are in [`more`](Self::more) and
    /// [`ends`](Self::ends).
    pub fn base(&self) -> &'a [u32] {
        self.mask.map_or(&[], Mask::base)
    }

    /// Returns the legal tokens besides those of the base, sorted; some may also be in the base.
    pub fn more(&self) -> &'a [TokenId] {
        self.mask.map_or(&[], Mask::more)
    }

    /// Returns the end tokens if the output may end here, otherwise an empty slice.
    pub fn ends(&self) -> &'a [TokenId] {
        self.ends
    }

    /// Writes the packed mask row and overwrites all of its words.
    ///
    /// # Panics
    /// If `row` is shorter than [`Vocabulary::bitmask_words`](crate::Vocabulary::bitmask_words).
    pub fn write(&self, row: &mut [u32]) {
        assert!(row.len() >= self.words, "the row is shorter than the vocabulary");
        match self.mask {
            Some(mask) => mask.write(row),
            None => row.fill(0),
        }
        for &t in self.ends {
            row[t as usize / 32] |= 1 << (t % 32);
        }
    }

    /// Returns the number of legal tokens.
    pub fn count(&self) -> usize {
        let base = self.base();
        let in_base = |t: TokenId| base.get(t as usize / 32).is_some_and(|w| w >> (t % 32) & 1 == 1);
        let more = self.more();
        let further = more.iter().filter(|&&t| !in_base(t)).count();
        let ends = self.ends.iter().filter(|&&t| !in_base(t) && more.binary_search(&t).is_err()).count();
        base.iter().map(|w| w.count_ones() as usize).sum::<usize>() + further + ends
    }
}
