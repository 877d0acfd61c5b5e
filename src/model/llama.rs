//! The forward pass over m new tokens at any offset, one for all families: what tells them apart are
//! switches (biases in the projections, norms of queries and keys, rotary frequencies, windows).
//!
//! The cost is dominated by reading the weights once; logits are computed only for the rows that are
//! asked for, and the last layer skips everything else for the other rows. Long inputs run in pieces of
//! [`CHUNK`] tokens, which bounds the working memory. Building the pass from tensor operations was
//! rejected for the CPU: it allocates a tensor per operation (noticeable for models of a few million
//! parameters), has no cache that can be shortened, and rounds differently for different m.

use std::io::{Read, Seek};
use std::ops::Range;

use super::LoadOptions;
use super::cache::KvCache;
use super::config::{ModelConfig, bad};
use super::kernels::{Attention, Rotation, rms_norm, rms_norm_heads, silu_times};
use super::weights::{Matrix, Part, Projection, Slot, Source};
use crate::error::{Error, ErrorKind, Result};

/// Tokens that run together at most.
const CHUNK: usize = 256;

struct Block {
    attention_norm: Vec<f32>,
    qkv: Projection,
    /// Norms of each head's queries and keys.
    qk_norm: Option<[Vec<f32>; 2]>,
    /// Positions a token sees.
    window: usize,
    o: Projection,
    feed_forward_norm: Vec<f32>,
    gate_up: Projection,
    down: Projection,
}

/// The weights, ready to run.
pub(super) struct Llama {
    pub config: ModelConfig,
    embedding: Matrix,
    blocks: Vec<Block>,
    final_norm: Vec<f32>,
    head: Projection,
    frequencies: Vec<f32>,
}

/// Buffers that the layers of one chunk reuse.
#[derive(Default)]
struct Scratch {
    normed: Vec<f32>,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    update: Vec<f32>,
    gate_up: Vec<f32>,
    active: Vec<f32>,
}

impl Llama {
    pub fn load<R: Read + Seek>(
        mut config: ModelConfig,
        source: &mut Source<R>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let c = &config;
        let how = (options.precision, options.same_for_any_rows);
        let embedding = source.matrix(Slot::Embedding, c.vocab_size, c.hidden, options.precision)?;
        let mut blocks = Vec::new();
        for i in 0..c.layers {
            let (q, kv, f) = (c.q_dim(), c.kv_dim(), c.feed_forward);
            blocks.push(Block {
                attention_norm: source.vector(Slot::Layer(i, Part::AttentionNorm), c.hidden)?,
                qkv: source.projection(i, &[(Part::Q, q), (Part::K, kv), (Part::V, kv)], c.hidden, how, c)?,
                qk_norm: if c.qk_norm {
                    let mut norm = |part| source.vector(Slot::Layer(i, part), c.head_dim);
                    Some([norm(Part::QNorm)?, norm(Part::KNorm)?])
                } else {
                    None
                },
                window: c.windows[i].unwrap_or(usize::MAX),
                o: source.projection(i, &[(Part::O, c.hidden)], q, how, c)?,
                feed_forward_norm: source.vector(Slot::Layer(i, Part::FeedForwardNorm), c.hidden)?,
                gate_up: source.projection(i, &[(Part::Gate, f), (Part::Up, f)], c.hidden, how, c)?,
                down: source.projection(i, &[(Part::Down, c.hidden)], f, how, c)?,
            });
        }
        let final_norm = source.vector(Slot::FinalNorm, c.hidden)?;
        let head = if c.tied_embeddings || !source.has_output() {
            if !c.tied_embeddings {
                return Err(bad("the output matrix is missing and `tie_word_embeddings` is false"));
            }
            embedding.clone()
        } else {
            source.matrix(Slot::Output, c.vocab_size, c.hidden, options.precision)?
        };
        let frequencies = c.rope_scaling.frequencies(c.rope_theta, c.head_dim);
        if let Some(limit) = options.max_context {
            config.context = config.context.min(limit.max(1));
        }
        let head = Projection::single(head, options.same_for_any_rows);
        Ok(Llama { config, embedding, blocks, final_norm, head, frequencies })
    }

    /// Bytes of the weight matrices.
    pub fn bytes(&self) -> usize {
        let blocks: usize = self
            .blocks
            .iter()
            .map(|b| b.qkv.bytes() + b.o.bytes() + b.gate_up.bytes() + b.down.bytes())
            .sum();
        // A tied head shares its memory with the embedding.
        blocks + self.head.bytes() + if self.config.tied_embeddings { 0 } else { self.embedding.bytes() }
    }

    /// Whether a row's logits may depend, in the last bits, on how many rows ran with it.
    pub fn varies(&self) -> bool {
        self.head.varies()
            || self
                .blocks
                .iter()
                .any(|b| b.qkv.varies() || b.o.varies() || b.gate_up.varies() || b.down.varies())
    }

    pub fn forward(&self, tokens: &[u32], cache: &mut KvCache, rows: Range<usize>) -> Result<Vec<Vec<f32>>> {
        self.check(tokens, cache, &rows)?;
        let before = cache.len;
        let mut logits = Vec::with_capacity(rows.len());
        for (i, chunk) in tokens.chunks(CHUNK).enumerate() {
            let first = i * CHUNK;
            let clamp = |r: usize| r.clamp(first, first + chunk.len()) - first;
            if let Err(e) = self.chunk(chunk, cache, clamp(rows.start)..clamp(rows.end), &mut logits) {
                cache.truncate(before);
                return Err(e);
            }
        }
        Ok(logits)
    }

    fn check(&self, tokens: &[u32], cache: &KvCache, rows: &Range<usize>) -> Result<()> {
        let c = &self.config;
        if rows.start > rows.end || rows.end > tokens.len() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                format!("logits of rows {rows:?} of {} tokens", tokens.len()),
            ));
        }
        if cache.layers.len() != c.layers || cache.kv_dim != c.kv_dim() {
            return Err(
                bad("the cache belongs to another model").hint("make it with this model's `new_cache`")
            );
        }
        if let Some(id) = tokens.iter().find(|id| **id as usize >= c.vocab_size) {
            return Err(bad(format!("token {id} is not below the model's vocabulary size {}", c.vocab_size))
                .hint("use the tokenizer that belongs to the model"));
        }
        if cache.len + tokens.len() > c.context {
            return Err(Error::new(
                ErrorKind::PromptTooLong,
                format!(
                    "{} tokens after {} in the cache exceed the context of {}",
                    tokens.len(),
                    cache.len,
                    c.context
                ),
            )
            .hint("shorten the prompt or use a model with a longer context"));
        }
        Ok(())
    }

    fn chunk(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        wanted: Range<usize>,
        logits: &mut Vec<Vec<f32>>,
    ) -> Result<()> {
        let c = &self.config;
        let (m, start) = (tokens.len(), cache.len);
        cache.prepare(m);
        let mut x = vec![0.0; m * c.hidden];
        for (id, row) in tokens.iter().zip(x.chunks_exact_mut(c.hidden)) {
            self.embedding.row(*id, row)?;
        }
        let rotation = Rotation::new(&self.frequencies, start, m);
        let mut s = Scratch::default();
        let last = self.blocks.len() - 1;
        for (i, block) in self.blocks.iter().enumerate() {
            // After the last keys and values are stored, only rows with logits matter.
            let rows = if i == last { wanted.clone() } else { 0..m };
            self.attend(block, &mut x, &rotation, &mut cache.layers[i], (start, &rows), &mut s)?;
            if rows.is_empty() {
                break;
            }
            self.feed_forward(block, &mut x, rows.len(), &mut s)?;
        }
        cache.len = start + m;
        if wanted.is_empty() {
            return Ok(());
        }
        s.normed.resize(x.len(), 0.0);
        rms_norm(&x, &self.final_norm, c.norm_eps, &mut s.normed);
        self.head.forward(&s.normed, wanted.len(), &mut s.update)?;
        logits.extend(s.update.chunks_exact(c.vocab_size).map(<[f32]>::to_vec));
        Ok(())
    }

    /// Stores keys and values of all rows of `x`; then `x` becomes its rows `rows` with the attention
    /// added.
    fn attend(
        &self,
        block: &Block,
        x: &mut Vec<f32>,
        rotation: &Rotation,
        layer: &mut super::cache::Layer,
        (start, rows): (usize, &Range<usize>),
        s: &mut Scratch,
    ) -> Result<()> {
        let c = &self.config;
        let m = x.len() / c.hidden;
        s.normed.resize(x.len(), 0.0);
        rms_norm(x, &block.attention_norm, c.norm_eps, &mut s.normed);
        block.qkv.forward(&s.normed, m, &mut s.qkv)?;
        let (q_dim, kv_dim, stride) = (c.q_dim(), c.kv_dim(), block.qkv.outputs);
        for (i, row) in s.qkv.chunks_exact_mut(stride).enumerate() {
            if let Some([q, k]) = &block.qk_norm {
                rms_norm_heads(&mut row[..q_dim], q, c.norm_eps);
                rms_norm_heads(&mut row[q_dim..q_dim + kv_dim], k, c.norm_eps);
            }
            rotation.apply(i, &mut row[..q_dim + kv_dim]);
            layer.k.extend_from_slice(&row[q_dim..q_dim + kv_dim]);
            layer.v.extend_from_slice(&row[q_dim + kv_dim..]);
        }
        x.truncate(rows.end * c.hidden);
        x.drain(..rows.start * c.hidden);
        if rows.is_empty() {
            return Ok(());
        }
        s.attended.resize(rows.len() * q_dim, 0.0);
        Attention {
            q: &s.qkv[rows.start * stride..],
            q_stride: stride,
            k: &layer.k,
            v: &layer.v,
            start: start + rows.start,
            rows: rows.len(),
            heads: c.heads,
            kv_heads: c.kv_heads,
            head_dim: c.head_dim,
            window: block.window,
        }
        .run(&mut s.attended);
        block.o.forward(&s.attended, rows.len(), &mut s.update)?;
        add(x, &s.update);
        Ok(())
    }

    fn feed_forward(&self, block: &Block, x: &mut [f32], rows: usize, s: &mut Scratch) -> Result<()> {
        let c = &self.config;
        s.normed.resize(x.len(), 0.0);
        rms_norm(x, &block.feed_forward_norm, c.norm_eps, &mut s.normed);
        block.gate_up.forward(&s.normed, rows, &mut s.gate_up)?;
        s.active.resize(rows * c.feed_forward, 0.0);
        silu_times(&s.gate_up, c.feed_forward, &mut s.active);
        block.down.forward(&s.active, rows, &mut s.update)?;
        add(x, &s.update);
        Ok(())
    }
}

fn add(x: &mut [f32], update: &[f32]) {
    for (a, b) in x.iter_mut().zip(update) {
        *a += b;
    }
}
