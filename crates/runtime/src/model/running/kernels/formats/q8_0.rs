//! `Q8_0`: 8 bits with a half-precision scale for each 32 inputs.

use super::{BLOCK, BYTES, BlockFormat, Fours, GROUP, HALVES, put_bytes, put_half, word};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the values plus 128, and the scales.
#[derive(Clone, Copy)]
pub(crate) struct Q8_0;

impl BlockFormat for Q8_0 {
    const BLOCK_WEIGHTS: usize = BLOCK;
    const BLOCK_BYTES: usize = 34;
    const PART: usize = BYTES + HALVES;
    const TILE: usize = Self::PART;
    const OFFSET: i32 = 128;
    const IS_BYTES: bool = true;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        let fours: Fours = std::array::from_fn(|k| word(block, 2 + 4 * k) ^ 0x8080_8080);
        put_bytes(tile, lane, &fours);
        put_half(&mut tile[BYTES..], lane, block);
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::bytes(part.add(k * 4 * GROUP)) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, _: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load_f16(tile.add(BYTES).cast()) }
    }
}
