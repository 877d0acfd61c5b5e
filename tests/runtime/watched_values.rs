//! Values that repeat themselves end, and strings that do not fit end at a word: alike in all modes
//! and batches, whatever the drafts.

use std::sync::Arc;

use ffwd::decode::{BeamOptions, Scheduler, SchedulerOptions};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, Finish, Mode, Output, Prompt, Request, extract};
use ffwd_testkit::random::Random;

use crate::common::exact::engine;
use crate::common::schemas::SCHEMAS;
use crate::exactness;

const TEXT: &str = "Ticket from Mira Holm, 14 March 2024. The printer on floor 4 does not print since \
    Monday, and the display shows an error that nobody in the office understands. She asks for a new \
    device before the end of the month. Total: 1,840.00 EUR.";

/// A schema, the tokens that a bias makes the model repeat, and the pointer of the value that
/// repeats itself.
type Case = (&'static str, fn(&[u8]) -> bool, &'static str);

const RUNAWAYS: [Case; 5] = [
    (
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"}},
            "required":["a","b"],"additionalProperties":false}"#,
        |bytes| bytes == b" the",
        "/a",
    ),
    (
        r#"{"type":"object","properties":{"a":{"type":"string","minLength":700},"b":{"type":"boolean"}},
            "required":["a","b"],"additionalProperties":false}"#,
        |bytes| bytes == b"o",
        "/a",
    ),
    (
        r#"{"type":"object","properties":{"a":{"type":"array","items":{"enum":["on","off"]}},
            "b":{"type":"boolean"}},"required":["a","b"],"additionalProperties":false}"#,
        |bytes| bytes.contains(&b',') && !bytes.contains(&b']'),
        "/a",
    ),
    (
        r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(the )*end$"}},
            "required":["a"],"additionalProperties":false}"#,
        |bytes| bytes == b"the" || bytes == b" the",
        "/a",
    ),
    (
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/node"}},"required":["a"],
            "additionalProperties":false,"$defs":{"node":{"type":"object",
            "properties":{"inner":{"$ref":"#/$defs/node"}},"additionalProperties":false}}}"##,
        |bytes| bytes.contains(&b'{') || bytes == b"\"",
        "/a",
    ),
];

/// A request in which the model repeats some tokens.
fn runaway(engine: &Engine, (schema, repeated, _): Case, sampling: SamplingParams) -> Request {
    let vocab = engine.vocabulary();
    let tokens = (0..vocab.len() as u32).filter(|&token| repeated(vocab.token_bytes(token)));
    let bias: Vec<(u32, f32)> = tokens.map(|token| (token, 60.0)).collect();
    assert!(!bias.is_empty());
    let sampling = SamplingParams { logit_bias: bias, ..sampling };
    extract::embedded::request(schema, TEXT)
        .unwrap()
        .guard(true)
        .end_at_words(true)
        .sampling(sampling)
        .max_tokens(1400)
}

fn same(a: &Output, b: &Output, what: &str) {
    assert_eq!(a.text, b.text, "{what}");
    assert_eq!(a.tokens, b.tokens, "{what}");
    assert_eq!(a.finish, b.finish, "{what}");
    assert_eq!((&a.stats.guarded, &a.stats.shortened), (&b.stats.guarded, &b.stats.shortened), "{what}");
}

fn variants(request: impl Fn() -> Request, off: &Output) -> Vec<Request> {
    vec![
        request(),
        request().without_gate(),
        request().without_gate().lookup(false),
        request().without_gate().draft_model(false).max_draft(3),
        request().logprobs(true),
        request().source(&off.text),
        request().source(TEXT).without_gate().draft_override(exactness::adversary(off, 4096, 1, 1)),
        request().source(TEXT).without_gate().draft_override(exactness::adversary(off, 4096, 2, 2)),
    ]
}

#[test]
fn runaway_values_end_and_the_rest_follows() {
    let engine = engine();
    for (i, case) in RUNAWAYS.into_iter().enumerate() {
        let sampled = SamplingParams { temperature: 0.8, seed: 3, ..SamplingParams::default() };
        for sampling in [SamplingParams::default(), sampled] {
            let request = || runaway(&engine, case, sampling.clone());
            let off = engine.generate(&request().mode(Mode::Off)).unwrap();
            assert!(off.complete && off.finish == Finish::Stop, "{i}: {:?}", off.text);
            assert_eq!(off.stats.guarded[0], case.2, "{i}");
            let without = engine.generate(&request().guard(false)).unwrap();
            assert!(!without.complete, "{i}: {}", without.text);
            assert!(without.stats.guarded.is_empty());
            for (k, variant) in variants(request, &off).iter().enumerate() {
                // A source that repeats itself in the same way may be copied.
                if k != 5 {
                    same(&engine.generate(variant).unwrap(), &off, &format!("case {i}, variant {k}"));
                }
            }
        }
    }
}

#[test]
fn a_beam_ends_runaway_values_too() {
    let engine = engine();
    for case in [RUNAWAYS[0], RUNAWAYS[2]] {
        let request = runaway(&engine, case, SamplingParams::default()).end_at_words(false);
        let greedy = engine.generate(&request).unwrap();
        let ranked = engine.beam_search(&request, 1, &BeamOptions::default()).unwrap();
        same(&ranked.outputs[0].output, &greedy, case.0);
    }
}

/// The schema of a summary with a limit, and of a number after it.
fn summary(most: usize) -> String {
    format!(
        r#"{{"type":"object","properties":{{"summary":{{"type":"string","maxLength":{most}}},"total":{{"type":"number"}}}},
            "required":["summary","total"],"additionalProperties":false}}"#
    )
}

/// Requests with the same prompt, with and without a limit. The model, which writes short texts,
/// hardly ever closes a string.
fn limited(engine: &Engine, most: usize, text: &str, sampling: SamplingParams) -> Request {
    let vocab = engine.vocabulary();
    let quotes = (0..vocab.len() as u32).filter(|&token| vocab.token_bytes(token).starts_with(b"\""));
    let sampling = SamplingParams { logit_bias: quotes.map(|token| (token, -30.0)).collect(), ..sampling };
    let constraint = Constraint::json_schema(summary(most)).unwrap();
    let request = Request::new(Prompt::text(text)).constraint(constraint).sampling(sampling);
    request.source(text).max_tokens(500).end_at_words(true)
}

fn summary_of(output: &Output) -> String {
    let record: serde_json::Value = serde_json::from_str(&output.text).expect("a record");
    record["summary"].as_str().expect("a text").to_owned()
}

/// Prompts in the middle of a long sentence, so that the model writes long texts.
fn texts() -> Vec<String> {
    let words: Vec<&str> = TEXT.split(' ').collect();
    (4..words.len()).step_by(3).map(|n| format!("{} {{\"summary\":\"", words[..n].join(" "))).collect()
}

#[test]
fn a_limited_text_is_the_beginning_of_the_unlimited_one() {
    /// A limit so far away that no text below reaches it.
    const FAR: usize = 400;
    let engine = engine();
    let greedy = SamplingParams::default;
    let (mut whole, mut cut, mut back) = (0, 0, 0);
    for text in texts() {
        let full = summary_of(&engine.generate(&limited(&engine, FAR, &text, greedy())).unwrap());
        for most in [18, 25, 33, 48, 70, 110] {
            let output = engine.generate(&limited(&engine, most, &text, greedy())).unwrap();
            let short = summary_of(&output);
            let n = short.chars().count();
            assert!(n <= most);
            if output.stats.shortened.is_empty() {
                // It fits, or has no good end and is filled.
                whole += usize::from(short == full);
                assert!(short == full || n + 1 >= most, "{full:?} became {short:?}");
                continue;
            }
            assert_eq!(output.stats.shortened, ["/summary"]);
            assert!(full.starts_with(&short), "{full:?} became {short:?}");
            let next = full[short.len()..].chars().next().unwrap();
            let last = short.chars().last().unwrap();
            let good = !(last.is_whitespace() || last.is_alphanumeric() && next.is_alphanumeric());
            // A text without a word end near its limit is cut as it is.
            assert!(good || !short[short.len() - 16..].contains(' '), "{full:?} became {short:?}");
            cut += 1;
            back += usize::from(output.stats.taken_back > 0);
        }
    }
    eprintln!("{whole} whole, {cut} cut, {back} of them back");
    assert!(cut > 20 && back > 2, "{whole} whole, {cut} cut, {back} back");
}

#[test]
fn all_modes_cut_alike() {
    let engine = engine();
    let mut random = Random::new(11);
    let (mut cut, mut back) = (0, 0);
    let texts = texts();
    for round in 0..60u64 {
        let text = random.pick(&texts).clone();
        let most = 12 + random.below(80);
        let sampling = match round % 3 {
            0 => SamplingParams::default(),
            1 => SamplingParams { temperature: 1.0, seed: round, ..SamplingParams::default() },
            _ => SamplingParams {
                temperature: 0.8,
                top_p: 0.9,
                repetition_penalty: 1.2,
                seed: round,
                ..SamplingParams::default()
            },
        };
        let close = random.chance(30);
        let tokens = if close { 20 + random.below(40) } else { 300 };
        let request = || {
            let request = limited(&engine, most, &text, sampling.clone());
            request.close_before_limit(close).max_tokens(tokens)
        };
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        assert!(off.complete || !close, "{}", off.text);
        cut += usize::from(!off.stats.shortened.is_empty());
        back += usize::from(off.stats.taken_back > 0);
        for (k, variant) in variants(request, &off).iter().enumerate() {
            let exact = engine.generate(variant).unwrap();
            same(&exact, &off, &format!("round {round}, variant {k}, {most}"));
            assert_eq!(exact.stats.taken_back, off.stats.taken_back);
            assert_eq!(exact.stats.tokens, exact.tokens.len());
        }
        // What is streamed is never taken back.
        let mut streamed = String::new();
        let output = engine.generate_streaming(&request(), &mut |text| streamed.push_str(text)).unwrap();
        assert_eq!(streamed, output.text);
        for mode in [Mode::Canonical, Mode::Longest] {
            let output = engine.generate(&request().mode(mode)).unwrap();
            assert!(output.complete || !close, "{}", output.text);
        }
    }
    assert!(cut > 10 && back > 1, "{cut} cut, {back} back");
}

#[test]
fn a_batch_ends_values_as_each_request_alone() {
    /// Enough that some are taken back.
    const COUNT: usize = 60;
    let engine = Arc::new(engine());
    let texts = texts();
    let request = |i: usize| {
        let sampling = SamplingParams {
            temperature: if i.is_multiple_of(2) { 0.0 } else { 0.9 },
            seed: i as u64,
            ..SamplingParams::default()
        };
        match i % 3 {
            0 => runaway(&engine, RUNAWAYS[i % 2], sampling),
            1 => extract::embedded::request(SCHEMAS[i % 4], TEXT)
                .unwrap()
                .guard(true)
                .end_at_words(true)
                .sampling(sampling),
            _ => limited(&engine, 20 + i, &texts[i % texts.len()], sampling),
        }
    };
    let alone: Vec<Output> = (0..COUNT).map(|i| engine.generate(&request(i)).unwrap()).collect();
    assert!(alone.iter().any(|output| output.stats.taken_back > 0));
    assert!(alone.iter().any(|output| !output.stats.guarded.is_empty()));
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(8)).unwrap();
    let handles: Vec<_> = (0..COUNT).map(|i| scheduler.submit(request(i)).unwrap()).collect();
    for (i, handle) in handles.into_iter().enumerate() {
        same(&handle.wait().unwrap(), &alone[i], &format!("request {i}"));
    }
}

#[test]
fn a_blank_text_is_an_error() {
    let engine = engine();
    for text in ["", " \n\t"] {
        let error = engine.extract_json(SCHEMAS[0], text).unwrap_err();
        assert!(error.to_string().contains("the text is"), "{error}");
        assert!(extract::embedded::request(SCHEMAS[0], text).is_err());
    }
}
