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

mod adapter;
mod batch;
pub(crate) mod config;
mod cost_law;
pub(crate) mod cost_table;
mod describe;
mod device;
#[cfg(feature = "embedded")]
pub mod embedded;
mod family;
mod file_data;
mod forward_times;
mod gguf;
#[cfg(feature = "hub")]
pub mod hub;
mod kernels;
pub(crate) mod kv_cache;
mod kv_layer;
mod layer_patterns;
mod layers;
mod load;
mod low_rank;
pub mod named;
mod precision;
mod rope;
mod runner;
mod safetensors;
mod tensor_names;
mod tensor_type;
mod tensors;
mod transformer;
mod weights;

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

pub use adapter::Adapter;
pub(crate) use batch::internal;
pub use batch::{LogitsHook, Segment};
pub use config::ModelConfig;
pub use cost_table::CostTable;
pub use describe::{Description, describe};
pub use device::Device;
pub use family::{Activation, Architecture};
pub use forward_times::{ForwardRounds, forward_times};
pub use gguf::{vocabulary_from_gguf, vocabulary_from_gguf_bytes};
pub(crate) use kernels::{COMPARED_AT_ONCE, next_group_above};
pub use kv_cache::KvCache;
pub use kv_layer::KvPrecision;
pub use layer_patterns::LayerRotary;
pub use load::vocabulary_of;
pub use rope::RopeScaling;

use runner::Runner;

use crate::error::Result;
use crate::threads::Threads;
use crate::vocab::TokenId;

/// The format of weight matrices in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Single precision, whatever the file holds: most exact.
    F32,
    /// 8-bit blocks: a quarter of the memory. Matrices whose rows are not whole blocks of 32 stay
    /// `F32`.
    Q8_0,
    /// 4-bit blocks where rows are multiples of 256, otherwise `Q8_0`: about a fifth of the memory,
    /// at a visible loss. The embedding table and the output matrix keep the blocks that they have
    /// in the file, or become `Q8_0`.
    Q4K,
    /// The format of the file.
    #[default]
    AsStored,
}

impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "stored" => Ok(Precision::AsStored),
            "f32" => Ok(Precision::F32),
            "q8_0" => Ok(Precision::Q8_0),
            "q4_k" => Ok(Precision::Q4K),
            _ => Err(format!("{text:?} is none of stored, f32, q8_0, q4_k")),
        }
    }
}

/// Options for loading a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// Format of weight matrices in memory.
    pub precision: Precision,
    /// Makes the logits of a position the same, bit for bit, whether it runs alone or among others.
    /// This crate's kernels always do. On a `device` each row then runs alone, which makes verifying
    /// drafts as slow as plain decoding.
    pub batch_invariant: bool,
    /// Limits the context to fewer positions than the model allows.
    pub max_context: Option<usize>,
    /// Runs the model with candle's operations on this device, instead of this crate's kernels on
    /// the processor. Quantised weights are then multiplied by candle.
    ///
    /// Candle's products round differently for different numbers of rows; see `batch_invariant`.
    pub device: Option<Device>,
    /// Format of keys and values in the cache.
    pub kv: KvPrecision,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            precision: Precision::AsStored,
            batch_invariant: false,
            max_context: None,
            device: None,
            kv: KvPrecision::F32,
        }
    }
}

impl LoadOptions {
    /// Returns the default options with this precision.
    pub fn with_precision(precision: Precision) -> Self {
        LoadOptions { precision, ..Self::default() }
    }
}

/// A loaded model; cloning shares the weights.
#[derive(Clone)]
pub struct Model {
    inner: Arc<ModelInner>,
    costs: Arc<Costs>,
    threads: Threads,
    hook: Option<Arc<LogitsHook>>,
}

/// A model that is dropped with the last [`Model`] that shares its weights.
struct WeakModel(Weak<ModelInner>);

impl WeakModel {
    fn upgrade(&self) -> Option<Model> {
        self.0.upgrade().map(|inner| Model::new(inner, None))
    }
}

struct ModelInner {
    runner: Runner,
    chat: ChatSources,
}

/// The times of forwards with some number of threads.
#[derive(Default)]
struct Costs {
    measured: OnceLock<CostTable>,
    estimated: OnceLock<CostTable>,
}

/// Chat templates from the metadata of a GGUF file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChatSources {
    /// Names and texts; `default` is the usual one.
    pub templates: Vec<(String, String)>,
    /// Special tokens that templates can name.
    pub tokens: Vec<(&'static str, TokenId)>,
}

impl Model {
    fn from_runner(runner: Runner, chat: ChatSources) -> Self {
        Model::new(Arc::new(ModelInner { runner, chat }), None)
    }

    fn new(inner: Arc<ModelInner>, hook: Option<Arc<LogitsHook>>) -> Self {
        Model { inner, costs: Arc::default(), threads: Threads::shared(), hook }
    }

    /// Returns the same model on other threads, with the costs of its own. Both share the weights.
    pub fn with_threads(self, threads: impl Into<Threads>) -> Model {
        Model { costs: Arc::default(), threads: threads.into(), ..self }
    }

    /// The threads that work on a forward.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Returns the same model with an adapter beside its weights, which both share. Its caches,
    /// costs and what is learned from its outputs are its own. It takes the place of an adapter that is
    /// there already.
    ///
    /// # Errors
    /// Returns an error if the adapter was made for another model: the tensor and the base that the
    /// adapter names. Also if one of its numbers is infinite or NaN.
    pub fn with_adapter(&self, adapter: &Adapter) -> Result<Model> {
        let runner = self.inner.runner.with_adapter(adapter)?;
        let adapted = Model::from_runner(runner, self.inner.chat.clone());
        Ok(Model { hook: self.hook.clone(), ..adapted }.with_threads(&self.threads))
    }

    fn downgrade(&self) -> WeakModel {
        WeakModel(Arc::downgrade(&self.inner))
    }

    /// Returns the chat templates that came with the weights.
    pub(crate) fn chat_sources(&self) -> &ChatSources {
        &self.inner.chat
    }

    /// Returns the shape and constants of the model.
    pub fn config(&self) -> &ModelConfig {
        self.inner.runner.config()
    }

    /// Returns an empty cache for one generation.
    ///
    /// # Errors
    /// None at present; memory is taken as tokens arrive.
    pub fn new_cache(&self) -> Result<KvCache> {
        Ok(self.inner.runner.new_cache())
    }

    /// Runs `tokens` at the positions after those in `cache` and appends them to it. Returns the
    /// logits of `tokens[rows]`, one vector of `vocab_size` numbers each. `rows` may be empty.
    ///
    /// # Errors
    /// Returns an error if the context would be exceeded
    /// ([`PromptTooLong`](crate::ErrorKind::PromptTooLong)) or a token is not in the vocabulary.
    /// Also if `rows` is not a range of `tokens`, or the cache belongs to another model. The cache
    /// is then unchanged.
    pub fn forward(
        &self,
        tokens: &[TokenId],
        cache: &mut KvCache,
        rows: Range<usize>,
    ) -> Result<Vec<Vec<f32>>> {
        let results = self.forward_batch(&mut [Segment { tokens, cache, rows, only: &[] }]);
        // There is one result for each segment.
        results.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Returns the milliseconds of a pass by its number of tokens. The first call measures them:
    /// tens of milliseconds for a small model, at most a few passes for a large one.
    pub fn cost_table(&self) -> &CostTable {
        self.costs.measured.get_or_init(|| CostTable::measure(self))
    }

    /// Returns the table of [`cost_table`](Self::cost_table) if it was measured, otherwise one that
    /// is estimated from sizes and costs nothing. Generations begin with it and correct it.
    pub fn cost_estimate(&self) -> &CostTable {
        let estimated = || self.costs.estimated.get_or_init(|| CostTable::estimate(self));
        self.costs.measured.get().unwrap_or_else(estimated)
    }

    /// Returns true if the logits of a position are the same bits however many tokens run together;
    /// see [`LoadOptions::batch_invariant`].
    pub fn is_batch_invariant(&self) -> bool {
        !self.inner.runner.varies()
    }

    /// Returns the bytes of memory that the weight matrices take.
    pub fn weight_bytes(&self) -> usize {
        self.inner.runner.bytes()
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("config", self.config()).field("bytes", &self.weight_bytes()).finish()
    }
}
