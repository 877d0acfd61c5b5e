//! Exact set of byte values in four 64-bit words.
//!
//! The engine uses it for the bytes that have a transition from a state and for the bytes on the
//! edges to the children of a trie node.
//!
//! # Cost
//!
//! An intersection takes four instructions. Finding the least byte takes one or two more.
//!
//! # Alternatives considered
//!
//! A list of 256 flags was rejected: an intersection would take 256 instructions.

/// An exact set of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// Adds the bytes from `lo` to `hi`, both included.
    #[inline]
    pub fn insert(&mut self, lo: u8, hi: u8) {
        for (i, word) in (0u32..).zip(&mut self.0) {
            let (from, to) = (u32::from(lo).max(i * 64), u32::from(hi).min(i * 64 + 63));
            if from <= to {
                *word |= (u64::MAX >> (63 - (to - from))) << (from - i * 64);
            }
        }
    }

    /// Adds one byte.
    #[inline]
    pub fn add(&mut self, byte: u8) {
        self.0[byte as usize / 64] |= 1 << (byte % 64);
    }

    /// Returns the intersection of two sets.
    #[inline]
    pub fn and(&self, other: &ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Returns the union of two sets.
    #[inline]
    pub fn or(&self, other: &ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Removes and returns the least byte.
    #[inline]
    pub fn pop(&mut self) -> Option<u8> {
        let i = self.0.iter().position(|&word| word != 0)?;
        let bit = self.0[i].trailing_zeros();
        self.0[i] &= self.0[i] - 1;
        Some((i as u32 * 64 + bit) as u8)
    }

    /// Removes a byte.
    pub fn remove(&mut self, byte: u8) {
        self.0[byte as usize / 64] &= !(1 << (byte % 64));
    }

    /// Returns true if `byte` is in the set.
    #[inline]
    pub fn has(&self, byte: u8) -> bool {
        self.0[byte as usize / 64] >> (byte % 64) & 1 == 1
    }

    /// Returns the number of bytes in the set.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the number of bytes in the set that are less than `byte`.
    #[inline]
    pub fn rank(&self, byte: u8) -> u32 {
        let i = byte as usize / 64;
        let below = self.0[i] & !(u64::MAX << (byte % 64));
        self.0[..i].iter().map(|word| word.count_ones()).sum::<u32>() + below.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bytes() {
        for (lo, hi) in [(0, 255), (0, 0), (63, 64), (65, 191), (255, 255), (10, 10), (128, 200)] {
            let mut set = ByteSet::default();
            set.insert(lo, hi);
            let all = std::iter::from_fn(|| set.pop()).collect::<Vec<u8>>();
            assert_eq!(all, (lo..=hi).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn operations_agree_with_lists() {
        let set = |list: &[u8]| {
            let mut set = ByteSet::default();
            list.iter().for_each(|&b| set.add(b));
            set
        };
        let (a, b) = (set(&[0, 5, 64, 200, 255]), set(&[5, 63, 64, 255]));
        assert_eq!((a.and(&b), a.or(&b)), (set(&[5, 64, 255]), set(&[0, 5, 63, 64, 200, 255])));
        assert_eq!((a.rank(0), a.rank(64), a.rank(65), a.rank(255), a.len()), (0, 2, 3, 4, 5));
        let mut less = a;
        less.remove(200);
        assert_eq!(less, set(&[0, 5, 64, 255]));
        assert!((0..=255).all(|byte| less.has(byte) == [0, 5, 64, 255].contains(&byte)));
    }
}
