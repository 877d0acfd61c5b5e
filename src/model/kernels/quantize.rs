//! Activations in 8 bits, for products in integers.
//!
//! Each block of 32 activations of a row is rounded to -127..=127 by a scale of its own: an activation is then off by at most 1/254 of
//! the largest of its block, as a weight was when it was rounded to `Q8_0`. Cost: a nanosecond for each four, once for
//! a product. Rejected: 16 bits by a scale for each row, which was here before. It is a hundred times finer than 8-bit
//! weights and takes twice the instructions: a forward over eight rows of the embedded model cost a quarter more, and of 340
//! evaluation texts it got as many fields right. docs/exactness.md has what the rounding does to outputs.

use std::cell::Cell;

use super::f32_matmul::Rows;
use super::simd16::{Simd16, WideWork, run};

/// Activations, and weights, that share a scale.
pub(crate) const BLOCK: usize = 32;
/// What [`Int8Rows::less`] takes off for each: what stands for a weight of zero in 8 bits.
pub(crate) const ZERO: u8 = 128;

/// Rows of activations in 8 bits, by tiles of rows that are multiplied together. A tile has its blocks of 32
/// elements in order, and in a block its rows beside each other, so that one pointer runs through all of
/// them; the others have a number for each block of a row, in the same order.
#[derive(Default)]
pub(super) struct Int8Rows {
    pub quants: Vec<i8>,
    /// What to multiply the 32 values with.
    pub scales: Vec<f32>,
    /// [`ZERO`] times their sum, taken off.
    pub zero_correction: Vec<i32>,
    /// The sum of the first half of them, where that was asked for.
    pub half_sums: Vec<i32>,
    pub rows: usize,
    pub width: usize,
    pub tiling: TileShape,
}

/// How rows are cut into tiles that are multiplied together. The bits are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TileShape {
    /// Vectors with few registers: six rows and a group of outputs leave registers for nothing else.
    #[default]
    Few,
    /// [Many](Wide::MANY) registers and weights that lie in the caches: six rows and two groups, so that what is loaded is used
    /// twice. One group and up to nine rows are faster than two tiles.
    Near,
    /// Many registers and weights that come out of memory: one stream of them, which one group is, and up to twelve
    /// rows, so that it is used as often as can be.
    Far,
}

impl TileShape {
    /// For so many weights.
    pub fn new(many: bool, weights: usize) -> Self {
        match many {
            false => TileShape::Few,
            true if weights < STREAMED_FROM_WEIGHTS => TileShape::Near,
            true => TileShape::Far,
        }
    }

    /// How many of the rows that are left make the next tile. Tiles are of like size, seven rows are four and three, for a
    /// tile of few costs nearly as much as one of more.
    pub fn rows(self, left: usize) -> usize {
        match (left, self) {
            (_, TileShape::Far) => left.div_ceil(left.div_ceil(MOST_ROWS).max(1)),
            (0..=6, _) => left,
            (7..=9, TileShape::Near) => left,
            (7 | 8, _) => 4,
            (9 | 10, _) => 5,
            _ => 6,
        }
    }
}

/// Most rows of a tile.
pub(super) const MOST_ROWS: usize = 12;
/// Weights of a matrix from which on it is taken to come out of memory: more than a processor's second cache keeps beside
/// all else. The matrices of the embedded models are smaller, but for that of the outputs.
const STREAMED_FROM_WEIGHTS: usize = 1 << 19;

/// One row, written to every `step`-th block of `out`, and to every `step`-th number beside it.
pub(super) struct Round<'a> {
    pub x: &'a [f32],
    pub step: usize,
    pub out: &'a mut [i8],
    pub scales: &'a mut [f32],
    pub zero_correction: &'a mut [i32],
    /// May be empty.
    pub half_sums: &'a mut [i32],
}

impl WideWork for Round<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let blocks = self.x.chunks_exact(BLOCK).zip(self.out.chunks_mut(BLOCK * self.step));
        for (i, (x, out)) in blocks.enumerate() {
            assert!(out.len() >= BLOCK);
            // SAFETY: a block on either side; and by the caller's promise.
            let (scale, sum) = unsafe { V::round_block(x.as_ptr(), out.as_mut_ptr()) };
            self.scales[i * self.step] = scale;
            // The sum of what is no number means nothing and may be large.
            self.zero_correction[i * self.step] = (-i32::from(ZERO)).wrapping_mul(sum);
            if let Some(first) = self.half_sums.get_mut(i * self.step) {
                *first = out[..BLOCK / 2].iter().map(|v| i32::from(*v)).sum();
            }
        }
    }
}

thread_local! {
    /// The last one on this thread, for its memory: clearing fresh pages took a fiftieth of a prompt's time.
    static LAST: Cell<Option<Int8Rows>> = const { Cell::new(None) };
}

/// Bytes that a thread keeps for it.
const KEPT: usize = 4 << 20;

impl Int8Rows {
    /// `halves` asks for the sums of halves of blocks.
    pub fn new(x: &Rows, tiling: TileShape, halves: bool) -> Self {
        let blocks = x.width / BLOCK;
        let mut all = LAST.take().unwrap_or_default();
        // Every element is written below.
        all.quants.resize(x.rows * x.width, 0);
        all.scales.resize(x.rows * blocks, 0.0);
        all.zero_correction.resize(x.rows * blocks, 0);
        all.half_sums.resize(if halves { x.rows * blocks } else { 0 }, 0);
        (all.rows, all.width, all.tiling) = (x.rows, x.width, tiling);
        let mut first = 0;
        while first < x.rows {
            let rows = tiling.rows(x.rows - first);
            for r in 0..rows {
                let at = first * blocks + r;
                run(Round {
                    x: x.row(first + r),
                    step: rows,
                    out: &mut all.quants[at * BLOCK..],
                    scales: &mut all.scales[at..],
                    zero_correction: &mut all.zero_correction[at..],
                    half_sums: if halves { &mut all.half_sums[at..] } else { &mut [] },
                });
            }
            first += rows;
        }
        all
    }

    /// Leaves the memory for the next one.
    pub fn leave(self) {
        LAST.set(Some(self).filter(|r| r.quants.capacity() <= KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn activations_are_off_by_half_a_step_at_most_and_the_sums_are_theirs() {
        let sizes = [(1, 32), (2, 96), (7, 64), (16, 352), (33, 32)];
        let tilings = [TileShape::Few, TileShape::Near, TileShape::Far];
        for ((rows, width), tiling) in sizes.into_iter().flat_map(|size| tilings.map(|tiling| (size, tiling)))
        {
            let x = noise(rows * width, 1);
            let rounded = Int8Rows::new(&Rows::new(&x, rows, width), tiling, true);
            let (blocks, mut first) = (width / BLOCK, 0);
            while first < rows {
                let tile = tiling.rows(rows - first);
                assert!((1..=MOST_ROWS).contains(&tile));
                for (r, b) in (0..tile).flat_map(|r| (0..blocks).map(move |b| (r, b))) {
                    let at = first * blocks + b * tile + r;
                    let (quants, scale) = (&rounded.quants[at * BLOCK..][..BLOCK], rounded.scales[at]);
                    let sum = |v: &[i8]| v.iter().map(|v| i32::from(*v)).sum::<i32>();
                    assert!(quants.iter().any(|v| v.abs() == i8::MAX), "the largest is");
                    assert_eq!(rounded.zero_correction[at], -128 * sum(quants));
                    assert_eq!(rounded.half_sums[at], sum(&quants[..16]));
                    for (v, x) in quants.iter().zip(&x[(first + r) * width + b * BLOCK..]) {
                        assert!((f32::from(*v) * scale - x).abs() <= 0.5001 * scale);
                    }
                }
                first += tile;
            }
        }
    }
}
