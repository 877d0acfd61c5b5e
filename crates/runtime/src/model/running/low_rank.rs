//! The two products of a low-rank adapter (LoRA) beside a projection: `out += s B (A x)`.
//!
//! The matrix A makes a few numbers of each row, those of all matrices that are fused in the
//! projection next to each other. For each of these matrices, B adds its outputs. B holds the scale s.
//!
//! # Cost
//!
//! The adapter's numbers are read once, which is a few per cent of the projection's. The weights
//! beside it stay as they are, so a model and its adapted copy share them.
//!
//! # Alternatives considered
//!
//! Adding `s B A` to the weights was rejected. It needs a second copy of all weights, and four bits
//! round most of a small change away.

use std::sync::Arc;

use super::kernels::{Activations, Expansion, Matrix, Out, Rows, multiply_all};

/// An adapter of a projection.
pub(crate) struct LowRank {
    /// A: matrices with the same input, whose outputs lie next to each other.
    pub reductions: Vec<Arc<dyn Matrix>>,
    /// B, in the order of the outputs of A that they take.
    pub expansions: Vec<Expanded>,
}

/// The part of B that changes one of the fused matrices.
pub(crate) struct Expanded {
    pub expansion: Expansion,
    /// The first of the projection's outputs that it changes.
    pub output: usize,
}

/// The adapters of the projections of a layer, in the order of
/// [`ModelConfig::projections`](super::ModelConfig::projections).
pub(crate) type LayerAdapters = [Option<Arc<LowRank>>; 4];

impl LowRank {
    /// Returns the sum of the ranks.
    fn rank(&self) -> usize {
        self.reductions.iter().map(|a| a.outputs()).sum()
    }

    /// Adds the adapter's outputs for rows `x` to the rows of `out`, which have `outputs` numbers.
    pub(crate) fn add(&self, x: &mut Activations, out: &mut [f32], outputs: usize) {
        let (rank, rows) = (self.rank(), x.rows.rows);
        let mut reduced = vec![0.0; rows * rank];
        multiply_all(&self.reductions, x, Out { data: &mut reduced, stride: rank });
        let mut at = 0;
        for Expanded { expansion, output } in &self.expansions {
            let z = Rows::strided(&reduced[at..], rows, expansion.inputs(), rank);
            expansion.add(&z, Out { data: &mut out[*output..], stride: outputs });
            at += expansion.inputs();
        }
    }

    /// Returns A and `s B` for `outputs` outputs as whole matrices `[rank][input]` and
    /// `[rank][output]` in single precision.
    pub(crate) fn widened(&self, outputs: usize) -> (Vec<f32>, Vec<f32>) {
        let mut a = Vec::new();
        for matrix in &self.reductions {
            let mut row = vec![0.0; matrix.inputs()];
            for i in 0..matrix.outputs() {
                matrix.row(i, &mut row);
                a.extend_from_slice(&row);
            }
        }
        let mut b = vec![0.0; self.rank() * outputs];
        let mut rows = b.chunks_exact_mut(outputs);
        for Expanded { expansion, output } in &self.expansions {
            let numbers = expansion.widened();
            for (part, row) in numbers.chunks_exact(expansion.outputs()).zip(&mut rows) {
                row[*output..][..part.len()].copy_from_slice(part);
            }
        }
        (a, b)
    }

    /// Returns the bytes of memory that the numbers take.
    pub(crate) fn bytes(&self) -> usize {
        let b: usize = self.expansions.iter().map(|b| b.expansion.bytes()).sum();
        b + self.reductions.iter().map(|a| a.bytes()).sum::<usize>()
    }
}
