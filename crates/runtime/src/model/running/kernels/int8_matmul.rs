//! Products of activations rounded to 8 bits with a matrix in any block format.
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
//! Weights are unpacked in registers, again for each tile of rows.
//!
//! # Alternatives considered
//!
//! - Unpacking the weights to memory once for all rows was rejected. It is slower for any number of
//!   rows: unpacking in registers overlaps with the products.
//! - Widening the weights to single precision was rejected: an instruction then has a quarter of
//!   the products.
//! - The matrix unit of newer Intel processors (AMX) was rejected. It adds up a block for sixteen
//!   rows and outputs in one instruction. But its sums reach the vectors through memory and do not
//!   overlap with their work. The gain is small, begins at sixteen rows, and needs much code and a
//!   system call.

use std::ops::Range;

use super::formats::{BlockFormat, GROUP};
use super::matrix_product::Matrix;
use super::packed::Packed;
use super::quantize::{Activations, BLOCK, Int8Rows, MOST_ROWS_OF_PAIR, MOST_ROWS_UNPACKED, TileShape};
use super::rows::{Rows, Target};
use super::simd16::{LANES16, Simd16, Simd16Work, run};

/// A block of activations of some rows; see [`Int8Rows`].
#[derive(Clone, Copy)]
struct TileInput {
    quants: *const i8,
    scales: *const f32,
    sums: *const i32,
    negative_sums: *const f32,
}

/// Distance in bytes at which weights are prefetched. It pays for matrices that come from main
/// memory; much shorter distances gain half as much or nothing.
const PREFETCH_BYTES: usize = 8192;

/// Number of outputs of one work item.
const OUTPUTS_PER_ITEM: usize = 64;

/// The tiles of groups of outputs that follow each other, as a product reads them.
#[derive(Clone, Copy)]
struct Tiles {
    /// The first tile of the first group.
    start: *const u8,
    /// Bytes of a group.
    group: usize,
}

/// Computes the tile of R rows from `first` on times G groups of outputs, one output in each lane.
///
/// # Safety
/// The groups exist, as wide as the rows; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn tile<V: Simd16, F: BlockFormat, const R: usize, const G: usize>(
    x: &Int8Rows,
    first: usize,
    w: Tiles,
) -> [[V; R]; G] {
    let blocks = x.width / BLOCK;
    let rows = &x.quants[first * x.width..][..R * x.width];
    let halves = BLOCK / F::SCALED;
    let scales = &x.scales[first * blocks..][..R * blocks];
    let quant_sums = &x.sums[halves * first * blocks..][..halves * R * blocks];
    let sums = &x.negative_sums[halves * first * blocks..][..halves * R * blocks];
    // SAFETY: in bounds by the lengths above; a group has a tile for each `PARTS` blocks.
    unsafe {
        let mut acc = [[V::splat(0.0); R]; G];
        let mut tiles = [w.start; G];
        for (g, tile) in tiles.iter_mut().enumerate() {
            *tile = tile.add(g * w.group);
        }
        let mut block = 0;
        while block < blocks {
            for part in 0..F::PARTS {
                let x = TileInput {
                    quants: rows.as_ptr().add(block * BLOCK * R),
                    scales: scales.as_ptr().add(block * R),
                    sums: quant_sums.as_ptr().add(halves * block * R),
                    negative_sums: sums.as_ptr().add(halves * block * R),
                };
                let ahead = tiles[0].wrapping_add(PREFETCH_BYTES + part * F::PART);
                for line in 0..F::PART.div_ceil(64) {
                    V::prefetch(ahead.wrapping_add(line * 64).cast());
                }
                add_part::<V, F, R, G>(x, tiles, part, &mut acc);
                block += 1;
            }
            for tile in &mut tiles {
                *tile = tile.add(F::TILE);
            }
        }
        acc
    }
}

/// Adds the products of a part of G tiles with R rows to `acc`.
///
/// # Safety
/// The part and the rows exist; and as for all of [`Simd16`].
// No closures here, nor iterators over vectors: they lack the instructions of the function that they
// are inlined into.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn add_part<V: Simd16, F: BlockFormat, const R: usize, const G: usize>(
    x: TileInput,
    tiles: [*const u8; G],
    part: usize,
    acc: &mut [[V; R]; G],
) {
    let halves = BLOCK / F::SCALED;
    // SAFETY: by the caller's promise.
    unsafe {
        for half in 0..halves {
            let mut sums = [[V::integers(0); R]; G];
            for r in 0..R {
                for g in 0..G {
                    let start = (*x.sums.add(r * halves + half)).wrapping_mul(-F::OFFSET);
                    sums[g][r] = match F::OFFSET {
                        0 => V::integers(0),
                        128 => V::zero_of_bytes(start),
                        _ => V::integers(start),
                    };
                }
            }
            for step in 0..8 / halves {
                // Fours 16 inputs apart share bytes, so they follow each other.
                let k = if halves == 1 { step / 2 + step % 2 * 4 } else { half * 4 + step };
                let mut w = [V::bytes(tiles[0]); G];
                for g in 0..G {
                    w[g] = F::four::<V>(tiles[g].add(part * F::PART), k);
                }
                for r in 0..R {
                    let x = x.quants.add(r * BLOCK + 4 * k).cast::<i32>().read_unaligned();
                    for g in 0..G {
                        sums[g][r] = match F::OFFSET {
                            128 => V::dot_bytes(sums[g][r], w[g], x),
                            _ => V::dot(sums[g][r], w[g], x),
                        };
                    }
                }
            }
            for g in 0..G {
                let scale = F::scale::<V>(tiles[g], part, half);
                for r in 0..R {
                    let both = scale.mul(V::splat(*x.scales.add(r)));
                    acc[g][r] = acc[g][r].multiply_add(V::floats(sums[g][r]), both);
                }
                if F::MINIMUMS {
                    let minimum = F::minimum::<V>(tiles[g], part, half);
                    for r in 0..R {
                        let less = V::splat(*x.negative_sums.add(r * halves + half));
                        acc[g][r] = acc[g][r].multiply_add(minimum, less);
                    }
                }
            }
        }
    }
}

/// The outputs `from..to`, which begin a group, of all rows.
struct Outputs<'a> {
    from: usize,
    to: usize,
    out: &'a Target,
}

impl Outputs<'_> {
    /// Writes the results of G groups, beginning at output `at`: of `rows` rows, at most R.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn put<V: Simd16, const R: usize, const G: usize>(
        &self,
        (first, rows): (usize, usize),
        at: usize,
        y: [[V; R]; G],
    ) {
        for (g, y) in y.iter().enumerate() {
            let at = at + g * GROUP;
            for (r, y) in y.iter().enumerate().take(rows) {
                // SAFETY: by the caller's promise; and a whole array.
                unsafe {
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

/// A work item for one row.
struct OneRow<'a, F> {
    x: &'a Int8Rows,
    w: &'a Packed<F>,
    outputs: Outputs<'a>,
}

impl<F: BlockFormat> Simd16Work for OneRow<'_, F> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        for at in (self.outputs.from..self.outputs.to).step_by(GROUP) {
            // SAFETY: by the caller's promise.
            unsafe {
                let y = tile::<V, F, 1, 1>(self.x, 0, tiles(self.w, at / GROUP));
                self.outputs.put((0, 1), at, y);
            }
        }
    }
}

/// Returns the tiles from a group on.
fn tiles<F: BlockFormat>(w: &Packed<F>, group: usize) -> Tiles {
    let tiles = w.group(group);
    Tiles { start: tiles.as_ptr(), group: tiles.len() }
}

/// A work item for several rows.
struct SeveralRows<'a, F> {
    x: &'a Int8Rows,
    w: &'a Packed<F>,
    outputs: Outputs<'a>,
}

impl<F: BlockFormat> Simd16Work for SeveralRows<'_, F> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let SeveralRows { x, w, outputs } = self;
        let mut at = outputs.from;
        // SAFETY: by the caller's promise.
        unsafe {
            while const { pays::<V, F>(1, 2) } && x.tiling.pairs && at + 2 * GROUP <= outputs.to {
                all_rows::<V, F, 2>(x, tiles(w, at / GROUP), at, &outputs);
                at += 2 * GROUP;
            }
            while at < outputs.to {
                all_rows::<V, F, 1>(x, tiles(w, at / GROUP), at, &outputs);
                at += GROUP;
            }
        }
    }
}

/// Computes all rows of G groups whose outputs begin at `at`.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn all_rows<V: Simd16, F: BlockFormat, const G: usize>(
    x: &Int8Rows,
    w: Tiles,
    at: usize,
    outputs: &Outputs<'_>,
) {
    let mut first = 0;
    while first < x.rows {
        let rows = x.tiling.rows(x.rows - first);
        // SAFETY: by the caller's promise; the tiles of a group follow those of the one before.
        unsafe {
            if rows <= MOST_ROWS_OF_PAIR {
                row_tile::<V, F, G>(x, (first, rows), w, at, outputs);
            } else {
                for g in 0..G {
                    let w = Tiles { start: w.start.add(g * w.group), ..w };
                    row_tile::<V, F, 1>(x, (first, rows), w, at + g * GROUP, outputs);
                }
            }
        }
        first += rows;
    }
}

/// Returns true if tiles of this shape are compiled. Two groups and many rows pay for weights that
/// need no unpacking.
const fn pays<V: Simd16, F: BlockFormat>(rows: usize, groups: usize) -> bool {
    let mut i = 0;
    while i < V::TILE_ROWS.len() && V::TILE_ROWS[i] != rows {
        i += 1;
    }
    let pairs = V::HAS_32_REGISTERS && F::IS_BYTES && rows <= MOST_ROWS_OF_PAIR;
    i < V::TILE_ROWS.len() && if groups == 1 { rows <= MOST_ROWS_UNPACKED || F::IS_BYTES } else { pairs }
}

/// Computes a tile of `rows` rows, from `first` on, of G groups whose outputs begin at `at`.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn row_tile<V: Simd16, F: BlockFormat, const G: usize>(
    x: &Int8Rows,
    (first, rows): (usize, usize),
    w: Tiles,
    at: usize,
    outputs: &Outputs<'_>,
) {
    let left = (first, x.rows - first);
    macro_rules! tiles_of {
        ($($r:literal)*) => {
            match rows {
                // A condition in a constant, so that other shapes are not compiled.
                $($r if const { pays::<V, F>($r, G) } => outputs.put(left, at, tile::<V, F, $r, G>(x, first, w)),)*
                n => unreachable!("a tile of {n} rows"),
            }
        };
    }
    // SAFETY: by the caller's promise.
    unsafe { tiles_of!(1 2 3 4 5 6 7 8 9 10 11 12) }
}

/// Some columns of one row's product.
struct ChosenInt8<'a, F> {
    x: &'a Int8Rows,
    w: &'a Packed<F>,
    columns: &'a [u32],
    out: &'a mut [f32],
}

impl<F: BlockFormat> Simd16Work for ChosenInt8<'_, F> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        // Columns are mostly in order, so neighbours share a group.
        let (mut group, mut values) = (usize::MAX, [0f32; LANES16]);
        for (column, out) in self.columns.iter().zip(self.out) {
            let column = *column as usize;
            assert!(column < self.w.rows);
            if column / GROUP != group {
                group = column / GROUP;
                // SAFETY: by the caller's promise; and a whole array.
                unsafe {
                    tile::<V, F, 1, 1>(self.x, 0, tiles(self.w, group))[0][0].store(values.as_mut_ptr());
                }
            }
            *out = values[column % GROUP];
        }
    }
}

impl<F: BlockFormat> Matrix for Packed<F> {
    fn outputs(&self) -> usize {
        self.rows
    }

    fn inputs(&self) -> usize {
        self.width
    }

    fn outputs_per_item(&self) -> usize {
        OUTPUTS_PER_ITEM
    }

    fn prepare(&self, x: &mut Activations) {
        x.round(TileShape::new(self.rows * self.width, F::IS_BYTES), F::SCALED, F::IS_BYTES);
    }

    fn is_prepared(&self, x: &Activations) -> bool {
        x.rounded(F::SCALED, F::IS_BYTES).is_some()
    }

    fn multiply_range(&self, x: &Activations, outputs: Range<usize>, out: &Target) {
        let Some(x) = x.rounded(F::SCALED, F::IS_BYTES) else { unreachable!("rows are prepared") };
        assert_eq!(x.width, self.width, "widths of a product");
        let outputs = Outputs { from: outputs.start, to: outputs.end, out };
        match x.rows {
            1 => run(OneRow { x, w: self, outputs }),
            _ => run(SeveralRows { x, w: self, outputs }),
        }
    }

    fn multiply_columns(&self, x: &[f32], outputs: &[u32], out: &mut [f32]) {
        assert_eq!((outputs.len(), x.len()), (out.len(), self.width));
        let rounded = Int8Rows::new(&Rows::new(x, 1, self.width), TileShape::default(), F::SCALED);
        run(ChosenInt8 { x: &rounded, w: self, columns: outputs, out });
        rounded.recycle();
    }

    fn row(&self, output: usize, out: &mut [f32]) {
        assert!(output < self.rows && out.len() == self.width);
        let tiles = self.group(output / GROUP).chunks_exact(F::TILE);
        for (tile, out) in tiles.zip(out.chunks_exact_mut(F::BLOCK_WEIGHTS)) {
            Self::widen(tile, output % GROUP, out);
        }
    }

    fn bytes(&self) -> usize {
        Packed::bytes(self)
    }
}

#[cfg(test)]
mod tests;
