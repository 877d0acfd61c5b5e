//! `Q4_0`: 4 bits with a half-precision scale for each 32 inputs.

use super::block_format::{BlockFormat, Fours, Planes, nibbles_of};

#[derive(Clone, Copy)]
pub(crate) struct Q4_0;

impl BlockFormat for Q4_0 {
    const BLOCK_BYTES: usize = 18;
    const PLANES: Planes = Planes::Nibbles;
    const OFFSET: i32 = 8;

    #[inline(always)]
    fn values(block: &[u8], _: usize) -> Fours {
        nibbles_of(&block[2..])
    }
}
