//! `Q4_K`: 4 bits with a scale and a minimum of six bits for each 32 inputs, and one of each in half
//! precision for each 256.

use super::block_format::{BlockFormat, Fours, K_BLOCK, Planes, fields_of, six_bits};

#[derive(Clone, Copy)]
pub(crate) struct Q4K;

impl BlockFormat for Q4K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 144;
    const PLANES: Planes = Planes::Nibbles;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn values(block: &[u8], part: usize) -> Fours {
        // Each 32 bytes hold 32 weights in their lower halves and the next 32 in the upper ones.
        fields_of(&block[16 + part / 2 * 32..], part % 2 * 4, 4)
    }

    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        six_bits(&block[4..16], i)
    }
}
