//! Running a model: the forward on this crate's kernels and that on candle's tensors, the KV cache, and
//! the costs of forwards.

mod batch;
mod cost_law;
mod cost_table;
mod experts;
mod feed_forward;
mod fused_linear;
pub(super) mod kernels;
mod kv_cache;
mod kv_layer;
mod layers;
mod low_rank;
mod measure;
mod model;
mod recurrent;
mod runner;
mod state_cache;
pub(super) mod tensors;
mod transformer;

pub use batch::Segment;
pub use cost_table::CostTable;
pub(super) use feed_forward::FeedForward;
pub(super) use fused_linear::FusedLinear;
pub(crate) use kernels::{COMPARED_AT_ONCE, next_group_above};
pub use kv_cache::KvCache;
pub(super) use layers::{Layer, LayerNorms, Recurrent, Weights};
pub(super) use low_rank::{Expanded, LayerAdapters, LowRank};
pub use measure::{ForwardRounds, forward_times};
pub(super) use model::WeakModel;
pub(crate) use model::internal;
pub use model::{LogitsHook, Model};
pub(super) use runner::Runner;
pub(super) use transformer::Transformer;
