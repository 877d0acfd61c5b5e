//! Confidence of values against masked decoding token by token, and distributions over values
//! against the sum over all token sequences.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ffwd::decode::{AlternativeOptions, Scheduler};
use ffwd::model::KvCache;
use ffwd::{Constraint, Engine, Matcher, Mode, Output, Prompt, Request, SchedulerOptions, extract};
use serde_json::Value;

use crate::common::exact::engine;
use crate::common::schemas::{SCHEMAS, TEXT};

/// A value's probability is a product of single-precision numbers, each of which comes from a sum
/// over the vocabulary in another order: relative errors of 1e-6 for each of up to 100 tokens.
const TOLERANCE: f64 = 1e-4;

fn request(schema: &str) -> Request {
    extract::embedded::request(schema, TEXT).unwrap().max_tokens(120)
}

fn matcher(engine: &Engine, schema: &str) -> Matcher {
    let constraint = Constraint::builder().source(TEXT, &Default::default()).json_schema(schema).unwrap();
    engine.compiler().compile(&constraint).unwrap().matcher()
}

fn prompt(engine: &Engine, schema: &str) -> Vec<u32> {
    let compact: Value = serde_json::from_str(schema).unwrap();
    extract::embedded::prompt(compact.to_string(), TEXT).encode(engine.vocabulary()).unwrap()
}

/// A token as the reference sees it.
struct Scored {
    bytes: Range<usize>,
    free: bool,
    log: f64,
    margin: f64,
    mass: f64,
}

fn legal(matcher: &mut Matcher) -> Vec<u32> {
    let tokens = matcher.vocabulary().len() as u32;
    let mask = matcher.bitmask();
    (0..tokens).filter(|&token| mask.contains(token)).collect()
}

/// True if at each byte of the token only one byte may come.
fn is_forced(engine: &Engine, matcher: &Matcher, token: u32) -> bool {
    let vocab = engine.vocabulary();
    let single: BTreeMap<u8, u32> = (0..vocab.len() as u32)
        .filter_map(|t| Some((*vocab.token_bytes(t).first()?, t)).filter(|_| vocab.token_bytes(t).len() == 1))
        .collect();
    let mut matcher = matcher.fork();
    vocab.token_bytes(token).iter().all(|byte| {
        let next: Vec<u32> = legal(&mut matcher);
        let one = next.iter().all(|&t| vocab.token_bytes(t).first() == Some(byte));
        matcher.accept_token(single[byte]).unwrap();
        one
    })
}

/// Decodes the output once more, one forward for each token.
fn scored(engine: &Engine, schema: &str, output: &Output) -> Vec<Scored> {
    let mut matcher = matcher(engine, schema);
    let mut cache = engine.target().new_cache().unwrap();
    let mut input = prompt(engine, schema);
    let mut at = 0;
    let mut all = Vec::new();
    for &token in &output.tokens {
        let row =
            engine.target().forward(&input, &mut cache, input.len() - 1..input.len()).unwrap().remove(0);
        let weight = |t: u32| f64::from(row[t as usize]).exp();
        let legal = legal(&mut matcher);
        let sum: f64 = legal.iter().map(|&t| weight(t)).sum();
        let other = legal.iter().filter(|&&t| t != token).map(|&t| weight(t)).fold(0.0, f64::max);
        let len = engine.vocabulary().token_bytes(token).len();
        all.push(Scored {
            bytes: at..at + len,
            free: !is_forced(engine, &matcher, token),
            log: (weight(token) / sum).ln(),
            margin: (weight(token) - other) / sum,
            mass: sum / (0..row.len() as u32).map(weight).sum::<f64>(),
        });
        at += len;
        matcher.accept_token(token).unwrap();
        input = vec![token];
    }
    all
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(members) if !members.is_empty() => members.values().map(leaves).sum(),
        Value::Array(items) if !items.is_empty() => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

#[test]
fn confidence_is_that_of_masked_decoding_token_by_token() {
    let engine = engine();
    let (mut values, mut sure) = (0, 0);
    for (i, schema) in SCHEMAS.iter().enumerate() {
        for seed in 0..3 {
            let request = request(schema).temperature(0.9 * seed as f32).seed(seed).confidence(true);
            let output = engine.generate(&request).unwrap();
            assert!(output.logprobs.is_empty());
            let Ok(record) = serde_json::from_str::<Value>(&output.text) else { continue };
            assert_eq!(output.confidence.len(), leaves(&record), "{}", output.text);
            let tokens = scored(&engine, schema, &output);
            for found in &output.confidence {
                let value: Value = serde_json::from_str(&output.text[found.bytes.clone()]).unwrap();
                assert_eq!(Some(&value), record.pointer(&found.pointer), "{}", found.pointer);
                let of_value = |token: &&Scored| {
                    let (bytes, value) = (&token.bytes, &found.bytes);
                    token.free
                        && (bytes.start < value.end && bytes.end > value.start
                            || bytes.start == value.end
                                && output.text.as_bytes()[value.end - 1].is_ascii_digit())
                };
                let own: Vec<&Scored> = tokens.iter().filter(of_value).collect();
                let probability = own.iter().map(|token| token.log).sum::<f64>().exp();
                assert!(
                    (found.probability / probability - 1.0).abs() < TOLERANCE,
                    "{i}: {found:?} {probability}"
                );
                let margin = own.iter().map(|token| token.margin).fold(1.0, f64::min);
                assert!((f64::from(found.margin) - margin).abs() < TOLERANCE, "{found:?} {margin}");
                let mass = own.iter().map(|token| token.mass).fold(1.0, f64::min);
                assert!((f64::from(found.legal_mass) - mass).abs() < TOLERANCE, "{found:?} {mass}");
                values += 1;
                sure += usize::from(own.is_empty());
            }
        }
    }
    assert!(values > 20 && sure < values / 2, "{values} {sure}");
}

#[test]
fn confidence_is_the_same_in_all_ways_to_run() {
    let engine = Arc::new(engine());
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(4)).unwrap();
    let with = |schema: &str| request(schema).confidence(true);
    let handles: Vec<_> = SCHEMAS.iter().map(|schema| scheduler.submit(with(schema)).unwrap()).collect();
    for (schema, handle) in SCHEMAS.iter().zip(handles) {
        let off = engine.generate(&with(schema).mode(Mode::Off)).unwrap();
        let exact = engine.generate(&with(schema).without_gate()).unwrap();
        assert_eq!(off.confidence, exact.confidence);
        assert_eq!(off.confidence, handle.wait().unwrap().confidence);
        assert!(engine.generate(&request(schema)).unwrap().confidence.is_empty());
        // A completion has values that are not the model's. They have no confidence.
        let closed = engine.generate(&with(schema).close_before_limit(true).max_tokens(25)).unwrap();
        let whole = serde_json::from_str(&closed.text).unwrap();
        assert!(closed.stats.unverified == 0 || closed.confidence.len() <= leaves(&whole));
        // Forced runs that are not verified leave the confidence of all other tokens.
        let canonical = engine.generate(&with(schema).mode(Mode::Canonical)).unwrap();
        assert_eq!(canonical.confidence.len(), leaves(&serde_json::from_str(&canonical.text).unwrap()));
    }
}

const CHOICES: &str = r#"{"type":"object","properties":{"kind":{"enum":["bill","bid","order",null]},
    "paid":{"type":"boolean"},"level":{"enum":[1,12,125,3]},"sort":{"const":"x"},"name":{"type":"string","maxLength":9},
    "mood":{"enum":["a\"b","a\"c"]}},"required":["kind","paid","level","sort","name","mood"],
    "additionalProperties":false}"#;

/// Adds up the probability of all token sequences until the value has ended. `text` is what is written
/// of it, after `lead` more bytes in front of it.
fn add_all(
    engine: &Engine,
    (matcher, cache): (&Matcher, &KvCache),
    (input, text, lead, probability): (&[u32], &[u8], usize, f64),
    sums: &mut BTreeMap<String, f64>,
) {
    let mut cache = cache.prefix(cache.len());
    let row = engine.target().forward(input, &mut cache, input.len() - 1..input.len()).unwrap().remove(0);
    let weight = |t: u32| f64::from(row[t as usize]).exp();
    let mut matcher = matcher.fork();
    let legal = legal(&mut matcher);
    let sum: f64 = legal.iter().map(|&t| weight(t)).sum();
    for token in legal {
        let probability = probability * weight(token) / sum;
        if probability < 1e-7 {
            continue;
        }
        let bytes = engine.vocabulary().token_bytes(token);
        let left = lead.saturating_sub(bytes.len());
        let text = [text, &bytes[lead.min(bytes.len())..]].concat();
        if let Some(value) = ended_value(&text) {
            *sums.entry(value).or_default() += probability;
            continue;
        }
        let mut next = matcher.fork();
        next.accept_token(token).unwrap();
        add_all(engine, (&next, &cache), (&[token], &text, left, probability), sums);
    }
}

/// Returns the value at the start of a text, if it has ended: a string by its quotation mark, all
/// others by what follows.
fn ended_value(text: &[u8]) -> Option<String> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    match values.next()? {
        Ok(value @ Value::Number(_)) => (values.byte_offset() < text.len()).then(|| value.to_string()),
        Ok(value) => Some(value.to_string()),
        Err(_) => {
            let end = text.iter().position(|b| matches!(b, b',' | b'}')).filter(|_| text[0] != b'"')?;
            Some(String::from_utf8_lossy(&text[..end]).into_owned())
        }
    }
}

#[test]
fn distributions_are_the_sums_over_all_token_sequences() {
    let engine = engine();
    let request = || request(CHOICES).temperature(0.0);
    let output = engine.generate(&request()).unwrap();
    let found = engine.alternatives(&request(), &output, &AlternativeOptions::default()).unwrap();
    let pointers: Vec<&str> = found.iter().map(|value| value.pointer.as_str()).collect();
    assert_eq!(pointers, ["/kind", "/paid", "/level", "/mood"], "constants and free strings have none");
    let record: Value = serde_json::from_str(&output.text).unwrap();
    let confident = engine.generate(&request().confidence(true)).unwrap().confidence;
    let tokens = scored(&engine, CHOICES, &output);
    for value in &found {
        // The state in front of the first free token of the value. It may begin in front of the value.
        let bytes = &confident.iter().find(|c| c.pointer == value.pointer).unwrap().bytes;
        let count = tokens.iter().position(|t| t.free && t.bytes.end > bytes.start).unwrap();
        let at = tokens[count].bytes.start;
        let written = &output.text.as_bytes()[bytes.start..at.max(bytes.start)];
        let lead = bytes.start.saturating_sub(at);
        let mut matcher = matcher(&engine, CHOICES);
        output.tokens[..count].iter().for_each(|&token| matcher.accept_token(token).unwrap());
        let history = [prompt(&engine, CHOICES), output.tokens[..count].to_vec()].concat();
        let mut cache = engine.target().new_cache().unwrap();
        let (last, before) = history.split_last().unwrap();
        engine.target().forward(before, &mut cache, 0..0).unwrap();
        let mut sums = BTreeMap::new();
        add_all(&engine, (&matcher, &cache), (&[*last], written, lead, 1.0), &mut sums);
        for alternative in &value.values {
            let sum = sums.remove(&alternative.value.to_string()).unwrap_or(0.0);
            // The reference leaves out improbable sequences.
            assert!((alternative.probability - sum).abs() < 1e-3, "{value:?} {alternative:?} {sum}");
        }
        assert!(sums.is_empty(), "{value:?} {sums:?}");
        let all: f64 = value.values.iter().map(|v| v.probability).sum();
        assert!((all + value.rest - 1.0).abs() < 1e-5, "{value:?}");
        // Greedy tokens are nearly always those of the most probable value.
        let chosen = value.values.iter().find(|v| Some(&v.value) == record.pointer(&value.pointer)).unwrap();
        let of_tokens = confident.iter().find(|c| c.pointer == value.pointer).unwrap().probability;
        assert!(of_tokens <= chosen.probability + 1e-5, "one sequence is no more than all: {value:?}");
    }
}

#[test]
fn alternatives_have_limits() {
    let engine = engine();
    let few = AlternativeOptions { max_values: 3, ..AlternativeOptions::default() };
    let output = engine.generate(&request(CHOICES)).unwrap();
    let found = engine.alternatives(&request(CHOICES), &output, &few).unwrap();
    assert_eq!(found.iter().map(|value| value.pointer.as_str()).collect::<Vec<_>>(), ["/paid", "/mood"]);
    let one = AlternativeOptions { max_forwards: 1, ..AlternativeOptions::default() };
    for value in engine.alternatives(&request(CHOICES), &output, &one).unwrap() {
        assert_eq!(value.forwards, 1);
        let all: f64 = value.values.iter().map(|v| v.probability).sum();
        assert!((all + value.rest - 1.0).abs() < 1e-5, "{value:?}");
    }
    let free = Request::new(Prompt::text("x")).max_tokens(3);
    let output = engine.generate(&free).unwrap();
    assert!(engine.alternatives(&free, &output, &few).unwrap_err().to_string().contains("constraint"));
}
