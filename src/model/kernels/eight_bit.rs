//! Rows times a matrix of 8-bit weights (`Q8_0`), in integers.
//!
//! Each row of activations is rounded to 8 bits, by a scale for each block of 32; products with the 8-bit values are
//! added up exactly, block by block, and the sums of the blocks, times their scales, in single
//! precision in the order of the blocks. So an element of the result depends on its row and its column only,
//! and on no order but that one. m rows cost m * n * k multiply-adds, 64 to an instruction (AVX-512 with VNNI) or 32
//! to four, and for small m the time to read the matrix, a byte for each weight.
//!
//! What the rounding costs: an activation is off by at most 1/254 of the largest of its block, as a weight was
//! when it was rounded to `Q8_0`. That is how this format is used elsewhere too; docs/exactness.md has what it
//! does to the outputs of the embedded model.
//!
//! Rejected: activations in 16 bits by a scale for each row, which was here before. It is a hundred times finer than
//! the weights and takes twice the instructions: a forward over eight rows of the embedded model cost a quarter more, and of
//! 340 evaluation texts it got as many fields right. Widening the weights to single precision has a
//! quarter of the products to an instruction. The matrix unit of newer Intel processors (AMX) adds up a block for sixteen rows
//! and outputs in one instruction, but its sums come to the vectors by way of memory and do not overlap with their work:
//! 1.1 to 1.3 times as fast for sixteen rows and more, for two hundred lines and a system call.

use std::cell::Cell;

use super::product::Weights;
use super::wide::{WIDE, Wide, WideWork, many, run};
use super::{Out, Rows, Target, in_items};

/// Weights that share a scale.
pub(crate) const Q8_BLOCK: usize = 32;
/// Outputs whose weights lie together, one for each lane.
pub(crate) const Q8_GROUP: usize = WIDE;
/// What stands for a weight of zero.
pub(crate) const ZERO: u8 = 128;

/// A matrix of 8-bit weights, by groups of sixteen outputs; the last group may have outputs that do not exist.
///
/// In a group the blocks of 32 inputs follow each other; in a block the inputs by fours, and in these the sixteen
/// outputs, four weights each. Weights have 128 added to them. `scales` has sixteen for each block.
#[derive(Clone, Copy)]
pub(crate) struct Q8<'a> {
    pub quants: &'a [u8],
    pub scales: &'a [f32],
    /// Number of outputs.
    pub rows: usize,
    /// Number of inputs.
    pub width: usize,
}

impl<'a> Q8<'a> {
    /// # Panics
    /// If the slices do not have the lengths that the numbers ask for.
    pub fn new(quants: &'a [u8], scales: &'a [f32], rows: usize, width: usize) -> Self {
        let groups = rows.div_ceil(Q8_GROUP);
        assert!(width.is_multiple_of(Q8_BLOCK), "rows of whole blocks");
        assert_eq!(quants.len(), groups * Q8_GROUP * width);
        assert_eq!(scales.len(), groups * Q8_GROUP * width / Q8_BLOCK);
        Q8 { quants, scales, rows, width }
    }

    /// Where weight `column` of output `row` lies, and its scale.
    pub fn place(width: usize, row: usize, column: usize) -> (usize, usize) {
        let (group, lane) = (row / Q8_GROUP, row % Q8_GROUP);
        let (block, i) = (column / Q8_BLOCK, column % Q8_BLOCK);
        let block = group * (width / Q8_BLOCK) + block;
        (block * Q8_BLOCK * Q8_GROUP + i / 4 * 4 * Q8_GROUP + lane * 4 + i % 4, block * Q8_GROUP + lane)
    }

    /// Writes the weights of output `row` in single precision, exactly.
    pub fn widen_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.width);
        for (block, out) in out.chunks_exact_mut(Q8_BLOCK).enumerate() {
            let (quant, scale) = Self::place(self.width, row, block * Q8_BLOCK);
            let (fours, scale) = (self.quants[quant..].chunks(4 * Q8_GROUP), self.scales[scale]);
            for (out, four) in out.chunks_exact_mut(4).zip(fours) {
                for (out, quant) in out.iter_mut().zip(four) {
                    *out = f32::from(quant.wrapping_sub(ZERO).cast_signed()) * scale;
                }
            }
        }
    }
}

/// Rows of activations in 8 bits, by tiles of rows that are multiplied together. A tile has its blocks of 32
/// elements in order, and in a block its rows beside each other, so that one pointer runs through all of
/// them; `scales` and `less` have a number for each block of a row, in the same order.
#[derive(Default)]
struct Rounded {
    quants: Vec<i8>,
    /// What to multiply the 32 values with.
    scales: Vec<f32>,
    /// [`ZERO`] times their sum, taken off.
    less: Vec<i32>,
    rows: usize,
    width: usize,
}

/// Outputs that one work item covers.
const ITEM: usize = 64;

/// Bytes of weights ahead of those that are multiplied which are called for. Matrices that come out of main
/// memory took a fifth less time with it for up to twelve rows; 512 to 4096 bytes gained half of that or nothing.
const AHEAD: usize = 8192;

/// How many of the rows that are left make the next tile. Six rows and a group of outputs leave registers for nothing
/// else, or, where there are [many](Wide::MANY), two groups; one group and up to nine rows are faster there than two
/// tiles. Tiles are of like size, seven rows are four and three, for a tile of few costs nearly as much as one of
/// more.
fn tile_rows(left: usize, many: bool) -> usize {
    match left {
        0..=6 => left,
        7..=9 if many => left,
        7 | 8 => 4,
        9 | 10 => 5,
        _ => 6,
    }
}

/// One row, written to every `step`-th block of `out`, and to every `step`-th number beside it.
struct Round<'a> {
    x: &'a [f32],
    step: usize,
    out: &'a mut [i8],
    scales: &'a mut [f32],
    less: &'a mut [i32],
}

impl WideWork for Round<'_> {
    #[inline(always)]
    unsafe fn with<V: Wide>(self) {
        let blocks = self.x.chunks_exact(Q8_BLOCK).zip(self.out.chunks_mut(Q8_BLOCK * self.step));
        for (i, (x, out)) in blocks.enumerate() {
            assert!(out.len() >= Q8_BLOCK);
            // SAFETY: a block on either side; and by the caller's promise.
            let (scale, sum) = unsafe { V::round_block(x.as_ptr(), out.as_mut_ptr()) };
            self.scales[i * self.step] = scale;
            // The sum of what is no number means nothing and may be large.
            self.less[i * self.step] = (-i32::from(ZERO)).wrapping_mul(sum);
        }
    }
}

thread_local! {
    /// The last one on this thread, for its memory: clearing fresh pages took a fiftieth of a prompt's time.
    static LAST: Cell<Option<Rounded>> = const { Cell::new(None) };
}

/// Bytes that a thread keeps for it.
const KEPT: usize = 4 << 20;

impl Rounded {
    /// In tiles for vectors with few or many registers.
    fn new(x: &Rows, many: bool) -> Self {
        let blocks = x.width / Q8_BLOCK;
        let mut all = LAST.take().unwrap_or_default();
        // Every element is written below.
        all.quants.resize(x.rows * x.width, 0);
        all.scales.resize(x.rows * blocks, 0.0);
        all.less.resize(x.rows * blocks, 0);
        (all.rows, all.width) = (x.rows, x.width);
        let mut first = 0;
        while first < x.rows {
            let rows = tile_rows(x.rows - first, many);
            for r in 0..rows {
                let at = first * blocks + r;
                run(Round {
                    x: x.row(first + r),
                    step: rows,
                    out: &mut all.quants[at * Q8_BLOCK..],
                    scales: &mut all.scales[at..],
                    less: &mut all.less[at..],
                });
            }
            first += rows;
        }
        all
    }

    /// Leaves the memory for the next one.
    fn leave(self) {
        LAST.set(Some(self).filter(|r| r.quants.capacity() <= KEPT));
    }
}

/// The tile of R rows from `first` on times G groups of outputs, one output in each lane.
///
/// # Safety
/// As for all of [`Wide`].
#[inline(always)]
unsafe fn tile<V: Wide, const R: usize, const G: usize>(
    x: &Rounded,
    first: usize,
    w: &Q8,
    group: usize,
) -> [[V; R]; G] {
    assert!(x.width == w.width);
    let (blocks, size) = (w.width / Q8_BLOCK, Q8_GROUP * w.width);
    let rows = &x.quants[first * w.width..][..R * w.width];
    let (own, less) = (&x.scales[first * blocks..][..R * blocks], &x.less[first * blocks..][..R * blocks]);
    let quants = &w.quants[group * size..][..G * size];
    let scales = &w.scales[group * Q8_GROUP * blocks..][..G * Q8_GROUP * blocks];
    // SAFETY: in bounds by the lengths above: `blocks` times 32 R in `rows` and R in `own` and `less`, and in each
    // group as many times 512 in `quants` and sixteen in `scales`.
    unsafe {
        let mut acc = [[V::splat(0.0); R]; G];
        for block in 0..blocks {
            let mut w = [quants.as_ptr(); G];
            for (g, w) in w.iter_mut().enumerate() {
                *w = w.add(g * size + block * Q8_BLOCK * Q8_GROUP);
                for line in 0..Q8_BLOCK * Q8_GROUP / 64 {
                    V::prefetch(w.wrapping_add(AHEAD + line * 64).cast());
                }
            }
            let x = rows.as_ptr().add(block * Q8_BLOCK * R);
            let sums = V::block_sums::<R, G>(x, less.as_ptr().add(block * R), w);
            for g in 0..G {
                let scale = V::load(scales.as_ptr().add((g * blocks + block) * Q8_GROUP));
                for r in 0..R {
                    let both = scale.times(V::splat(*own.as_ptr().add(block * R + r)));
                    acc[g][r] = acc[g][r].multiply_add(sums[g][r], both);
                }
            }
        }
        acc
    }
}

/// Outputs `from..to`, of which `from` begins a group, of all rows.
struct Groups<'a> {
    x: &'a Rounded,
    w: &'a Q8<'a>,
    from: usize,
    to: usize,
    out: &'a Target,
}

impl Groups<'_> {
    /// The tile of R rows from `first` on; returns R.
    ///
    /// # Safety
    /// As for all of [`Wide`].
    #[inline(always)]
    unsafe fn rows<V: Wide, const R: usize>(&self, first: usize) -> usize {
        let mut at = self.from;
        // SAFETY: by the caller's promise.
        unsafe {
            while V::MANY && R <= 6 && at + 2 * Q8_GROUP <= self.to {
                self.groups::<V, R, 2>(first, at);
                at += 2 * Q8_GROUP;
            }
            while at < self.to {
                self.groups::<V, R, 1>(first, at);
                at += Q8_GROUP;
            }
        }
        R
    }

    /// # Safety
    /// As for all of [`Wide`].
    #[inline(always)]
    unsafe fn groups<V: Wide, const R: usize, const G: usize>(&self, first: usize, at: usize) {
        // SAFETY: by the caller's promise; and a whole array.
        unsafe {
            let y = tile::<V, R, G>(self.x, first, self.w, at / Q8_GROUP);
            for (g, y) in y.iter().enumerate() {
                let at = at + g * Q8_GROUP;
                for (r, y) in y.iter().enumerate() {
                    if at + WIDE <= self.to {
                        self.out.put_wide(first + r, at, *y);
                        continue;
                    }
                    let mut values = [0f32; WIDE];
                    y.store(values.as_mut_ptr());
                    self.out.put_all(first + r, at, &values[..self.to - at]);
                }
            }
        }
    }
}

impl WideWork for Groups<'_> {
    #[inline(always)]
    unsafe fn with<V: Wide>(self) {
        let (mut r, rows) = (0, self.x.rows);
        // SAFETY: by the caller's promise.
        unsafe {
            while r < rows {
                r += match tile_rows(rows - r, V::MANY) {
                    1 => self.rows::<V, 1>(r),
                    2 => self.rows::<V, 2>(r),
                    3 => self.rows::<V, 3>(r),
                    4 => self.rows::<V, 4>(r),
                    5 => self.rows::<V, 5>(r),
                    6 => self.rows::<V, 6>(r),
                    7 if V::MANY => self.rows::<V, 7>(r),
                    8 if V::MANY => self.rows::<V, 8>(r),
                    9 if V::MANY => self.rows::<V, 9>(r),
                    n => unreachable!("a tile of {n} rows"),
                };
            }
        }
    }
}

/// `out[r][c] = x.row(r) . w.row(c)`, with the activations in 8 bits.
pub(crate) fn product_eight_bit(x: &Rows, w: &Q8, out: Out<'_>) {
    assert_eq!(x.width, w.width, "widths of a product");
    let rounded = Rounded::new(x, many());
    in_items(x, w.rows, ITEM, out, |from, to, target| run(Groups { x: &rounded, w, from, to, out: target }));
    rounded.leave();
}

/// Some columns of one row's product.
struct Chosen<'a> {
    x: &'a Rounded,
    w: &'a Q8<'a>,
    columns: &'a [u32],
    out: &'a mut [f32],
}

impl WideWork for Chosen<'_> {
    #[inline(always)]
    unsafe fn with<V: Wide>(self) {
        // Columns come in order mostly, so that neighbours share a group.
        let (mut group, mut values) = (usize::MAX, [0f32; WIDE]);
        for (column, out) in self.columns.iter().zip(self.out) {
            let column = *column as usize;
            assert!(column < self.w.rows);
            if column / Q8_GROUP != group {
                group = column / Q8_GROUP;
                // SAFETY: by the caller's promise; and a whole array.
                unsafe { tile::<V, 1, 1>(self.x, 0, self.w, group)[0][0].store(values.as_mut_ptr()) };
            }
            *out = values[column % Q8_GROUP];
        }
    }
}

/// The elements of a product that stand in row `x` and some columns: the same bits as among all, at the cost
/// of the groups they lie in. On this thread, for they are few.
pub(crate) fn product_eight_bit_some(x: &[f32], w: &Q8, columns: &[u32], out: &mut [f32]) {
    assert_eq!((columns.len(), x.len()), (out.len(), w.width));
    let rounded = Rounded::new(&Rows::new(x, 1, w.width), many());
    run(Chosen { x: &rounded, w, columns, out });
    rounded.leave();
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::super::wide::Portable;
    #[cfg(target_arch = "x86_64")]
    use super::super::wide::{Avx2, Avx512, has_avx512};
    use super::*;

    /// Weights with scales, and the same widened.
    fn weights(rows: usize, width: usize) -> (Vec<u8>, Vec<f32>, Vec<f32>) {
        let padded = rows.next_multiple_of(Q8_GROUP);
        let (mut quants, mut scales) = (vec![ZERO; padded * width], vec![0.0; padded * width / Q8_BLOCK]);
        let values = noise(rows * width, 2);
        let sizes = noise(rows * width / Q8_BLOCK, 3);
        let mut wide = Vec::new();
        for (i, value) in values.iter().enumerate() {
            let (quant, scale) = Q8::place(width, i / width, i % width);
            // From -128 on, which is what eight bits hold, although `Q8_0` stops at -127.
            let value = if i % 97 == 0 { i8::MIN } else { (value * 255.0) as i8 };
            quants[quant] = value.cast_unsigned().wrapping_add(ZERO);
            scales[scale] = sizes[i / Q8_BLOCK];
            wide.push(f32::from(value) * scales[scale]);
        }
        (quants, scales, wide)
    }

    fn whole(x: &[f32], w: &Q8) -> Vec<f32> {
        let mut out = vec![0.0; x.len() / w.width * w.rows];
        product_eight_bit(
            &Rows::new(x, x.len() / w.width, w.width),
            w,
            Out { data: &mut out, stride: w.rows },
        );
        out
    }

    const SIZES: [(usize, usize, usize); 9] = [
        (1, 1, 32),
        (2, 50, 64),
        (5, 97, 96),
        (7, 104, 64),
        (9, 16, 96),
        (11, 20, 64),
        (16, 49, 352),
        (33, 8, 32),
        (40, 33, 64),
    ];

    #[test]
    fn products_agree_with_the_definition_up_to_the_rounding_of_activations() {
        for (m, n, k) in SIZES {
            let (quants, scales, wide) = weights(n, k);
            let w = Q8::new(&quants, &scales, n, k);
            let mut row = vec![0.0; k];
            for i in 0..n {
                w.widen_row(i, &mut row);
                assert_eq!(row, wide[i * k..(i + 1) * k]);
            }
            // Rows of very different sizes: each has a scale of its own.
            let mut x = noise(m * k, 1);
            for (r, row) in x.chunks_exact_mut(k).enumerate() {
                row.iter_mut().for_each(|v| *v *= 10f32.powi(r as i32 % 9 - 4));
            }
            let got = whole(&x, &w);
            for (i, got) in got.iter().enumerate() {
                let (x, w) = (&x[i / n * k..][..k], &wide[i % n * k..][..k]);
                let want: f64 = x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let bound: f64 = (x.chunks(Q8_BLOCK).zip(w.chunks(Q8_BLOCK)))
                    .map(|(x, w)| {
                        let largest = x.iter().fold(0f64, |a, b| a.max(f64::from(b.abs())));
                        largest * w.iter().map(|w| f64::from(w.abs())).sum::<f64>()
                    })
                    .sum();
                // Half a step of 1/127 for each activation, and a little for sums in single precision.
                let bound = bound * (0.5 / 127.0 + 1e-5);
                assert!((f64::from(*got) - want).abs() <= bound, "{i} of {m} x {n} x {k}: {got}, not {want}");
            }
        }
    }

    #[test]
    fn rows_and_chosen_columns_have_the_bits_they_have_among_all() {
        for (m, n, k) in SIZES {
            let (quants, scales, _) = weights(n, k);
            let w = Q8::new(&quants, &scales, n, k);
            let x = noise(m * k, 1);
            let want = whole(&x, &w);
            for (r, row) in x.chunks_exact(k).enumerate() {
                let want = &want[r * n..(r + 1) * n];
                assert_eq!(whole(row, &w), want, "row {r} of {m} x {n} x {k}");
                let columns: Vec<u32> = (0..n as u32).rev().step_by(3).chain([0]).collect();
                let mut some = vec![0.0; columns.len()];
                product_eight_bit_some(row, &w, &columns, &mut some);
                assert_eq!(some, columns.iter().map(|c| want[*c as usize]).collect::<Vec<_>>());
            }
        }
    }

    /// The product with vectors of one kind, by a rounding that is the same with that kind.
    ///
    /// # Safety
    /// As for all of [`Wide`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn with_kind<V: Wide>(x: &Rows, w: &Q8) -> Vec<f32> {
        let (rounded, blocks) = (Rounded::new(x, V::MANY), x.width / Q8_BLOCK);
        for r in 0..x.rows {
            let (mut out, mut scales, mut less) = (vec![0; x.width], vec![0.0; blocks], vec![0; blocks]);
            let round = Round { x: x.row(r), step: 1, out: &mut out, scales: &mut scales, less: &mut less };
            // SAFETY: by the caller's promise.
            unsafe { round.with::<V>() };
            assert!(out.chunks(Q8_BLOCK).all(|block| block.iter().any(|v| v.abs() == i8::MAX)));
            for (block, less) in out.chunks(Q8_BLOCK).zip(less) {
                assert_eq!(less, -128 * block.iter().map(|v| i32::from(*v)).sum::<i32>());
            }
            for (v, (x, scale)) in
                out.iter().zip(x.row(r).iter().zip(scales.iter().flat_map(|s| [s; Q8_BLOCK])))
            {
                assert!((f32::from(*v) * scale - x).abs() <= 0.5001 * scale);
            }
        }
        let mut out = vec![0.0; x.rows * w.rows];
        let target = Target { start: out.as_mut_ptr(), len: out.len(), stride: w.rows };
        let all = Groups { x: &rounded, w, from: 0, to: w.rows, out: &target };
        // SAFETY: by the caller's promise.
        unsafe { all.with::<V>() };
        out
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn all_kinds_of_vectors_give_the_same_bits() {
        if !super::super::vector::has_avx2() {
            return;
        }
        for (m, n, k) in SIZES {
            let (quants, scales, _) = weights(n, k);
            let w = Q8::new(&quants, &scales, n, k);
            let x = noise(m * k, 1);
            let (x, want) = (Rows::new(&x, m, k), whole(&x, &w));
            // SAFETY: nothing special is needed, and for the others it was checked.
            unsafe {
                assert_eq!(with_kind::<Portable<true>>(&x, &w), want, "{m} x {n} x {k}");
                assert_eq!(with_kind::<Avx2>(&x, &w), want, "{m} x {n} x {k}");
                if has_avx512() {
                    assert_eq!(with_kind::<Avx512>(&x, &w), want, "{m} x {n} x {k}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_is_not_hidden() {
        let (quants, scales, _) = weights(9, 64);
        let w = Q8::new(&quants, &scales, 9, 64);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = noise(3 * 64, 1);
            x[64 + 17] = bad;
            let y = whole(&x, &w);
            assert!(y[9..18].iter().all(|v| v.is_nan()), "{bad}");
            assert!(y[..9].iter().chain(&y[18..]).all(|v| v.is_finite()), "other rows are untouched");
        }
        assert_eq!(whole(&[0.0; 64], &w), [0.0; 9]);
        assert!(whole(&[1e-42; 64], &w).iter().all(|v| v.abs() < 1e-36));
        assert!(whole(&[3e38; 64], &w).iter().all(|v| !v.is_nan()));
    }
}
