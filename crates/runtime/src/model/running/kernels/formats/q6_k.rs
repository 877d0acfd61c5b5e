//! `Q6_K`: 6 bits with a scale of eight bits for each 16 inputs and one in half precision for each
//! 256.

use super::block_format::{BlockFormat, Fours, K_BLOCK, Planes, fields_of, with_upper};

#[derive(Clone, Copy)]
pub(crate) struct Q6K;

impl BlockFormat for Q6K {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 210;
    const PLANES: Planes = Planes::NibblesAndPairs;
    const OFFSET: i32 = 32;
    const SCALED: usize = 16;
    const SCALE_AT: usize = 208;
    const SIGNED: bool = true;

    #[inline(always)]
    fn values(block: &[u8], part: usize) -> Fours {
        // Each 128 weights have 64 bytes of lower bits: of weights 0 to 31 and 64 to 95, then of
        // 32 to 63 and 96 to 127. Their upper bits are in 32 bytes, each with the bits of weights
        // 32 apart.
        let (run, quarter) = (part / 4, part % 4);
        let lower = fields_of(&block[run * 64 + quarter % 2 * 32..], quarter / 2 * 4, 4);
        with_upper(lower, fields_of(&block[128 + run * 32..], 2 * quarter, 2), 4)
    }

    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        (block[192 + i], 0)
    }
}
