//! Products of activations rounded to 8 bits with a matrix in any quantised format (`QuantMatrix`).
//!
//! Activations are rounded to 8 bits ([`super::quantize`]). Their products with the weights are
//! added up exactly, block by block. The sums of the blocks, times their scales, are added in
//! single precision in the order of the blocks. So an element of the result depends on its row and
//! its column only.
//!
//! # Cost
//!
//! m rows cost m * n * k multiply-adds, 64 to an instruction (AVX-512 with VNNI) or 32 to three or
//! four instructions. For small m the cost is the time to read the matrix.
//!
//! # Alternatives considered
//!
//! - Widening the weights to single precision was rejected: an instruction then has a quarter of
//!   the products.
//! - The matrix unit of newer Intel processors (AMX) was rejected. It adds up a block for sixteen
//!   rows and outputs in one instruction. But its sums reach the vectors through memory and do not
//!   overlap with their work. The gain is small, begins at sixteen rows, and needs much code and a
//!   system call.

use super::f32_matmul::in_items;
use super::quantize::{BLOCK, Int8Rows, TileShape};
use super::simd16::{LANES16, Simd16, Simd16Work, has_32_registers, run};
use super::{Out, Rows, Target};

/// Number of outputs whose weights lie together, one for each lane.
pub(crate) const GROUP: usize = LANES16;

/// Weights in groups of sixteen outputs and blocks of 32 inputs. The last group may have outputs
/// that do not exist.
pub(crate) trait QuantMatrix: Copy + Sync {
    /// True if it needs [`TileInput::firsts`].
    const HALVES: bool;
    /// Number of outputs.
    fn rows(&self) -> usize;
    /// Number of inputs.
    fn width(&self) -> usize;
    /// Adds the products of a block of R rows with G groups of outputs, from `group` on, to `acc`.
    ///
    /// # Safety
    /// The block and the groups exist, and the part is of R rows; and as for all of [`Simd16`].
    unsafe fn add<V: Simd16, const R: usize, const G: usize>(
        &self,
        x: TileInput,
        group: usize,
        block: usize,
        acc: &mut [[V; R]; G],
    );
}

/// A block of activations of some rows; see [`Int8Rows`].
#[derive(Clone, Copy)]
pub(crate) struct TileInput {
    pub quants: *const i8,
    pub scales: *const f32,
    pub less: *const i32,
    pub firsts: *const i32,
}

/// Number of outputs of one work item.
const OUTPUTS_PER_ITEM: usize = 64;

/// Computes the tile of R rows from `first` on times G groups of outputs, one output in each lane.
///
/// # Safety
/// As for all of [`Simd16`].
#[inline(always)]
unsafe fn tile<V: Simd16, B: QuantMatrix, const R: usize, const G: usize>(
    x: &Int8Rows,
    first: usize,
    w: &B,
    group: usize,
) -> [[V; R]; G] {
    assert!(x.width == w.width() && (group + G) * GROUP <= w.rows().next_multiple_of(GROUP));
    let blocks = x.width / BLOCK;
    let rows = &x.quants[first * x.width..][..R * x.width];
    let (scales, less) =
        (&x.scales[first * blocks..][..R * blocks], &x.zero_correction[first * blocks..][..R * blocks]);
    let firsts = if B::HALVES { &x.half_sums[first * blocks..][..R * blocks] } else { &[] };
    // SAFETY: in bounds by the lengths above, and of the weights by the first assertion.
    unsafe {
        let mut acc = [[V::splat(0.0); R]; G];
        for block in 0..blocks {
            let part = TileInput {
                quants: rows.as_ptr().add(block * BLOCK * R),
                scales: scales.as_ptr().add(block * R),
                less: less.as_ptr().add(block * R),
                // Empty unless needed.
                firsts: firsts.as_ptr().wrapping_add(block * R),
            };
            w.add(part, group, block, &mut acc);
        }
        acc
    }
}

/// A work item: the outputs `from..to` of all rows; `from` begins a group.
pub(super) struct Groups<'a, B> {
    pub x: &'a Int8Rows,
    pub w: &'a B,
    pub from: usize,
    pub to: usize,
    pub out: &'a Target,
}

impl<B: QuantMatrix> Groups<'_, B> {
    /// Computes R rows from `first` on; returns R.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn rows<V: Simd16, const R: usize>(&self, first: usize) -> usize {
        let mut at = self.from;
        // SAFETY: by the caller's promise.
        unsafe {
            while V::HAS_32_REGISTERS
                && R <= 6
                && self.x.tiling == TileShape::Cached
                && at + 2 * GROUP <= self.to
            {
                self.groups::<V, R, 2>(first, at);
                at += 2 * GROUP;
            }
            while at < self.to {
                self.groups::<V, R, 1>(first, at);
                at += GROUP;
            }
        }
        R
    }

    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn groups<V: Simd16, const R: usize, const G: usize>(&self, first: usize, at: usize) {
        // SAFETY: by the caller's promise; and a whole array.
        unsafe {
            let y = tile::<V, B, R, G>(self.x, first, self.w, at / GROUP);
            for (g, y) in y.iter().enumerate() {
                let at = at + g * GROUP;
                for (r, y) in y.iter().enumerate() {
                    if at + LANES16 <= self.to {
                        self.out.put_wide(first + r, at, *y);
                        continue;
                    }
                    let mut values = [0f32; LANES16];
                    y.store(values.as_mut_ptr());
                    self.out.put_all(first + r, at, &values[..self.to - at]);
                }
            }
        }
    }
}

impl<B: QuantMatrix> Simd16Work for Groups<'_, B> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let (mut r, rows, tiling) = (0, self.x.rows, self.x.tiling);
        // SAFETY: by the caller's promise.
        unsafe {
            while r < rows {
                r += match tiling.rows(rows - r) {
                    1 => self.rows::<V, 1>(r),
                    2 => self.rows::<V, 2>(r),
                    3 => self.rows::<V, 3>(r),
                    4 => self.rows::<V, 4>(r),
                    5 => self.rows::<V, 5>(r),
                    6 => self.rows::<V, 6>(r),
                    7 if V::HAS_32_REGISTERS => self.rows::<V, 7>(r),
                    8 if V::HAS_32_REGISTERS => self.rows::<V, 8>(r),
                    9 if V::HAS_32_REGISTERS => self.rows::<V, 9>(r),
                    10 if V::HAS_32_REGISTERS => self.rows::<V, 10>(r),
                    11 if V::HAS_32_REGISTERS => self.rows::<V, 11>(r),
                    12 if V::HAS_32_REGISTERS => self.rows::<V, 12>(r),
                    n => unreachable!("a tile of {n} rows"),
                };
            }
        }
    }
}

/// Computes `out[r][c] = x.row(r) . w.row(c)`, with the activations in 8 bits.
pub(crate) fn matmul_int8<B: QuantMatrix>(x: &Rows, w: &B, out: Out<'_>) {
    assert_eq!(x.width, w.width(), "widths of a product");
    let rounded = Int8Rows::new(x, TileShape::new(has_32_registers(), w.rows() * w.width()), B::HALVES);
    in_items(x, w.rows(), OUTPUTS_PER_ITEM, out, |from, to, target| {
        run(Groups { x: &rounded, w, from, to, out: target })
    });
    rounded.recycle();
}

/// Some columns of one row's product.
struct ChosenInt8<'a, B> {
    x: &'a Int8Rows,
    w: &'a B,
    columns: &'a [u32],
    out: &'a mut [f32],
}

impl<B: QuantMatrix> Simd16Work for ChosenInt8<'_, B> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        // Columns are mostly in order, so neighbours share a group.
        let (mut group, mut values) = (usize::MAX, [0f32; LANES16]);
        for (column, out) in self.columns.iter().zip(self.out) {
            let column = *column as usize;
            assert!(column < self.w.rows());
            if column / GROUP != group {
                group = column / GROUP;
                // SAFETY: by the caller's promise; and a whole array.
                unsafe { tile::<V, B, 1, 1>(self.x, 0, self.w, group)[0][0].store(values.as_mut_ptr()) };
            }
            *out = values[column % GROUP];
        }
    }
}

/// Computes the elements of a product in row `x` and some columns. They have the same bits as in
/// the whole product, at the cost of their groups. Runs on this thread, since they are few.
pub(crate) fn matmul_int8_columns<B: QuantMatrix>(x: &[f32], w: &B, columns: &[u32], out: &mut [f32]) {
    assert_eq!((columns.len(), x.len()), (out.len(), w.width()));
    let rounded = Int8Rows::new(&Rows::new(x, 1, w.width()), TileShape::default(), B::HALVES);
    run(ChosenInt8 { x: &rounded, w, columns, out });
    rounded.recycle();
}

#[cfg(test)]
mod tests {
    use super::super::k_quants::{
        HIGH_BITS_BYTES, LOW_NIBBLE_BYTES, PackedIndex, Q4, Q6, SCALES_PER_GROUP, blocks,
    };
    use super::super::quantize::ZERO;
    use super::super::simd16::Portable;
    #[cfg(target_arch = "x86_64")]
    use super::super::simd16::{Avx2, Avx512, has_avx512};
    use super::super::tests::noise;
    use super::super::{Q8, quantize::Round};
    use super::*;

    /// Applies `check` to a matrix of each kind and the weights that it represents.
    trait Check {
        fn check<B: QuantMatrix>(&self, kind: &str, w: &B, wide: &[f32]);
    }

    fn bytes(n: usize, seed: u32) -> Vec<u8> {
        noise(n, seed).iter().map(|v| ((v + 0.5) * 256.0) as u8).collect()
    }

    fn of_each_kind(rows: usize, width: usize, check: &impl Check) {
        let padded = rows.next_multiple_of(GROUP);
        let each = || (0..rows).flat_map(|row| (0..width).map(move |column| (row, column)));
        // From -128 on, the range of eight bits, although `Q8_0` stops at -127.
        let (quants, scales) = (bytes(padded * width, 2), noise(padded * width / BLOCK, 3));
        let value = |(row, column)| {
            let (quant, scale) = Q8::place(width, row, column);
            f32::from(quants[quant].wrapping_sub(ZERO).cast_signed()) * scales[scale]
        };
        let wide: Vec<f32> = each().map(value).collect();
        check.check("Q8", &Q8::new(&quants, &scales, rows, width), &wide);
        let count = blocks(rows, width);
        let (low, high, pairs) = (
            bytes(count * LOW_NIBBLE_BYTES, 4),
            bytes(count * HIGH_BITS_BYTES, 5),
            noise(count * SCALES_PER_GROUP, 6),
        );
        let four = |(row, column)| {
            let at = PackedIndex::new(width, row, column);
            f32::from(low[at.low] >> at.low_shift & 15) * pairs[at.pair] - pairs[at.pair + GROUP]
        };
        let wide: Vec<f32> = each().map(four).collect();
        check.check("Q4", &Q4::new(&low, &pairs, rows, width), &wide);
        let six = |(row, column)| {
            let at = PackedIndex::new(width, row, column);
            let value = low[at.low] >> at.low_shift & 15 | (high[at.high] >> at.high_shift & 3) << 4;
            (f32::from(value) - 32.0) * pairs[at.pair + column / 16 % 2 * GROUP]
        };
        let wide: Vec<f32> = each().map(six).collect();
        check.check("Q6", &Q6::new(&low, &high, &pairs, rows, width), &wide);
    }

    #[test]
    fn no_two_weights_share_a_place() {
        let (rows, width) = (33, 96);
        let mut seen = std::collections::HashSet::new();
        for (row, column) in (0..rows).flat_map(|row| (0..width).map(move |column| (row, column))) {
            let at = PackedIndex::new(width, row, column);
            assert!(seen.insert((0, at.low, at.low_shift)) && seen.insert((1, at.high, at.high_shift)));
            assert!(
                at.low < blocks(rows, width) * LOW_NIBBLE_BYTES
                    && at.high < blocks(rows, width) * HIGH_BITS_BYTES
            );
            assert!(
                at.low_shift <= 4
                    && at.high_shift <= 6
                    && at.pair + GROUP < blocks(rows, width) * SCALES_PER_GROUP
            );
        }
    }

    fn whole<B: QuantMatrix>(x: &[f32], w: &B) -> Vec<f32> {
        let rows = x.len() / w.width();
        let mut out = vec![0.0; rows * w.rows()];
        matmul_int8(&Rows::new(x, rows, w.width()), w, Out { data: &mut out, stride: w.rows() });
        out
    }

    const SIZES: [(usize, usize, usize); 10] = [
        (1, 1, 32),
        (2, 50, 64),
        (5, 97, 96),
        (7, 104, 64),
        (9, 16, 96),
        (11, 20, 64),
        (16, 49, 352),
        (24, 33, 32),
        (33, 8, 32),
        (40, 33, 64),
    ];

    #[test]
    fn products_agree_with_the_definition_up_to_the_rounding_of_activations() {
        struct Against(Vec<f32>);
        impl Check for Against {
            fn check<B: QuantMatrix>(&self, kind: &str, w: &B, wide: &[f32]) {
                let (n, k) = (w.rows(), w.width());
                for (i, got) in whole(&self.0, w).iter().enumerate() {
                    let (x, w) = (&self.0[i / n * k..][..k], &wide[i % n * k..][..k]);
                    let want: f64 = x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let each = x.chunks(BLOCK).zip(w.chunks(BLOCK)).map(|(x, w)| {
                        let largest = x.iter().fold(0f64, |a, b| a.max(f64::from(b.abs())));
                        let sizes: f64 = w.iter().map(|w| f64::from(w.abs())).sum();
                        // `Q4_K` sums up before it subtracts the minimums, at most 31 in these
                        // matrices.
                        (largest * sizes, largest * if kind == "Q4" { 31.0 * BLOCK as f64 } else { sizes })
                    });
                    let (rounding, sums) = each.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                    // Half a step of 1/127 for each activation, and a little for sums in single
                    // precision.
                    let bound = rounding * 0.5 / 127.0 + sums * 1e-6 + rounding * 1e-5;
                    let off = (f64::from(*got) - want).abs();
                    assert!(off <= bound, "{i} of {kind} {n} x {k}: {got}, not {want}");
                }
            }
        }
        for (m, n, k) in SIZES {
            // Rows of very different sizes: each has scales of its own.
            let mut x = noise(m * k, 1);
            for (r, row) in x.chunks_exact_mut(k).enumerate() {
                row.iter_mut().for_each(|v| *v *= 10f32.powi(r as i32 % 9 - 4));
            }
            of_each_kind(n, k, &Against(x));
        }
    }

    #[test]
    fn what_activations_hold_exactly_is_added_up_exactly() {
        /// Activations that are whole numbers up to 127: nothing is rounded but the sums.
        struct Exactly(Vec<f32>);
        impl Check for Exactly {
            fn check<B: QuantMatrix>(&self, kind: &str, w: &B, wide: &[f32]) {
                let (n, k) = (w.rows(), w.width());
                for (i, got) in whole(&self.0, w).iter().enumerate() {
                    let (x, w) = (&self.0[i / n * k..][..k], &wide[i % n * k..][..k]);
                    let want: f64 = x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    // All numbers in these sums are below 2^20, and there are a few dozen of them.
                    let bound = 2f64.powi(20 - 24) * 4.0;
                    assert!(
                        (f64::from(*got) - want).abs() <= bound,
                        "{i} of {kind} {n} x {k}: {got}, {want}"
                    );
                }
            }
        }
        for (m, n, k) in SIZES {
            let mut x: Vec<f32> = noise(m * k, 1).iter().map(|v| (v * 254.0).round()).collect();
            x.chunks_exact_mut(BLOCK).for_each(|block| block[7] = 127.0);
            of_each_kind(n, k, &Exactly(x));
        }
    }

    #[test]
    fn rows_and_chosen_columns_have_the_bits_they_have_among_all() {
        struct Alone(Vec<f32>);
        impl Check for Alone {
            fn check<B: QuantMatrix>(&self, kind: &str, w: &B, _: &[f32]) {
                let (n, want) = (w.rows(), whole(&self.0, w));
                for (r, row) in self.0.chunks_exact(w.width()).enumerate() {
                    let want = &want[r * n..(r + 1) * n];
                    assert_eq!(whole(row, w), want, "row {r} of {kind}");
                    let columns: Vec<u32> = (0..n as u32).rev().step_by(3).chain([0]).collect();
                    let mut some = vec![0.0; columns.len()];
                    matmul_int8_columns(row, w, &columns, &mut some);
                    assert_eq!(some, columns.iter().map(|c| want[*c as usize]).collect::<Vec<_>>(), "{kind}");
                }
            }
        }
        for (m, n, k) in SIZES {
            of_each_kind(n, k, &Alone(noise(m * k, 1)));
        }
    }

    /// Computes the product with vectors of one kind, and checks that this kind rounds activations
    /// the same way.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    unsafe fn with_kind<V: Simd16, B: QuantMatrix>(x: &Rows, w: &B, tiling: TileShape) -> Vec<f32> {
        let (rounded, blocks) = (Int8Rows::new(x, tiling, B::HALVES), x.width / BLOCK);
        let mut first = 0;
        while first < x.rows {
            let rows = tiling.rows(x.rows - first);
            for r in 0..rows {
                let (mut out, mut scales, mut less) = (vec![0; x.width], vec![0.0; blocks], vec![0; blocks]);
                let to = (&mut out[..], &mut scales[..], &mut less[..]);
                let x = x.row(first + r);
                // SAFETY: by the caller's promise.
                unsafe {
                    Round { x, step: 1, out: to.0, scales: to.1, zero_correction: to.2, half_sums: &mut [] }
                        .with::<V>()
                };
                for b in 0..blocks {
                    let at = first * blocks + b * rows + r;
                    assert_eq!(out[b * BLOCK..][..BLOCK], rounded.quants[at * BLOCK..][..BLOCK]);
                    assert_eq!((scales[b], less[b]), (rounded.scales[at], rounded.zero_correction[at]));
                }
            }
            first += rows;
        }
        let mut out = vec![0.0; x.rows * w.rows()];
        let target = Target { start: out.as_mut_ptr(), len: out.len(), stride: w.rows() };
        let all = Groups { x: &rounded, w, from: 0, to: w.rows(), out: &target };
        // SAFETY: by the caller's promise.
        unsafe { all.with::<V>() };
        out
    }

    #[test]
    fn all_kinds_of_vectors_give_the_same_bits() {
        struct Kinds(Vec<f32>);
        impl Check for Kinds {
            fn check<B: QuantMatrix>(&self, kind: &str, w: &B, _: &[f32]) {
                let x = Rows::new(&self.0, self.0.len() / w.width(), w.width());
                // SAFETY: nothing special is needed for the first kind; the others are checked.
                unsafe {
                    let want = with_kind::<Portable<true>, B>(&x, w, TileShape::FewRegisters);
                    #[cfg(target_arch = "x86_64")]
                    if super::super::simd8::has_avx2() {
                        assert_eq!(whole(&self.0, w), want, "{kind}");
                        assert_eq!(with_kind::<Avx2, B>(&x, w, TileShape::FewRegisters), want, "{kind}");
                        for tiling in [TileShape::FewRegisters, TileShape::Cached, TileShape::Streamed] {
                            if has_avx512() {
                                assert_eq!(with_kind::<Avx512, B>(&x, w, tiling), want, "{kind} {tiling:?}");
                            }
                        }
                    }
                    assert_eq!(want.len(), x.rows * w.rows());
                }
            }
        }
        for (m, n, k) in SIZES {
            of_each_kind(n, k, &Kinds(noise(m * k, 1)));
        }
    }

    #[test]
    fn what_is_no_number_is_not_hidden() {
        struct Bad(f32);
        impl Check for Bad {
            fn check<B: QuantMatrix>(&self, kind: &str, w: &B, _: &[f32]) {
                let mut x = noise(3 * 64, 1);
                x[64 + 17] = self.0;
                let y = whole(&x, w);
                assert!(y[9..18].iter().all(|v| v.is_nan()), "{kind} {}", self.0);
                assert!(y[..9].iter().chain(&y[18..]).all(|v| v.is_finite()), "other rows are untouched");
                assert_eq!(whole(&[0.0; 64], w), [0.0; 9]);
                assert!(whole(&[1e-42; 64], w).iter().all(|v| v.abs() < 1e-36));
            }
        }
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            of_each_kind(9, 64, &Bad(bad));
        }
        struct Large;
        impl Check for Large {
            fn check<B: QuantMatrix>(&self, kind: &str, w: &B, _: &[f32]) {
                assert!(whole(&[1e33; 64], w).iter().all(|v| v.is_finite()), "{kind}");
            }
        }
        of_each_kind(9, 64, &Large);
    }
}
