//! `Q8_0`: 8 bits with a half-precision scale for each 32 inputs.

use super::block_format::{BlockFormat, Fours, Planes, word};

#[derive(Clone, Copy)]
pub(crate) struct Q8_0;

impl BlockFormat for Q8_0 {
    const BLOCK_BYTES: usize = 34;
    const PLANES: Planes = Planes::Bytes;
    const OFFSET: i32 = 128;

    #[inline(always)]
    fn values(block: &[u8], _: usize) -> Fours {
        // The weights plus 128.
        std::array::from_fn(|k| word(block, 2 + 4 * k) ^ 0x8080_8080)
    }
}
