//! The model runner against `candle-transformers`, and against itself in other shapes.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama as reference;
use ffwd::model::{LoadOptions, Model, ModelConfig, Precision};

use crate::kit::models::{difference, noise, tokens};

/// Both sides compute in f32 with sums of at most a few hundred terms in different orders; logits
/// are of size 1 to 20, so rounding stays near 1e-5 and a real mistake is far above 1e-4.
const TOLERANCE: f32 = 1e-4;

/// The character model of the examples.
const SHAKESPEARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/shakespeare-char-1m");

fn f32_options() -> LoadOptions {
    LoadOptions::with_precision(Precision::F32)
}

/// Writes a model with random weights; returns its configuration.
fn random_model(dir: &Path, shape: [usize; 7], tied: bool, dtype: DType, seed: u64) -> ModelConfig {
    let [vocab, hidden, ffn, layers, heads, kv_heads, head_dim] = shape;
    let json = serde_json::json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": ffn, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": head_dim, "num_hidden_layers": layers, "max_position_embeddings": 640,
        "vocab_size": vocab, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": tied,
    });
    std::fs::write(dir.join("config.json"), json.to_string()).unwrap();
    let mut next = noise(seed);
    let mut map = std::collections::HashMap::new();
    let mut add = |name: String, shape: &[usize]| {
        let n: usize = shape.iter().product();
        // Weights of size 1/sqrt(inputs), norms near 1: activations stay of size 1.
        let scale = if shape.len() == 2 { 1.7 / (shape[1] as f32).sqrt() } else { 0.3 };
        let shift = if shape.len() == 2 { 0.0 } else { 1.0 };
        let data: Vec<f32> = (0..n).map(|_| next() * scale + shift).collect();
        let t = Tensor::from_vec(data, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        map.insert(name, t);
    };
    add("model.embed_tokens.weight".into(), &[vocab, hidden]);
    add("model.norm.weight".into(), &[hidden]);
    if !tied {
        add("lm_head.weight".into(), &[vocab, hidden]);
    }
    for i in 0..layers {
        let name = |s: &str| format!("model.layers.{i}.{s}.weight");
        add(name("self_attn.q_proj"), &[heads * head_dim, hidden]);
        add(name("self_attn.k_proj"), &[kv_heads * head_dim, hidden]);
        add(name("self_attn.v_proj"), &[kv_heads * head_dim, hidden]);
        add(name("self_attn.o_proj"), &[hidden, heads * head_dim]);
        add(name("mlp.gate_proj"), &[ffn, hidden]);
        add(name("mlp.up_proj"), &[ffn, hidden]);
        add(name("mlp.down_proj"), &[hidden, ffn]);
        add(name("input_layernorm"), &[hidden]);
        add(name("post_attention_layernorm"), &[hidden]);
    }
    candle_core::safetensors::save(&map, dir.join("model.safetensors")).unwrap();
    ModelConfig::from_json(json.to_string().as_bytes()).unwrap()
}

/// Logits of every position by the reference implementation.
fn reference_logits(weights: &[u8], c: &ModelConfig, tokens: &[u32]) -> Vec<Vec<f32>> {
    let config = reference::Config {
        hidden_size: c.hidden,
        intermediate_size: c.feed_forward,
        vocab_size: c.vocab_size,
        num_hidden_layers: c.layers,
        num_attention_heads: c.heads,
        num_key_value_heads: c.kv_heads,
        use_flash_attn: false,
        rms_norm_eps: f64::from(c.norm_eps),
        rope_theta: c.rope_theta,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: c.context,
        tie_word_embeddings: c.tied_embeddings,
    };
    let vb = VarBuilder::from_buffered_safetensors(weights.to_vec(), DType::F32, &Device::Cpu).unwrap();
    let model = reference::Llama::load(vb, &config).unwrap();
    (1..=tokens.len())
        .map(|n| {
            let mut cache = reference::Cache::new(false, DType::F32, &config, &Device::Cpu).unwrap();
            let x = Tensor::new(&tokens[..n], &Device::Cpu).unwrap().unsqueeze(0).unwrap();
            model.forward(&x, 0, &mut cache).unwrap().squeeze(0).unwrap().to_vec1().unwrap()
        })
        .collect()
}

fn all(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    model.forward(tokens, &mut model.new_cache().unwrap(), 0..tokens.len()).unwrap()
}

#[test]
fn random_models_agree_with_the_reference() {
    // vocab, hidden, ffn, layers, heads, kv_heads, head_dim (the reference fixes hidden / heads)
    let shapes = [
        ([50, 32, 48, 2, 4, 4, 8], true, DType::F32),
        ([97, 64, 96, 3, 8, 2, 8], false, DType::F32),
        ([33, 40, 56, 1, 2, 1, 20], true, DType::F16),
        ([64, 96, 160, 2, 6, 3, 16], false, DType::BF16),
        ([128, 128, 256, 4, 2, 1, 64], true, DType::F32),
    ];
    for (i, (shape, tied, dtype)) in shapes.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let config = random_model(dir.path(), shape, tied, dtype, i as u64 + 1);
        let model = Model::from_dir(dir.path(), &f32_options()).unwrap();
        assert_eq!(model.config(), &config);
        let tokens = tokens(23, config.vocab_size, i as u64 + 77);
        let weights = std::fs::read(dir.path().join("model.safetensors")).unwrap();
        let want = reference_logits(&weights, &config, &tokens);
        assert!(want.iter().flatten().any(|v| v.abs() > 0.3), "the comparison has something to compare");
        let d = difference(&all(&model, &tokens), &want);
        assert!(d <= TOLERANCE, "shape {shape:?}: {d}");
    }
}

#[test]
fn the_embedded_character_model_agrees_with_the_reference() {
    let weights = include_bytes!("../../examples/data/shakespeare-char-1m/model.safetensors");
    let model = Model::from_dir(SHAKESPEARE, &f32_options()).unwrap();
    let tokens = tokens(40, 65, 5);
    let d = difference(&all(&model, &tokens), &reference_logits(weights, model.config(), &tokens));
    assert!(d <= TOLERANCE, "{d}");
}

#[test]
fn pieces_at_any_offset_equal_one_pass_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    random_model(dir.path(), [61, 48, 80, 3, 6, 2, 8], false, DType::F32, 9);
    let models = [
        Model::from_dir(dir.path(), &f32_options()).unwrap(),
        Model::embedded_target(&f32_options()).unwrap(),
        Model::from_dir(SHAKESPEARE, &f32_options()).unwrap(),
        Model::embedded_target(&LoadOptions::with_precision(Precision::Q8_0)).unwrap(),
        Model::embedded_draft(&LoadOptions { batch_invariant: true, ..LoadOptions::default() }).unwrap(),
    ];
    for (i, model) in models.iter().enumerate().filter(|(_, m)| m.is_batch_invariant()) {
        // Longer than a chunk of the runner.
        let tokens = tokens(300, model.config().vocab_size, 3);
        let want = all(model, &tokens);
        for sizes in [&[1][..], &[2], &[3, 1, 4], &[16, 1, 1, 7], &[33, 255], &[256, 44]] {
            let (mut cache, mut got, mut at) = (model.new_cache().unwrap(), Vec::new(), 0);
            for size in sizes.iter().cycle() {
                let end = (at + size).min(tokens.len());
                got.extend(model.forward(&tokens[at..end], &mut cache, 0..end - at).unwrap());
                at = end;
                if at == tokens.len() {
                    break;
                }
            }
            assert_eq!(cache.len(), tokens.len());
            assert!(got == want, "model {i}, pieces {sizes:?}: {}", difference(&got, &want));
        }
    }
    assert!(models[..3].iter().all(|m| m.is_batch_invariant()), "f32 never varies");
}

#[test]
fn a_shortened_cache_equals_a_fresh_one() {
    for model in [
        Model::embedded_target(&f32_options()).unwrap(),
        Model::embedded_target(&LoadOptions { batch_invariant: true, ..LoadOptions::default() }).unwrap(),
    ] {
        let (right, wrong) = (tokens(20, 4096, 1), tokens(9, 4096, 2));
        let want = all(&model, &right);
        let mut cache = model.new_cache().unwrap();
        model.forward(&right[..12], &mut cache, 0..0).unwrap();
        let at_wrong = model.forward(&wrong, &mut cache, 0..9).unwrap();
        assert_ne!(at_wrong[0], want[12], "the wrong tokens matter");
        cache.truncate(99);
        assert_eq!(cache.len(), 21);
        cache.truncate(12);
        let fork = cache.clone();
        for mut cache in [cache, fork] {
            let got = model.forward(&right[12..], &mut cache, 0..8).unwrap();
            assert!(got == want[12..], "{}", difference(&got, &want[12..]));
        }
    }
}

#[test]
fn only_the_requested_rows_are_returned() {
    let model = Model::embedded_target(&f32_options()).unwrap();
    let tokens = tokens(270, 4096, 4);
    let want = all(&model, &tokens);
    for rows in [0..0, 0..1, 269..270, 3..9, 250..262, 270..270, 255..256, 256..257] {
        let mut cache = model.new_cache().unwrap();
        let got = model.forward(&tokens, &mut cache, rows.clone()).unwrap();
        assert_eq!(got, want[rows.clone()], "{rows:?}");
        // Rows without logits still reach the cache in full.
        let next = model.forward(&tokens[..1], &mut cache, 0..1).unwrap();
        let mut full = model.new_cache().unwrap();
        model.forward(&tokens, &mut full, 0..270).unwrap();
        assert_eq!(next, model.forward(&tokens[..1], &mut full, 0..1).unwrap());
    }
}

#[test]
fn gguf_and_safetensors_hold_the_same_model() {
    // A GGUF file written here from a random safetensors model, with the rows of q and k in GGUF's
    // order.
    let dir = tempfile::tempdir().unwrap();
    let shape = [50, 64, 96, 2, 4, 2, 16];
    let config = random_model(dir.path(), shape, false, DType::F32, 14);
    let weights = candle_core::safetensors::load(dir.path().join("model.safetensors"), &Device::Cpu).unwrap();
    let path = dir.path().join("model.gguf");
    crate::kit::gguf::write_gguf(&path, &weights, &config, GgmlDType::F32);
    let tokens = tokens(30, 50, 8);
    let want = all(&Model::from_dir(dir.path(), &f32_options()).unwrap(), &tokens);
    let gguf = Model::from_gguf(&path, &LoadOptions::default()).unwrap();
    assert_eq!(gguf.config().context, config.context);
    assert!(all(&gguf, &tokens) == want, "the same numbers give the same bits");
    // Quantised in the file and quantised while loading are the same model, too.
    let q8 = LoadOptions::with_precision(Precision::Q8_0);
    crate::kit::gguf::write_gguf(&path, &weights, &config, GgmlDType::Q8_0);
    let stored = all(&Model::from_gguf(&path, &LoadOptions::default()).unwrap(), &tokens);
    assert!(stored == all(&Model::from_dir(dir.path(), &q8).unwrap(), &tokens));
    let d = difference(&stored, &want);
    assert!(d > 1e-4, "8-bit weights are used");
    // Logits are of size 1 to 2 here; 8 bits keep a relative error of 1/256 per weight and
    // activation. The largest of 1,500 differences depends on the weights: from 0.07 to 0.17 for
    // the seeds up to 40.
    assert!(d < 0.1, "{d}");
}

#[test]
fn eight_bit_weights_give_nearly_the_logits_of_the_same_weights_widened() {
    let tokens = tokens(60, 4096, 6);
    for load in [Model::embedded_target, Model::embedded_draft] {
        let f = load(&f32_options()).unwrap();
        let q = load(&LoadOptions::with_precision(Precision::Q8_0)).unwrap();
        assert!(q.weight_bytes() * 3 < f.weight_bytes());
        let (want, got) = (all(&f, &tokens), all(&q, &tokens));
        // Activations have 8 bits, off by up to a 254th of their block's largest: about a
        // two-hundredth of their size. Errors of 21 products that have nothing to do with each
        // other add up to four or five times that.
        let square = |rows: &[Vec<f32>]| rows.iter().flatten().map(|v| f64::from(*v).powi(2)).sum::<f64>();
        let off: Vec<Vec<f32>> =
            want.iter().zip(&got).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect()).collect();
        let share = (square(&off) / square(&want)).sqrt();
        eprintln!("off by {share:.4} of the logits' size, at most {}", difference(&got, &want));
        assert!(share > 0.0 && share < 0.03, "{share}");
    }
}

#[test]
fn other_block_formats_run_on_candle() {
    let dir = tempfile::tempdir().unwrap();
    let config = random_model(dir.path(), [64, 256, 256, 2, 4, 2, 64], true, DType::F32, 31);
    let weights = candle_core::safetensors::load(dir.path().join("model.safetensors"), &Device::Cpu).unwrap();
    let path = dir.path().join("model.gguf");
    let tokens = tokens(9, 64, 8);
    let same = LoadOptions { batch_invariant: true, ..LoadOptions::default() };
    for dtype in [GgmlDType::Q4_0, GgmlDType::Q5_0, GgmlDType::Q5_1, GgmlDType::Q3K, GgmlDType::Q5K] {
        crate::kit::gguf::write_gguf(&path, &weights, &config, dtype);
        let want = all(&Model::from_gguf(&path, &f32_options()).unwrap(), &tokens);
        let model = Model::from_gguf(&path, &same).unwrap();
        let got = all(&model, &tokens);
        let d = difference(&got, &want);
        // Candle rounds activations to 8 bits; logits are of size 1.
        assert!(d < 0.1, "{dtype:?}: {d}");
        assert!(model.is_batch_invariant());
        let mut cache = model.new_cache().unwrap();
        for (i, t) in tokens.iter().enumerate() {
            assert!(model.forward(&[*t], &mut cache, 0..1).unwrap()[0] == got[i], "{dtype:?}: row {i}");
        }
    }
}

#[test]
fn misuse_is_an_error_and_leaves_the_cache_alone() {
    use ffwd::ErrorKind;
    let model = Model::from_dir(SHAKESPEARE, &f32_options()).unwrap();
    let mut cache = model.new_cache().unwrap();
    model.forward(&[1, 2, 3], &mut cache, 0..0).unwrap();
    let mut check = |tokens: &[u32], rows, kind| {
        let e = model.forward(tokens, &mut cache, rows).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert_eq!(cache.len(), 3);
    };
    check(&[65], 0..1, ErrorKind::Model);
    check(&[u32::MAX], 0..1, ErrorKind::Model);
    check(&[1; 510], 0..1, ErrorKind::PromptTooLong);
    check(&[1], 0..2, ErrorKind::InvalidOption);
    #[allow(clippy::reversed_empty_ranges)]
    check(&[1, 1], 2..1, ErrorKind::InvalidOption);
    assert!(model.forward(&[], &mut cache, 0..0).unwrap().is_empty());
    assert_eq!(model.forward(&[1; 509], &mut cache, 508..509).unwrap().len(), 1);
    let other = Model::embedded_target(&f32_options()).unwrap();
    assert_eq!(other.forward(&[1], &mut cache, 0..1).unwrap_err().kind(), ErrorKind::Model);
    let short = LoadOptions { max_context: Some(5), ..LoadOptions::default() };
    let short = Model::embedded_draft(&short).unwrap();
    let e = short.forward(&[1; 6], &mut short.new_cache().unwrap(), 0..1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::PromptTooLong);
}

#[test]
fn the_cost_table_has_every_size_that_fits() {
    // What the times are is the machine's business; the benches print them.
    let sizes = |options: &LoadOptions| -> Vec<usize> {
        let model = Model::embedded_target(options).unwrap();
        let costs = model.cost_table();
        assert!(costs.points().iter().all(|p| p.1 > 0.0), "{:?}", costs.points());
        assert!(costs.points().is_sorted_by(|a, b| a.1 <= b.1), "{:?}", costs.points());
        costs.points().iter().map(|p| p.0).collect()
    };
    assert_eq!(sizes(&LoadOptions::default()), [1, 2, 3, 4, 6, 8, 12, 16, 24]);
    assert_eq!(
        sizes(&LoadOptions { max_context: Some(20), ..LoadOptions::default() }),
        [1, 2, 3, 4, 6, 8, 12, 16]
    );
}
