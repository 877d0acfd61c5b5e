//! A weight matrix in memory, whatever the format of its numbers.

use std::ops::{Deref, Range};

use super::quantize::Activations;
use super::rows::{Out, Rows, Target, parallel_for};
use crate::threads;

/// Number of outputs that every format computes together.
const TOGETHER: usize = 16;
/// Number of work items for each thread: then the last ones end at about the same time.
const ITEMS_PER_THREAD: usize = 4;

/// A matrix of weights: a row for each output, as wide as the input.
///
/// Each element of a product depends on its row of activations and its output only, so it has the
/// same bits in all of these functions.
pub(crate) trait Matrix: Send + Sync {
    /// Returns the number of outputs.
    fn outputs(&self) -> usize;
    /// Returns the number of inputs.
    fn inputs(&self) -> usize;
    /// Returns the largest number of outputs of a work item, for which it is fastest.
    fn outputs_per_item(&self) -> usize;
    /// Makes `x` ready for the product.
    fn prepare(&self, x: &mut Activations);
    /// Returns true if `x` is ready for the product.
    fn is_prepared(&self, x: &Activations) -> bool;
    /// Computes the product of each row of `x`, which is ready, with some outputs on this thread. They
    /// begin at a multiple of [`TOGETHER`].
    fn multiply_range(&self, x: &Activations, outputs: Range<usize>, out: &Target);
    /// Computes the product of one row with some outputs. Runs on this thread, since they are few.
    fn multiply_columns(&self, x: &[f32], outputs: &[u32], out: &mut [f32]);
    /// Writes the weights of an output in single precision.
    fn row(&self, output: usize, out: &mut [f32]);
    /// Returns the bytes of memory that the weights take.
    fn bytes(&self) -> usize;
}

/// Computes the products of the same rows with several matrices, whose outputs lie next to each
/// other. The threads meet once for all matrices for which the rows are rounded in the same way.
pub(crate) fn multiply_all<M>(parts: &[M], x: &mut Activations, out: Out<'_>)
where
    M: Deref<Target: Matrix> + Sync,
{
    let outputs: usize = parts.iter().map(|part| part.outputs()).sum();
    let mut target = out.target(x.rows.rows, outputs);
    let mut rest = parts;
    while let Some(first) = rest.first() {
        assert_eq!(first.inputs(), x.rows.width, "widths of a product");
        first.prepare(x);
        let same = rest.iter().take_while(|part| part.is_prepared(x)).count().max(1);
        let (now, later) = rest.split_at(same);
        multiply_prepared(now, x, &target);
        target = target.beginning_at(now.iter().map(|part| part.outputs()).sum());
        rest = later;
    }
}

fn multiply_prepared<M: Deref<Target: Matrix> + Sync>(parts: &[M], x: &Activations, target: &Target) {
    let Rows { rows, width, .. } = x.rows;
    let outputs: usize = parts.iter().map(|part| part.outputs()).sum();
    let size = |part: &M| item_size(outputs, part.outputs_per_item(), rows);
    let items = |part: &M| part.outputs().div_ceil(size(part));
    parallel_for(parts.iter().map(items).sum(), rows * outputs * width, |range| {
        let (mut first, mut column) = (0, 0);
        for part in parts {
            let (size, items, target) = (size(part), items(part), target.beginning_at(column));
            let here = range.start.max(first)..range.end.min(first + items);
            for item in here {
                let from = (item - first) * size;
                part.multiply_range(x, from..(from + size).min(part.outputs()), &target);
            }
            first += items;
            column += part.outputs();
        }
    });
}

/// Returns the number of outputs of a work item, at most `most`. More threads have smaller items.
pub(super) fn item_size(outputs: usize, most: usize, rows: usize) -> usize {
    let threads = threads::number();
    // Several rows are multiplied with two groups of outputs at a time.
    let unit = if rows == 1 { TOGETHER } else { 2 * TOGETHER };
    match threads {
        1 => most,
        _ => (outputs / (threads * ITEMS_PER_THREAD) / unit * unit).clamp(unit, most),
    }
}
