//! A weight matrix in memory, whatever the format of its numbers.

use std::sync::Arc;

use super::{Activations, Out};

/// A matrix of weights: a row for each output, as wide as the input.
///
/// Each element of a product depends on its row of activations and its output only, so it has the
/// same bits in all of these functions.
pub(crate) trait Matrix: Send + Sync {
    /// Returns the number of outputs.
    fn outputs(&self) -> usize;
    /// Returns the number of inputs.
    fn inputs(&self) -> usize;
    /// Computes the product of each row of `x` with each output.
    fn multiply(&self, x: &mut Activations, out: Out<'_>);
    /// Computes the product of one row with some outputs. Runs on this thread, since they are few.
    fn multiply_columns(&self, x: &[f32], outputs: &[u32], out: &mut [f32]);
    /// Writes the weights of an output in single precision.
    fn row(&self, output: usize, out: &mut [f32]);
    /// Returns the bytes of memory that the weights take.
    fn bytes(&self) -> usize;
}

/// Computes the products of the same rows with several matrices, whose outputs lie next to each
/// other.
pub(crate) fn multiply_all(parts: &[Arc<dyn Matrix>], x: &mut Activations, out: Out<'_>) {
    let mut at = 0;
    for part in parts {
        part.multiply(x, Out { data: &mut out.data[at..], stride: out.stride });
        at += part.outputs();
    }
}
