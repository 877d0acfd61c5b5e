//! Causal attention, a few rows at a time.
//!
//! Keys lie in blocks of sixteen positions. So the scores of sixteen positions are one vector, and
//! no sum runs across a vector. Neighbouring rows, and the heads that share a key head, share the
//! loads. Each row has exactly the keys that it may see. Each sum has the same order as when the
//! row is alone: scores along the head, values along the positions.
//!
//! # Cost
//!
//! A row at position p costs 2 (p + 1) multiply-adds per query element.
//!
//! # Alternatives considered
//!
//! - A mask over a rectangle of scores was rejected. It does twice the work in a prefill, and sums
//!   over a length that depends on which other rows run with it.
//! - Keys by position were rejected: each score is then a sum across a vector, which takes many
//!   more instructions.

use std::cell::Cell;
use std::ops::Range;

use half::f16;
use smallvec::SmallVec;

use super::rows::{Target, parallel_for};
use super::simd16;
use super::simd16::{LANES16, Simd16, Simd16Work};
use crate::threads;

thread_local! {
    /// The scores of the last rows on this thread, kept for their memory.
    static SCORES: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Number of positions whose keys lie together. Element c of the keys of position p is at `(p /
/// KEY_BLOCK * width + c) * KEY_BLOCK + p % KEY_BLOCK`, where `width` is that of all key heads.
pub(crate) const KEY_BLOCK: usize = LANES16;

/// Largest number of scores that a thread keeps the memory of.
const MOST_KEPT_SCORES: usize = 1 << 20;

/// Number of queries, rows times heads of a key head, that are worked on together: as many as fit
/// in the registers.
const QUERIES: usize = 6;

/// A number of a key or value as it is held. Products and sums are in single precision; every half
/// is a number of single precision, so reading one changes nothing.
pub(crate) trait KvElement: Copy + Default + Send + Sync {
    /// Returns the nearest number that can be held.
    fn of(x: f32) -> Self;
    fn single(self) -> f32;
    /// Loads a whole vector.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    unsafe fn load<V: Simd16>(from: *const Self) -> V;
}

impl KvElement for f32 {
    #[inline(always)]
    fn of(x: f32) -> Self {
        x
    }

    #[inline(always)]
    fn single(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn load<V: Simd16>(from: *const Self) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load(from) }
    }
}

impl KvElement for f16 {
    /// A number beyond the largest half becomes that: infinity would make every sum NaN.
    fn of(x: f32) -> Self {
        f16::from_f32(x.clamp(f16::MIN.to_f32_const(), f16::MAX.to_f32_const()))
    }

    fn single(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    unsafe fn load<V: Simd16>(from: *const Self) -> V {
        // SAFETY: by the caller's promise.
        unsafe { V::load_half(from) }
    }
}

/// The inputs of causal attention: rows of queries, and the keys and values by position.
pub(crate) struct Attention<'a, E> {
    /// Queries, `[row][head][head_dim]`, with `q_stride` floats per row.
    pub q: &'a [f32],
    pub q_stride: usize,
    /// `[block of positions][kv_head][head_dim][KEY_BLOCK]`. In the last block, positions after
    /// those of the rows may hold anything.
    pub k: &'a [E],
    /// `[position][kv_head][head_dim]`.
    pub v: &'a [E],
    /// Position of the first query row.
    pub start: usize,
    pub rows: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Multiplies the products of queries and keys.
    pub scale: f32,
    /// Number of positions that a row sees, itself among them; at least 1.
    pub window: usize,
}

impl<E: KvElement> Attention<'_, E> {
    /// Computes the attention of all parts and writes `[row][head][head_dim]`, the parts in order.
    ///
    /// Row i attends only to the last `window` of the positions `0..=start + i`. So no mask is
    /// needed, and half the work of a prefill is saved. All parts have the same heads. Rows of all
    /// parts are shared out together, so that many sequences of one row each keep all threads busy.
    pub(crate) fn run(parts: &[Attention<E>], out: &mut [f32]) {
        let Some(one) = parts.first() else { return };
        let (width, kv_heads) = (one.heads * one.head_dim, one.kv_heads);
        let rows_together = (QUERIES * kv_heads / one.heads).max(1);
        // For each part the index of its first row in the output and of its first tile of rows.
        let mut first = Vec::with_capacity(parts.len());
        let (mut rows, mut tiles, mut work) = (0, 0, 0);
        for a in parts {
            assert_eq!((a.heads * a.head_dim, a.kv_heads), (width, kv_heads), "heads of the parts");
            let (end, key_width) = (a.start + a.rows, kv_heads * a.head_dim);
            assert!(end.next_multiple_of(KEY_BLOCK) * key_width <= a.k.len() && end * key_width <= a.v.len());
            assert!(a.rows == 0 || (a.rows - 1) * a.q_stride + width <= a.q.len());
            first.push((rows, tiles));
            rows += a.rows;
            tiles += a.rows.div_ceil(rows_together);
            work += a.rows * end * width * 2;
        }
        assert_eq!(out.len(), rows * width);
        let target = Target { start: out.as_mut_ptr(), len: out.len(), stride: width };
        // With fewer items than threads, the heads of a key head are shared out as well.
        let group = one.heads / kv_heads;
        let splits = threads::number().div_ceil((tiles * kv_heads).max(1)).min(group);
        parallel_for(tiles * kv_heads * splits, work, |range| {
            let mut scores = SCORES.take();
            for item in range {
                let (item, split) = (item / splits, item % splits);
                let tile = item / kv_heads;
                let first_head = item % kv_heads * group;
                let heads = first_head + group * split / splits..first_head + group * (split + 1) / splits;
                let part = first.partition_point(|f| f.1 <= tile) - 1;
                let (a, (row, before)) = (&parts[part], first[part]);
                let from = (tile - before) * rows_together;
                let mut rows = from..(from + rows_together).min(a.rows);
                if a.start + rows.end > a.window {
                    // With a window, rows do not begin with the same key.
                    for r in std::mem::take(&mut rows) {
                        a.some_rows(r..r + 1, row + r, heads.clone(), &mut scores, &target);
                    }
                } else {
                    a.some_rows(rows, row + from, heads, &mut scores, &target);
                }
            }
            if scores.capacity() <= MOST_KEPT_SCORES {
                SCORES.set(scores);
            }
        });
    }

    /// Computes some heads of some rows, which share a key head, and writes them to rows `to` and
    /// following.
    fn some_rows(
        &self,
        rows: Range<usize>,
        to: usize,
        heads: Range<usize>,
        scores: &mut Vec<f32>,
        out: &Target,
    ) {
        let (kv_head, d) = (heads.start / (self.heads / self.kv_heads), self.head_dim);
        let from = (self.start + rows.start + 1).saturating_sub(self.window);
        let blocks = from / KEY_BLOCK..(self.start + rows.end).div_ceil(KEY_BLOCK);
        let (origin, stride) = (blocks.start * KEY_BLOCK, blocks.len() * KEY_BLOCK);
        let mut queries = SmallVec::<[Query; 8]>::new();
        for (i, row) in rows.enumerate() {
            for head in heads.clone() {
                let q = &self.q[row * self.q_stride + head * d..][..d];
                queries.push(Query { q, end: self.start + row + 1, row: to + i, column: head * d });
            }
        }
        // Every element is written before it is read.
        scores.resize(scores.len().max(queries.len() * stride), 0.0);
        let scores = &mut scores[..queries.len() * stride];
        simd16::run(Scores { a: self, queries: &queries, kv_head, blocks, out: scores, stride });
        let scale = self.scale;
        for (query, s) in queries.iter().zip(scores.chunks_exact_mut(stride)) {
            simd16::run(Softmax { s: &mut s[from - origin..query.end - origin], scale });
        }
        simd16::run(WeightedSums {
            a: self,
            queries: &queries,
            kv_head,
            from,
            origin,
            weights: scores,
            stride,
            out,
        });
    }
}

/// One head of one row.
struct Query<'a> {
    q: &'a [f32],
    /// End of the positions that it sees.
    end: usize,
    /// Row and column of the result.
    row: usize,
    column: usize,
}

/// Products of queries with the keys of some blocks: `out[query][position]`, from the first of the
/// blocks on.
struct Scores<'a, E> {
    a: &'a Attention<'a, E>,
    queries: &'a [Query<'a>],
    kv_head: usize,
    blocks: std::ops::Range<usize>,
    out: &'a mut [f32],
    stride: usize,
}

impl<E: KvElement> Scores<'_, E> {
    /// Computes R queries from `first` on, B blocks at a time; returns R.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn queries<V: Simd16, const R: usize, const B: usize>(&mut self, first: usize) -> usize {
        let mut at = self.blocks.start;
        // SAFETY: by the caller's promise.
        unsafe {
            while at + B <= self.blocks.end {
                self.tile::<V, R, B>(first, at);
                at += B;
            }
            while at < self.blocks.end {
                self.tile::<V, R, 1>(first, at);
                at += 1;
            }
        }
        R
    }

    /// # Safety
    /// As for all of [`Simd16`].
    // Indices, since closures and iterators over vectors lack the instructions of the function that
    // they are inlined into.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn tile<V: Simd16, const R: usize, const B: usize>(&mut self, first: usize, block: usize) {
        let (d, width) = (self.a.head_dim, self.a.kv_heads * self.a.head_dim);
        let keys = &self.a.k[block * width * KEY_BLOCK..(block + B) * width * KEY_BLOCK];
        let out = &mut self.out[first * self.stride..(first + R) * self.stride];
        let at = (block - self.blocks.start) * KEY_BLOCK;
        assert!(at + B * KEY_BLOCK <= self.stride && (self.kv_head + 1) * d <= width);
        let queries: [&[f32]; R] = std::array::from_fn(|r| self.queries[first + r].q);
        assert!(queries.iter().all(|q| q.len() == d));
        // SAFETY: in bounds by the lengths above; and by the caller's promise.
        unsafe {
            let keys = keys.as_ptr().add(self.kv_head * d * KEY_BLOCK);
            let mut acc = [[V::splat(0.0); B]; R];
            for i in 0..d {
                let mut k = [V::splat(0.0); B];
                for b in 0..B {
                    k[b] = E::load(keys.add((b * width + i) * KEY_BLOCK));
                }
                for r in 0..R {
                    let q = V::splat(*queries[r].get_unchecked(i));
                    for b in 0..B {
                        acc[r][b] = acc[r][b].multiply_add(q, k[b]);
                    }
                }
            }
            for r in 0..R {
                for b in 0..B {
                    acc[r][b].store(out.as_mut_ptr().add(r * self.stride + at + b * KEY_BLOCK));
                }
            }
        }
    }
}

impl<E: KvElement> Simd16Work for Scores<'_, E> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(mut self) {
        let mut i = 0;
        // SAFETY: by the caller's promise.
        unsafe {
            // Enough sums to hide the latency of a multiply-add, as far as there are registers.
            while i < self.queries.len() {
                let left = self.queries.len() - i;
                i += match (left, V::HAS_32_REGISTERS) {
                    (1, _) => self.queries::<V, 1, 4>(i),
                    (2, true) => self.queries::<V, 2, 4>(i),
                    (2, false) => self.queries::<V, 2, 2>(i),
                    (3, true) => self.queries::<V, 3, 4>(i),
                    (3, false) => self.queries::<V, 3, 1>(i),
                    (4 | 5 | 7 | 8, true) => self.queries::<V, 4, 2>(i),
                    (4 | 5 | 7 | 8, false) => self.queries::<V, 4, 1>(i),
                    (_, true) => self.queries::<V, 6, 2>(i),
                    (_, false) => self.queries::<V, 6, 1>(i),
                };
            }
        }
    }
}

/// Turns scores into weights that add up to 1.
struct Softmax<'a> {
    s: &'a mut [f32],
    scale: f32,
}

impl Simd16Work for Softmax<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let (s, n) = (self.s.as_mut_ptr(), self.s.len());
        let whole = n - n % LANES16;
        // SAFETY: in bounds by these lengths; and by the caller's promise.
        unsafe {
            // Lanes after the last score get the weight 0.
            let last = V::load_part(s.add(whole), n - whole, f32::NEG_INFINITY);
            let mut most = last;
            for i in (0..whole).step_by(LANES16) {
                most = most.max(V::load(s.add(i)));
            }
            let (minus, by) = (V::splat(-most.reduce_max()), V::splat(self.scale));
            let mut sum = V::splat(0.0);
            for i in (0..whole).step_by(LANES16) {
                let e = V::load(s.add(i)).add(minus).mul(by).exp();
                e.store(s.add(i));
                sum = sum.add(e);
            }
            let last = last.add(minus).mul(by).exp();
            let inverse = V::splat(1.0 / sum.add(last).reduce_sum());
            for i in (0..whole).step_by(LANES16) {
                V::load(s.add(i)).mul(inverse).store(s.add(i));
            }
            last.mul(inverse).store_part(s.add(whole), n - whole);
        }
    }
}

/// For each query the sum of the values times their weights, in the order of the positions.
struct WeightedSums<'a, E> {
    a: &'a Attention<'a, E>,
    queries: &'a [Query<'a>],
    kv_head: usize,
    /// The first position that the queries see, and the position of the first weight.
    from: usize,
    origin: usize,
    /// `[query][position]`.
    weights: &'a [f32],
    stride: usize,
    out: &'a Target,
}

impl<E: KvElement> WeightedSums<'_, E> {
    /// Computes all columns of R queries from `first` on, C vectors at a time; returns R.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn queries<V: Simd16, const R: usize, const C: usize>(&self, first: usize) -> usize {
        let (d, mut at) = (self.a.head_dim, 0);
        // SAFETY: by the caller's promise.
        unsafe {
            while at + C * LANES16 <= d {
                self.columns::<V, R, C>(first, at);
                at += C * LANES16;
            }
            while at + LANES16 <= d {
                self.columns::<V, R, 1>(first, at);
                at += LANES16;
            }
        }
        let width = self.a.kv_heads * d;
        for (i, query) in self.queries.iter().enumerate().skip(first).take(R) {
            for c in at..d {
                let mut sum = 0.0;
                for j in self.from..query.end {
                    let value = self.a.v[j * width + self.kv_head * d + c].single();
                    sum += self.weights[i * self.stride + j - self.origin] * value;
                }
                self.out.put(query.row, query.column + c, sum);
            }
        }
        R
    }

    /// Computes C vectors of columns from `at` on, with the sums in registers.
    ///
    /// # Safety
    /// The columns exist; and as for all of [`Simd16`].
    // Indices, since closures and iterators over vectors lack the instructions of the function that
    // they are inlined into.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn columns<V: Simd16, const R: usize, const C: usize>(&self, first: usize, at: usize) {
        let (d, width) = (self.a.head_dim, self.a.kv_heads * self.a.head_dim);
        let ends: [usize; R] = std::array::from_fn(|r| self.queries[first + r].end);
        // Rows are in order, so the first query sees the fewest.
        let (common, longest) = (ends[0], ends[R - 1]);
        let weights = &self.weights[first * self.stride..(first + R) * self.stride];
        assert!(ends.is_sorted() && self.origin <= self.from && longest - self.origin <= self.stride);
        let values = &self.a.v[..longest * width];
        // SAFETY: all positions are below `longest`, and the columns exist by the caller's promise.
        unsafe {
            let values = values.as_ptr().add(self.kv_head * d + at);
            let mut acc = [[V::splat(0.0); C]; R];
            for j in self.from..common {
                let mut v = [V::splat(0.0); C];
                for c in 0..C {
                    v[c] = E::load(values.add(j * width + c * LANES16));
                }
                for r in 0..R {
                    let weight = V::splat(*weights.as_ptr().add(r * self.stride + j - self.origin));
                    for c in 0..C {
                        acc[r][c] = acc[r][c].multiply_add(weight, v[c]);
                    }
                }
            }
            // Positions that only some of the rows see.
            for r in 0..R {
                for j in common..ends[r] {
                    let weight = V::splat(*weights.as_ptr().add(r * self.stride + j - self.origin));
                    for c in 0..C {
                        let v = E::load(values.add(j * width + c * LANES16));
                        acc[r][c] = acc[r][c].multiply_add(weight, v);
                    }
                }
                let query = &self.queries[first + r];
                for c in 0..C {
                    self.out.put_wide(query.row, query.column + at + c * LANES16, acc[r][c]);
                }
            }
        }
    }
}

impl<E: KvElement> Simd16Work for WeightedSums<'_, E> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let mut i = 0;
        // SAFETY: by the caller's promise.
        unsafe {
            while i < self.queries.len() {
                i += match (self.queries.len() - i, V::HAS_32_REGISTERS) {
                    (1, _) => self.queries::<V, 1, 4>(i),
                    (2, true) => self.queries::<V, 2, 4>(i),
                    (2, false) => self.queries::<V, 2, 2>(i),
                    (3, true) => self.queries::<V, 3, 4>(i),
                    (3, false) => self.queries::<V, 3, 2>(i),
                    (4 | 5 | 7 | 8, true) => self.queries::<V, 4, 4>(i),
                    (4 | 5 | 7 | 8, false) => self.queries::<V, 4, 1>(i),
                    (_, true) => self.queries::<V, 6, 4>(i),
                    (_, false) => self.queries::<V, 6, 1>(i),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn attention_agrees_with_the_definition() {
        // Heads of less than a vector, of some vectors, and of some and a part; key heads of one to
        // seven heads.
        for (rows, start, heads, kv, d) in
            [(3, 5, 4, 2, 10), (7, 30, 4, 2, 64), (1, 16, 14, 2, 64), (9, 0, 3, 3, 40), (2, 100, 7, 1, 128)]
        {
            agree(rows, start, heads, kv, d);
        }
    }

    #[test]
    fn halves_are_read_as_the_same_numbers() {
        for (rows, start, heads, kv, d) in [(3, 5, 4, 2, 10), (7, 30, 4, 2, 64), (9, 0, 3, 3, 40)] {
            let q = noise(rows * heads * d, 3);
            let halves = |n: usize, seed| -> Vec<f16> { noise(n, seed).into_iter().map(f16::of).collect() };
            let singles = |halves: &[f16]| -> Vec<f32> { halves.iter().map(|x| x.single()).collect() };
            let keys = halves((start + rows).next_multiple_of(KEY_BLOCK) * kv * d, 4);
            let values = halves((start + rows) * kv * d, 5);
            for window in [3, usize::MAX] {
                fn run<E: KvElement>(
                    (q, k, v): (&[f32], &[E], &[E]),
                    [rows, start, heads, kv_heads, head_dim, window]: [usize; 6],
                ) -> Vec<f32> {
                    let mut out = vec![0.0; rows * heads * head_dim];
                    let q_stride = heads * head_dim;
                    let all = Attention {
                        q,
                        q_stride,
                        k,
                        v,
                        start,
                        rows,
                        heads,
                        kv_heads,
                        head_dim,
                        window,
                        scale: 0.3,
                    };
                    Attention::run(&[all], &mut out);
                    out
                }
                let shape = [rows, start, heads, kv, d, window];
                let want = run((&q, &singles(&keys), &singles(&values)), shape);
                assert_eq!(run((&q, &keys, &values), shape), want);
            }
        }
        assert_eq!(f16::of(1e9), f16::MAX);
        assert_eq!(f16::of(-1e9), f16::MIN);
        assert_eq!(f16::of(0.1).single(), 0.099975586);
    }

    fn agree(rows: usize, start: usize, heads: usize, kv: usize, d: usize) {
        let q = noise(rows * heads * d, 3);
        let (k, v) = (noise((start + rows) * kv * d, 4), noise((start + rows) * kv * d, 5));
        // Keys after the last one never affect a result.
        let mut keys = vec![f32::NAN; (start + rows).next_multiple_of(KEY_BLOCK) * kv * d];
        for (i, k) in k.iter().enumerate() {
            let (p, c) = (i / (kv * d), i % (kv * d));
            keys[(p / KEY_BLOCK * kv * d + c) * KEY_BLOCK + p % KEY_BLOCK] = *k;
        }
        for window in [1, 2, 6, 7, 8, 9, 17, usize::MAX] {
            let mut out = vec![0.0; rows * heads * d];
            let q_stride = heads * d;
            let part = |first: usize, rows: usize| Attention {
                q: &q[first * q_stride..],
                q_stride,
                k: &keys,
                v: &v,
                start: start + first,
                rows,
                heads,
                kv_heads: kv,
                head_dim: d,
                scale: 0.3,
                window,
            };
            Attention::run(&[part(0, rows)], &mut out);
            let mut alone = vec![0.0; rows * heads * d];
            for (r, alone) in alone.chunks_exact_mut(q_stride).enumerate() {
                Attention::run(&[part(r, 1)], alone);
            }
            assert_eq!(out, alone, "rows do not depend on each other");
            let mut parts = vec![0.0; rows * heads * d];
            Attention::run(&[part(0, rows / 2), part(rows / 2, rows - rows / 2)], &mut parts);
            assert_eq!(out, parts);
            for (r, h) in (0..rows).flat_map(|r| (0..heads).map(move |h| (r, h))) {
                let dot = |j: usize| -> f64 {
                    let (q, k) = (&q[(r * heads + h) * d..][..d], &k[(j * kv + h / (heads / kv)) * d..][..d]);
                    q.iter().zip(k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
                };
                let here = start + r;
                let seen: Vec<usize> = (0..=here).filter(|j| here - j < window).collect();
                let p: Vec<f64> = seen.iter().map(|j| (dot(*j) * f64::from(0.3f32)).exp()).collect();
                let sum: f64 = p.iter().sum();
                for i in 0..d {
                    let value = |j: &usize| f64::from(v[(j * kv + h / (heads / kv)) * d + i]);
                    let want: f64 = p.iter().zip(&seen).map(|(p, j)| p / sum * value(j)).sum();
                    // A hundred terms below 1 in f32.
                    assert!((f64::from(out[(r * heads + h) * d + i]) - want).abs() < 1e-6);
                }
            }
        }
    }
}
