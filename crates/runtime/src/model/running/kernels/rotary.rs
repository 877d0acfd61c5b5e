//! Rotary positions: the angles of the tokens of a forward, and the rotation of their heads.

use super::simd16::{LANES16, Simd16, Simd16Work, run};

/// Cosines and sines for some positions: `[position][pair]`.
#[derive(Default)]
pub(crate) struct Rotation {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
}

impl Rotation {
    /// Returns the cosines and sines of these positions, multiplied by `scale`. Costs one sine and
    /// cosine per pair, so no table over the whole context is kept.
    pub(crate) fn new(frequencies: &[f32], scale: f32, positions: impl Iterator<Item = usize>) -> Self {
        let half = frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for position in positions {
            for f in frequencies {
                let (s, c) = (position as f32 * f).sin_cos();
                cos.push(c * scale);
                sin.push(s * scale);
            }
        }
        Rotation { cos, sin, half }
    }

    /// Rotates the heads in `row` (consecutive, each of `width` elements) by the angles of the
    /// `i`-th position. Pairs are (j, j + half), as in Hugging Face models. Elements of a head after
    /// these stay as they are.
    pub(crate) fn apply(&self, i: usize, width: usize, row: &mut [f32]) {
        let angles = i * self.half..(i + 1) * self.half;
        run(Rotate { cos: &self.cos[angles.clone()], sin: &self.sin[angles], width, row });
    }
}

struct Rotate<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    width: usize,
    row: &'a mut [f32],
}

impl Simd16Work for Rotate<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let half = self.cos.len();
        assert!(self.sin.len() == half && 2 * half <= self.width);
        for head in self.row.chunks_exact_mut(self.width) {
            let (a, b) = head[..2 * half].split_at_mut(half);
            for j in (0..half).step_by(LANES16) {
                let n = LANES16.min(half - j);
                // SAFETY: n elements of each; and by the caller's promise.
                unsafe {
                    let cos = V::load_part(self.cos.as_ptr().add(j), n, 0.0);
                    let sin = V::load_part(self.sin.as_ptr().add(j), n, 0.0);
                    let x = V::load_part(a.as_ptr().add(j), n, 0.0);
                    let y = V::load_part(b.as_ptr().add(j), n, 0.0);
                    let minus = sin.mul(V::splat(-1.0));
                    x.mul(cos).add(y.mul(minus)).store_part(a.as_mut_ptr().add(j), n);
                    x.mul(sin).add(y.mul(cos)).store_part(b.as_mut_ptr().add(j), n);
                }
            }
        }
    }
}
