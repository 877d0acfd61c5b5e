//! The same on a model of 500 million parameters: the shape of Qwen2-0.5B (24 layers of 896, 14
//! heads on two key heads, feed-forward of 4864, 151,936 tokens; `Q8_0`). It holds the embedded
//! model and zeros.
//!
//! It computes the same numbers as the embedded model. So drafts are accepted as they are there,
//! and the processor multiplies every zero.
//!
//! # Alternatives considered
//!
//! Random weights choose tokens at random, and so reject every draft that is not forced.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ffwd::model::{LoadOptions, Model, embedded};
use ffwd::{Engine, Error, ErrorKind, Result};
use ffwd_testkit::env;

const LAYERS: usize = 24;
const HIDDEN: usize = 896;
const HEADS: usize = 14;
const FEED_FORWARD: usize = 4864;
const VOCABULARY: usize = 151_936;

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Model, e.to_string())
}

/// The matrix with row r at `row(r)` and column c at `column(c)` of a larger one of zeros.
fn spread(
    small: &[Vec<f32>],
    (rows, columns): (usize, usize),
    row: impl Fn(usize) -> usize,
    column: impl Fn(usize) -> usize,
) -> candle_core::Result<Tensor> {
    let mut all = vec![0f32; rows * columns];
    for (r, values) in small.iter().enumerate() {
        for (c, value) in values.iter().enumerate() {
            all[row(r) * columns + column(c)] = *value;
        }
    }
    Tensor::from_vec(all, (rows, columns), &Device::Cpu)
}

/// Writes the large model as a GGUF file.
fn write(path: &Path) -> candle_core::Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/runtime/assets/extract-5m/model-q8_0.gguf");
    let mut file = File::open(from)?;
    let content = Content::read(&mut file)?;
    let number = |key: &str| content.metadata[&format!("llama.{key}")].to_u32().map(|n| n as usize);
    let (hidden, heads, layers) =
        (number("embedding_length")?, number("attention.head_count")?, number("block_count")?);
    let (kv_heads, head) = (number("attention.head_count_kv")?, number("rope.dimension_count")?);
    let (group, large_group) = (heads / kv_heads, HEADS / kv_heads);
    // The query heads of a key head stay with it.
    let by_head = |i: usize| {
        let (h, at) = (i / head, i % head);
        (h / group * large_group + h % group) * head + at
    };
    let same = |i: usize| i;
    let mut tensors: Vec<(String, QTensor)> = Vec::new();
    let mut put = |name: String, tensor: Tensor, dtype: GgmlDType| -> candle_core::Result<()> {
        tensors.push((name, QTensor::quantize(&tensor, dtype)?));
        Ok(())
    };
    let kv = kv_heads * head;
    let q = HEADS * head;
    let shapes: HashMap<&str, (usize, usize)> = HashMap::from([
        ("attn_q", (q, HIDDEN)),
        ("attn_k", (kv, HIDDEN)),
        ("attn_v", (kv, HIDDEN)),
        ("attn_output", (HIDDEN, q)),
        ("ffn_gate", (FEED_FORWARD, HIDDEN)),
        ("ffn_up", (FEED_FORWARD, HIDDEN)),
        ("ffn_down", (HIDDEN, FEED_FORWARD)),
    ]);
    // A norm divides by the mean over more elements, of which the new ones are zero.
    let smaller = (hidden as f64 / HIDDEN as f64).sqrt();
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut file, name, &Device::Cpu)?.dequantize(&Device::Cpu)?;
        if tensor.rank() == 1 {
            let mut values = (tensor * smaller)?.to_vec1::<f32>()?;
            values.resize(HIDDEN, 0.0);
            put(name.clone(), Tensor::new(values, &Device::Cpu)?, GgmlDType::F32)?;
            continue;
        }
        let small = tensor.to_vec2::<f32>()?;
        let part = name.split('.').nth(2).unwrap_or_default();
        let shape = shapes.get(part).copied().unwrap_or((VOCABULARY, HIDDEN));
        let large = match part {
            "attn_q" => spread(&small, shape, by_head, same)?,
            "attn_output" => spread(&small, shape, same, by_head)?,
            _ => spread(&small, shape, same, same)?,
        };
        put(name.clone(), large, GgmlDType::Q8_0)?;
    }
    for layer in layers..LAYERS {
        for part in ["attn_norm", "ffn_norm"] {
            put(
                format!("blk.{layer}.{part}.weight"),
                Tensor::ones(HIDDEN, candle_core::DType::F32, &Device::Cpu)?,
                GgmlDType::F32,
            )?;
        }
        for (part, shape) in &shapes {
            put(format!("blk.{layer}.{part}.weight"), spread(&[], *shape, same, same)?, GgmlDType::Q8_0)?;
        }
    }
    let eps = content.metadata["llama.attention.layer_norm_rms_epsilon"].to_f32()?;
    let large = |n: usize| Value::U32(n as u32);
    let changed = HashMap::from([
        ("llama.embedding_length", large(HIDDEN)),
        ("llama.block_count", large(LAYERS)),
        ("llama.feed_forward_length", large(FEED_FORWARD)),
        ("llama.attention.head_count", large(HEADS)),
        ("llama.vocab_size", large(VOCABULARY)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32((f64::from(eps) * smaller * smaller) as f32)),
    ]);
    let metadata: Vec<(&str, &Value)> = content
        .metadata
        .iter()
        .filter(|(key, _)| !key.starts_with("tokenizer."))
        .map(|(key, value)| (key.as_str(), changed.get(key.as_str()).unwrap_or(value)))
        .collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    gguf_file::write(&mut File::create(path)?, &metadata, &tensors)
}

/// The large model, from a file that is gone afterwards.
fn target() -> Result<Model> {
    let dir = tempfile::tempdir().map_err(failed)?;
    let path = dir.path().join("model.gguf");
    write(&path).map_err(failed)?;
    Model::from_gguf(&path, &LoadOptions::default())
}

fn engine(target: &Model) -> Result<Engine> {
    let draft = Model::embedded_draft(&LoadOptions::default())?;
    Engine::from_parts(target.clone(), Some(draft), embedded::vocabulary()?)
}

pub(super) fn run() -> Result<()> {
    let (target, rounds) = (target()?, env::rounds(2));
    println!("the large model: {} MB", target.weight_bytes() / 1_000_000);
    super::gate::records(&engine(&target)?.with_prefix_bytes(0), rounds, env::step(120))?;
    super::same_schema::run(|| engine(&target), rounds, 4)
}
