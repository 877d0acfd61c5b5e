//! Adapters (LoRA): small trained changes of a model, from PEFT or from llama.cpp.
//!
//! An adapter has two matrices, A and B, for each weight matrix W that it changes. The adapted model
//! computes `W x + s B (A x)`. See [`Model::with_adapter`](super::Model::with_adapter).
//!
//! # Cost
//!
//! Opening reads headers. Applying reads each number once, and checks that it is one.
//!
//! # Alternatives considered
//!
//! Reading `adapter_model.bin` was rejected: such files are programs.

mod peft;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;

use self::peft::{MAX_RANK, PeftConfig, unsupported};
use super::file_data::FileData;
use super::gguf::open_gguf;
use super::open::read_json;
use super::precision::widened;
use super::safetensors::Safetensors;
use super::tensor_source::{RawTensor, TensorSource};
use super::tensor_type::TensorType;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::model::config::{Architecture, LayerTensor, ModelConfig, Naming, bad};
use crate::model::running::kernels::Expansion;
use crate::model::running::{Expanded, LayerAdapters, LowRank, Model};
use crate::vocab::TokenId;

/// Most words of a list of trained tokens: those of the largest vocabulary accepted.
const MAX_WORDS: u64 = 1 << 19;
/// Names of the files of PEFT.
const PEFT_CONFIG: &str = "adapter_config.json";
const PEFT_WEIGHTS: &str = "adapter_model.safetensors";
/// Key of the tokens that a training has seen, in adapters made by this project: a bit for each.
const TRAINED_ROWS: &str = "ffwd.adapter.trained_rows";

/// An open adapter; cloning shares the file. The file must not change while it is open.
#[derive(Clone)]
pub struct Adapter {
    inner: Arc<Opened>,
    scale: f32,
}

struct Opened {
    files: Vec<PathBuf>,
    source: TensorSource<'static>,
    origin: Origin,
    /// Its tensors, by layer and name of the matrix.
    modules: BTreeMap<(usize, String), Module>,
    base: Option<String>,
    /// Bits of the tokens that its training has seen; empty if it does not say.
    trained: Vec<u32>,
}

enum Origin {
    Peft(Box<PeftConfig>),
    Gguf { architecture: String, alpha: f32 },
}

/// The names of the tensors for one matrix.
#[derive(Default)]
struct Module {
    a: Option<String>,
    /// With a row for each output.
    b: Option<String>,
    /// With a row for each rank.
    b_transposed: Option<String>,
}

impl Adapter {
    /// Opens a folder as PEFT writes it, a GGUF file as llama.cpp writes it, or one of the 8-bit
    /// files that come with this project.
    ///
    /// # Errors
    /// Returns an error if a file is missing or not valid, or it is another kind of adapter than
    /// LoRA of the attention and the feed-forward.
    ///
    /// ```no_run
    /// use ffwd::model::{Adapter, LoadOptions, Model};
    ///
    /// let base = Model::from_gguf("base.gguf", &LoadOptions::default())?;
    /// let adapted = base.with_adapter(&Adapter::open("my-adapter")?.with_scale(0.5)?)?;
    /// # Ok::<(), ffwd::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Adapter> {
        let path = path.as_ref();
        let is_gguf = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
        let opened = if is_gguf { open_llama_cpp(path) } else { open_peft(path) };
        let inner = opened.map_err(|e| e.at(Place::File(path.to_owned())))?;
        Ok(Adapter { inner: Arc::new(inner), scale: 1.0 })
    }

    /// Multiplies the adapter's own scale.
    ///
    /// # Errors
    /// Returns an error if it is not a finite number.
    pub fn with_scale(self, scale: f32) -> Result<Adapter> {
        match scale.is_finite() {
            true => Ok(Adapter { scale, ..self }),
            false => Err(Error::new(ErrorKind::InvalidOption, format!("the adapter's scale is {scale}"))),
        }
    }

    /// Returns the factor of the adapter's own scale.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Returns the files that determine it.
    pub fn files(&self) -> &[PathBuf] {
        &self.inner.files
    }

    /// Returns the base that it names.
    pub fn base(&self) -> Option<&str> {
        self.inner.base.as_deref()
    }

    /// Returns true if it says which tokens its training has seen.
    pub fn says_trained(&self) -> bool {
        !self.inner.trained.is_empty()
    }

    /// Returns the share of the tokens that its training has never seen, if it says which it has.
    pub fn untrained_share(&self, tokens: &[TokenId]) -> Option<f64> {
        let words = &self.inner.trained;
        let is_trained = |t: TokenId| words.get(t as usize / 32).is_some_and(|w| w >> (t % 32) & 1 == 1);
        let others = tokens.iter().filter(|t| !is_trained(**t)).count();
        (self.says_trained() && !tokens.is_empty()).then(|| others as f64 / tokens.len() as f64)
    }

    /// Reads the matrices for each layer of a model.
    ///
    /// # Errors
    /// Returns an error if the adapter does not fit the model, or a number in it is none.
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerAdapters>> {
        let fault = |e: Error| match self.base() {
            Some(base) if e.hint_text().is_none() => e.hint(format!("the adapter names the base `{base}`")),
            _ => e,
        };
        let read = || -> Result<Vec<LayerAdapters>> {
            self.inner.check_architecture(config)?;
            if config.is_mixed() {
                let what = format!("an adapter for the family `{}`", config.architecture.family().gguf);
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            let mut seen = BTreeSet::new();
            let mut layers = Vec::with_capacity(config.layers);
            for layer in 0..config.layers {
                let mut adapters = LayerAdapters::default();
                for (adapter, (parts, inputs)) in adapters.iter_mut().zip(config.projections(layer)) {
                    seen.extend(parts.iter().map(|(part, _)| (layer, self.inner.part(*part).to_owned())));
                    *adapter = self.projection(layer, &parts, inputs, config)?.map(Arc::new);
                }
                layers.push(adapters);
            }
            match self.inner.modules.iter().find(|(key, _)| !seen.contains(*key)) {
                None => Ok(layers),
                Some((_, module)) => {
                    let name = module.a.as_deref().unwrap_or_default();
                    let (family, layers) = (config.architecture.family().gguf, config.layers);
                    Err(bad(format!(
                        "a model of the family `{family}` with {layers} layers has no place for `{name}`"
                    )))
                }
            }
        };
        read().map_err(|e| fault(e).at(Place::File(self.inner.files[0].clone())))
    }

    /// Reads the matrices `(part, outputs)` of a layer that share their input; `None` if the adapter
    /// changes none of them.
    fn projection(
        &self,
        layer: usize,
        parts: &[(LayerTensor, usize)],
        inputs: usize,
        config: &ModelConfig,
    ) -> Result<Option<LowRank>> {
        let (mut reductions, mut expansions, mut output) = (Vec::new(), Vec::new(), 0);
        for &(part, outputs) in parts {
            let name = self.inner.part(part);
            if let Some(module) = self.inner.modules.get(&(layer, name.to_owned())) {
                let a = self.inner.reduction(module, inputs)?;
                let full_name = format!("model.layers.{layer}.{name}");
                let scale = self.inner.scale(&full_name, a.outputs)? * self.scale;
                let order = |row: usize| self.inner.source.row_in_file(part, row, config);
                let expansion = self.inner.expansion(module, [outputs, a.outputs], scale, order)?;
                expansions.push(Expanded { expansion, output });
                reductions.push(a);
            } else if let Origin::Peft(peft) = &self.inner.origin
                && peft.changes(layer, &format!("model.layers.{layer}.{name}"))?
            {
                return Err(bad(format!("the tensors of `model.layers.{layer}.{name}` are missing")));
            }
            output += outputs;
        }
        let same_type = reductions.chunk_by(|a, b| a.dtype == b.dtype);
        let reductions = same_type.map(|same| {
            let rows: Vec<&[u8]> = same.iter().flat_map(RawTensor::rows).collect();
            same[0].dtype.matrix(&rows, inputs)
        });
        let reductions: Vec<_> = reductions.collect();
        Ok((!expansions.is_empty()).then_some(LowRank { reductions, expansions }))
    }
}

impl Model {
    /// Returns the same model with an adapter beside its weights, which both share. Its caches,
    /// costs and what is learned from its outputs are its own. It takes the place of an adapter that is
    /// there already.
    ///
    /// # Errors
    /// Returns an error if the adapter was made for another model: the tensor and the base that the
    /// adapter names. Also if one of its numbers is infinite or NaN.
    pub fn with_adapter(&self, adapter: &Adapter) -> Result<Model> {
        self.with_layer_adapters(adapter.layers(self.config())?)
    }
}

impl Opened {
    fn new(files: Vec<PathBuf>, source: TensorSource<'static>, origin: Origin) -> Result<Opened> {
        let mut modules: BTreeMap<(usize, String), Module> = BTreeMap::new();
        for tensor in source.tensors() {
            let (layer, part, role) = match origin {
                Origin::Peft(_) => peft_name(tensor)?,
                Origin::Gguf { .. } => llama_cpp_name(tensor)?,
            };
            let module = modules.entry((layer, part.to_owned())).or_default();
            let slot = match role {
                Role::A => &mut module.a,
                Role::B => &mut module.b,
                Role::BTransposed => &mut module.b_transposed,
            };
            if slot.replace(tensor.to_owned()).is_some() {
                return Err(bad(format!("two tensors are `{tensor}` by their names")));
            }
        }
        for ((layer, part), module) in &modules {
            if module.a.is_none() || module.b.is_some() == module.b_transposed.is_some() {
                return Err(bad(format!("`{part}` of layer {layer} lacks one of its two matrices")));
            }
        }
        if modules.is_empty() {
            return Err(bad("the adapter changes nothing"));
        }
        Ok(Opened { files, source, origin, modules, base: None, trained: Vec::new() })
    }

    fn check_architecture(&self, config: &ModelConfig) -> Result<()> {
        let Origin::Gguf { architecture, .. } = &self.origin else { return Ok(()) };
        let known = config.architecture.family().gguf;
        // Mistral models are of the architecture `llama` in these files.
        let as_llama = config.architecture == Architecture::Mistral && architecture == "llama";
        match architecture == known || as_llama {
            true => Ok(()),
            false => {
                Err(bad(format!("an adapter for the family `{architecture}`; the model is a `{known}`")))
            }
        }
    }

    /// Returns the name of a matrix in these files.
    fn part(&self, part: LayerTensor) -> &'static str {
        match self.origin {
            Origin::Peft(_) => Naming::Modules.part(part),
            Origin::Gguf { .. } => Naming::Gguf.part(part),
        }
    }

    /// Returns the factor of the products of a module with this rank.
    fn scale(&self, module: &str, rank: usize) -> Result<f32> {
        Ok(match &self.origin {
            Origin::Gguf { alpha, .. } if *alpha == 0.0 => 1.0,
            Origin::Gguf { alpha, .. } => alpha / rank as f32,
            Origin::Peft(peft) => match peft.rank(module)? {
                wanted if wanted == rank => peft.scale(module)? as f32,
                wanted => {
                    return Err(bad(format!(
                        "`{module}` has the rank {rank}, its configuration says {wanted}"
                    )));
                }
            },
        })
    }

    /// Reads A: a row for each rank.
    fn reduction(&self, module: &Module, inputs: usize) -> Result<RawTensor<'_>> {
        let (name, shape) = self.shape(module.a.as_deref())?;
        let &[rank @ 1..=MAX_RANK, width] = shape else {
            return Err(bad(format!("tensor `{name}` has shape {shape:?}; ranks are 1 to {MAX_RANK}")));
        };
        if width != inputs {
            return Err(bad(format!(
                "tensor `{name}` has shape {shape:?}, the model asks for {:?}",
                [rank, inputs]
            )));
        }
        let raw = self.source.read(name, shape)?;
        check_numbers(name, &widened(&raw))?;
        Ok(raw)
    }

    /// Reads B times a factor. A row of the file has the output that `order` names for it.
    fn expansion(
        &self,
        module: &Module,
        [outputs, rank]: [usize; 2],
        scale: f32,
        order: impl Fn(usize) -> usize,
    ) -> Result<Expansion> {
        let by_rank = module.b_transposed.is_some();
        let (name, shape) = self.shape(module.b.as_deref().or(module.b_transposed.as_deref()))?;
        let wanted = if by_rank { [rank, outputs] } else { [outputs, rank] };
        if shape != wanted {
            return Err(bad(format!("tensor `{name}` has shape {shape:?}, the model asks for {wanted:?}")));
        }
        let raw = self.source.read(name, shape)?;
        if by_rank && raw.dtype == TensorType::Q8_0 {
            let (mut bytes, mut scales) = (Vec::with_capacity(rank * outputs), Vec::new());
            for block in raw.bytes.chunks_exact(TensorType::Q8_0.block_bytes()) {
                scales.push(f16::from_le_bytes([block[0], block[1]]).to_f32() * scale);
                bytes.extend_from_slice(&block[2..]);
            }
            check_numbers(name, &scales)?;
            return Ok(Expansion::of_bytes(&bytes, &scales, outputs));
        }
        let numbers = widened(&raw);
        let at = |k: usize, n: usize| if by_rank { k * outputs + n } else { order(n) * rank + k };
        let by_rank = (0..rank).flat_map(|k| (0..outputs).map(move |n| (k, n)));
        let numbers: Vec<f32> = by_rank.map(|(k, n)| numbers[at(k, n)] * scale).collect();
        // A large scale may make them infinite.
        check_numbers(name, &numbers)?;
        Ok(Expansion::of_floats(&numbers, outputs))
    }

    /// Returns the name and the shape of a tensor that exists.
    fn shape<'s>(&'s self, name: Option<&'s str>) -> Result<(&'s str, &'s [usize])> {
        let found = name.and_then(|name| Some((name, self.source.shape(name)?)));
        found.ok_or_else(|| bad("a tensor of the adapter is missing"))
    }
}

fn check_numbers(name: &str, numbers: &[f32]) -> Result<()> {
    match numbers.iter().all(|n| n.is_finite()) {
        true => Ok(()),
        false => Err(bad(format!("tensor `{name}` holds infinite numbers or NaN"))),
    }
}

/// What a tensor is.
enum Role {
    A,
    B,
    BTransposed,
}

/// Returns layer, matrix and role of a tensor of PEFT, such as
/// `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`. The name of the adapter may
/// stand before `weight`.
fn peft_name(tensor: &str) -> Result<(usize, &str, Role)> {
    for (mark, feature) in [
        ("lora_magnitude_vector", "DoRA"),
        ("lora_embedding_", "adapters of embeddings"),
        ("modules_to_save", "`modules_to_save`"),
    ] {
        if tensor.contains(mark) {
            return Err(unsupported(&format!("{feature} (`{tensor}`)")));
        }
    }
    if tensor.ends_with(".bias") {
        return Err(unsupported(&format!("biases (`{tensor}`)")));
    }
    let split = |mark: &str| tensor.split_once(mark).filter(|(_, end)| end.matches('.').count() <= 1);
    let (module, role) = match (split(".lora_A."), split(".lora_B.")) {
        (Some((module, _)), None) => (module, Role::A),
        (None, Some((module, _))) => (module, Role::B),
        _ => return Err(bad(format!("the tensor `{tensor}` is none of an adapter"))),
    };
    let place = module.split_once("layers.").and_then(|(_, rest)| rest.split_once('.'));
    match place.and_then(|(layer, part)| Some((layer.parse().ok()?, part))) {
        Some((layer, part)) => Ok((layer, part, role)),
        None => Err(unsupported(&format!("a matrix outside the layers (`{tensor}`)"))),
    }
}

/// Returns layer, matrix and role of a tensor of llama.cpp, such as `blk.0.attn_q.weight.lora_a`.
fn llama_cpp_name(tensor: &str) -> Result<(usize, &str, Role)> {
    let roles = [(".lora_a", Role::A), (".lora_b", Role::B), (".lora_b_t", Role::BTransposed)];
    let found = roles.into_iter().find_map(|(end, role)| Some((tensor.strip_suffix(end)?, role)));
    let (module, role) = found.ok_or_else(|| bad(format!("the tensor `{tensor}` is none of an adapter")))?;
    let place = module.strip_prefix("blk.").and_then(|rest| rest.strip_suffix(".weight")?.split_once('.'));
    match place.and_then(|(layer, part)| Some((layer.parse().ok()?, part))) {
        Some((layer, part)) => Ok((layer, part, role)),
        None => Err(unsupported(&format!("a matrix outside the layers (`{tensor}`)"))),
    }
}

/// Opens the folder of an adapter of PEFT, by its path or that of a file in it.
fn open_peft(path: &Path) -> Result<Opened> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let (config, weights) = (folder.join(PEFT_CONFIG), folder.join(PEFT_WEIGHTS));
    if !path.exists() {
        return Err(Error::new(ErrorKind::Io, "no such file or folder"));
    }
    if !config.is_file() {
        let message = format!("no adapter: the folder has no {PEFT_CONFIG}");
        return Err(bad(message).hint("name a folder as PEFT writes it, or a GGUF file"));
    }
    let peft = PeftConfig::read(&read_json(&config)?)?;
    if !weights.is_file() && folder.join("adapter_model.bin").is_file() {
        let message = "the adapter is in adapter_model.bin, which may be a program";
        return Err(Error::new(ErrorKind::Unsupported, message).hint("save it as safetensors with PEFT"));
    }
    let source = TensorSource::Safetensors(Safetensors::open(vec![FileData::map(&weights)?])?);
    let base = peft.base.clone().filter(|base| !base.is_empty());
    Ok(Opened { base, ..Opened::new(vec![weights, config], source, Origin::Peft(Box::new(peft)))? })
}

/// Opens a GGUF file.
fn open_llama_cpp(path: &Path) -> Result<Opened> {
    let file = open_gguf(path)?;
    let (kind, method) = (file.text("general.type"), file.text("adapter.type"));
    if kind != Some("adapter") {
        return Err(bad(format!("no adapter: its type is {}", kind.unwrap_or("not given")))
            .hint("a whole model is named with --model"));
    }
    if method != Some("lora") {
        return Err(unsupported(&format!("`adapter.type` {}", method.unwrap_or("not given"))));
    }
    if file.has("adapter.alora.invocation_tokens") {
        return Err(unsupported("`adapter.alora.invocation_tokens`"));
    }
    let alpha = file.float("adapter.lora.alpha")?.unwrap_or_default();
    check_numbers("adapter.lora.alpha", &[alpha])?;
    let architecture = file.text("general.architecture").unwrap_or_default().to_owned();
    let name = |key: &str| file.text(&format!("general.base_model.0.{key}")).map(str::to_owned);
    let base = match (name("organization"), name("name")) {
        (Some(owner), Some(name)) => Some(format!("{owner}/{name}")),
        (_, name) => name,
    };
    let words = file.number_list(TRAINED_ROWS, MAX_WORDS)?.unwrap_or_default();
    let trained = words.into_iter().map(|word| word as u32).collect();
    let origin = Origin::Gguf { architecture, alpha };
    Ok(Opened { base, trained, ..Opened::new(vec![path.to_owned()], TensorSource::Gguf(file), origin)? })
}
