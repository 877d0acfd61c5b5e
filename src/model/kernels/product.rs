//! Rows times a matrix, in single precision or with quantised weights.
//!
//! m rows times an n x k matrix cost m * n * k multiply-adds and, for small m, the time to read the
//! matrix. Quantised weights of few bits are widened on the way, exactly, and meet activations in full
//! precision: the result has the bits of the same product with the widened matrix. For those of 8 bits there
//! is a way with half the instructions; see [`super::eight_bit`].

use std::cell::RefCell;

use super::vector::{LANES, Vector, Work, run};
use super::{Target, spread};

/// Columns that one work item covers, so that their weights stay in the caches of the core while the rows
/// pass by; even the widened ones of a narrow matrix in that of the first level.
const COLUMNS_PER_ITEM: usize = 48;
/// From this number of rows on, the quantised weights of an item are widened once and kept for all rows.
const ROWS_TO_WIDEN: usize = 16;

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

/// One row of a weight matrix.
pub(crate) trait Row: Copy {
    /// Number of elements.
    fn len(&self) -> usize;
    /// Elements `at..at + LANES`.
    ///
    /// # Safety
    /// `at + LANES` must not exceed the length; and as for all of [`Vector`].
    unsafe fn lanes<V: Vector>(&self, at: usize) -> V;
    /// The elements from `at` to the end, fewer than `LANES`, and zeros.
    ///
    /// # Safety
    /// `at` must not exceed the length; and as for all of [`Vector`].
    unsafe fn last_lanes<V: Vector>(&self, at: usize) -> V;
}

/// A weight matrix whose rows can be taken.
pub(crate) trait Weights: Copy {
    type Row: Row;
    fn row(&self, i: usize) -> Self::Row;
}

impl Row for &[f32] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    unsafe fn lanes<V: Vector>(&self, at: usize) -> V {
        // SAFETY: in bounds by the caller's promise.
        unsafe { V::load(self.as_ptr().add(at)) }
    }

    #[inline(always)]
    unsafe fn last_lanes<V: Vector>(&self, at: usize) -> V {
        // SAFETY: in bounds by the caller's promise.
        unsafe { V::load_part(self.as_ptr().add(at), <[f32]>::len(self) - at) }
    }
}

impl<'a> Weights for Rows<'a> {
    type Row = &'a [f32];

    #[inline(always)]
    fn row(&self, i: usize) -> &'a [f32] {
        &self.data[i * self.stride..i * self.stride + self.width]
    }
}

/// A matrix of quantised weights: rows are whole blocks, so there are no last lanes.
pub(crate) trait Packed: Weights {
    fn rows(&self) -> usize;
    fn width(&self) -> usize;
}

/// Writes rows `from..to` in single precision.
pub(crate) fn widen<W: Packed>(w: &W, from: usize, to: usize, out: &mut [f32]) {
    assert!(w.width().is_multiple_of(LANES) && to <= w.rows() && out.len() == (to - from) * w.width());
    run(Widen { w, from, to, out });
}

struct Widen<'a, W> {
    w: &'a W,
    from: usize,
    to: usize,
    out: &'a mut [f32],
}

impl<W: Packed> Work for Widen<'_, W> {
    #[inline(always)]
    unsafe fn with<V: Vector>(self) {
        for (i, out) in (self.from..self.to).zip(self.out.chunks_exact_mut(self.w.width())) {
            let row = self.w.row(i);
            for (j, out) in out.chunks_exact_mut(LANES).enumerate() {
                // SAFETY: rows are whole blocks, and `out` has as many groups of lanes as the row.
                unsafe { row.lanes::<V>(j * LANES).store(out.as_mut_ptr()) };
            }
        }
    }
}

/// R rows of x times C rows of w.
///
/// # Safety
/// As for all of [`Vector`].
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize, const C: usize, W: Row>(
    x: [&[f32]; R],
    w: [W; C],
) -> [[f32; C]; R] {
    let k = x[0].len();
    assert!(x.iter().all(|s| s.len() == k) && w.iter().all(|s| s.len() == k));
    let whole = k - k % LANES;
    let mut y = [[0f32; C]; R];
    // SAFETY: `at + LANES <= whole <= k`, the length of every row, and then `at <= k`.
    unsafe {
        let mut acc = [[V::splat(0.0); C]; R];
        let mut at = 0;
        while at < whole {
            let mut b = [V::splat(0.0); C];
            for c in 0..C {
                b[c] = w[c].lanes(at);
            }
            for r in 0..R {
                let a: V = x[r].lanes(at);
                for c in 0..C {
                    acc[r][c] = acc[r][c].multiply_add(a, b[c]);
                }
            }
            at += LANES;
        }
        if at < k {
            for r in 0..R {
                let a: V = x[r].last_lanes(at);
                for c in 0..C {
                    acc[r][c] = acc[r][c].multiply_add(a, w[c].last_lanes(at));
                }
            }
        }
        let (sums, out) = (acc.as_flattened(), y.as_flattened_mut());
        let mut i = 0;
        while i + 4 <= R * C {
            out[i..i + 4].copy_from_slice(&V::totals([sums[i], sums[i + 1], sums[i + 2], sums[i + 3]]));
            i += 4;
        }
        while i < R * C {
            out[i] = sums[i].total();
            i += 1;
        }
    }
    y
}

/// Columns `from..to` of all rows; column c goes to column `out_from + c` of the target.
struct Columns<'a, W> {
    x: &'a Rows<'a>,
    w: &'a W,
    from: usize,
    to: usize,
    out: &'a Target,
    out_from: usize,
}

impl<W: Weights> Columns<'_, W> {
    /// R rows from `first` on; returns R.
    ///
    /// # Safety
    /// As for all of [`Vector`].
    #[inline(always)]
    unsafe fn rows<V: Vector, const R: usize, const C: usize>(&self, first: usize) -> usize {
        let xs: [&[f32]; R] = std::array::from_fn(|r| self.x.row(first + r));
        let mut c = self.from;
        while c + C <= self.to {
            // SAFETY: by the caller's promise.
            let y = unsafe { tile::<V, R, C, W::Row>(xs, std::array::from_fn(|i| self.w.row(c + i))) };
            for (r, row) in y.iter().enumerate() {
                self.out.put_all(first + r, self.out_from + c, row);
            }
            c += C;
        }
        while c < self.to {
            // SAFETY: by the caller's promise.
            let y = unsafe { tile::<V, R, 1, W::Row>(xs, [self.w.row(c)]) };
            for (r, row) in y.iter().enumerate() {
                self.out.put(first + r, self.out_from + c, row[0]);
            }
            c += 1;
        }
        R
    }
}

impl<W: Weights> Work for Columns<'_, W> {
    /// The tiles keep eight to twelve sums in registers: enough to hide the latency of a multiply-add. A
    /// tile of few rows costs as much as one of more, so the rows are cut into tiles of like size: seven
    /// as four and three, not as six and one.
    #[inline(always)]
    unsafe fn with<V: Vector>(self) {
        let mut r = 0;
        // SAFETY: by the caller's promise.
        unsafe {
            while r < self.x.rows {
                let left = self.x.rows - r;
                r += match left {
                    1 => self.rows::<V, 1, 8>(r),
                    2 => self.rows::<V, 2, 4>(r),
                    3 => self.rows::<V, 3, 3>(r),
                    4 | 7 | 8 => self.rows::<V, 4, 3>(r),
                    5 | 9 => self.rows::<V, 5, 2>(r),
                    _ => self.rows::<V, 6, 2>(r),
                };
            }
        }
    }
}

/// Columns `from..to` of a product, on this thread.
pub(super) fn product_range(x: &Rows, w: &Rows, from: usize, to: usize, out: &Target) {
    run(Columns { x, w, from, to, out, out_from: 0 });
}

/// Work by ranges of `size` outputs, on as many threads as it is worth. Ranges begin at multiples of `size`.
pub(super) fn in_items(
    x: &Rows,
    outputs: usize,
    size: usize,
    out: Out<'_>,
    work: impl Fn(usize, usize, &Target) + Sync,
) {
    assert!(x.rows == 0 || (x.rows - 1) * out.stride + outputs <= out.data.len());
    let target = Target { start: out.data.as_mut_ptr(), len: out.data.len(), stride: out.stride };
    spread(outputs.div_ceil(size), x.rows * outputs * x.width, |range| {
        for item in range {
            let from = item * size;
            work(from, (from + size).min(outputs), &target);
        }
    });
}

/// `out[r][c] = x.row(r) . w.row(c)`.
pub(crate) fn product(x: &Rows, w: &Rows, out: Out<'_>) {
    assert_eq!(x.width, w.width, "widths of a product");
    in_items(x, w.rows, COLUMNS_PER_ITEM, out, |from, to, target| product_range(x, w, from, to, target));
}

/// Some columns of one row's product: `out[i] = x . w.row(columns[i])`.
struct Chosen<'a, W> {
    x: &'a [f32],
    w: &'a W,
    columns: &'a [u32],
    out: &'a mut [f32],
}

impl<W: Weights> Work for Chosen<'_, W> {
    #[inline(always)]
    unsafe fn with<V: Vector>(self) {
        const C: usize = 8;
        let row = |c: u32| self.w.row(c as usize);
        let mut parts = self.columns.chunks_exact(C);
        let mut out = self.out.chunks_exact_mut(C);
        // SAFETY: by the caller's promise.
        unsafe {
            for (c, out) in parts.by_ref().zip(out.by_ref()) {
                let y = tile::<V, 1, C, W::Row>([self.x], std::array::from_fn(|i| row(c[i])));
                out.copy_from_slice(&y[0]);
            }
            for (c, out) in parts.remainder().iter().zip(out.into_remainder()) {
                *out = tile::<V, 1, 1, W::Row>([self.x], [row(*c)])[0][0];
            }
        }
    }
}

/// The elements of a product that stand in row `x` and some columns: the same bits as among all, at a cost
/// that grows with their number. On this thread, for they are few.
pub(crate) fn product_some<W: Weights>(x: &[f32], w: &W, columns: &[u32], out: &mut [f32]) {
    assert_eq!(columns.len(), out.len());
    run(Chosen { x, w, columns, out });
}

thread_local! {
    /// The widened weights of an item. Kept, for zeroing new ones took a twelfth of the time.
    static WIDE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// The same with quantised weights.
pub(crate) fn product_packed<W: Packed + Sync>(x: &Rows, w: &W, out: Out<'_>) {
    assert_eq!(x.width, w.width(), "widths of a product");
    assert!(w.width().is_multiple_of(LANES));
    in_items(x, w.rows(), COLUMNS_PER_ITEM, out, |from, to, target| {
        if x.rows < ROWS_TO_WIDEN {
            return run(Columns { x, w, from, to, out: target, out_from: 0 });
        }
        let size = (to - from) * w.width();
        // Nothing in here waits for other work, so no item begins while one is under way on its thread.
        WIDE.with_borrow_mut(|wide| {
            if wide.len() < size {
                wide.resize(size, 0.0);
            }
            widen(w, from, to, &mut wide[..size]);
            let w = &Rows::new(&wide[..size], to - from, x.width);
            run(Columns { x, w, from: 0, to: to - from, out: target, out_from: from });
        });
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
}
