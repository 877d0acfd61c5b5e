//! `Q5_1`: 5 bits with a half-precision scale and minimum for each 32 inputs.

use super::block_format::{BlockFormat, Fours, Planes, bits_of, nibbles_of, with_upper, word};

#[derive(Clone, Copy)]
pub(crate) struct Q5_1;

impl BlockFormat for Q5_1 {
    const BLOCK_BYTES: usize = 24;
    const PLANES: Planes = Planes::NibblesAndBits;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn values(block: &[u8], _: usize) -> Fours {
        with_upper(nibbles_of(&block[8..]), bits_of(word(block, 4)), 4)
    }
}
