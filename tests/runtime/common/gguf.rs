//! Writes models as GGUF files, as the tests of loading need them.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ffwd::model::{Architecture, DeltaShape, Mixer, ModelConfig, RopeScaling};

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
    let number = |n: usize| Value::U32(n as u32);
    if let Some(delta) = c.delta {
        let recurrent = c.mixers.iter().map(|m| Value::Bool(*m != Mixer::Attention));
        all.extend([
            ("ssm.conv_kernel", number(c.taps)),
            ("ssm.state_size", number(delta.key_dim)),
            ("ssm.group_count", number(delta.key_heads)),
            ("ssm.time_step_rank", number(delta.value_heads)),
            ("ssm.inner_size", number(delta.value_heads * delta.value_dim)),
            ("attention.recurrent_layers", Value::Array(recurrent.collect())),
            ("full_attention_interval", number(4)),
        ]);
    } else if c.taps > 0 {
        all.push(("shortconv.l_cache", number(c.taps)));
    }
    if let Some(experts) = c.experts {
        all.extend([
            ("expert_count", number(experts.count)),
            ("expert_used_count", number(experts.used)),
            ("expert_feed_forward_length", number(c.feed_forward)),
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

/// The number of key heads; LFM2 has one for each layer, 0 for convolutions.
fn kv_heads(c: &ModelConfig) -> Value {
    let of = |mixer: &Mixer| Value::I32(if *mixer == Mixer::Attention { c.kv_heads as i32 } else { 0 });
    match c.architecture {
        Architecture::Lfm2 => Value::Array(c.mixers.iter().map(of).collect()),
        _ => Value::U32(c.kv_heads as u32),
    }
}

/// Puts the matrices of a layer's experts into one tensor.
fn stacked(weights: &HashMap<String, Tensor>, c: &ModelConfig) -> HashMap<String, Tensor> {
    let mut all = weights.clone();
    let Some(experts) = c.experts else { return all };
    for layer in 0..c.layers {
        for part in ["gate", "up", "down"] {
            let name = |expert| format!("model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight");
            let of = (0..experts.count).map(|expert| all.remove(&name(expert)).unwrap());
            let tensor = Tensor::stack(&of.collect::<Vec<_>>(), 0).unwrap();
            all.insert(format!("blk.{layer}.ffn_{part}_exps.weight"), tensor);
        }
    }
    all
}

/// Changes a tensor of a model with delta nets as its files have it: whole norms, rates in place of their
/// logarithms, and value heads in turns of key heads.
fn as_delta(name: &str, t: &Tensor, delta: DeltaShape) -> Tensor {
    let turn = |t: &Tensor, dim: usize, from: usize, width: usize| {
        let count = t.dim(dim).unwrap();
        let groups = delta.value_heads / delta.key_heads;
        let order = (0..count as u32).map(|i| {
            let Some(i) = (i as usize).checked_sub(from) else { return i };
            let (head, rest) = (i / width, i % width);
            let head = head % delta.key_heads * groups + head / delta.key_heads;
            (from + head * width + rest) as u32
        });
        t.index_select(&Tensor::new(order.collect::<Vec<u32>>(), &Device::Cpu).unwrap(), dim).unwrap()
    };
    let keys = 2 * delta.key_heads * delta.key_dim;
    let part = name.split('.').nth(2).unwrap_or_default();
    match part {
        "attn_qkv" | "ssm_conv1d" => turn(t, 0, keys, delta.value_dim),
        "attn_gate" => turn(t, 0, 0, delta.value_dim),
        "ssm_beta" | "ssm_alpha" | "ssm_dt" => turn(t, 0, 0, 1),
        "ssm_a" => turn(&t.exp().unwrap().neg().unwrap(), 0, 0, 1),
        "ssm_out" => turn(t, 1, 0, delta.value_dim),
        "ssm_norm" => t.clone(),
        _ if name.ends_with("norm.weight") => (t + 1.0).unwrap(),
        _ => t.clone(),
    }
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
        Architecture::Lfm2 => "lfm2",
        Architecture::Qwen35 => "qwen35",
        Architecture::Qwen3Moe => "qwen3moe",
        _ => "llama",
    };
    let after = matches!(c.architecture, Architecture::Gemma3 | Architecture::Olmo2 | Architecture::Qwen35);
    let mut tensors = Vec::new();
    for (name, t) in &stacked(weights, c) {
        let name = name
            .replace("model.embed_tokens", "token_embd")
            .replace("model.norm", "output_norm")
            .replace("model.embedding_norm", "token_embd_norm")
            .replace("lm_head", "output")
            .replace("model.layers.", "blk.")
            .replace(".conv.conv.", ".shortconv.conv.")
            .replace(".conv.in_proj", ".shortconv.in_proj")
            .replace(".conv.out_proj", ".shortconv.out_proj")
            .replace("feed_forward.w1", "ffn_gate")
            .replace("feed_forward.w2", "ffn_down")
            .replace("feed_forward.w3", "ffn_up")
            .replace("operator_norm", "attn_norm")
            .replace("self_attn.q_layernorm", "attn_q_norm")
            .replace("self_attn.k_layernorm", "attn_k_norm")
            .replace("self_attn.out_proj", "attn_output")
            .replace("linear_attn.in_proj_qkv", "attn_qkv")
            .replace("linear_attn.in_proj_z", "attn_gate")
            .replace("linear_attn.in_proj_b", "ssm_beta")
            .replace("linear_attn.in_proj_a", "ssm_alpha")
            .replace("linear_attn.conv1d", "ssm_conv1d")
            .replace("linear_attn.dt_bias", "ssm_dt.bias")
            .replace("linear_attn.A_log", "ssm_a")
            .replace("linear_attn.norm", "ssm_norm")
            .replace("linear_attn.out_proj", "ssm_out")
            .replace("mlp.gate.", "ffn_gate_inp.")
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
        let t = match c.delta {
            Some(delta) => as_delta(&name, &t, delta),
            None => t,
        };
        let t = if name.contains("conv.conv") || name.contains("conv1d") { t.squeeze(1).unwrap() } else { t };
        let dtype = if t.rank() == 1 || name.contains("conv") { GgmlDType::F32 } else { dtype(&name) };
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
        ("attention.head_count_kv", kv_heads(c)),
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
