//! Every family of models against the stock model of `candle-transformers`, on random weights: in
//! one pass, in parts at offsets, and after the cache was truncated.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::{GgmlDType, gguf_file};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models as stock;
use ffwd::ErrorKind;
use ffwd::model::{LoadOptions, Model, ModelConfig, Precision, RopeScaling};
use serde_json::{Value, json};

use crate::kit::models::{Shape, config, difference, tokens, weights, write_dir};

/// Both sides compute in f32 with sums of at most a few hundred terms in different orders; logits
/// are of size 1 to 20, so rounding stays near 1e-5 and a real mistake is far above 1e-4.
const TOLERANCE: f32 = 1e-4;

/// Logits of the last of some tokens at an offset; keeps its cache, and clears it at offset 0.
type Stock = Box<dyn FnMut(&[u32], usize) -> Vec<f32>>;

fn input(tokens: &[u32]) -> Tensor {
    Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap()
}

fn last_row(logits: &Tensor) -> Vec<f32> {
    logits.flatten_all().unwrap().to_vec1().unwrap()
}

/// The stock model of the configuration's family.
fn stock_model(config: &Value, weights: &HashMap<String, Tensor>) -> Stock {
    let vb = VarBuilder::from_tensors(weights.clone(), DType::F32, &Device::Cpu);
    match config["model_type"].as_str().unwrap() {
        "llama" => {
            let c: stock::llama::LlamaConfig = serde_json::from_value(config.clone()).unwrap();
            let c = c.into_config(false);
            let model = stock::llama::Llama::load(vb, &c).unwrap();
            let fresh = move || stock::llama::Cache::new(true, DType::F32, &c, &Device::Cpu).unwrap();
            let mut cache = fresh();
            Box::new(move |t, at| {
                if at == 0 {
                    cache = fresh();
                }
                last_row(&model.forward(&input(t), at, &mut cache).unwrap())
            })
        }
        "mistral" => {
            let c: stock::mistral::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::mistral::Model::new(&c, vb).unwrap();
            Box::new(move |t, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                last_row(&model.forward(&input(t), at).unwrap())
            })
        }
        "qwen2" => {
            let c: stock::qwen2::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::qwen2::ModelForCausalLM::new(&c, vb).unwrap();
            Box::new(move |t, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                last_row(&model.forward(&input(t), at).unwrap())
            })
        }
        "qwen3" => {
            let c: stock::qwen3::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::qwen3::ModelForCausalLM::new(&c, vb).unwrap();
            Box::new(move |t, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                last_row(&model.forward(&input(t), at).unwrap())
            })
        }
        "gemma3_text" => {
            let c: stock::gemma3::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::gemma3::Model::new(false, &c, vb).unwrap();
            Box::new(move |t, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                last_row(&model.forward(&input(t), at).unwrap())
            })
        }
        "phi3" => {
            let c: stock::phi3::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::phi3::Model::new(&c, vb).unwrap();
            Box::new(move |t, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                last_row(&model.forward(&input(t), at).unwrap())
            })
        }
        "granite" => {
            let c: stock::granite::GraniteConfig = serde_json::from_value(config.clone()).unwrap();
            let c = c.into_config(false);
            let model = stock::granite::Granite::load(vb, &c).unwrap();
            let fresh = move || stock::granite::Cache::new(true, DType::F32, &c, &Device::Cpu).unwrap();
            let mut cache = fresh();
            Box::new(move |t, at| {
                if at == 0 {
                    cache = fresh();
                }
                last_row(&model.forward(&input(t), at, &mut cache).unwrap())
            })
        }
        "olmo2" => {
            let c: stock::olmo2::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::olmo2::Model::new(&c, vb).unwrap();
            Box::new(move |t, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                last_row(&model.forward(&input(t), at).unwrap())
            })
        }
        "smollm3" => {
            let c: stock::smol::smollm3::Config = serde_json::from_value(config.clone()).unwrap();
            let mut model = stock::smol::smollm3::ModelForCausalLM::new(&c, vb).unwrap();
            Box::new(move |t, at| last_row(&model.forward(&input(t), at).unwrap()))
        }
        other => panic!("no stock model for {other}"),
    }
}

fn f32_options() -> LoadOptions {
    LoadOptions::with_precision(Precision::F32)
}

fn all(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    model.forward(tokens, &mut model.new_cache().unwrap(), 0..tokens.len()).unwrap()
}

/// Settings that the stock models of Qwen require in addition to those that they use.
fn qwen(more: Value) -> Value {
    let mut all = json!({"sliding_window": 4096, "max_window_layers": 28, "use_sliding_window": false,
        "attention_bias": false});
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

fn llama3() -> Value {
    // Waves of 6 to 60,000 positions: with these numbers some stay, some are interpolated, some
    // stretched.
    json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64})
}

/// Settings that the stock model of Gemma 3 requires.
fn gemma(window: usize) -> Value {
    json!({"hidden_activation": "gelu_pytorch_tanh", "attention_bias": false, "query_pre_attn_scalar": 20,
        "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": window,
        "sliding_window_pattern": 2, "tie_word_embeddings": true})
}

/// Families and switches, with shapes (the stock models of many families fix the head width). The
/// stock models ignore some switches or err in them; `family_definitions.rs` has these: the
/// multipliers of Granite, the scale of Gemma's scores where it is not the head width, `longrope`,
/// whose divisors the stock model multiplies by, and windows.
fn families() -> Vec<(&'static str, Shape, Value)> {
    let llama: Shape = [97, 64, 96, 3, 8, 2, 8];
    let wide: Shape = [50, 64, 96, 2, 4, 4, 16];
    let own_head: Shape = [64, 48, 80, 2, 4, 2, 20];
    vec![
        ("llama", llama, json!({})),
        ("llama", wide, json!({"tie_word_embeddings": true})),
        ("llama", wide, json!({"rope_theta": 500000.0, "rope_scaling": llama3()})),
        // SmolLM2: Llama with three key heads for nine, tied, and another base.
        ("llama", [60, 72, 96, 2, 9, 3, 8], json!({"tie_word_embeddings": true, "rope_theta": 100000.0})),
        ("mistral", llama, json!({"sliding_window": null})),
        ("mistral", own_head, json!({"rope_theta": 1000000.0})),
        ("qwen2", wide, qwen(json!({"rope_theta": 1000000.0}))),
        ("qwen2", llama, qwen(json!({"tie_word_embeddings": true}))),
        ("qwen3", own_head, qwen(json!({"rope_theta": 1000000.0}))),
        ("qwen3", own_head, qwen(json!({"tie_word_embeddings": true, "attention_bias": true}))),
        ("gemma3_text", [64, 48, 80, 4, 4, 1, 20], gemma(4096)),
        ("phi3", llama, json!({})),
        ("phi3", wide, json!({"partial_rotary_factor": 0.75, "tie_word_embeddings": true})),
        ("granite", wide, json!({"attention_multiplier": 0.25})),
        ("olmo2", llama, json!({"attention_bias": false})),
        ("olmo2", wide, json!({"attention_bias": true, "tie_word_embeddings": true})),
        ("smollm3", llama, json!({"no_rope_layer_interval": 2})),
        ("smollm3", wide, json!({"no_rope_layers": [0, 1], "tie_word_embeddings": true})),
    ]
}

#[test]
fn every_family_has_the_logits_of_the_stock_model() {
    for (i, (family, shape, more)) in families().into_iter().enumerate() {
        let config = config(family, shape, more);
        let weights = weights(&config, DType::F32, i as u64 + 1);
        let dir = tempfile::tempdir().unwrap();
        // Sharded or not, as it comes.
        write_dir(dir.path(), &config, &weights, 1 + i % 3);
        let model = Model::from_dir(dir.path(), &f32_options()).unwrap();
        let mut stock = stock_model(&config, &weights);
        let (right, wrong) = (tokens(30, shape[0], i as u64 + 77), tokens(30, shape[0], i as u64 + 177));
        // One pass: every position against the stock model's pass up to it.
        let want: Vec<Vec<f32>> = (1..=right.len()).map(|n| stock(&right[..n], 0)).collect();
        assert!(want.iter().flatten().any(|v| v.abs() > 0.3), "there is something to compare");
        let one_pass = all(&model, &right);
        let d = difference(&one_pass, &want);
        assert!(d <= TOLERANCE, "{config}: {d}");
        // Pieces at offsets, on both sides.
        let (mut cache, mut at) = (model.new_cache().unwrap(), 0);
        for size in [7, 1, 1, 5, 1, 9, 6] {
            let piece = &right[at..at + size];
            let got = model.forward(piece, &mut cache, size - 1..size).unwrap();
            let d = difference(&got, &[stock(piece, at)]);
            assert!(d <= TOLERANCE, "{config}: piece of {size} at {at}: {d}");
            at += size;
        }
        // Cut back, something else, cut back again: as if nothing had been.
        cache.truncate(11);
        model.forward(&wrong, &mut cache, 0..0).unwrap();
        cache.truncate(11);
        let got = model.forward(&right[11..], &mut cache, 0..19).unwrap();
        assert!(got == one_pass[11..], "{config}");
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
                "gemma3_text" => {
                    let mut all = gemma(w);
                    all["query_pre_attn_scalar"] = 16.into();
                    all
                }
                _ => json!({"sliding_window": w, "use_sliding_window": true, "max_window_layers": 0,
                    "attention_bias": false}),
            };
            // The stock model of Gemma 3 fails with more than one key head.
            let key_heads = if family == "gemma3_text" { 1 } else { 2 };
            let shape = [50, 64, 96, 2, 4, key_heads, 16];
            let config = |w| config(family, shape, more(w));
            let weights = weights(&config(window), DType::F32, 5);
            let dir = tempfile::tempdir().unwrap();
            write_dir(dir.path(), &config(window), &weights, 1);
            let model = Model::from_dir(dir.path(), &f32_options()).unwrap();
            let tokens = tokens(30, 50, 9);
            let mut stock = stock_model(&config(window - 1), &weights);
            let want: Vec<Vec<f32>> = (1..=30).map(|n| stock(&tokens[..n], 0)).collect();
            let got = all(&model, &tokens);
            let d = difference(&got, &want);
            assert!(d <= TOLERANCE, "{family}, {window}: {d}");
            let mut cache = model.new_cache().unwrap();
            for (i, t) in tokens.iter().enumerate() {
                assert!(
                    model.forward(&[*t], &mut cache, 0..1).unwrap()[0] == got[i],
                    "{family}, {window}, {i}"
                );
            }
            // Not even the shortest of these windows goes unnoticed.
            write_dir(dir.path(), &config(4096), &weights, 1);
            let open = Model::from_dir(dir.path(), &f32_options()).unwrap();
            assert!(difference(&all(&open, &tokens), &want) > 1e-3, "{family}, {window}");
        }
    }
}

#[test]
fn only_the_layers_behind_max_window_layers_slide() {
    let with = |more: Value| {
        let config = config("qwen3", [50, 64, 96, 2, 4, 2, 16], more);
        let dir = tempfile::tempdir().unwrap();
        write_dir(dir.path(), &config, &weights(&config, DType::F32, 5), 1);
        all(&Model::from_dir(dir.path(), &f32_options()).unwrap(), &tokens(20, 50, 9))
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
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), &linear, &weights, 1);
    let model = Model::from_dir(dir.path(), &f32_options()).unwrap();
    let tokens = tokens(30, 50, 9);
    let mut stock = stock_model(&reference, &weights);
    let want: Vec<Vec<f32>> = (1..=30).map(|n| stock(&tokens[..n], 0)).collect();
    let got = all(&model, &tokens);
    assert!(difference(&got, &want) <= TOLERANCE);
    write_dir(dir.path(), &config("llama", shape, json!({})), &weights, 1);
    let plain = Model::from_dir(dir.path(), &f32_options()).unwrap();
    assert!(difference(&all(&plain, &tokens), &want) > 1e-2, "the scaling matters");
}

/// Where candle's own reader of GGUF files puts a model of the family.
fn stock_gguf(path: &Path, family: &str) -> Stock {
    let mut file = std::fs::File::open(path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    match family {
        "qwen2" => {
            let mut m =
                stock::quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
            Box::new(move |t, at| last_row(&m.forward(&input(t), at).unwrap()))
        }
        "qwen3" => {
            let mut m =
                stock::quantized_qwen3::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
            Box::new(move |t, at| last_row(&m.forward(&input(t), at).unwrap()))
        }
        "phi3" => {
            let mut m =
                stock::quantized_phi3::ModelWeights::from_gguf(false, content, &mut file, &Device::Cpu)
                    .unwrap();
            Box::new(move |t, at| last_row(&m.forward(&input(t), at).unwrap()))
        }
        _ => {
            let mut m =
                stock::quantized_llama::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
            Box::new(move |t, at| last_row(&m.forward(&input(t), at).unwrap()))
        }
    }
}

#[test]
fn gguf_files_of_every_family() {
    for (family, more) in [
        ("llama", json!({})),
        ("llama", json!({"tie_word_embeddings": true})),
        ("mistral", json!({})),
        ("qwen2", json!({})),
        ("qwen3", json!({"tie_word_embeddings": true})),
        (
            "gemma3_text",
            json!({"query_pre_attn_scalar": 64, "sliding_window": 512,
            "rope_theta": 1000000.0, "tie_word_embeddings": true}),
        ),
        ("phi3", json!({})),
    ] {
        let config = config(family, [64, 256, 256, 2, 4, 2, 64], more);
        let weights = weights(&config, DType::F32, 31);
        let dir = tempfile::tempdir().unwrap();
        write_dir(dir.path(), &config, &weights, 1);
        let c = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
        let path = dir.path().join("model.gguf");
        let tokens = tokens(20, 64, 8);
        crate::kit::gguf::write_gguf(&path, &weights, &c, GgmlDType::F32);
        let want = all(&Model::from_dir(dir.path(), &f32_options()).unwrap(), &tokens);
        let got = all(&Model::from_gguf(&path, &LoadOptions::default()).unwrap(), &tokens);
        assert!(got == want, "{family}: the same numbers give the same bits");
        // Another reader of the same file. That of Gemma 3 has another activation than the model.
        let stock = |path: &Path| match family {
            "gemma3_text" => None,
            _ => Some(stock_gguf(path, family)(&tokens, 0)),
        };
        if let Some(stock) = stock(&path) {
            let d = difference(&[stock], &want[19..]);
            assert!(d <= TOLERANCE, "{family}: {d}");
        }
        for dtype in [GgmlDType::F16, GgmlDType::BF16, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K] {
            crate::kit::gguf::write_gguf(&path, &weights, &c, dtype);
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
            let mut cache = model.new_cache().unwrap();
            for (i, t) in tokens.iter().enumerate() {
                assert!(model.forward(&[*t], &mut cache, 0..1).unwrap()[0] == got[i], "{dtype:?}: row {i}");
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
    let scaled = config("llama", [50, 64, 96, 2, 4, 2, 16], json!({"rope_scaling": llama3()}));
    let weights = weights(&scaled, DType::F32, 4);
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), &scaled, &weights, 1);
    let want = Model::from_dir(dir.path(), &f32_options()).unwrap();
    let c = ModelConfig::from_json(scaled.to_string().as_bytes()).unwrap();
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
    crate::kit::gguf::write_gguf(&path, &with, &c, GgmlDType::F32);
    let got = Model::from_gguf(&path, &f32_options()).unwrap();
    assert_eq!(got.config().rope_scaling, RopeScaling::Divisors(divisors));
    let tokens = tokens(60, 50, 9);
    let d = difference(&all(&got, &tokens), &all(&want, &tokens));
    assert!(d <= TOLERANCE, "{d}");
    let plain = config("llama", [50, 64, 96, 2, 4, 2, 16], json!({}));
    write_dir(dir.path(), &plain, &weights, 1);
    let plain = Model::from_dir(dir.path(), &f32_options()).unwrap();
    assert!(difference(&all(&plain, &tokens), &all(&want, &tokens)) > 1e-2, "the scaling matters");
    with.insert("rope_freqs.weight".into(), Tensor::zeros(8, DType::F32, &Device::Cpu).unwrap());
    crate::kit::gguf::write_gguf(&path, &with, &c, GgmlDType::F32);
    assert_eq!(Model::from_gguf(&path, &f32_options()).unwrap_err().kind(), ErrorKind::Model);
}

#[test]
fn four_bits_on_request() {
    let config = config("qwen2", [64, 256, 512, 2, 4, 2, 64], json!({}));
    let dir = tempfile::tempdir().unwrap();
    let weights = weights(&config, DType::BF16, 6);
    write_dir(dir.path(), &config, &weights, 2);
    let load = |p| Model::from_dir(dir.path(), &LoadOptions::with_precision(p)).unwrap();
    let (f, q8, q4) = (load(Precision::F32), load(Precision::Q8_0), load(Precision::Q4K));
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
    let c = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
    let wide: HashMap<String, Tensor> =
        weights.iter().map(|(k, v)| (k.clone(), v.to_dtype(DType::F32).unwrap())).collect();
    crate::kit::gguf::write_gguf_with(&path, &wide, &c, &|name| match name {
        "token_embd.weight" | "output.weight" => GgmlDType::Q8_0,
        _ => GgmlDType::Q4K,
    });
    for precision in [Precision::AsStored, Precision::Q4K] {
        let stored = Model::from_gguf(&path, &LoadOptions::with_precision(precision)).unwrap();
        assert!(all(&stored, &tokens) == four, "{precision:?}");
    }
    // Rows that blocks of 256 do not fit get eight bits.
    let config = crate::kit::models::config("llama", [64, 96, 160, 1, 4, 2, 24], json!({}));
    write_dir(dir.path(), &config, &crate::kit::models::weights(&config, DType::F32, 6), 1);
    assert!(all(&load(Precision::Q4K), &tokens) == all(&load(Precision::Q8_0), &tokens));
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
    let c = ModelConfig::from_json(llama.to_string().as_bytes()).unwrap();
    let path = dir.path().join("model.gguf");
    let load = |name: &str, shape: &[usize]| {
        let mut with = weights.clone();
        with.insert(name.into(), Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap());
        crate::kit::gguf::write_gguf(&path, &with, &c, GgmlDType::F32);
        Model::from_gguf(&path, &f32_options())
    };
    assert!(load("test.weight", &[2]).is_ok());
    assert_eq!(load("blk.0.ffn_up.bias", &[48]).unwrap_err().kind(), ErrorKind::Unsupported);
    // One bias of three would be left out in silence.
    assert!(load("blk.0.attn_q.bias", &[32]).unwrap_err().message().contains("attn_k.bias"));
    assert!(load("rope_freqs.weight", &[3]).is_err());
    assert!(load("rope_freqs.weight", &[2, 2]).is_err());
}
