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
//! # Alternatives considered
//!
//! - Widening the weights to single precision was rejected: an instruction then has a quarter of
//!   the products.
//! - The matrix unit of newer Intel processors (AMX) was rejected. It adds up a block for sixteen
//!   rows and outputs in one instruction. But its sums reach the vectors through memory and do not
//!   overlap with their work. The gain is small, begins at sixteen rows, and needs much code and a
//!   system call.

use super::f32_matmul::in_items;
use super::formats::{BlockFormat, GROUP};
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

/// Computes the tile of R rows from `first` on times G groups of outputs, one output in each lane.
///
/// # Safety
/// As for all of [`Simd16`].
#[inline(always)]
unsafe fn tile<V: Simd16, F: BlockFormat, const R: usize, const G: usize>(
    x: &Int8Rows,
    first: usize,
    w: &Packed<F>,
    group: usize,
) -> [[V; R]; G] {
    assert!(x.width == w.width() && (group + G) * GROUP <= w.rows().next_multiple_of(GROUP));
    let blocks = x.width / BLOCK;
    let rows = &x.quants[first * x.width..][..R * x.width];
    let (scales, corrections) =
        (&x.scales[first * blocks..][..R * blocks], &x.zero_correction[first * blocks..][..R * blocks]);
    let halves = if F::SCALED < BLOCK { &x.half_sums[first * blocks..][..R * blocks] } else { &[] };
    let mut tiles = [w.group(group).as_ptr(); G];
    for g in 1..G {
        tiles[g] = w.group(group + g).as_ptr();
    }
    // SAFETY: in bounds by the lengths above; a group has a tile for each `PARTS` blocks.
    unsafe {
        let mut acc = [[V::splat(0.0); R]; G];
        let mut block = 0;
        while block < blocks {
            for part in 0..F::PARTS {
                let x = TileInput {
                    quants: rows.as_ptr().add(block * BLOCK * R),
                    scales: scales.as_ptr().add(block * R),
                    zero_correction: corrections.as_ptr().add(block * R),
                    // Empty unless needed.
                    half_sums: halves.as_ptr().wrapping_add(block * R),
                };
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
    let mut parts = tiles;
    for g in 0..G {
        parts[g] = parts[g].wrapping_add(part * F::PART);
        for line in 0..F::PART.div_ceil(64) {
            // SAFETY: the address need not exist.
            unsafe { V::prefetch(parts[g].wrapping_add(PREFETCH_BYTES + line * 64).cast()) };
        }
    }
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
                let mut w = [V::bytes(parts[0]); G];
                for g in 0..G {
                    w[g] = F::four::<V>(parts[g], k);
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
                        let less = negative_sums[r] as f32 * *x.scales.add(r);
                        acc[g][r] = acc[g][r].multiply_add(minimum, V::splat(less));
                    }
                }
            }
        }
    }
}

/// A work item: the outputs `from..to` of all rows; `from` begins a group.
pub(super) struct Groups<'a, F> {
    pub x: &'a Int8Rows,
    pub w: &'a Packed<F>,
    pub from: usize,
    pub to: usize,
    pub out: &'a Target,
}

impl<F: BlockFormat> Groups<'_, F> {
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
            let y = tile::<V, F, R, G>(self.x, first, self.w, at / GROUP);
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

impl<F: BlockFormat> Simd16Work for Groups<'_, F> {
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
pub(crate) fn matmul_int8<F: BlockFormat>(x: &Rows, w: &Packed<F>, out: Out<'_>) {
    assert_eq!(x.width, w.width(), "widths of a product");
    let rounded = Int8Rows::new(x, TileShape::new(has_32_registers(), w.rows() * w.width()), F::SCALED < BLOCK);
    in_items(x, w.rows(), OUTPUTS_PER_ITEM, out, |from, to, target| {
        run(Groups { x: &rounded, w, from, to, out: target })
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
                unsafe { tile::<V, F, 1, 1>(self.x, 0, self.w, group)[0][0].store(values.as_mut_ptr()) };
            }
            *out = values[column % GROUP];
        }
    }
}

/// Computes the elements of a product in row `x` and some columns. They have the same bits as in
/// the whole product, at the cost of their groups. Runs on this thread, since they are few.
pub(crate) fn matmul_int8_columns<F: BlockFormat>(
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

