//! Quantisation of activations to 8 bits, for products in integers.
//!
//! Each block of 32 activations of a row is rounded to -127..=127 with its own scale. The error of
//! an activation is at most 1/254 of the largest of its block, the same as that of a weight in
//! `Q8_0`. The effect on outputs is in docs/exactness.md.
//!
//! # Cost
//!
//! Linear in the number of activations, once for a product, and much less than the product.
//!
//! # Alternatives considered
//!
//! 16 bits with a scale for each row were rejected. They are much finer than 8-bit weights and take
//! twice the instructions, but the results are no better.

use std::cell::Cell;

use super::rows::Rows;
use super::simd16::{Simd16, Simd16Work, run};

/// Number of activations, and of weights, that share a scale.
pub(crate) const BLOCK: usize = 32;

/// Rows of activations in 8 bits, in tiles of rows that are multiplied together.
///
/// A tile has its blocks of 32 elements in order, and in a block its rows next to each other, so
/// that one pointer runs through all of them. The last tile may have a row more, with any numbers.
/// The other vectors have a number for each block of a row, or two if its halves have scales of
/// weights of their own, in the same order.
#[derive(Default)]
pub(super) struct Int8Rows {
    pub quants: Vec<i8>,
    /// For each block the factor of its 32 values.
    pub scales: Vec<f32>,
    /// For each scale of weights: the sum of the values.
    pub sums: Vec<i32>,
    /// For each scale of weights: minus the sum of the values, times their factor. The minimum of
    /// the weights is multiplied with it.
    pub negative_sums: Vec<f32>,
    pub rows: usize,
    pub width: usize,
    pub tiling: TileShape,
    /// Number of inputs with the same scale of weights: [`BLOCK`] or half of it.
    scaled: usize,
}

/// The division of rows into tiles that are multiplied together. It does not change the bits of
/// results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TileShape {
    /// The numbers of rows that a tile may have: those of [`Simd16::TILE_ROWS`] that the weights use.
    sizes: &'static [usize],
    /// True if two groups of outputs are multiplied together, for as many rows as
    /// [`MOST_ROWS_OF_PAIR`], so that each load is used twice.
    pub pairs: bool,
}

impl Default for TileShape {
    fn default() -> Self {
        TileShape { sizes: &[1], pairs: false }
    }
}

impl TileShape {
    /// Returns the shape for a number of weights, which are bytes or need unpacking.
    pub(super) fn new(weights: usize, bytes: bool) -> Self {
        run(ShapeOf { weights, bytes })
    }

    fn largest(self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    /// Returns the number of rows of the next tile if `left` rows are left. It may be one more than
    /// these: seven rows may be a tile of eight, since a tile of few rows costs nearly as much as one of
    /// more. For the same reason tiles have similar sizes.
    pub(super) fn rows(self, left: usize) -> usize {
        let largest = self.largest();
        // For seven and eight rows one group is faster than two tiles of pairs.
        let most = if self.pairs && left > largest { MOST_ROWS_OF_PAIR } else { largest };
        let even = left.div_ceil(left.div_ceil(most).max(1));
        let next = self.sizes.partition_point(|size| *size < even);
        match self.sizes.get(next) {
            Some(size) if *size <= even + 1 => *size,
            _ => self.sizes[next - 1],
        }
    }
}

/// The best shape of tiles for some kind of vectors; see [`TileShape::new`].
pub(super) struct ShapeOf {
    pub weights: usize,
    pub bytes: bool,
}

impl Simd16Work<TileShape> for ShapeOf {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) -> TileShape {
        // Weights from memory are one stream, which takes one group and many rows.
        let streamed = self.weights >= STREAMED_FROM_WEIGHTS;
        let most = if self.bytes && streamed { usize::MAX } else { MOST_ROWS_UNPACKED };
        let sizes = &V::TILE_ROWS[..V::TILE_ROWS.partition_point(|rows| *rows <= most)];
        TileShape { sizes, pairs: V::HAS_32_REGISTERS && self.bytes && !streamed }
    }
}

/// Maximum number of rows of a tile of two groups, whose sums fill the registers.
pub(super) const MOST_ROWS_OF_PAIR: usize = 6;
/// Maximum number of rows of a tile for weights that are unpacked: more are no faster.
pub(super) const MOST_ROWS_UNPACKED: usize = 8;
/// Number of weights from which a matrix is assumed to come from memory: more than a processor's
/// second-level cache holds. The matrices of the embedded models are smaller, except that of the
/// outputs.
const STREAMED_FROM_WEIGHTS: usize = 1 << 19;

/// Rounds one row. Writes to every `step`-th block of `out`, and to the numbers of every `step`-th
/// block of the other slices.
pub(super) struct Round<'a> {
    pub x: &'a [f32],
    pub step: usize,
    pub scaled: usize,
    pub out: &'a mut [i8],
    pub scales: &'a mut [f32],
    pub sums: &'a mut [i32],
    pub negative_sums: &'a mut [f32],
}

impl Simd16Work for Round<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let halves = BLOCK / self.scaled;
        let blocks = self.x.chunks_exact(BLOCK).zip(self.out.chunks_mut(BLOCK * self.step));
        for (i, (x, out)) in blocks.enumerate() {
            assert!(out.len() >= BLOCK);
            // SAFETY: a block on either side; and by the caller's promise.
            let (scale, sum) = unsafe { V::round_block(x.as_ptr(), out.as_mut_ptr()) };
            let at = i * self.step;
            self.scales[at] = scale;
            let first: i32 = match halves {
                1 => sum,
                _ => out[..self.scaled].iter().map(|v| i32::from(*v)).sum(),
            };
            for (half, sum) in [first, sum.wrapping_sub(first)].into_iter().enumerate().take(halves) {
                // With NaN the sum has no meaning and may be large.
                self.sums[at * halves + half] = sum;
                self.negative_sums[at * halves + half] = sum.wrapping_neg() as f32 * scale;
            }
        }
    }
}

thread_local! {
    /// The last rows on this thread, kept for their memory: clearing fresh pages is a measurable
    /// part of a prefill.
    static LAST: Cell<Option<Int8Rows>> = const { Cell::new(None) };
}

/// Maximum bytes that a thread keeps for it.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Rows of activations that several matrices are multiplied with, rounded once for all of them.
pub(crate) struct Activations<'a> {
    pub rows: Rows<'a>,
    rounded: Option<Int8Rows>,
}

impl<'a> Activations<'a> {
    pub(crate) fn new(rows: Rows<'a>) -> Self {
        Activations { rows, rounded: None }
    }

    /// Rounds the rows for weights of which `scaled` inputs have the same scale. Their tiles are as
    /// wanted, or as an earlier product had them, if weights that are `bytes` or not can use these.
    pub(super) fn round(&mut self, tiling: TileShape, scaled: usize, bytes: bool) {
        if self.rounded(scaled, bytes).is_none() {
            if let Some(other) = self.rounded.take() {
                other.recycle();
            }
            self.rounded = Some(Int8Rows::new(&self.rows, tiling, scaled));
        }
    }

    /// Returns the rounded rows, if such weights can use them.
    pub(super) fn rounded(&self, scaled: usize, bytes: bool) -> Option<&Int8Rows> {
        self.rounded.as_ref().filter(|rounded| {
            rounded.scaled == scaled && (bytes || rounded.tiling.largest() <= MOST_ROWS_UNPACKED)
        })
    }
}

impl Drop for Activations<'_> {
    fn drop(&mut self) {
        if let Some(rounded) = self.rounded.take() {
            rounded.recycle();
        }
    }
}

impl Int8Rows {
    /// Rounds the rows of `x` for products with weights of which `scaled` inputs have the same scale.
    pub(super) fn new(x: &Rows, tiling: TileShape, scaled: usize) -> Self {
        let (blocks, halves) = (x.width / BLOCK, BLOCK / scaled);
        let mut all = LAST.take().unwrap_or_default();
        // Every element of these rows is written below. Results of the row more are dropped.
        let with_more = x.rows + 1;
        all.quants.resize(with_more * x.width, 0);
        all.scales.resize(with_more * blocks, 0.0);
        all.sums.resize(with_more * blocks * halves, 0);
        all.negative_sums.resize(with_more * blocks * halves, 0.0);
        (all.rows, all.width, all.tiling, all.scaled) = (x.rows, x.width, tiling, scaled);
        let mut first = 0;
        while first < x.rows {
            let rows = tiling.rows(x.rows - first);
            for r in 0..rows.min(x.rows - first) {
                let at = first * blocks + r;
                run(Round {
                    x: x.row(first + r),
                    step: rows,
                    scaled,
                    out: &mut all.quants[at * BLOCK..],
                    scales: &mut all.scales[at..],
                    sums: &mut all.sums[at * halves..],
                    negative_sums: &mut all.negative_sums[at * halves..],
                });
            }
            first += rows;
        }
        all
    }

    /// Keeps the memory for the next call of `new` on this thread.
    pub(super) fn recycle(self) {
        LAST.set(Some(self).filter(|r| r.quants.capacity() <= MAX_KEPT_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn activations_are_off_by_half_a_step_at_most_and_the_sums_are_theirs() {
        let sizes = [(1, 32), (2, 96), (7, 64), (16, 352), (33, 32)];
        let tilings = [&[1][..], &[1, 4], &[1, 2, 3, 4, 6], &[1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12]]
            .map(|sizes| TileShape { sizes, pairs: false });
        let wide = [false, true].map(|pairs| TileShape { sizes: &[1, 2, 3, 4, 6, 8], pairs });
        let tilings = [&tilings[..], &wide[..]].concat();
        for ((rows, width), &tiling) in
            sizes.into_iter().flat_map(|size| tilings.iter().map(move |tiling| (size, tiling)))
        {
            let x = noise(rows * width, 1);
            let rounded = Int8Rows::new(&Rows::new(&x, rows, width), tiling, 16);
            let (blocks, mut first) = (width / BLOCK, 0);
            while first < rows {
                let tile = tiling.rows(rows - first);
                assert!((1..=rows - first + 1).contains(&tile));
                let real = tile.min(rows - first);
                for (r, b) in (0..real).flat_map(|r| (0..blocks).map(move |b| (r, b))) {
                    let at = first * blocks + b * tile + r;
                    let (quants, scale) = (&rounded.quants[at * BLOCK..][..BLOCK], rounded.scales[at]);
                    let sum = |v: &[i8]| v.iter().map(|v| i32::from(*v)).sum::<i32>();
                    assert!(quants.iter().any(|v| v.abs() == i8::MAX), "the largest is");
                    for half in 0..2 {
                        let sum = sum(&quants[16 * half..][..16]);
                        assert_eq!(rounded.sums[2 * at + half], sum);
                        assert_eq!(rounded.negative_sums[2 * at + half], -sum as f32 * scale);
                    }
                    for (v, x) in quants.iter().zip(&x[(first + r) * width + b * BLOCK..]) {
                        assert!((f32::from(*v) * scale - x).abs() <= 0.5001 * scale);
                    }
                }
                first += tile;
            }
        }
    }
}
