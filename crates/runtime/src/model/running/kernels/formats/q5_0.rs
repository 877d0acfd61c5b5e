//! `Q5_0`: 5 bits with a half-precision scale for each 32 inputs.

use super::block_format::{BlockFormat, Fours, Planes, bits_of, nibbles_of, with_upper, word};

#[derive(Clone, Copy)]
pub(crate) struct Q5_0;

impl BlockFormat for Q5_0 {
    const BLOCK_BYTES: usize = 22;
    const PLANES: Planes = Planes::NibblesAndBits;
    const OFFSET: i32 = 16;

    #[inline(always)]
    fn values(block: &[u8], _: usize) -> Fours {
        with_upper(nibbles_of(&block[6..]), bits_of(word(block, 2)), 4)
    }
}
