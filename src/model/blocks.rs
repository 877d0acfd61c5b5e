//! GGUF's block formats, taken apart for this crate's kernels.
//!
//! Costs one pass over the matrix when it is loaded. Running on the blocks as they lie in the file was
//! rejected: their scales are packed in six bits and half precision, and unpacking them again at each
//! product costs as much as the product. Widened, they take a sixteenth to a quarter of a byte per weight.

use super::kernels::{K_BLOCK, Q4, Q6, Q8, Q8_BLOCK, Q8_GROUP, Q8_ZERO};
use super::safetensors::f16_to_f32;

/// Bytes of a `Q8_0` block: a half-precision scale and the values.
const Q8_BYTES: usize = 34;
/// Bytes of a `Q4_K` block: two half-precision scales, twelve bytes of scales for each 32 weights, values.
const Q4_BYTES: usize = 144;
/// Bytes of a `Q6_K` block: lower halves, upper bits, a scale for each 16 weights, half-precision scale.
const Q6_BYTES: usize = 210;

fn half(bytes: &[u8]) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// `Q8_0` with values and scales apart, the weights of sixteen outputs beside each other.
pub(super) struct EightBit {
    quants: Vec<u8>,
    scales: Vec<f32>,
}

impl EightBit {
    /// From the blocks of a matrix with `rows` rows; what is missing in the last group are zeros.
    pub fn from_blocks(blocks: &[u8], rows: usize, width: usize) -> Self {
        let padded = rows.next_multiple_of(Q8_GROUP);
        let mut all =
            EightBit { quants: vec![Q8_ZERO; padded * width], scales: vec![0.0; padded * width / Q8_BLOCK] };
        for (i, block) in blocks.chunks_exact(Q8_BYTES).enumerate() {
            let (quant, scale) = Q8::place(width, i * Q8_BLOCK / width, i * Q8_BLOCK % width);
            all.scales[scale] = half(block);
            // The weights of one output lie by fours, 64 bytes apart. Known lengths spare the checks: it is millions of blocks.
            let (Some(to), Some(from)) = (
                all.quants[quant..].first_chunk_mut::<{ 7 * 4 * Q8_GROUP + 4 }>(),
                block[2..].first_chunk::<32>(),
            ) else {
                unreachable!("a whole block, and its place among those of sixteen outputs");
            };
            for four in 0..Q8_BLOCK / 4 {
                for i in 0..4 {
                    to[four * 4 * Q8_GROUP + i] = from[four * 4 + i].wrapping_add(Q8_ZERO);
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

/// `Q4_K` with values and scales apart.
pub(super) struct FourBit {
    quants: Vec<u8>,
    scales: Vec<[f32; 2]>,
}

impl FourBit {
    pub fn from_blocks(blocks: &[u8]) -> Self {
        let count = blocks.len() / Q4_BYTES;
        let (mut quants, mut scales) =
            (Vec::with_capacity(count * K_BLOCK / 2), Vec::with_capacity(count * K_BLOCK / 32));
        for block in blocks.chunks_exact(Q4_BYTES) {
            let (d, min) = (half(block), half(&block[2..]));
            let (packed, values) = block[4..].split_at(12);
            for i in 0..8 {
                let (s, m) = six_bits(packed, i);
                scales.push([d * f32::from(s), min * f32::from(m)]);
            }
            quants.extend_from_slice(values);
        }
        FourBit { quants, scales }
    }

    pub fn matrix(&self, rows: usize, width: usize) -> Q4<'_> {
        Q4 { quants: &self.quants, scales: &self.scales, rows, width }
    }

    pub fn bytes(&self) -> usize {
        self.quants.len() + size_of_val(&self.scales[..])
    }
}

/// Scale and minimum of the `i`-th 32 weights: the first four of each lie in the low six bits of eight
/// bytes, the others in four more bytes and the upper two bits of the eight.
fn six_bits(packed: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    }
}

/// `Q6_K` with values and scales apart.
pub(super) struct SixBit {
    low: Vec<u8>,
    high: Vec<u8>,
    scales: Vec<f32>,
}

impl SixBit {
    pub fn from_blocks(blocks: &[u8]) -> Self {
        let count = blocks.len() / Q6_BYTES;
        let mut all = SixBit {
            low: Vec::with_capacity(count * K_BLOCK / 2),
            high: Vec::with_capacity(count * K_BLOCK / 4),
            scales: Vec::with_capacity(count * K_BLOCK / 16),
        };
        for block in blocks.chunks_exact(Q6_BYTES) {
            all.low.extend_from_slice(&block[..128]);
            all.high.extend_from_slice(&block[128..192]);
            let d = half(&block[208..]);
            all.scales.extend(block[192..208].iter().map(|s| d * f32::from(s.cast_signed())));
        }
        all
    }

    pub fn matrix(&self, rows: usize, width: usize) -> Q6<'_> {
        Q6 { low: &self.low, high: &self.high, scales: &self.scales, rows, width }
    }

    pub fn bytes(&self) -> usize {
        self.low.len() + self.high.len() + size_of_val(&self.scales[..])
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::widen;
    use super::*;
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};

    /// Candle's own widening of the same blocks is the reference, bit for bit.
    #[test]
    fn blocks_widen_as_candle_widens_them() {
        let (rows, width) = (3, 512);
        let values: Vec<f32> = (0..rows * width).map(|i| (i as f32 * 0.37).sin() * (i % 91) as f32).collect();
        let tensor = Tensor::from_slice(&values, (rows, width), &Device::Cpu).unwrap();
        for dtype in [GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K] {
            let q = QTensor::quantize(&tensor, dtype).unwrap();
            let want: Vec<f32> =
                q.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let blocks = q.data().unwrap();
            let mut got = vec![0.0; rows * width];
            match dtype {
                GgmlDType::Q8_0 => {
                    let all = EightBit::from_blocks(&blocks, rows, width);
                    for (row, got) in got.chunks_exact_mut(width).enumerate() {
                        all.matrix(rows, width).widen_row(row, got);
                    }
                }
                GgmlDType::Q4K => {
                    widen(&FourBit::from_blocks(&blocks).matrix(rows, width), 0, rows, &mut got)
                }
                _ => widen(&SixBit::from_blocks(&blocks).matrix(rows, width), 0, rows, &mut got),
            }
            assert!(want.iter().any(|v| v.abs() > 10.0));
            assert_eq!(got, want, "{dtype:?}");
        }
    }
}
