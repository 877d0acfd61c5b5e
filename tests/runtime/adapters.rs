//! Adapters (LoRA) of every origin, against the same model with the weights merged.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self as candle_gguf, Value as MetaValue};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use ffwd::model::{Adapter, Architecture, Device as ModelDevice, LoadOptions, Model, ModelConfig, Precision};
use ffwd::{Engine, ErrorKind, Mode, Prompt, Request};
use ffwd_testkit::gguf_file::{FORMATS, file, llama};
use ffwd_testkit::random::Random;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::gguf::interleave;
use crate::common::models::{
    all, check_rows_alone, config, difference, f32_options, families, load, noise, tokens, weights, write_dir,
};
use crate::exactness;

/// As for whole models in single precision: sums of a few hundred terms in different orders, on
/// logits of size 1 to 20. A wrong row, scale or order is off by the size of the logits.
const TOLERANCE: f32 = 2e-4;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/adapters");

type Weights = HashMap<String, Tensor>;

fn on(device: Option<ModelDevice>) -> LoadOptions {
    LoadOptions { device, ..f32_options() }
}

/// The matrices of an adapter by module, `model.layers.0.self_attn.q_proj`: A and B.
struct Lora {
    modules: Vec<(String, Tensor, Tensor)>,
    rank: usize,
    alpha: f64,
}

impl Lora {
    /// Random matrices for all modules `(name, outputs, inputs)` that `keep` keeps.
    fn random(
        modules: &[(String, usize, usize)],
        rank: usize,
        seed: u64,
        keep: impl Fn(&str) -> bool,
    ) -> Lora {
        let mut next = noise(seed);
        let mut tensor = |rows: usize, width: usize| {
            let scale = 1.0 / (width as f32).sqrt();
            let numbers: Vec<f32> = (0..rows * width).map(|_| next() * scale).collect();
            Tensor::from_vec(numbers, (rows, width), &Device::Cpu).unwrap()
        };
        let kept = modules.iter().filter(|(name, ..)| keep(name));
        let modules =
            kept.map(|(name, outputs, inputs)| (name.clone(), tensor(rank, *inputs), tensor(*outputs, rank)));
        Lora { modules: modules.collect(), rank, alpha: 1.5 * rank as f64 }
    }

    fn of_weights(weights: &Weights, rank: usize, seed: u64) -> Lora {
        let mut modules: Vec<_> = weights
            .iter()
            .filter_map(|(name, w)| Some((name.strip_suffix("_proj.weight")?, w.dims2().ok()?)))
            .map(|(name, (outputs, inputs))| (format!("{name}_proj"), outputs, inputs))
            .collect();
        modules.sort();
        Lora::random(&modules, rank, seed, |_| true)
    }

    /// Adapters of some projections of the embedded model.
    fn of_config(c: &ModelConfig, rank: usize, seed: u64) -> Lora {
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let parts = [
            ("self_attn.q_proj", q, c.hidden),
            ("self_attn.v_proj", kv, c.hidden),
            ("mlp.up_proj", c.feed_forward, c.hidden),
            ("mlp.down_proj", c.hidden, c.feed_forward),
        ];
        let layer = |i| parts.map(|(name, n, k)| (format!("model.layers.{i}.{name}"), n, k));
        Lora::random(&(0..c.layers).flat_map(layer).collect::<Vec<_>>(), rank, seed, |_| true)
    }

    fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// The weights with the adapter added to them.
    fn merged(&self, weights: &Weights) -> Weights {
        let mut merged = weights.clone();
        for (name, a, b) in &self.modules {
            let w = merged.get_mut(&format!("{name}.weight")).unwrap();
            *w = (&*w + (b.matmul(a).unwrap() * self.scale()).unwrap()).unwrap();
        }
        merged
    }

    fn config(&self) -> Value {
        let targets: Vec<&str> = self.modules.iter().map(|(name, ..)| name.as_str()).collect();
        json!({"peft_type": "LORA", "base_model_name_or_path": "tiny/base", "r": self.rank,
            "lora_alpha": self.alpha, "target_modules": targets, "bias": "none", "use_dora": false})
    }

    /// Writes it as PEFT does.
    fn write_peft(&self, dir: &Path, dtype: DType, config: &Value) {
        let tensors: Weights = self
            .modules
            .iter()
            .flat_map(|(name, a, b)| [("A", name, a), ("B", name, b)])
            .map(|(side, name, t)| {
                (format!("base_model.model.{name}.lora_{side}.weight"), t.to_dtype(dtype).unwrap())
            })
            .collect();
        std::fs::write(dir.join("adapter_config.json"), config.to_string()).unwrap();
        candle_core::safetensors::save(&tensors, dir.join("adapter_model.safetensors")).unwrap();
    }

    fn peft(&self) -> (TempDir, Adapter) {
        let dir = tempfile::tempdir().unwrap();
        self.write_peft(dir.path(), DType::F32, &self.config());
        let adapter = Adapter::open(dir.path()).unwrap();
        (dir, adapter)
    }

    /// Writes it as llama.cpp does, or with B in the 8-bit form of this project.
    fn write_gguf(&self, path: &Path, c: &ModelConfig, a_type: GgmlDType, transposed: bool) {
        let pairs = c.architecture == Architecture::Llama;
        let mut tensors = Vec::new();
        for (name, a, b) in &self.modules {
            let (layer, part) = name.strip_prefix("model.layers.").unwrap().split_once('.').unwrap();
            let part = match part {
                "self_attn.q_proj" => "attn_q",
                "self_attn.k_proj" => "attn_k",
                "self_attn.v_proj" => "attn_v",
                "self_attn.o_proj" => "attn_output",
                "mlp.gate_proj" => "ffn_gate",
                "mlp.up_proj" => "ffn_up",
                _ => "ffn_down",
            };
            let name = format!("blk.{layer}.{part}.weight.lora");
            tensors.push((format!("{name}_a"), QTensor::quantize(a, a_type).unwrap()));
            tensors.push(match transposed {
                true => {
                    let b = b.t().unwrap().contiguous().unwrap();
                    (format!("{name}_b_t"), QTensor::quantize(&b, GgmlDType::Q8_0).unwrap())
                }
                false => {
                    let b = if pairs && matches!(part, "attn_q" | "attn_k") {
                        interleave(b, c.head_dim)
                    } else {
                        b.clone()
                    };
                    (format!("{name}_b"), QTensor::quantize(&b, GgmlDType::F16).unwrap())
                }
            });
        }
        let text = |t: &str| MetaValue::String(t.to_owned());
        let metadata = [
            ("general.type", text("adapter")),
            ("adapter.type", text("lora")),
            ("general.architecture", text(if pairs { "llama" } else { "qwen2" })),
            ("general.base_model.0.name", text("tiny")),
            ("adapter.lora.alpha", MetaValue::F32(self.alpha as f32)),
            ("ffwd.adapter.trained_rows", MetaValue::Array(vec![MetaValue::U32(0b1011), MetaValue::U32(1)])),
        ];
        let metadata: Vec<_> = metadata.iter().map(|(k, v)| (*k, v)).collect();
        let tensors: Vec<_> = tensors.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let mut file = std::fs::File::create(path).unwrap();
        candle_gguf::write(&mut file, &metadata, &tensors).unwrap();
    }
}

/// The logits that `peft` computes, for all projections with patterns of ranks and alphas, and for
/// some with rank-stabilised scales.
#[test]
fn adapters_have_the_logits_of_peft() {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join("logits.json")).unwrap();
    let known: Value = serde_json::from_str(&text).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(known["tokens"].clone()).unwrap();
    for (name, wanted) in known["logits"].as_object().unwrap() {
        let wanted: Vec<Vec<f32>> = serde_json::from_value(wanted.clone()).unwrap();
        let (base, adapter) = name.split_once('-').map_or((&name[..], None), |(base, _)| (base, Some(name)));
        for device in [None, Some(ModelDevice::Cpu)] {
            let model = Model::from_dir(Path::new(FIXTURES).join(base), &on(device)).unwrap();
            let model = adapter.map_or(model.clone(), |name| {
                let adapter = Adapter::open(Path::new(FIXTURES).join(name)).unwrap();
                assert_eq!(adapter.base(), Some(&*format!("tiny/{base}")));
                model.with_adapter(&adapter).unwrap()
            });
            let off = difference(&all(&model, &tokens), &wanted);
            assert!(off <= TOLERANCE, "{name}: {off}");
        }
    }
}

/// Each family, by the kernels and by tensors, in one pass and row by row.
#[test]
fn every_family_equals_its_merged_weights() {
    for (i, row) in families("tensors").into_iter().enumerate() {
        let (vocab, config, seed) = (row.vocab(), row.config, i as u64 + 1);
        let weights = weights(&config, DType::F32, seed);
        let lora = Lora::of_weights(&weights, 3 + i % 7, seed + 50);
        let base = tempfile::tempdir().unwrap();
        write_dir(base.path(), &config, &weights, 1);
        let tokens = tokens(21, vocab, seed);
        let wanted = all(&load(&config, &lora.merged(&weights)), &tokens);
        let (_dir, adapter) = lora.peft();
        for device in [None, Some(ModelDevice::Cpu)] {
            let plain = Model::from_dir(base.path(), &on(device)).unwrap();
            let before = all(&plain, &tokens);
            let change = difference(&before, &wanted);
            assert!(change > 50.0 * TOLERANCE, "{config}: the adapter changes the logits by {change}");
            let adapted = plain.with_adapter(&adapter).unwrap();
            let got = all(&adapted, &tokens);
            let off = difference(&got, &wanted);
            assert!(off <= TOLERANCE, "{config}: {off}");
            assert!(all(&plain, &tokens) == before, "the model itself stays as it is");
            let none = plain.with_adapter(&adapter.clone().with_scale(0.0).unwrap()).unwrap();
            assert!(difference(&all(&none, &tokens), &before) <= TOLERANCE);
            if device.is_none() {
                check_rows_alone(&adapted, &tokens, &got, &config.to_string());
            }
        }
    }
}

/// Files of llama.cpp in several types, and the 8-bit files of this project. The same numbers in
/// PEFT's format are the reference. Sums in 8 bits are off by up to a 254th of the largest number of a
/// block, for each of two roundings, in each layer: a few hundredths of the change.
#[test]
fn gguf_files_equal_the_same_adapter_of_peft() {
    for family in ["llama", "qwen2"] {
        let config = config(family, [60, 64, 96, 2, 4, 2, 16], json!({}));
        let weights = weights(&config, DType::F32, 4);
        let dir = tempfile::tempdir().unwrap();
        let model = load(&config, &weights);
        let lora = Lora::of_weights(&weights, 12, 9);
        let tokens = tokens(15, 60, 3);
        let (_dir, peft) = lora.peft();
        let (before, wanted) = (all(&model, &tokens), all(&model.with_adapter(&peft).unwrap(), &tokens));
        let change = difference(&before, &wanted);
        let kinds =
            [(GgmlDType::F32, false, 0.003), (GgmlDType::F16, false, 0.003), (GgmlDType::Q8_0, true, 0.05)];
        for (a_type, transposed, share) in kinds {
            let path = dir.path().join("adapter.gguf");
            lora.write_gguf(&path, model.config(), a_type, transposed);
            let adapter = Adapter::open(&path).unwrap();
            let off = difference(&all(&model.with_adapter(&adapter).unwrap(), &tokens), &wanted);
            assert!(change > 0.5 && off <= share * change, "{family} {a_type:?}: off by {off} of {change}");
            assert_eq!(adapter.base(), Some("tiny"));
            assert_eq!(adapter.untrained_share(&[0, 1, 2, 3, 32, 33, 5000]), Some(3.0 / 7.0));
            assert_eq!(peft.untrained_share(&[2]), None);
        }
        let other = if family == "llama" { "qwen2" } else { "llama" };
        let other = Model::from_dir(Path::new(FIXTURES).join(other), &f32_options()).unwrap();
        let error = other.with_adapter(&Adapter::open(dir.path().join("adapter.gguf")).unwrap()).unwrap_err();
        assert!(error.to_string().contains(family) && error.to_string().contains("`tiny`"), "{error}");
    }
}

/// Every weight format with the same adapter; the reference widens the weights. Logits are off by
/// hundredths of their size, since activations have 8 bits; a wrong scale or order of the adapter is off
/// by as much as it changes.
#[test]
fn every_weight_format_takes_an_adapter() {
    for (kind, name, ..) in FORMATS {
        let (metadata, tensors) = llama(kind, [64, 256, 512, 2, 4], &mut Random::new(u64::from(kind)));
        let bytes = file(&metadata, &tensors);
        let at = |precision| Model::from_gguf_bytes(&bytes, &LoadOptions::with_precision(precision)).unwrap();
        let (wide, stored) = (at(Precision::F32), at(Precision::AsStored));
        let (_dir, adapter) = Lora::of_config(stored.config(), 8, 5).peft();
        let adapted = stored.with_adapter(&adapter).unwrap();
        assert!(adapted.weight_bytes() > stored.weight_bytes());
        let tokens = tokens(20, 64, 1);
        let (want, got) = (all(&wide.with_adapter(&adapter).unwrap(), &tokens), all(&adapted, &tokens));
        let (off, change) = (difference(&got, &want), difference(&got, &all(&stored, &tokens)));
        assert!(4.0 * off < change, "{name}: off by {off}, changed by {change}");
        check_rows_alone(&adapted, &tokens, &got, name);
    }
}

/// The embedded models with an adapter of the target, from files, as users name them.
fn adapted_engine(spec: &str) -> (TempDir, Engine, Engine) {
    let dir = tempfile::tempdir().unwrap();
    let base = Engine::embedded().unwrap();
    let lora = Lora::of_config(base.target().config(), 8, 3);
    lora.write_peft(dir.path(), DType::F32, &lora.config());
    let adapter = format!("{}{spec}", dir.path().display());
    let adapted = Engine::builder().adapter(adapter).build().unwrap();
    (dir, base, adapted)
}

#[test]
fn exact_equals_off_with_an_adapter() {
    // Weak enough to leave records, strong enough to reject drafts.
    let (_dir, base, engine) = adapted_engine(":0.3");
    assert_eq!(engine.adapter().unwrap().scale(), 0.3);
    let (mut random, mut other, mut rejected) = (Random::new(5), 0, 0);
    let (requests, samplings) = (exactness::requests(), exactness::samplings());
    for round in 0..300 {
        let (request, sampling) =
            (&requests[round % requests.len()], &samplings[random.below(samplings.len())]);
        let request = || request().sampling(sampling.clone()).max_tokens(40);
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        let exact = engine.generate(&exactness::mixed(request(), &mut random)).unwrap();
        exactness::check(&exact, &off, &format!("round {round}"));
        rejected += exact.stats.drafted - exact.stats.accepted;
        other += usize::from(base.generate(&request().mode(Mode::Off)).unwrap().tokens != off.tokens);
    }
    assert!(rejected > 300 && other > 100, "{rejected} rejected, {other} other texts");
}

#[test]
fn a_base_and_its_adapted_copy_share_no_prefix() {
    let (_dir, base, adapted) = adapted_engine("");
    let request =
        || Request::new(Prompt::text("The same long beginning of two prompts, word for word.")).max_tokens(4);
    base.generate(&request()).unwrap();
    let first = adapted.generate(&request()).unwrap();
    assert_eq!(first.stats.prompt_cached, 0);
    assert!(adapted.generate(&request()).unwrap().stats.prompt_cached > 0, "its own is kept");
}

/// Writes the adapter of the fixture after a change of its configuration.
fn changed(more: Value) -> (TempDir, PathBuf) {
    let (dir, from) = (tempfile::tempdir().unwrap(), Path::new(FIXTURES).join("llama-all"));
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(from.join("adapter_config.json")).unwrap()).unwrap();
    more.as_object().unwrap().iter().for_each(|(name, value)| config[name] = value.clone());
    std::fs::write(dir.path().join("adapter_config.json"), config.to_string()).unwrap();
    let name = "adapter_model.safetensors";
    std::fs::copy(from.join(name), dir.path().join(name)).unwrap();
    let path = dir.path().to_owned();
    (dir, path)
}

fn tiny() -> Model {
    Model::from_dir(Path::new(FIXTURES).join("llama"), &f32_options()).unwrap()
}

/// Opens and applies an adapter.
fn apply(path: &Path) -> ffwd::Result<Model> {
    Adapter::open(path).and_then(|adapter| tiny().with_adapter(&adapter))
}

#[test]
fn features_that_do_not_run_are_named() {
    let cases: Vec<(Value, String)> =
        serde_json::from_str(include_str!("../data/adapters/refused.json")).unwrap();
    for (more, wanted) in cases {
        let (_dir, path) = changed(more.clone());
        match apply(&path) {
            Ok(_) => assert!(wanted.is_empty(), "{more}"),
            Err(error) => {
                assert!(!wanted.is_empty() && error.to_string().contains(&wanted), "{more}: {error}")
            }
        }
    }
}

#[test]
fn tensors_that_are_missing_wrong_or_too_many_are_named() {
    let c = tiny().config().clone();
    let lora = || {
        let full = Lora::of_config(&c, 8, 1);
        Lora { alpha: 8.0, ..full }
    };
    let check = |lora: Lora, config: Value, wanted: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        lora.write_peft(dir.path(), DType::F32, &config);
        let error = apply(dir.path()).unwrap_err();
        let text = error.to_string();
        assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{text}");
        assert!(text.contains("`tiny/base`") || error.hint_text().is_some(), "{text}");
    };
    let config = lora().config();
    let mut less = lora();
    less.modules.remove(2);
    check(less, config.clone(), &["model.layers.0.mlp.up_proj", "missing"]);
    let mut wide = lora();
    wide.modules[0].1 = Tensor::zeros((8, c.hidden + 32), DType::F32, &Device::Cpu).unwrap();
    check(wide, config.clone(), &["layers.0.self_attn.q_proj.lora_A", "[8, 96]", "[8, 64]"]);
    let mut tall = lora();
    tall.modules[1].2 = Tensor::zeros((c.hidden * 2, 8), DType::F32, &Device::Cpu).unwrap();
    check(tall, config.clone(), &["layers.0.self_attn.v_proj.lora_B", "[128, 8]", "[32, 8]"]);
    let mut deep = lora();
    deep.modules[0].0 = "model.layers.7.self_attn.q_proj".into();
    check(
        deep,
        json!({"peft_type": "LORA", "r": 8, "lora_alpha": 8.0, "base_model_name_or_path": "tiny/base"}),
        &["layers.7.self_attn.q_proj"],
    );
    for number in [f32::NAN, f32::INFINITY] {
        for side in [0, 1] {
            let mut bad = lora();
            let slot = if side == 0 { &mut bad.modules[3].1 } else { &mut bad.modules[3].2 };
            *slot = (&*slot * f64::from(number)).unwrap();
            check(bad, config.clone(), &["mlp.down_proj.lora_", "NaN"]);
        }
    }
    for (name, wanted) in [
        ("base_model.model.model.layers.0.mlp.up_proj.lora_magnitude_vector", "DoRA"),
        ("base_model.model.model.embed_tokens.lora_embedding_A", "embeddings"),
        ("base_model.model.lm_head.lora_A.weight", "outside the layers"),
        ("base_model.model.lm_head.modules_to_save.weight", "modules_to_save"),
        ("base_model.model.model.layers.0.mlp.up_proj.lora_B.bias", "bias"),
        ("base_model.model.model.layers.0.mlp.up_proj.weight", "none of an adapter"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("adapter_config.json"), config.to_string()).unwrap();
        let tensor =
            HashMap::from([(name.to_owned(), Tensor::zeros((8, 64), DType::F32, &Device::Cpu).unwrap())]);
        candle_core::safetensors::save(&tensor, dir.path().join("adapter_model.safetensors")).unwrap();
        let error = Adapter::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains(wanted) && error.contains(name), "{error}");
    }
}

#[test]
fn files_that_are_no_adapters_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let kind = |path: &Path| Adapter::open(path).err().unwrap().kind();
    assert_eq!(kind(&dir.path().join("absent")), ErrorKind::Io);
    assert_eq!(kind(dir.path()), ErrorKind::Model);
    std::fs::copy(
        Path::new(FIXTURES).join("llama-all/adapter_config.json"),
        dir.path().join("adapter_config.json"),
    )
    .unwrap();
    assert_eq!(kind(dir.path()), ErrorKind::Io);
    std::fs::write(dir.path().join("adapter_model.bin"), "x").unwrap();
    assert_eq!(kind(dir.path()), ErrorKind::Unsupported);
    let model = dir.path().join("model.gguf");
    std::fs::write(&model, ffwd::model::embedded::DRAFT_GGUF).unwrap();
    let error = Adapter::open(&model).err().unwrap().to_string();
    assert!(error.contains("--model"), "{error}");
    let adapter = Adapter::open(Path::new(FIXTURES).join("llama-all")).unwrap();
    assert_eq!(adapter.with_scale(f32::NAN).err().unwrap().kind(), ErrorKind::InvalidOption);
}

/// Cut and damaged files: an error or an adapter, no panic.
#[test]
fn damaged_adapters_do_no_harm() {
    let (_dir, path) = changed(json!({}));
    let gguf = path.join("adapter.gguf");
    Lora::of_config(tiny().config(), 8, 1).write_gguf(&gguf, tiny().config(), GgmlDType::Q8_0, true);
    let (mut refused, mut random) = (0, Random::new(1));
    for name in ["adapter_model.safetensors", "adapter_config.json", "adapter.gguf"] {
        let whole = std::fs::read(path.join(name)).unwrap();
        for round in 0..150 {
            let mut bytes = whole.clone();
            match round % 3 {
                0 => bytes.truncate(random.below(whole.len())),
                1 => bytes[random.below(whole.len().min(3000))] ^= 1 << random.below(8),
                _ => {
                    let at = random.below(whole.len().min(3000) - 8);
                    bytes[at..at + 8].copy_from_slice(&(u64::MAX >> random.below(64)).to_le_bytes());
                }
            }
            std::fs::write(path.join(name), bytes).unwrap();
            let at = if name == "adapter.gguf" { &gguf } else { &path };
            match apply(at) {
                Ok(model) => assert_eq!(all(&model, &[1, 2])[1].len(), 96),
                Err(error) => {
                    refused += 1;
                    assert!(!error.message().is_empty());
                }
            }
        }
        std::fs::write(path.join(name), whole).unwrap();
    }
    assert!(refused > 200, "{refused}");
}
