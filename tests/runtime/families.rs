//! Every family of models on random weights, against the stock model of `candle-transformers` and, where
//! that lacks a property, against plain loops in double precision: in one pass, in pieces at offsets, after
//! the cache was truncated, and from GGUF files. `common/families.jsonl` has the models.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{self, Value as Meta};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models as stock;
use ffwd::ErrorKind;
use ffwd::model::{LoadOptions, Model, Precision, RopeScaling};
use serde_json::{Value, json};

use crate::common::gguf::{write_gguf, write_gguf_more, write_gguf_with};
use crate::common::models::{
    FamilyRow, all, check_rows_alone, config, difference, f32_options, families, load, parsed, tokens,
    weights, write_dir,
};
use crate::common::reference::PlainForward;

/// Both sides compute with sums of at most a few hundred terms, in f32 and in different orders or in f64;
/// logits are of size 1 to 20, so rounding stays near 1e-5 and a real mistake is far above 1e-4.
const TOLERANCE: f32 = 1e-4;

type Weights = HashMap<String, Tensor>;

fn input(tokens: &[u32]) -> Tensor {
    Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap()
}

fn last_row(logits: &Tensor) -> Vec<f32> {
    logits.flatten_all().unwrap().to_vec1().unwrap()
}

/// The logits of each token by the stock model of the family, which reads all before it for each.
pub(crate) fn stock_logits(config: &Value, weights: &Weights, tokens: &[u32]) -> Vec<Vec<f32>> {
    let vb = VarBuilder::from_tensors(weights.clone(), DType::F32, &Device::Cpu);
    let inputs = (1..=tokens.len()).map(|n| input(&tokens[..n]));
    macro_rules! with_own_cache {
        ($config:ty, $load:expr) => {{
            let c: $config = serde_json::from_value(config.clone()).unwrap();
            let mut model = $load(&c, vb).unwrap();
            let row = |x: Tensor| {
                model.clear_kv_cache();
                last_row(&model.forward(&x, 0).unwrap())
            };
            inputs.map(row).collect()
        }};
    }
    macro_rules! with_cache_apart {
        ($config:ty, $load:path, $cache:path) => {{
            let c: $config = serde_json::from_value(config.clone()).unwrap();
            let c = c.into_config(false);
            let model = $load(vb, &c).unwrap();
            let row = |x: Tensor| {
                let mut cache = $cache(false, DType::F32, &c, &Device::Cpu).unwrap();
                last_row(&model.forward(&x, 0, &mut cache).unwrap())
            };
            inputs.map(row).collect()
        }};
    }
    match config["model_type"].as_str().unwrap() {
        "llama" => {
            with_cache_apart!(stock::llama::LlamaConfig, stock::llama::Llama::load, stock::llama::Cache::new)
        }
        "granite" => with_cache_apart!(
            stock::granite::GraniteConfig,
            stock::granite::Granite::load,
            stock::granite::Cache::new
        ),
        "mistral" => with_own_cache!(stock::mistral::Config, stock::mistral::Model::new),
        "qwen2" => with_own_cache!(stock::qwen2::Config, stock::qwen2::ModelForCausalLM::new),
        "qwen3" => with_own_cache!(stock::qwen3::Config, stock::qwen3::ModelForCausalLM::new),
        "gemma3_text" => {
            with_own_cache!(stock::gemma3::Config, |c, vb| stock::gemma3::Model::new(false, c, vb))
        }
        "phi3" => with_own_cache!(stock::phi3::Config, stock::phi3::Model::new),
        "olmo2" => with_own_cache!(stock::olmo2::Config, stock::olmo2::Model::new),
        "smollm3" => {
            let c: stock::smol::smollm3::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::smol::smollm3::ModelForCausalLM::new(&c, vb).unwrap();
            inputs.map(|x| last_row(&model.forward(&x, 0).unwrap())).collect()
        }
        other => panic!("no stock model for {other}"),
    }
}

/// Compares a model with the logits of a reference, and all ways to run it with one pass.
fn check(row: &FamilyRow, seed: u64, reference: fn(&Value, &Weights, &[u32]) -> Vec<Vec<f32>>) {
    let config = &row.config;
    let weights = weights(config, row.dtype, seed);
    let dir = tempfile::tempdir().unwrap();
    // Sharded or not, as it comes.
    write_dir(dir.path(), config, &weights, 1 + seed as usize % 3);
    let model = Model::from_dir(dir.path(), &f32_options()).unwrap();
    assert_eq!(*model.config(), parsed(config));
    let (right, wrong) = (tokens(40, row.vocab(), seed + 77), tokens(40, row.vocab(), seed + 177));
    let want = reference(config, &weights, &right);
    assert!(want.iter().flatten().any(|v| v.abs() > 0.1), "there is something to compare");
    let one_pass = all(&model, &right);
    let d = difference(&one_pass, &want);
    assert!(d <= TOLERANCE, "{config}: {d}");
    let (mut cache, mut at) = (model.new_cache().unwrap(), 0);
    for size in [7, 1, 1, 5, 1, 9, 16] {
        let got = model.forward(&right[at..at + size], &mut cache, 0..size).unwrap();
        assert!(got == one_pass[at..at + size], "{config}: piece of {size} at {at}");
        at += size;
    }
    // Cut back, something else, cut back again: as if nothing had been.
    cache.truncate(11);
    model.forward(&wrong, &mut cache, 0..0).unwrap();
    cache.truncate(11);
    let got = model.forward(&right[11..], &mut cache, 0..29).unwrap();
    assert!(got == one_pass[11..], "{config}: after truncation");
    if row.gguf {
        let path = dir.path().join("model.gguf");
        write_gguf(&path, &weights, &parsed(config), GgmlDType::F32);
        let model = Model::from_gguf(&path, &f32_options()).unwrap();
        assert_eq!(*model.config(), parsed(config));
        assert!(all(&model, &right) == one_pass, "{config}: the same numbers give the same bits");
    }
}

/// The stock models ignore some switches or err in them: the multipliers of Granite, the scale of Gemma's
/// scores where it is not the head width, `longrope`, whose divisors the stock model multiplies by, and
/// windows. The stock models of many families fix the head width.
#[test]
fn every_family_has_the_logits_of_the_stock_model() {
    for (row, seed) in families("stock").iter().zip(1..) {
        check(row, seed, stock_logits);
    }
}

#[test]
fn every_family_has_the_logits_of_its_definition() {
    for (row, seed) in families("definition").iter().zip(1..) {
        check(row, seed, |config, weights, tokens| PlainForward::new(config, weights).logits(tokens));
    }
}

/// The stock models see one position more than the window says and, at offsets, none of its limits;
/// the definition is that of the models' authors' library, where a window of n is n positions, the
/// token's own among them. So one pass with n - 1 there is compared with n here.
#[test]
fn windows_end_where_they_should() {
    for family in ["mistral", "qwen2", "gemma3_text"] {
        for window in [2, 5, 29] {
            let more = |w: usize| match family {
                "gemma3_text" => json!({"hidden_activation": "gelu_pytorch_tanh", "attention_bias": false,
                    "query_pre_attn_scalar": 16, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                    "sliding_window": w, "sliding_window_pattern": 2, "tie_word_embeddings": true}),
                _ => json!({"sliding_window": w, "use_sliding_window": true, "max_window_layers": 0,
                    "attention_bias": false}),
            };
            // The stock model of Gemma 3 fails with more than one key head.
            let key_heads = if family == "gemma3_text" { 1 } else { 2 };
            let shape = [50, 64, 96, 2, 4, key_heads, 16];
            let config = |w| config(family, shape, more(w));
            let weights = weights(&config(window), DType::F32, 5);
            let model = load(&config(window), &weights);
            let tokens = tokens(30, 50, 9);
            let want = stock_logits(&config(window - 1), &weights, &tokens);
            let got = all(&model, &tokens);
            let d = difference(&got, &want);
            assert!(d <= TOLERANCE, "{family}, {window}: {d}");
            check_rows_alone(&model, &tokens, &got, &format!("{family}, {window}"));
            // Not even the shortest of these windows goes unnoticed.
            let open = load(&config(4096), &weights);
            assert!(difference(&all(&open, &tokens), &want) > 1e-3, "{family}, {window}");
        }
    }
}

#[test]
fn only_the_layers_behind_max_window_layers_slide() {
    let with = |more: Value| {
        let config = config("qwen3", [50, 64, 96, 2, 4, 2, 16], more);
        all(&load(&config, &weights(&config, DType::F32, 5)), &tokens(20, 50, 9))
    };
    let first =
        |n: usize| with(json!({"sliding_window": 3, "use_sliding_window": true, "max_window_layers": n}));
    let types = |types: [&str; 2]| {
        with(json!({"sliding_window": 3, "use_sliding_window": true, "layer_types": types}))
    };
    let (none, second, both) = (first(2), first(1), first(0));
    assert!(none == with(json!({})));
    assert!(none[..3] == both[..3] && none[..3] == second[..3], "the first three positions see everything");
    // In the second layer only, position 3 sees position 0 only through the first layer.
    assert!(difference(&none[3..], &second[3..]) > 1e-3);
    assert!(difference(&both[3..], &second[3..]) > 1e-3);
    assert!(second == types(["full_attention", "sliding_attention"]));
    assert!(both == types(["sliding_attention", "sliding_attention"]));
}

/// The stock model knows no linear scaling; but with an original context of one position every wave
/// is long, and all frequencies are divided by the factor.
#[test]
fn linear_scaling_divides_all_frequencies() {
    let shape = [50, 64, 96, 2, 4, 2, 16];
    let linear = config("llama", shape, json!({"rope_scaling": {"type": "linear", "factor": 4.0}}));
    let long = json!({"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0,
        "original_max_position_embeddings": 1});
    let reference = config("llama", shape, json!({"rope_scaling": long}));
    let weights = weights(&linear, DType::F32, 3);
    let tokens = tokens(30, 50, 9);
    let want = stock_logits(&reference, &weights, &tokens);
    assert!(difference(&all(&load(&linear, &weights), &tokens), &want) <= TOLERANCE);
    let plain = load(&config("llama", shape, json!({})), &weights);
    assert!(difference(&all(&plain, &tokens), &want) > 1e-2, "the scaling matters");
}

/// The logits of the last token by candle's own reader of GGUF files.
fn stock_gguf(path: &Path, family: &str, tokens: &[u32]) -> Vec<f32> {
    let mut file = std::fs::File::open(path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    let (file, cpu) = (&mut file, &Device::Cpu);
    let logits = match family {
        "qwen2" => stock::quantized_qwen2::ModelWeights::from_gguf(content, file, cpu)
            .and_then(|mut model| model.forward(&input(tokens), 0)),
        "qwen3" => stock::quantized_qwen3::ModelWeights::from_gguf(content, file, cpu)
            .and_then(|mut model| model.forward(&input(tokens), 0)),
        "phi3" => stock::quantized_phi3::ModelWeights::from_gguf(false, content, file, cpu)
            .and_then(|mut model| model.forward(&input(tokens), 0)),
        _ => stock::quantized_llama::ModelWeights::from_gguf(content, file, cpu)
            .and_then(|mut model| model.forward(&input(tokens), 0)),
    };
    last_row(&logits.unwrap())
}

#[test]
fn gguf_files_of_every_family() {
    for (i, row) in families("gguf").iter().enumerate() {
        let (family, config, c) = (&*row.family, &row.config, parsed(&row.config));
        let weights = weights(config, DType::F32, 31);
        let dir = tempfile::tempdir().unwrap();
        write_dir(dir.path(), config, &weights, 1);
        let path = dir.path().join("model.gguf");
        let tokens = tokens(20, 64, 8);
        write_gguf(&path, &weights, &c, GgmlDType::F32);
        let want = all(&Model::from_dir(dir.path(), &f32_options()).unwrap(), &tokens);
        let got = all(&Model::from_gguf(&path, &LoadOptions::default()).unwrap(), &tokens);
        assert!(got == want, "{family}: the same numbers give the same bits");
        // Another reader of the same file. That of Gemma 3 has another activation than the model.
        let stock = |path: &Path| match family {
            "gemma3_text" => None,
            _ => Some(stock_gguf(path, family, &tokens)),
        };
        if let Some(stock) = stock(&path) {
            let d = difference(&[stock], &want[19..]);
            assert!(d <= TOLERANCE, "{family}: {d}");
        }
        let usual = [GgmlDType::F16, GgmlDType::BF16, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K];
        let rare = [GgmlDType::Q4_0, GgmlDType::Q5_0, GgmlDType::Q5_1, GgmlDType::Q3K, GgmlDType::Q5K];
        for dtype in usual.into_iter().chain(rare.into_iter().filter(|_| i == 0)) {
            write_gguf(&path, &weights, &c, dtype);
            let wide = all(&Model::from_gguf(&path, &f32_options()).unwrap(), &tokens);
            let model = Model::from_gguf(&path, &LoadOptions::default()).unwrap();
            assert!(model.is_batch_invariant());
            // Candle widened the reference, this crate's kernels run on the blocks: the same bits
            // in half precision; before quantised weights activations are in 8 bits, off by up to a
            // 254th of their block's largest. That is a hundredth of a product's size where blocks
            // are as narrow as here, and logits of size 3 are off by a few. The kernel has a bound
            // of its own in its tests; what is wrong by a row or a scale is off by whole units.
            let got = all(&model, &tokens);
            let d = difference(&got, &wide);
            let quantised = !matches!(dtype, GgmlDType::F16 | GgmlDType::BF16);
            let size = wide.iter().flatten().fold(0f32, |a, b| a.max(b.abs()));
            assert!(d <= if quantised { 0.05 * size } else { 0.0 }, "{family}, {dtype:?}: {d} of {size}");
            check_rows_alone(&model, &tokens, &got, &format!("{family}, {dtype:?}"));
            if dtype == GgmlDType::Q8_0 {
                // Quantised in the file and quantised while loading are the same model.
                let q8 = LoadOptions::with_precision(Precision::Q8_0);
                assert!(got == all(&Model::from_dir(dir.path(), &q8).unwrap(), &tokens), "{family}");
                assert!(difference(&got, &want) > 1e-4, "8-bit weights are used");
            }
            // Candle's quantised model rounds activations to 8 bits, a relative error of 1/256 in
            // each of a dozen products; logits are of size 1 to 3.
            if let Some(stock) = stock(&path) {
                let d = difference(&[stock], &wide[19..]);
                assert!(d < 0.03 * size, "{family}, {dtype:?}: {d} of {size}");
            }
        }
    }
}

/// GGUF has the divisors of the frequencies as a tensor; here they are computed from their
/// definition.
#[test]
fn rotary_divisors_of_gguf_files_are_the_scaling_of_llama_3() {
    // Waves of 6 to 60,000 positions: some stay, some are interpolated, some stretched.
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64});
    let scaled = config("llama", [50, 64, 96, 2, 4, 2, 16], json!({"rope_scaling": llama3}));
    let weights = weights(&scaled, DType::F32, 4);
    let dir = tempfile::tempdir().unwrap();
    let (want, c) = (load(&scaled, &weights), parsed(&scaled));
    let divisors: Vec<f32> = (0..8)
        .map(|i| {
            let wave = 2.0 * std::f64::consts::PI * 10000f64.powf(i as f64 / 8.0);
            if wave < 16.0 {
                1.0
            } else if wave > 64.0 {
                8.0
            } else {
                let smooth = (64.0 / wave - 1.0) / 3.0;
                1.0 / ((1.0 - smooth) / 8.0 + smooth)
            }
        } as f32)
        .collect();
    assert!(divisors.iter().any(|d| *d > 1.1 && *d < 7.9));
    let path = dir.path().join("model.gguf");
    let mut with = weights.clone();
    with.insert("rope_freqs.weight".into(), Tensor::from_vec(divisors.clone(), 8, &Device::Cpu).unwrap());
    write_gguf(&path, &with, &c, GgmlDType::F32);
    let got = Model::from_gguf(&path, &f32_options()).unwrap();
    assert_eq!(got.config().rope_scaling, RopeScaling::Divisors(divisors));
    let tokens = tokens(60, 50, 9);
    let d = difference(&all(&got, &tokens), &all(&want, &tokens));
    assert!(d <= TOLERANCE, "{d}");
    let plain = config("llama", [50, 64, 96, 2, 4, 2, 16], json!({}));
    let plain = load(&plain, &weights);
    assert!(difference(&all(&plain, &tokens), &all(&want, &tokens)) > 1e-2, "the scaling matters");
    with.insert("rope_freqs.weight".into(), Tensor::zeros(8, DType::F32, &Device::Cpu).unwrap());
    write_gguf(&path, &with, &c, GgmlDType::F32);
    assert_eq!(Model::from_gguf(&path, &f32_options()).unwrap_err().kind(), ErrorKind::Model);
}

#[test]
fn four_bits_on_request() {
    let config = config("qwen2", [64, 256, 512, 2, 4, 2, 64], json!({}));
    let dir = tempfile::tempdir().unwrap();
    let weights = weights(&config, DType::BF16, 6);
    write_dir(dir.path(), &config, &weights, 2);
    let at = |p| Model::from_dir(dir.path(), &LoadOptions::with_precision(p)).unwrap();
    let (f, q8, q4) = (at(Precision::F32), at(Precision::Q8_0), at(Precision::Q4K));
    assert!(q4.weight_bytes() * 9 < f.weight_bytes() * 2, "{} of {}", q4.weight_bytes(), f.weight_bytes());
    let tokens = tokens(20, 64, 8);
    let (want, eight, four) = (all(&f, &tokens), all(&q8, &tokens), all(&q4, &tokens));
    let (at_eight, at_four) = (difference(&eight, &want), difference(&four, &want));
    // Four bits keep a relative error of about 1/30 of a weight, of which sums over 256 average
    // most away; logits are of size 1 to 3.
    assert!(at_eight < at_four && at_four < 1.0, "{at_eight}, {at_four}");
    // A four-bit file and four bits on request are the same matrices, the embedding and the head
    // apart.
    let path = dir.path().join("model.gguf");
    let c = parsed(&config);
    let wide: HashMap<String, Tensor> =
        weights.iter().map(|(k, v)| (k.clone(), v.to_dtype(DType::F32).unwrap())).collect();
    write_gguf_with(&path, &wide, &c, &|name| match name {
        "token_embd.weight" | "output.weight" => GgmlDType::Q8_0,
        _ => GgmlDType::Q4K,
    });
    for precision in [Precision::AsStored, Precision::Q4K] {
        let stored = Model::from_gguf(&path, &LoadOptions::with_precision(precision)).unwrap();
        assert!(all(&stored, &tokens) == four, "{precision:?}");
    }
    // Rows that blocks of 256 do not fit get eight bits.
    let config = crate::common::models::config("llama", [64, 96, 160, 1, 4, 2, 24], json!({}));
    write_dir(dir.path(), &config, &crate::common::models::weights(&config, DType::F32, 6), 1);
    assert!(all(&at(Precision::Q4K), &tokens) == all(&at(Precision::Q8_0), &tokens));
}

#[test]
fn missing_switches_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let llama = config("llama", [50, 32, 48, 1, 4, 2, 8], json!({}));
    let weights = weights(&llama, DType::F32, 3);
    for (family, what) in [("qwen2", "q_proj.bias"), ("qwen3", "q_norm.weight")] {
        let mut config = llama.clone();
        config["model_type"] = family.into();
        write_dir(dir.path(), &config, &weights, 1);
        let e = Model::from_dir(dir.path(), &f32_options()).unwrap_err();
        assert!(e.message().contains(what), "{e}");
    }
    let c = parsed(&llama);
    let path = dir.path().join("model.gguf");
    let load = |name: &str, shape: &[usize]| {
        let mut with = weights.clone();
        with.insert(name.into(), Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap());
        write_gguf(&path, &with, &c, GgmlDType::F32);
        Model::from_gguf(&path, &f32_options())
    };
    assert!(load("test.weight", &[2]).is_ok());
    assert_eq!(load("blk.0.ffn_up.bias", &[48]).unwrap_err().kind(), ErrorKind::Unsupported);
    // One bias of three would be left out in silence.
    assert!(load("blk.0.attn_q.bias", &[32]).unwrap_err().message().contains("attn_k.bias"));
    assert!(load("rope_freqs.weight", &[3]).is_err());
    assert!(load("rope_freqs.weight", &[2, 2]).is_err());
}

/// The context decides between the two lists, so that keys in a cache stay valid as a text grows.
#[test]
fn long_rope_follows_the_context_that_is_asked_for() {
    let config =
        families("tensors").into_iter().find(|row| row.config["rope_scaling"]["short_factor"].is_array());
    let config = config.unwrap().config;
    let weights = weights(&config, DType::F32, 3);
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), &config, &weights, 1);
    let tokens = tokens(40, 60, 5);
    let load = |max_context| {
        let options = LoadOptions { max_context, ..f32_options() };
        let model = Model::from_dir(dir.path(), &options).unwrap();
        all(&model, &tokens)
    };
    let (long, short) = (load(None), load(Some(64)));
    assert!(load(Some(65)) == long && load(Some(50)) == short);
    assert!(difference(&long, &short) > 1e-2);
    // The same divisors as the one list, whatever the context.
    let mut all_short = config.clone();
    all_short["rope_scaling"]["long_factor"] = config["rope_scaling"]["short_factor"].clone();
    let want = PlainForward::new(&all_short, &weights).logits(&tokens);
    assert!(difference(&short, &want) <= TOLERANCE);
}

/// Metadata that contradict each other, or that change logits in a way that the runner lacks.
#[test]
fn features_that_the_runner_lacks_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let load = |family: &str, more: Value, extra: &[(&str, Meta)]| {
        let config = config(family, [60, 48, 80, 2, 4, 2, 16], more);
        let weights = weights(&config, DType::F32, 3);
        write_gguf_more(&path, &weights, &parsed(&config), &|_| GgmlDType::F32, extra);
        Model::from_gguf(&path, &LoadOptions::default()).map(|m| m.config().clone())
    };
    let text = |s: &str| Meta::String(s.into());
    for (family, key, value) in [
        ("phi3", "phi3.rope.scaling.type", text("yarn")),
        ("olmo2", "olmo2.rope.scaling.type", text("yarn")),
        ("olmo2", "olmo2.attention.sliding_window", Meta::U32(64)),
        ("granite", "granite.expert_count", Meta::U32(4)),
        ("smollm3", "smollm3.rope.dimension_count", Meta::U32(8)),
        ("gemma3_text", "gemma3.final_logit_softcapping", Meta::F32(30.0)),
    ] {
        let gemma = json!({"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
            "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 5,
            "sliding_window_pattern": 6, "tie_word_embeddings": true});
        let more = if family == "gemma3_text" { gemma } else { json!({}) };
        assert!(load(family, more.clone(), &[]).is_ok(), "{family}");
        let e = load(family, more, &[(key, value)]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{key}: {e}");
    }
    // Granite's switch for rotary positions.
    let off = load("granite", json!({}), &[("granite.rope.scaling.finetuned", Meta::Bool(false))]).unwrap();
    assert!(off.rotary.iter().all(|r| *r == ffwd::model::LayerRotary::None));
    for value in [Meta::F32(-1.0), Meta::F32(f32::NAN), Meta::F32(f32::INFINITY)] {
        assert!(load("granite", json!({}), &[("granite.residual_scale", value)]).is_err());
    }
    // One list of divisors without the other, or too short.
    let config = config("phi3", [60, 48, 80, 2, 4, 2, 16], json!({}));
    let mut weights = weights(&config, DType::F32, 3);
    for (list, divisors, is_ok) in [("long", 8, false), ("short", 8, true), ("short", 7, false)] {
        let ones = Tensor::ones(divisors, DType::F32, &Device::Cpu).unwrap();
        weights.insert(format!("rope_factors_{list}.weight"), ones);
        write_gguf(&path, &weights, &parsed(&config), GgmlDType::F32);
        assert_eq!(Model::from_gguf(&path, &LoadOptions::default()).is_ok(), is_ok, "{list}, {divisors}");
    }
}
