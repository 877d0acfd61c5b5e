//! `Q5_K`: 5 bits with a scale and a minimum of six bits for each 32 inputs, and one of each in half
//! precision for each 256.

use super::block_format::{BlockFormat, Fours, K_BLOCK, Planes, fields_of, six_bits, with_upper};

#[derive(Clone, Copy)]
pub(crate) struct Q5K;

impl BlockFormat for Q5K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 176;
    const PLANES: Planes = Planes::NibblesAndBits;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn values(block: &[u8], part: usize) -> Fours {
        // Each 32 bytes hold 32 weights in their lower halves and the next 32 in the upper ones.
        let lower = fields_of(&block[48 + part / 2 * 32..], part % 2 * 4, 4);
        with_upper(lower, fields_of(&block[16..], part, 1), 4)
    }

    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        six_bits(&block[4..16], i)
    }
}
