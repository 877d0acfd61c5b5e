//! Block formats of quantised weights: one file per format, behind one trait.
//!
//! A format in a file is a sequence of blocks along the inputs of an output. In memory the blocks of
//! sixteen outputs become a tile: its parts of 32 inputs follow each other, and in a part the
//! weights of the outputs are interleaved by fours, so that an instruction multiplies four inputs of
//! sixteen outputs. Quantised values and scales keep their bits, so a tile takes about the memory of
//! its blocks. Products unpack the weights in registers.
//!
//! Each weight is `(value - OFFSET) * scale - minimum`, with a scale and a minimum for each 32 or 16
//! inputs of an output.
//!
//! # Cost
//!
//! Unpacking takes few instructions for the 512 weights of a part, whatever the number of rows.
//!
//! # Alternatives considered
//!
//! - Products on the blocks as they are in the file were rejected: an instruction would work on one
//!   output, and its sums would have to be added across lanes.
//! - Scales widened to single precision were rejected: a product for few rows takes the time to read
//!   its matrix, and they are up to a third of it.
//! - Weights widened to 8 bits were rejected for the same reason.

pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;

use super::quantize::BLOCK;
use super::simd16::{LANES16, Simd16};

/// Hands all formats to a macro: for each its type, its number and its name in GGUF files, and its
/// type in candle, if it has one. A new format is a module and a line here.
macro_rules! formats {
    ($to:ident) => {
        $to! {
            q4_0::Q4_0 = 2, "Q4_0", Some(GgmlDType::Q4_0);
            q4_1::Q4_1 = 3, "Q4_1", Some(GgmlDType::Q4_1);
            q5_0::Q5_0 = 6, "Q5_0", Some(GgmlDType::Q5_0);
            q5_1::Q5_1 = 7, "Q5_1", Some(GgmlDType::Q5_1);
            q8_0::Q8_0 = 8, "Q8_0", Some(GgmlDType::Q8_0);
            q2_k::Q2K = 10, "Q2_K", Some(GgmlDType::Q2K);
            q3_k::Q3K = 11, "Q3_K", Some(GgmlDType::Q3K);
            q4_k::Q4K = 12, "Q4_K", Some(GgmlDType::Q4K);
            q5_k::Q5K = 13, "Q5_K", Some(GgmlDType::Q5K);
            q6_k::Q6K = 14, "Q6_K", Some(GgmlDType::Q6K);
            iq4_nl::Iq4Nl = 20, "IQ4_NL", None;
            iq4_xs::Iq4Xs = 23, "IQ4_XS", None;
        }
    };
}
pub(crate) use formats;

/// Number of outputs of a tile, one for each lane.
pub(crate) const GROUP: usize = LANES16;
/// Number of weights of a block of the formats with two levels of scales.
const K_BLOCK: usize = 256;

/// Bytes of the lower four bits of a part's weights. Each line of 64 bytes holds four inputs in its
/// lower halves and four others, 16 inputs later, in its upper halves.
const NIBBLES: usize = BLOCK * GROUP / 2;
/// Bytes of one bit of a part's weights: bit k of each byte belongs to the k-th four inputs.
const BITS: usize = BLOCK * GROUP / 8;
/// Bytes of two bits of a part's weights: a line for each half of the inputs.
const PAIRS: usize = BLOCK * GROUP / 4;
/// Bytes of a part's weights of eight bits: a line for each four inputs.
const BYTES: usize = BLOCK * GROUP;
/// Bytes of a half-precision number for each output.
const HALVES: usize = 2 * GROUP;

/// A format of quantised weights.
pub(crate) trait BlockFormat: Copy + Send + Sync + 'static {
    /// Weights of a block in a file.
    const BLOCK_WEIGHTS: usize;
    /// Bytes of a block in a file.
    const BLOCK_BYTES: usize;
    /// Bytes of a part of a tile: 32 inputs of sixteen outputs.
    const PART: usize;
    /// Bytes of a tile: its parts, and what they share.
    const TILE: usize;
    /// Number of inputs with the same scale: 32 or 16.
    const SCALED: usize = BLOCK;
    /// Subtracted from each value: 0 or a power of two up to 128.
    const OFFSET: i32;
    /// True if weights are bytes, which need no unpacking.
    const IS_BYTES: bool = false;
    /// True if there are minimums.
    const MINIMUMS: bool = false;

    /// Number of parts of a tile.
    const PARTS: usize = Self::BLOCK_WEIGHTS / BLOCK;

    /// Writes a block of output `lane` to a tile, whose bits for this output are zero.
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]);

    /// Returns the values of the `k`-th four inputs of a part.
    ///
    /// # Safety
    /// The part exists, `k` is below 8; and as for all of [`Simd16`].
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes;

    /// Returns the scales of the outputs for the `half`-th [`SCALED`](Self::SCALED) inputs of part
    /// `part` of a tile.
    ///
    /// # Safety
    /// The part and the half exist; and as for all of [`Simd16`].
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V;

    /// Returns the minimums, if the format has them.
    ///
    /// # Safety
    /// As for [`scale`](Self::scale).
    #[inline(always)]
    unsafe fn minimum<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        let _ = (tile, part, half);
        // SAFETY: by the caller's promise.
        unsafe { V::splat(0.0) }
    }
}

/// The values of the eight fours of a part, for one output: byte i of number k is input 4k + i.
type Fours = [u32; 8];

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put_word(to: &mut [u8], at: usize, word: u32) {
    to[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// Returns the values of 16 bytes that hold input i in the lower and input i + 16 in the upper half
/// of byte i.
#[inline(always)]
fn nibbles_of(bytes: &[u8]) -> Fours {
    std::array::from_fn(|k| word(bytes, k % 4 * 4) >> (k / 4 * 4) & 0x0f0f_0f0f)
}

/// Returns the `bits` bits from `shift` on of each of 32 bytes.
#[inline(always)]
fn fields_of(bytes: &[u8], shift: usize, bits: u32) -> Fours {
    let mask = 0x0101_0101 * ((1 << bits) - 1);
    std::array::from_fn(|k| word(bytes, 4 * k) >> shift & mask)
}

/// Returns four bits as the lowest bits of four bytes.
#[inline(always)]
fn spread(bits: u32) -> u32 {
    (bits & 15).wrapping_mul(0x0020_4081) & 0x0101_0101
}

/// Writes the lower four bits of each value.
#[inline(always)]
fn put_nibbles(to: &mut [u8], lane: usize, fours: &Fours) {
    for line in 0..4 {
        let (a, b) = (fours[line] & 0x0f0f_0f0f, fours[line + 4] & 0x0f0f_0f0f);
        put_word(to, line * 64 + lane * 4, a | b << 4);
    }
}

/// Writes bit `bit` of each value.
#[inline(always)]
fn put_bits(to: &mut [u8], lane: usize, fours: &Fours, bit: usize) {
    let all = fours.iter().enumerate().fold(0, |all, (k, four)| all | (four >> bit & 0x0101_0101) << k);
    put_word(to, lane * 4, all);
}

/// Writes bits `bit` and `bit + 1` of each value.
#[inline(always)]
fn put_pairs(to: &mut [u8], lane: usize, fours: &Fours, bit: usize) {
    for (half, fours) in fours.chunks_exact(4).enumerate() {
        let pairs = fours.iter().enumerate();
        let all = pairs.fold(0, |all, (k, four)| all | (four >> bit & 0x0303_0303) << (2 * k));
        put_word(to, half * 64 + lane * 4, all);
    }
}

/// Writes values of eight bits.
#[inline(always)]
fn put_bytes(to: &mut [u8], lane: usize, fours: &Fours) {
    for (k, four) in fours.iter().enumerate() {
        put_word(to, k * 64 + lane * 4, *four);
    }
}

/// Copies a half-precision number of output `lane`.
#[inline(always)]
fn put_half(to: &mut [u8], lane: usize, from: &[u8]) {
    to[2 * lane..2 * lane + 2].copy_from_slice(&from[..2]);
}

/// Returns scale and minimum of the `i`-th 32 weights of a block of `Q4_K` or `Q5_K`. The first four
/// of each are in the low six bits of eight bytes. The others are in four more bytes and the upper
/// two bits of the eight.
#[inline(always)]
fn six_bits(packed: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    }
}

/// # Safety
/// The lines exist, `k` is below 8; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn nibbles<V: Simd16>(lines: *const u8, k: usize) -> V::Bytes {
    // SAFETY: by the caller's promise.
    unsafe { V::field(V::bytes(lines.add(k % 4 * 64)), k / 4 * 4, 4, 0) }
}

/// Returns one bit of each value, as bit `to`.
///
/// # Safety
/// The line exists, `k` is below 8; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn bits<V: Simd16>(line: *const u8, k: usize, to: usize) -> V::Bytes {
    // SAFETY: by the caller's promise.
    unsafe { V::field(V::bytes(line), k, 1, to) }
}

/// Returns two bits of each value, from bit `to` on.
///
/// # Safety
/// The lines exist, `k` is below 8; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn pairs<V: Simd16>(lines: *const u8, k: usize, to: usize) -> V::Bytes {
    // SAFETY: by the caller's promise.
    unsafe { V::field(V::bytes(lines.add(k / 4 * 64)), k % 4 * 2, 2, to) }
}

/// Returns the products of a half-precision number and a whole number of each output, as the
/// formats with two levels of scales define them.
///
/// # Safety
/// Sixteen numbers of each exist; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn two_levels<V: Simd16>(halves: *const u8, whole: *const u8, signed: bool) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        let whole = if signed { V::load_i8(whole.cast()) } else { V::load_u8(whole) };
        V::load_f16(halves.cast()).mul(whole)
    }
}
