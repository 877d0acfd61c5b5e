//! A published model, SmolLM2-135M-Instruct as its file holds it: tokens, greedy text, and `exact`
//! against `off`.
//!
//! The file is not in the repository. `FFWD_REAL_MODELS` names the folder that
//! `benches/real_models/fetch.py` fills; without it these tests say that they skip.

use ffwd::chat::{ChatOptions, Message};
use ffwd::extract::Extractor;
use ffwd::{Engine, Finish, Mode, Request};
use ffwd_testkit::data::{SMOLLM2, real_model};
use ffwd_testkit::random::Random;

use crate::common::schemas::{SCHEMAS, TEXT};

/// One engine for all tests of this file: loading takes longer than most of them.
fn engine() -> Option<&'static Engine> {
    static ENGINE: std::sync::OnceLock<Option<Engine>> = std::sync::OnceLock::new();
    let load = || Some(Engine::builder().model(real_model(SMOLLM2)?).build().unwrap());
    let engine = ENGINE.get_or_init(load).as_ref();
    if engine.is_none() {
        eprintln!("skipped: no real weights");
    }
    engine
}

/// Texts with the tokens that another implementation, llama.cpp, gives for this file.
const TOKENS: [(&str, &[u32]); 5] = [
    ("Hello, world!", &[19556, 28, 905, 17]),
    (
        "Invoice INV-20417: 1,840.00 EUR\n\tdue 14 March 2024",
        &[
            27017, 9628, 5622, 70, 29, 34, 32, 36, 33, 39, 42, 216, 33, 28, 40, 36, 32, 30, 32, 32, 48007,
            198, 197, 16395, 216, 33, 36, 3903, 216, 34, 32, 34, 36,
        ],
    ),
    (
        "na\u{ef}ve caf\u{e9}, \u{6771}\u{4eac} \u{1f600} ",
        &[3546, 46494, 37366, 28, 17097, 247, 126, 16736, 122, 40303, 218, 216],
    ),
    (
        "x = {\"a\": [1, 2.50, null]}",
        &[104, 446, 9583, 81, 1799, 933, 33, 28, 216, 34, 30, 37, 32, 28, 10034, 28852],
    ),
    ("  two  spaces   and\r\n\r\nlines", &[216, 827, 216, 5600, 256, 284, 7209, 198, 5110]),
];

#[test]
fn the_tokenizer_of_the_file_is_that_of_another_implementation() {
    let Some(engine) = engine() else { return };
    let vocab = engine.vocabulary();
    for (text, tokens) in TOKENS {
        assert_eq!(vocab.encode(text).unwrap(), tokens, "{text:?}");
    }
}

#[test]
fn texts_survive_the_tokenizer() {
    let Some(engine) = engine() else { return };
    let vocab = engine.vocabulary();
    let alphabet: Vec<char> =
        "ab zZ0 19.,:;\"'{}[]\\/\n\t-_\u{e9}\u{df}\u{6771}\u{1f600}\u{200d}".chars().collect();
    let mut random = Random::new(41);
    for _ in 0..300 {
        let text: String = (0..random.below(60)).map(|_| alphabet[random.below(alphabet.len())]).collect();
        let tokens = vocab.encode(&text).unwrap();
        assert_eq!(String::from_utf8(vocab.decode(&tokens)).unwrap(), text);
    }
}

/// Questions with the beginning of the greedy answer that llama.cpp gives.
const ANSWERS: [(&str, &str); 3] = [
    ("Write one sentence about rain.", "The rain is a powerful and unpredictable"),
    ("Count from one to ten.", "1. 1\n2. 2\n3. 3\n"),
    ("Name three colours.", "1. Red: "),
];

#[test]
fn greedy_answers_are_those_of_another_implementation() {
    let Some(engine) = engine() else { return };
    for (question, answer) in ANSWERS {
        let prompt = engine.chat_prompt(&[Message::user(question)], &ChatOptions::default()).unwrap();
        let output = engine.generate(&Request::new(prompt).mode(Mode::Off).max_tokens(24)).unwrap();
        assert!(output.text.starts_with(answer), "{question:?} gives {:?}", output.text);
    }
}

#[test]
fn exact_writes_what_off_writes() {
    let Some(engine) = engine() else { return };
    let mut saved = [0, 0];
    for schema in SCHEMAS {
        let extractor = Extractor::builder(engine).open_objects().build(schema).unwrap();
        let request = || extractor.request(TEXT).unwrap().max_tokens(48);
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        for exact in [request(), request().without_gate()] {
            let exact = engine.generate(&exact).unwrap();
            assert_eq!((&exact.text, &exact.tokens), (&off.text, &off.tokens), "{schema}");
            assert_eq!(exact.finish, off.finish);
            saved[0] += off.stats.forwards;
            saved[1] += exact.stats.forwards;
        }
        if off.finish == Finish::Stop {
            serde_json::from_str::<serde_json::Value>(&off.text).unwrap();
        }
    }
    // The texts are the same whatever this is, but without drafts the comparison would be empty.
    assert!(saved[1] * 3 < saved[0] * 2, "forwards: {} off, {} exact", saved[0], saved[1]);
}

/// The adapter of this project beside the weights as stored: it is found for this base, and the record is
/// right where the base alone may be wrong.
#[test]
fn the_adapter_of_this_base_extracts() {
    let Some(base) = engine() else { return };
    let path = base.path().unwrap();
    let adapted = Engine::builder().model(path).adapter("extract").build().unwrap();
    assert_eq!(adapted.adapter().unwrap().base(), Some("HuggingFaceTB/SmolLM2-135M-Instruct"));
    let text = "Hi Ann, invoice 2024-0831 from Lingua Novum comes to 1,840.00 euros, due on 15 October 2024.";
    let schema = r#"{"type":"object","properties":{"number":{"type":"string"},"vendor":{"type":"string"},
        "total":{"type":"number"},"due":{"type":"string","format":"date"}},
        "required":["number","vendor","total","due"]}"#;
    let extractor = Extractor::builder(&adapted).build(schema).unwrap();
    let off = adapted.generate(&extractor.request(text).unwrap().mode(Mode::Off)).unwrap();
    let exact = adapted.generate(&extractor.request(text).unwrap().without_gate()).unwrap();
    assert_eq!(off.tokens, exact.tokens);
    let record: serde_json::Value = serde_json::from_str(&off.text).unwrap();
    let wanted = serde_json::json!({"number": "2024-0831", "vendor": "Lingua Novum", "total": 1840.0, "due": "2024-10-15"});
    assert_eq!(record, wanted);
    let tokens = adapted.vocabulary().encode(text).unwrap();
    assert!(adapted.adapter().unwrap().untrained_share(&tokens).unwrap() < 0.1);
}
