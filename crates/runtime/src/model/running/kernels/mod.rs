//! The arithmetic of a forward pass: matrix products, norms, rotary positions, attention.
//!
//! All kernels work on plain slices of `f32`. Every row of a result is a function of its own inputs
//! only, computed in one fixed order. A single-precision product of row and column is eight running
//! sums over the width, added up at the end in one tree. With quantised weights it is exact sums of
//! blocks, added in their order. In attention it is one sum in order. The number of rows, columns
//! and threads that work together does not matter. So the logits of a position have the same bits
//! whether it ran alone, in a verified draft, or in a prefill. Speculative decoding can be compared
//! with plain decoding token for token.
//!
//! # Cost
//!
//! A product of m rows with an n x k matrix costs m * n * k multiply-adds. For small m the time is
//! that of reading the matrix once.
//!
//! # Alternatives considered
//!
//! General matrix libraries were rejected. They switch between different kernels (and roundings) at
//! m = 1, and at m = 2 they pay about twice a matrix-vector product for packing.

mod activation;
mod argmax;
mod attention;
mod delta_net;
mod dense;
mod expansion;
mod f32_matmul;
mod filter;
pub(crate) mod formats;
mod int8_matmul;
mod matrix_product;
mod packed;
mod quantize;
mod residual;
mod rotary;
mod rows;
mod simd16;
mod simd8;

pub(crate) use activation::gated;
pub(crate) use argmax::{COMPARED_AT_ONCE, next_group_above};
pub(crate) use attention::{Attention, KEY_BLOCK, KvElement};
pub(crate) use delta_net::{DeltaNet, gate_attention};
pub(crate) use dense::Dense;
pub(crate) use expansion::Expansion;
pub(crate) use filter::Filter;
pub(crate) use matrix_product::{Matrix, multiply_all};
pub(crate) use packed::Packed;
pub(crate) use quantize::Activations;
pub(crate) use residual::{add, rms_norm, rms_norm_heads, scale};
pub(crate) use rotary::Rotation;
pub(crate) use rows::{Out, Rows};
pub(crate) use simd16::has_32_registers as has_wide_vectors;

#[cfg(test)]
mod tests {
    pub(super) fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut s = seed.wrapping_mul(2_654_435_769).wrapping_add(1);
        (0..n)
            .map(|_| {
                s = s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (s >> 8) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect()
    }
}
