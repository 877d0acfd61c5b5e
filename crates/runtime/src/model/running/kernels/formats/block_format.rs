//! What a format of quantised weights says about itself, and the tiles that follow from it.

use crate::model::running::kernels::quantize::BLOCK;
use crate::model::running::kernels::simd16::{LANES16, Simd16};

/// Number of outputs of a tile, one for each lane.
pub(crate) const GROUP: usize = LANES16;
/// Number of weights of a block of the formats with two levels of scales.
pub(super) const K_BLOCK: usize = 256;

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

/// How the bits of a part's values lie in a tile: the lower bits of all values, then the upper ones.
#[derive(Clone, Copy)]
pub(crate) enum Planes {
    /// Two bits.
    Pairs,
    /// Two bits, and the third.
    PairsAndBits,
    /// Four bits.
    Nibbles,
    /// Four bits, and the fifth.
    NibblesAndBits,
    /// Four bits, and two more.
    NibblesAndPairs,
    /// Eight bits, which need no unpacking.
    Bytes,
}

impl Planes {
    const fn bytes(self) -> usize {
        match self {
            Planes::Pairs => PAIRS,
            Planes::PairsAndBits => PAIRS + BITS,
            Planes::Nibbles => NIBBLES,
            Planes::NibblesAndBits => NIBBLES + BITS,
            Planes::NibblesAndPairs => NIBBLES + PAIRS,
            Planes::Bytes => BYTES,
        }
    }

    /// Writes the values of output `lane` to a part.
    #[inline(always)]
    fn put(self, part: &mut [u8], lane: usize, fours: &Fours) {
        match self {
            Planes::Pairs | Planes::PairsAndBits => put_pairs(part, lane, fours, 0),
            Planes::Bytes => put_bytes(part, lane, fours),
            _ => put_nibbles(part, lane, fours),
        }
        match self {
            Planes::PairsAndBits => put_bits(&mut part[PAIRS..], lane, fours, 2),
            Planes::NibblesAndBits => put_bits(&mut part[NIBBLES..], lane, fours, 4),
            Planes::NibblesAndPairs => put_pairs(&mut part[NIBBLES..], lane, fours, 4),
            Planes::Pairs | Planes::Nibbles | Planes::Bytes => {}
        }
    }

    /// Returns the values of the `k`-th four inputs of a part.
    ///
    /// # Safety
    /// The part exists, `k` is below 8; and as for all of [`Simd16`].
    #[inline(always)]
    unsafe fn four<V: Simd16>(self, part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Planes::Pairs => pairs::<V>(part, k, 0),
                Planes::PairsAndBits => V::either(pairs::<V>(part, k, 0), bits::<V>(part.add(PAIRS), k, 2)),
                Planes::Nibbles => nibbles::<V>(part, k),
                Planes::NibblesAndBits => {
                    V::either(nibbles::<V>(part, k), bits::<V>(part.add(NIBBLES), k, 4))
                }
                Planes::NibblesAndPairs => {
                    V::either(nibbles::<V>(part, k), pairs::<V>(part.add(NIBBLES), k, 4))
                }
                Planes::Bytes => V::bytes(part.add(k * 4 * GROUP)),
            }
        }
    }
}

/// A format of quantised weights: its blocks in a file. The tiles in memory follow.
///
/// A part of a tile has the planes of its values. Blocks of 256 weights have two levels of scales: a
/// part then has the whole scales and minimums of its outputs, and the tile ends with those in half
/// precision. In other formats a tile is one part, which ends with these.
pub(crate) trait BlockFormat: Copy + Send + Sync + 'static {
    /// Weights of a block in a file.
    const BLOCK_WEIGHTS: usize = BLOCK;
    /// Bytes of a block in a file.
    const BLOCK_BYTES: usize;
    /// Where the bits of values lie in a tile.
    const PLANES: Planes;
    /// Subtracted from each value: 0 or a power of two up to 128.
    const OFFSET: i32;
    /// Number of inputs with the same scale: 32 or 16.
    const SCALED: usize = BLOCK;
    /// True if there are minimums.
    const MINIMUMS: bool = false;
    /// Place of the scale in half precision in a block. The minimum follows it.
    const SCALE_AT: usize = 0;
    /// True if whole scales are signed.
    const SIGNED: bool = false;
    /// What the values stand for, if not for themselves.
    const TABLE: Option<&'static [u8; 16]> = None;

    /// Returns the values of a part of a block.
    fn values(block: &[u8], part: usize) -> Fours;

    /// Returns the whole scale and minimum of the `i`-th [`SCALED`](Self::SCALED) weights of a block with
    /// two levels.
    #[inline(always)]
    fn whole_scales(block: &[u8], i: usize) -> (u8, u8) {
        let _ = (block, i);
        (0, 0)
    }

    /// Number of parts of a tile.
    const PARTS: usize = Self::BLOCK_WEIGHTS / BLOCK;
    /// True if weights are bytes, which need no unpacking.
    const IS_BYTES: bool = matches!(Self::PLANES, Planes::Bytes);
    /// Numbers of each output and scale: 2 with minimums.
    const NUMBERS: usize = if Self::MINIMUMS { 2 } else { 1 };
    /// Bytes of a part of a tile: 32 inputs of sixteen outputs.
    const PART: usize = Self::PLANES.bytes()
        + match Self::PARTS {
            1 => Self::NUMBERS * HALVES,
            _ => Self::NUMBERS * BLOCK / Self::SCALED * GROUP,
        };
    /// Place of the numbers in half precision in a tile.
    const SHARED: usize = if Self::PARTS == 1 { Self::PLANES.bytes() } else { Self::PARTS * Self::PART };
    /// Bytes of a tile: its parts, and what they share.
    const TILE: usize = Self::SHARED + Self::NUMBERS * HALVES;

    /// Writes a block of output `lane` to a tile, whose bits for this output are zero.
    #[inline(always)]
    fn pack(block: &[u8], lane: usize, tile: &mut [u8]) {
        let halves = &block[Self::SCALE_AT..];
        put_half(&mut tile[Self::SHARED..], lane, halves);
        if Self::MINIMUMS {
            // With one level the number in the file is added, not subtracted.
            let sign = if Self::PARTS == 1 { 0x80 } else { 0 };
            put_half(&mut tile[Self::SHARED + HALVES..], lane, &[halves[2], halves[3] ^ sign]);
        }
        for (i, part) in tile.chunks_exact_mut(Self::PART).take(Self::PARTS).enumerate() {
            Self::PLANES.put(part, lane, &Self::values(block, i));
            let count = if Self::PARTS == 1 { 0 } else { BLOCK / Self::SCALED };
            for half in 0..count {
                let (scale, minimum) = Self::whole_scales(block, i * count + half);
                let at = Self::PLANES.bytes() + half * GROUP + lane;
                part[at] = scale;
                if Self::MINIMUMS {
                    part[at + count * GROUP] = minimum;
                }
            }
        }
    }

    /// Returns the values of the `k`-th four inputs of a part.
    ///
    /// # Safety
    /// The part exists, `k` is below 8; and as for all of [`Simd16`].
    #[inline(always)]
    unsafe fn four<V: Simd16>(part: *const u8, k: usize) -> V::Bytes {
        // SAFETY: by the caller's promise.
        unsafe {
            let values = Self::PLANES.four::<V>(part, k);
            match Self::TABLE {
                Some(table) => V::lookup(values, table),
                None => values,
            }
        }
    }

    /// Returns the scales of the outputs for the `half`-th [`SCALED`](Self::SCALED) inputs of part
    /// `part` of a tile.
    ///
    /// # Safety
    /// The part and the half exist; and as for all of [`Simd16`].
    #[inline(always)]
    unsafe fn scale<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { number::<V, Self>(tile, part, half, 0) }
    }

    /// Returns the minimums, or zeros if the format has none.
    ///
    /// # Safety
    /// As for [`scale`](Self::scale).
    #[inline(always)]
    unsafe fn minimum<V: Simd16>(tile: *const u8, part: usize, half: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { if Self::MINIMUMS { number::<V, Self>(tile, part, half, 1) } else { V::splat(0.0) } }
    }
}

/// Returns the `which`-th numbers of the outputs. With two levels they are products of a half-precision
/// number and a whole number.
///
/// # Safety
/// The numbers exist; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn number<V: Simd16, F: BlockFormat>(tile: *const u8, part: usize, half: usize, which: usize) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        let shared = V::load_half(tile.add(F::SHARED + which * HALVES).cast());
        if F::PARTS == 1 {
            return shared;
        }
        let at = F::PLANES.bytes() + (which * BLOCK / F::SCALED + half) * GROUP;
        let whole = tile.add(part * F::PART + at);
        shared.mul(if F::SIGNED { V::load_i8(whole.cast()) } else { V::load_u8(whole) })
    }
}

/// The values of the eight fours of a part, for one output: byte i of number k is input 4k + i.
pub(crate) type Fours = [u32; 8];

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put_word(to: &mut [u8], at: usize, word: u32) {
    to[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// Returns the values of 16 bytes that hold input i in the lower and input i + 16 in the upper half
/// of byte i.
#[inline(always)]
pub(super) fn nibbles_of(bytes: &[u8]) -> Fours {
    std::array::from_fn(|k| word(bytes, k % 4 * 4) >> (k / 4 * 4) & 0x0f0f_0f0f)
}

/// Returns the `bits` bits from `shift` on of each of 32 bytes.
#[inline(always)]
pub(super) fn fields_of(bytes: &[u8], shift: usize, bits: u32) -> Fours {
    let mask = 0x0101_0101 * ((1 << bits) - 1);
    std::array::from_fn(|k| word(bytes, 4 * k) >> shift & mask)
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

/// Adds upper bits to the values of a part, from bit `bit` on.
#[inline(always)]
pub(super) fn with_upper(mut fours: Fours, upper: Fours, bit: usize) -> Fours {
    fours.iter_mut().zip(upper).for_each(|(four, upper)| *four |= upper << bit);
    fours
}

/// Returns bit i of a word as the lowest bit of value i.
#[inline(always)]
pub(super) fn bits_of(word: u32) -> Fours {
    std::array::from_fn(|k| (word >> (4 * k) & 15).wrapping_mul(0x0020_4081) & 0x0101_0101)
}

/// Returns scale and minimum of the `i`-th 32 weights of a block of `Q4_K` or `Q5_K`. The first four
/// of each are in the low six bits of eight bytes. The others are in four more bytes and the upper
/// two bits of the eight.
#[inline(always)]
pub(super) fn six_bits(packed: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    }
}
