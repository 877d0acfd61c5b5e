//! Quantised weights by rows, widened eight at a time: `Q6_K` and `Q4_K`.
//!
//! Widening eight weights costs three to eight instructions. Values stay packed as in GGUF's blocks, their
//! scales lie beside them in single precision: scale times value has at most 25 bits, so each weight is the
//! number that the format defines, rounded at most once. Integer products with activations rounded to 8 bits
//! were rejected; see
//! [`super::eight_bit`] for integer products that lose less.

use super::product::{Packed, Row, Weights};
use super::vector::Vector;

/// Weights in a block of `Q4_K` and `Q6_K`.
pub(crate) const K_BLOCK: usize = 256;
/// Weights that share a scale in `Q4_K`.
pub(crate) const Q4_GROUP: usize = 32;
/// Weights that share a scale in `Q6_K`.
pub(crate) const Q6_GROUP: usize = 16;

/// A matrix of 4-bit weights. In each run of 64, the low halves of 32 bytes are the first 32 weights and
/// the high halves the others; weight i is `value * scales[i / 32][0] - scales[i / 32][1]`.
#[derive(Clone, Copy)]
pub(crate) struct Q4<'a> {
    pub quants: &'a [u8],
    pub scales: &'a [[f32; 2]],
    pub rows: usize,
    pub width: usize,
}

/// A matrix of 6-bit weights. Each run of 128 has 64 bytes of low halves (of weights 0 to 31 and 64 to 95,
/// then 32 to 63 and 96 to 127) and 32 bytes with the upper two bits of the weights 32 apart; weight i is
/// `(value - 32) * scales[i / 16]`.
#[derive(Clone, Copy)]
pub(crate) struct Q6<'a> {
    pub low: &'a [u8],
    pub high: &'a [u8],
    pub scales: &'a [f32],
    pub rows: usize,
    pub width: usize,
}

/// A row of any of these; the unsafe reads below rely on its lengths, which [`Weights::row`] cuts.
macro_rules! packed {
    ($matrix:ident, $block:expr) => {
        impl Packed for $matrix<'_> {
            fn rows(&self) -> usize {
                self.rows
            }

            fn width(&self) -> usize {
                assert!(self.width.is_multiple_of($block), "rows of whole blocks");
                self.width
            }
        }
    };
}

packed!(Q4, K_BLOCK);
packed!(Q6, K_BLOCK);

/// Eight bytes from `at`.
///
/// # Safety
/// `at + 8` must not exceed the length.
#[inline(always)]
unsafe fn eight(bytes: &[u8], at: usize) -> u64 {
    debug_assert!(at + 8 <= bytes.len());
    // SAFETY: by the caller's promise.
    u64::from_le_bytes(unsafe { bytes.as_ptr().add(at).cast::<[u8; 8]>().read_unaligned() })
}

#[derive(Clone, Copy)]
pub(crate) struct Q4Row<'a> {
    quants: &'a [u8],
    scales: &'a [[f32; 2]],
}

impl Row for Q4Row<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.quants.len() * 2
    }

    #[inline(always)]
    unsafe fn lanes<V: Vector>(&self, at: usize) -> V {
        let half = 4 * (at / 32 % 2);
        // The product is exact (4 bits times 17), so that fusing it with the difference changes nothing.
        // SAFETY: in bounds by the caller's promise: a run of 64 weights is 32 bytes and two scales.
        unsafe {
            let values = eight(self.quants, at / 64 * 32 + at % 32) >> half & 0x0f0f_0f0f_0f0f_0f0f;
            let [scale, min] = *self.scales.get_unchecked(at / Q4_GROUP);
            V::splat(-min).multiply_add(V::from_bytes(values), V::splat(scale))
        }
    }

    #[inline(always)]
    unsafe fn last_lanes<V: Vector>(&self, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::splat(0.0) }
    }
}

impl<'a> Weights for Q4<'a> {
    type Row = Q4Row<'a>;

    #[inline(always)]
    fn row(&self, i: usize) -> Q4Row<'a> {
        let (bytes, groups) = (self.width / 2, self.width / Q4_GROUP);
        Q4Row {
            quants: &self.quants[i * bytes..(i + 1) * bytes],
            scales: &self.scales[i * groups..(i + 1) * groups],
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Q6Row<'a> {
    low: &'a [u8],
    high: &'a [u8],
    scales: &'a [f32],
}

impl Row for Q6Row<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.low.len() * 2
    }

    #[inline(always)]
    unsafe fn lanes<V: Vector>(&self, at: usize) -> V {
        let (run, quarter, i) = (at / 128, at / 32 % 4, at % 32);
        // SAFETY: in bounds by the caller's promise: 128 weights are 64 and 32 bytes and eight scales.
        unsafe {
            let low = eight(self.low, run * 64 + quarter % 2 * 32 + i) >> (quarter / 2 * 4);
            let high = eight(self.high, run * 32 + i) >> (quarter * 2);
            let values = low & 0x0f0f_0f0f_0f0f_0f0f | (high & 0x0303_0303_0303_0303) << 4;
            let scale = *self.scales.get_unchecked(at / Q6_GROUP);
            // Fused, this is the difference times the scale, rounded once.
            V::splat(-32.0 * scale).multiply_add(V::from_bytes(values), V::splat(scale))
        }
    }

    #[inline(always)]
    unsafe fn last_lanes<V: Vector>(&self, _: usize) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::splat(0.0) }
    }
}

impl<'a> Weights for Q6<'a> {
    type Row = Q6Row<'a>;

    #[inline(always)]
    fn row(&self, i: usize) -> Q6Row<'a> {
        let (low, high, groups) = (self.width / 2, self.width / 4, self.width / Q6_GROUP);
        Q6Row {
            low: &self.low[i * low..(i + 1) * low],
            high: &self.high[i * high..(i + 1) * high],
            scales: &self.scales[i * groups..(i + 1) * groups],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::product::{Out, Packed, Rows, Weights, product, product_packed, product_some};
    use super::super::tests::noise;
    use super::*;

    /// Compares the product with that of the matrix whose elements `wide` defines, bit for bit.
    fn same_bits(m: usize, w: &(impl Packed + Sync), wide: &[f32]) {
        let (n, k) = (w.rows(), w.width());
        let x = noise(m * k, 1);
        let x = Rows::new(&x, m, k);
        let (mut want, mut got) = (vec![0.0; m * n], vec![0.0; m * n]);
        product(&x, &Rows::new(wide, n, k), Out { data: &mut want, stride: n });
        product_packed(&x, w, Out { data: &mut got, stride: n });
        assert_eq!(got, want, "{m} x {n} x {k}");
        let columns: Vec<u32> = (0..n as u32).rev().step_by(3).chain([0]).collect();
        let mut some = vec![0.0; columns.len()];
        product_some(x.row(m - 1), w, &columns, &mut some);
        let chosen: Vec<f32> = columns.iter().map(|c| want[(m - 1) * n + *c as usize]).collect();
        assert_eq!(some, chosen, "some of {m} x {n} x {k}");
    }

    fn bytes(n: usize, seed: u32) -> Vec<u8> {
        noise(n, seed).iter().map(|v| ((v + 0.5) * 256.0) as u8).collect()
    }

    /// A scale as files can have it: half precision times six bits.
    fn scales(n: usize, seed: u32) -> Vec<f32> {
        noise(n, seed).iter().map(|v| (v * 65536.0).round() / 1024.0).collect()
    }

    const SIZES: [(usize, usize, usize); 5] =
        [(1, 1, 256), (2, 50, 512), (5, 97, 256), (16, 49, 768), (33, 8, 256)];

    #[test]
    fn four_bit_products_have_the_bits_of_the_widened_matrix() {
        for (m, n, k) in SIZES {
            let quants = bytes(n * k / 2, 2);
            let (scale, min) = (scales(n * k / 32, 3), scales(n * k / 32, 4));
            let pairs: Vec<[f32; 2]> = scale.iter().zip(&min).map(|(s, m)| [*s, *m]).collect();
            let value = |i: usize| match i / 32 % 2 {
                0 => quants[i / 64 * 32 + i % 32] & 15,
                _ => quants[i / 64 * 32 + i % 32] >> 4,
            };
            let wide: Vec<f32> =
                (0..n * k).map(|i| f32::from(value(i)) * scale[i / 32] - min[i / 32]).collect();
            same_bits(m, &Q4 { quants: &quants, scales: &pairs, rows: n, width: k }, &wide);
        }
    }

    #[test]
    fn six_bit_products_have_the_bits_of_the_widened_matrix() {
        for (m, n, k) in SIZES {
            let (low, high, scales) = (bytes(n * k / 2, 2), bytes(n * k / 4, 5), scales(n * k / 16, 3));
            let value = |i: usize| {
                let (run, quarter, at) = (i / 128, i % 128 / 32, i % 32);
                let byte = low[run * 64 + [0, 32, 0, 32][quarter] + at];
                let low = if quarter < 2 { byte & 15 } else { byte >> 4 };
                low | (high[run * 32 + at] >> [0, 2, 4, 6][quarter] & 3) << 4
            };
            let wide: Vec<f32> = (0..n * k).map(|i| (f32::from(value(i)) - 32.0) * scales[i / 16]).collect();
            same_bits(m, &Q6 { low: &low, high: &high, scales: &scales, rows: n, width: k }, &wide);
        }
    }
}
