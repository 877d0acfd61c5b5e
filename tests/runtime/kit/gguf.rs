//! Writes models as GGUF files, as the tests of loading need them.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ffwd::model::{Architecture, ModelConfig};

/// Puts the two halves of each head's rows in turns, as GGUF files of the `llama` architecture have
/// them.
fn interleave(t: &Tensor, head_dim: usize) -> Tensor {
    let rows = t.dim(0).unwrap();
    let order: Vec<u32> = (0..rows)
        .map(|r| {
            let (head, i) = (r / head_dim, r % head_dim);
            (head * head_dim + i / 2 + (i % 2) * head_dim / 2) as u32
        })
        .collect();
    t.index_select(&Tensor::new(order, &Device::Cpu).unwrap(), 0).unwrap()
}

/// Writes Hugging Face weights as a GGUF file with matrices of one type.
pub fn write_gguf(path: &Path, weights: &HashMap<String, Tensor>, c: &ModelConfig, dtype: GgmlDType) {
    write_gguf_with(path, weights, c, &|_| dtype);
}

/// The same with a type for each matrix.
pub fn write_gguf_with(
    path: &Path,
    weights: &HashMap<String, Tensor>,
    c: &ModelConfig,
    dtype: &dyn Fn(&str) -> GgmlDType,
) {
    write_gguf_more(path, weights, c, dtype, &[]);
}

/// The same with further metadata.
pub fn write_gguf_more(
    path: &Path,
    weights: &HashMap<String, Tensor>,
    c: &ModelConfig,
    dtype: &dyn Fn(&str) -> GgmlDType,
    more: &[(&str, Value)],
) {
    let architecture = match c.architecture {
        Architecture::Qwen2 => "qwen2",
        Architecture::Qwen3 => "qwen3",
        _ => "llama",
    };
    let mut tensors = Vec::new();
    for (name, t) in weights {
        let name = name
            .replace("model.embed_tokens", "token_embd")
            .replace("model.norm", "output_norm")
            .replace("lm_head", "output")
            .replace("model.layers.", "blk.")
            .replace("self_attn.q_norm", "attn_q_norm")
            .replace("self_attn.k_norm", "attn_k_norm")
            .replace("self_attn.q_proj", "attn_q")
            .replace("self_attn.k_proj", "attn_k")
            .replace("self_attn.v_proj", "attn_v")
            .replace("self_attn.o_proj", "attn_output")
            .replace("mlp.gate_proj", "ffn_gate")
            .replace("mlp.up_proj", "ffn_up")
            .replace("mlp.down_proj", "ffn_down")
            .replace("input_layernorm", "attn_norm")
            .replace("post_attention_layernorm", "ffn_norm");
        let turned = architecture == "llama" && (name.contains("attn_q") || name.contains("attn_k"));
        let t = if turned { interleave(t, c.head_dim) } else { t.clone() };
        let dtype = if t.rank() == 1 { GgmlDType::F32 } else { dtype(&name) };
        tensors.push((name, QTensor::quantize(&t, dtype).unwrap()));
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
        ("rope.dimension_count", number(c.head_dim)),
        ("rope.freq_base", Value::F32(c.rope_theta)),
    ];
    let mut metadata: Vec<(String, Value)> = metadata.map(|(k, v)| (format!("{architecture}.{k}"), v)).into();
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
