//! Target and draft model: the pairs that work, and the reasons for refusing the others.

use std::path::Path;

use candle_core::DType;
use ffwd::model::embedded::TOKENIZER_JSON;
use ffwd::{Constraint, Engine, ErrorKind, Mode, Prompt, Request};
use serde_json::{Value, json};

use crate::common::models::{config, weights, write_dir};

const VOCAB: usize = 4096;

/// A folder with a model of random weights whose logits have some width.
fn folder(family: &str, width: usize, seed: u64, tokenizer: &Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = config(family, [width, 32, 48, 1, 2, 1, 16], json!({}));
    write_dir(dir.path(), &config, &weights(&config, DType::F32, seed), 1);
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    dir
}

fn tokenizer() -> Value {
    serde_json::from_slice(TOKENIZER_JSON).unwrap()
}

fn engine(target: &Path, draft: &Path) -> ffwd::Result<Engine> {
    Engine::builder().model(target).draft_model(draft).build()
}

#[test]
fn vocabularies_may_be_padded_to_different_widths() {
    let tokenizer = tokenizer();
    let dirs = [VOCAB, VOCAB + 64, VOCAB + 100].map(|width| folder("qwen3", width, 7, &tokenizer));
    let draft = folder("llama", VOCAB + 32, 8, &tokenizer);
    for target in &dirs {
        for draft in dirs.iter().chain([&draft]) {
            let engine = engine(target.path(), draft.path()).unwrap();
            let request = |mode| {
                Request::new(Prompt::text("A list:"))
                    .constraint(Constraint::regex("[a-z]{3,9}(, [a-z]{3,9}){5}").unwrap())
                    .mode(mode)
                    .max_tokens(60)
                    .without_gate()
            };
            let off = engine.generate(&request(Mode::Off)).unwrap();
            let exact = engine.generate(&request(Mode::Exact)).unwrap();
            assert_eq!(off.tokens, exact.tokens);
            assert!(exact.stats.draft_forwards > 0, "the draft model ran: {:?}", exact.stats);
        }
    }
}

#[test]
fn logits_narrower_than_the_vocabulary_are_refused() {
    let tokenizer = tokenizer();
    let (fits, narrow) = (folder("llama", VOCAB, 1, &tokenizer), folder("llama", VOCAB - 1, 1, &tokenizer));
    let e = engine(fits.path(), narrow.path()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Model);
    assert!(e.message().contains("4095") && e.message().contains("4096"), "{e}");
    assert!(engine(narrow.path(), fits.path()).is_err());
}

#[test]
fn other_tokenizers_are_refused_with_the_first_token_that_differs() {
    let tokenizer = tokenizer();
    let target = folder("llama", VOCAB + 8, 1, &tokenizer);
    let refused = |draft: &Value| {
        let draft = folder("llama", VOCAB + 8, 2, draft);
        let e = engine(target.path(), draft.path()).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Model, "{e}");
        assert!(e.hint_text().unwrap().contains("same tokenizer"));
        e.message().to_owned()
    };
    // Two letters changed places.
    let mut other = tokenizer.clone();
    let vocab = other["model"]["vocab"].as_object_mut().unwrap();
    let (a, b) = (vocab["a"].clone(), vocab["b"].clone());
    vocab.insert("a".into(), b);
    vocab.insert("b".into(), a.clone());
    let message = refused(&other);
    assert!(
        message.contains(&format!("token {a} is `a` in the target and `b` in the draft model")),
        "{message}"
    );
    // One more token.
    let mut other = tokenizer.clone();
    other["added_tokens"].as_array_mut().unwrap().push(json!({"id": VOCAB, "content": "<|more|>",
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
    let message = refused(&other);
    assert!(message.contains("token 4096 is nothing in the target and `<|more|>` in the draft"), "{message}");
    // A special token that is text in the other.
    let mut other = tokenizer.clone();
    other["added_tokens"][1]["special"] = false.into();
    let message = refused(&other);
    assert!(message.contains("token 1 is"), "{message}");
    // No tokenizer at all.
    let draft = folder("llama", VOCAB, 2, &tokenizer);
    std::fs::remove_file(draft.path().join("tokenizer.json")).unwrap();
    assert_eq!(engine(target.path(), draft.path()).err().unwrap().kind(), ErrorKind::Io);
}
