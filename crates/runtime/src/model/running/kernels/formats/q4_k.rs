//! `Q4_K`: 4 bits with a scale and a minimum of six bits for each 32 inputs, and one of each in half
//! precision for each 256.

use super::{
    BlockFormat, GROUP, HALVES, K_BLOCK, NIBBLES, fields_of, nibbles, put_half, put_nibbles, six_bits,
    two_levels,
};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the values, and the scales and minimums of six bits. A tile ends with the
/// scales and the minimums of all parts.
#[derive(Clone, Copy)]
pub(crate) struct Q4K;

/// Bytes of the values of a part.
const VALUES: usize = NIBBLES;
/// Bytes of the parts of a tile.
const ALL: usize = 8 * Q4K::PART;

impl BlockFormat for Q4K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 144;
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
            put_nibbles(part, lane, &fields_of(&block[16 + i / 2 * 32..], i % 2 * 4, 4));
            (part[VALUES + lane], part[VALUES + GROUP + lane]) = six_bits(&block[4..16], i);
        }
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { nibbles::<V>(part, k) }
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
