//! Writes models as GGUF files, as the tests of loading need them.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ffwd::model::{Architecture, ModelConfig, RopeScaling};

/// Puts the two halves of each head's rows in turns, as GGUF files of the `llama` architecture have
/// them.
pub(crate) fn interleave(t: &Tensor, head_dim: usize) -> Tensor {
    let rows = t.dim(0).unwrap();
    let order: Vec<u32> = (0..rows)
        .map(|r| {
            let (head, i) = (r / head_dim, r % head_dim);
            (head * head_dim + i / 2 + (i % 2) * head_dim / 2) as u32
        })
        .collect();
    t.index_select(&Tensor::new(order, &Device::Cpu).unwrap(), 0).unwrap()
}

/// The keys that only some families have.
fn family_metadata(c: &ModelConfig) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    if matches!(c.architecture, Architecture::Gemma3 | Architecture::Phi3) {
        let window = c.windows.iter().flatten().next();
        all.push(("attention.sliding_window", Value::U32(window.map_or(0, |n| *n as u32))));
    }
    if c.architecture == Architecture::Granite {
        all.extend([
            ("attention.scale", Value::F32(c.attention_scale)),
            ("embedding_scale", Value::F32(c.embedding_scale)),
            ("residual_scale", Value::F32(c.residual_scale)),
            ("logit_scale", Value::F32(1.0 / c.logit_scale)),
        ]);
    }
    if let RopeScaling::Linear { factor } = c.rope_scaling {
        all.extend([
            ("rope.scaling.type", Value::String("linear".into())),
            ("rope.scaling.factor", Value::F32(factor)),
        ]);
    }
    if let RopeScaling::LongRope { original_context, attention_factor, .. } = c.rope_scaling {
        all.extend([
            ("rope.scaling.original_context_length", Value::U32(original_context as u32)),
            ("rope.scaling.attn_factor", Value::F32(attention_factor)),
        ]);
    }
    all
}

/// Writes Hugging Face weights as a GGUF file with matrices of one type.
pub(crate) fn write_gguf(path: &Path, weights: &HashMap<String, Tensor>, c: &ModelConfig, dtype: GgmlDType) {
    write_gguf_with(path, weights, c, &|_| dtype);
}

/// The same with a type for each matrix.
pub(crate) fn write_gguf_with(
    path: &Path,
    weights: &HashMap<String, Tensor>,
    c: &ModelConfig,
    dtype: &dyn Fn(&str) -> GgmlDType,
) {
    write_gguf_more(path, weights, c, dtype, &[]);
}

/// The same with further metadata.
pub(crate) fn write_gguf_more(
    path: &Path,
    weights: &HashMap<String, Tensor>,
    c: &ModelConfig,
    dtype: &dyn Fn(&str) -> GgmlDType,
    more: &[(&str, Value)],
) {
    let architecture = match c.architecture {
        Architecture::Qwen2 => "qwen2",
        Architecture::Qwen3 => "qwen3",
        Architecture::Gemma3 => "gemma3",
        Architecture::Phi3 => "phi3",
        Architecture::Granite => "granite",
        Architecture::Olmo2 => "olmo2",
        Architecture::SmolLm3 => "smollm3",
        _ => "llama",
    };
    let after = matches!(c.architecture, Architecture::Gemma3 | Architecture::Olmo2);
    let mut tensors = Vec::new();
    for (name, t) in weights {
        let name = name
            .replace("model.embed_tokens", "token_embd")
            .replace("model.norm", "output_norm")
            .replace("lm_head", "output")
            .replace("model.layers.", "blk.")
            .replace("self_attn.q_norm", "attn_q_norm")
            .replace("self_attn.k_norm", "attn_k_norm")
            .replace("self_attn.qkv_proj", "attn_qkv")
            .replace("self_attn.q_proj", "attn_q")
            .replace("self_attn.k_proj", "attn_k")
            .replace("self_attn.v_proj", "attn_v")
            .replace("self_attn.o_proj", "attn_output")
            .replace("mlp.gate_proj", "ffn_gate")
            .replace("mlp.up_proj", "ffn_up")
            .replace("mlp.gate_up_proj", "ffn_up")
            .replace("mlp.down_proj", "ffn_down")
            .replace("input_layernorm", "attn_norm")
            .replace("post_attention_layernorm", if after { "post_attention_norm" } else { "ffn_norm" })
            .replace("pre_feedforward_layernorm", "ffn_norm")
            .replace("post_feedforward_layernorm", "post_ffw_norm");
        let turned = ["llama", "granite", "smollm3"].contains(&architecture)
            && ["attn_q.", "attn_k."].iter().any(|part| name.contains(part));
        let t = match turned {
            true => interleave(t, c.head_dim),
            false if architecture == "gemma3" && name.ends_with("_norm.weight") => (t + 1.0).unwrap(),
            false => t.clone(),
        };
        let dtype = if t.rank() == 1 { GgmlDType::F32 } else { dtype(&name) };
        tensors.push((name, QTensor::quantize(&t, dtype).unwrap()));
    }
    if let RopeScaling::LongRope { short, long, .. } = &c.rope_scaling {
        for (name, divisors) in [("short", short), ("long", long)] {
            let t = Tensor::new(divisors.as_slice(), &Device::Cpu).unwrap();
            let t = QTensor::quantize(&t, GgmlDType::F32).unwrap();
            tensors.push((format!("rope_factors_{name}.weight"), t));
        }
    }
    let text = |s: &str| Value::String(s.into());
    let number = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("context_length", number(c.context)),
        ("embedding_length", number(c.hidden)),
        ("block_count", number(c.layers)),
        ("feed_forward_length", number(c.feed_forward)),
        ("attention.head_count", number(c.heads)),
        ("attention.head_count_kv", number(c.kv_heads)),
        ("attention.key_length", number(c.head_dim)),
        ("attention.value_length", number(c.head_dim)),
        ("attention.layer_norm_rms_epsilon", Value::F32(c.norm_eps)),
        ("rope.dimension_count", number(c.rotary_dim)),
        ("rope.freq_base", Value::F32(c.rope_theta)),
    ];
    let metadata = metadata.into_iter().chain(family_metadata(c));
    let mut metadata: Vec<(String, Value)> =
        metadata.map(|(k, v)| (format!("{architecture}.{k}"), v)).collect();
    metadata.extend([
        ("general.architecture".to_owned(), text(architecture)),
        // Single precision, for readers that choose their arithmetic by it.
        ("general.dtype".to_owned(), number(0)),
        ("test.list".to_owned(), Value::Array(vec![text("a"), text("bc")])),
        ("test.numbers".to_owned(), Value::Array(vec![Value::I64(1), Value::I64(2)])),
    ]);
    metadata.extend(more.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut file = std::fs::File::create(path).unwrap();
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
}
