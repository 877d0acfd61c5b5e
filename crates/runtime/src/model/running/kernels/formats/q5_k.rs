//! `Q5_K`: 5 bits with a scale and a minimum of six bits for each 32 inputs, and one of each in half
//! precision for each 256.

use super::{
    BITS, BlockFormat, GROUP, HALVES, K_BLOCK, NIBBLES, bits, fields_of, nibbles, put_bits, put_half,
    put_nibbles, six_bits, two_levels,
};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the lower four bits, the fifth bits, and the scales and minimums of six bits. A tile ends with the
/// scales and the minimums of all parts.
#[derive(Clone, Copy)]
pub(crate) struct Q5K;

/// Bytes of the values of a part.
const VALUES: usize = NIBBLES + BITS;
/// Bytes of the parts of a tile.
const ALL: usize = 8 * Q5K::PART;

impl BlockFormat for Q5K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 176;
    const PART: usize = VALUES + 2 * GROUP;
    const TILE: usize = ALL + 2 * HALVES;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        put_half(&mut tile[ALL..], lane, block);
        put_half(&mut tile[ALL + HALVES..], lane, &block[2..]);
        for (i, part) in tile.chunks_exact_mut(Self::PART).take(8).enumerate() {
            // Each 32 bytes hold 32 weights in their lower halves and the next 32 in the upper ones.
            let mut fours = fields_of(&block[48 + i / 2 * 32..], i % 2 * 4, 4);
            let upper = fields_of(&block[16..], i, 1);
            fours.iter_mut().zip(upper).for_each(|(four, upper)| *four |= upper << 4);
            put_nibbles(part, lane, &fours);
            put_bits(&mut part[NIBBLES..], lane, &fours, 4);
            (part[VALUES + lane], part[VALUES + GROUP + lane]) = six_bits(&block[4..16], i);
        }
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::either(nibbles::<V>(part, k), bits::<V>(part.add(NIBBLES), k, 4)) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(ALL), tile.add(part * Self::PART + VALUES), false) }
    }

    #[inline(always)]
    unsafe fn minimum<V: Simd16>(tile: *const u8, part: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(ALL + HALVES), tile.add(part * Self::PART + VALUES + GROUP), false) }
    }
}
