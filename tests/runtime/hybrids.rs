//! Families with recurrent layers or experts on random weights, against `transformers`
//! (`hybrids/make_reference.py`): logits in one pass, in chunks at offsets, after the cache was cut back,
//! copied and restored; greedy text; GGUF files; and drafts that are mostly wrong.

use std::collections::{BTreeMap, HashMap};

use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use ffwd::model::{KvCache, Model, embedded};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, Mode, Prompt, Request};
use ffwd_testkit::random::Random;
use serde::Deserialize;
use serde_json::Value;

use crate::common::gguf::write_gguf;
use crate::common::models::{all, check_rows_alone, difference, f32_options, load, noise, parsed, tokens};
use crate::common::schemas::TEXT;
use crate::exactness::{adversary, check};

/// As in `families.rs`.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Reference {
    config: Value,
    /// Names and shapes of the tensors.
    tensors: BTreeMap<String, Vec<usize>>,
    /// Logits at some positions of the random tokens.
    rows: BTreeMap<usize, Vec<f32>>,
    /// What follows the first five of them, greedily.
    text: Vec<u32>,
}

impl Reference {
    fn kind(&self) -> &str {
        self.config["model_type"].as_str().unwrap()
    }

    /// The weights of `make_reference.py`.
    fn weights(&self) -> HashMap<String, Tensor> {
        let less_one = self.kind() == "qwen3_5_text";
        let one = |(number, (name, shape)): (usize, (&String, &Vec<usize>))| {
            let (scale, shift) = match &shape[..] {
                [.., _, inputs] => (1.7 / (*inputs as f64).sqrt(), 0.0),
                _ if name.ends_with("A_log") || name.ends_with("dt_bias") => (1.0, 0.0),
                _ if less_one && !name.ends_with("linear_attn.norm.weight") => (0.3, 0.0),
                _ => (0.3, 1.0),
            };
            let mut next = noise(number as u64);
            let count = shape.iter().product();
            let numbers = (0..count).map(|_| (f64::from(next()) * scale + shift) as f32);
            let tensor = Tensor::from_vec(numbers.collect::<Vec<f32>>(), &shape[..], &Device::Cpu);
            (name.clone(), tensor.unwrap())
        };
        self.tensors.iter().enumerate().map(one).collect()
    }

    fn tokens(&self) -> Vec<u32> {
        tokens(150, self.config["vocab_size"].as_u64().unwrap() as usize, 77)
    }
}

fn references() -> Vec<Reference> {
    let lines = include_str!("hybrids/reference.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Appends tokens in pieces, and returns the logits of all.
fn pieces(model: &Model, cache: &mut KvCache, tokens: &[u32], size: usize) -> Vec<Vec<f32>> {
    tokens.chunks(size).flat_map(|piece| model.forward(piece, cache, 0..piece.len()).unwrap()).collect()
}

#[test]
fn logits_and_greedy_text_are_those_of_transformers() {
    for reference in references() {
        let (model, input) = (load(&reference.config, &reference.weights()), reference.tokens());
        let what = reference.kind();
        let one_pass = all(&model, &input);
        let got: Vec<Vec<f32>> = reference.rows.keys().map(|row| one_pass[*row].clone()).collect();
        let want: Vec<Vec<f32>> = reference.rows.values().cloned().collect();
        let d = difference(&got, &want);
        assert!(d <= TOLERANCE, "{what}: {d}");
        for size in [1, 3, 64] {
            let got = pieces(&model, &mut model.new_cache().unwrap(), &input, size);
            assert!(got == one_pass, "{what}: pieces of {size}");
        }
        let largest = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap() as u32;
        let mut cache = model.new_cache().unwrap();
        let mut next = largest(&model.forward(&input[..5], &mut cache, 4..5).unwrap()[0]);
        for (i, want) in reference.text.iter().enumerate() {
            assert_eq!(next, *want, "{what}: token {i}");
            next = largest(&model.forward(&[next], &mut cache, 0..1).unwrap()[0]);
        }
    }
}

/// Cuts of all lengths, near and far, between forwards of all lengths: always the bits of one pass.
#[test]
fn a_cache_that_is_cut_back_or_copied_equals_a_fresh_one() {
    for reference in references() {
        let model = load(&reference.config, &reference.weights());
        let vocab = model.config().vocab_size;
        let (right, wrong) = (tokens(600, vocab, 3), tokens(600, vocab, 4));
        let want = all(&model, &right);
        let (mut random, mut cache, mut at) = (Random::new(5), model.new_cache().unwrap(), 0);
        for step in 0..60 {
            // A draft of which a part is right.
            let longest = if random.chance(20) { 300 } else { 12 };
            let (good, bad) = (1 + random.below(longest), random.below(longest));
            let (good, bad) = (good.min(600 - at), bad.min(600 - at - good.min(600 - at)));
            let draft = [&right[at..at + good], &wrong[..bad]].concat();
            let got = model.forward(&draft, &mut cache, 0..good).unwrap();
            assert!(got == want[at..at + good], "{}: step {step} at {at}", reference.kind());
            cache.truncate(at + good);
            at += good;
            if random.chance(20) || at == 600 {
                at = random.below(at);
                match random.chance(50) {
                    true => cache.truncate(at),
                    false => cache = cache.prefix(at),
                }
            }
        }
        // A copy of what was cut back without a forward since.
        cache.truncate(at.min(40));
        let mut copy = cache.prefix(at.min(30));
        let at = copy.len();
        assert!(pieces(&model, &mut copy, &right[at..100], 7) == want[at..100]);
        let bound = model.cache_bytes(600) + 600 * 4 * 2;
        assert!(cache.bytes() <= bound, "{} of {bound}", cache.bytes());
    }
}

#[test]
fn a_forward_that_fails_leaves_the_cache_as_it_was() {
    for reference in references() {
        let model = load(&reference.config, &reference.weights());
        let input = reference.tokens();
        let want = all(&model, &input);
        let faulty = model.clone().with_logits_hook(|tokens, _, _| {
            assert!(tokens.len() != 7, "the hook fails");
            Ok(())
        });
        let mut cache = model.new_cache().unwrap();
        model.forward(&input[..100], &mut cache, 0..0).unwrap();
        for at in [100, 90, 20] {
            cache.truncate(at);
            faulty.forward(&input[..7], &mut cache, 0..1).unwrap_err();
            assert_eq!(cache.len(), at);
            let got = model.forward(&input[at..at + 10], &mut cache, 0..10).unwrap();
            assert!(got == want[at..at + 10], "{}: at {at}", reference.kind());
        }
    }
}

#[test]
fn gguf_files_hold_the_same_model() {
    for reference in references() {
        let (weights, input) = (reference.weights(), reference.tokens());
        let model = load(&reference.config, &weights);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.gguf");
        write_gguf(&path, &weights, &parsed(&reference.config), GgmlDType::F32);
        let from_gguf = Model::from_gguf(&path, &f32_options()).unwrap();
        let mut config = model.config().clone();
        // The tests' files name no ends, and no files have this switch.
        config.eos.clear();
        config.experts.iter_mut().for_each(|experts| experts.normed = true);
        assert_eq!(*from_gguf.config(), config);
        if model.config().experts.is_some_and(|experts| !experts.normed) {
            continue;
        }
        let (got, want) = (all(&from_gguf, &input), all(&model, &input));
        let d = difference(&got, &want);
        // Value heads in another order are added up in another order, and rates are rounded.
        assert!(d <= if config.delta.is_none() { 0.0 } else { TOLERANCE }, "{}: {d}", reference.kind());
        check_rows_alone(&from_gguf, &input, &got, reference.kind());
    }
}

/// Files of llama.cpp's own converter, `0.gguf` and so on in the order of the references, in the folder
/// that `FFWD_CONVERTED` names: `make_reference.py FOLDER` writes the models to convert.
#[test]
fn files_of_the_converter_hold_the_same_model() {
    let Some(folder) = std::env::var_os("FFWD_CONVERTED") else { return };
    for (i, reference) in references().into_iter().enumerate() {
        let file = std::path::Path::new(&folder).join(format!("{i}.gguf"));
        let got = all(&Model::from_gguf(file, &f32_options()).unwrap(), &reference.tokens());
        let want = all(&load(&reference.config, &reference.weights()), &reference.tokens());
        // The files do not have the switch of this one.
        let same = reference.config["norm_topk_prob"] != false;
        assert_eq!(difference(&got, &want) <= TOLERANCE, same, "{i}");
    }
}

/// `exact` gives the tokens of `off`, whatever is drafted and rejected.
#[test]
fn adversarial_drafts_change_nothing() {
    let vocab = embedded::vocabulary().unwrap();
    for mut reference in references() {
        reference.config["vocab_size"] = vocab.len().into();
        for name in ["model.embed_tokens.weight", "lm_head.weight"] {
            reference.tensors.entry(name.to_owned()).and_modify(|shape| shape[0] = vocab.len());
        }
        let model = load(&reference.config, &reference.weights());
        let engine = Engine::from_parts(model, None, vocab.clone()).unwrap();
        let schema = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
            "kind": {"enum": ["invoice", "letter"]}, "total": {"type": "integer"}}, "required": ["name", "kind",
            "total"], "additionalProperties": false}"#;
        let constraint = Constraint::json_schema(schema).unwrap();
        for seed in 0..3 {
            let sampling =
                SamplingParams { temperature: seed as f32 * 0.5, seed, ..SamplingParams::default() };
            let request = || {
                let request = Request::new(Prompt::text(TEXT)).constraint(constraint.clone()).max_tokens(90);
                request.sampling(sampling.clone())
            };
            let off = engine.generate(&request().mode(Mode::Off)).unwrap();
            for kind in 0..4 {
                let source = adversary(&off, vocab.len(), kind, 99 + kind as u64);
                let drafted = request().without_gate().max_draft(40).draft_override(source);
                check(&engine.generate(&drafted).unwrap(), &off, &format!("{}, {kind}", reference.kind()));
            }
            let forced = engine.generate(&request().without_gate().lookup(false)).unwrap();
            check(&forced, &off, reference.kind());
            assert!(forced.stats.forwards < off.stats.forwards, "{}", reference.kind());
        }
    }
}

/// A published file names its text part, and has tensors besides it.
#[test]
fn the_text_part_of_a_model_with_images_loads() {
    for reference in references().iter().filter(|r| r.kind() == "qwen3_5_text") {
        let weights = reference.weights();
        let want = all(&load(&reference.config, &weights), &reference.tokens());
        let rename = |(name, tensor): (String, Tensor)| match name.strip_prefix("model.") {
            Some(rest) => (format!("model.language_model.{rest}"), tensor),
            None => (name, tensor),
        };
        let mut named: HashMap<String, Tensor> = weights.into_iter().map(rename).collect();
        let more = Tensor::zeros((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
        named.insert("model.visual.blocks.0.attn.qkv.weight".into(), more.clone());
        named.insert("mtp.fc.weight".into(), more);
        let config = serde_json::json!({
            "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
            "tie_word_embeddings": reference.config["tie_word_embeddings"], "vision_config": {"depth": 1},
            "text_config": reference.config,
        });
        assert!(all(&load(&config, &named), &reference.tokens()) == want);
    }
}
