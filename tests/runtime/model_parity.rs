//! The model runner against `candle-transformers`, and against itself in other shapes.

use candle_core::{DType, Device};
use ffwd::model::{LoadOptions, Model, Precision};
use serde_json::json;

use crate::common::models::{all, config, difference, f32_options, load, tokens, weights};
use crate::families::stock_logits;

/// As in `families.rs`.
const TOLERANCE: f32 = 1e-4;

/// The character model of the examples.
const SHAKESPEARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/shakespeare-char-1m");

#[test]
fn the_embedded_character_model_agrees_with_the_reference() {
    let weights = include_bytes!("../../examples/data/shakespeare-char-1m/model.safetensors");
    let model = Model::from_dir(SHAKESPEARE, &f32_options()).unwrap();
    let tokens = tokens(40, 65, 5);
    let config = include_str!("../../examples/data/shakespeare-char-1m/config.json");
    let weights = candle_core::safetensors::load_buffer(weights, &Device::Cpu).unwrap();
    let want = stock_logits(&serde_json::from_str(config).unwrap(), &weights, &tokens);
    let d = difference(&all(&model, &tokens), &want);
    assert!(d <= TOLERANCE, "{d}");
}

#[test]
fn pieces_at_any_offset_equal_one_pass_bit_for_bit() {
    let config = config("llama", [61, 48, 80, 3, 6, 2, 8], json!({}));
    let models = [
        load(&config, &weights(&config, DType::F32, 9)),
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
fn eight_bit_weights_give_nearly_the_logits_of_the_same_weights_widened() {
    let tokens = tokens(60, 4096, 6);
    for model in [Model::embedded_target, Model::embedded_draft] {
        let f = model(&f32_options()).unwrap();
        let q = model(&LoadOptions::with_precision(Precision::Q8_0)).unwrap();
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
