//! The forward from candle's tensors, on the processor, against the forward on this crate's kernels.

use std::collections::HashMap;

use candle_core::DType;
use candle_core::quantized::GgmlDType;
use ffwd::model::{Device, KvCache, LoadOptions, Model, Precision, Segment};
use ffwd::{Engine, ErrorKind, Mode, Prompt, Request, extract};
use ffwd_testkit::random::Random;
use serde_json::{Value, json};

use crate::common::gguf::write_gguf_with;
use crate::common::models::{config, difference, f32_options, families, parsed, tokens, weights, write_dir};

/// Both sides compute in f32 with sums of at most a few hundred terms in different orders; logits
/// are of size 1 to 20, so rounding stays near 1e-5 and a real mistake is far above 1e-4.
const TOLERANCE: f32 = 1e-4;

/// The options of this crate's kernels, and those of tensors on the processor.
fn options(precision: Precision) -> [LoadOptions; 2] {
    let kernels = LoadOptions::with_precision(precision);
    [kernels.clone(), LoadOptions { device: Some(Device::Cpu), ..kernels }]
}

/// A random model, by the kernels and by tensors.
fn pair(config: &Value, seed: u64) -> [Model; 2] {
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), config, &weights(config, DType::F32, seed), 1);
    options(Precision::F32).map(|o| Model::from_dir(dir.path(), &o).unwrap())
}

fn cache(model: &Model) -> KvCache {
    model.new_cache().unwrap()
}

/// The logits of all tokens after those in the cache.
fn all(model: &Model, tokens: &[u32], cache: &mut KvCache) -> Vec<Vec<f32>> {
    model.forward(tokens, cache, 0..tokens.len()).unwrap()
}

#[test]
fn every_family_has_the_logits_of_the_kernels() {
    for (i, row) in families("tensors").into_iter().enumerate() {
        let (vocab, config) = (row.vocab(), row.config);
        let [kernels, tensors] = pair(&config, i as u64 + 1);
        let (right, wrong) = (tokens(40, vocab, i as u64 + 7), tokens(9, vocab, i as u64 + 70));
        let want = all(&kernels, &right, &mut cache(&kernels));
        let near = |got: &[Vec<f32>], from: usize, what: &str| {
            let d = difference(got, &want[from..from + got.len()]);
            assert!(d <= TOLERANCE, "{config}, {what} at {from}: {d}");
        };
        near(&all(&tensors, &right, &mut cache(&tensors)), 0, "one pass");
        // Pieces at offsets, each after wrong tokens that are forgotten.
        let (mut held, mut at) = (cache(&tensors), 0);
        for len in [1, 5, 1, 1, 9, 2, 7, 3, 11] {
            all(&tensors, &wrong[..1 + at % 9], &mut held);
            held.truncate(at);
            near(&all(&tensors, &right[at..at + len], &mut held), at, "a piece");
            at += len;
        }
        assert_eq!((at, held.len()), (right.len(), right.len()));
        // Some rows, or none.
        let mut held = cache(&tensors);
        assert!(tensors.forward(&right[..6], &mut held, 2..2).unwrap().is_empty());
        near(&tensors.forward(&right[6..30], &mut held, 4..9).unwrap(), 10, "some rows");
        // A prefix, and a clone that goes its own way.
        let mut prefix = held.prefix(12);
        let mut other = held.clone();
        all(&tensors, &wrong, &mut other);
        near(&all(&tensors, &right[12..15], &mut prefix), 12, "after a prefix");
        near(&all(&tensors, &right[30..], &mut held), 30, "next to a clone");
    }
}

#[test]
fn long_prompts_run_in_chunks() {
    let config = config("mistral", [50, 64, 96, 2, 4, 2, 16], json!({"sliding_window": 300}));
    let [kernels, tensors] = pair(&config, 3);
    let tokens = tokens(600, 50, 4);
    let want = all(&kernels, &tokens, &mut cache(&kernels));
    assert!(difference(&all(&tensors, &tokens, &mut cache(&tensors)), &want) <= TOLERANCE);
}

/// The logits of several sequences, each in a cache with some tokens; then those of more tokens after
/// some were forgotten.
fn batch(model: &Model, seed: u64) -> (Vec<Vec<Vec<f32>>>, Vec<Vec<f32>>) {
    let mut random = Random::new(seed);
    let mut below = |n: usize| random.below(n);
    let sequences: Vec<_> = (0..3)
        .map(|s| {
            let count = 1 + below(9);
            (tokens(below(12), 50, seed + s), tokens(count, 50, seed + s + 10), below(count + 1))
        })
        .collect();
    let mut caches: Vec<KvCache> = sequences
        .iter()
        .map(|(before, ..)| {
            let mut cache = cache(model);
            model.forward(before, &mut cache, 0..0).unwrap();
            cache
        })
        .collect();
    // Few logits of the second row only.
    let only = [Vec::new(), vec![3, 20, 49]];
    let mut segments: Vec<Segment> = sequences
        .iter()
        .zip(&mut caches)
        .map(|((_, tokens, _), cache)| Segment {
            tokens,
            cache,
            rows: 0..tokens.len(),
            only: if tokens.len() > 1 { &only } else { &[] },
        })
        .collect();
    let logits = model.forward_batch(&mut segments).into_iter().map(Result::unwrap).collect();
    let after = sequences.iter().zip(&mut caches).flat_map(|((before, _, kept), cache)| {
        cache.truncate(before.len() + kept);
        let copy = cache.prefix(usize::MAX);
        let mut both = all(model, &[1, 2], cache);
        both.extend(all(model, &[3], &mut { copy }));
        both
    });
    let after = after.collect();
    (logits, after)
}

#[test]
fn sequences_run_together() {
    for (i, more) in [json!({}), json!({"sliding_window": 3})].into_iter().enumerate() {
        let [kernels, tensors] = pair(&config("mistral", [50, 64, 96, 2, 4, 2, 16], more), 5);
        for seed in 0..12 {
            let (want, got) =
                (batch(&kernels, 100 * seed + i as u64), batch(&tensors, 100 * seed + i as u64));
            for (want, got) in want.0.iter().zip(&got.0) {
                let finite = |rows: &[Vec<f32>]| -> Vec<Vec<f32>> {
                    rows.iter().map(|r| r.iter().copied().filter(|l| l.is_finite()).collect()).collect()
                };
                let d = difference(&finite(want), &finite(got));
                assert!(d <= TOLERANCE, "{d}");
            }
            assert!(difference(&want.1, &got.1) <= TOLERANCE);
        }
    }
}

/// The mean of the absolute differences, over the mean of the absolute values.
fn relative(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    let sum = |f: &dyn Fn(f32, f32) -> f32| {
        a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| f(*a, *b)).sum::<f32>()
    };
    sum(&|a, b| (a - b).abs()) / sum(&|_, b| b.abs())
}

/// Candle rounds activations to 8 bits in blocks of 32 or 256, and the kernels in blocks of 32. A
/// value of a block is off by at most 1/254 of the largest: for normal values about 1/100 of a
/// typical one. Two such roundings in each of eight products leave a few per cent of a logit.
const ROUNDED: f32 = 0.05;

#[test]
fn quantised_blocks_are_multiplied_by_candle() {
    let config = config("llama", [64, 256, 512, 2, 4, 2, 64], json!({}));
    let weights = weights(&config, DType::F32, 6);
    let c = parsed(&config);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let tokens = tokens(30, 64, 8);
    /// The type of a tensor by its name.
    type TypeOf = fn(&str) -> GgmlDType;
    let types: [(&str, TypeOf); 5] = [
        ("Q8_0", |_| GgmlDType::Q8_0),
        ("Q4_K", |_| GgmlDType::Q4K),
        ("Q5_0", |_| GgmlDType::Q5_0),
        ("Q6_K", |_| GgmlDType::Q6K),
        // As in most files: the values and the embedding in more bits.
        ("mixed", |name| {
            if name.contains("attn_v") || name.contains("token") { GgmlDType::Q6K } else { GgmlDType::Q4K }
        }),
    ];
    for (name, dtype) in types {
        write_gguf_with(&path, &weights, &c, &dtype);
        let [kernels, tensors] = options(Precision::AsStored).map(|o| Model::from_gguf(&path, &o).unwrap());
        // The same weights widened, without rounding of activations.
        let wide = Model::from_gguf(&path, &f32_options()).unwrap();
        let want = all(&wide, &tokens, &mut cache(&wide));
        let got = all(&tensors, &tokens, &mut cache(&tensors));
        let (off, own) =
            (relative(&got, &want), relative(&all(&kernels, &tokens, &mut cache(&kernels)), &want));
        assert!(off > 0.0 && off <= ROUNDED, "{name}: {off}");
        assert!(own <= ROUNDED, "{name}: {own}");
        // Pieces of every size differ by rounding, too.
        let (mut held, mut pieces) = (cache(&tensors), Vec::new());
        for piece in tokens.chunks(7) {
            pieces.extend(all(&tensors, piece, &mut held));
        }
        let apart = relative(&pieces, &got);
        assert!(apart <= ROUNDED, "{name}: {apart}");
        assert!(tensors.weight_bytes() * 2 < wide.weight_bytes(), "{name}");
    }
}

#[test]
fn half_precision_is_held_as_it_is_stored() {
    let config = config("llama", [50, 64, 96, 2, 4, 2, 16], json!({"tie_word_embeddings": true}));
    let tokens = tokens(30, 50, 8);
    for dtype in [DType::BF16, DType::F16] {
        let dir = tempfile::tempdir().unwrap();
        write_dir(dir.path(), &config, &weights(&config, dtype, 6), 1);
        let [_, stored] = options(Precision::AsStored).map(|o| Model::from_dir(dir.path(), &o).unwrap());
        let [wide, tensors] = options(Precision::F32).map(|o| Model::from_dir(dir.path(), &o).unwrap());
        assert_eq!(stored.weight_bytes() * 2, tensors.weight_bytes());
        let want = all(&wide, &tokens, &mut cache(&wide));
        // The weights are the same numbers, and nothing else is rounded to half precision.
        let d = difference(&all(&stored, &tokens, &mut cache(&stored)), &want);
        assert!(d <= TOLERANCE, "{dtype:?}: {d}");
    }
}

#[test]
fn rows_alone_have_the_same_bits_in_any_batch() {
    let config = config("qwen3", [50, 64, 96, 2, 4, 2, 32], json!({}));
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path(), &config, &weights(&config, DType::F32, 5), 1);
    for precision in [Precision::F32, Precision::Q8_0] {
        let [_, tensors] = options(precision);
        let load = |o: &LoadOptions| Model::from_dir(dir.path(), o).unwrap();
        assert!(!load(&tensors).is_batch_invariant());
        let model = load(&LoadOptions { batch_invariant: true, ..tensors });
        assert!(model.is_batch_invariant());
        let tokens = tokens(40, 50, 6);
        let one_by_one = |tokens: &[u32], held: &mut KvCache| -> Vec<Vec<f32>> {
            tokens.iter().flat_map(|t| all(&model, &[*t], held)).collect()
        };
        let want = one_by_one(&tokens, &mut cache(&model));
        assert!(all(&model, &tokens, &mut cache(&model)) == want);
    }
}

#[test]
fn caches_of_the_other_forward_are_refused() {
    let [kernels, tensors] = pair(&config("llama", [50, 64, 96, 2, 4, 2, 16], json!({})), 5);
    for (model, other) in [(&kernels, &tensors), (&tensors, &kernels)] {
        let error = model.forward(&[1], &mut cache(other), 0..1).unwrap_err();
        assert!(error.to_string().contains("another model"), "{error}");
        let error = model.forward(&[50], &mut cache(model), 0..1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        let error = model.forward(&[1; 641], &mut cache(model), 0..1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PromptTooLong);
    }
    assert!(tensors.cache_bytes(100) > 0);
}

const TEXT: &str = include_str!("../../examples/data/invoice.txt");
const SCHEMA: &str = include_str!("../../examples/data/invoice.schema.json");

fn engine(batch_invariant: bool) -> Engine {
    let options = LoadOptions { device: Some(Device::Cpu), batch_invariant, ..LoadOptions::default() };
    Engine::builder().options(options).build().unwrap()
}

#[test]
fn the_embedded_models_give_the_same_record() {
    let kernels = Engine::builder().build().unwrap();
    let want = kernels.generate(&extract::embedded::request(SCHEMA, TEXT).unwrap()).unwrap();
    for batch_invariant in [false, true] {
        let engine = engine(batch_invariant);
        for mode in [Mode::Off, Mode::Exact] {
            let got = engine.generate(&extract::embedded::request(SCHEMA, TEXT).unwrap().mode(mode)).unwrap();
            assert_eq!(got.text, want.text, "{mode:?}, {batch_invariant}");
        }
    }
}

#[test]
fn exact_is_off_where_rows_run_alone() {
    let engine = engine(true);
    let mut drafted = 0;
    for i in 0..6 {
        let text: String = TEXT.chars().skip(i * 17).take(80).collect();
        let request = || Request::new(Prompt::text(&text)).max_tokens(30);
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        let exact = engine.generate(&request().without_gate().source(off.text.clone())).unwrap();
        assert_eq!(exact.tokens, off.tokens);
        drafted += exact.stats.drafted;
    }
    assert!(drafted > 20, "{drafted}");
}

#[test]
fn a_missing_tensor_is_named() {
    let config = config("llama", [50, 64, 96, 2, 4, 2, 16], json!({}));
    let dir = tempfile::tempdir().unwrap();
    let mut missing: HashMap<_, _> = weights(&config, DType::F32, 5);
    missing.remove("model.layers.1.mlp.up_proj.weight");
    write_dir(dir.path(), &config, &missing, 1);
    let [_, tensors] = options(Precision::F32);
    let error = Model::from_dir(dir.path(), &tensors).unwrap_err();
    assert!(error.to_string().contains("model.layers.1.mlp.up_proj.weight"), "{error}");
}
