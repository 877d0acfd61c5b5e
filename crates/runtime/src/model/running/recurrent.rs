//! Recurrent layers in a forward: what they read, their states, and going back to an earlier position.
//!
//! # Cost
//!
//! The positions of a sequence run one after the other, on one thread.

use super::batch::{Segment, Span};
use super::kv_cache::KvCache;
use super::layers::Recurrent;
use super::transformer::{Transformer, TransformerLayer, Workspace};

impl Transformer {
    /// Makes the states of a cache those of its length.
    pub(super) fn restore(&self, cache: &mut KvCache) {
        let len = cache.len;
        let Some(states) = cache.states.as_mut().filter(|states| !states.are_at(len)) else { return };
        if let Some(positions) = states.back_to(len) {
            tracing::debug!(target: "ffwd_runtime::states", len, positions, "computed again from the inputs");
            let (mut scratch, mut out) = (Vec::new(), Vec::new());
            for block in &self.weights.layers {
                if let Some(Recurrent::DeltaNet(net)) = &block.recurrent {
                    out.resize(net.shape.value(), 0.0);
                    states.again(block.slot, |rows, state| net.step(rows, state, &mut scratch, &mut out));
                }
            }
            return;
        }
        let (from, tokens) = states.back_to_checkpoint(len);
        tracing::debug!(target: "ffwd_runtime::states", from, len, "tokens run again");
        cache.len = from;
        self.forward(&mut [Segment { tokens: &tokens, cache, rows: 0..0, only: &[] }]);
    }

    /// Moves the states of a shard's sequences over its rows, and puts what they read into `attended`.
    pub(super) fn advance(
        &self,
        block: &TransformerLayer,
        recurrent: &Recurrent,
        segments: &mut [Segment],
        (spans, s): (&[Span], &mut Workspace),
    ) {
        let Workspace { qkv, attended, update: scratch, .. } = s;
        let width = block.o.inputs();
        let mut rows = qkv.chunks_exact(block.qkv.outputs);
        attended.resize(rows.len() * width, 0.0);
        let mut outputs = attended.chunks_exact_mut(width);
        for span in spans {
            // A cache of this model has them, see `check`.
            let Some(states) = &mut segments[span.segment].cache.states else { continue };
            for (row, out) in rows.by_ref().zip(outputs.by_ref()).take(span.tokens.len()) {
                match recurrent {
                    Recurrent::ShortConvolution(filter) => {
                        let (before, rest) = row.split_at(width);
                        let (behind, x) = rest.split_at(width);
                        let (rows, _) = states.push(block.slot, before.iter().zip(x).map(|(b, x)| b * x));
                        filter.apply(rows, out);
                        out.iter_mut().zip(behind).for_each(|(out, gate)| *out *= gate);
                    }
                    Recurrent::DeltaNet(net) => {
                        let (read, gate) = row.split_at(row.len() - width);
                        let (rows, state) = states.push(block.slot, read.iter().copied());
                        net.step(rows, state, scratch, out);
                        net.gate(gate, out, scratch);
                    }
                }
            }
        }
    }
}
