//! The forward pass of a transformer over new tokens of one or more sequences, each at any offset.
//!
//! One pass serves all families, whose differences are in their descriptions
//! ([`Family`](super::family::Family)) and in the configuration. Long inputs run in chunks of
//! [`CHUNK`] tokens, which bounds the working memory. Rows of all sequences lie next to each other
//! without padding; only attention considers their sequences.
//!
//! # Cost
//!
//! Reading the weights once dominates. Logits are computed only for the requested rows, and the
//! last layer skips everything else for the other rows.
//!
//! # Alternatives considered
//!
//! Building the pass from tensor operations was rejected for the CPU. It allocates a tensor per
//! operation (noticeable for models of a few million parameters), has no cache that can be
//! shortened, and rounds differently for different m.

use std::cell::Cell;
use std::sync::Arc;

use half::f16;

use super::batch::{Segment, Span, chunks, pays_to_read_weights_for, shards};
use super::experts::mix;
use super::feed_forward::FeedForward;
use super::fused_linear::FusedLinear;
use super::kernels::{
    Activations, Attention, Matrix, Out, Rotation, Rows, add, gate_attention, multiply_all, rms_norm,
    rms_norm_heads, scale,
};
use super::kv_layer::KvFormat;
use super::layers::{Layer, LayerNorms, Weights};
use super::low_rank::LayerAdapters;
use crate::model::config::{ModelConfig, RotaryTable};
use crate::model::options::KvPrecision;
use crate::threads;

/// Number of tokens that run together: at least, for each thread, and at most. Each thread then has
/// enough rows of its own.
const CHUNK: usize = 256;
const CHUNK_PER_THREAD: usize = 32;
const MOST_CHUNK: usize = 1024;
/// Number of rows that go through a feed-forward together, so that the values between its products
/// stay in a core's own caches. Each piece reads the weights again, so this is for weights that
/// stay in these caches, too.
const FEED_FORWARD_ROWS: usize = 48;
/// Least number of rows of a thread for which it reads large weights. The threads are in the same layer
/// at about the same time, so the cache that they share has its weights.
const SHARED_WEIGHT_ROWS: usize = 16;
/// Least work of a thread in a layer, in rows times bytes of weights.
const WORK_PER_THREAD: usize = 1 << 21;
/// Least number of rows of a shard, if a thread has several.
const ROWS_PER_SHARD: usize = 32;
/// Largest number of shards for each thread.
const SHARDS_PER_THREAD: usize = 4;
/// Maximum bytes of such feed-forward weights.
const FEED_BYTES: usize = 1 << 20;

pub(super) type TransformerLayer = Layer<FusedLinear, Vec<f32>>;

/// The weights, ready to run.
#[derive(Clone)]
pub(crate) struct Transformer {
    pub weights: Weights<Arc<dyn Matrix>, FusedLinear, Vec<f32>>,
    /// Format of keys and values.
    pub kv: KvPrecision,
}

thread_local! {
    /// The buffers of the last chunk that this thread began. Reusing them avoids the cost of
    /// clearing fresh pages.
    static SCRATCH: Cell<Vec<Workspace>> = const { Cell::new(Vec::new()) };
}

/// Maximum bytes of buffers that a thread keeps for each shard.
const MAX_KEPT_WORKSPACE: usize = 16 << 20;

/// Rows of a chunk that go through a layer on one thread.
struct RowShard {
    spans: Vec<Span>,
    /// Of each rotary table.
    rotations: Vec<Rotation>,
    s: Workspace,
}

/// Buffers that the layers of one shard reuse. Products and norms overwrite their output, so it
/// need not be cleared.
#[derive(Default)]
pub(super) struct Workspace {
    x: Vec<f32>,
    normed: Vec<f32>,
    pub(super) qkv: Vec<f32>,
    pub(super) attended: Vec<f32>,
    pub(super) update: Vec<f32>,
    gate_up: Vec<f32>,
    active: Vec<f32>,
}

impl Workspace {
    fn bytes(&self) -> usize {
        let all =
            [&self.x, &self.normed, &self.qkv, &self.attended, &self.update, &self.gate_up, &self.active];
        all.iter().map(|v| v.capacity() * size_of::<f32>()).sum()
    }
}

impl LayerNorms<Vec<f32>> {
    /// Returns the normed rows, which are in `normed` if there is a norm.
    fn before<'a>(&self, x: &'a [f32], eps: f32, normed: &'a mut Vec<f32>) -> &'a [f32] {
        let Some(weight) = &self.before else { return x };
        normed.resize(x.len(), 0.0);
        rms_norm(x, weight, eps, normed);
        normed
    }

    /// Adds an update to the residual stream, normed and scaled as the family has it.
    fn add(&self, x: &mut [f32], update: &mut [f32], c: &ModelConfig, normed: &mut Vec<f32>) {
        scale(update, c.residual_scale);
        let Some(weight) = &self.after else { return add(x, update) };
        normed.resize(update.len(), 0.0);
        rms_norm(update, weight, c.norm_eps, normed);
        add(x, normed);
    }
}

impl Transformer {
    pub(crate) fn new(weights: Weights<Arc<dyn Matrix>, FusedLinear, Vec<f32>>, kv: KvPrecision) -> Self {
        Transformer { weights, kv }
    }

    /// Returns the same model with the adapters of its layers. Both share their weights.
    pub(crate) fn with_adapters(&self, adapters: Vec<LayerAdapters>) -> Self {
        let mut adapted = self.clone();
        for (layer, [qkv, o, gate_up, down]) in adapted.weights.layers.iter_mut().zip(adapters) {
            layer.qkv.adapter = qkv;
            layer.o.adapter = o;
            // Adapters of experts are refused before.
            for dense in &mut layer.feed_forward {
                (dense.gate_up.adapter, dense.down.adapter) = (gate_up.clone(), down.clone());
            }
        }
        adapted
    }

    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes(|matrix| matrix.bytes(), FusedLinear::bytes)
    }

    /// Returns the logits that each segment wants. After a failure the caches may be longer.
    pub(crate) fn forward(&self, segments: &mut [Segment]) -> Vec<Vec<Vec<f32>>> {
        segments.iter_mut().for_each(|segment| self.restore(segment.cache));
        let mut logits: Vec<_> = segments.iter().map(|s| Vec::with_capacity(s.rows.len())).collect();
        let most = (CHUNK_PER_THREAD * threads::number()).clamp(CHUNK, MOST_CHUNK);
        for spans in chunks(segments, most) {
            self.forward_chunk(segments, &spans, &mut logits);
        }
        logits
    }

    fn forward_chunk(&self, segments: &mut [Segment], spans: &[Span], logits: &mut [Vec<Vec<f32>>]) {
        let c = &self.weights.config;
        for span in spans {
            segments[span.segment].cache.prepare(span.tokens.len());
        }
        let rows: usize = spans.iter().map(|s| s.tokens.len()).sum();
        let count = self.shard_count(rows);
        let mut buffers = SCRATCH.take();
        buffers.resize_with(buffers.len().max(count), Workspace::default);
        let spare = buffers.split_off(count);
        let made = shards(spans, count).into_iter().zip(buffers).map(|(spans, s)| RowShard {
            rotations: Vec::new(),
            spans,
            s,
        });
        let mut shares: Vec<RowShard> = made.collect();
        self.layers(segments, &mut shares);
        for span in spans {
            let segment = &mut segments[span.segment];
            segment.cache.finish(&segment.tokens[span.tokens.clone()]);
        }
        // All normed rows are collected in the buffer of the first shard.
        let mut normed = std::mem::take(&mut shares[0].s.normed);
        normed.clear();
        for share in &shares {
            let at = normed.len();
            normed.resize(at + share.s.x.len(), 0.0);
            rms_norm(&share.s.x, &self.weights.final_norm, c.norm_eps, &mut normed[at..]);
        }
        shares[0].s.normed = normed;
        if !shares[0].s.normed.is_empty() {
            self.logits(segments, spans, &mut shares[0].s, logits);
        }
        let used = shares.into_iter().map(|share| share.s).chain(spare);
        SCRATCH.set(used.filter(|s| s.bytes() <= MAX_KEPT_WORKSPACE).collect());
    }

    /// Returns the number of shards for a chunk of `rows` rows.
    ///
    /// Threads with rows of their own meet twice in a layer, and also share out norms, rotations
    /// and sums. Otherwise they meet at each product and share out only the products. But each
    /// shard reads all weights, which pays only while these are small or the rows many. With many
    /// rows there are several shards for each thread, so that a slow thread takes fewer.
    fn shard_count(&self, rows: usize) -> usize {
        // A thread with little of its own to do costs more than it saves.
        let work = rows * self.bytes() / self.weights.layers.len().max(1);
        let threads = threads::number().min(work / WORK_PER_THREAD).max(1);
        let each = rows / threads;
        if threads == 1 || each < SHARED_WEIGHT_ROWS && !pays_to_read_weights_for(each, || self.bytes()) {
            return 1;
        }
        threads * (each / ROWS_PER_SHARD).clamp(1, SHARDS_PER_THREAD)
    }

    /// Takes all shards through all layers. After the last layer only rows with logits are left.
    fn layers(&self, segments: &mut [Segment], shares: &mut [RowShard]) {
        let last = self.weights.layers.len() - 1;
        for_each_shard(shares, |share| self.embed(segments, share));
        for (i, block) in self.weights.layers.iter().enumerate() {
            for_each_shard(shares, |share| self.project(block, share));
            for RowShard { spans, s, .. } in shares.iter_mut() {
                match &block.recurrent {
                    Some(recurrent) => self.advance(block, recurrent, segments, (&*spans, s)),
                    None => self.store(block, segments, (&*spans, &*s)),
                }
            }
            // After the last keys and values are stored, only rows with logits matter.
            let segments = &*segments;
            for_each_shard(shares, |share| {
                let RowShard { spans, s, .. } = share;
                match (&block.recurrent, self.kv) {
                    (Some(_), _) => self.keep_rows(block, (spans, i == last), s),
                    (None, KvPrecision::F32) => self.attention::<f32>(block, segments, (spans, i == last), s),
                    (None, KvPrecision::F16) => self.attention::<f16>(block, segments, (spans, i == last), s),
                }
                self.output(block, s);
                self.feed_forward(block, s);
            });
        }
    }

    /// Computes the embeddings of a shard's tokens and the rotations of their positions.
    fn embed(&self, segments: &[Segment], share: &mut RowShard) {
        let width = self.weights.config.hidden;
        let rows = share.spans.iter().map(|s| s.tokens.len()).sum::<usize>();
        share.s.x.resize(rows * width, 0.0);
        let positions = || share.spans.iter().flat_map(Span::positions);
        let rotation = |t: &RotaryTable| Rotation::new(&t.frequencies, t.scale, positions());
        share.rotations = self.weights.tables.iter().map(rotation).collect();
        for span in &share.spans {
            let rows = share.s.x[span.first * width..].chunks_exact_mut(width);
            for (id, row) in segments[span.segment].tokens[span.tokens.clone()].iter().zip(rows) {
                self.weights.embedding.row(*id as usize, row);
                scale(row, self.weights.config.embedding_scale);
            }
        }
    }

    /// Computes the logits of the normed rows: one product for rows that want all logits, and
    /// single columns for the others.
    fn logits(&self, segments: &[Segment], spans: &[Span], s: &mut Workspace, logits: &mut [Vec<Vec<f32>>]) {
        let width = self.weights.config.hidden;
        // For each row its segment and the tokens that it wants.
        let wants = spans.iter().flat_map(|span| {
            let segment = &segments[span.segment];
            let first = (span.tokens.start + span.wanted.start).saturating_sub(segment.rows.start);
            (first..first + span.wanted.len())
                .map(move |i| (span.segment, segment.only.get(i).map_or(&[][..], Vec::as_slice)))
        });
        let wants: Vec<(usize, &[u32])> = wants.collect();
        // Rows that want all logits move to the front. Those that want only some are computed here.
        let mut all = 0;
        let mut few = Vec::new();
        for (i, (_, only)) in wants.iter().enumerate() {
            let row = i * width..(i + 1) * width;
            if only.is_empty() {
                s.normed.copy_within(row, all * width);
                all += 1;
            } else {
                let mut some = vec![0.0; only.len()];
                self.weights.head.multiply_columns(&s.normed[row], only, &mut some);
                scale(&mut some, self.weights.config.logit_scale);
                few.push(some);
            }
        }
        s.update.resize(all * self.weights.config.vocab_size, 0.0);
        if all > 0 {
            let mut x = Activations::new(Rows::new(&s.normed[..all * width], all, width));
            let out = Out { data: &mut s.update, stride: self.weights.config.vocab_size };
            multiply_all(std::slice::from_ref(&self.weights.head), &mut x, out);
        }
        scale(&mut s.update, self.weights.config.logit_scale);
        let (mut rows, mut few) = (s.update.chunks_exact(self.weights.config.vocab_size), few.into_iter());
        for (segment, only) in wants {
            let row = if only.is_empty() { rows.next().map(<[f32]>::to_vec) } else { None };
            logits[segment].push(row.unwrap_or_else(|| {
                let mut row = vec![f32::NEG_INFINITY; self.weights.config.vocab_size];
                only.iter().zip(few.next().unwrap_or_default()).for_each(|(t, l)| row[*t as usize] = l);
                row
            }));
        }
    }

    /// Computes queries, keys and values of a shard's rows, normed and rotated, or what a recurrent
    /// layer reads.
    fn project(&self, block: &TransformerLayer, share: &mut RowShard) {
        let (c, s) = (&self.weights.config, &mut share.s);
        let m = s.x.len() / c.hidden;
        let input = block.attention_norms.before(&s.x, c.norm_eps, &mut s.normed);
        block.qkv.forward(input, m, &mut s.qkv);
        if block.recurrent.is_some() {
            return;
        }
        let (q_dim, kv_dim) = (c.q_dim(), c.kv_dim());
        let rotation = block.rotary.map(|table| &share.rotations[table]);
        for (r, row) in s.qkv.chunks_exact_mut(block.qkv.outputs).enumerate() {
            if let Some([q, k]) = &block.qk_norm {
                rms_norm_heads(&mut row[..q_dim], q, c.norm_eps);
                rms_norm_heads(&mut row[q_dim..q_dim + kv_dim], k, c.norm_eps);
            }
            if let Some(rotation) = rotation {
                rotation.apply(r, c.head_dim, &mut row[..q_dim + kv_dim]);
            }
        }
    }

    /// Appends a shard's keys and values to their caches.
    fn store(&self, block: &TransformerLayer, segments: &mut [Segment], (spans, s): (&[Span], &Workspace)) {
        let (q_dim, kv_dim) = (self.weights.config.q_dim(), self.weights.config.kv_dim());
        let mut rows = s.qkv.chunks_exact(block.qkv.outputs);
        for span in spans {
            let layer = &mut segments[span.segment].cache.layers[block.slot];
            for row in rows.by_ref().take(span.tokens.len()) {
                layer.push(&row[q_dim..q_dim + kv_dim], &row[q_dim + kv_dim..q_dim + 2 * kv_dim]);
            }
        }
    }

    /// Computes the attention of a shard's rows. In the last layer only rows with logits are kept.
    fn attention<E: KvFormat>(
        &self,
        block: &TransformerLayer,
        segments: &[Segment],
        (spans, last): (&[Span], bool),
        s: &mut Workspace,
    ) {
        let c = &self.weights.config;
        let stride = block.qkv.outputs;
        let mut kept = 0;
        let mut parts = Vec::with_capacity(spans.len());
        for span in spans {
            let rows = if last { span.wanted.clone() } else { 0..span.tokens.len() };
            if rows.is_empty() {
                continue;
            }
            let from = span.first + rows.start;
            s.x.copy_within(from * c.hidden..(from + rows.len()) * c.hidden, kept * c.hidden);
            kept += rows.len();
            // All caches have this format, see `check`.
            let Some(layer) = E::of_layer(&segments[span.segment].cache.layers[block.slot]) else {
                unreachable!("the format of a cache is checked before a forward");
            };
            parts.push(Attention {
                q: &s.qkv[from * stride..],
                q_stride: stride,
                k: &layer.k,
                v: &layer.v,
                start: span.start + rows.start,
                rows: rows.len(),
                heads: c.heads,
                kv_heads: c.kv_heads,
                head_dim: c.head_dim,
                scale: c.attention_scale,
                window: block.window,
            });
        }
        s.x.truncate(kept * c.hidden);
        s.attended.resize(kept * c.q_dim(), 0.0);
        Attention::run(&parts, &mut s.attended);
        if c.architecture.family().output_gate {
            let at = c.q_dim() + 2 * c.kv_dim();
            let gates =
                parts.iter().flat_map(|part| part.q.chunks(stride).take(part.rows).map(|row| &row[at..]));
            s.attended
                .chunks_exact_mut(c.q_dim())
                .zip(gates)
                .for_each(|(out, gate)| gate_attention(gate, out));
        }
    }

    /// Keeps only rows with logits of what a recurrent layer read, in the last layer.
    fn keep_rows(&self, block: &TransformerLayer, (spans, last): (&[Span], bool), s: &mut Workspace) {
        if !last {
            return;
        }
        let rows = spans.iter().flat_map(|span| span.wanted.clone().map(|row| span.first + row));
        let mut kept = 0;
        for row in rows {
            for (data, width) in [(&mut s.x, self.weights.config.hidden), (&mut s.attended, block.o.inputs())]
            {
                data.copy_within(row * width..(row + 1) * width, kept * width);
            }
            kept += 1;
        }
        s.x.truncate(kept * self.weights.config.hidden);
        s.attended.truncate(kept * block.o.inputs());
    }

    /// Adds what the attention or a recurrent layer read to the rows of a shard.
    fn output(&self, block: &TransformerLayer, s: &mut Workspace) {
        let c = &self.weights.config;
        block.o.forward(&s.attended, s.x.len() / c.hidden, &mut s.update);
        block.attention_norms.add(&mut s.x, &mut s.update, c, &mut s.normed);
    }

    /// Adds the feed-forward to the rows of a shard.
    fn feed_forward(&self, block: &TransformerLayer, s: &mut Workspace) {
        let c = &self.weights.config;
        let small = block.feed_forward.iter().map(FeedForward::bytes).sum::<usize>() <= FEED_BYTES;
        for x in s.x.chunks_mut(if small { FEED_FORWARD_ROWS } else { MOST_CHUNK } * c.hidden) {
            let rows = x.len() / c.hidden;
            let input = block.feed_forward_norms.before(x, c.norm_eps, &mut s.normed);
            match (&block.router, &c.experts, &block.feed_forward[..]) {
                (Some(router), Some(shape), experts) => {
                    mix((router, experts), (shape, c.activation), (input, rows), &mut s.update);
                }
                (.., [dense, ..]) => {
                    let buffers = [&mut s.gate_up, &mut s.active, &mut s.update];
                    dense.run(c.activation, input, rows, buffers);
                }
                _ => unreachable!("a layer has a feed-forward"),
            }
            block.feed_forward_norms.add(x, &mut s.update, c, &mut s.normed);
        }
    }
}

/// Runs `work` on every shard; several run on threads of their own.
fn for_each_shard(shares: &mut [RowShard], work: impl Fn(&mut RowShard) + Sync) {
    match shares {
        [share] => work(share),
        shares => threads::each(shares, work),
    }
}
