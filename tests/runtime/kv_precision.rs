//! Keys and values in half precision: half of the memory, nearly the same logits, and the same text
//! in `exact` and `off`.

use ffwd::model::{KvPrecision, LoadOptions, Model, Precision};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, ErrorKind, Mode, Prompt, Request, extract};

use crate::common::schemas::SCHEMAS;

fn options(kv: KvPrecision) -> LoadOptions {
    LoadOptions { kv, ..LoadOptions::default() }
}

#[test]
fn halves_take_half_of_the_memory_and_change_logits_little() {
    // Single precision, where no activation is rounded: a small change could flip its rounding.
    let options = |kv| LoadOptions { precision: Precision::F32, ..options(kv) };
    let [single, half] =
        [KvPrecision::F32, KvPrecision::F16].map(|kv| Model::embedded_target(&options(kv)).unwrap());
    for positions in [1, 256, 300] {
        assert_eq!(single.cache_bytes(positions), 2 * half.cache_bytes(positions));
    }
    let c = single.config();
    assert_eq!(half.cache_bytes(256), 256 * 2 * c.layers * c.kv_heads * c.head_dim * 2);
    let tokens: Vec<u32> = (0..150).map(|i| 3 + i * 7 % 500).collect();
    let run = |model: &Model| {
        let mut cache = model.new_cache().unwrap();
        let logits = model.forward(&tokens, &mut cache, 0..tokens.len()).unwrap();
        (logits, cache)
    };
    let ((want, singles), (got, halves)) = (run(&single), run(&half));
    assert_eq!(singles.bytes(), 2 * halves.bytes());
    let difference = |(a, b): (&f32, &f32)| (a - b).abs();
    let most = want.iter().flatten().zip(got.iter().flatten()).map(difference).fold(0.0, f32::max);
    // Halves have eleven bits, and logits are of size 1 to 20.
    assert!(0.0 < most && most < 0.1, "{most}");
    // A cache belongs to the format of its model.
    let mut other = single.new_cache().unwrap();
    assert_eq!(half.forward(&[1], &mut other, 0..1).unwrap_err().kind(), ErrorKind::Model);
}

#[test]
fn halves_have_the_same_bits_in_any_forward() {
    let model = Model::embedded_target(&options(KvPrecision::F16)).unwrap();
    if !model.is_batch_invariant() {
        return;
    }
    let tokens: Vec<u32> = (0..90).map(|i| 3 + i * 11 % 700).collect();
    let mut cache = model.new_cache().unwrap();
    let want = model.forward(&tokens, &mut cache, 0..tokens.len()).unwrap();
    for step in [1, 7, 33] {
        let mut pieces = model.new_cache().unwrap();
        let mut got = Vec::new();
        for piece in tokens.chunks(step) {
            got.extend(model.forward(piece, &mut pieces, 0..piece.len()).unwrap());
        }
        assert_eq!(got, want, "{step} at a time");
    }
    for len in [1, 16, 50] {
        let mut copy = cache.prefix(len);
        let mut cut = cache.clone();
        cut.truncate(len);
        for cache in [&mut copy, &mut cut] {
            let got = model.forward(&tokens[len..], cache, 0..tokens.len() - len).unwrap();
            assert_eq!(got, want[len..], "after {len}");
        }
    }
}

#[test]
fn exact_equals_off_with_halves() {
    let engine = Engine::builder().options(options(KvPrecision::F16)).build().unwrap();
    if !engine.target().is_batch_invariant() {
        return;
    }
    let text = "Invoice INV-20417 from Bright Glacier Consulting, issued 14 March 2024, 1,840.00 EUR.";
    let names = Constraint::regex("[A-Z][a-z]+( [A-Z][a-z]+){0,3}").unwrap();
    let mut accepted = 0;
    for (i, schema) in SCHEMAS.iter().enumerate() {
        for seed in 0..3 {
            let temperature = seed as f32 * 0.6;
            let sampling = SamplingParams { temperature, seed, ..SamplingParams::default() };
            for as_record in [true, false] {
                let request = |mode| {
                    let request = match as_record {
                        true => extract::embedded::request(schema, text).unwrap().max_tokens(120),
                        false => Request::new(Prompt::text(text)).constraint(names.clone()).max_tokens(30),
                    };
                    request.sampling(sampling.clone()).mode(mode)
                };
                let off = engine.generate(&request(Mode::Off)).unwrap();
                let exact = engine.generate(&request(Mode::Exact)).unwrap();
                assert_eq!(exact.tokens, off.tokens, "schema {i}, seed {seed}");
                accepted += exact.stats.accepted;
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}
