//! Rows times a matrix, in single precision or with 8-bit weights.
//!
//! m rows times an n x k matrix cost m * n * k multiply-adds and, for small m, the time to read the
//! matrix. 8-bit weights are widened on the way, exactly, and meet activations in full precision: the
//! result has the bits of the same product with the widened matrix. Rounding the activations to 8 bits as
//! well, as quantised kernels usually do, was rejected: it is an error of its own, and without the newest
//! instructions no faster for several rows (candle's is three to four times slower for eight).

#[cfg(target_arch = "x86_64")]
use super::has_fma;
use super::{LANES, Lanes, Target, lanes, multiply_add, spread, total};

/// Columns that one work item covers, so that their weights stay in the second-level cache while the
/// rows pass by.
const COLUMNS_PER_ITEM: usize = 48;
/// From this number of rows on, the 8-bit weights of an item are widened once and kept for all rows.
const ROWS_TO_WIDEN: usize = 16;
/// Weights that share a scale.
pub(crate) const Q8_BLOCK: usize = 32;

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
}

/// Where the results go: `rows` rows, `stride` apart.
pub(crate) struct Out<'a> {
    pub data: &'a mut [f32],
    pub stride: usize,
}

/// A matrix of 8-bit weights by rows; weight i of a row is `quants[i] * scales[i / 32]`.
#[derive(Clone, Copy)]
pub(crate) struct Q8<'a> {
    pub quants: &'a [i8],
    pub scales: &'a [f32],
    pub rows: usize,
    pub width: usize,
}

/// One row of a weight matrix.
trait Row: Copy {
    /// Elements `at..at + LANES`.
    fn lanes(&self, at: usize) -> Lanes;
    /// The elements from `at` to the end, fewer than `LANES`, and zeros.
    fn last_lanes(&self, at: usize) -> Lanes;
}

/// A weight matrix whose rows can be taken.
trait Weights: Copy {
    type Row: Row;
    fn row(&self, i: usize) -> Self::Row;
}

impl Row for &[f32] {
    #[inline(always)]
    fn lanes(&self, at: usize) -> Lanes {
        lanes(self, at)
    }

    #[inline(always)]
    fn last_lanes(&self, at: usize) -> Lanes {
        let mut v = [0.0; LANES];
        v[..self.len() - at].copy_from_slice(&self[at..]);
        v
    }
}

impl<'a> Weights for Rows<'a> {
    type Row = &'a [f32];

    #[inline(always)]
    fn row(&self, i: usize) -> &'a [f32] {
        &self.data[i * self.stride..i * self.stride + self.width]
    }
}

#[derive(Clone, Copy)]
struct Q8Row<'a> {
    quants: &'a [i8],
    scales: &'a [f32],
}

impl Row for Q8Row<'_> {
    #[inline(always)]
    fn lanes(&self, at: usize) -> Lanes {
        let scale = self.scales[at / Q8_BLOCK];
        let q = &self.quants[at..at + LANES];
        let mut v = [0.0; LANES];
        for i in 0..LANES {
            // Exact: 8 bits times the 11 of a half-precision scale.
            v[i] = f32::from(q[i]) * scale;
        }
        v
    }

    #[inline(always)]
    fn last_lanes(&self, _: usize) -> Lanes {
        // Rows are whole blocks, so there is no rest.
        [0.0; LANES]
    }
}

impl<'a> Weights for Q8<'a> {
    type Row = Q8Row<'a>;

    #[inline(always)]
    fn row(&self, i: usize) -> Q8Row<'a> {
        let blocks = self.width / Q8_BLOCK;
        Q8Row {
            quants: &self.quants[i * self.width..(i + 1) * self.width],
            scales: &self.scales[i * blocks..(i + 1) * blocks],
        }
    }
}

impl Q8<'_> {
    /// Writes rows `from..to` in single precision.
    #[inline(always)]
    fn widen_body(&self, from: usize, to: usize, out: &mut [f32]) {
        for (i, out) in (from..to).zip(out.chunks_exact_mut(self.width)) {
            let row = self.row(i);
            for (j, out) in out.chunks_exact_mut(LANES).enumerate() {
                out.copy_from_slice(&row.lanes(j * LANES));
            }
        }
    }

    pub fn widen(&self, from: usize, to: usize, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if has_fma() {
            // SAFETY: the features were just detected.
            return unsafe { widen_avx2(self, from, to, out) };
        }
        self.widen_body(from, to, out);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn widen_avx2(w: &Q8, from: usize, to: usize, out: &mut [f32]) {
    w.widen_body(from, to, out);
}

/// R rows of x times C rows of w.
#[inline(always)]
fn tile<const FMA: bool, const R: usize, const C: usize, W: Row>(x: [&[f32]; R], w: [W; C]) -> [[f32; C]; R] {
    let mut acc = [[[0f32; LANES]; C]; R];
    let k = x[0].len();
    let whole = k - k % LANES;
    // Equal lengths, so that the bounds checks leave the loop.
    let x = x.map(|s| &s[..k]);
    let mut at = 0;
    while at < whole {
        let b: [Lanes; C] = std::array::from_fn(|c| w[c].lanes(at));
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
            let a = x[r].last_lanes(at);
            for c in 0..C {
                multiply_add::<FMA>(&mut acc[r][c], &a, &w[c].last_lanes(at));
            }
        }
    }
    acc.map(|row| row.map(|v| total(&v)))
}

#[inline(always)]
fn columns<const FMA: bool, const R: usize, const C: usize, W: Weights>(
    x: &Rows,
    first: usize,
    w: &W,
    (from, to): (usize, usize),
    out: &Target,
    out_from: usize,
) {
    let xs: [&[f32]; R] = std::array::from_fn(|r| x.row(first + r));
    let mut c = from;
    while c + C <= to {
        let y = tile::<FMA, R, C, W::Row>(xs, std::array::from_fn(|i| w.row(c + i)));
        for (r, row) in y.iter().enumerate() {
            for (i, v) in row.iter().enumerate() {
                out.put(first + r, out_from + c + i, *v);
            }
        }
        c += C;
    }
    while c < to {
        let y = tile::<FMA, R, 1, W::Row>(xs, [w.row(c)]);
        for (r, row) in y.iter().enumerate() {
            out.put(first + r, out_from + c, row[0]);
        }
        c += 1;
    }
}

/// The tiles keep eight to twelve sums in registers: enough to hide the latency of a multiply-add.
#[inline(always)]
fn all_rows<const FMA: bool, W: Weights>(
    x: &Rows,
    w: &W,
    range: (usize, usize),
    out: &Target,
    out_from: usize,
) {
    let mut r = 0;
    while r + 4 <= x.rows {
        columns::<FMA, 4, 3, W>(x, r, w, range, out, out_from);
        r += 4;
    }
    match x.rows - r {
        3 => columns::<FMA, 3, 3, W>(x, r, w, range, out, out_from),
        2 => columns::<FMA, 2, 4, W>(x, r, w, range, out, out_from),
        1 => columns::<FMA, 1, 8, W>(x, r, w, range, out, out_from),
        _ => {}
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn all_rows_avx2<W: Weights>(x: &Rows, w: &W, range: (usize, usize), out: &Target, out_from: usize) {
    all_rows::<true, W>(x, w, range, out, out_from);
}

fn dispatch<W: Weights>(x: &Rows, w: &W, range: (usize, usize), out: &Target, out_from: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if has_fma() {
            // SAFETY: the features were just detected.
            unsafe { all_rows_avx2(x, w, range, out, out_from) }
        } else {
            all_rows::<false, W>(x, w, range, out, out_from)
        }
    }
    // On ARM a fused multiply-add is a basic instruction; elsewhere it might be a slow library call.
    #[cfg(not(target_arch = "x86_64"))]
    all_rows::<{ cfg!(target_arch = "aarch64") }, W>(x, w, range, out, out_from)
}

/// Columns `from..to` of a product, on this thread.
pub(super) fn product_range(x: &Rows, w: &Rows, from: usize, to: usize, out: &Target) {
    dispatch(x, w, (from, to), out, 0);
}

fn in_items(x: &Rows, outputs: usize, out: Out<'_>, work: impl Fn(usize, usize, &Target) + Sync) {
    assert!(x.rows == 0 || (x.rows - 1) * out.stride + outputs <= out.data.len());
    let target = Target { start: out.data.as_mut_ptr(), len: out.data.len(), stride: out.stride };
    spread(outputs.div_ceil(COLUMNS_PER_ITEM), x.rows * outputs * x.width, |range| {
        for item in range {
            let from = item * COLUMNS_PER_ITEM;
            work(from, (from + COLUMNS_PER_ITEM).min(outputs), &target);
        }
    });
}

/// `out[r][c] = x.row(r) . w.row(c)`.
pub(crate) fn product(x: &Rows, w: &Rows, out: Out<'_>) {
    assert_eq!(x.width, w.width, "widths of a product");
    in_items(x, w.rows, out, |from, to, target| product_range(x, w, from, to, target));
}

/// The same with 8-bit weights.
pub(crate) fn product_q8(x: &Rows, w: &Q8, out: Out<'_>) {
    assert_eq!(x.width, w.width, "widths of a product");
    assert!(w.width.is_multiple_of(Q8_BLOCK));
    in_items(x, w.rows, out, |from, to, target| {
        if x.rows < ROWS_TO_WIDEN {
            return dispatch(x, w, (from, to), target, 0);
        }
        let mut wide = vec![0.0; (to - from) * w.width];
        w.widen(from, to, &mut wide);
        dispatch(x, &Rows::new(&wide, to - from, w.width), (0, to - from), target, from);
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

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
    fn eight_bit_products_have_the_bits_of_the_widened_matrix() {
        for (m, n, k) in [(1, 1, 32), (2, 50, 64), (5, 97, 96), (16, 49, 352), (33, 8, 32)] {
            let x = noise(m * k, 1);
            let quants: Vec<i8> = noise(n * k, 2).iter().map(|v| (v * 254.0) as i8).collect();
            let scales: Vec<f32> = noise(n * k / 32, 3);
            let wide: Vec<f32> =
                quants.iter().enumerate().map(|(i, q)| f32::from(*q) * scales[i / 32]).collect();
            let x = Rows::new(&x, m, k);
            let (mut want, mut got) = (vec![0.0; m * n], vec![0.0; m * n]);
            product(&x, &Rows::new(&wide, n, k), Out { data: &mut want, stride: n });
            let w = Q8 { quants: &quants, scales: &scales, rows: n, width: k };
            product_q8(&x, &w, Out { data: &mut got, stride: n });
            assert_eq!(got, want, "{m} x {n} x {k}");
        }
    }
}
