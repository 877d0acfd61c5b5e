//! The forward pass from candle's operations over new tokens of one or more sequences.
//!
//! Rows of all sequences go through the products together. Attention runs sequence by sequence over
//! each one's own cache. Values between products are F32.
//!
//! # Cost
//!
//! Reading the weights once for each chunk, a few operations per layer, and one copy of the logits
//! to main memory. Rows that want few logits cost as much as rows that want all: candle has no
//! product with some rows of a quantised matrix.
//!
//! # Alternatives considered
//!
//! - The models of `candle-transformers` were rejected: they return the logits of one position, and
//!   their caches cannot be shortened.
//! - Repeating the key heads for the query heads was rejected. The query heads of a key head are
//!   rows of one product instead.

use std::ops::Range;

use candle_core::{DType, Device, Result as CandleResult, Tensor};
use candle_nn::ops::{rms_norm, softmax_last_dim};
use candle_nn::rotary_emb::rope;

use super::attention_mask::attention_mask;
use super::cache::{KvShape, TensorCache};
use super::linear::{Linear, Weight, failed};
use crate::error::{Error, ErrorKind, Result};
use crate::model::config::{Activation, ModelConfig, RotaryTable};
use crate::model::running::batch::{Segment, Span, chunks};
use crate::model::running::layers::{LayerNorms, Weights};
use crate::model::running::low_rank::LayerAdapters;

/// Maximum number of tokens that run together.
const CHUNK: usize = 256;

/// The weights on a device, ready to run.
#[derive(Clone)]
pub(crate) struct TensorTransformer {
    pub weights: Weights<Weight, Linear, Tensor>,
    pub shape: KvShape,
    /// True if rows run one by one, which makes their logits the same in every batch.
    pub row_by_row: bool,
}

/// The inputs of a chunk.
struct Chunk<'a> {
    /// The rows of each sequence.
    spans: &'a [Span],
    /// The cache of each span.
    caches: Vec<&'a TensorCache>,
    /// Of each rotary table the cosines and sines, `[row][pair]`.
    rotations: Vec<[Tensor; 2]>,
    /// For each window of a layer what the rows of each span see.
    seen: Vec<(usize, Vec<Entries>)>,
    /// Rows with logits.
    wanted: Vec<u32>,
    rows: usize,
}

/// The entries of a cache that the rows of a span see.
struct Entries {
    range: Range<usize>,
    /// Added to the scores, `[1][row][entry]`; none if the rows see all of these entries.
    mask: Option<Tensor>,
}

impl TensorTransformer {
    pub(crate) fn new(
        weights: Weights<Weight, Linear, Tensor>,
        dtype: DType,
        device: Device,
        row_by_row: bool,
    ) -> Self {
        let c = &weights.config;
        let shape = KvShape { layers: c.layers, kv_heads: c.kv_heads, head_dim: c.head_dim, dtype, device };
        TensorTransformer { weights, shape, row_by_row }
    }

    /// Returns the same model with the adapters of its layers. Both share their weights.
    pub(crate) fn with_adapters(&self, adapters: Vec<LayerAdapters>) -> Result<Self> {
        let mut adapted = self.clone();
        let inputs = self
            .weights
            .config
            .projections(0)
            .map(|(parts, inputs)| (parts.iter().map(|(_, outputs)| outputs).sum::<usize>(), inputs));
        for (layer, adapters) in adapted.weights.layers.iter_mut().zip(adapters) {
            let dense = &mut layer.feed_forward[0];
            let linears = [&mut layer.qkv, &mut layer.o, &mut dense.gate_up, &mut dense.down];
            for ((linear, adapter), (outputs, inputs)) in linears.into_iter().zip(adapters).zip(inputs) {
                let Some(adapter) = adapter else { continue };
                let tensor = |numbers: Vec<f32>, width: usize| {
                    let shape = (numbers.len() / width, width);
                    Tensor::from_vec(numbers, shape, &self.shape.device).map_err(failed)
                };
                let (a, b) = adapter.widened(outputs);
                linear.adapter = Some([tensor(a, inputs)?.t().map_err(failed)?, tensor(b, outputs)?]);
            }
        }
        Ok(adapted)
    }

    /// Returns the logits that each segment wants. After a failure the caches may be longer.
    pub(crate) fn forward(&self, segments: &mut [Segment]) -> Result<Vec<Vec<Vec<f32>>>> {
        let mut logits: Vec<_> = segments.iter().map(|s| Vec::with_capacity(s.rows.len())).collect();
        for spans in chunks(segments, if self.row_by_row { 1 } else { CHUNK }) {
            self.chunk(segments, &spans, &mut logits)?;
        }
        // Logits are read when the device is ready. Without any it would still compute, and the next
        // forward would seem to take that time.
        if logits.iter().all(Vec::is_empty) {
            self.shape.device.synchronize().map_err(failed)?;
        }
        Ok(logits)
    }

    fn chunk(&self, segments: &mut [Segment], spans: &[Span], logits: &mut [Vec<Vec<f32>>]) -> Result<()> {
        for span in spans {
            let tensors = segments[span.segment].cache.tensors_mut().ok_or_else(other_cache)?;
            tensors.prepare(span.start, span.tokens.len()).map_err(failed)?;
        }
        let normed = self.run(segments, spans).map_err(failed)?;
        for span in spans {
            let segment = &mut segments[span.segment];
            segment.cache.finish(&segment.tokens[span.tokens.clone()]);
        }
        match normed {
            Some(rows) => self.logits(segments, spans, &rows, logits),
            None => Ok(()),
        }
    }

    /// Takes the rows of a chunk through all layers. Returns the normed rows that want logits.
    fn run(&self, segments: &[Segment], spans: &[Span]) -> CandleResult<Option<Tensor>> {
        let ids: Vec<u32> =
            spans.iter().flat_map(|s| &segments[s.segment].tokens[s.tokens.clone()]).copied().collect();
        let rows = ids.len();
        let wanted = spans.iter().flat_map(|s| s.wanted.clone().map(|r| (s.first + r) as u32)).collect();
        // Each span has a cache, which was prepared.
        let caches = spans.iter().filter_map(|s| segments[s.segment].cache.tensors()).collect();
        let rotations =
            self.weights.tables.iter().map(|t| self.rotation(t, spans)).collect::<CandleResult<_>>()?;
        let chunk = Chunk { seen: self.seen(spans)?, spans, caches, rotations, wanted, rows };
        let x = self.weights.embedding.rows(&Tensor::from_vec(ids, rows, &self.shape.device)?)?;
        let mut x = scaled(x, self.weights.config.embedding_scale)?;
        for i in 0..self.weights.layers.len() {
            match self.layer(i, x, &chunk)? {
                Some(out) => x = out,
                None => return Ok(None),
            }
        }
        rms_norm(&x, &self.weights.final_norm, self.weights.config.norm_eps).map(Some)
    }

    /// Returns what the rows of each span see, for each window that layers have.
    fn seen(&self, spans: &[Span]) -> CandleResult<Vec<(usize, Vec<Entries>)>> {
        let mut windows: Vec<usize> =
            self.weights.config.windows.iter().map(|w| w.unwrap_or(usize::MAX)).collect();
        windows.sort_unstable();
        windows.dedup();
        let entries = |span: &Span, window: usize| -> CandleResult<Entries> {
            let (range, mask) = attention_mask(span, window);
            let shape = (1, span.tokens.len(), range.len());
            let mask = mask.map(|mask| Tensor::from_vec(mask, shape, &self.shape.device)).transpose()?;
            Ok(Entries { range, mask })
        };
        let all = |window: usize| spans.iter().map(|s| entries(s, window)).collect::<CandleResult<Vec<_>>>();
        windows.into_iter().map(|window| Ok((window, all(window)?))).collect()
    }

    /// Returns the cosines and sines of the rows' positions.
    fn rotation(&self, rotary: &RotaryTable, spans: &[Span]) -> CandleResult<[Tensor; 2]> {
        let (pairs, scale) = (rotary.frequencies.len(), rotary.scale);
        let positions = || spans.iter().flat_map(Span::positions);
        let angles = || positions().flat_map(|p| rotary.frequencies.iter().map(move |f| p as f32 * f));
        let table = |values: Vec<f32>| {
            let rows = values.len() / pairs;
            Tensor::from_vec(values, (rows, pairs), &self.shape.device)
        };
        Ok([
            table(angles().map(|a| a.cos() * scale).collect())?,
            table(angles().map(|a| a.sin() * scale).collect())?,
        ])
    }

    /// Takes the rows through a layer. After the last one only rows that want logits are left, if
    /// there are any.
    fn layer(&self, i: usize, x: Tensor, chunk: &Chunk) -> CandleResult<Option<Tensor>> {
        let (layer, eps) = (&self.weights.layers[i], self.weights.config.norm_eps);
        // Experts and recurrent layers are refused when a model is loaded.
        let dense = &layer.feed_forward[0];
        let last = i + 1 == self.weights.layers.len();
        let qkv = layer.qkv.forward(&layer.attention_norms.before(&x, eps)?)?;
        let q = self.store(i, &qkv, chunk)?;
        if last && chunk.wanted.is_empty() {
            return Ok(None);
        }
        let mut attended = self.attention(i, &q, chunk)?;
        let mut x = x;
        if last && chunk.wanted.len() < chunk.rows {
            let wanted = Tensor::new(&chunk.wanted[..], &self.shape.device)?;
            (x, attended) = (x.index_select(&wanted, 0)?, attended.index_select(&wanted, 0)?);
        }
        let x = layer.attention_norms.add(x, layer.o.forward(&attended)?, &self.weights.config)?;
        let width = self.weights.config.feed_forward;
        let gate_up = dense.gate_up.forward(&layer.feed_forward_norms.before(&x, eps)?)?;
        let gate = gate_up.narrow(1, 0, width)?;
        let gate = match self.weights.config.activation {
            Activation::Silu => gate.silu()?,
            Activation::GeluTanh => gate.gelu()?,
        };
        let active = (gate * gate_up.narrow(1, width, width)?)?;
        layer.feed_forward_norms.add(x, dense.down.forward(&active)?, &self.weights.config).map(Some)
    }

    /// Writes the keys and values of all rows to their caches. Returns the queries,
    /// `[head][row][head_dim]`, scaled.
    fn store(&self, i: usize, qkv: &Tensor, chunk: &Chunk) -> CandleResult<Tensor> {
        let (c, layer) = (&self.weights.config, &self.weights.layers[i]);
        let (q_dim, kv_dim) = (c.q_dim(), c.kv_dim());
        let heads = |x: Tensor, heads: usize| x.reshape((chunk.rows, heads, c.head_dim))?.transpose(0, 1);
        let turned = |at: usize, count: usize, norm: Option<&Tensor>| {
            let x = qkv.narrow(1, at, count * c.head_dim)?;
            let x = match norm {
                // Of a head or of all heads: the weights have this width.
                Some(norm) => rms_norm(&x.contiguous()?.reshape(((), norm.elem_count()))?, norm, c.norm_eps)?,
                None => x,
            };
            let x = heads(x, count)?;
            match layer.rotary {
                Some(table) => rotated(&x, &chunk.rotations[table], c.rotary_dim),
                None => Ok(x),
            }
        };
        let q = turned(0, c.heads, layer.qk_norm.as_ref().map(|n| &n[0]))?;
        let k = turned(q_dim, c.kv_heads, layer.qk_norm.as_ref().map(|n| &n[1]))?;
        let v = heads(qkv.narrow(1, q_dim + kv_dim, kv_dim)?, c.kv_heads)?;
        for (span, cache) in chunk.spans.iter().zip(&chunk.caches) {
            let rows = |t: &Tensor| t.narrow(1, span.first, span.tokens.len());
            cache.write(i, span.start, [&rows(&k)?, &rows(&v)?])?;
        }
        scaled(q, c.attention_scale)
    }

    /// Returns the attention of all rows, `[row][head * head_dim]` in F32.
    fn attention(&self, i: usize, q: &Tensor, chunk: &Chunk) -> CandleResult<Tensor> {
        let window = self.weights.config.windows[i].unwrap_or(usize::MAX);
        let seen = chunk.seen.iter().filter(|s| s.0 == window).flat_map(|s| &s.1);
        let parts = chunk.spans.iter().zip(&chunk.caches).zip(seen).map(|((span, cache), seen)| {
            let q = q.narrow(1, span.first, span.tokens.len())?.to_dtype(self.shape.dtype)?;
            attend(&q, cache.layer(i), seen)
        });
        let parts = parts.collect::<CandleResult<Vec<_>>>()?;
        match &parts[..] {
            [one] => Ok(one.clone()),
            several => Tensor::cat(several, 0),
        }
    }

    /// Adds the logits of the rows to those of their segments.
    fn logits(
        &self,
        segments: &[Segment],
        spans: &[Span],
        rows: &Tensor,
        logits: &mut [Vec<Vec<f32>>],
    ) -> Result<()> {
        let all = self
            .weights
            .head
            .forward(rows)
            .and_then(|l| scaled(l, self.weights.config.logit_scale)?.to_vec2::<f32>())
            .map_err(failed)?;
        let mut all = all.into_iter();
        for span in spans {
            let segment = &segments[span.segment];
            let first = (span.tokens.start + span.wanted.start).saturating_sub(segment.rows.start);
            for (i, row) in (first..).zip(all.by_ref().take(span.wanted.len())) {
                logits[span.segment].push(match segment.only.get(i) {
                    Some(only) if !only.is_empty() => {
                        let mut some = vec![f32::NEG_INFINITY; row.len()];
                        only.iter().for_each(|&t| some[t as usize] = row[t as usize]);
                        some
                    }
                    _ => row,
                });
            }
        }
        Ok(())
    }
}

impl LayerNorms<Tensor> {
    /// Returns the input of the products.
    fn before(&self, x: &Tensor, eps: f32) -> CandleResult<Tensor> {
        match &self.before {
            Some(norm) => rms_norm(x, norm, eps),
            None => Ok(x.clone()),
        }
    }

    /// Adds an update to the residual stream, normed and scaled as the family has it.
    fn add(&self, x: Tensor, update: Tensor, c: &ModelConfig) -> CandleResult<Tensor> {
        let update = scaled(update, c.residual_scale)?;
        match &self.after {
            Some(norm) => x + rms_norm(&update, norm, c.norm_eps)?,
            None => x + update,
        }
    }
}

fn scaled(x: Tensor, factor: f32) -> CandleResult<Tensor> {
    if factor == 1.0 { Ok(x) } else { x.affine(factor.into(), 0.0) }
}

/// Rotates the first `width` elements of each head in `[head][row][head_dim]`.
fn rotated(x: &Tensor, [cos, sin]: &[Tensor; 2], width: usize) -> CandleResult<Tensor> {
    let rest = x.dim(2)? - width;
    let first = x.narrow(2, 0, width)?.contiguous()?.unsqueeze(0)?;
    let turned = rope(&first, cos, sin)?.squeeze(0)?;
    if rest == 0 { Ok(turned) } else { Tensor::cat(&[&turned, &x.narrow(2, width, rest)?], 2) }
}

fn other_cache() -> Error {
    Error::new(ErrorKind::Model, "the cache belongs to another model")
        .hint("make it with this model's `new_cache`")
}

/// Computes the attention of one sequence. `q` is `[head][row][head_dim]`, `keys` and `values` are
/// `[kv_head][entry][head_dim]`, the result is `[row][head * head_dim]` in F32.
fn attend(q: &Tensor, [keys, values]: &[Tensor; 2], seen: &Entries) -> CandleResult<Tensor> {
    let (heads, rows, width) = q.dims3()?;
    let kv_heads = keys.dim(0)?;
    let cut = |t: &Tensor| t.narrow(1, seen.range.start, seen.range.len());
    let (keys, values) = (cut(keys)?, cut(values)?);
    let entries = keys.dim(1)?;
    // The query heads of a key head are rows of one product.
    let q = q.contiguous()?.reshape((kv_heads, heads / kv_heads * rows, width))?;
    let scores = q.matmul(&keys.t()?)?.to_dtype(DType::F32)?.reshape((heads, rows, entries))?;
    let scores = match &seen.mask {
        Some(mask) => scores.broadcast_add(mask)?,
        None => scores,
    };
    let weights = softmax_last_dim(&scores)?.to_dtype(values.dtype())?;
    let sums = weights.reshape((kv_heads, heads / kv_heads * rows, entries))?.matmul(&values)?;
    sums.reshape((heads, rows, width))?.transpose(0, 1)?.reshape((rows, heads * width))?.to_dtype(DType::F32)
}
