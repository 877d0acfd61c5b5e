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

use std::ops::Range;

use crate::threads;

mod activation;
mod argmax;
mod attention;
mod dense;
mod expansion;
mod f32_matmul;
pub(crate) mod formats;
mod int8_matmul;
mod matrix;
mod packed;
mod quantize;
mod simd16;
mod simd8;

use simd8::{LANES8, Simd8, Work, run};
use simd16::{LANES16, Simd16, Simd16Work};

pub(crate) use activation::gated;
pub(crate) use argmax::{COMPARED_AT_ONCE, next_group_above};
pub(crate) use attention::{Attention, KEY_BLOCK, KvElement};
pub(crate) use dense::Dense;
pub(crate) use expansion::Expansion;
pub(crate) use f32_matmul::{Out, Rows};
pub(crate) use matrix::{Matrix, multiply_all};
pub(crate) use packed::Packed;
pub(crate) use quantize::Activations;

/// Number of multiply-adds for which another thread costs less than it saves.
const PARALLEL_WORK: usize = 1 << 18;

/// A destination to which several threads write disjoint parts.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    start: *mut f32,
    len: usize,
    stride: usize,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives the work, and the work items
// write disjoint columns or rows.
unsafe impl Send for Target {}
unsafe impl Sync for Target {}

impl Target {
    #[inline(always)]
    fn put(&self, row: usize, column: usize, value: f32) {
        let at = row * self.stride + column;
        debug_assert!(at < self.len);
        // SAFETY: the code that makes a target checks that it holds all rows and columns of the
        // work, and no other thread touches this element.
        unsafe { *self.start.add(at) = value }
    }

    /// Returns the part from a column on.
    fn beginning_at(&self, column: usize) -> Target {
        let column = column.min(self.len);
        // SAFETY: within the destination.
        Target { start: unsafe { self.start.add(column) }, len: self.len - column, ..*self }
    }

    /// Writes values in columns from `column` on.
    #[inline(always)]
    fn put_all(&self, row: usize, column: usize, values: &[f32]) {
        let at = row * self.stride + column;
        debug_assert!(at + values.len() <= self.len);
        // SAFETY: as for `put`.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.start.add(at), values.len()) }
    }

    /// Writes values in [`LANES16`] columns from `column` on.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn put_wide<V: Simd16>(&self, row: usize, column: usize, values: V) {
        let at = row * self.stride + column;
        debug_assert!(at + LANES16 <= self.len);
        // SAFETY: as for `put`, and by the caller's promise.
        unsafe { values.store(self.start.add(at)) }
    }

    /// Reads up to [`LANES16`] columns, at most `n`, from `column` on.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn get_part<V: Simd16>(&self, row: usize, column: usize, n: usize) -> V {
        let at = row * self.stride + column;
        debug_assert!(at + n.min(LANES16) <= self.len);
        // SAFETY: as for `put`, and by the caller's promise.
        unsafe { V::load_part(self.start.add(at), n, 0.0) }
    }

    /// Writes up to [`LANES16`] columns, at most `n`, from `column` on.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn put_part<V: Simd16>(&self, row: usize, column: usize, n: usize, values: V) {
        let at = row * self.stride + column;
        debug_assert!(at + n.min(LANES16) <= self.len);
        // SAFETY: as for `put`, and by the caller's promise.
        unsafe { values.store_part(self.start.add(at), n) }
    }
}

/// Returns true if the processor has the widest vectors that the kernels use.
pub(crate) fn has_wide_vectors() -> bool {
    simd16::has_32_registers()
}

/// Runs `work` over `0..items`, on as many threads as pay.
fn parallel_for(items: usize, multiply_adds: usize, work: impl Fn(Range<usize>) + Sync) {
    threads::in_chunks(items, multiply_adds / PARALLEL_WORK, work);
}

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

impl Work for RmsNorm<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd8>(self) {
        let (x, whole) = (self.x, self.x.len() - self.x.len() % LANES8);
        assert!(self.weight.len() == x.len() && self.out.len() == x.len());
        // SAFETY: whole vectors up to `whole`; and by the caller's promise.
        unsafe {
            let (mut sum, mut at) = (V::splat(0.0), 0);
            while at < whole {
                let v = V::load(x.as_ptr().add(at));
                sum = sum.multiply_add(v, v);
                at += LANES8;
            }
            let rest = V::load_part(x.as_ptr().add(whole), x.len() - whole);
            let squares = sum.multiply_add(rest, rest).total();
            let scale = 1.0 / (squares / x.len() as f32 + self.eps).sqrt();
            at = 0;
            while at < whole {
                let v = V::load(x.as_ptr().add(at)).times(V::splat(scale));
                v.times(V::load(self.weight.as_ptr().add(at))).store(self.out.as_mut_ptr().add(at));
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
fn squares(x: &[f32]) -> f32 {
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
    pub fn new(frequencies: &[f32], scale: f32, positions: impl Iterator<Item = usize>) -> Self {
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
    pub fn apply(&self, i: usize, width: usize, row: &mut [f32]) {
        let angles = i * self.half..(i + 1) * self.half;
        simd16::run(Rotate { cos: &self.cos[angles.clone()], sin: &self.sin[angles], width, row });
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

/// Multiplies all elements by `factor`.
pub(crate) fn scale(x: &mut [f32], factor: f32) {
    if factor != 1.0 {
        x.iter_mut().for_each(|x| *x *= factor);
    }
}

/// Computes `x += update`, element by element.
pub(crate) fn add(x: &mut [f32], update: &[f32]) {
    simd16::run(Add { x, update });
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
