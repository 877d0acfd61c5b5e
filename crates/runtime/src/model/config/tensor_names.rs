//! The names of tensors in GGUF and safetensors files.
//!
//! A tensor has one name in each format, whatever the family. Where families give one name to
//! tensors of different use, these are different kinds of tensors here.
//!
//! # Cost
//!
//! One short string for each tensor that is read.
//!
//! # Alternatives considered
//!
//! A table of names for each family was rejected: nearly all names are the same.

/// Kinds of a layer's tensors, the same for both file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerTensor {
    Q,
    K,
    V,
    /// Queries, keys and values in one matrix.
    Qkv,
    O,
    Gate,
    Up,
    /// Gate and up in one matrix.
    GateUp,
    Down,
    AttentionNorm,
    AttentionPostNorm,
    /// The norm before the feed-forward in layers that have none after the attention.
    FeedForwardNorm,
    /// The same norm in layers that have one after the attention.
    FeedForwardPreNorm,
    FeedForwardPostNorm,
    QNorm,
    KNorm,
}

/// Identifies a tensor of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorId {
    Embedding,
    Output,
    FinalNorm,
    Layer(usize, LayerTensor),
    /// Added to the output of the matrix of the same name.
    Bias(usize, LayerTensor),
}

/// Returns the name of a tensor in GGUF files.
pub(crate) fn gguf_name(slot: TensorId) -> String {
    let (layer, part, end) = match slot {
        TensorId::Embedding => return "token_embd.weight".into(),
        TensorId::Output => return "output.weight".into(),
        TensorId::FinalNorm => return "output_norm.weight".into(),
        TensorId::Layer(layer, part) => (layer, part, "weight"),
        TensorId::Bias(layer, part) => (layer, part, "bias"),
    };
    format!("blk.{layer}.{}.{end}", gguf_part(part))
}

/// Returns the name of a layer's tensor in GGUF files.
pub(crate) fn gguf_part(part: LayerTensor) -> &'static str {
    match part {
        LayerTensor::Q => "attn_q",
        LayerTensor::K => "attn_k",
        LayerTensor::V => "attn_v",
        LayerTensor::Qkv => "attn_qkv",
        LayerTensor::O => "attn_output",
        LayerTensor::Gate => "ffn_gate",
        LayerTensor::Up | LayerTensor::GateUp => "ffn_up",
        LayerTensor::Down => "ffn_down",
        LayerTensor::AttentionNorm => "attn_norm",
        LayerTensor::AttentionPostNorm => "post_attention_norm",
        LayerTensor::FeedForwardNorm | LayerTensor::FeedForwardPreNorm => "ffn_norm",
        LayerTensor::FeedForwardPostNorm => "post_ffw_norm",
        LayerTensor::QNorm => "attn_q_norm",
        LayerTensor::KNorm => "attn_k_norm",
    }
}

/// Returns the name of a tensor in safetensors files, as Hugging Face models have it.
pub(crate) fn safetensors_name(slot: TensorId) -> String {
    let (layer, part, end) = match slot {
        TensorId::Embedding => return "model.embed_tokens.weight".into(),
        TensorId::Output => return "lm_head.weight".into(),
        TensorId::FinalNorm => return "model.norm.weight".into(),
        TensorId::Layer(layer, part) => (layer, part, "weight"),
        TensorId::Bias(layer, part) => (layer, part, "bias"),
    };
    format!("model.layers.{layer}.{}.{end}", safetensors_part(part))
}

/// Returns the name of a layer's tensor in safetensors files.
pub(crate) fn safetensors_part(part: LayerTensor) -> &'static str {
    match part {
        LayerTensor::Q => "self_attn.q_proj",
        LayerTensor::K => "self_attn.k_proj",
        LayerTensor::V => "self_attn.v_proj",
        LayerTensor::Qkv => "self_attn.qkv_proj",
        LayerTensor::O => "self_attn.o_proj",
        LayerTensor::Gate => "mlp.gate_proj",
        LayerTensor::Up => "mlp.up_proj",
        LayerTensor::GateUp => "mlp.gate_up_proj",
        LayerTensor::Down => "mlp.down_proj",
        LayerTensor::AttentionNorm => "input_layernorm",
        LayerTensor::AttentionPostNorm | LayerTensor::FeedForwardNorm => "post_attention_layernorm",
        LayerTensor::FeedForwardPreNorm => "pre_feedforward_layernorm",
        LayerTensor::FeedForwardPostNorm => "post_feedforward_layernorm",
        LayerTensor::QNorm => "self_attn.q_norm",
        LayerTensor::KNorm => "self_attn.k_norm",
    }
}
