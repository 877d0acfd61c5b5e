//! What happens on the residual stream: norms, scales and sums.

use super::simd8::{LANES8, Simd8};
use super::simd16::{LANES16, Simd16, Simd16Work, run};

/// Computes `out = x / rms(x) * weight`, row by row.
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let width = weight.len();
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        run(RmsNorm { x, weight, eps, out });
    }
}

struct RmsNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Simd16Work for RmsNorm<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let (x, whole) = (self.x, self.x.len() - self.x.len() % LANES8);
        assert!(self.weight.len() == x.len() && self.out.len() == x.len());
        // SAFETY: whole vectors up to `whole`; and by the caller's promise.
        unsafe {
            let (mut sum, mut at) = (V::Eight::splat(0.0), 0);
            while at < whole {
                let v = V::Eight::load(x.as_ptr().add(at));
                sum = sum.multiply_add(v, v);
                at += LANES8;
            }
            let rest = V::Eight::load_part(x.as_ptr().add(whole), x.len() - whole);
            let squares = sum.multiply_add(rest, rest).total();
            let scale = 1.0 / (squares / x.len() as f32 + self.eps).sqrt();
            at = 0;
            while at < whole {
                let v = V::Eight::load(x.as_ptr().add(at)).times(V::Eight::splat(scale));
                v.times(V::Eight::load(self.weight.as_ptr().add(at))).store(self.out.as_mut_ptr().add(at));
                at += LANES8;
            }
            let rest = x[whole..].iter().zip(&self.weight[whole..]);
            for (out, (x, weight)) in self.out[whole..].iter_mut().zip(rest) {
                *out = x * scale * weight;
            }
        }
    }
}

/// Computes the same in place, for heads next to each other.
pub(crate) fn rms_norm_heads(x: &mut [f32], weight: &[f32], eps: f32) {
    let width = weight.len();
    for x in x.chunks_exact_mut(width) {
        let scale = 1.0 / (squares(x) / width as f32 + eps).sqrt();
        for (x, w) in x.iter_mut().zip(weight) {
            *x = *x * scale * w;
        }
    }
}

/// Returns the sum of squares, in the order of a product.
pub(super) fn squares(x: &[f32]) -> f32 {
    let (mut acc, mut chunks) = ([0f32; LANES8], x.chunks_exact(LANES8));
    for c in &mut chunks {
        for i in 0..LANES8 {
            acc[i] += c[i] * c[i];
        }
    }
    for (acc, v) in acc.iter_mut().zip(chunks.remainder()) {
        *acc += v * v;
    }
    total(&acc)
}

/// Returns the sum of the lanes: adds the upper half to the lower half until one lane is left.
fn total(v: &[f32; LANES8]) -> f32 {
    ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}

/// Multiplies all elements by `factor`.
pub(crate) fn scale(x: &mut [f32], factor: f32) {
    if factor != 1.0 {
        x.iter_mut().for_each(|x| *x *= factor);
    }
}

/// Computes `x += update`, element by element.
pub(crate) fn add(x: &mut [f32], update: &[f32]) {
    run(Add { x, update });
}

struct Add<'a> {
    x: &'a mut [f32],
    update: &'a [f32],
}

impl Simd16Work for Add<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let n = self.x.len();
        assert_eq!(self.update.len(), n);
        for i in (0..n).step_by(LANES16) {
            // SAFETY: no more than the elements from `i` on; and by the caller's promise.
            unsafe {
                let update = V::load_part(self.update.as_ptr().add(i), n - i, 0.0);
                let sum = V::load_part(self.x.as_ptr().add(i), n - i, 0.0).add(update);
                sum.store_part(self.x.as_mut_ptr().add(i), n - i);
            }
        }
    }
}
