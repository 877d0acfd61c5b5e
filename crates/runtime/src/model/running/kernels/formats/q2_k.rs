//! `Q2_K`: 2 bits with a scale and a minimum of four bits for each 16 inputs, and one of each in half
//! precision for each 256.

use super::{BlockFormat, GROUP, HALVES, K_BLOCK, PAIRS, fields_of, pairs, put_half, put_pairs, two_levels};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the values, the scales of both halves, and their minimums. A tile ends with the scales
/// and the minimums of all parts.
#[derive(Clone, Copy)]
pub(crate) struct Q2K;

/// Bytes of the parts of a tile.
const ALL: usize = 8 * Q2K::PART;

impl BlockFormat for Q2K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 84;
    const PART: usize = PAIRS + 4 * GROUP;
    const TILE: usize = ALL + 2 * HALVES;
    const SCALED: usize = 16;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        put_half(&mut tile[ALL..], lane, &block[80..]);
        put_half(&mut tile[ALL + HALVES..], lane, &block[82..]);
        for (i, part) in tile.chunks_exact_mut(Self::PART).take(8).enumerate() {
            // Each 32 bytes hold 128 weights: bytes have those 32 apart.
            put_pairs(part, lane, &fields_of(&block[16 + i / 4 * 32..], i % 4 * 2, 2), 0);
            for half in 0..2 {
                let both = block[2 * i + half];
                part[PAIRS + half * GROUP + lane] = both & 15;
                part[PAIRS + (2 + half) * GROUP + lane] = both >> 4;
            }
        }
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { pairs::<V>(part, k, 0) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        let whole = part * Self::PART + PAIRS + half * GROUP;
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(ALL), tile.add(whole), false) }
    }

    #[inline(always)]
    unsafe fn minimum<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        let whole = part * Self::PART + PAIRS + (2 + half) * GROUP;
        // SAFETY: by the caller's promise.
        unsafe { two_levels(tile.add(ALL + HALVES), tile.add(whole), false) }
    }
}
