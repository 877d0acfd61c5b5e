//! Writes models as GGUF files, as the tests of loading need them.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ffwd::model::ModelConfig;

/// Puts the two halves of each head's rows in turns, as GGUF files of the `llama` architecture have them.
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
    let mut tensors = Vec::new();
    for (name, t) in weights {
        let name = name
            .replace("model.embed_tokens", "token_embd")
            .replace("model.norm", "output_norm")
            .replace("lm_head", "output")
            .replace("model.layers.", "blk.")
            .replace("self_attn.q_proj", "attn_q")
            .replace("self_attn.k_proj", "attn_k")
            .replace("self_attn.v_proj", "attn_v")
            .replace("self_attn.o_proj", "attn_output")
            .replace("mlp.gate_proj", "ffn_gate")
            .replace("mlp.up_proj", "ffn_up")
            .replace("mlp.down_proj", "ffn_down")
            .replace("input_layernorm", "attn_norm")
            .replace("post_attention_layernorm", "ffn_norm");
        let turned = name.contains("attn_q") || name.contains("attn_k");
        let t = if turned { interleave(t, c.head_dim) } else { t.clone() };
        let dtype = if t.rank() == 1 { GgmlDType::F32 } else { dtype };
        tensors.push((name, QTensor::quantize(&t, dtype).unwrap()));
    }
    let text = |s: &str| Value::String(s.into());
    let number = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("general.architecture", text("llama")),
        ("llama.context_length", number(c.context)),
        ("llama.embedding_length", number(c.hidden)),
        ("llama.block_count", number(c.layers)),
        ("llama.feed_forward_length", number(c.feed_forward)),
        ("llama.attention.head_count", number(c.heads)),
        ("llama.attention.head_count_kv", number(c.kv_heads)),
        ("llama.attention.key_length", number(c.head_dim)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(c.norm_eps)),
        ("llama.rope.freq_base", Value::F32(c.rope_theta)),
        ("test.list", Value::Array(vec![text("a"), text("bc")])),
        ("test.numbers", Value::Array(vec![Value::I64(1), Value::I64(2)])),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (*k, v)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut file = std::fs::File::create(path).unwrap();
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
}
