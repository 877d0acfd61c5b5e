//! Unpacked weights: any format, as products of several rows read them.
//!
//! Weights are unpacked once for all rows of a product. The kinds of products, which
//! differ in their numbers of rows, are compiled for this format and for `Q8_0` only.

use super::{BYTES, BlockFormat, GROUP};
use crate::model::kernels::quantize::BLOCK;
use crate::model::kernels::simd16::Simd16;

/// Bytes of a single-precision number for each output.
const FLOATS: usize = 4 * GROUP;

/// A part: values of eight bits, the scales of each SCALED inputs, and their minimums. It exists in
/// memory only.
#[derive(Clone, Copy)]
pub(crate) struct Unpacked<const SCALED: usize>;

impl<const SCALED: usize> BlockFormat for Unpacked<SCALED> {
    const BLOCK_WEIGHTS: usize = BLOCK;
    const BLOCK_BYTES: usize = 0;
    const PART: usize = BYTES + 2 * (BLOCK / SCALED) * FLOATS;
    const TILE: usize = Self::PART;
    const SCALED: usize = SCALED;
    const OFFSET: i32 = 128;
    const IS_STORED: bool = false;
    const MINIMUMS: bool = true;

    fn pack(_: &[u8], _: usize, _: &mut [u8]) {
        unreachable!("no file has this format");
    }

    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe { V::bytes(part.add(k * 4 * GROUP)) }
    }

    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, _: usize, half: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load(tile.add(BYTES + half * FLOATS).cast()) }
    }

    #[inline(always)]
    unsafe fn minimum<V: Simd16>(tile: *const u8, _: usize, half: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load(tile.add(BYTES + (BLOCK / SCALED + half) * FLOATS).cast()) }
    }
}

/// Unpacks part `part` of a tile to `to`, a part of [`Unpacked`] with the same number of scales.
///
/// # Safety
/// The tile and the part exist, and `to` has room for a part; and as for all of [`Simd16`].
#[inline(always)]
pub(in super::super) unsafe fn unpack_part<V: Simd16, F: BlockFormat>(
    tile: *const u8,
    part: usize,
    to: *mut u8,
) {
    let halves = BLOCK / F::SCALED;
    // SAFETY: by the caller's promise.
    unsafe {
        for step in 0..8 {
            // Fours 16 inputs apart share bytes, so they follow each other.
            let k = step / 2 + step % 2 * 4;
            let values = F::four::<V>(tile.add(part * F::PART), k);
            V::add_bytes(values, (128 - F::OFFSET) as u8, to.add(k * 4 * GROUP));
        }
        for half in 0..halves {
            F::scale::<V>(tile, part, half).store(to.add(BYTES + half * FLOATS).cast());
            if F::MINIMUMS {
                let minimum = F::minimum::<V>(tile, part, half);
                minimum.store(to.add(BYTES + (halves + half) * FLOATS).cast());
            }
        }
    }
}
