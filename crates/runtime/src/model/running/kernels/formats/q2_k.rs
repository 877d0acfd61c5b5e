//! `Q2_K`: 2 bits with a scale and a minimum of four bits for each 16 inputs, and one of each in half
//! precision for each 256.

use super::block_format::{BlockFormat, Fours, K_BLOCK, Planes, fields_of};

#[derive(Clone, Copy)]
pub(crate) struct Q2K;

impl BlockFormat for Q2K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 84;
    const PLANES: Planes = Planes::Pairs;
    const OFFSET: i32 = 0;
    const SCALED: usize = 16;
    const MINIMUMS: bool = true;
    const SCALE_AT: usize = 80;

    #[inline(always)]
    fn values(block: &[u8], part: usize) -> Fours {
        // Each 32 bytes hold 128 weights: bytes have those 32 apart.
        fields_of(&block[16 + part / 4 * 32..], part % 4 * 2, 2)
    }

    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        (block[i] & 15, block[i] >> 4)
    }
}
