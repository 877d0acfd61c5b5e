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

/// The two ways to name tensors: GGUF files, and the modules of the libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    Gguf,
    Modules,
}

impl Naming {
    fn choose(self, (gguf, module): (&'static str, &'static str)) -> &'static str {
        match self {
            Naming::Gguf => gguf,
            Naming::Modules => module,
        }
    }

    /// Returns the name of a tensor.
    pub(crate) fn tensor(self, slot: TensorId) -> String {
        let (layer, part, end) = match slot {
            TensorId::Embedding => {
                return self.choose(("token_embd.weight", "model.embed_tokens.weight")).into();
            }
            TensorId::Output => return self.choose(("output.weight", "lm_head.weight")).into(),
            TensorId::FinalNorm => return self.choose(("output_norm.weight", "model.norm.weight")).into(),
            TensorId::Layer(layer, part) => (layer, part, "weight"),
            TensorId::Bias(layer, part) => (layer, part, "bias"),
        };
        format!("{}.{layer}.{}.{end}", self.choose(("blk", "model.layers")), self.part(part))
    }

    /// Returns the name of a tensor within its layer.
    pub(crate) fn part(self, part: LayerTensor) -> &'static str {
        self.choose(match part {
            LayerTensor::Q => ("attn_q", "self_attn.q_proj"),
            LayerTensor::K => ("attn_k", "self_attn.k_proj"),
            LayerTensor::V => ("attn_v", "self_attn.v_proj"),
            LayerTensor::Qkv => ("attn_qkv", "self_attn.qkv_proj"),
            LayerTensor::O => ("attn_output", "self_attn.o_proj"),
            LayerTensor::Gate => ("ffn_gate", "mlp.gate_proj"),
            LayerTensor::Up => ("ffn_up", "mlp.up_proj"),
            LayerTensor::GateUp => ("ffn_up", "mlp.gate_up_proj"),
            LayerTensor::Down => ("ffn_down", "mlp.down_proj"),
            LayerTensor::AttentionNorm => ("attn_norm", "input_layernorm"),
            LayerTensor::AttentionPostNorm => ("post_attention_norm", "post_attention_layernorm"),
            LayerTensor::FeedForwardNorm => ("ffn_norm", "post_attention_layernorm"),
            LayerTensor::FeedForwardPreNorm => ("ffn_norm", "pre_feedforward_layernorm"),
            LayerTensor::FeedForwardPostNorm => ("post_ffw_norm", "post_feedforward_layernorm"),
            LayerTensor::QNorm => ("attn_q_norm", "self_attn.q_norm"),
            LayerTensor::KNorm => ("attn_k_norm", "self_attn.k_norm"),
        })
    }
}
