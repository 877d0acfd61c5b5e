//! Families with properties that their stock models lack, against plain loops in double precision:
//! in one pass, in parts at offsets, after the cache was truncated, and from GGUF files.

use candle_core::DType;
use candle_core::quantized::GgmlDType;
use ffwd::ErrorKind;
use ffwd::model::{LoadOptions, Model, ModelConfig, Precision};
use serde_json::{Value, json};

use crate::kit::gguf::write_gguf;
use crate::kit::models::{Shape, config, difference, tokens, weights, write_dir};
use crate::kit::reference::PlainForward;

/// The reference is exact; the runner sums at most a few hundred terms in f32, and logits are of
/// size 1 to 20.
const TOLERANCE: f32 = 1e-4;

struct Variant {
    family: &'static str,
    shape: Shape,
    more: Value,
    /// True if GGUF files can hold it.
    gguf: bool,
}

fn gemma(more: Value) -> Value {
    let mut all = json!({"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
        "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 5,
        "sliding_window_pattern": 6, "tie_word_embeddings": true});
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

/// `longrope` on three quarters of heads of 16 elements.
fn long_rope(original: usize, window: Value) -> Value {
    json!({"partial_rotary_factor": 0.75, "sliding_window": window,
        "original_max_position_embeddings": original,
        "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 1.0, 1.1, 1.2, 1.5, 2.0],
            "long_factor": [1.0, 1.5, 3.0, 8.0, 20.0, 30.0]}})
}

fn variants() -> Vec<Variant> {
    let shape: Shape = [60, 48, 80, 3, 4, 2, 16];
    let v = |family, shape, more, gguf| Variant { family, shape, more, gguf };
    let granite = json!({"embedding_multiplier": 12.0, "attention_multiplier": 0.0625,
        "residual_multiplier": 0.25, "logits_scaling": 8.0, "tie_word_embeddings": true});
    vec![
        v("llama", shape, json!({}), true),
        v("gemma3_text", [60, 48, 80, 7, 4, 1, 16], gemma(json!({})), true),
        v(
            "gemma3_text",
            [60, 48, 80, 7, 4, 1, 16],
            gemma(json!({"rope_scaling":
            {"rope_type": "linear", "factor": 8.0}})),
            true,
        ),
        v(
            "gemma3_text",
            shape,
            gemma(json!({"query_pre_attn_scalar": 24, "sliding_window_pattern": 2,
            "attention_bias": true})),
            false,
        ),
        v("phi3", shape, json!({"partial_rotary_factor": 0.5}), true),
        v("phi3", shape, long_rope(64, Value::Null), true),
        v("phi3", shape, long_rope(640, 7.into()), true),
        v("granite", shape, granite, true),
        v("granite", shape, json!({"attention_bias": true, "residual_multiplier": 0.5}), true),
        v("olmo2", shape, json!({}), true),
        v("smollm3", [60, 48, 80, 5, 4, 2, 16], json!({"no_rope_layer_interval": 4}), true),
        v("smollm3", shape, json!({"no_rope_layers": [1, 0, 0], "tie_word_embeddings": true}), false),
    ]
}

#[test]
fn every_family_has_the_logits_of_its_definition() {
    let options = LoadOptions::with_precision(Precision::F32);
    for (i, variant) in variants().into_iter().enumerate() {
        let config = config(variant.family, variant.shape, variant.more);
        let weights = weights(&config, DType::F32, i as u64 + 1);
        let dir = tempfile::tempdir().unwrap();
        write_dir(dir.path(), &config, &weights, 1 + i % 2);
        let model = Model::from_dir(dir.path(), &options).unwrap();
        let right = tokens(40, variant.shape[0], i as u64 + 50);
        let wrong = tokens(40, variant.shape[0], i as u64 + 150);
        let want = PlainForward::new(&config, &weights).logits(&right);
        assert!(want.iter().flatten().any(|v| v.abs() > 0.1), "there is something to compare");
        let one_pass = model.forward(&right, &mut model.new_cache().unwrap(), 0..40).unwrap();
        let d = difference(&one_pass, &want);
        assert!(d <= TOLERANCE, "{config}: {d}");
        // In pieces at offsets.
        let (mut cache, mut at) = (model.new_cache().unwrap(), 0);
        for size in [7, 1, 1, 5, 1, 9, 16] {
            let got = model.forward(&right[at..at + size], &mut cache, 0..size).unwrap();
            assert!(got == one_pass[at..at + size], "{config}: piece of {size} at {at}");
            at += size;
        }
        // Cut back, something else, cut back again.
        cache.truncate(11);
        model.forward(&wrong[..20], &mut cache, 0..0).unwrap();
        cache.truncate(11);
        let got = model.forward(&right[11..], &mut cache, 0..29).unwrap();
        assert!(got == one_pass[11..], "{config}: after truncation");
        if variant.gguf {
            let path = dir.path().join("model.gguf");
            let c = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
            write_gguf(&path, &weights, &c, GgmlDType::F32);
            let model = Model::from_gguf(&path, &options).unwrap();
            assert_eq!(*model.config(), c);
            let got = model.forward(&right, &mut model.new_cache().unwrap(), 0..40).unwrap();
            assert!(got == one_pass, "{config}: the same numbers give the same bits");
        }
    }
}

/// The context decides between the two lists, so that keys in a cache stay valid as a text grows.
#[test]
fn long_rope_follows_the_context_that_is_asked_for() {
    let config = config("phi3", [60, 48, 80, 2, 4, 2, 16], long_rope(64, Value::Null));
    let weights = weights(&config, DType::F32, 3);
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), &config, &weights, 1);
    let tokens = tokens(40, 60, 5);
    let load = |max_context| {
        let options = LoadOptions { max_context, ..LoadOptions::with_precision(Precision::F32) };
        let model = Model::from_dir(dir.path(), &options).unwrap();
        model.forward(&tokens, &mut model.new_cache().unwrap(), 0..40).unwrap()
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
    let load = |family: &str, more: Value, extra: &[(&str, candle_core::quantized::gguf_file::Value)]| {
        let config = config(family, [60, 48, 80, 2, 4, 2, 16], more);
        let weights = weights(&config, DType::F32, 3);
        let c = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
        crate::kit::gguf::write_gguf_more(&path, &weights, &c, &|_| GgmlDType::F32, extra);
        Model::from_gguf(&path, &LoadOptions::default()).map(|m| m.config().clone())
    };
    use candle_core::quantized::gguf_file::Value as Meta;
    let text = |s: &str| Meta::String(s.into());
    for (family, key, value) in [
        ("phi3", "phi3.rope.scaling.type", text("yarn")),
        ("olmo2", "olmo2.rope.scaling.type", text("yarn")),
        ("olmo2", "olmo2.attention.sliding_window", Meta::U32(64)),
        ("granite", "granite.expert_count", Meta::U32(4)),
        ("smollm3", "smollm3.rope.dimension_count", Meta::U32(8)),
        ("gemma3_text", "gemma3.final_logit_softcapping", Meta::F32(30.0)),
    ] {
        let more = if family == "gemma3_text" { gemma(json!({})) } else { json!({}) };
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
    // One list of divisors without the other.
    let config = config("phi3", [60, 48, 80, 2, 4, 2, 16], json!({}));
    let mut weights = weights(&config, DType::F32, 3);
    let c = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
    let ones = candle_core::Tensor::ones(8, DType::F32, &candle_core::Device::Cpu).unwrap();
    weights.insert("rope_factors_long.weight".into(), ones.clone());
    write_gguf(&path, &weights, &c, GgmlDType::F32);
    assert!(Model::from_gguf(&path, &LoadOptions::default()).is_err());
    weights.insert("rope_factors_short.weight".into(), ones);
    write_gguf(&path, &weights, &c, GgmlDType::F32);
    assert!(Model::from_gguf(&path, &LoadOptions::default()).is_ok());
    let short = candle_core::Tensor::ones(7, DType::F32, &candle_core::Device::Cpu).unwrap();
    weights.insert("rope_factors_short.weight".into(), short);
    write_gguf(&path, &weights, &c, GgmlDType::F32);
    assert!(Model::from_gguf(&path, &LoadOptions::default()).is_err());
}
