//! The configuration of a model from the metadata and the tensor names of a GGUF file.
//!
//! The switches follow the tensors in the file (a bias, the norms of queries and keys, rotary
//! divisors), not the name of the architecture alone. A tensor that is ignored would give wrong
//! logits without an error.
//!
//! # Cost
//!
//! One pass over the tensor names.

use crate::error::{Error, ErrorKind, Result};
use crate::model::ChatSources;
use crate::model::config::{Architecture, ModelConfig, bad};
use crate::model::gguf::file::{Gguf, TEMPLATE};
use crate::model::rope::{RopeScaling, refused};
use crate::model::tensor_type::TensorType;

/// Name of the tensor with the divisors of the rotary frequencies.
const DIVISORS: &str = "rope_freqs.weight";

/// Metadata of one architecture, whose name is the prefix of their keys.
struct Keys<'a> {
    file: &'a Gguf<'a>,
    name: &'static str,
}

impl Keys<'_> {
    fn key(&self, rest: &str) -> String {
        format!("{}.{rest}", self.name)
    }

    fn number(&self, rest: &str) -> Result<usize> {
        self.file.number(&self.key(rest))
    }

    fn optional(&self, rest: &str) -> Result<Option<usize>> {
        self.file.optional(&self.key(rest))
    }

    fn float(&self, rest: &str) -> Result<Option<f32>> {
        self.file.float(&self.key(rest))
    }

    fn text(&self, rest: &str) -> Option<&str> {
        self.file.text(&self.key(rest))
    }
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the family and the prefix of its keys. Mistral models are written as `llama`.
fn architecture(name: Option<&str>) -> Result<(Architecture, &'static str)> {
    match name {
        Some("llama") => Ok((Architecture::Llama, "llama")),
        Some("mistral") => Ok((Architecture::Mistral, "mistral")),
        Some("qwen2") => Ok((Architecture::Qwen2, "qwen2")),
        Some("qwen3") => Ok((Architecture::Qwen3, "qwen3")),
        Some(other) => Err(unsupported(format!("the GGUF architecture `{}`", other.escape_debug()))
            .hint("this runner knows `llama` (Mistral and SmolLM among them), `qwen2` and `qwen3`")),
        None => Err(bad("the GGUF file names no architecture")),
    }
}

impl Gguf<'_> {
    /// Reads the shape and constants of the model.
    ///
    /// # Errors
    /// Returns an error if the architecture is another one, a feature is used that the runner
    /// lacks, or a number is missing or out of range.
    pub fn config(&self) -> Result<ModelConfig> {
        let (architecture, name) = architecture(self.text("general.architecture"))?;
        let divisors = self.divisors()?;
        let keys = Keys { file: self, name };
        keys.check_features()?;
        let vocab_size = self
            .info("token_embd.weight")
            .filter(|t| t.shape.len() == 2)
            .map(|t| t.shape[0])
            .ok_or_else(|| bad("the GGUF file has no embedding table `token_embd.weight`"))?;
        let heads = keys.number("attention.head_count")?;
        let hidden = keys.number("embedding_length")?;
        let head_dim = match keys.optional("attention.key_length")? {
            Some(n) => n,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        for (what, rest) in [("rotary", "rope.dimension_count"), ("value", "attention.value_length")] {
            if let Some(n) = keys.optional(rest)?.filter(|n| *n != head_dim) {
                return Err(unsupported(format!("heads of width {head_dim} with a {what} width of {n}")));
            }
        }
        let layers = keys.number("block_count")?;
        let has = |end: &str| self.names().any(|n| n.ends_with(end));
        let config = ModelConfig {
            architecture,
            vocab_size,
            context: keys.number("context_length")?,
            hidden,
            feed_forward: keys.number("feed_forward_length")?,
            layers,
            heads,
            kv_heads: keys.optional("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            norm_eps: keys.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
            rope_theta: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: keys.scaling(divisors)?,
            qkv_bias: ["attn_q.bias", "attn_k.bias", "attn_v.bias"].into_iter().any(has),
            attention_output_bias: has("attn_output.bias"),
            qk_norm: architecture == Architecture::Qwen3
                || has("attn_q_norm.weight")
                || has("attn_k_norm.weight"),
            // A false number of layers must not become memory before `check` sees it.
            windows: vec![keys.optional("attention.sliding_window")?.filter(|n| *n > 0); layers.min(1 << 12)],
            tied_embeddings: self.info("output.weight").is_none(),
            eos: self.ends()?,
        };
        config.check()?;
        Ok(config)
    }

    /// Returns the chat templates: the default one, and further ones with names.
    pub fn chat_sources(&self) -> Result<ChatSources> {
        let named = self.texts(TEMPLATE).filter_map(|(rest, text)| {
            let name = if rest.is_empty() { "default" } else { rest.strip_prefix('.')? };
            Some((name.to_owned(), text.to_owned()))
        });
        let mut templates: Vec<_> = named.collect();
        templates.sort();
        let mut tokens = Vec::new();
        for (name, key) in [
            ("bos_token", "tokenizer.ggml.bos_token_id"),
            ("eos_token", "tokenizer.ggml.eos_token_id"),
            ("unk_token", "tokenizer.ggml.unknown_token_id"),
            ("pad_token", "tokenizer.ggml.padding_token_id"),
        ] {
            let id = self.optional(key)?.and_then(|n| u32::try_from(n).ok());
            tokens.extend(id.map(|id| (name, id)));
        }
        Ok(ChatSources { templates, tokens })
    }

    /// Returns the end tokens of sequence and of turn.
    pub(crate) fn ends(&self) -> Result<Vec<u32>> {
        let mut ends = Vec::new();
        for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
            if let Some(id) = self.optional(key)?.and_then(|n| u32::try_from(n).ok())
                && !ends.contains(&id)
            {
                ends.push(id);
            }
        }
        Ok(ends)
    }

    fn divisors(&self) -> Result<Option<Vec<f32>>> {
        match self.info(DIVISORS) {
            None => Ok(None),
            Some(t) if t.dtype == TensorType::F32 && t.shape.len() == 1 => {
                let bytes = self.read(DIVISORS)?;
                let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                Ok(Some(bytes.chunks_exact(4).map(number).collect()))
            }
            Some(_) => Err(bad(format!("`{DIVISORS}` is not a row of F32 numbers"))),
        }
    }
}

impl Keys<'_> {
    /// Returns the rotary scaling. Files with a factor but no type mean linear scaling.
    fn scaling(&self, divisors: Option<Vec<f32>>) -> Result<RopeScaling> {
        let factor = match self.float("rope.scaling.factor")? {
            Some(f) => f,
            None => self.float("rope.scale_linear")?.unwrap_or(1.0),
        };
        let factor = match self.text("rope.scaling.type") {
            Some("none") => 1.0,
            Some("linear") | None if factor == 0.0 => 1.0,
            Some("linear") | None => factor,
            Some(other) => return Err(refused(other)),
        };
        Ok(match divisors {
            Some(d) => RopeScaling::Divisors(d.iter().map(|d| d * factor).collect()),
            None if factor == 1.0 => RopeScaling::None,
            None => RopeScaling::Linear { factor },
        })
    }

    fn check_features(&self) -> Result<()> {
        if self.optional("expert_count")?.is_some_and(|n| n > 0) {
            return Err(unsupported("a mixture of experts"));
        }
        let known = ["attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"];
        match self.file.names().find(|n| n.ends_with(".bias") && !known.iter().any(|k| n.ends_with(k))) {
            Some(name) => Err(unsupported(format!("the bias tensor `{}`", name.escape_debug()))),
            None => Ok(()),
        }
    }
}
