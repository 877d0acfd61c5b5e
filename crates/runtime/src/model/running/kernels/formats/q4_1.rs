//! `Q4_1`: 4 bits with a half-precision scale and minimum for each 32 inputs.

use super::{BLOCK, BlockFormat, HALVES, NIBBLES, nibbles, nibbles_of, put_half, put_nibbles};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the values, the scales, and the minimums.
#[derive(Clone, Copy)]
pub(crate) struct Q4_1;

/// Bytes of the values of a part.
const VALUES: usize = NIBBLES;

impl BlockFormat for Q4_1 {
    const BLOCK_WEIGHTS: usize = BLOCK;
    const BLOCK_BYTES: usize = 20;
    const PART: usize = VALUES + 2 * HALVES;
    const TILE: usize = Self::PART;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        put_nibbles(tile, lane, &nibbles_of(&block[4..]));
        put_half(&mut tile[VALUES..], lane, block);
        // The file has the negative minimums.
        put_half(&mut tile[VALUES + HALVES..], lane, &[block[2], block[3] ^ 0x80]);
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { nibbles::<V>(part, k) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, _: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load_f16(tile.add(VALUES).cast()) }
    }

    #[inline(always)]
    unsafe fn minimum<V: Simd16>(tile: *const u8, _: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load_f16(tile.add(VALUES + HALVES).cast()) }
    }
}
