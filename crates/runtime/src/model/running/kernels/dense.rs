//! A matrix of floats as they are in the file: single precision, or two kinds of 16 bits.
//!
//! # Cost
//!
//! Floats of 16 bits are widened in registers, so they take half the memory and, for few rows,
//! about half the time.
//!
//! # Alternatives considered
//!
//! Widening them when they are loaded was rejected: the results are the same, bit for bit, at twice
//! the memory.

use std::ops::Range;

use super::f32_matmul::{COLUMNS_PER_ITEM, Weight, matmul_f32_columns, product_range};
use super::matrix_product::Matrix;
use super::quantize::Activations;
use super::rows::{Rows, Target};

/// A matrix of numbers of type T.
pub(crate) struct Dense<T> {
    numbers: Vec<T>,
    rows: usize,
    width: usize,
}

impl<T: Weight> Dense<T> {
    /// Copies the bytes of each output, which has `width` inputs.
    ///
    /// # Panics
    /// If a row has another number of bytes.
    pub(crate) fn new(rows: &[&[u8]], width: usize) -> Self {
        assert!(rows.iter().all(|row| row.len() == width * size_of::<T>()), "rows of the same width");
        let mut numbers = Vec::with_capacity(rows.len() * width);
        for row in rows {
            numbers.extend(row.chunks_exact(size_of::<T>()).map(T::from_bytes));
        }
        Dense { numbers, rows: rows.len(), width }
    }

    fn all(&self) -> Rows<'_, T> {
        Rows::new(&self.numbers, self.rows, self.width)
    }
}

impl<T: Weight> Matrix for Dense<T> {
    fn outputs(&self) -> usize {
        self.rows
    }

    fn inputs(&self) -> usize {
        self.width
    }

    fn outputs_per_item(&self) -> usize {
        COLUMNS_PER_ITEM
    }

    fn prepare(&self, _: &mut Activations) {}

    fn is_prepared(&self, _: &Activations) -> bool {
        true
    }

    fn multiply_range(&self, x: &Activations, outputs: Range<usize>, out: &Target) {
        product_range(&x.rows, &self.all(), outputs.start, outputs.end, out);
    }

    fn multiply_columns(&self, x: &[f32], outputs: &[u32], out: &mut [f32]) {
        matmul_f32_columns(x, &self.all(), outputs, out);
    }

    fn row(&self, output: usize, out: &mut [f32]) {
        let row = self.all();
        out.iter_mut().zip(row.row(output)).for_each(|(out, number)| *out = number.wide());
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.numbers[..])
    }
}
