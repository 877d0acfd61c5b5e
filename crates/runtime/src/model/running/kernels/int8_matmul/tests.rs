use candle_core::quantized::{QStorage, QTensor};
use candle_core::{Device, Storage};
use half::f16;

use super::super::Out;
use super::super::formats::{self, iq4_nl::Iq4Nl, iq4_xs::Iq4Xs};
use super::super::matrix_product::{Matrix, multiply_all};
use super::super::quantize::{Activations, Round, ShapeOf};
use super::super::simd16::Portable;
#[cfg(target_arch = "x86_64")]
use super::super::simd16::{Avx2, Avx512, has_avx512};
use super::super::tests::noise;
use super::*;
use crate::model::loading::tensor_type::TensorType;

/// Applies `check` to a random matrix of each format and the weights that it represents.
trait Check {
    fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, wide: &[f32]);
}

/// No weight of [`blocks`] is larger, nor its product of value and scale, nor its minimum.
const LARGEST: f64 = 64.0;

/// Returns random blocks of `weights` weights. All bits are random, but the numbers in half
/// precision are small.
fn blocks<F: BlockFormat>(weights: usize) -> Vec<u8> {
    let (count, size) = (weights / F::BLOCK_WEIGHTS, F::BLOCK_BYTES);
    let mut bytes: Vec<u8> = noise(count * size, 2).iter().map(|v| ((v + 0.5) * 256.0) as u8).collect();
    let halves = &[F::SCALE_AT, F::SCALE_AT + 2][..F::NUMBERS];
    // With two levels of scales, the others are whole numbers up to 128.
    let most = if F::BLOCK_WEIGHTS == BLOCK { 1.0 } else { 1.0 / 64.0 };
    let numbers = noise(count * halves.len(), 3);
    for (block, numbers) in bytes.chunks_exact_mut(size).zip(numbers.chunks_exact(halves.len())) {
        for (at, number) in halves.iter().zip(numbers) {
            block[*at..at + 2].copy_from_slice(&f16::from_f32(number * most).to_le_bytes());
        }
    }
    bytes
}

fn packed<F: BlockFormat>(bytes: &[u8], rows: usize, width: usize) -> Packed<F> {
    Packed::new(&bytes.chunks_exact(bytes.len() / rows).collect::<Vec<_>>(), width)
}

fn of_one<F: BlockFormat>(kind: TensorType, rows: usize, width: usize, check: &impl Check) {
    let width = width.next_multiple_of(F::BLOCK_WEIGHTS);
    let w = packed::<F>(&blocks::<F>(rows * width), rows, width);
    let mut wide = vec![0.0; rows * width];
    wide.chunks_exact_mut(width).enumerate().for_each(|(row, wide)| w.row(row, wide));
    check.check(kind, &w, &wide);
}

fn of_each_kind(rows: usize, width: usize, check: &impl Check) {
    macro_rules! each {
        ($($module:ident::$Format:ident = $id:literal, $name:literal, $candle:expr;)*) => {
            $(of_one::<formats::$module::$Format>(TensorType::$Format, rows, width, check);)*
        };
    }
    formats::formats!(each);
}

#[test]
fn blocks_widen_as_candle_widens_them() {
    struct Widens;
    impl Check for Widens {
        fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, wide: &[f32]) {
            assert_eq!((F::BLOCK_WEIGHTS, F::BLOCK_BYTES), (kind.block_weights(), kind.block_bytes()));
            assert!(wide.iter().all(|v| f64::from(v.abs()) <= 2.0 * LARGEST), "{kind:?}");
            let Some(dtype) = kind.candle() else { return };
            let bytes = blocks::<F>(wide.len());
            let storage = QStorage::from_data((&bytes).into(), &Device::Cpu, dtype).unwrap();
            let tensor = QTensor::new(storage, (w.rows, w.width)).unwrap();
            let tensor = tensor.dequantize(&Device::Cpu).unwrap();
            let (storage, _) = tensor.storage_and_layout();
            let Storage::Cpu(storage) = &*storage else { unreachable!("in main memory") };
            assert_eq!(wide, storage.as_slice::<f32>().unwrap(), "{kind:?}");
        }
    }
    of_each_kind(19, 512, &Widens);
}

/// Blocks of the formats that candle lacks, with their weights as the Python package `gguf` 0.19
/// computes them: a block on each line, as bytes of a file and as little-endian floats.
const IQ4_BLOCKS: &str = include_str!("iq4_blocks.txt");

#[test]
fn blocks_that_candle_lacks_widen_as_those_of_the_reference() {
    fn widened<F: BlockFormat>(block: &[u8], weights: usize) -> Vec<u8> {
        let mut out = vec![0.0; weights];
        Packed::<F>::new(&[block], weights).row(0, &mut out);
        out.iter().flat_map(|v| v.to_le_bytes()).collect()
    }
    let bytes = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    };
    assert_eq!(IQ4_BLOCKS.lines().count(), 4);
    for line in IQ4_BLOCKS.lines() {
        let [name, block, want] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (block, want) = (bytes(block), bytes(want));
        let got = match name {
            "Iq4Nl" => widened::<Iq4Nl>(&block, 32),
            _ => widened::<Iq4Xs>(&block, 256),
        };
        assert_eq!(got, want, "{name}");
    }
}

fn whole(x: &[f32], w: &impl Matrix) -> Vec<f32> {
    let rows = x.len() / w.inputs();
    let mut out = vec![0.0; rows * w.outputs()];
    let mut x = Activations::new(Rows::new(x, rows, w.inputs()));
    multiply_all(&[w], &mut x, Out { data: &mut out, stride: w.outputs() });
    out
}

/// Numbers of rows, outputs and inputs. Inputs are rounded up to whole blocks.
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

/// Returns the largest error of sums in single precision of these activations and any weights of
/// [`blocks`]: a rounding for each of at most four terms of a block.
fn error_of_sums(x: &[f32]) -> f64 {
    let sizes: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
    4.0 * (x.len() / BLOCK) as f64 * 2f64.powi(-24) * 2.0 * LARGEST * sizes
}

/// Random activations that differ for each format, whose rows are cut to its width.
struct Products {
    rows: usize,
    /// Whole numbers up to 127, with 127 in each block: rounding does not change them.
    exact: bool,
}

impl Check for Products {
    fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, wide: &[f32]) {
        let (n, k) = (w.rows, w.width);
        let mut x = noise(self.rows * k, 1);
        if self.exact {
            x.iter_mut().for_each(|v| *v = (*v * 254.0).round());
            x.chunks_exact_mut(BLOCK).for_each(|block| block[7] = 127.0);
        } else {
            // Rows of very different sizes: each has scales of its own.
            for (r, row) in x.chunks_exact_mut(k).enumerate() {
                row.iter_mut().for_each(|v| *v *= 10f32.powi(r as i32 % 9 - 4));
            }
        }
        for (i, got) in whole(&x, w).iter().enumerate() {
            let (x, w) = (&x[i / n * k..][..k], &wide[i % n * k..][..k]);
            let want: f64 = x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let each = x.chunks(BLOCK).zip(w.chunks(BLOCK)).map(|(x, w)| {
                let largest = x.iter().fold(0f64, |a, b| a.max(f64::from(b.abs())));
                let sizes: f64 = w.iter().map(|w| f64::from(w.abs())).sum();
                // Half a step of 1/127 for each activation.
                largest * sizes * 0.5001 / 127.0
            });
            let rounding = if self.exact { 0.0 } else { each.sum::<f64>() };
            let off = (f64::from(*got) - want).abs();
            let bound = rounding + error_of_sums(x);
            assert!(off <= bound, "{i} of {kind:?} {n} x {k}: {got}, not {want}");
        }
    }
}

#[test]
fn products_agree_with_the_definition_up_to_the_rounding_of_activations() {
    for (rows, n, k) in SIZES {
        of_each_kind(n, k, &Products { rows, exact: false });
    }
}

#[test]
fn what_activations_hold_exactly_is_added_up_exactly() {
    for (rows, n, k) in SIZES {
        of_each_kind(n, k, &Products { rows, exact: true });
    }
}

#[test]
fn rows_and_chosen_columns_have_the_bits_they_have_among_all() {
    struct Alone(usize);
    impl Check for Alone {
        fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, _: &[f32]) {
            let x = noise(self.0 * w.width, 1);
            let (n, want) = (w.rows, whole(&x, w));
            for (r, row) in x.chunks_exact(w.width).enumerate() {
                let want = &want[r * n..(r + 1) * n];
                assert_eq!(whole(row, w), want, "row {r} of {kind:?}");
                let columns: Vec<u32> = (0..n as u32).rev().step_by(3).chain([0]).collect();
                let mut some = vec![0.0; columns.len()];
                w.multiply_columns(row, &columns, &mut some);
                assert_eq!(some, columns.iter().map(|c| want[*c as usize]).collect::<Vec<_>>(), "{kind:?}");
            }
        }
    }
    for (m, n, k) in SIZES {
        of_each_kind(n, k, &Alone(m));
    }
}

/// A product behind that of another matrix with the same rows.
struct After<'a> {
    first: &'a dyn Matrix,
    x: &'a [f32],
}

impl Check for After<'_> {
    fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, _: &[f32]) {
        let (rows, n) = (self.x.len() / w.width, self.first.outputs());
        let mut x = Activations::new(Rows::new(self.x, rows, w.width));
        let width = n + w.rows;
        let mut both = vec![0.0; rows * width];
        multiply_all(&[self.first, w as &dyn Matrix], &mut x, Out { data: &mut both, stride: width });
        let out: Vec<f32> = both.chunks_exact(width).flat_map(|row| &row[n..]).copied().collect();
        assert!(out == whole(self.x, w), "{kind:?}, {rows} rows");
    }
}

/// Every pair of formats, of sizes with every kind of tiles, shares rounded rows or does not, with the
/// bits that each has alone.
#[test]
fn matrices_with_the_same_rows_have_the_bits_they_have_alone() {
    struct First {
        rows: usize,
        second: usize,
    }
    impl Check for First {
        fn check<F: BlockFormat>(&self, _: TensorType, w: &Packed<F>, _: &[f32]) {
            let x = noise(self.rows * w.width, 4);
            of_each_kind(self.second, w.width, &After { first: w, x: &x });
        }
    }
    // 256 inputs are whole blocks of all formats; 2048 outputs make a matrix that comes from memory.
    for rows in [1, 7, 11, 24] {
        for (first, second) in [(33, 17), (2048, 17), (33, 2048)] {
            of_each_kind(first, 256, &First { rows, second });
        }
    }
}

/// Checks that vectors of one kind round activations as the fastest kind does.
///
/// # Safety
/// As for all of [`Simd16`].
unsafe fn rounds_alike<V: Simd16>(x: &Rows, scaled: usize, rounded: &Int8Rows) {
    let (blocks, halves) = (x.width / BLOCK, BLOCK / scaled);
    let mut first = 0;
    while first < x.rows {
        let rows = rounded.tiling.rows(x.rows - first);
        for r in 0..rows.min(x.rows - first) {
            let (mut out, mut scales) = (vec![0; x.width], vec![0.0; blocks]);
            let (mut sums, mut negative) = (vec![0; blocks * halves], vec![0.0; blocks * halves]);
            let (out_of, x) = (&mut out[..], x.row(first + r));
            let numbers = (&mut scales[..], &mut sums[..], &mut negative[..]);
            let (scales_of, sums_of, negative_sums) = numbers;
            let round =
                Round { x, step: 1, scaled, out: out_of, scales: scales_of, sums: sums_of, negative_sums };
            // SAFETY: by the caller's promise.
            unsafe { round.with::<V>() };
            for b in 0..blocks {
                let at = first * blocks + b * rows + r;
                assert_eq!(out[b * BLOCK..][..BLOCK], rounded.quants[at * BLOCK..][..BLOCK]);
                assert_eq!(scales[b], rounded.scales[at]);
                let (here, there) = (b * halves..(b + 1) * halves, at * halves..(at + 1) * halves);
                assert_eq!(sums[here.clone()], rounded.sums[there.clone()]);
                assert_eq!(negative[here], rounded.negative_sums[there]);
            }
        }
        first += rows;
    }
}

/// Computes a product with vectors of one kind, in tiles as for a number of weights.
///
/// # Safety
/// As for all of [`Simd16`].
unsafe fn with_kind<V: Simd16, F: BlockFormat>(x: &Rows, w: &Packed<F>, weights: usize) -> Vec<f32> {
    let mut out = vec![0.0; x.rows * w.rows];
    let target = Target { start: out.as_mut_ptr(), len: out.len(), stride: w.rows };
    let outputs = Outputs { from: 0, to: w.rows, out: &target };
    // SAFETY: by the caller's promise.
    unsafe {
        let rounded = Int8Rows::new(x, ShapeOf { weights, bytes: F::IS_BYTES }.with::<V>(), F::SCALED);
        rounds_alike::<V>(x, F::SCALED, &rounded);
        match x.rows {
            1 => OneRow { x: &rounded, w, outputs }.with::<V>(),
            _ => SeveralRows { x: &rounded, w, outputs }.with::<V>(),
        }
    }
    out
}

/// Every tile of every kind of vectors, with the bits of the rows alone.
#[test]
fn all_kinds_of_vectors_and_tiles_give_the_same_bits() {
    struct Kinds(usize);
    impl Check for Kinds {
        fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, _: &[f32]) {
            let x = noise(self.0 * w.width, 1);
            let alone = x.chunks_exact(w.width).map(|x| Rows::new(x, 1, w.width));
            let rows = Rows::new(&x, self.0, w.width);
            // SAFETY: nothing special is needed for the first kind; the others are checked.
            unsafe {
                let want: Vec<f32> =
                    alone.flat_map(|row| with_kind::<Portable<true>, F>(&row, w, 1)).collect();
                for weights in [1, usize::MAX] {
                    let what = format!("{kind:?}, {} rows, {weights} weights", self.0);
                    assert_eq!(with_kind::<Portable<true>, F>(&rows, w, weights), want, "{what}");
                    #[cfg(target_arch = "x86_64")]
                    if super::super::simd16::has_avx2() {
                        assert_eq!(whole(&x, w), want, "{what}");
                        assert_eq!(with_kind::<Avx2, F>(&rows, w, weights), want, "{what}");
                        if has_avx512() {
                            assert_eq!(with_kind::<Avx512, F>(&rows, w, weights), want, "{what}");
                        }
                    }
                }
            }
        }
    }
    for rows in 1..=13 {
        of_each_kind(41, 64, &Kinds(rows));
    }
    for (m, n, k) in SIZES {
        of_each_kind(n, k, &Kinds(m));
    }
}

#[test]
fn what_is_no_number_is_not_hidden() {
    struct Bad(f32);
    impl Check for Bad {
        fn check<F: BlockFormat>(&self, kind: TensorType, w: &Packed<F>, _: &[f32]) {
            let (n, k) = (w.rows, w.width);
            let mut x = noise(3 * k, 1);
            x[k + 17] = self.0;
            let y = whole(&x, w);
            assert!(y[n..2 * n].iter().all(|v| v.is_nan()), "{kind:?} {}", self.0);
            assert!(y[..n].iter().chain(&y[2 * n..]).all(|v| v.is_finite()), "other rows are untouched");
            assert!(whole(&vec![0.0; k], w).iter().all(|v| *v == 0.0));
            assert!(whole(&vec![1e-42; k], w).iter().all(|v| v.abs() < 1e-36));
            assert!(whole(&vec![1e33; k], w).iter().all(|v| v.is_finite()), "{kind:?}");
        }
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        of_each_kind(9, 64, &Bad(bad));
    }
}
