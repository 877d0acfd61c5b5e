//! `Q5_0`: 5 bits with a half-precision scale for each 32 inputs.

use super::{
    BITS, BLOCK, BlockFormat, HALVES, NIBBLES, bits, nibbles, nibbles_of, put_bits, put_half, put_nibbles,
    spread, word,
};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the lower four bits, the fifth bits, the scales.
#[derive(Clone, Copy)]
pub(crate) struct Q5_0;

/// Bytes of the values of a part.
const VALUES: usize = NIBBLES + BITS;

impl BlockFormat for Q5_0 {
    const BLOCK_WEIGHTS: usize = BLOCK;
    const BLOCK_BYTES: usize = 22;
    const PART: usize = VALUES + HALVES;
    const TILE: usize = Self::PART;
    const OFFSET: i32 = 16;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        let upper = word(block, 2);
        let mut fours = nibbles_of(&block[6..]);
        fours.iter_mut().enumerate().for_each(|(k, four)| *four |= spread(upper >> (4 * k)) << 4);
        put_nibbles(tile, lane, &fours);
        put_bits(&mut tile[NIBBLES..], lane, &fours, 4);
        put_half(&mut tile[VALUES..], lane, block);
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::either(nibbles::<V>(part, k), bits::<V>(part.add(NIBBLES), k, 4)) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, _: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load_f16(tile.add(VALUES).cast()) }
    }
}
