//! The families of models: each is one description that loading and the forward read.
//!
//! A description names the tensors and the fixed properties of a family. Sizes, and properties that
//! differ between the models of a family, are in [`ModelConfig`](super::ModelConfig).
//!
//! # Cost
//!
//! None: the descriptions are constants.
//!
//! # Alternatives considered
//!
//! A forward for each family was rejected. Families differ in a dozen properties, and the code that
//! is hard to get right (segments, windows, the cache) would exist once for each.

use super::mixers::Mixer;
use super::tensor_names::{LayerTensor, TensorId};

/// The supported families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// Llama 1 to 3, SmolLM, and other names for the same architecture.
    Llama,
    /// Mistral: sliding windows.
    Mistral,
    /// Qwen2 and Qwen2.5: queries, keys and values have biases.
    Qwen2,
    /// Qwen3: queries and keys are normed.
    Qwen3,
    /// Gemma 3, its text part: four norms in a layer, and two kinds of layers.
    Gemma3,
    /// Phi-3, Phi-3.5 and Phi-4, their dense text models: fused matrices, partial rotary positions.
    Phi3,
    /// Granite 3: four multipliers.
    Granite,
    /// OLMo 2: norms after the attention and the feed-forward instead of before.
    Olmo2,
    /// SmolLM3: some layers have no rotary positions.
    SmolLm3,
    /// Qwen3 with a mixture of experts in each layer.
    Qwen3Moe,
    /// LFM2: short convolutions in most layers.
    Lfm2,
    /// Qwen3.5, its text part: gated delta nets in most layers, gated attention in the others.
    Qwen35,
}

/// The function of the gate in a feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// The approximation of GELU by a hyperbolic tangent.
    GeluTanh,
}

/// The norms around the attention or the feed-forward of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norms {
    /// Of its input.
    pub before: Option<LayerTensor>,
    /// Of its output, before it is added to the residual stream.
    pub after: Option<LayerTensor>,
}

/// The layers with a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    /// None, even if the file has a window.
    Never,
    /// The same, but GGUF files of other families bear this name: there, all if the file has one.
    AlwaysInGguf,
    /// All, if the file has a window.
    Always,
    /// Those from a number on, if a switch is on.
    FromLayer,
    /// Only those that the file lists.
    Listed,
    /// All but each n-th.
    AllBut(usize),
}

/// The layers with rotary positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RotaryLayers {
    All,
    /// All, and those with a sliding window have a base of their own.
    TwoBases,
    /// All but each n-th, unless the file lists them.
    AllBut(usize),
}

/// The fixed properties of a family.
#[derive(Debug)]
pub(crate) struct Family {
    pub architecture: Architecture,
    /// Names in a `config.json`: class and type.
    pub class: &'static str,
    pub model_type: &'static str,
    /// The same names of models with a vision part, whose text part is of this family.
    pub with_vision: Option<(&'static str, &'static str)>,
    /// Name in GGUF files, and the prefix of its keys.
    pub gguf: &'static str,
    /// The matrices of queries, keys and values in the order of their outputs, or one of all.
    pub qkv: &'static [LayerTensor],
    /// The matrices of gate and up in this order, or one of both.
    pub gate_up: &'static [LayerTensor],
    /// The output matrices of the attention and of the feed-forward.
    pub o: LayerTensor,
    pub down: LayerTensor,
    /// What mixes the positions in layers that have no attention.
    pub recurrent: Option<Mixer>,
    /// True if the output of the attention has a gate, whose rows follow those of each query head.
    pub output_gate: bool,
    /// True if the feed-forward is a mixture of experts.
    pub experts: bool,
    pub final_norm: TensorId,
    pub qk_norms: [LayerTensor; 2],
    pub attention_norms: Norms,
    pub feed_forward_norms: Norms,
    /// True if queries and keys are always normed.
    pub qk_norm: bool,
    /// True if they are normed over all heads together, not each head alone.
    pub qk_norm_of_all_heads: bool,
    pub activation: Activation,
    /// Name of the activation's entry in a `config.json`.
    pub activation_key: &'static str,
    /// Name of the epsilon of norms in a `config.json`.
    pub norm_eps_key: &'static str,
    /// True if safetensors files hold the weights of norms less 1. GGUF files never do.
    pub norms_less_one: bool,
    /// True if GGUF files hold the rows of queries and keys in pairs.
    pub pairs_in_gguf: bool,
    /// True if queries, keys and values always have biases.
    pub qkv_bias: bool,
    /// True if `attention_bias` in a `config.json` adds biases to all four matrices of the attention.
    /// Other families have no such models.
    pub attention_bias: bool,
    pub windows: Windows,
    pub rotary_layers: RotaryLayers,
    /// The part of each head with rotary positions where the file does not say, in families where it
    /// may be a part.
    pub partial_rotary: Option<f64>,
    /// True if the embeddings are multiplied by the root of the hidden size.
    pub root_embedding_scale: bool,
    /// True if the file has multipliers for embeddings, scores, residuals and logits.
    pub multipliers: bool,
    /// The number whose inverse root multiplies scores, in families whose files have it. In others
    /// it is the width of a head.
    pub default_query_scalar: Option<f32>,
    /// Values where a `config.json` has no entry; a missing default is an error, except that a head
    /// is then the hidden size divided by the number of heads.
    pub default_head_dim: Option<usize>,
    pub kv_heads_default_to_heads: bool,
    pub default_tied: bool,
    pub default_rope_theta: f32,
    pub default_norm_eps: f32,
}

const SPLIT_QKV: &[LayerTensor] = &[LayerTensor::Q, LayerTensor::K, LayerTensor::V];
const SPLIT_GATE_UP: &[LayerTensor] = &[LayerTensor::Gate, LayerTensor::Up];

const LLAMA: Family = Family {
    architecture: Architecture::Llama,
    class: "LlamaForCausalLM",
    model_type: "llama",
    with_vision: None,
    gguf: "llama",
    qkv: SPLIT_QKV,
    gate_up: SPLIT_GATE_UP,
    o: LayerTensor::O,
    down: LayerTensor::Down,
    recurrent: None,
    output_gate: false,
    experts: false,
    final_norm: TensorId::FinalNorm,
    qk_norms: [LayerTensor::QNorm, LayerTensor::KNorm],
    attention_norms: Norms { before: Some(LayerTensor::AttentionNorm), after: None },
    feed_forward_norms: Norms { before: Some(LayerTensor::FeedForwardNorm), after: None },
    qk_norm: false,
    qk_norm_of_all_heads: false,
    activation: Activation::Silu,
    activation_key: "hidden_act",
    norm_eps_key: "rms_norm_eps",
    norms_less_one: false,
    pairs_in_gguf: true,
    qkv_bias: false,
    attention_bias: true,
    windows: Windows::AlwaysInGguf,
    rotary_layers: RotaryLayers::All,
    partial_rotary: None,
    root_embedding_scale: false,
    multipliers: false,
    default_query_scalar: None,
    default_head_dim: None,
    kv_heads_default_to_heads: true,
    default_tied: false,
    default_rope_theta: 10_000.0,
    default_norm_eps: 1e-6,
};

const MISTRAL: Family = Family {
    architecture: Architecture::Mistral,
    class: "MistralForCausalLM",
    model_type: "mistral",
    gguf: "mistral",
    attention_bias: false,
    windows: Windows::Always,
    kv_heads_default_to_heads: false,
    ..LLAMA
};

const QWEN2: Family = Family {
    architecture: Architecture::Qwen2,
    class: "Qwen2ForCausalLM",
    model_type: "qwen2",
    gguf: "qwen2",
    pairs_in_gguf: false,
    qkv_bias: true,
    attention_bias: false,
    windows: Windows::FromLayer,
    kv_heads_default_to_heads: false,
    ..LLAMA
};

const QWEN3: Family = Family {
    architecture: Architecture::Qwen3,
    class: "Qwen3ForCausalLM",
    model_type: "qwen3",
    gguf: "qwen3",
    qk_norm: true,
    pairs_in_gguf: false,
    windows: Windows::FromLayer,
    default_head_dim: Some(128),
    kv_heads_default_to_heads: false,
    ..LLAMA
};

const GEMMA3: Family = Family {
    architecture: Architecture::Gemma3,
    class: "Gemma3ForCausalLM",
    model_type: "gemma3_text",
    gguf: "gemma3",
    attention_norms: Norms {
        before: Some(LayerTensor::AttentionNorm),
        after: Some(LayerTensor::AttentionPostNorm),
    },
    feed_forward_norms: Norms {
        before: Some(LayerTensor::FeedForwardPreNorm),
        after: Some(LayerTensor::FeedForwardPostNorm),
    },
    qk_norm: true,
    activation: Activation::GeluTanh,
    activation_key: "hidden_activation",
    norms_less_one: true,
    pairs_in_gguf: false,
    windows: Windows::AllBut(6),
    rotary_layers: RotaryLayers::TwoBases,
    root_embedding_scale: true,
    default_query_scalar: Some(256.0),
    default_head_dim: Some(256),
    kv_heads_default_to_heads: false,
    default_tied: true,
    default_rope_theta: 1_000_000.0,
    ..LLAMA
};

const PHI3: Family = Family {
    architecture: Architecture::Phi3,
    class: "Phi3ForCausalLM",
    model_type: "phi3",
    gguf: "phi3",
    qkv: &[LayerTensor::Qkv],
    gate_up: &[LayerTensor::GateUp],
    pairs_in_gguf: false,
    attention_bias: false,
    windows: Windows::Always,
    partial_rotary: Some(1.0),
    default_norm_eps: 1e-5,
    ..LLAMA
};

const GRANITE: Family = Family {
    architecture: Architecture::Granite,
    class: "GraniteForCausalLM",
    model_type: "granite",
    gguf: "granite",
    windows: Windows::Never,
    multipliers: true,
    ..LLAMA
};

const OLMO2: Family = Family {
    architecture: Architecture::Olmo2,
    class: "Olmo2ForCausalLM",
    model_type: "olmo2",
    gguf: "olmo2",
    windows: Windows::Never,
    attention_norms: Norms { before: None, after: Some(LayerTensor::AttentionPostNorm) },
    feed_forward_norms: Norms { before: None, after: Some(LayerTensor::FeedForwardPostNorm) },
    qk_norm: true,
    qk_norm_of_all_heads: true,
    pairs_in_gguf: false,
    default_norm_eps: 1e-5,
    ..LLAMA
};

const SMOLLM3: Family = Family {
    architecture: Architecture::SmolLm3,
    class: "SmolLM3ForCausalLM",
    model_type: "smollm3",
    gguf: "smollm3",
    windows: Windows::Listed,
    rotary_layers: RotaryLayers::AllBut(4),
    kv_heads_default_to_heads: false,
    default_tied: true,
    default_rope_theta: 2_000_000.0,
    ..LLAMA
};

const QWEN3_MOE: Family = Family {
    architecture: Architecture::Qwen3Moe,
    class: "Qwen3MoeForCausalLM",
    model_type: "qwen3_moe",
    gguf: "qwen3moe",
    experts: true,
    ..QWEN3
};

const LFM2: Family = Family {
    architecture: Architecture::Lfm2,
    class: "Lfm2ForCausalLM",
    model_type: "lfm2",
    gguf: "lfm2",
    gate_up: &[LayerTensor::W1, LayerTensor::W3],
    o: LayerTensor::OutProj,
    down: LayerTensor::W2,
    recurrent: Some(Mixer::ShortConvolution),
    final_norm: TensorId::EmbeddingNorm,
    qk_norms: [LayerTensor::QLayerNorm, LayerTensor::KLayerNorm],
    attention_norms: Norms { before: Some(LayerTensor::OperatorNorm), after: None },
    feed_forward_norms: Norms { before: Some(LayerTensor::FfnNorm), after: None },
    qk_norm: true,
    norm_eps_key: "norm_eps",
    pairs_in_gguf: false,
    attention_bias: false,
    windows: Windows::Never,
    kv_heads_default_to_heads: false,
    default_tied: true,
    default_rope_theta: 1_000_000.0,
    default_norm_eps: 1e-5,
    ..LLAMA
};

const QWEN3_5: Family = Family {
    architecture: Architecture::Qwen35,
    class: "Qwen3_5ForCausalLM",
    model_type: "qwen3_5_text",
    with_vision: Some(("Qwen3_5ForConditionalGeneration", "qwen3_5")),
    gguf: "qwen35",
    qkv: &[LayerTensor::GatedQ, LayerTensor::K, LayerTensor::V, LayerTensor::QGate],
    recurrent: Some(Mixer::DeltaNet),
    output_gate: true,
    feed_forward_norms: Norms { before: Some(LayerTensor::AttentionPostNorm), after: None },
    qk_norm: true,
    norms_less_one: true,
    pairs_in_gguf: false,
    attention_bias: false,
    windows: Windows::Never,
    partial_rotary: Some(0.25),
    default_head_dim: Some(256),
    kv_heads_default_to_heads: false,
    ..LLAMA
};

/// All families.
pub(crate) static FAMILIES: [Family; 12] =
    [LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA3, PHI3, GRANITE, OLMO2, SMOLLM3, QWEN3_MOE, LFM2, QWEN3_5];

/// The hint of errors about other families.
pub(crate) const KNOWN: &str = "this runner knows Llama, Mistral, Qwen2, Qwen3, Qwen3 MoE, Qwen3.5 (text), Gemma 3 (text), Phi-3, Granite, \
     OLMo 2, SmolLM3 and LFM2";

impl Architecture {
    /// Returns the description of the family.
    pub(crate) fn family(self) -> &'static Family {
        let found = FAMILIES.iter().find(|f| f.architecture == self);
        // A test checks that each has one.
        found.unwrap_or(&FAMILIES[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_own_description() {
        use Architecture::{Gemma3, Granite, Lfm2, Llama, Mistral, Olmo2, Phi3, Qwen2, Qwen3, SmolLm3};
        use Architecture::{Qwen3Moe, Qwen35};
        let dense = [Llama, Mistral, Qwen2, Qwen3, Gemma3, Phi3, Granite, Olmo2, SmolLm3];
        let all = [&dense[..], &[Qwen3Moe, Lfm2, Qwen35]].concat();
        assert_eq!(all.len(), FAMILIES.len());
        for architecture in all {
            let family = architecture.family();
            assert_eq!(family.architecture, architecture);
            let same = |f: &&Family| f.class == family.class || f.gguf == family.gguf;
            assert_eq!(FAMILIES.iter().filter(same).count(), 1, "{architecture:?}");
        }
    }
}
