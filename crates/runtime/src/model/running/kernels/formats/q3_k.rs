//! `Q3_K`: 3 bits with a scale of six bits for each 16 inputs and one in half precision for each 256.

use super::block_format::{BlockFormat, Fours, K_BLOCK, Planes, fields_of, with_upper};

#[derive(Clone, Copy)]
pub(crate) struct Q3K;

impl BlockFormat for Q3K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 110;
    const PLANES: Planes = Planes::PairsAndBits;
    const OFFSET: i32 = 4;
    const SCALED: usize = 16;
    const SCALE_AT: usize = 108;
    const SIGNED: bool = true;

    #[inline(always)]
    fn values(block: &[u8], part: usize) -> Fours {
        with_upper(fields_of(&block[32 + part / 4 * 32..], part % 4 * 2, 2), fields_of(block, part, 1), 2)
    }

    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        // Eight bytes hold the lower four bits of two scales each, eight apart, and four bytes the
        // upper two bits of four, four apart.
        let packed = &block[96..108];
        let low = packed[i % 8] >> (i / 8 * 4) & 15;
        ((low | (packed[8 + i % 4] >> (i / 4 * 2) & 3) << 4).wrapping_sub(32), 0)
    }
}
