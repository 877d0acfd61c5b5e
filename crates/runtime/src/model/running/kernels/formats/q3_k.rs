//! `Q3_K`: 3 bits with a scale of six bits for each 16 inputs and one in half precision for each 256.

use super::{
    BITS, BlockFormat, GROUP, HALVES, K_BLOCK, PAIRS, bits, fields_of, pairs, put_bits, put_half, put_pairs,
    two_levels,
};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the lower two bits, the third bits, and the scales of both halves. A tile ends with the
/// scales of all parts.
#[derive(Clone, Copy)]
pub(crate) struct Q3K;

/// Bytes of the values of a part.
const VALUES: usize = PAIRS + BITS;
/// Bytes of the parts of a tile.
const ALL: usize = 8 * Q3K::PART;

impl BlockFormat for Q3K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 110;
    const PART: usize = VALUES + 2 * GROUP;
    const TILE: usize = ALL + HALVES;
    const SCALED: usize = 16;
    const OFFSET: i32 = 4;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        put_half(&mut tile[ALL..], lane, &block[108..]);
        for (i, part) in tile.chunks_exact_mut(Self::PART).take(8).enumerate() {
            // Each 32 bytes hold the lower bits of 128 weights: bytes have those 32 apart. Bit i of
            // the first 32 bytes is the third bit of the i-th 32 weights.
            let mut fours = fields_of(&block[32 + i / 4 * 32..], i % 4 * 2, 2);
            let upper = fields_of(block, i, 1);
            fours.iter_mut().zip(upper).for_each(|(four, upper)| *four |= upper << 2);
            put_pairs(part, lane, &fours, 0);
            put_bits(&mut part[PAIRS..], lane, &fours, 2);
            for half in 0..2 {
                let scale = six_bit_scale(&block[96..108], 2 * i + half);
                part[VALUES + half * GROUP + lane] = scale.wrapping_sub(32);
            }
        }
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::either(pairs::<V>(part, k, 0), bits::<V>(part.add(PAIRS), k, 2)) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        let whole = part * Self::PART + VALUES + half * GROUP;
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(ALL), tile.add(whole), true) }
    }
}

/// Returns the `i`-th of sixteen scales. Eight bytes hold the lower four bits of two scales each,
/// eight apart, and four bytes the upper two bits of four, four apart.
#[inline(always)]
fn six_bit_scale(packed: &[u8], i: usize) -> u8 {
    let low = packed[i % 8] >> (i / 8 * 4) & 15;
    low | (packed[8 + i % 4] >> (i / 4 * 2) & 3) << 4
}
