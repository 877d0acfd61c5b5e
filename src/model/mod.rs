//! Causal language models on candle: loading, one forward pass over m new tokens, a cache that can be
//! shortened, and what a pass costs.
//!
//! A pass costs about one reading of the weights for small m; [`Model::cost_table`] has the measured
//! milliseconds. The models of `candle-transformers` were rejected as runners: they return logits of the
//! last position only, and their caches cannot be cut back, which is what verifying drafts needs.

mod batch;
pub(crate) mod config;
pub(crate) mod cost_table;
#[cfg(feature = "embedded")]
pub mod embedded;
mod gguf;
#[cfg(feature = "hub")]
pub mod hub;
mod kernels;
pub(crate) mod kv_cache;
mod load;
mod repack;
mod rope;
mod safetensors;
mod transformer;
mod weights;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use batch::{Branch, LogitsHook, Segment};
pub use config::{Architecture, ModelConfig};
pub use cost_table::CostTable;
pub use gguf::{vocabulary_from_gguf, vocabulary_from_gguf_bytes};
pub(crate) use kernels::{COMPARED_AT_ONCE, next_group_above};
pub use kv_cache::KvCache;
pub use load::vocabulary_of;
pub use rope::RopeScaling;

use crate::error::Result;
use crate::vocab::TokenId;

/// How weight matrices are held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// As single-precision numbers, whatever the file holds: most exact.
    F32,
    /// As 8-bit blocks: a quarter of the memory. Rows that blocks of 32 do not fit stay `F32`.
    Q8_0,
    /// As 4-bit blocks where rows are multiples of 256, else as `Q8_0`: about a fifth of the memory, at a
    /// visible loss. The embedding table and the output matrix keep the blocks they have in the file, or
    /// become `Q8_0`.
    Q4K,
    /// As in the file; half precision is widened to `F32`.
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

/// What to do with a model while loading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// How weight matrices are held in memory.
    pub precision: Precision,
    /// Makes the logits of a position the same, bit for bit, whether it runs alone or among others.
    /// `F32`, `Q8_0`, `Q6_K` and `Q4_K` have this property at no cost, and on x86-64 all other formats, too;
    /// elsewhere those are then multiplied one row at a time, which makes verifying drafts as slow as plain
    /// decoding.
    pub batch_invariant: bool,
    /// Use fewer positions than the model allows.
    pub max_context: Option<usize>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { precision: Precision::AsStored, batch_invariant: false, max_context: None }
    }
}

impl LoadOptions {
    /// The default options with this precision.
    pub fn with_precision(precision: Precision) -> Self {
        LoadOptions { precision, ..Self::default() }
    }
}

/// A loaded model; cloning shares the weights.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
    tamper: Option<Arc<LogitsHook>>,
}

struct Inner {
    llama: transformer::Transformer,
    costs: OnceLock<CostTable>,
    chat: ChatSources,
}

/// Chat templates as a GGUF file holds them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChatSources {
    /// Names and texts; `default` is the usual one.
    pub templates: Vec<(String, String)>,
    /// Special tokens that templates can name.
    pub tokens: Vec<(&'static str, TokenId)>,
}

impl Model {
    fn from_llama(llama: transformer::Transformer, chat: ChatSources) -> Self {
        Model { inner: Arc::new(Inner { llama, costs: OnceLock::new(), chat }), tamper: None }
    }

    /// Chat templates that came with the weights.
    pub(crate) fn chat_sources(&self) -> &ChatSources {
        &self.inner.chat
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.inner.llama.config
    }

    /// An empty cache for one generation.
    ///
    /// # Errors
    /// None at present; memory is taken as tokens arrive.
    pub fn new_cache(&self) -> Result<KvCache> {
        Ok(KvCache::new(self.config()))
    }

    /// Runs `tokens` at the positions that follow those in `cache`, appends them to it, and returns the
    /// logits of `tokens[rows]`, one vector of `vocab_size` numbers each. `rows` may be empty.
    ///
    /// # Errors
    /// If the context would be exceeded ([`PromptTooLong`](crate::ErrorKind::PromptTooLong)), a token is
    /// not in the vocabulary, `rows` is not a range of `tokens`, or the cache is another model's. The
    /// cache is then as before.
    pub fn forward(
        &self,
        tokens: &[TokenId],
        cache: &mut KvCache,
        rows: Range<usize>,
    ) -> Result<Vec<Vec<f32>>> {
        let results = self.forward_batch(&mut [Segment { tokens, branches: &[], cache, rows, only: &[] }]);
        // There is one result for each segment.
        results.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Milliseconds of a pass over m tokens, measured at the first call (tens of milliseconds for a
    /// small model, at most a few passes for a large one).
    pub fn cost_table(&self) -> &CostTable {
        self.inner.costs.get_or_init(|| CostTable::measure(self))
    }

    /// Returns true if the logits of a position are the same bits however many tokens run together;
    /// see [`LoadOptions::batch_invariant`].
    pub fn is_batch_invariant(&self) -> bool {
        !self.inner.llama.varies()
    }

    /// Bytes of memory that the weight matrices take. Candle may keep a second, rearranged copy of
    /// quantised ones.
    pub fn weight_bytes(&self) -> usize {
        self.inner.llama.bytes()
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("config", self.config()).field("bytes", &self.weight_bytes()).finish()
    }
}
