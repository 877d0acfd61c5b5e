//! Repacks GGUF's block formats for the kernels: quantised values and scales in separate arrays.
//!
//! # Cost
//! One pass over the matrix when it is loaded. Unpacked scales take a sixteenth to a quarter of a
//! byte for each weight.
//!
//! # Alternatives considered
//! Products on the blocks as they are in the file were rejected. Scales are packed in six bits and
//! half precision, and unpacking them for each product costs as much as the product.

use half::f16;

use super::kernels::{
    BLOCK, GROUP, HIGH_BITS_BYTES, K_BLOCK, LOW_NIBBLE_BYTES, PackedIndex, Q4, Q6, Q8, SCALES_PER_GROUP,
    ZERO, blocks,
};

/// Bytes of a `Q8_0` block: a half-precision scale and the values.
const Q8_BYTES: usize = 34;
/// Bytes of a `Q4_K` block: two half-precision scales, twelve bytes of scales for each 32 weights,
/// values.
const Q4_BYTES: usize = 144;
/// Bytes of a `Q6_K` block: lower halves, upper bits, a scale for each 16 weights, half-precision
/// scale.
const Q6_BYTES: usize = 210;

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// `Q8_0` with separate values and scales, the weights of sixteen outputs interleaved.
pub(super) struct PackedQ8_0 {
    quants: Vec<u8>,
    scales: Vec<f32>,
}

impl PackedQ8_0 {
    /// Repacks the blocks of a matrix with `rows` rows; the last group is padded with zeros.
    pub fn from_blocks(blocks: &[u8], rows: usize, width: usize) -> Self {
        let padded = rows.next_multiple_of(GROUP);
        let mut all =
            PackedQ8_0 { quants: vec![ZERO; padded * width], scales: vec![0.0; padded * width / BLOCK] };
        for (i, block) in blocks.chunks_exact(Q8_BYTES).enumerate() {
            let (quant, scale) = Q8::place(width, i * BLOCK / width, i * BLOCK % width);
            all.scales[scale] = half(block);
            // The weights of one output are in groups of four, 64 bytes apart. Arrays of known
            // length avoid bounds checks, which matter for millions of blocks.
            let (Some(to), Some(from)) = (
                all.quants[quant..].first_chunk_mut::<{ 7 * 4 * GROUP + 4 }>(),
                block[2..].first_chunk::<32>(),
            ) else {
                unreachable!("a whole block, and its place among those of sixteen outputs");
            };
            for four in 0..BLOCK / 4 {
                for i in 0..4 {
                    to[four * 4 * GROUP + i] = from[four * 4 + i].wrapping_add(ZERO);
                }
            }
        }
        all
    }

    pub fn matrix(&self, rows: usize, width: usize) -> Q8<'_> {
        Q8::new(&self.quants, &self.scales, rows, width)
    }

    pub fn bytes(&self) -> usize {
        self.quants.len() + size_of_val(&self.scales[..])
    }
}

/// `Q4_K` with separate values and scales, the weights of sixteen outputs interleaved.
pub(super) struct PackedQ4K {
    quants: Vec<u8>,
    pairs: Vec<f32>,
}

impl PackedQ4K {
    /// Repacks the blocks of a matrix with `rows` rows; the last group is padded with zeros.
    pub fn from_blocks(from: &[u8], rows: usize, width: usize) -> Self {
        let count = blocks(rows, width);
        let mut all = PackedQ4K {
            quants: vec![0; count * LOW_NIBBLE_BYTES],
            pairs: vec![0.0; count * SCALES_PER_GROUP],
        };
        for (i, block) in from.chunks_exact(Q4_BYTES).enumerate() {
            let (row, first) = (i * K_BLOCK / width, i * K_BLOCK % width);
            let (d, min) = (half(block), half(&block[2..]));
            let (packed, values) = block[4..].split_at(12);
            for (i, values) in (0..8).zip(values.chunks_exact(BLOCK).flat_map(|v| [v, v])) {
                let at = PackedIndex::new(width, row, first + i * BLOCK);
                let (s, m) = six_bits(packed, i);
                all.pairs[at.pair] = d * f32::from(s);
                all.pairs[at.pair + GROUP] = min * f32::from(m);
                // Of 64 weights the first 32 are in the low nibbles, the others in the high ones.
                let shift = i % 2 * 4;
                put_low(&mut all.quants[at.low..], |j| values[j] >> shift & 15);
            }
        }
        all
    }

    pub fn matrix(&self, rows: usize, width: usize) -> Q4<'_> {
        Q4::new(&self.quants, &self.pairs, rows, width)
    }

    pub fn bytes(&self) -> usize {
        self.quants.len() + size_of_val(&self.pairs[..])
    }
}

/// Writes the low four bits of an output's 32 weights, beginning at the first weight's position.
/// `value` returns a weight by index. Groups of four are 64 bytes apart; the first four groups are
/// in the low nibbles, the others in the high ones.
fn put_low(to: &mut [u8], value: impl Fn(usize) -> u8) {
    for (four, to) in to.chunks_mut(64).take(4).enumerate() {
        for (i, to) in to[..4].iter_mut().enumerate() {
            *to = value(four * 4 + i) | value(BLOCK / 2 + four * 4 + i) << 4;
        }
    }
}

/// Writes the upper two bits in the same way: four groups of four share their bytes, and the other
/// four are 64 bytes later.
fn put_high(to: &mut [u8], value: impl Fn(usize) -> u8) {
    for (half, to) in to.chunks_mut(64).take(2).enumerate() {
        for (i, to) in to[..4].iter_mut().enumerate() {
            *to = (0..4).fold(0, |all, four| all | value(half * BLOCK / 2 + four * 4 + i) << (2 * four));
        }
    }
}

/// Returns scale and minimum of the `i`-th 32 weights. The first four of each are in the low six
/// bits of eight bytes. The others are in four more bytes and the upper two bits of the eight.
fn six_bits(packed: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    }
}

/// `Q6_K` with separate values and scales, the weights of sixteen outputs interleaved.
pub(super) struct PackedQ6K {
    low: Vec<u8>,
    high: Vec<u8>,
    pairs: Vec<f32>,
}

impl PackedQ6K {
    /// Repacks the blocks of a matrix with `rows` rows; the last group is padded with zeros.
    pub fn from_blocks(from: &[u8], rows: usize, width: usize) -> Self {
        let count = blocks(rows, width);
        let (low, high) = (vec![0; count * LOW_NIBBLE_BYTES], vec![0; count * HIGH_BITS_BYTES]);
        let mut all = PackedQ6K { low, high, pairs: vec![0.0; count * SCALES_PER_GROUP] };
        for (i, block) in from.chunks_exact(Q6_BYTES).enumerate() {
            let (row, first) = (i * K_BLOCK / width, i * K_BLOCK % width);
            let (d, scales) = (half(&block[208..]), &block[192..208]);
            for i in 0..8 {
                let at = PackedIndex::new(width, row, first + i * BLOCK);
                for half in 0..2 {
                    let scale = scales[2 * i + half].cast_signed();
                    all.pairs[at.pair + half * GROUP] = d * f32::from(scale);
                }
                // Each 128 weights have 64 bytes of lower halves: of weights 0 to 31 and 64 to 95,
                // then of 32 to 63 and 96 to 127. Their upper bits are in 32 bytes, each with the
                // bits of weights 32 apart.
                let (run, quarter) = (i / 4, i % 4);
                let (low, shift) = (&block[run * 64 + quarter % 2 * 32..], quarter / 2 * 4);
                put_low(&mut all.low[at.low..], |j| low[j] >> shift & 15);
                let high = &block[128 + run * 32..];
                put_high(&mut all.high[at.high..], |j| high[j] >> (2 * quarter) & 3);
            }
        }
        all
    }

    pub fn matrix(&self, rows: usize, width: usize) -> Q6<'_> {
        Q6::new(&self.low, &self.high, &self.pairs, rows, width)
    }

    pub fn bytes(&self) -> usize {
        self.low.len() + self.high.len() + size_of_val(&self.pairs[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};

    /// Candle's own conversion of the same blocks is the reference, bit for bit.
    #[test]
    fn blocks_widen_as_candle_widens_them() {
        let (rows, width) = (19, 512);
        let values: Vec<f32> = (0..rows * width).map(|i| (i as f32 * 0.37).sin() * (i % 91) as f32).collect();
        let tensor = Tensor::from_slice(&values, (rows, width), &Device::Cpu).unwrap();
        for dtype in [GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K] {
            let q = QTensor::quantize(&tensor, dtype).unwrap();
            let want: Vec<f32> =
                q.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let blocks = q.data().unwrap();
            let mut got = vec![0.0; rows * width];
            for (row, got) in got.chunks_exact_mut(width).enumerate() {
                match dtype {
                    GgmlDType::Q8_0 => {
                        PackedQ8_0::from_blocks(&blocks, rows, width).matrix(rows, width).widen_row(row, got)
                    }
                    GgmlDType::Q4K => {
                        PackedQ4K::from_blocks(&blocks, rows, width).matrix(rows, width).widen_row(row, got)
                    }
                    _ => PackedQ6K::from_blocks(&blocks, rows, width).matrix(rows, width).widen_row(row, got),
                }
            }
            assert!(want.iter().any(|v| v.abs() > 10.0));
            assert_eq!(got, want, "{dtype:?}");
        }
    }
}
