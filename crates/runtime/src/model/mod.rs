//! Causal language models: loading, the forward pass, the KV cache, and costs.
//!
//! A forward pass runs m new tokens of one or more sequences. The KV cache can be shortened, and
//! the cost of a pass is measured. There are two forwards with one interface: this crate's kernels
//! on the processor, and candle's tensors on any device.
//!
//! # Cost
//!
//! For small m a pass costs about one reading of the weights. [`Model::cost_table`] measures the
//! milliseconds.
//!
//! # Alternatives considered
//!
//! The models of `candle-transformers` were rejected as runners. They return logits of the last
//! position only, and their caches cannot be cut back, which verifying drafts needs.

mod chat_sources;
mod config;
mod loading;
mod options;
mod running;

pub(crate) use chat_sources::ChatSources;
pub use config::{
    Activation, Architecture, DeltaShape, Experts, LayerRotary, Mixer, ModelConfig, RopeScaling,
};
#[cfg(feature = "embedded")]
pub use loading::embedded;
#[cfg(feature = "hub")]
pub use loading::hub;
pub use loading::{
    Adapter, Description, describe, named, vocabulary_from_gguf, vocabulary_from_gguf_bytes, vocabulary_of,
};
pub use options::{Device, KvPrecision, LoadOptions, Precision};
pub(crate) use running::{COMPARED_AT_ONCE, internal, next_group_above};
pub use running::{CostTable, ForwardRounds, KvCache, LogitsHook, Model, Segment, forward_times};
