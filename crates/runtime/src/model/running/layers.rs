//! The weights of a transformer. Both forwards share this: that of the kernels and that of candle's
//! tensors.

use super::feed_forward::FeedForward;
use super::kernels::{DeltaNet, Filter};
use crate::model::config::{ModelConfig, RotaryTable};

/// The weights of a layer: those of products and those of norms.
#[derive(Clone)]
pub(crate) struct Layer<L, N> {
    pub attention_norms: LayerNorms<N>,
    /// Queries, keys and values, with the gates of the output if there are any; or what a recurrent
    /// layer reads.
    pub qkv: L,
    /// What takes the place of the attention.
    pub recurrent: Option<Recurrent>,
    /// Number among the layers with attention, or among the recurrent ones.
    pub slot: usize,
    /// Norms of queries and keys: of each head, or of all together.
    pub qk_norm: Option<[N; 2]>,
    /// Index of the rotary table, if the layer has rotary positions.
    pub rotary: Option<usize>,
    /// Number of positions that a token sees.
    pub window: usize,
    pub o: L,
    pub feed_forward_norms: LayerNorms<N>,
    /// The scores of experts, if the layer has several feed-forwards.
    pub router: Option<L>,
    pub feed_forward: Vec<FeedForward<L>>,
}

/// What mixes the positions of a layer without attention.
#[derive(Clone)]
pub(crate) enum Recurrent {
    /// Gate before, gate behind and input lie next to each other in what the layer reads.
    ShortConvolution(Filter),
    DeltaNet(Box<DeltaNet>),
}

/// The norms around the attention or the feed-forward.
#[derive(Clone)]
pub(crate) struct LayerNorms<N> {
    pub before: Option<N>,
    pub after: Option<N>,
}

/// The weights of a model: its matrices, fused products and norms.
#[derive(Clone)]
pub(crate) struct Weights<M, L, N> {
    pub config: ModelConfig,
    pub embedding: M,
    pub layers: Vec<Layer<L, N>>,
    pub final_norm: N,
    pub head: M,
    /// Rotary frequencies: those of all layers, or of layers without and with a window.
    pub tables: Vec<RotaryTable>,
}

impl<M, L, N> Weights<M, L, N> {
    /// Returns the bytes of the matrices.
    pub(crate) fn bytes(&self, matrix: impl Fn(&M) -> usize, product: impl Fn(&L) -> usize) -> usize {
        let products = self.layers.iter().flat_map(|l| {
            let experts = l.feed_forward.iter().flat_map(|f| [&f.gate_up, &f.down]);
            [&l.qkv, &l.o].into_iter().chain(&l.router).chain(experts)
        });
        let embedding = if self.config.tied_embeddings { 0 } else { matrix(&self.embedding) };
        products.map(product).sum::<usize>() + matrix(&self.head) + embedding
    }
}
