//! `Q4_1`: 4 bits with a half-precision scale and minimum for each 32 inputs.

use super::block_format::{BlockFormat, Fours, Planes, nibbles_of};

#[derive(Clone, Copy)]
pub(crate) struct Q4_1;

impl BlockFormat for Q4_1 {
    const BLOCK_BYTES: usize = 20;
    const PLANES: Planes = Planes::Nibbles;
    const OFFSET: i32 = 0;
    const MINIMUMS: bool = true;

    #[inline(always)]
    fn values(block: &[u8], _: usize) -> Fours {
        nibbles_of(&block[4..])
    }
}
