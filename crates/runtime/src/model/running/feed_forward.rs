//! A gated feed-forward: that of a layer, or one expert of several.

use super::fused_linear::FusedLinear;
use super::kernels::gated;
use crate::model::config::Activation;

/// The products of a feed-forward.
#[derive(Clone)]
pub(crate) struct FeedForward<L> {
    pub gate_up: L,
    pub down: L,
}

impl FeedForward<FusedLinear> {
    pub(super) fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }

    /// Computes the outputs of `rows` rows into the last of the buffers.
    pub(super) fn run(&self, activation: Activation, x: &[f32], rows: usize, buffers: [&mut Vec<f32>; 3]) {
        let [gate_up, active, out] = buffers;
        self.gate_up.forward(x, rows, gate_up);
        let width = self.down.inputs();
        active.resize(rows * width, 0.0);
        gated(activation, gate_up, width, active);
        self.down.forward(active, rows, out);
    }
}
