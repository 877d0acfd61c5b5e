//! Matrix products in single precision: rows times the transpose of a matrix.
//!
//! Weights may have 16 bits; they are widened in registers. Quantised weights are multiplied in
//! integers; see [`super::int8_matmul`].
//!
//! # Cost
//!
//! m rows times an n x k matrix cost m * n * k multiply-adds and, for small m, the time to read the
//! matrix.

use half::{bf16, f16};

use super::rows::{Rows, Target};
use super::simd8::{LANES8, Simd8};
use super::simd16::{Simd16, Simd16Work, run};

/// Number of columns of one work item, so that their weights stay in the caches of the core for all
/// rows.
pub(super) const COLUMNS_PER_ITEM: usize = 48;

/// A float that is multiplied in single precision.
pub(crate) trait Weight: Copy + Send + Sync + 'static {
    /// Returns the number from its bytes in a file, little-endian.
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Returns the number in single precision, exactly.
    fn wide(self) -> f32;

    /// Loads a vector of numbers.
    ///
    /// # Safety
    /// As for all of [`Simd8`].
    unsafe fn load<V: Simd8>(from: *const Self) -> V;

    /// Loads the first `n < LANES8` numbers, and zeros in the other lanes.
    ///
    /// # Safety
    /// As for all of [`Simd8`].
    #[inline(always)]
    unsafe fn load_part<V: Simd8>(from: *const Self, n: usize) -> V {
        let mut v = [0.0; LANES8];
        for (i, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: the caller promises n elements.
            *v = unsafe { *from.add(i) }.wide();
        }
        // SAFETY: a whole array.
        unsafe { V::load(v.as_ptr()) }
    }
}

macro_rules! weights {
    ($($T:ident: $wide:expr, $load:ident;)+) => {$(
        impl Weight for $T {
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$T>()];
                own.copy_from_slice(bytes);
                $T::from_le_bytes(own)
            }

            #[inline(always)]
            fn wide(self) -> f32 {
                $wide(self)
            }

            #[inline(always)]
            unsafe fn load<V: Simd8>(from: *const Self) -> V {
                // SAFETY: by the caller's promise.
                unsafe { V::$load(from) }
            }
        }
    )+};
}

weights! {
    f32: f32::from, load;
    f16: f16::to_f32, load_f16;
    bf16: bf16::to_f32, load_bf16;
}

/// Multiplies R rows of x with C rows of w.
///
/// # Safety
/// As for all of [`Simd8`].
#[inline(always)]
unsafe fn tile<V: Simd8, T: Weight, const R: usize, const C: usize>(
    x: [&[f32]; R],
    w: [&[T]; C],
) -> [[f32; C]; R] {
    let k = x[0].len();
    assert!(x.iter().all(|s| s.len() == k) && w.iter().all(|s| s.len() == k));
    let whole = k - k % LANES8;
    let mut y = [[0f32; C]; R];
    // SAFETY: `at + LANES8 <= whole <= k`, the length of every row, and then `at <= k`.
    unsafe {
        let mut acc = [[V::splat(0.0); C]; R];
        let mut at = 0;
        while at < whole {
            let mut b = [V::splat(0.0); C];
            for c in 0..C {
                b[c] = T::load(w[c].as_ptr().add(at));
                // Rows are mostly contiguous, so this is the same offset in the rows that come
                // next.
                if at.is_multiple_of(2 * LANES8) {
                    V::prefetch(w[c].as_ptr().wrapping_add(C * k + at).cast());
                }
            }
            for r in 0..R {
                let a = V::load(x[r].as_ptr().add(at));
                for c in 0..C {
                    acc[r][c] = acc[r][c].multiply_add(a, b[c]);
                }
            }
            at += LANES8;
        }
        if at < k {
            for r in 0..R {
                let a = V::load_part(x[r].as_ptr().add(at), k - at);
                for c in 0..C {
                    let b = T::load_part(w[c].as_ptr().add(at), k - at);
                    acc[r][c] = acc[r][c].multiply_add(a, b);
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

/// A work item: the columns `from..to` of all rows.
struct Columns<'a, T> {
    x: &'a Rows<'a>,
    w: &'a Rows<'a, T>,
    from: usize,
    to: usize,
    out: &'a Target,
}

impl<T: Weight> Columns<'_, T> {
    /// Computes R rows from `first` on; returns R.
    ///
    /// # Safety
    /// As for all of [`Simd8`].
    #[inline(always)]
    unsafe fn rows<V: Simd8, const R: usize, const C: usize>(&self, first: usize) -> usize {
        let xs: [&[f32]; R] = std::array::from_fn(|r| self.x.row(first + r));
        let mut c = self.from;
        while c + C <= self.to {
            // SAFETY: by the caller's promise.
            let y = unsafe { tile::<V, T, R, C>(xs, std::array::from_fn(|i| self.w.row(c + i))) };
            for (r, row) in y.iter().enumerate() {
                self.out.put_all(first + r, c, row);
            }
            c += C;
        }
        for c in c..self.to {
            for (r, x) in xs.into_iter().enumerate() {
                // SAFETY: by the caller's promise.
                let y = unsafe { tile::<V, T, 1, 1>([x], [self.w.row(c)]) };
                self.out.put(first + r, c, y[0][0]);
            }
        }
        R
    }
}

impl<T: Weight> Simd16Work for Columns<'_, T> {
    /// Cuts the rows into tiles that keep eight to twelve sums in registers: enough to hide the
    /// latency of a multiply-add. A tile of few rows costs as much as one of more, so tiles have
    /// similar sizes: seven rows are four and three, not six and one.
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let mut r = 0;
        // SAFETY: by the caller's promise.
        unsafe {
            while r < self.x.rows {
                let left = self.x.rows - r;
                r += match left {
                    1 => self.rows::<V::Eight, 1, 8>(r),
                    2 => self.rows::<V::Eight, 2, 4>(r),
                    3 => self.rows::<V::Eight, 3, 3>(r),
                    4 | 7 | 8 => self.rows::<V::Eight, 4, 3>(r),
                    5 | 9 => self.rows::<V::Eight, 5, 2>(r),
                    _ => self.rows::<V::Eight, 6, 2>(r),
                };
            }
        }
    }
}

/// Computes the columns `from..to` of a product, on this thread.
pub(super) fn product_range<T: Weight>(x: &Rows, w: &Rows<'_, T>, from: usize, to: usize, out: &Target) {
    run(Columns { x, w, from, to, out });
}

/// Some columns of one row's product: `out[i] = x . w.row(columns[i])`.
struct Chosen<'a, T> {
    x: &'a [f32],
    w: &'a Rows<'a, T>,
    columns: &'a [u32],
    out: &'a mut [f32],
}

impl<T: Weight> Simd16Work for Chosen<'_, T> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        const C: usize = 8;
        let row = |c: u32| self.w.row(c as usize);
        let mut parts = self.columns.chunks_exact(C);
        let mut out = self.out.chunks_exact_mut(C);
        // SAFETY: by the caller's promise.
        unsafe {
            for (c, out) in parts.by_ref().zip(out.by_ref()) {
                let y = tile::<V::Eight, T, 1, C>([self.x], std::array::from_fn(|i| row(c[i])));
                out.copy_from_slice(&y[0]);
            }
            for (c, out) in parts.remainder().iter().zip(out.into_remainder()) {
                *out = tile::<V::Eight, T, 1, 1>([self.x], [row(*c)])[0][0];
            }
        }
    }
}

/// Computes the elements of a product in row `x` and some columns. They have the same bits as in
/// the whole product, at a cost that grows with their number. Runs on this thread, since they are
/// few.
pub(crate) fn matmul_f32_columns<T: Weight>(x: &[f32], w: &Rows<'_, T>, columns: &[u32], out: &mut [f32]) {
    assert_eq!(columns.len(), out.len());
    run(Chosen { x, w, columns, out });
}

#[cfg(test)]
mod tests {
    use super::super::Out;
    use super::super::tests::noise;
    use super::*;

    fn matmul_f32<T: Weight>(x: &Rows, w: &Rows<'_, T>, out: Out<'_>) {
        product_range(x, w, 0, w.rows, &out.target(x.rows, w.rows));
    }

    #[test]
    fn numbers_of_16_bits_give_the_bits_of_the_same_numbers_in_32() {
        fn check<T: Weight>(narrow: impl Fn(f32) -> T) {
            for (m, n, k) in [(1, 9, 7), (2, 50, 33), (5, 20, 64), (13, 17, 352)] {
                let (x, w) = (noise(m * k, 1), noise(n * k, 2));
                let w: Vec<T> = w.into_iter().map(&narrow).collect();
                let wide: Vec<f32> = w.iter().map(|w| w.wide()).collect();
                let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
                let x = Rows::new(&x, m, k);
                matmul_f32(&x, &Rows::new(&w, n, k), Out { data: &mut got, stride: n });
                matmul_f32(&x, &Rows::new(&wide, n, k), Out { data: &mut want, stride: n });
                assert_eq!(got, want);
                let columns: Vec<u32> = (0..n as u32).rev().collect();
                let mut some = vec![0.0; n];
                matmul_f32_columns(x.row(m - 1), &Rows::new(&w, n, k), &columns, &mut some);
                some.reverse();
                assert_eq!(some, want[(m - 1) * n..]);
            }
        }
        check(f16::from_f32);
        check(bf16::from_f32);
    }

    #[test]
    fn products_agree_with_the_definition_and_do_not_depend_on_the_number_of_rows() {
        for (m, n, k) in [(1, 1, 1), (2, 5, 7), (3, 50, 8), (4, 49, 33), (7, 97, 64), (13, 100, 352)] {
            let (x, w) = (noise(m * k, 1), noise(n * k, 2));
            let mut all = vec![0.0; m * n];
            let wr = Rows::new(&w, n, k);
            matmul_f32(&Rows::new(&x, m, k), &wr, Out { data: &mut all, stride: n });
            for r in 0..m {
                let mut alone = vec![0.0; n];
                matmul_f32(&Rows::new(&x[r * k..], 1, k), &wr, Out { data: &mut alone, stride: n });
                assert_eq!(alone, all[r * n..(r + 1) * n], "row {r} of {m} x {n} x {k}");
                for c in 0..n {
                    let want: f64 = (0..k).map(|i| f64::from(x[r * k + i]) * f64::from(w[c * k + i])).sum();
                    // 352 terms below 0.25 in f32: the error is far below 1e-5.
                    assert!((f64::from(all[r * n + c]) - want).abs() < 1e-5);
                }
            }
        }
    }
}
