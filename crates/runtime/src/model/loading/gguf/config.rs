//! The configuration of a model from the metadata and the tensor names of a GGUF file.
//!
//! The switches follow the tensors in the file (a bias, the norms of queries and keys, rotary
//! divisors), not the name of the architecture alone. A tensor that is ignored would give wrong
//! logits without an error.
//!
//! # Cost
//!
//! One pass over the tensor names.

use ffwd_engine::vocab::gguf::TEMPLATE;

use crate::error::{Error, ErrorKind, Result};
use crate::model::chat_sources::ChatSources;
use crate::model::config::{
    Architecture, DEFAULT_LOCAL_THETA, DeltaShape, Experts, FAMILIES, FULL_INTERVAL, Family, KNOWN,
    LayerRotary, MAX_EXPERTS, MAX_LAYERS, Mixer, ModelConfig, RopeScaling, Windows, all_but, bad,
    default_rotary, refused,
};
use crate::model::loading::gguf::file::Gguf;
use crate::model::loading::tensor_type::TensorType;

/// Name of the tensor with the divisors of the rotary frequencies.
const DIVISORS: &str = "rope_freqs.weight";

/// Names of the tensors with the divisors of `longrope`.
const SHORT_DIVISORS: &str = "rope_factors_short.weight";
const LONG_DIVISORS: &str = "rope_factors_long.weight";
/// Number of layers of the one Gemma 3 model whose scores have a scale of their own.
const GEMMA3_27B_LAYERS: usize = 62;

/// The divisors of the rotary frequencies in a file.
struct Divisors {
    all: Option<Vec<f32>>,
    short: Option<Vec<f32>>,
    long: Option<Vec<f32>>,
}

/// Metadata of one family, whose name is the prefix of their keys.
struct Keys<'a> {
    file: &'a Gguf<'a>,
    family: &'static Family,
}

impl Keys<'_> {
    fn key(&self, rest: &str) -> String {
        format!("{}.{rest}", self.family.gguf)
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

/// Returns the family by its name in the file. Mistral models are written as `llama`.
fn family(name: Option<&str>) -> Result<&'static Family> {
    let name = name.ok_or_else(|| bad("the GGUF file names no architecture"))?;
    FAMILIES
        .iter()
        .find(|f| f.gguf == name)
        .ok_or_else(|| unsupported(format!("the GGUF architecture `{}`", name.escape_debug())).hint(KNOWN))
}

impl Gguf<'_> {
    /// Reads the shape and constants of the model.
    ///
    /// # Errors
    /// Returns an error if the architecture is another one, a feature is used that the runner
    /// lacks, or a number is missing or out of range.
    pub(crate) fn config(&self) -> Result<ModelConfig> {
        let family = family(self.text("general.architecture"))?;
        let divisors = Divisors {
            all: self.divisors(DIVISORS)?,
            short: self.divisors(SHORT_DIVISORS)?,
            long: self.divisors(LONG_DIVISORS)?,
        };
        let keys = Keys { file: self, family };
        keys.check_features()?;
        let vocab_size = self
            .info("token_embd.weight")
            .filter(|t| t.shape.len() == 2)
            .map(|t| t.shape[0])
            .ok_or_else(|| bad("the GGUF file has no embedding table `token_embd.weight`"))?;
        let heads = keys.number("attention.head_count")?;
        let hidden = keys.number("embedding_length")?;
        let context = keys.number("context_length")?;
        let head_dim = match keys.optional("attention.key_length")? {
            Some(n) => n,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        // Layers that predict further tokens are counted among the others.
        let further = keys.optional("nextn_predict_layers")?.unwrap_or(0);
        let layers = keys.number("block_count")?.saturating_sub(further);
        // A false number of layers must not become memory before `check` sees it.
        let windows = keys.windows(layers.min(MAX_LAYERS))?;
        let has = |end: &str| self.names().any(|n| n.ends_with(end));
        let config = ModelConfig {
            architecture: family.architecture,
            vocab_size,
            context,
            hidden,
            feed_forward: keys.number(match family.experts {
                true => "expert_feed_forward_length",
                false => "feed_forward_length",
            })?,
            layers,
            heads,
            kv_heads: keys.kv_heads()?.unwrap_or(heads),
            head_dim,
            rotary_dim: keys.rotary_dim(head_dim)?,
            norm_eps: keys.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
            rope_theta: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: keys.scaling(divisors, context)?,
            rope_local_theta: keys.float("rope.freq_base_swa")?.unwrap_or(DEFAULT_LOCAL_THETA),
            rotary: keys.rotary(&windows)?,
            qkv_bias: ["attn_q.bias", "attn_k.bias", "attn_v.bias"].into_iter().any(has),
            attention_output_bias: has("attn_output.bias"),
            qk_norm: family.qk_norm || has("attn_q_norm.weight") || has("attn_k_norm.weight"),
            activation: family.activation,
            embedding_scale: match family.root_embedding_scale {
                true => (hidden as f32).sqrt(),
                false => keys.multiplier("embedding_scale")?.unwrap_or(1.0),
            },
            attention_scale: keys.attention_scale(layers, hidden, heads, head_dim)?,
            residual_scale: keys.multiplier("residual_scale")?.unwrap_or(1.0),
            logit_scale: 1.0 / keys.multiplier("logit_scale")?.unwrap_or(1.0),
            windows,
            mixers: keys.mixers(layers.min(MAX_LAYERS))?,
            taps: match family.recurrent {
                None => 0,
                Some(Mixer::ShortConvolution) => keys.number("shortconv.l_cache")?,
                Some(_) => keys.number("ssm.conv_kernel")?,
            },
            delta: keys.delta()?,
            experts: keys.experts()?,
            tied_embeddings: self.info("output.weight").is_none(),
            eos: self.ends()?,
        };
        config.check()?;
        Ok(config)
    }

    /// Returns the chat templates: the default one, and further ones with names.
    pub(crate) fn chat_sources(&self) -> Result<ChatSources> {
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

    fn divisors(&self, name: &str) -> Result<Option<Vec<f32>>> {
        match self.info(name) {
            None => Ok(None),
            Some(t) if t.dtype == TensorType::F32 && t.shape.len() == 1 => {
                let bytes = self.read(name)?;
                let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                Ok(Some(bytes.chunks_exact(4).map(number).collect()))
            }
            Some(_) => Err(bad(format!("`{name}` is not a row of F32 numbers"))),
        }
    }
}

impl Keys<'_> {
    /// Returns the numbers of a list.
    fn list(&self, rest: &str) -> Result<Option<Vec<f64>>> {
        match self.file.is_array(&self.key(rest)) {
            true => self.file.number_list(&self.key(rest), MAX_LAYERS as u64),
            false => Ok(None),
        }
    }

    /// Returns the number of key heads. Files with a number for each layer have 0 for recurrent ones.
    fn kv_heads(&self) -> Result<Option<usize>> {
        let Some(list) = self.list("attention.head_count_kv")? else {
            return self.optional("attention.head_count_kv");
        };
        let most = list.iter().fold(0.0, |most: f64, n| most.max(*n));
        match list.iter().all(|n| *n == 0.0 && self.family.recurrent.is_some() || *n == most) {
            true => Ok(Some(most as usize)),
            false => Err(unsupported("layers with different numbers of key heads")),
        }
    }

    /// Returns what mixes the positions of each layer.
    fn mixers(&self, layers: usize) -> Result<Vec<Mixer>> {
        let Some(recurrent) = self.family.recurrent else { return Ok(vec![Mixer::Attention; layers]) };
        let (name, attends) = match recurrent {
            Mixer::ShortConvolution => ("attention.head_count_kv", false),
            _ => ("attention.recurrent_layers", true),
        };
        match self.list(name)? {
            Some(list) => {
                let mixer = |n: &f64| if (*n == 0.0) == attends { Mixer::Attention } else { recurrent };
                Ok(list.iter().take(layers).map(mixer).collect())
            }
            None if recurrent == Mixer::ShortConvolution => Ok(vec![Mixer::Attention; layers]),
            None => {
                let each = self.optional("full_attention_interval")?.unwrap_or(FULL_INTERVAL);
                Ok(all_but(each, recurrent, layers))
            }
        }
    }

    fn delta(&self) -> Result<Option<DeltaShape>> {
        if self.family.recurrent != Some(Mixer::DeltaNet) {
            return Ok(None);
        }
        let value_heads = self.number("ssm.time_step_rank")?;
        Ok(Some(DeltaShape {
            key_heads: self.number("ssm.group_count")?,
            value_heads,
            key_dim: self.number("ssm.state_size")?,
            value_dim: self.number("ssm.inner_size")?.checked_div(value_heads).unwrap_or(0),
        }))
    }

    fn experts(&self) -> Result<Option<Experts>> {
        if !self.family.experts {
            return Ok(None);
        }
        let (count, used) = (self.number("expert_count")?, self.number("expert_used_count")?);
        if !(1..=MAX_EXPERTS).contains(&count) {
            return Err(bad(format!("{count} experts; the limit is {MAX_EXPERTS}")));
        }
        // The files do not have this switch, and it is on in the models of the family.
        Ok(Some(Experts { count, used, normed: true }))
    }

    /// Returns the rotary scaling. Files with a factor but no type mean linear scaling.
    fn scaling(&self, divisors: Divisors, context: usize) -> Result<RopeScaling> {
        let factor = match self.float("rope.scaling.factor")? {
            Some(f) => f,
            None => self.float("rope.scale_linear")?.unwrap_or(1.0),
        };
        let kind = self.text("rope.scaling.type");
        match (divisors.short, divisors.long) {
            (None, None) => {}
            (Some(short), Some(long))
                if divisors.all.is_none() && matches!(kind, None | Some("none" | "longrope")) =>
            {
                return Ok(RopeScaling::LongRope {
                    short,
                    long,
                    original_context: self
                        .optional("rope.scaling.original_context_length")?
                        .unwrap_or(context),
                    attention_factor: self.float("rope.scaling.attn_factor")?.unwrap_or(1.0),
                });
            }
            _ => return Err(bad("the rotary divisors of the GGUF file contradict each other")),
        }
        let factor = match kind {
            Some("none") => 1.0,
            Some("linear") | None if factor == 0.0 => 1.0,
            Some("linear") | None => factor,
            Some(other) => return Err(refused(other)),
        };
        Ok(match divisors.all {
            Some(d) => RopeScaling::Divisors(d.iter().map(|d| d * factor).collect()),
            None if factor == 1.0 => RopeScaling::None,
            None => RopeScaling::Linear { factor },
        })
    }

    /// Returns the number of elements of a head with rotary positions.
    fn rotary_dim(&self, head_dim: usize) -> Result<usize> {
        let rotary = self.optional("rope.dimension_count")?.unwrap_or(head_dim);
        let value = self.optional("attention.value_length")?.unwrap_or(head_dim);
        for (what, n) in [("rotary", rotary), ("value", value)] {
            if n != head_dim && !(what == "rotary" && self.family.partial_rotary.is_some()) {
                return Err(unsupported(format!("heads of width {head_dim} with a {what} width of {n}")));
            }
        }
        Ok(rotary)
    }

    /// Returns the window of each layer.
    fn windows(&self, layers: usize) -> Result<Vec<Option<usize>>> {
        let window = self.optional("attention.sliding_window")?.filter(|n| *n > 0);
        let full = match self.family.windows {
            Windows::AllBut(n) => Some(self.optional("attention.sliding_window_pattern")?.unwrap_or(n)),
            Windows::Never | Windows::Listed if window.is_some() => {
                let message = format!("sliding windows in the GGUF architecture `{}`", self.family.gguf);
                return Err(unsupported(message));
            }
            _ => None,
        };
        let slides = |i: usize| full.is_none_or(|n| !(i + 1).is_multiple_of(n));
        Ok((0..layers).map(|i| window.filter(|_| slides(i))).collect())
    }

    /// Returns the rotary positions of each layer.
    fn rotary(&self, windows: &[Option<usize>]) -> Result<Vec<LayerRotary>> {
        // Granite takes this key as a switch.
        let granite = self.family.architecture == Architecture::Granite;
        if granite && self.file.flag(&self.key("rope.scaling.finetuned"))? == Some(false) {
            return Ok(vec![LayerRotary::None; windows.len()]);
        }
        Ok(default_rotary(self.family, windows))
    }

    /// Returns a multiplier of families that have them. Zero is a missing entry.
    fn multiplier(&self, name: &str) -> Result<Option<f32>> {
        if !self.family.multipliers {
            return Ok(None);
        }
        Ok(self.float(name)?.filter(|f| *f != 0.0))
    }

    fn attention_scale(&self, layers: usize, hidden: usize, heads: usize, head_dim: usize) -> Result<f32> {
        if let Some(scale) = self.multiplier("attention.scale")? {
            return Ok(scale);
        }
        // The files do not have this number.
        let gemma = self.family.default_query_scalar.is_some();
        let width = if gemma && layers == GEMMA3_27B_LAYERS { hidden.checked_div(heads) } else { None };
        Ok(1.0 / (width.unwrap_or(head_dim) as f32).sqrt())
    }

    fn check_features(&self) -> Result<()> {
        if !self.family.experts && self.optional("expert_count")?.is_some_and(|n| n > 0) {
            return Err(unsupported("a mixture of experts"));
        }
        for rest in ["attn_logit_softcapping", "final_logit_softcapping"] {
            if self.float(rest)?.is_some_and(|f| f != 0.0) {
                return Err(unsupported(format!("a model with `{rest}`")));
            }
        }
        let known = ["attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias", "ssm_dt.bias"];
        match self.file.names().find(|n| n.ends_with(".bias") && !known.iter().any(|k| n.ends_with(k))) {
            Some(name) => Err(unsupported(format!("the bias tensor `{}`", name.escape_debug()))),
            None => Ok(()),
        }
    }
}
