//! 8-bit weights (`Q8_0`) in the layout for products in integers.
//!
//! The products of a block of 32 inputs are added up exactly. For the product see
//! [`super::int8_matmul`].
//!
//! # Cost
//!
//! A weight takes one byte, and the scale of each block four.

use super::int8_matmul::{GROUP, QuantMatrix, TileInput};
use super::quantize::{BLOCK, ZERO};
use super::simd16::Simd16;

/// Distance in bytes at which weights are prefetched. It pays for matrices that come from main
/// memory; much shorter distances gain half as much or nothing.
pub(super) const PREFETCH_BYTES: usize = 8192;

/// A matrix of 8-bit weights, in groups of sixteen outputs. The last group may have outputs that do
/// not exist.
///
/// In a group the blocks of 32 inputs follow each other. In a block the inputs follow by fours, and
/// in each four the sixteen outputs, four weights each. Weights have 128 added to them. `scales`
/// has sixteen for each block.
#[derive(Clone, Copy)]
pub(crate) struct Q8<'a> {
    quants: &'a [u8],
    scales: &'a [f32],
    /// Number of outputs.
    rows: usize,
    /// Number of inputs.
    width: usize,
}

impl<'a> Q8<'a> {
    /// Returns a matrix over these slices.
    ///
    /// # Panics
    /// If the slices do not have the lengths that the numbers require.
    pub fn new(quants: &'a [u8], scales: &'a [f32], rows: usize, width: usize) -> Self {
        let groups = rows.div_ceil(GROUP);
        assert!(width.is_multiple_of(BLOCK), "rows of whole blocks");
        assert_eq!(quants.len(), groups * GROUP * width);
        assert_eq!(scales.len(), groups * GROUP * width / BLOCK);
        Q8 { quants, scales, rows, width }
    }

    /// Returns the indices of weight `column` of output `row` and of its scale.
    pub fn place(width: usize, row: usize, column: usize) -> (usize, usize) {
        let (group, lane) = (row / GROUP, row % GROUP);
        let (block, i) = (column / BLOCK, column % BLOCK);
        let block = group * (width / BLOCK) + block;
        (block * BLOCK * GROUP + i / 4 * 4 * GROUP + lane * 4 + i % 4, block * GROUP + lane)
    }

    /// Writes the weights of output `row` in single precision, exactly.
    pub fn widen_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.width);
        for (block, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let (quant, scale) = Self::place(self.width, row, block * BLOCK);
            let (fours, scale) = (self.quants[quant..].chunks(4 * GROUP), self.scales[scale]);
            for (out, four) in out.chunks_exact_mut(4).zip(fours) {
                for (out, quant) in out.iter_mut().zip(four) {
                    *out = f32::from(quant.wrapping_sub(ZERO).cast_signed()) * scale;
                }
            }
        }
    }
}

impl QuantMatrix for Q8<'_> {
    const HALVES: bool = false;

    fn rows(&self) -> usize {
        self.rows
    }

    fn width(&self) -> usize {
        self.width
    }

    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn add<V: Simd16, const R: usize, const G: usize>(
        &self,
        x: TileInput,
        group: usize,
        block: usize,
        acc: &mut [[V; R]; G],
    ) {
        let blocks = self.width / BLOCK;
        // SAFETY: by the caller's promise; a block of a group has 512 weights and sixteen scales.
        unsafe {
            let mut w = [self.quants.as_ptr(); G];
            for (g, w) in w.iter_mut().enumerate() {
                *w = w.add(((group + g) * blocks + block) * BLOCK * GROUP);
                for line in 0..BLOCK * GROUP / 64 {
                    V::prefetch(w.wrapping_add(PREFETCH_BYTES + line * 64).cast());
                }
            }
            let sums = V::block_sums::<R, G>(x.quants, x.less, w);
            for g in 0..G {
                let scale = V::load(self.scales.as_ptr().add(((group + g) * blocks + block) * GROUP));
                for r in 0..R {
                    let both = scale.mul(V::splat(*x.scales.add(r)));
                    acc[g][r] = acc[g][r].multiply_add(sums[g][r], both);
                }
            }
        }
    }
}
