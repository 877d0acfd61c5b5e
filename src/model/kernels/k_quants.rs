//! 4-bit and 6-bit weights (`Q4_K`, `Q6_K`) in the layout for products in integers.
//!
//! Values stay packed and are unpacked in registers. This takes few instructions for the 512
//! weights of a block of sixteen outputs, about one for each ten to thirty weights with AVX-512,
//! whatever the number of rows. Scales are in single precision, with the values that the format
//! defines. Its own scales, in half precision and six bits, would have to be combined again at each
//! product. For the product see [`super::int8_matmul`].
//!
//! # Alternatives considered
//!
//! Weights widened exactly, with activations in single precision, were rejected: a forward takes
//! several times as long.

use super::int8_matmul::{GROUP, QuantMatrix, TileInput};
use super::q8_0::PREFETCH_BYTES;
use super::quantize::{BLOCK, ZERO};
use super::simd16::Simd16;

/// Number of weights in a block of the formats `Q4_K` and `Q6_K`.
pub(crate) const K_BLOCK: usize = 256;
/// Bytes of the low four bits of a group's block. Each 64 bytes hold four inputs in their lower
/// halves and four others in their upper halves.
pub(crate) const LOW_NIBBLE_BYTES: usize = BLOCK * GROUP / 2;
/// Bytes of the upper two bits of a group's block. Each 64 bytes hold four times four inputs.
pub(crate) const HIGH_BITS_BYTES: usize = BLOCK * GROUP / 4;
/// Number of scale values of a group's block: two for each output, the first of all outputs and
/// then the second.
pub(crate) const SCALES_PER_GROUP: usize = 2 * GROUP;

/// The position of a weight: the byte of its low four bits and their shift, the byte of its upper
/// bits and their shift, and the first of its output's two scale values.
pub(crate) struct PackedIndex {
    pub low: usize,
    pub low_shift: u32,
    pub high: usize,
    pub high_shift: u32,
    pub pair: usize,
}

impl PackedIndex {
    /// Returns the position of weight `column` of output `row`.
    pub fn new(width: usize, row: usize, column: usize) -> Self {
        let (group, lane) = (row / GROUP, row % GROUP);
        let (block, i) = (group * (width / BLOCK) + column / BLOCK, column % BLOCK);
        let (four, byte) = (i / 4, lane * 4 + i % 4);
        PackedIndex {
            low: block * LOW_NIBBLE_BYTES + four % 4 * 64 + byte,
            low_shift: 4 * (four as u32 / 4),
            high: block * HIGH_BITS_BYTES + four / 4 * 64 + byte,
            high_shift: 2 * (four as u32 % 4),
            pair: block * SCALES_PER_GROUP + lane,
        }
    }
}

/// A matrix of 4-bit weights: `value * scale - minimum`, with both for each 32 weights of an
/// output.
#[derive(Clone, Copy)]
pub(crate) struct Q4<'a> {
    quants: &'a [u8],
    /// Scales and minimums; see [`PackedIndex`].
    pairs: &'a [f32],
    rows: usize,
    width: usize,
}

impl<'a> Q4<'a> {
    /// Returns a matrix over these slices.
    ///
    /// # Panics
    /// If the slices do not have the lengths that the numbers require.
    pub fn new(quants: &'a [u8], pairs: &'a [f32], rows: usize, width: usize) -> Self {
        let blocks = blocks(rows, width);
        assert_eq!((quants.len(), pairs.len()), (blocks * LOW_NIBBLE_BYTES, blocks * SCALES_PER_GROUP));
        Q4 { quants, pairs, rows, width }
    }

    /// Writes the weights of output `row` in single precision.
    pub fn widen_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.width);
        for (column, out) in out.iter_mut().enumerate() {
            let at = PackedIndex::new(self.width, row, column);
            let value = self.quants[at.low] >> at.low_shift & 15;
            *out = f32::from(value) * self.pairs[at.pair] - self.pairs[at.pair + GROUP];
        }
    }
}

/// A matrix of 6-bit weights: `(value - 32) * scale`, with a scale for each 16 weights of an
/// output.
#[derive(Clone, Copy)]
pub(crate) struct Q6<'a> {
    low: &'a [u8],
    high: &'a [u8],
    /// Scales of the first and the second half of each block; see [`PackedIndex`].
    pairs: &'a [f32],
    rows: usize,
    width: usize,
}

impl<'a> Q6<'a> {
    /// Returns a matrix over these slices.
    ///
    /// # Panics
    /// If the slices do not have the lengths that the numbers require.
    pub fn new(low: &'a [u8], high: &'a [u8], pairs: &'a [f32], rows: usize, width: usize) -> Self {
        let blocks = blocks(rows, width);
        assert_eq!(
            (low.len(), high.len(), pairs.len()),
            (blocks * LOW_NIBBLE_BYTES, blocks * HIGH_BITS_BYTES, blocks * SCALES_PER_GROUP)
        );
        Q6 { low, high, pairs, rows, width }
    }

    /// Writes the weights of output `row` in single precision.
    pub fn widen_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.width);
        for (column, out) in out.iter_mut().enumerate() {
            let at = PackedIndex::new(self.width, row, column);
            let low = self.low[at.low] >> at.low_shift & 15;
            let value = low | (self.high[at.high] >> at.high_shift & 3) << 4;
            let half = column % BLOCK / (BLOCK / 2);
            *out = (f32::from(value) - 32.0) * self.pairs[at.pair + half * GROUP];
        }
    }
}

/// Returns the number of blocks of all groups, including those that are not full.
pub(crate) fn blocks(rows: usize, width: usize) -> usize {
    assert!(width.is_multiple_of(BLOCK), "rows of whole blocks");
    rows.div_ceil(GROUP) * (width / BLOCK)
}

/// Returns the four activations of a row that meet four weights of an output.
///
/// # Safety
/// The row and its four activations exist.
#[inline(always)]
unsafe fn four_of(x: TileInput, row: usize, four: usize) -> i32 {
    // SAFETY: by the caller's promise; no alignment is needed.
    unsafe { x.quants.add(row * BLOCK + 4 * four).cast::<i32>().read_unaligned() }
}

// No closures in these functions, nor iterators over vectors: they lack the instructions of the
// function that they are inlined into.
#[allow(clippy::needless_range_loop)]
impl QuantMatrix for Q4<'_> {
    const HALVES: bool = false;

    fn rows(&self) -> usize {
        self.rows
    }

    fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    unsafe fn add<V: Simd16, const R: usize, const G: usize>(
        &self,
        x: TileInput,
        group: usize,
        block: usize,
        acc: &mut [[V; R]; G],
    ) {
        let blocks = self.width / BLOCK;
        // SAFETY: by the caller's promise, and by the lengths that `new` checks.
        unsafe {
            let mut sums = [[V::integers(0); R]; G];
            for j in 0..4 {
                let mut packed = [V::bytes(self.quants.as_ptr()); G];
                for g in 0..G {
                    let at =
                        self.quants.as_ptr().add(((group + g) * blocks + block) * LOW_NIBBLE_BYTES + j * 64);
                    V::prefetch(at.wrapping_add(PREFETCH_BYTES).cast());
                    packed[g] = V::bytes(at);
                }
                for half in 0..2 {
                    let mut w = packed;
                    for g in 0..G {
                        w[g] = if half == 0 { V::low(packed[g]) } else { V::high(packed[g]) };
                    }
                    for r in 0..R {
                        let x = four_of(x, r, 4 * half + j);
                        for g in 0..G {
                            sums[g][r] = V::dot(sums[g][r], w[g], x);
                        }
                    }
                }
            }
            for g in 0..G {
                let pair = self.pairs.as_ptr().add(((group + g) * blocks + block) * SCALES_PER_GROUP);
                let (scale, least) = (V::load(pair), V::load(pair.add(GROUP)));
                for r in 0..R {
                    let own = *x.scales.add(r);
                    // The negative sum of the activations: both steps to it are exact.
                    let less = *x.less.add(r) as f32 / f32::from(ZERO);
                    acc[g][r] = acc[g][r].multiply_add(V::floats(sums[g][r]), scale.mul(V::splat(own)));
                    acc[g][r] = acc[g][r].multiply_add(least, V::splat(less * own));
                }
            }
        }
    }
}

#[allow(clippy::needless_range_loop)]
impl QuantMatrix for Q6<'_> {
    const HALVES: bool = true;

    fn rows(&self) -> usize {
        self.rows
    }

    fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    unsafe fn add<V: Simd16, const R: usize, const G: usize>(
        &self,
        x: TileInput,
        group: usize,
        block: usize,
        acc: &mut [[V; R]; G],
    ) {
        let blocks = self.width / BLOCK;
        // SAFETY: by the caller's promise, and by the lengths that `new` checks.
        unsafe {
            for half in 0..2 {
                let mut sums = [[V::integers(0); R]; G];
                for r in 0..R {
                    // -32 times the sum of the half's activations; for the whole block this is a
                    // quarter of `less`.
                    let first = -32 * *x.firsts.add(r);
                    let less = if half == 0 { first } else { *x.less.add(r) / 4 - first };
                    for g in 0..G {
                        sums[g][r] = V::integers(less);
                    }
                }
                let mut upper = [V::bytes(self.high.as_ptr()); G];
                for g in 0..G {
                    let at =
                        self.high.as_ptr().add(((group + g) * blocks + block) * HIGH_BITS_BYTES + half * 64);
                    V::prefetch(at.wrapping_add(PREFETCH_BYTES / 2).cast());
                    upper[g] = V::bytes(at);
                }
                for j in 0..4 {
                    let mut w = upper;
                    for g in 0..G {
                        let at =
                            self.low.as_ptr().add(((group + g) * blocks + block) * LOW_NIBBLE_BYTES + j * 64);
                        if half == 0 {
                            V::prefetch(at.wrapping_add(PREFETCH_BYTES).cast());
                        }
                        let packed = V::bytes(at);
                        let low = if half == 0 { V::low(packed) } else { V::high(packed) };
                        w[g] = V::either(low, V::upper(upper[g], j));
                    }
                    for r in 0..R {
                        let x = four_of(x, r, 4 * half + j);
                        for g in 0..G {
                            sums[g][r] = V::dot(sums[g][r], w[g], x);
                        }
                    }
                }
                for g in 0..G {
                    let at = ((group + g) * blocks + block) * SCALES_PER_GROUP + half * GROUP;
                    let scale = V::load(self.pairs.as_ptr().add(at));
                    for r in 0..R {
                        let both = scale.mul(V::splat(*x.scales.add(r)));
                        acc[g][r] = acc[g][r].multiply_add(V::floats(sums[g][r]), both);
                    }
                }
            }
        }
    }
}
