//! Greedy tokens of published models in single precision against those of another implementation.
//!
//! `benches/real_models/parity.py` writes the files in `reference_tokens/`. The models are not in
//! the repository: `FFWD_REAL_MODELS` names the folder that has them, and tests skip without it.

use ffwd::Vocabulary;
use ffwd::model::{LoadOptions, Model, Precision, vocabulary_of};
use ffwd_testkit::data::real_model;
use serde::Deserialize;

/// Distance of the reference's two largest logits at which either token may come first.
const TIE: f32 = 0.01;

#[derive(Deserialize)]
struct ReferenceFile {
    file: String,
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
    tokens: Vec<u32>,
    greedy: Vec<u32>,
    margins: Vec<f32>,
}

/// Compares all prompts of a reference. Each position sees the reference's tokens before it. Without
/// differences, the model's own greedy tokens are therefore the same.
fn compare(reference: &str) {
    let reference: ReferenceFile = serde_json::from_str(reference).unwrap();
    let Some(path) = real_model(&reference.file) else { return };
    let vocabulary: Vocabulary = vocabulary_of(&path).unwrap();
    let model = Model::from_gguf(&path, &LoadOptions::with_precision(Precision::F32)).unwrap();
    assert!(reference.prompts.len() >= 10);
    let (mut positions, mut ties) = (0, 0);
    for p in &reference.prompts {
        let own: Vec<u32> =
            vocabulary.bos().iter().copied().chain(vocabulary.encode(&p.prompt).unwrap()).collect();
        assert_eq!(own, p.tokens, "{:?}", p.prompt);
        assert_eq!((p.greedy.len(), p.margins.len()), (48, 48));
        let all = [&p.tokens[..], &p.greedy[..47]].concat();
        let rows = p.tokens.len() - 1..all.len();
        let logits = model.forward(&all, &mut model.new_cache().unwrap(), rows).unwrap();
        for (i, row) in logits.iter().enumerate() {
            let best = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap() as u32;
            positions += 1;
            if best != p.greedy[i] {
                let margin = p.margins[i];
                assert!(
                    margin <= TIE,
                    "{:?}, token {i}: {best}, not {}, margin {margin}",
                    p.prompt,
                    p.greedy[i]
                );
                ties += 1;
            }
        }
    }
    eprintln!("{}: {positions} positions, {ties} ties", reference.file);
}

#[test]
fn gemma_3() {
    compare(include_str!("reference_tokens/gemma-3-270m.json"));
}
#[test]
fn smollm2() {
    compare(include_str!("reference_tokens/smollm2-135m.json"));
}

#[test]
fn qwen2_5_coder() {
    compare(include_str!("reference_tokens/qwen2.5-coder-0.5b.json"));
}
