//! `IQ4_XS`: 4 bits that stand for unevenly spaced weights, with a scale of six bits for each 32
//! inputs and one in half precision for each 256.

use super::iq4_nl::TABLE;
use super::{
    BlockFormat, GROUP, HALVES, K_BLOCK, NIBBLES, nibbles, nibbles_of, put_half, put_nibbles, two_levels,
};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the values, and the scales of six bits. A tile ends with the scales of all parts.
#[derive(Clone, Copy)]
pub(crate) struct Iq4Xs;

impl BlockFormat for Iq4Xs {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 136;
    const PART: usize = NIBBLES + GROUP;
    const TILE: usize = 8 * Self::PART + HALVES;
    const OFFSET: i32 = 128;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        let upper = u16::from_le_bytes([block[2], block[3]]);
        put_half(&mut tile[8 * Self::PART..], lane, block);
        for (i, part) in tile.chunks_exact_mut(Self::PART).take(8).enumerate() {
            put_nibbles(part, lane, &nibbles_of(&block[8 + 16 * i..]));
            let scale = block[4 + i / 2] >> (i % 2 * 4) & 15 | ((upper >> (2 * i) & 3) as u8) << 4;
            part[NIBBLES + lane] = scale.wrapping_sub(32);
        }
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::lookup(nibbles::<V>(part, k), &TABLE) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(8 * Self::PART), tile.add(part * Self::PART + NIBBLES), true) }
    }
}
