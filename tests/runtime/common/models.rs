//! Random models of every family, as folders or in memory.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ffwd::model::{LoadOptions, Model, ModelConfig, Precision};
use ffwd_testkit::random::Random;
use serde_json::{Value, json};

/// Uniform numbers from -1 to 1.
pub(crate) fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut random = Random::new(seed);
    move || random.unit() * 2.0 - 1.0
}

pub(crate) fn tokens(n: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut next = noise(seed);
    (0..n).map(|_| ((next() + 1.0) / 2.0 * vocab as f32) as u32 % vocab as u32).collect()
}

/// The largest difference between two lists of logits.
pub(crate) fn difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    assert_eq!(a.len(), b.len());
    let mut max = 0f32;
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!(a.is_finite() && b.is_finite());
            max = max.max((a - b).abs());
        }
    }
    max
}

/// vocab, hidden, feed-forward, layers, heads, key heads, head width
pub(crate) type Shape = [usize; 7];

/// A `config.json` of a family (its `model_type`), with `more` on top.
pub(crate) fn config(
    family: &str,
    [vocab, hidden, ffn, layers, heads, kv, dim]: Shape,
    more: Value,
) -> Value {
    let mut all = json!({
        "model_type": family, "hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads,
        "num_key_value_heads": kv, "head_dim": dim, "num_hidden_layers": layers, "hidden_act": "silu",
        "max_position_embeddings": 640, "vocab_size": vocab, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": false,
    });
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

/// A model that a test of all families loads.
pub(crate) struct FamilyRow {
    pub family: String,
    pub config: Value,
    pub dtype: DType,
    /// True if GGUF files can hold it too.
    pub gguf: bool,
}

impl FamilyRow {
    pub(crate) fn vocab(&self) -> usize {
        number(&self.config, "vocab_size")
    }
}

/// The rows of `families.jsonl` for a test.
pub(crate) fn families(test: &str) -> Vec<FamilyRow> {
    let rows =
        include_str!("families.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["test"] == test)
        .map(|row| {
            let family = row["family"].as_str().unwrap();
            let shape: Shape = serde_json::from_value(row["shape"].clone()).unwrap();
            let dtype = row["dtype"].as_str().map_or(DType::F32, |dtype| dtype.parse().unwrap());
            let config = config(family, shape, row["more"].clone());
            FamilyRow { family: family.to_owned(), config, dtype, gguf: row["gguf"] == true }
        })
        .collect()
}

pub(crate) fn f32_options() -> LoadOptions {
    LoadOptions::with_precision(Precision::F32)
}

/// The model of a configuration in single precision.
pub(crate) fn load(config: &Value, weights: &HashMap<String, Tensor>) -> Model {
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), config, weights, 1);
    Model::from_dir(dir.path(), &f32_options()).unwrap()
}

pub(crate) fn parsed(config: &Value) -> ModelConfig {
    ModelConfig::from_json(config.to_string().as_bytes()).unwrap()
}

/// The logits of all tokens, in one pass.
pub(crate) fn all(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    model.forward(tokens, &mut model.new_cache().unwrap(), 0..tokens.len()).unwrap()
}

/// Checks that each token alone has the bits that it has among all.
pub(crate) fn check_rows_alone(model: &Model, tokens: &[u32], among_all: &[Vec<f32>], what: &str) {
    let mut cache = model.new_cache().unwrap();
    for (row, token) in tokens.iter().enumerate() {
        let alone = model.forward(&[*token], &mut cache, 0..1).unwrap();
        assert!(alone[0] == among_all[row], "{what}: row {row}");
    }
}

fn number(config: &Value, name: &str) -> usize {
    config[name].as_u64().unwrap() as usize
}

/// Random weights for a configuration: of size 1/sqrt(inputs), norms near 1, so that activations
/// stay of size 1.
pub(crate) fn weights(config: &Value, dtype: DType, seed: u64) -> HashMap<String, Tensor> {
    let n = |name: &str| number(config, name);
    let family = config["model_type"].as_str().unwrap();
    let on = |name: &str| config[name].as_bool().unwrap_or(false);
    let (hidden, ffn, dim) = (n("hidden_size"), n("intermediate_size"), n("head_dim"));
    let (q, kv) = (n("num_attention_heads") * dim, n("num_key_value_heads") * dim);
    let mut names: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![n("vocab_size"), hidden]),
        ("model.norm.weight".into(), vec![hidden]),
    ];
    if !on("tie_word_embeddings") {
        names.push(("lm_head.weight".into(), vec![n("vocab_size"), hidden]));
    }
    let gemma = family == "gemma3_text";
    for i in 0..n("num_hidden_layers") {
        let mut add =
            |part: &str, shape: &[usize]| names.push((format!("model.layers.{i}.{part}"), shape.to_vec()));
        if family == "phi3" {
            add("self_attn.qkv_proj.weight", &[q + 2 * kv, hidden]);
            add("self_attn.o_proj.weight", &[hidden, q]);
            add("mlp.gate_up_proj.weight", &[2 * ffn, hidden]);
        } else {
            for (part, outputs, inputs) in
                [("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)]
            {
                add(&format!("self_attn.{part}_proj.weight"), &[outputs, inputs]);
                if on("attention_bias") || family == "qwen2" && part != "o" {
                    add(&format!("self_attn.{part}_proj.bias"), &[outputs]);
                }
            }
            add("mlp.gate_proj.weight", &[ffn, hidden]);
            add("mlp.up_proj.weight", &[ffn, hidden]);
        }
        add("mlp.down_proj.weight", &[hidden, ffn]);
        let [q_norm, k_norm] = if family == "olmo2" { [q, kv] } else { [dim, dim] };
        if ["qwen3", "gemma3_text", "olmo2"].contains(&family) {
            add("self_attn.q_norm.weight", &[q_norm]);
            add("self_attn.k_norm.weight", &[k_norm]);
        }
        add("post_attention_layernorm.weight", &[hidden]);
        if family != "olmo2" {
            add("input_layernorm.weight", &[hidden]);
        }
        if gemma {
            add("pre_feedforward_layernorm.weight", &[hidden]);
        }
        if gemma || family == "olmo2" {
            add("post_feedforward_layernorm.weight", &[hidden]);
        }
    }
    let mut next = noise(seed);
    let mut tensor = |name: &str, shape: &[usize]| {
        let (scale, shift) = match shape {
            [_, inputs] => (1.7 / (*inputs as f32).sqrt(), 0.0),
            _ if name.ends_with(".bias") => (0.5, 0.0),
            // Files of Gemma hold the weights of norms less 1.
            _ if gemma => (0.3, 0.0),
            _ => (0.3, 1.0),
        };
        let data = (0..shape.iter().product()).map(|_| next() * scale + shift).collect::<Vec<f32>>();
        Tensor::from_vec(data, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    };
    names.iter().map(|(name, shape)| (name.clone(), tensor(name, shape))).collect()
}

/// Writes a model folder, in one file or in shards with an index.
pub(crate) fn write_dir(dir: &Path, config: &Value, weights: &HashMap<String, Tensor>, shards: usize) {
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    if shards == 1 {
        candle_core::safetensors::save(weights, dir.join("model.safetensors")).unwrap();
        return;
    }
    let mut names: Vec<&String> = weights.keys().collect();
    names.sort();
    let mut map = serde_json::Map::new();
    for i in 0..shards {
        let file = format!("model-{:05}-of-{shards:05}.safetensors", i + 1);
        let part: HashMap<String, Tensor> =
            names.iter().skip(i).step_by(shards).map(|n| ((*n).clone(), weights[*n].clone())).collect();
        candle_core::safetensors::save(&part, dir.join(&file)).unwrap();
        map.extend(part.into_keys().map(|name| (name, Value::from(file.clone()))));
    }
    let index = json!({"metadata": {"total_size": 0}, "weight_map": map});
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

/// A model with few layers that see a window of a few positions, of which one is not full.
pub(crate) fn windowed() -> Model {
    let config = config("mistral", [300, 48, 64, 2, 6, 2, 20], json!({ "sliding_window": 5 }));
    load(&config, &weights(&config, DType::F32, 5))
}
