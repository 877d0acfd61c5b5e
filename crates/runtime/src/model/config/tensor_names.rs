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
    /// Queries with the gates of the output: the rows of each head's query, then those of its gate.
    /// This is the queries' part, the next the gates'.
    GatedQ,
    QGate,
    /// The matrices and norms of LFM2 under its own names.
    W1,
    W2,
    W3,
    OutProj,
    QLayerNorm,
    KLayerNorm,
    OperatorNorm,
    FfnNorm,
    /// A short convolution: both gates and the input, the filter, the output.
    ConvIn,
    ConvFilter,
    ConvOut,
    /// A gated delta net: queries, keys and values; the gate of the output; the strengths of writing and
    /// of forgetting; the filter; the biases and the rates of forgetting; the norm; the output.
    DeltaQkv,
    DeltaGate,
    DeltaWrite,
    DeltaForget,
    DeltaFilter,
    DeltaBias,
    DeltaRate,
    DeltaNorm,
    DeltaOut,
    /// The scores of experts.
    Router,
}

impl LayerTensor {
    /// Returns true if the name is whole, without `weight` at its end.
    fn is_whole_name(self) -> bool {
        matches!(self, LayerTensor::DeltaBias | LayerTensor::DeltaRate)
    }
}

/// Identifies a tensor of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorId {
    Embedding,
    Output,
    FinalNorm,
    /// The final norm of LFM2 under its own name.
    EmbeddingNorm,
    Layer(usize, LayerTensor),
    /// Added to the output of the matrix of the same name.
    Bias(usize, LayerTensor),
    /// A matrix of an expert of a layer. GGUF files hold those of all experts in one tensor.
    Expert(usize, usize, LayerTensor),
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
            TensorId::EmbeddingNorm => {
                return self.choose(("token_embd_norm.weight", "model.embedding_norm.weight")).into();
            }
            TensorId::Layer(layer, part) => (layer, part, "weight"),
            TensorId::Bias(layer, part) => (layer, part, "bias"),
            TensorId::Expert(layer, expert, part) => return self.expert(layer, expert, part),
        };
        if part.is_whole_name() {
            return format!("{}.{layer}.{}", self.choose(("blk", "model.layers")), self.part(part));
        }
        format!("{}.{layer}.{}.{end}", self.choose(("blk", "model.layers")), self.part(part))
    }

    fn expert(self, layer: usize, expert: usize, part: LayerTensor) -> String {
        let name = self.part(part);
        match self {
            Naming::Gguf => format!("blk.{layer}.{name}_exps.weight"),
            Naming::Modules => {
                let name = name.trim_start_matches("mlp.");
                format!("model.layers.{layer}.mlp.experts.{expert}.{name}.weight")
            }
        }
    }

    /// Returns the name of a tensor within its layer.
    pub(crate) fn part(self, part: LayerTensor) -> &'static str {
        self.choose(match part {
            LayerTensor::Q | LayerTensor::GatedQ | LayerTensor::QGate => ("attn_q", "self_attn.q_proj"),
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
            LayerTensor::W1 => ("ffn_gate", "feed_forward.w1"),
            LayerTensor::W2 => ("ffn_down", "feed_forward.w2"),
            LayerTensor::W3 => ("ffn_up", "feed_forward.w3"),
            LayerTensor::OutProj => ("attn_output", "self_attn.out_proj"),
            LayerTensor::QLayerNorm => ("attn_q_norm", "self_attn.q_layernorm"),
            LayerTensor::KLayerNorm => ("attn_k_norm", "self_attn.k_layernorm"),
            LayerTensor::OperatorNorm => ("attn_norm", "operator_norm"),
            LayerTensor::FfnNorm => ("ffn_norm", "ffn_norm"),
            LayerTensor::ConvIn => ("shortconv.in_proj", "conv.in_proj"),
            LayerTensor::ConvFilter => ("shortconv.conv", "conv.conv"),
            LayerTensor::ConvOut => ("shortconv.out_proj", "conv.out_proj"),
            LayerTensor::DeltaQkv => ("attn_qkv", "linear_attn.in_proj_qkv"),
            LayerTensor::DeltaGate => ("attn_gate", "linear_attn.in_proj_z"),
            LayerTensor::DeltaWrite => ("ssm_beta", "linear_attn.in_proj_b"),
            LayerTensor::DeltaForget => ("ssm_alpha", "linear_attn.in_proj_a"),
            LayerTensor::DeltaFilter => ("ssm_conv1d", "linear_attn.conv1d"),
            LayerTensor::DeltaBias => ("ssm_dt.bias", "linear_attn.dt_bias"),
            LayerTensor::DeltaRate => ("ssm_a", "linear_attn.A_log"),
            LayerTensor::DeltaNorm => ("ssm_norm", "linear_attn.norm"),
            LayerTensor::DeltaOut => ("ssm_out", "linear_attn.out_proj"),
            LayerTensor::Router => ("ffn_gate_inp", "mlp.gate"),
        })
    }
}
