//! The arithmetic of a forward pass on plain `f32` slices: products, norms, rotary positions,
//! attention.
//!
//! Every result row is a function of its own inputs only, computed in one fixed order: a product of
//! row and column is eight running sums over the width, added up at the end in one tree, however many
//! rows and columns are worked on together and by however many threads. So the logits of a position
//! have the same bits whether it was run alone, in a verified chunk, or in a prefill, and speculative
//! decoding can be compared with plain decoding token for token.
//!
//! A product of m rows with an n x k matrix costs m * n * k multiply-adds; for small m the time is
//! that of reading the matrix once. General matrix libraries were rejected here: they switch between
//! different kernels (and roundings) at m = 1, and pay about twice a matrix-vector product at m = 2
//! for packing.

use candle_core::utils::barrier_pool;

const LANES: usize = 8;
type Lanes = [f32; LANES];
/// Columns that one work item covers, so that their weights stay in the second-level cache while the
/// rows pass by.
const COLUMNS_PER_ITEM: usize = 48;
/// Multiply-adds below which handing work to other threads costs more than it saves.
const PARALLEL_WORK: usize = 1 << 18;

/// A matrix by rows, possibly with gaps between them.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub width: usize,
    pub stride: usize,
}

impl<'a> Rows<'a> {
    pub fn new(data: &'a [f32], rows: usize, width: usize) -> Self {
        Rows::strided(data, rows, width, width)
    }

    pub fn strided(data: &'a [f32], rows: usize, width: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + width <= data.len(), "matrix larger than its data");
        Rows { data, rows, width, stride }
    }

    #[inline(always)]
    fn row(&self, i: usize) -> &'a [f32] {
        &self.data[i * self.stride..i * self.stride + self.width]
    }
}

/// Where the results go: `rows` rows, `stride` apart.
pub(crate) struct Out<'a> {
    pub data: &'a mut [f32],
    pub stride: usize,
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    // The macro caches its answer.
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[inline(always)]
fn multiply_add<const FMA: bool>(acc: &mut Lanes, a: &Lanes, b: &Lanes) {
    for i in 0..LANES {
        acc[i] = if FMA { a[i].mul_add(b[i], acc[i]) } else { acc[i] + a[i] * b[i] };
    }
}

#[inline(always)]
fn total(v: &Lanes) -> f32 {
    ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}

#[inline(always)]
fn lanes(s: &[f32], at: usize) -> Lanes {
    let mut v = [0.0; LANES];
    v.copy_from_slice(&s[at..at + LANES]);
    v
}

#[inline(always)]
fn lanes_padded(s: &[f32], at: usize) -> Lanes {
    let mut v = [0.0; LANES];
    v[..s.len() - at].copy_from_slice(&s[at..]);
    v
}

/// R rows of x times C rows of w.
#[inline(always)]
fn tile<const FMA: bool, const R: usize, const C: usize>(x: [&[f32]; R], w: [&[f32]; C]) -> [[f32; C]; R] {
    let mut acc = [[[0f32; LANES]; C]; R];
    let k = x[0].len();
    let whole = k - k % LANES;
    // Equal lengths, so that the bounds checks leave the loop.
    let x = x.map(|s| &s[..k]);
    let w = w.map(|s| &s[..k]);
    let mut at = 0;
    while at < whole {
        let b: [Lanes; C] = std::array::from_fn(|c| lanes(w[c], at));
        for r in 0..R {
            let a = lanes(x[r], at);
            for c in 0..C {
                multiply_add::<FMA>(&mut acc[r][c], &a, &b[c]);
            }
        }
        at += LANES;
    }
    if at < k {
        for r in 0..R {
            let a = lanes_padded(x[r], at);
            for c in 0..C {
                multiply_add::<FMA>(&mut acc[r][c], &a, &lanes_padded(w[c], at));
            }
        }
    }
    acc.map(|row| row.map(|v| total(&v)))
}

/// A destination that several threads write disjoint parts of.
#[derive(Clone, Copy)]
struct Target {
    start: *mut f32,
    len: usize,
    stride: usize,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives the work, and the work items write
// disjoint columns or rows.
unsafe impl Send for Target {}
unsafe impl Sync for Target {}

impl Target {
    #[inline(always)]
    fn put(&self, row: usize, column: usize, value: f32) {
        let at = row * self.stride + column;
        assert!(at < self.len);
        // SAFETY: in bounds, and no other thread touches this element.
        unsafe { *self.start.add(at) = value }
    }
}

#[inline(always)]
fn columns<const FMA: bool, const R: usize>(x: &Rows, first: usize, w: &Rows, from: usize, to: usize, out: &Target) {
    let xs: [&[f32]; R] = std::array::from_fn(|r| x.row(first + r));
    let mut c = from;
    while c + 3 <= to {
        let y = tile::<FMA, R, 3>(xs, [w.row(c), w.row(c + 1), w.row(c + 2)]);
        for (r, row) in y.iter().enumerate() {
            for (i, v) in row.iter().enumerate() {
                out.put(first + r, c + i, *v);
            }
        }
        c += 3;
    }
    while c < to {
        let y = tile::<FMA, R, 1>(xs, [w.row(c)]);
        for (r, row) in y.iter().enumerate() {
            out.put(first + r, c, row[0]);
        }
        c += 1;
    }
}

#[inline(always)]
fn product_columns<const FMA: bool>(x: &Rows, w: &Rows, from: usize, to: usize, out: &Target) {
    let mut r = 0;
    while r + 4 <= x.rows {
        columns::<FMA, 4>(x, r, w, from, to, out);
        r += 4;
    }
    match x.rows - r {
        3 => columns::<FMA, 3>(x, r, w, from, to, out),
        2 => columns::<FMA, 2>(x, r, w, from, to, out),
        1 => columns::<FMA, 1>(x, r, w, from, to, out),
        _ => {}
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn product_columns_avx2(x: &Rows, w: &Rows, from: usize, to: usize, out: &Target) {
    product_columns::<true>(x, w, from, to, out);
}

fn product_range(x: &Rows, w: &Rows, from: usize, to: usize, out: &Target) {
    #[cfg(target_arch = "x86_64")]
    {
        if has_fma() {
            // SAFETY: the features were just detected.
            unsafe { product_columns_avx2(x, w, from, to, out) }
        } else {
            product_columns::<false>(x, w, from, to, out)
        }
    }
    // Everywhere else a fused multiply-add is part of the base instruction set, or (in the rare case
    // that it is not) correct but slow.
    #[cfg(not(target_arch = "x86_64"))]
    product_columns::<{ cfg!(target_arch = "aarch64") }>(x, w, from, to, out)
}

/// `out[r][c] = x.row(r) . w.row(c)`.
pub(crate) fn product(x: &Rows, w: &Rows, out: Out<'_>) {
    assert_eq!(x.width, w.width, "widths of a product");
    assert!(x.rows == 0 || (x.rows - 1) * out.stride + w.rows <= out.data.len());
    let target = Target { start: out.data.as_mut_ptr(), len: out.data.len(), stride: out.stride };
    let items = w.rows.div_ceil(COLUMNS_PER_ITEM);
    let run = |range: std::ops::Range<usize>| {
        for item in range {
            let from = item * COLUMNS_PER_ITEM;
            product_range(x, w, from, (from + COLUMNS_PER_ITEM).min(w.rows), &target);
        }
    };
    spread(items, x.rows * w.rows * x.width, run);
}

/// Runs `work` over `0..items`, on candle's own pool if it is worth it: a second pool beside it would
/// fight it for the cores.
fn spread(items: usize, multiply_adds: usize, work: impl Fn(std::ops::Range<usize>) + Sync) {
    if multiply_adds < PARALLEL_WORK || barrier_pool().n_workers() == 0 {
        work(0..items);
    } else {
        barrier_pool().execute_chunked(items, work);
    }
}

/// `out = x / rms(x) * weight`, row by row.
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let width = weight.len();
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let mut acc = [0f32; LANES];
        let mut chunks = x.chunks_exact(LANES);
        for c in &mut chunks {
            for i in 0..LANES {
                acc[i] += c[i] * c[i];
            }
        }
        for (i, v) in chunks.remainder().iter().enumerate() {
            acc[i] += v * v;
        }
        let scale = 1.0 / (total(&acc) / width as f32 + eps).sqrt();
        for i in 0..width {
            out[i] = x[i] * scale * weight[i];
        }
    }
}

/// e^x with a relative error below 3e-7, in operations that the compiler can run on whole vectors
/// (the library call cannot). Underflows to 0 below -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: the first has few bits, so that n times it is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer without a library call.
    const ROUND: f32 = 12_582_912.0;
    let n = (clamped * LOG2_E + ROUND) - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    // Taylor terms up to r^7; |r| <= 0.35 makes the rest less than half a unit in the last place.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    let power = f32::from_bits(((n as i32 + 127) << 23) as u32);
    if x < -87.0 { 0.0 } else { p * power }
}

/// `out = silu(gate) * up`, with gate and up beside each other in each row.
pub(crate) fn silu_times(gate_up: &[f32], width: usize, out: &mut [f32]) {
    for (row, out) in gate_up.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
        let (gate, up) = row.split_at(width);
        for i in 0..width {
            out[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
        }
    }
}

/// Cosines and sines for some positions: `[position][pair]`.
pub(crate) struct Rotation {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
}

impl Rotation {
    /// For positions `start..start + count`; costs one sine and cosine per pair, so no table over the
    /// whole context is kept.
    pub fn new(frequencies: &[f32], start: usize, count: usize) -> Self {
        let half = frequencies.len();
        let (mut cos, mut sin) = (Vec::with_capacity(count * half), Vec::with_capacity(count * half));
        for position in start..start + count {
            for f in frequencies {
                let (s, c) = (position as f32 * f).sin_cos();
                cos.push(c);
                sin.push(s);
            }
        }
        Rotation { cos, sin, half }
    }

    /// Turns the heads in `row` (consecutive, each `2 * half` wide) by the angles of the `i`-th
    /// position. Pairs are (j, j + half), as in Hugging Face models.
    pub fn apply(&self, i: usize, row: &mut [f32]) {
        let cos = &self.cos[i * self.half..(i + 1) * self.half];
        let sin = &self.sin[i * self.half..(i + 1) * self.half];
        for head in row.chunks_exact_mut(2 * self.half) {
            let (a, b) = head.split_at_mut(self.half);
            for j in 0..self.half {
                let (x, y) = (a[j], b[j]);
                a[j] = x * cos[j] - y * sin[j];
                b[j] = x * sin[j] + y * cos[j];
            }
        }
    }
}

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

/// Sum of the rows of `v`, each times its weight; 32 columns at a time stay in registers.
#[inline(always)]
fn weighted_sum_body<const FMA: bool>(p: &[f32], v: &Rows, put: &mut impl FnMut(usize, f32)) {
    const BLOCK: usize = 4;
    let mut c = 0;
    while c + BLOCK * LANES <= v.width {
        let mut acc = [[0f32; LANES]; BLOCK];
        for (j, weight) in p.iter().enumerate() {
            let row = &v.row(j)[c..c + BLOCK * LANES];
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
            let x = v.row(j)[c];
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
    use super::*;

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut s = seed.wrapping_mul(2_654_435_769).wrapping_add(1);
        (0..n)
            .map(|_| {
                s = s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (s >> 8) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect()
    }

    #[test]
    fn products_agree_with_the_definition_and_do_not_depend_on_the_number_of_rows() {
        for (m, n, k) in [(1, 1, 1), (2, 5, 7), (3, 50, 8), (4, 49, 33), (7, 97, 64), (13, 100, 352)] {
            let (x, w) = (noise(m * k, 1), noise(n * k, 2));
            let mut all = vec![0.0; m * n];
            let wr = Rows::new(&w, n, k);
            product(&Rows::new(&x, m, k), &wr, Out { data: &mut all, stride: n });
            for r in 0..m {
                let mut alone = vec![0.0; n];
                product(&Rows::new(&x[r * k..], 1, k), &wr, Out { data: &mut alone, stride: n });
                assert_eq!(alone, all[r * n..(r + 1) * n], "row {r} of {m} x {n} x {k}");
                for c in 0..n {
                    let want: f64 = (0..k).map(|i| f64::from(x[r * k + i]) * f64::from(w[c * k + i])).sum();
                    // 352 terms below 0.25 in f32: far less than 1e-5.
                    assert!((f64::from(all[r * n + c]) - want).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn the_exponential_is_accurate() {
        for i in -9000..=1000 {
            let x = i as f32 * 0.01;
            let want = f64::from(x).exp();
            let got = f64::from(exp(x));
            if x >= -87.0 {
                assert!((got / want - 1.0).abs() < 3e-7, "exp({x}) = {got}, not {want}");
            } else {
                assert_eq!(got, 0.0);
            }
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn attention_agrees_with_the_definition() {
        let (rows, start, heads, kv, d) = (3, 5, 4, 2, 10);
        let q = noise(rows * heads * d, 3);
        let (k, v) = (noise((start + rows) * kv * d, 4), noise((start + rows) * kv * d, 5));
        let mut out = vec![0.0; rows * heads * d];
        let a = Attention {
            q: &q, q_stride: heads * d, k: &k, v: &v, start, rows, heads, kv_heads: kv, head_dim: d,
        };
        a.run(&mut out);
        for r in 0..rows {
            for h in 0..heads {
                let dot = |j: usize| -> f64 {
                    (0..d).map(|i| f64::from(q[(r * heads + h) * d + i]) * f64::from(k[(j * kv + h / 2) * d + i])).sum()
                };
                let p: Vec<f64> = (0..=start + r).map(|j| (dot(j) / (d as f64).sqrt()).exp()).collect();
                let sum: f64 = p.iter().sum();
                for i in 0..d {
                    let want: f64 = (0..p.len()).map(|j| p[j] / sum * f64::from(v[(j * kv + h / 2) * d + i])).sum();
                    assert!((f64::from(out[(r * heads + h) * d + i]) - want).abs() < 1e-6);
                }
            }
        }
    }
}
