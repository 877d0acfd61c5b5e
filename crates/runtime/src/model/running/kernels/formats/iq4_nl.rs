//! `IQ4_NL`: 4 bits that stand for unevenly spaced weights, with a half-precision scale for each 32
//! inputs.

use super::block_format::{BlockFormat, Fours, Planes, nibbles_of};

#[derive(Clone, Copy)]
pub(crate) struct Iq4Nl;

/// The weights that the values stand for, each plus 128.
pub(super) const TABLE: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

impl BlockFormat for Iq4Nl {
    const BLOCK_BYTES: usize = 18;
    const PLANES: Planes = Planes::Nibbles;
    const OFFSET: i32 = 128;
    const TABLE: Option<&'static [u8; 16]> = Some(&TABLE);

    #[inline(always)]
    fn values(block: &[u8], _: usize) -> Fours {
        nibbles_of(&block[2..])
    }
}
