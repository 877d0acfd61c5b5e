//! Causal attention, row by row.
//!
//! A row at position p costs 2 (p + 1) multiply-adds per query element. Each row is worked on alone, with
//! exactly the keys it may see; a mask over a rectangle of scores was rejected: it does twice the work in a
//! prefill, and sums over a length that depends on which other rows run along.

use super::product::product_range;
use super::vector::{LANES, Vector, Work, run};
use super::{Rows, Target, spread, total};
use crate::numeric::exp;

/// The inputs of causal attention: rows of queries, and keys and values by position.
pub(crate) struct Attention<'a> {
    /// Queries, `[row][head][head_dim]` at `q_stride` floats a row.
    pub q: &'a [f32],
    pub q_stride: usize,
    /// `[position][kv_head][head_dim]`.
    pub k: &'a [f32],
    pub v: &'a [f32],
    /// Position of the first query row.
    pub start: usize,
    pub rows: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Positions a row sees, itself among them; at least 1.
    pub window: usize,
}

impl Attention<'_> {
    /// Row i attends to the last `window` of positions `0..=start + i` only, so no mask is needed and half the work of a
    /// prefill is saved. Writes `[row][head][head_dim]`, the rows of one part behind those of the one
    /// before; all parts have the same heads. Rows of all parts are shared out together, so that many
    /// sequences of one row each keep all threads busy.
    pub fn run(parts: &[Attention], out: &mut [f32]) {
        let Some(one) = parts.first() else { return };
        let (width, kv_heads) = (one.heads * one.head_dim, one.kv_heads);
        // For each part the number of its first row in the output.
        let mut first = Vec::with_capacity(parts.len());
        let (mut rows, mut work) = (0, 0);
        for a in parts {
            assert_eq!((a.heads * a.head_dim, a.kv_heads), (width, kv_heads), "heads of the parts");
            let end = a.start + a.rows;
            assert!(end * kv_heads * a.head_dim <= a.k.len().min(a.v.len()));
            first.push(rows);
            rows += a.rows;
            work += a.rows * end * width * 2;
        }
        assert_eq!(out.len(), rows * width);
        let target = Target { start: out.as_mut_ptr(), len: out.len(), stride: width };
        spread(rows * kv_heads, work, |range| {
            let mut scores = Vec::new();
            for item in range {
                let row = item / kv_heads;
                let part = first.partition_point(|f| *f <= row) - 1;
                parts[part].one((row - first[part], row), item % kv_heads, &mut scores, &target);
            }
        });
    }

    /// The heads of one row that share a key head, written to row `to`.
    fn one(&self, (row, to): (usize, usize), kv_head: usize, scores: &mut Vec<f32>, out: &Target) {
        let (group, d) = (self.heads / self.kv_heads, self.head_dim);
        let end = self.start + row + 1;
        let from = end.saturating_sub(self.window);
        let len = end - from;
        let stride = self.kv_heads * d;
        let q = Rows::new(&self.q[row * self.q_stride + kv_head * group * d..], group, d);
        let k = Rows::strided(&self.k[from * stride + kv_head * d..], len, d, stride);
        let v = Rows::strided(&self.v[from * stride + kv_head * d..], len, d, stride);
        scores.clear();
        scores.resize(group * len, 0.0);
        let target = Target { start: scores.as_mut_ptr(), len: scores.len(), stride: len };
        product_range(&q, &k, 0, len, &target);
        let scale = 1.0 / (d as f32).sqrt();
        for s in scores.chunks_exact_mut(len) {
            run(Softmax { s, scale });
        }
        for (g, p) in scores.chunks_exact(len).enumerate() {
            run(WeightedSum { p, v: &v, out, row: to, column: (kv_head * group + g) * d });
        }
    }
}

/// Turns scores into weights that add up to 1.
struct Softmax<'a> {
    s: &'a mut [f32],
    scale: f32,
}

impl Work for Softmax<'_> {
    #[inline(always)]
    unsafe fn with<V: Vector>(self) {
        let Softmax { s, scale } = self;
        let mut max = [f32::NEG_INFINITY; LANES];
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        let mut chunks = s.chunks_exact(LANES);
        for c in &mut chunks {
            for i in 0..LANES {
                max[i] = larger(max[i], c[i]);
            }
        }
        let max = max.iter().chain(chunks.remainder()).fold(f32::NEG_INFINITY, |a, b| larger(a, *b));
        let mut acc = [0f32; LANES];
        let mut chunks = s.chunks_exact_mut(LANES);
        // SAFETY: whole chunks; and the caller's promise.
        unsafe {
            let (minus, by, mut sum) = (V::splat(-max), V::splat(scale), V::splat(0.0));
            for c in &mut chunks {
                let e = V::load(c.as_ptr()).plus(minus).times(by).exp();
                e.store(c.as_mut_ptr());
                sum = sum.plus(e);
            }
            sum.store(acc.as_mut_ptr());
        }
        for (v, acc) in chunks.into_remainder().iter_mut().zip(&mut acc) {
            *v = exp((*v - max) * scale);
            *acc += *v;
        }
        let inverse = 1.0 / total(&acc);
        for v in s.iter_mut() {
            *v *= inverse;
        }
    }
}

/// Sum of the rows of `v`, each times its weight, added up in the order of the rows.
struct WeightedSum<'a> {
    p: &'a [f32],
    v: &'a Rows<'a>,
    out: &'a Target,
    row: usize,
    column: usize,
}

impl WeightedSum<'_> {
    /// `B` vectors of columns from `at`, kept in registers.
    ///
    /// # Safety
    /// There are so many columns; and as for all of [`Vector`].
    #[inline(always)]
    unsafe fn columns<V: Vector, const B: usize>(&self, at: usize) {
        // SAFETY: `Rows` are checked to lie within their data, and the caller promises the columns.
        unsafe {
            let mut acc = [V::splat(0.0); B];
            let start = self.v.data.as_ptr();
            for (j, weight) in self.p.iter().enumerate().take(self.v.rows) {
                let (from, weight) = (start.add(j * self.v.stride + at), V::splat(*weight));
                for (b, acc) in acc.iter_mut().enumerate() {
                    *acc = acc.multiply_add(weight, V::load(from.add(b * LANES)));
                }
            }
            for (b, acc) in acc.into_iter().enumerate() {
                self.out.put_lanes(self.row, self.column + at + b * LANES, acc);
            }
        }
    }
}

impl Work for WeightedSum<'_> {
    #[inline(always)]
    unsafe fn with<V: Vector>(self) {
        let width = self.v.width;
        let mut at = 0;
        // SAFETY: the columns are there by the conditions; the rest is the caller's promise.
        unsafe {
            while at + 8 * LANES <= width {
                self.columns::<V, 8>(at);
                at += 8 * LANES;
            }
            while at + LANES <= width {
                self.columns::<V, 1>(at);
                at += LANES;
            }
        }
        for c in at..width {
            let terms = self.p.iter().enumerate().map(|(j, w)| w * self.v.data[j * self.v.stride + c]);
            self.out.put(self.row, self.column + c, terms.sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn attention_agrees_with_the_definition() {
        let (rows, start, heads, kv, d) = (3, 5, 4, 2, 10);
        let q = noise(rows * heads * d, 3);
        let (k, v) = (noise((start + rows) * kv * d, 4), noise((start + rows) * kv * d, 5));
        for window in [1, 2, 6, 7, 8, 9, usize::MAX] {
            let mut out = vec![0.0; rows * heads * d];
            let a = Attention {
                q: &q,
                q_stride: heads * d,
                k: &k,
                v: &v,
                start,
                rows,
                heads,
                kv_heads: kv,
                head_dim: d,
                window,
            };
            Attention::run(&[a], &mut out);
            for (r, h) in (0..rows).flat_map(|r| (0..heads).map(move |h| (r, h))) {
                let dot = |j: usize| -> f64 {
                    let (q, k) = (&q[(r * heads + h) * d..][..d], &k[(j * kv + h / 2) * d..][..d]);
                    q.iter().zip(k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
                };
                let here = start + r;
                let seen: Vec<usize> = (0..=here).filter(|j| here - j < window).collect();
                let p: Vec<f64> = seen.iter().map(|j| (dot(*j) / (d as f64).sqrt()).exp()).collect();
                let sum: f64 = p.iter().sum();
                for i in 0..d {
                    let value = |j: &usize| f64::from(v[(j * kv + h / 2) * d + i]);
                    let want: f64 = p.iter().zip(&seen).map(|(p, j)| p / sum * value(j)).sum();
                    // A dozen terms below 1 in f32.
                    assert!((f64::from(out[(r * heads + h) * d + i]) - want).abs() < 1e-6);
                }
            }
        }
    }
}
