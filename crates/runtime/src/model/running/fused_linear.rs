//! Products of several matrices with the same input, with a bias and an adapter.
//!
//! # Cost
//!
//! For few rows a product costs one pass over the matrices.
//!
//! # Alternatives considered
//!
//! Products by candle's kernels were rejected: they are slow for most formats, keep a second copy of
//! the weights, and round differently for different numbers of rows.

use std::sync::Arc;

use super::kernels::{Activations, Matrix, Out, Rows, multiply_all};
use super::low_rank::LowRank;

/// Several matrices with the same input, whose outputs lie next to each other. Matrices of the same
/// format are one product.
#[derive(Clone)]
pub(crate) struct FusedLinear {
    parts: Vec<Arc<dyn Matrix>>,
    pub outputs: usize,
    inputs: usize,
    /// Added to each row, if not empty.
    bias: Vec<f32>,
    /// Added to each row.
    pub adapter: Option<Arc<LowRank>>,
}

impl FusedLinear {
    /// Computes all outputs of `rows` rows into `out`, as `[row][output]`.
    pub(crate) fn forward(&self, x: &[f32], rows: usize, out: &mut Vec<f32>) {
        assert_eq!(x.len(), rows * self.inputs, "input of a projection");
        out.resize(rows * self.outputs, 0.0);
        if rows == 0 {
            return;
        }
        let mut x = Activations::new(Rows::new(x, rows, self.inputs));
        multiply_all(&self.parts, &mut x, Out { data: out, stride: self.outputs });
        if !self.bias.is_empty() {
            for row in out.chunks_exact_mut(self.outputs) {
                row.iter_mut().zip(&self.bias).for_each(|(v, b)| *v += b);
            }
        }
        if let Some(adapter) = &self.adapter {
            adapter.add(&mut x, out, self.outputs);
        }
    }

    pub(crate) fn new(parts: Vec<Arc<dyn Matrix>>, outputs: usize, inputs: usize, bias: Vec<f32>) -> Self {
        FusedLinear { parts, outputs, inputs, bias, adapter: None }
    }

    /// Returns the width of the input.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) fn bytes(&self) -> usize {
        let adapter = self.adapter.as_ref().map_or(0, |adapter| adapter.bytes());
        adapter + self.parts.iter().map(|part| part.bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::{Dense, Expansion};
    use super::super::low_rank::Expanded;
    use super::*;

    #[test]
    fn a_projection_and_its_adapted_copy_share_the_weights() {
        let matrix: Arc<dyn Matrix> = Arc::new(Dense::<f32>::new(&[&[0; 8], &[0; 8], &[0; 8]], 2));
        let plain = FusedLinear::new(vec![matrix.clone()], 3, 2, vec![1.0, 2.0, 3.0]);
        let row = |numbers: [f32; 2]| numbers.map(f32::to_le_bytes).concat();
        let reductions: Vec<Arc<dyn Matrix>> = vec![Arc::new(Dense::<f32>::new(&[&row([2.0, 0.5])], 2))];
        // The second and the third output.
        let expansion = Expansion::of_floats(&[10.0, -1.0], 2);
        let adapter = LowRank { reductions, expansions: vec![Expanded { expansion, output: 1 }] };
        let adapted = FusedLinear { adapter: Some(Arc::new(adapter)), ..plain.clone() };
        assert!(Arc::ptr_eq(&adapted.parts[0], &matrix));
        assert!(adapted.bytes() > plain.bytes() && plain.adapter.is_none());
        let (mut before, mut out) = (Vec::new(), Vec::new());
        plain.forward(&[1.0, 4.0, 0.0, 2.0], 2, &mut before);
        adapted.forward(&[1.0, 4.0, 0.0, 2.0], 2, &mut out);
        assert_eq!(before, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(out, [1.0, 42.0, -1.0, 1.0, 12.0, 2.0]);
    }
}
