//! `IQ4_XS`: 4 bits that stand for unevenly spaced weights, with a scale of six bits for each 32
//! inputs and one in half precision for each 256.

use super::block_format::{BlockFormat, Fours, K_BLOCK, Planes, nibbles_of};
use super::iq4_nl::TABLE;

#[derive(Clone, Copy)]
pub(crate) struct Iq4Xs;

impl BlockFormat for Iq4Xs {
    const BLOCK_WEIGHTS: usize = K_BLOCK;
    const BLOCK_BYTES: usize = 136;
    const PLANES: Planes = Planes::Nibbles;
    const OFFSET: i32 = 128;
    const SIGNED: bool = true;
    const TABLE: Option<&'static [u8; 16]> = Some(&TABLE);

    #[inline(always)]
    fn values(block: &[u8], part: usize) -> Fours {
        nibbles_of(&block[8 + 16 * part..])
    }

    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        let upper = u16::from_le_bytes([block[2], block[3]]) >> (2 * i) & 3;
        let scale = block[4 + i / 2] >> (i % 2 * 4) & 15 | (upper as u8) << 4;
        (scale.wrapping_sub(32), 0)
    }
}
