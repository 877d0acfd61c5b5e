//! Causal attention, row by row.
//!
//! A row at position p costs 2 (p + 1) multiply-adds per query element. Each row is worked on alone, with
//! exactly the keys it may see; a mask over a rectangle of scores was rejected: it does twice the work in a
//! prefill, and sums over a length that depends on which other rows run along.

#[cfg(target_arch = "x86_64")]
use super::has_fma;
use super::product::product_range;
use super::{LANES, Rows, Target, exp, lanes, multiply_add, spread, total};

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
}

impl Attention<'_> {
    /// Row i attends to positions `0..=start + i` only, so no mask is needed and half the work of a
    /// prefill is saved. Writes `[row][head][head_dim]`.
    pub fn run(&self, out: &mut [f32]) {
        let width = self.heads * self.head_dim;
        assert_eq!(out.len(), self.rows * width);
        assert!((self.start + self.rows) * self.kv_heads * self.head_dim <= self.k.len().min(self.v.len()));
        let target = Target { start: out.as_mut_ptr(), len: out.len(), stride: width };
        let work = self.rows * (self.start + self.rows) * width * 2;
        spread(self.rows * self.kv_heads, work, |range| {
            let mut scores = Vec::new();
            for item in range {
                self.one(item / self.kv_heads, item % self.kv_heads, &mut scores, &target);
            }
        });
    }

    /// The heads of one row that share a key head.
    fn one(&self, row: usize, kv_head: usize, scores: &mut Vec<f32>, out: &Target) {
        let (group, d) = (self.heads / self.kv_heads, self.head_dim);
        let len = self.start + row + 1;
        let stride = self.kv_heads * d;
        let q = Rows::new(&self.q[row * self.q_stride + kv_head * group * d..], group, d);
        let k = Rows::strided(&self.k[kv_head * d..], len, d, stride);
        let v = Rows::strided(&self.v[kv_head * d..], len, d, stride);
        scores.clear();
        scores.resize(group * len, 0.0);
        let target = Target { start: scores.as_mut_ptr(), len: scores.len(), stride: len };
        product_range(&q, &k, 0, len, &target);
        let scale = 1.0 / (d as f32).sqrt();
        for s in scores.chunks_exact_mut(len) {
            softmax(s, scale);
        }
        for (g, p) in scores.chunks_exact(len).enumerate() {
            weighted_sum(p, &v, &mut |c, x| out.put(row, (kv_head * group + g) * d + c, x));
        }
    }
}

#[inline(always)]
fn softmax_body(s: &mut [f32], scale: f32) {
    let max = s.iter().fold(f32::NEG_INFINITY, |m, v| if *v > m { *v } else { m });
    let mut acc = [0f32; LANES];
    let mut chunks = s.chunks_exact_mut(LANES);
    for c in &mut chunks {
        for i in 0..LANES {
            c[i] = exp((c[i] - max) * scale);
            acc[i] += c[i];
        }
    }
    for (i, v) in chunks.into_remainder().iter_mut().enumerate() {
        *v = exp((*v - max) * scale);
        acc[i] += *v;
    }
    let inverse = 1.0 / total(&acc);
    for v in s.iter_mut() {
        *v *= inverse;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn softmax_avx2(s: &mut [f32], scale: f32) {
    softmax_body(s, scale);
}

fn softmax(s: &mut [f32], scale: f32) {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the features were just detected.
        return unsafe { softmax_avx2(s, scale) };
    }
    softmax_body(s, scale)
}

#[inline(always)]
fn row<'a>(v: &Rows<'a>, j: usize) -> &'a [f32] {
    &v.data[j * v.stride..j * v.stride + v.width]
}

/// Sum of the rows of `v`, each times its weight; 32 columns at a time stay in registers.
#[inline(always)]
fn weighted_sum_body<const FMA: bool>(p: &[f32], v: &Rows, put: &mut impl FnMut(usize, f32)) {
    const BLOCK: usize = 4;
    let mut c = 0;
    while c + BLOCK * LANES <= v.width {
        let mut acc = [[0f32; LANES]; BLOCK];
        for (j, weight) in p.iter().enumerate() {
            let row = &row(v, j)[c..c + BLOCK * LANES];
            for (b, acc) in acc.iter_mut().enumerate() {
                multiply_add::<FMA>(acc, &[*weight; LANES], &lanes(row, b * LANES));
            }
        }
        for (i, x) in acc.iter().flatten().enumerate() {
            put(c + i, *x);
        }
        c += BLOCK * LANES;
    }
    while c < v.width {
        let mut acc = 0f32;
        for (j, weight) in p.iter().enumerate() {
            let x = row(v, j)[c];
            acc = if FMA { weight.mul_add(x, acc) } else { acc + weight * x };
        }
        put(c, acc);
        c += 1;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn weighted_sum_avx2(p: &[f32], v: &Rows, put: &mut impl FnMut(usize, f32)) {
    weighted_sum_body::<true>(p, v, put);
}

fn weighted_sum(p: &[f32], v: &Rows, put: &mut impl FnMut(usize, f32)) {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the features were just detected.
        return unsafe { weighted_sum_avx2(p, v, put) };
    }
    weighted_sum_body::<{ cfg!(target_arch = "aarch64") }>(p, v, put)
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
        };
        a.run(&mut out);
        for r in 0..rows {
            for h in 0..heads {
                let dot = |j: usize| -> f64 {
                    (0..d)
                        .map(|i| {
                            f64::from(q[(r * heads + h) * d + i]) * f64::from(k[(j * kv + h / 2) * d + i])
                        })
                        .sum()
                };
                let p: Vec<f64> = (0..=start + r).map(|j| (dot(j) / (d as f64).sqrt()).exp()).collect();
                let sum: f64 = p.iter().sum();
                for i in 0..d {
                    let want: f64 =
                        (0..p.len()).map(|j| p[j] / sum * f64::from(v[(j * kv + h / 2) * d + i])).sum();
                    assert!((f64::from(out[(r * heads + h) * d + i]) - want).abs() < 1e-6);
                }
            }
        }
    }
}
