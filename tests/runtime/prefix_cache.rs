//! Prompts with a known beginning are not read again, and only the time shows it.

use std::sync::Arc;

use ffwd::constraint::token_machine::Labels;
use ffwd::decode::{BeamOptions, CancelToken, LabelOptions, Ranked};
use ffwd::model::embedded;
use ffwd::model::{LoadOptions, Model, Precision};
use ffwd::sample::SamplingParams;
use ffwd::{Engine, Finish, Mode, Output, Prompt, Request, extract};

const SCHEMA: &str = include_str!("../../examples/data/invoice.schema.json");
const TEXT: &str = include_str!("../../examples/data/invoice.txt");
/// Texts under one schema, one of them twice.
const TEXTS: [&str; 6] = [
    TEXT,
    "Invoice INV-1 of Acme for Jo Doe, 2024-01-02, total 12.50 EUR",
    "Invoice INV-2 of Bolt AG for Ann Poe, dated 2023-11-30. Total: 99.00 USD",
    TEXT,
    "Nothing of the kind.",
    ".",
];

fn request(text: &str) -> Request {
    extract::embedded::request(SCHEMA, text).unwrap()
}

/// What must not depend on what was read before.
fn same(a: &Output, b: &Output) {
    assert_eq!((&a.text, &a.tokens, &a.finish), (&b.text, &b.tokens, &b.finish));
    assert_eq!(a.logprobs, b.logprobs, "{}", a.text);
}

#[test]
fn outputs_are_those_of_an_engine_that_keeps_nothing() {
    for precision in [Precision::Q8_0, Precision::F32] {
        let options = LoadOptions::with_precision(precision);
        let keeps = Engine::builder().options(options.clone()).build().unwrap();
        let forgets = Engine::builder().options(options).prefix_bytes(0).build().unwrap();
        let kinds: [fn(Request) -> Request; 6] = [
            |r| r.mode(Mode::Off).logprobs(true),
            |r| r,
            |r| r.mode(Mode::Canonical),
            |r| r.sampling(SamplingParams { temperature: 0.9, seed: 7, ..SamplingParams::default() }),
            |r| r.draft_model(false).logprobs(true),
            |r| r.max_tokens(5),
        ];
        let mut cached = 0;
        for (i, text) in TEXTS.iter().enumerate() {
            for kind in kinds {
                let output = keeps.generate(&kind(request(text))).unwrap();
                let want = forgets.generate(&kind(request(text))).unwrap();
                same(&output, &want);
                assert_eq!(want.stats.prompt_cached, 0);
                assert!(output.stats.prompt_cached < output.stats.prompt_tokens);
                assert!(
                    i < 1 || output.stats.prompt_cached > 16,
                    "the schema is known from the second text on"
                );
                cached += output.stats.prompt_cached;
            }
        }
        assert!(cached > 2000, "{cached}");
        assert!(keeps.prefix_bytes() > 0 && forgets.prefix_bytes() == 0);
    }
}

#[test]
fn several_outputs_are_those_of_an_engine_that_keeps_nothing() {
    let (keeps, forgets) = (Engine::embedded().unwrap(), Engine::embedded().unwrap().with_prefix_bytes(0));
    let sampling = SamplingParams { temperature: 0.8, seed: 3, ..SamplingParams::default() };
    let same = |a: Ranked, b: Ranked| {
        let of = |r: &Ranked| {
            r.outputs
                .iter()
                .map(|s| (s.output.tokens.clone(), s.log_probability.to_bits()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&a), of(&b));
        assert_eq!(a.forwards, b.forwards);
    };
    let beams = BeamOptions::default();
    for text in TEXTS {
        let sampled = || request(text).max_tokens(40).mode(Mode::Off).sampling(sampling.clone());
        same(keeps.best_of(&sampled(), 3).unwrap(), forgets.best_of(&sampled(), 3).unwrap());
        let searched = || request(text).max_tokens(40);
        same(
            keeps.beam_search(&searched(), 2, &beams).unwrap(),
            forgets.beam_search(&searched(), 2, &beams).unwrap(),
        );
    }
    assert!(keeps.prefix_bytes() > 0 && forgets.prefix_bytes() == 0);
    let ranked = keeps.best_of(&request(TEXT).max_tokens(40).sampling(sampling), 2).unwrap();
    assert!(ranked.outputs.iter().all(|s| s.output.stats.prompt_cached > 16));
}

#[test]
fn labels_have_the_probabilities_they_have_without() {
    let keeps = Engine::embedded().unwrap();
    let forgets = Engine::builder().prefix_bytes(0).build().unwrap();
    let labels = Labels::new(["invoice", "invoice reminder", "letter", "order > chairs", "order > lamps"]);
    let trie = keeps.label_trie(&labels).unwrap();
    for top in [None, Some(2)] {
        for text in TEXTS {
            let options = LabelOptions { top, ..LabelOptions::default() };
            let prompt =
                Prompt::text(format!("{}\n\n{text}\n\nTopic:", "Which of our topics is it? ".repeat(4)));
            let [got, want] =
                [&keeps, &forgets].map(|e| e.label_probabilities(&prompt, &trie, &options).unwrap());
            assert_eq!(format!("{got:?}"), format!("{want:?}"), "{text}");
        }
    }
    assert!(keeps.prefix_bytes() > 0 && forgets.prefix_bytes() == 0);
}

#[test]
fn what_is_kept_is_bounded() {
    let most = 1 << 20;
    let engine = Engine::builder().prefix_bytes(most).build().unwrap();
    for i in 0..40 {
        let text = format!("{i}: {}", "some words and others ".repeat(i % 7 * 8));
        for _ in 0..3 {
            let request = Request::new(Prompt::text(&text)).max_tokens(2);
            engine.generate(&request).unwrap();
            assert!(engine.prefix_bytes() <= most, "{}", engine.prefix_bytes());
        }
    }
    assert!(engine.prefix_bytes() > most / 4, "something is kept");
}

#[test]
fn threads_share_what_is_kept() {
    let engine = Arc::new(Engine::embedded().unwrap());
    let forgets = Engine::builder().prefix_bytes(0).build().unwrap();
    let want: Vec<Output> = TEXTS.iter().map(|t| forgets.generate(&request(t)).unwrap()).collect();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                let order = (0..3 * TEXTS.len()).map(|i| (i * (thread + 1) + thread) % TEXTS.len());
                order.map(|i| (i, engine.generate(&request(TEXTS[i])).unwrap())).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut cached = 0;
    for (i, output) in threads.into_iter().flat_map(|t| t.join().unwrap()) {
        same(&output, &want[i]);
        cached += usize::from(output.stats.prompt_cached > 0);
    }
    assert!(cached > 60, "{cached} of 72");
}

#[test]
fn what_did_not_get_through_the_model_is_not_kept() {
    let engine = Engine::embedded().unwrap();
    for _ in 0..3 {
        let cancel = CancelToken::new();
        cancel.cancel();
        let output = engine.generate(&request(TEXT).cancel(&cancel)).unwrap();
        assert!(matches!(output.finish, Finish::Cancelled { .. }));
        assert_eq!((output.stats.prompt_cached, engine.prefix_bytes()), (0, 0));
    }
    // And one whose forwards fail keeps nothing either.
    let target = Model::embedded_target(&LoadOptions::default()).unwrap();
    let broken = target.with_logits_hook(|_, _, logits| {
        logits.iter_mut().for_each(|row| row.fill(f32::NAN));
        Ok(())
    });
    let engine = Engine::from_parts(broken, None, embedded::vocabulary().unwrap()).unwrap();
    for _ in 0..3 {
        engine.generate(&request(TEXT)).unwrap_err();
        assert_eq!(engine.prefix_bytes(), 0);
    }
}
