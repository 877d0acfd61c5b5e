//! `IQ4_NL`: 4 bits that stand for unevenly spaced weights, with a half-precision scale for each 32
//! inputs.

use super::{BLOCK, BlockFormat, HALVES, NIBBLES, nibbles, nibbles_of, put_half, put_nibbles};
use crate::model::running::kernels::simd16::Simd16;

/// A part: the values, the scales.
#[derive(Clone, Copy)]
pub(crate) struct Iq4Nl;

/// The weights that the values stand for, each plus 128.
pub(super) const TABLE: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// Bytes of the values of a part.
const VALUES: usize = NIBBLES;

impl BlockFormat for Iq4Nl {
    const BLOCK_WEIGHTS: usize = BLOCK;
    const BLOCK_BYTES: usize = 18;
    const PART: usize = VALUES + HALVES;
    const TILE: usize = Self::PART;
    const OFFSET: i32 = 128;

    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        put_nibbles(tile, lane, &nibbles_of(&block[2..]));
        put_half(&mut tile[VALUES..], lane, block);
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::lookup(nibbles::<V>(part, k), &TABLE) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, _: usize, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load_f16(tile.add(VALUES).cast()) }
    }
}
