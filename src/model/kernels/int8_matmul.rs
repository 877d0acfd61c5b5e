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
//! Products of several rows unpack a few blocks of sixteen outputs once for all rows. Those of `Q8_0`
//! need no unpacking.
//!
//! # Alternatives considered
//!
//! - Compiling the products of every number of rows for every format was rejected: it takes minutes,
//!   and unpacking again for each few rows is slower for long inputs.
//! - Widening the weights to single precision was rejected: an instruction then has a quarter of
//!   the products.
//! - The matrix unit of newer Intel processors (AMX) was rejected. It adds up a block for sixteen
//!   rows and outputs in one instruction. But its sums reach the vectors through memory and do not
//!   overlap with their work. The gain is small, begins at sixteen rows, and needs much code and a
//!   system call.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use super::f32_matmul::in_items;
use super::formats::{BlockFormat, GROUP, Q8_0, Unpacked, unpack_part};
use super::packed::Packed;
use super::quantize::{BLOCK, Int8Rows, TileShape, ZERO};
use super::simd16::{LANES16, Simd16, Simd16Work, has_32_registers, run};
use super::{Out, Rows, Target};

/// A block of activations of some rows; see [`Int8Rows`].
#[derive(Clone, Copy)]
struct TileInput {
    quants: *const i8,
    scales: *const f32,
    zero_correction: *const i32,
    /// Only for formats with a scale for each 16 inputs.
    half_sums: *const i32,
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
    /// True if the minimums are used.
    minimums: bool,
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
    // SAFETY: by the caller's promise.
    unsafe {
        let mut acc = [[V::splat(0.0); R]; G];
        add_blocks::<V, F, R, G>(x, first, w, 0..x.width / BLOCK, &mut acc);
        acc
    }
}

/// Adds the products of some blocks of R rows, from `first` on, with G groups to `acc`. The tiles
/// begin with those of the first block.
///
/// # Safety
/// As for [`tile`]; the blocks are whole tiles.
#[inline(always)]
unsafe fn add_blocks<V: Simd16, F: BlockFormat, const R: usize, const G: usize>(
    x: &Int8Rows,
    first: usize,
    w: Tiles,
    range: Range<usize>,
    acc: &mut [[V; R]; G],
) {
    let blocks = x.width / BLOCK;
    assert!(range.end <= blocks);
    let rows = &x.quants[first * x.width..][..R * x.width];
    let (scales, corrections) =
        (&x.scales[first * blocks..][..R * blocks], &x.zero_correction[first * blocks..][..R * blocks]);
    let halves = if F::SCALED < BLOCK { &x.half_sums[first * blocks..][..R * blocks] } else { &[] };
    // SAFETY: in bounds by the lengths above; a group has a tile for each `PARTS` blocks.
    unsafe {
        let mut tiles = [w.start; G];
        for (g, tile) in tiles.iter_mut().enumerate() {
            *tile = tile.add(g * w.group);
        }
        let mut block = range.start;
        while block < range.end {
            for part in 0..F::PARTS {
                let x = TileInput {
                    quants: rows.as_ptr().add(block * BLOCK * R),
                    scales: scales.as_ptr().add(block * R),
                    zero_correction: corrections.as_ptr().add(block * R),
                    // Empty unless needed.
                    half_sums: halves.as_ptr().wrapping_add(block * R),
                };
                if F::IS_STORED {
                    let ahead = tiles[0].wrapping_add(PREFETCH_BYTES + part * F::PART);
                    for line in 0..F::PART.div_ceil(64) {
                        V::prefetch(ahead.wrapping_add(line * 64).cast());
                    }
                }
                add_part::<V, F, R, G>(x, tiles, part, w.minimums, acc);
                block += 1;
            }
            for tile in &mut tiles {
                *tile = tile.add(F::TILE);
            }
        }
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
    minimums: bool,
    acc: &mut [[V; R]; G],
) {
    let halves = BLOCK / F::SCALED;
    // SAFETY: by the caller's promise.
    unsafe {
        for half in 0..halves {
            let mut negative_sums = [0; R];
            let mut sums = [[V::integers(0); R]; G];
            for r in 0..R {
                // The negative sum of the activations with the same scale; all steps are exact.
                let all = *x.zero_correction.add(r) / i32::from(ZERO);
                negative_sums[r] = match (halves, half) {
                    (1, _) => all,
                    (_, 0) => -*x.half_sums.add(r),
                    _ => all + *x.half_sums.add(r),
                };
                for g in 0..G {
                    sums[g][r] = match F::OFFSET {
                        128 => V::zero_of_bytes(negative_sums[r].wrapping_mul(i32::from(ZERO))),
                        offset => V::integers(negative_sums[r].wrapping_mul(offset)),
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
                if F::MINIMUMS && minimums {
                    let minimum = F::minimum::<V>(tiles[g], part, half);
                    for r in 0..R {
                        let less = negative_sums[r] as f32 * *x.scales.add(r);
                        acc[g][r] = acc[g][r].multiply_add(minimum, V::splat(less));
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
    /// Writes the results of R rows and G groups, beginning at output `at`.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn put<V: Simd16, const R: usize, const G: usize>(&self, first: usize, at: usize, y: [[V; R]; G]) {
        for (g, y) in y.iter().enumerate() {
            let at = at + g * GROUP;
            for (r, y) in y.iter().enumerate() {
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
                self.outputs.put(0, at, y);
            }
        }
    }
}

/// Returns the tiles from a group on.
fn tiles<F: BlockFormat>(w: &Packed<F>, group: usize) -> Tiles {
    let tiles = w.group(group);
    Tiles { start: tiles.as_ptr(), group: tiles.len(), minimums: true }
}

/// A work item for several rows, of tiles that are read as they are.
struct Direct<'a, F> {
    x: &'a Int8Rows,
    w: &'a Packed<F>,
    outputs: Outputs<'a>,
}

impl<F: BlockFormat> Simd16Work for Direct<'_, F> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let Direct { x, w, outputs } = self;
        let mut r = 0;
        while r < x.rows {
            let rows = x.tiling.rows(x.rows - r);
            let mut at = outputs.from;
            // SAFETY: by the caller's promise.
            unsafe {
                while V::HAS_32_REGISTERS
                    && rows <= 6
                    && x.tiling == TileShape::Cached
                    && at + 2 * GROUP <= outputs.to
                {
                    row_tile::<V, F, 2>(x, (r, rows), tiles(w, at / GROUP), at, &outputs);
                    at += 2 * GROUP;
                }
                while at < outputs.to {
                    row_tile::<V, F, 1>(x, (r, rows), tiles(w, at / GROUP), at, &outputs);
                    at += GROUP;
                }
            }
            r += rows;
        }
    }
}

/// Computes `rows` rows, from `first` on, of G groups whose outputs begin at `at`.
///
/// # Safety
/// As for [`tile`]; no more than six rows unless [`Simd16::HAS_32_REGISTERS`] and one group.
#[inline(always)]
unsafe fn row_tile<V: Simd16, F: BlockFormat, const G: usize>(
    x: &Int8Rows,
    (first, rows): (usize, usize),
    w: Tiles,
    at: usize,
    outputs: &Outputs<'_>,
) {
    macro_rules! rows {
        ($r:literal) => {
            outputs.put(first, at, tile::<V, F, $r, G>(x, first, w))
        };
    }
    // SAFETY: by the caller's promise.
    unsafe {
        match rows {
            1 => rows!(1),
            2 => rows!(2),
            3 => rows!(3),
            4 => rows!(4),
            5 => rows!(5),
            6 => rows!(6),
            7 if V::HAS_32_REGISTERS && G == 1 => rows!(7),
            8 if V::HAS_32_REGISTERS && G == 1 => rows!(8),
            9 if V::HAS_32_REGISTERS && G == 1 => rows!(9),
            10 if V::HAS_32_REGISTERS && G == 1 => rows!(10),
            11 if V::HAS_32_REGISTERS && G == 1 => rows!(11),
            12 if V::HAS_32_REGISTERS && G == 1 => rows!(12),
            n => unreachable!("a tile of {n} rows"),
        }
    }
}

/// The unpacked weights that a thread works on, and the sums of all rows.
#[derive(Default)]
struct Strip {
    bytes: Vec<u8>,
    sums: Vec<f32>,
}

thread_local! {
    /// Kept for its memory: a group of outputs, and sixteen sums for each row of a chunk.
    static UNPACKED: Cell<Strip> = const { Cell::new(Strip { bytes: Vec::new(), sums: Vec::new() }) };
}

/// A work item that unpacks some tiles of a group.
struct Unpack<'a, F> {
    tiles: &'a [u8],
    /// Room for them in the format [`Unpacked`].
    to: &'a mut [u8],
    /// Bytes of a part in this format.
    part: usize,
    format: PhantomData<F>,
}

impl<F: BlockFormat> Simd16Work for Unpack<'_, F> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let tiles = self.tiles.chunks_exact(F::TILE);
        for (tile, to) in tiles.zip(self.to.chunks_exact_mut(F::PARTS * self.part)) {
            for (part, to) in to.chunks_exact_mut(self.part).enumerate() {
                let ahead = tile.as_ptr().wrapping_add(PREFETCH_BYTES + part * F::PART);
                // SAFETY: a whole tile and part, and what is prefetched need not exist; and by the
                // caller's promise.
                unsafe {
                    for line in 0..F::PART.div_ceil(64) {
                        V::prefetch(ahead.wrapping_add(line * 64).cast());
                    }
                    unpack_part::<V, F>(tile.as_ptr(), part, to.as_mut_ptr());
                }
            }
        }
    }
}

/// A work item for all rows of some unpacked blocks of a group.
struct UnpackedRows<'a, const SCALED: usize> {
    x: &'a Int8Rows,
    w: Tiles,
    blocks: Range<usize>,
    /// The sums of each row, [`LANES16`] for each, to which the products are added.
    sums: &'a mut [f32],
}

impl<const SCALED: usize> Simd16Work for UnpackedRows<'_, SCALED> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let UnpackedRows { x, w, blocks, sums } = self;
        let mut first = 0;
        while first < x.rows {
            let rows = x.tiling.rows(x.rows - first);
            let sums = &mut sums[first * LANES16..][..rows * LANES16];
            macro_rules! rows {
                ($r:literal) => {{
                    let mut acc = [[V::splat(0.0); $r]];
                    for r in 0..$r {
                        acc[0][r] = V::load(sums.as_ptr().add(r * LANES16));
                    }
                    add_blocks::<V, Unpacked<SCALED>, $r, 1>(x, first, w, blocks.clone(), &mut acc);
                    for r in 0..$r {
                        acc[0][r].store(sums.as_mut_ptr().add(r * LANES16));
                    }
                }};
            }
            // SAFETY: by the caller's promise; and the sums of each row exist.
            unsafe {
                match rows {
                    1 => rows!(1),
                    2 => rows!(2),
                    3 => rows!(3),
                    4 => rows!(4),
                    5 => rows!(5),
                    6 => rows!(6),
                    7 if V::HAS_32_REGISTERS => rows!(7),
                    8 if V::HAS_32_REGISTERS => rows!(8),
                    9 if V::HAS_32_REGISTERS => rows!(9),
                    10 if V::HAS_32_REGISTERS => rows!(10),
                    11 if V::HAS_32_REGISTERS => rows!(11),
                    12 if V::HAS_32_REGISTERS => rows!(12),
                    n => unreachable!("a tile of {n} rows"),
                }
            }
            first += rows;
        }
    }
}

/// Number of blocks that are unpacked together for few rows: a tile of the largest formats. They
/// stay in the first-level cache until they are multiplied, and memory is read without pauses.
const STRIP: usize = 8;
/// Maximum number of rows that are few. For more rows the second-level cache is fast enough, and
/// sums are kept in registers for longer.
const FEW_ROWS: usize = 16;

/// Unpacks some blocks of a group at a time and multiplies them with all rows.
fn unpacked<F: BlockFormat, const SCALED: usize>(x: &Int8Rows, w: &Packed<F>, all: &Outputs<'_>) {
    let part = Unpacked::<SCALED>::PART;
    let blocks = w.width() / BLOCK;
    let strip = if x.rows <= FEW_ROWS { STRIP } else { blocks.next_multiple_of(STRIP) };
    let mut buffer = UNPACKED.take();
    buffer.bytes.resize(strip * part, 0);
    for at in (all.from..all.to).step_by(GROUP) {
        buffer.sums.clear();
        buffer.sums.resize(x.rows * LANES16, 0.0);
        let strips = w.group(at / GROUP).chunks(strip / F::PARTS * F::TILE);
        for (i, tiles) in strips.enumerate() {
            let range = i * strip..blocks.min((i + 1) * strip);
            run(Unpack::<F> { tiles, to: &mut buffer.bytes, part, format: PhantomData });
            let w = Tiles { start: buffer.bytes.as_ptr(), group: 0, minimums: F::MINIMUMS };
            run(UnpackedRows::<SCALED> { x, w, blocks: range, sums: &mut buffer.sums });
        }
        let outputs = GROUP.min(all.to - at);
        for (row, sums) in buffer.sums.chunks_exact(LANES16).enumerate() {
            all.out.put_all(row, at, &sums[..outputs]);
        }
    }
    UNPACKED.set(buffer);
}

/// Computes `out[r][c] = x.row(r) . w.row(c)`, with the activations in 8 bits.
pub(super) fn matmul_int8<F: BlockFormat>(x: &Rows, w: &Packed<F>, out: Out<'_>) {
    product(x, w, out, |x, outputs| unpacked_rows(x, w, outputs));
}

/// Computes the same for the format whose tiles are read as they are.
pub(super) fn matmul_bytes(x: &Rows, w: &Packed<Q8_0>, out: Out<'_>) {
    product(x, w, out, |x, outputs| run(Direct { x, w, outputs }));
}

fn unpacked_rows<F: BlockFormat>(x: &Int8Rows, w: &Packed<F>, outputs: Outputs<'_>) {
    match F::SCALED {
        BLOCK => unpacked::<F, BLOCK>(x, w, &outputs),
        _ => unpacked::<F, 16>(x, w, &outputs),
    }
}

fn product<F: BlockFormat>(
    x: &Rows,
    w: &Packed<F>,
    out: Out<'_>,
    several: impl Fn(&Int8Rows, Outputs<'_>) + Sync,
) {
    assert_eq!(x.width, w.width(), "widths of a product");
    let shape = TileShape::new(has_32_registers(), w.rows() * w.width());
    let rounded = Int8Rows::new(x, shape, F::SCALED < BLOCK);
    in_items(x, w.rows(), OUTPUTS_PER_ITEM, out, |from, to, target| {
        let outputs = Outputs { from, to, out: target };
        match rounded.rows {
            1 => run(OneRow { x: &rounded, w, outputs }),
            _ => several(&rounded, outputs),
        }
    });
    rounded.recycle();
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
            assert!(column < self.w.rows());
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

/// Computes the elements of a product in row `x` and some columns. They have the same bits as in
/// the whole product, at the cost of their groups. Runs on this thread, since they are few.
pub(super) fn matmul_int8_columns<F: BlockFormat>(
    x: &[f32],
    w: &Packed<F>,
    columns: &[u32],
    out: &mut [f32],
) {
    assert_eq!((columns.len(), x.len()), (out.len(), w.width()));
    let rounded = Int8Rows::new(&Rows::new(x, 1, w.width()), TileShape::default(), F::SCALED < BLOCK);
    run(ChosenInt8 { x: &rounded, w, columns, out });
    rounded.recycle();
}

#[cfg(test)]
mod tests;
