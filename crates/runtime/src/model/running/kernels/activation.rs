//! The gated activations of a feed-forward.
//!
//! # Cost
//!
//! One exponential for each element.

use super::simd16::{self, LANES16, Simd16, Simd16Work};
use crate::model::config::Activation;

/// Computes `out = activation(gate) * up`. Each row holds its gate and then its up values.
pub(crate) fn gated(activation: Activation, gate_up: &[f32], width: usize, out: &mut [f32]) {
    for (row, out) in gate_up.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
        let (gate, up) = row.split_at(width);
        match activation {
            Activation::Silu => simd16::run(Gated::<false> { gate, up, out }),
            Activation::GeluTanh => simd16::run(Gated::<true> { gate, up, out }),
        }
    }
}

/// `GELU` selects the activation when the kernel is compiled.
struct Gated<'a, const GELU: bool> {
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32],
}

impl<const GELU: bool> Simd16Work for Gated<'_, GELU> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let n = self.out.len();
        assert!(self.gate.len() == n && self.up.len() == n);
        for i in (0..n).step_by(LANES16) {
            // SAFETY: no more than the elements from `i` on; and by the caller's promise.
            unsafe {
                let gate = V::load_part(self.gate.as_ptr().add(i), n - i, 0.0);
                let up = V::load_part(self.up.as_ptr().add(i), n - i, 0.0);
                let active = if GELU { gelu(gate) } else { silu(gate) };
                active.mul(up).store_part(self.out.as_mut_ptr().add(i), n - i);
            }
        }
    }
}

/// # Safety
/// As for all of [`Simd16`].
#[inline(always)]
unsafe fn silu<V: Simd16>(x: V) -> V {
    // SAFETY: by the caller's promise.
    unsafe { x.div(x.mul(V::splat(-1.0)).exp().add(V::splat(1.0))) }
}

/// Computes `x (1 + tanh(u)) / 2` as `x / (1 + exp(-2 u))`, with `u = sqrt(2 / pi) (x + 0.044715
/// x^3)`.
///
/// # Safety
/// As for all of [`Simd16`].
#[inline(always)]
unsafe fn gelu<V: Simd16>(x: V) -> V {
    const MINUS_TWICE_ROOT: f32 = -1.595_769_2;
    const CUBE: f32 = 0.044_715;
    // SAFETY: by the caller's promise.
    unsafe {
        let cubes = x.mul(x).mul(V::splat(CUBE));
        let u = x.add(x.mul(cubes)).mul(V::splat(MINUS_TWICE_ROOT));
        x.div(u.exp().add(V::splat(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn activations_agree_with_their_definition() {
        for width in [1, 16, 37] {
            let mut rows: Vec<f32> = noise(4 * width, 7).iter().map(|v| v * 12.0).collect();
            rows[0] = 60.0;
            rows[2 * width] = -60.0;
            for activation in [Activation::Silu, Activation::GeluTanh] {
                let mut out = vec![0.0; 2 * width];
                gated(activation, &rows, width, &mut out);
                for (i, got) in out.iter().enumerate() {
                    let row = &rows[i / width * 2 * width..][..2 * width];
                    let (gate, up) = (f64::from(row[i % width]), f64::from(row[width + i % width]));
                    let active = match activation {
                        Activation::Silu => gate / (1.0 + (-gate).exp()),
                        Activation::GeluTanh => {
                            let root = (2.0 / std::f64::consts::PI).sqrt();
                            0.5 * gate * (1.0 + (root * (gate + 0.044715 * gate.powi(3))).tanh())
                        }
                    };
                    // A few roundings of numbers up to 60 x 6; the exponent's own rounding grows
                    // with its argument.
                    let want = active * up;
                    assert!(
                        (f64::from(*got) - want).abs() <= 2e-6 * (1.0 + want.abs()),
                        "{gate}: {got} {want}"
                    );
                }
                let mut alone = vec![0.0; width];
                gated(activation, &rows[2 * width..], width, &mut alone);
                assert_eq!(alone, out[width..], "rows do not depend on each other");
            }
        }
    }
}
