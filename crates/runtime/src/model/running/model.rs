//! The loaded model: forwards over one or several sequences, and what they need of it.
//!
//! # Cost
//!
//! Cloning shares the weights. A forward that fails or panics leaves the caches as they were.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

use super::batch::{Segment, pays_to_read_weights_for};
use super::cost_table::CostTable;
use super::kv_cache::KvCache;
use super::low_rank::LayerAdapters;
use super::runner::Runner;
use crate::error::{Error, ErrorKind, Result};
use crate::model::chat_sources::ChatSources;
use crate::model::config::ModelConfig;
use crate::threads::{self, Threads};
use crate::vocab::TokenId;

/// Returns the error for a caught panic.
pub(crate) fn internal(doing: &str) -> Error {
    Error::new(ErrorKind::Model, format!("the request failed inside while {doing}"))
        .hint("this is a fault of the program; other requests are not concerned")
}

/// A function that sees the tokens of a segment, the number of segments in the forward, and the
/// logits, which it may change. If it returns an error, the forward fails.
#[doc(hidden)]
pub type LogitsHook = dyn Fn(&[TokenId], usize, &mut [Vec<f32>]) -> Result<()> + Send + Sync;

/// A loaded model; cloning shares the weights.
#[derive(Clone)]
pub struct Model {
    pub(in crate::model) inner: Arc<ModelInner>,
    pub(super) costs: Arc<Costs>,
    threads: Threads,
    hook: Option<Arc<LogitsHook>>,
}

/// A model that is dropped with the last [`Model`] that shares its weights.
pub(in crate::model) struct WeakModel(Weak<ModelInner>);

impl WeakModel {
    pub(crate) fn upgrade(&self) -> Option<Model> {
        self.0.upgrade().map(|inner| Model::new(inner, None))
    }
}

pub(in crate::model) struct ModelInner {
    runner: Runner,
    chat: ChatSources,
}

/// The times of forwards with some number of threads.
#[derive(Default)]
pub(super) struct Costs {
    pub measured: OnceLock<CostTable>,
    pub estimated: OnceLock<CostTable>,
}

impl Model {
    pub(in crate::model) fn from_runner(runner: Runner, chat: ChatSources) -> Self {
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

    /// Returns the same model with the adapters of its layers. Both share the weights.
    pub(in crate::model) fn with_layer_adapters(&self, adapters: Vec<LayerAdapters>) -> Result<Model> {
        let runner = self.inner.runner.with_adapters(adapters)?;
        let adapted = Model::from_runner(runner, self.inner.chat.clone());
        Ok(Model { hook: self.hook.clone(), ..adapted }.with_threads(&self.threads))
    }

    pub(in crate::model) fn downgrade(&self) -> WeakModel {
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

    /// Runs several sequences in one forward and returns the logits of each, as
    /// [`forward`](Self::forward) does.
    ///
    /// A sequence whose segment is not valid fails alone. If the forward fails as a whole, the
    /// sequences run one by one, so only those fail that cannot run.
    ///
    /// If [`is_batch_invariant`](Self::is_batch_invariant) is true, the logits are those of
    /// separate forwards, bit for bit.
    pub fn forward_batch(&self, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
        self.threads.install(|| self.run_valid(segments))
    }

    /// Runs the valid segments with the threads that are installed.
    fn run_valid(&self, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
        let mut results: Vec<_> =
            segments.iter().map(|s| self.inner.runner.check(s).map(|()| Vec::new())).collect();
        let valid = results.iter().map(Result::is_ok).collect::<Vec<_>>();
        let mut runnable: Vec<Segment> = segments
            .iter_mut()
            .zip(valid)
            .filter(|(_, valid)| *valid)
            .map(|(s, _)| Segment { tokens: s.tokens, cache: s.cache, rows: s.rows.clone(), only: s.only })
            .collect();
        let logits = match self.run(&mut runnable) {
            Ok(logits) => logits.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) if runnable.len() < 2 => vec![Err(error); runnable.len()],
            Err(error) => {
                tracing::warn!(%error, "a forward of {} sequences failed; they run alone", runnable.len());
                let alone = |s: &mut Segment| self.run(std::slice::from_mut(s)).map(|mut l| l.remove(0));
                runnable.iter_mut().map(alone).collect()
            }
        };
        let places = results.iter_mut().filter(|r| r.is_ok());
        places.zip(logits).for_each(|(place, logits)| *place = logits);
        results
    }

    /// Does the same on this thread alone, while other threads run other sequences.
    pub(crate) fn forward_batch_here(&self, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
        threads::alone(|| self.run_valid(segments))
    }

    /// Returns true if parts of a batch should run as forwards of their own, one on each thread,
    /// instead of sharing out the products of one forward. The threads then meet once in a forward
    /// instead of at every product, but each reads the weights. This pays while the weights are
    /// small or the rows many. The largest part has `largest` of `rows` rows.
    pub(crate) fn runs_in_parts(&self, rows: usize, parts: usize, largest: usize) -> bool {
        // Candle distributes its products itself, over threads that may not wait for each other.
        if self.is_on_device() {
            return false;
        }
        let each = rows / parts;
        let cheap = pays_to_read_weights_for(each, || self.weight_bytes());
        // A part with nearly all rows would leave the other threads idle.
        cheap && largest * 4 <= rows * 3
    }

    /// Returns true if candle runs the model, on whatever device.
    pub(crate) fn is_on_device(&self) -> bool {
        matches!(self.inner.runner, Runner::Tensors(_))
    }

    /// Returns true if the model runs elsewhere than on the processor, where rows cost little.
    pub(crate) fn is_on_accelerator(&self) -> bool {
        matches!(&self.inner.runner, Runner::Tensors(t) if !t.shape.device.is_cpu())
    }

    /// Runs all segments or none: after a failure the caches are unchanged.
    fn run(&self, segments: &mut [Segment]) -> Result<Vec<Vec<Vec<f32>>>> {
        let before: Vec<usize> = segments.iter().map(|s| s.cache.len()).collect();
        let forward = || {
            let mut logits = self.inner.runner.forward(segments)?;
            let (count, mut seen) = (segments.len(), segments.iter().zip(&mut logits));
            if let Some(tamper) = &self.hook {
                seen.try_for_each(|(s, logits)| tamper(s.tokens, count, logits))?;
            }
            Ok(logits)
        };
        // A panic on any thread. An unfinished forward has appended nothing that counts.
        let logits = catch_unwind(AssertUnwindSafe(forward))
            .unwrap_or_else(|_| Err(internal("passing through the model")));
        if logits.is_err() {
            segments.iter_mut().zip(before).for_each(|(segment, before)| segment.cache.undo(before));
        }
        logits
    }

    /// Returns the same model with a hook that may change its logits. For tests of failing models.
    #[doc(hidden)]
    pub fn with_logits_hook(
        mut self,
        tamper: impl Fn(&[TokenId], usize, &mut [Vec<f32>]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.hook = Some(Arc::new(tamper));
        self
    }

    /// Returns the bytes that a cache takes with `positions` tokens.
    pub fn cache_bytes(&self, positions: usize) -> usize {
        self.inner.runner.cache_bytes(positions)
    }

    /// Returns true if the logits of a position are the same bits however many tokens run together;
    /// see [`LoadOptions::batch_invariant`](crate::model::LoadOptions::batch_invariant).
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
