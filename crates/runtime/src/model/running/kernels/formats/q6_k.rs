//! `Q6_K`: 6 bits with a scale of eight bits for each 16 inputs and one in half precision for each
//! 256.

use super::{
    BlockFormat, GROUP, HALVES, K_BLOCK, NIBBLES, PAIRS, fields_of, nibbles, pairs, put_half, put_nibbles,
    put_pairs, two_levels,
};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the lower four bits, the upper two, and the scales of both halves. A tile ends with the
/// scales of all parts.
#[derive(Clone, Copy)]
pub(crate) struct Q6K;

/// Bytes of the values of a part.
const VALUES: usize = NIBBLES + PAIRS;
/// Bytes of the parts of a tile.
const ALL: usize = 8 * Q6K::PART;

impl BlockFormat for Q6K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 210;
    const PART: usize = VALUES + 2 * GROUP;
    const TILE: usize = ALL + HALVES;
    const SCALED: usize = 16;
    const OFFSET: i32 = 32;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        put_half(&mut tile[ALL..], lane, &block[208..]);
        for (i, part) in tile.chunks_exact_mut(Self::PART).take(8).enumerate() {
            // Each 128 weights have 64 bytes of lower bits: of weights 0 to 31 and 64 to 95, then of
            // 32 to 63 and 96 to 127. Their upper bits are in 32 bytes, each with the bits of weights
            // 32 apart.
            let (run, quarter) = (i / 4, i % 4);
            let mut fours = fields_of(&block[run * 64 + quarter % 2 * 32..], quarter / 2 * 4, 4);
            let upper = fields_of(&block[128 + run * 32..], 2 * quarter, 2);
            fours.iter_mut().zip(upper).for_each(|(four, upper)| *four |= upper << 4);
            put_nibbles(part, lane, &fours);
            put_pairs(&mut part[NIBBLES..], lane, &fours, 4);
            for half in 0..2 {
                part[VALUES + half * GROUP + lane] = block[192 + 2 * i + half];
            }
        }
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::either(nibbles::<V>(part, k), pairs::<V>(part.add(NIBBLES), k, 4)) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        let whole = part * Self::PART + VALUES + half * GROUP;
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(ALL), tile.add(whole), true) }
    }
}
