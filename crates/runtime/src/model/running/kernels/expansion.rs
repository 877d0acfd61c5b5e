//! The second product of a low-rank adapter: adds the products of short rows with a matrix to rows
//! that are there already.
//!
//! The matrix has few inputs (the rank) and many outputs. A vector of outputs takes the inputs one
//! after the other. So each element is one sum in the order of the inputs, whatever runs with it.
//!
//! # Cost
//!
//! A multiply-add for each input and output, sixteen to an instruction. Bytes are widened once for
//! up to eight rows.
//!
//! # Alternatives considered
//!
//! - The integer product ([`super::int8_matmul`]) was rejected. It would round the short rows, pad
//!   ranks to 32, and need a further pass to add up.
//! - Numbers by output were rejected: a sum of 16 or 24 terms fills no vector.

use super::matrix_product::item_size;
use super::quantize::BLOCK;
use super::rows::{Out, Rows, Target, parallel_for};
use super::simd16::{LANES16, Simd16, Simd16Work, run};

/// Number of outputs of one work item.
const OUTPUTS_PER_ITEM: usize = 8 * BLOCK;
/// Number of inputs that are added together, so that their factors stay on the stack.
const INPUTS: usize = 32;
/// Distance in bytes at which numbers are prefetched.
const PREFETCH_BYTES: usize = 2048;

/// A matrix of few inputs and many outputs.
pub(crate) struct Expansion {
    /// For each [`BLOCK`] outputs the numbers of the inputs, in their order: a product reads them one
    /// after the other. The last outputs may not exist; their numbers are zero.
    blocks: Vec<u8>,
    /// For each [`BLOCK`] outputs the factors of the inputs' bytes; empty if the numbers are floats.
    scales: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl Expansion {
    /// Takes the numbers `[input][output]`.
    ///
    /// # Panics
    /// If these are not whole rows.
    pub(crate) fn of_floats(numbers: &[f32], outputs: usize) -> Self {
        assert!(outputs > 0 && numbers.len().is_multiple_of(outputs), "whole rows");
        let inputs = numbers.len() / outputs;
        let number = |(first, input, i): (usize, usize, usize)| {
            let n = numbers[input * outputs..][..outputs].get(first + i);
            n.copied().unwrap_or_default().to_le_bytes()
        };
        let numbers =
            by_blocks(inputs, outputs).flat_map(|(first, k)| (0..BLOCK).map(move |i| (first, k, i)));
        Expansion { blocks: numbers.flat_map(number).collect(), scales: Vec::new(), inputs, outputs }
    }

    /// Takes bytes `[input][output]` and a factor for each [`BLOCK`] of them.
    ///
    /// # Panics
    /// If rows are not whole blocks.
    pub(crate) fn of_bytes(bytes: &[u8], scales: &[f32], outputs: usize) -> Self {
        assert!(outputs > 0 && outputs.is_multiple_of(BLOCK) && bytes.len().is_multiple_of(outputs));
        assert_eq!(scales.len() * BLOCK, bytes.len(), "a factor for each block");
        let inputs = bytes.len() / outputs;
        let starts = || by_blocks(inputs, outputs).map(|(first, input)| input * outputs + first);
        let blocks = starts().flat_map(|at| &bytes[at..at + BLOCK]).copied().collect();
        Expansion { blocks, scales: starts().map(|at| scales[at / BLOCK]).collect(), inputs, outputs }
    }

    /// Returns the number of inputs.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the bytes of memory that the numbers take.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() + size_of_val(&self.scales[..])
    }

    /// Returns the numbers `[input][output]` in single precision: those that an input of one has.
    pub(crate) fn widened(&self) -> Vec<f32> {
        let mut rows = vec![0.0; self.inputs * self.outputs];
        for (input, row) in rows.chunks_exact_mut(self.outputs).enumerate() {
            let mut one = vec![0.0; self.inputs];
            one[input] = 1.0;
            self.add(&Rows::new(&one, 1, self.inputs), Out { data: row, stride: self.outputs });
        }
        rows
    }

    /// Adds the products of the rows of `z` to the rows of `out`.
    pub(crate) fn add(&self, z: &Rows, out: Out<'_>) {
        assert_eq!(z.width, self.inputs, "widths of a product");
        // Items of whole blocks, also for one row.
        let size = item_size(self.outputs, OUTPUTS_PER_ITEM, z.rows.max(2)).next_multiple_of(BLOCK);
        let out = out.target(z.rows, self.outputs);
        parallel_for(self.outputs.div_ceil(size), z.rows * self.outputs * self.inputs, |range| {
            for from in range.map(|item| item * size) {
                run(OutputRange { z, w: self, from, to: (from + size).min(self.outputs), out: &out });
            }
        });
    }
}

/// Returns the first output of each block with each input.
fn by_blocks(inputs: usize, outputs: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..outputs).step_by(BLOCK).flat_map(move |first| (0..inputs).map(move |input| (first, input)))
}

/// A work item: the outputs `from..to`, which begin a block, of all rows.
struct OutputRange<'a> {
    z: &'a Rows<'a>,
    w: &'a Expansion,
    from: usize,
    to: usize,
    out: &'a Target,
}

/// Loads the numbers of an input for a block of outputs, without their factor.
///
/// # Safety
/// They exist; and as for all of [`Simd16`].
#[inline(always)]
unsafe fn load<V: Simd16, const BYTES: bool>(from: *const u8) -> [V; 2] {
    // SAFETY: by the caller's promise.
    unsafe {
        match BYTES {
            true => [V::load_i8(from.cast()), V::load_i8(from.add(LANES16).cast())],
            false => [V::load(from.cast()), V::load(from.cast::<f32>().add(LANES16))],
        }
    }
}

impl OutputRange<'_> {
    /// Adds to R rows from `first` on; returns R.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    // No closures here, nor iterators over vectors: they lack the instructions of the function that
    // they are inlined into.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn rows<V: Simd16, const BYTES: bool, const R: usize>(&self, first: usize) -> usize {
        let (inputs, size) = (self.w.inputs, if BYTES { BLOCK } else { BLOCK * size_of::<f32>() });
        let mut block = self.w.blocks[self.from / BLOCK * inputs * size..].as_ptr();
        for at in (self.from..self.to).step_by(BLOCK) {
            let (n, second) = (self.to - at, (self.to - at).saturating_sub(LANES16));
            // SAFETY: no more than the outputs up to `to`, which exist, as their blocks do; and by the
            // caller's promise.
            unsafe {
                let mut sums = [[V::splat(0.0); 2]; R];
                for r in 0..R {
                    sums[r][0] = self.out.get_part(first + r, at, n);
                    if second > 0 {
                        sums[r][1] = self.out.get_part(first + r, at + LANES16, second);
                    }
                }
                for begin in (0..inputs).step_by(INPUTS) {
                    let count = (inputs - begin).min(INPUTS);
                    // The numbers of the rows, times the factors of the bytes.
                    let mut z = [[0f32; INPUTS]; R];
                    for r in 0..R {
                        let row = &self.z.row(first + r)[begin..begin + count];
                        for half in (0..count).step_by(LANES16) {
                            let mut part = V::load_part(row.as_ptr().add(half), count - half, 0.0);
                            if BYTES {
                                let scales = self.w.scales.as_ptr().add(at / BLOCK * inputs + begin + half);
                                part = part.mul(V::load_part(scales, count - half, 0.0));
                            }
                            part.store(z[r].as_mut_ptr().add(half));
                        }
                    }
                    for k in 0..count {
                        V::prefetch(block.wrapping_add(PREFETCH_BYTES).cast());
                        let w: [V; 2] = load::<V, BYTES>(block);
                        block = block.add(size);
                        for r in 0..R {
                            let z = V::splat(z[r][k]);
                            sums[r][0] = sums[r][0].multiply_add(z, w[0]);
                            sums[r][1] = sums[r][1].multiply_add(z, w[1]);
                        }
                    }
                }
                for r in 0..R {
                    self.out.put_part(first + r, at, n, sums[r][0]);
                    if second > 0 {
                        self.out.put_part(first + r, at + LANES16, second, sums[r][1]);
                    }
                }
            }
        }
        R
    }

    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    unsafe fn all_rows<V: Simd16, const BYTES: bool>(&self) {
        let mut first = 0;
        // SAFETY: by the caller's promise.
        unsafe {
            while first < self.z.rows {
                first += match self.z.rows - first {
                    8.. if V::HAS_32_REGISTERS => self.rows::<V, BYTES, 8>(first),
                    4.. if V::HAS_32_REGISTERS => self.rows::<V, BYTES, 4>(first),
                    2.. => self.rows::<V, BYTES, 2>(first),
                    _ => self.rows::<V, BYTES, 1>(first),
                };
            }
        }
    }
}

impl Simd16Work for OutputRange<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        // SAFETY: by the caller's promise.
        unsafe {
            match self.w.scales.is_empty() {
                false => self.all_rows::<V, true>(),
                true => self.all_rows::<V, false>(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    /// Both kinds of numbers, against the definition in double precision; each row with the bits
    /// that it has alone.
    #[test]
    fn products_are_added_and_do_not_depend_on_the_number_of_rows() {
        for (rows, inputs, outputs) in [(1, 1, 1), (2, 8, 37), (3, 24, 96), (7, 16, 300), (21, 5, 32)] {
            let w = noise(inputs * outputs, 1);
            let mut kinds = vec![(Expansion::of_floats(&w, outputs), w.clone())];
            if outputs.is_multiple_of(BLOCK) {
                let bytes: Vec<i8> = w.iter().map(|w| (w * 200.0) as i8).collect();
                let scales = noise(w.len() / BLOCK, 2);
                let wide = bytes.iter().enumerate().map(|(i, b)| f32::from(*b) * scales[i / BLOCK]);
                let wide = wide.collect();
                let bytes: Vec<u8> = bytes.iter().map(|b| *b as u8).collect();
                kinds.push((Expansion::of_bytes(&bytes, &scales, outputs), wide));
            }
            for (kind, wide) in kinds {
                assert_eq!((kind.inputs(), kind.outputs()), (inputs, outputs));
                assert_eq!(kind.widened(), wide);
                let stride = outputs + 3;
                let (z, before) = (noise(rows * (inputs + 2), 3), noise(rows * stride, 4));
                let mut out = before.clone();
                let rows_of = |rows| Rows::strided(&z, rows, inputs, inputs + 2);
                kind.add(&rows_of(rows), Out { data: &mut out, stride });
                for r in 0..rows {
                    for c in 0..stride {
                        let product =
                            |k| f64::from(z[r * (inputs + 2) + k]) * f64::from(wide[k * outputs + c]);
                        let more: f64 = if c < outputs { (0..inputs).map(product).sum() } else { 0.0 };
                        let want = f64::from(before[r * stride + c]) + more;
                        // 24 terms below 32 in single precision.
                        assert!((f64::from(out[r * stride + c]) - want).abs() < 5e-5, "{r} {c}");
                    }
                    let mut alone = before[r * stride..][..outputs].to_vec();
                    let row = Rows::new(&z[r * (inputs + 2)..][..inputs], 1, inputs);
                    kind.add(&row, Out { data: &mut alone, stride: outputs });
                    assert_eq!(alone, out[r * stride..][..outputs]);
                }
            }
        }
    }
}
