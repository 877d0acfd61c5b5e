//! Finish reasons: stop texts, stop tokens, cancellation, completion before the limit, and the
//! events of a generation. Everything in `off` and in `exact`, against the full output and plain
//! scans of it.

use std::collections::{HashMap, HashSet};

use ffwd::decode::{CancelToken, Event, FieldState};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, Finish, Mode, Output, Prompt, Request, Vocabulary, extract};
use ffwd_testkit::random::Random;
use serde_json::{Value, json};

use crate::common::exact::engine;
use crate::common::schemas::TEXT;

const SCHEMA: &str = r#"{"type":"object","properties":{"number":{"type":"string"},"vendor":{"type":"string",
    "maxLength":40},"items":{"type":"array","items":{"type":"string","maxLength":20},"maxItems":4},
    "total":{"type":"number"}},"required":["number","vendor","items","total"],"additionalProperties":false}"#;

fn request() -> Request {
    extract::embedded::request(SCHEMA, TEXT).unwrap().max_tokens(150)
}

/// Both ways to decode: token by token, and with drafts as long as can be.
fn both(engine: &Engine, request: impl Fn() -> Request) -> [Output; 2] {
    let off = engine.generate(&request().mode(Mode::Off)).unwrap();
    let exact = engine.generate(&request().without_gate()).unwrap();
    assert_eq!((&exact.tokens, &exact.text), (&off.tokens, &off.text));
    assert_eq!((&exact.finish, exact.complete), (&off.finish, off.complete));
    assert_eq!(exact.logprobs, off.logprobs);
    [off, exact]
}

/// Number of tokens and length of the text up to the first token behind which a stop text is there.
fn scan(vocab: &Vocabulary, tokens: &[u32], stops: &[String]) -> Option<(usize, usize)> {
    (1..=tokens.len()).find_map(|n| {
        let text = vocab.decode(&tokens[..n]);
        let find = |s: &String| text.windows(s.len()).position(|w| w == s.as_bytes());
        stops.iter().filter_map(find).min().map(|cut| (n, cut))
    })
}

#[test]
fn stop_texts_cut_as_a_scan_of_the_whole_text_does() {
    let engine = engine();
    let whole = engine.generate(&request().mode(Mode::Off)).unwrap();
    let text = &whole.text;
    assert!(text.is_ascii(), "{text}");
    let mut cases: Vec<Vec<String>> = vec![vec!["nowhere".into(), "never".into()]];
    for i in 0..24 {
        let at = i * text.len() / 24;
        let of = |from: usize, len: usize| text[from..(from + len).min(text.len())].to_string();
        cases.push(vec![of(at, 1 + i % 7)]);
        cases.push(vec![of(at, 9), "zzz".into(), of(at + 1, 3).clone() + "", of(at / 2 + 4, 6)]);
    }
    let mut inside = 0;
    for stops in cases {
        let stops: Vec<String> = stops.into_iter().filter(|s| !s.is_empty()).collect();
        let with = || stops.iter().fold(request(), |r, s| r.stop(s));
        let want = scan(engine.vocabulary(), &whole.tokens, &stops);
        let (tokens, cut) = want.unwrap_or((whole.tokens.len(), text.len()));
        for output in both(&engine, with) {
            assert_eq!(output.text, text[..cut], "{stops:?}");
            assert_eq!(output.tokens, whole.tokens[..tokens], "{stops:?}");
            assert_eq!(matches!(output.finish, Finish::StopText { .. }), want.is_some());
            if let Finish::StopText { stop } = &output.finish {
                assert!(stops.contains(stop) && text[cut..].starts_with(stop.as_str()));
            }
            assert_eq!(output.complete, cut == text.len(), "{stops:?}");
        }
        // What is streamed is never taken back.
        let mut pieces = String::new();
        let output = engine.generate_streaming(&with().without_gate(), &mut |p| pieces.push_str(p)).unwrap();
        assert_eq!(pieces, output.text, "{stops:?}");
        inside += usize::from(
            want.is_some_and(|(n, cut)| engine.vocabulary().decode(&whole.tokens[..n - 1]).len() != cut),
        );
    }
    assert!(inside > 10, "stop texts that begin or end within tokens: {inside}");
    assert!(engine.generate(&request().stop("")).is_err());
}

#[test]
fn a_text_cut_in_front_of_a_stop_text_may_be_complete() {
    let engine = engine();
    let constraint = Constraint::regex("(yes|no)( and [a-z ]{3,20}!)?").unwrap();
    let sampling = SamplingParams {
        temperature: 1.0,
        // The generation continues, whatever the model prefers.
        logit_bias: engine.vocabulary().eos().iter().map(|&t| (t, f32::NEG_INFINITY)).collect(),
        ..SamplingParams::default()
    };
    for seed in 0..6 {
        let sampling = SamplingParams { seed, ..sampling.clone() };
        let request = || {
            let prompt = Prompt::text("Is it? ");
            Request::new(prompt).constraint(constraint.clone()).sampling(sampling.clone()).max_tokens(60)
        };
        for (stop, complete) in [(" and", true), ("and", false), ("d ", false)] {
            for output in both(&engine, || request().stop(stop)) {
                assert_eq!(output.finish, Finish::StopText { stop: stop.into() });
                assert_eq!(output.complete, complete, "{:?}", output.text);
            }
        }
    }
}

#[test]
fn stop_tokens_end_in_front_of_their_first_use() {
    let engine = engine();
    let whole = engine.generate(&request().mode(Mode::Off)).unwrap();
    for i in (0..whole.tokens.len()).step_by(3) {
        let token = whole.tokens[i];
        let first = whole.tokens.iter().position(|t| *t == token).unwrap();
        for output in both(&engine, || request().stop_token(token)) {
            assert_eq!(output.tokens, whole.tokens[..first]);
            assert_eq!(output.finish, Finish::StopToken { token });
            assert!(!output.complete);
        }
    }
}

#[test]
fn log_probabilities_agree_and_add_up() {
    let engine = engine();
    for temperature in [0.0, 0.9] {
        let [off, _] = both(&engine, || request().temperature(temperature).seed(5).logprobs(true));
        assert_eq!(off.logprobs.len(), off.tokens.len());
        for logprob in &off.logprobs {
            let l = logprob.as_ref().expect("every token was sampled");
            assert!(l.raw <= 1e-4 && l.masked <= 1e-4 && l.legal_mass <= 1.0);
            // Without penalties: what the mask leaves is shared out among the legal tokens.
            assert!((l.raw - l.masked - l.legal_mass.ln()).abs() < 1e-3, "{l:?}");
        }
    }
    assert!(engine.generate(&request()).unwrap().logprobs.is_empty());
    let unverified = engine.generate(&request().mode(Mode::Canonical).logprobs(true)).unwrap();
    assert_eq!(unverified.logprobs.len(), unverified.tokens.len());
    let unasked = unverified.logprobs.iter().filter(|l| l.is_none()).count();
    assert!(unasked > 0 && unasked <= unverified.stats.forced);
}

#[test]
fn a_cancelled_generation_runs_no_further_forward() {
    let engine = engine();
    let full = engine.generate(&request().mode(Mode::Off)).unwrap();
    let mut inside = 0;
    for mode in [Mode::Off, Mode::Exact, Mode::Canonical] {
        let plain = engine.generate(&request().mode(mode).without_gate()).unwrap();
        assert!(plain.stats.forwards > 2, "{mode:?}");
        for after in 1..plain.stats.forwards.min(5) {
            let token = CancelToken::new();
            let mut seen = 0;
            let request = request().mode(mode).without_gate().cancel(&token);
            let output = engine
                .generate_events(&request, &mut |event| {
                    if let Event::Stats(stats) = event {
                        seen = stats.forwards;
                        if seen == after {
                            token.cancel();
                        }
                    }
                })
                .unwrap();
            assert_eq!((seen, output.stats.forwards), (after, after), "{mode:?}");
            let Finish::Cancelled { path, partial } = &output.finish else { panic!("{:?}", output.finish) };
            assert!(output.text.ends_with(partial.as_str()));
            // At the top level the value is the whole text, and a part of it below.
            assert_eq!(path.is_empty(), *partial == output.text, "{path} in {}", output.text);
            assert!(path.is_empty() || path.starts_with('/') && output.text.contains(':'), "{path}");
            inside += usize::from(!path.is_empty());
            assert!(!output.complete);
            if mode != Mode::Canonical {
                assert_eq!(output.tokens, full.tokens[..output.tokens.len()]);
            }
            assert!(extract::finished(output).is_err());
        }
    }
    assert!(inside > 3, "{inside} inside a value");
    let token = CancelToken::new();
    token.cancel();
    let output = engine.generate(&request().cancel(&token)).unwrap();
    assert_eq!((output.stats.forwards, output.tokens.len()), (0, 0));
}

#[test]
fn cut_outputs_name_the_value_and_what_is_there_of_it() {
    let engine = engine();
    for limit in [2, 9, 14, 22, 30] {
        let output = engine.generate(&request().max_tokens(limit)).unwrap();
        let Finish::Length { path, partial } = &output.finish else { continue };
        assert!(output.text.ends_with(partial.as_str()) && !output.complete);
        if let Some(key) = path.split('/').nth(1) {
            let from = output.text.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
            assert!(output.text[from..].ends_with(partial.as_str()), "{path} {partial} {}", output.text);
        }
    }
}

#[test]
fn fields_are_told_as_they_come() {
    let engine = engine();
    let (mut text, mut last, mut order) = (String::new(), HashMap::new(), Vec::new());
    let output = engine
        .generate_events(&request().mode(Mode::Off), &mut |event| match event {
            Event::Text(piece) => text.push_str(piece),
            Event::Field(field) => {
                assert_ne!(
                    last.get(&field.pointer).map(|f: &(FieldState, Value)| f.0),
                    Some(FieldState::Done)
                );
                last.insert(field.pointer.clone(), (field.state, field.value.clone()));
                order.push((field.pointer.clone(), field.state));
            }
            _ => {}
        })
        .unwrap();
    assert_eq!(text, output.text);
    let record: Value = serde_json::from_str(&text).unwrap();
    for (pointer, (state, value)) in &last {
        assert_eq!((*state, Some(value)), (FieldState::Done, record.pointer(pointer)));
    }
    for key in ["number", "vendor", "items", "total"] {
        let states: Vec<FieldState> =
            order.iter().filter(|o| o.0 == format!("/{key}")).map(|o| o.1).collect();
        assert_eq!(states.last(), Some(&FieldState::Done), "{key}");
        assert!(states.len() > 1, "{key}: {states:?}");
    }
}

/// Fewest tokens that spell a text: over all ways to cut it.
fn fewest(tokens: &HashSet<Vec<u8>>, longest: usize, text: &str) -> usize {
    let text = text.as_bytes();
    let mut least = vec![usize::MAX; text.len() + 1];
    least[0] = 0;
    for end in 1..=text.len() {
        for start in end.saturating_sub(longest)..end {
            if least[start] != usize::MAX && tokens.contains(&text[start..end]) {
                least[end] = least[end].min(least[start] + 1);
            }
        }
    }
    least[text.len()]
}

/// A schema, some of its outputs, short ones among them, and whether these are all there are.
fn small_schema(random: &mut Random) -> (Value, Vec<String>, bool) {
    let words = ["red", "unbelievable", "xq", "a b", "invoice number", "Zürich"];
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    let (mut bodies, mut all) = (vec![String::new()], true);
    for i in 0..1 + random.below(4) {
        let key = format!("{}{i}", ["k", "name", "total_amount"][random.below(3)]);
        let kind = random.below(6);
        all &= matches!(kind, 0 | 3);
        let (schema, shortest): (Value, Vec<String>) = match kind {
            0 => (json!({"type": "boolean"}), vec!["true".into(), "false".into()]),
            1 => (json!({"type": ["string", "null"], "maxLength": 30}), vec!["\"\"".into(), "null".into()]),
            2 => (json!({"type": "string"}), vec!["\"\"".into()]),
            3 => {
                let some: Vec<&str> = (0..1 + random.below(3)).map(|_| words[random.below(6)]).collect();
                let some: HashSet<&str> = some.into_iter().collect();
                let texts = some.iter().map(|w| json!(w).to_string()).collect();
                (json!({"enum": some}), texts)
            }
            4 => (json!({"type": "array", "items": {"type": "string"}, "maxItems": 5}), vec!["[]".into()]),
            _ => (json!({"type": "integer", "minimum": 0}), (0..10).map(|d| d.to_string()).collect()),
        };
        properties.insert(key.clone(), schema);
        let mut with = Vec::new();
        for body in &bodies {
            let comma = if body.is_empty() { "" } else { "," };
            with.extend(shortest.iter().map(|s| format!("{body}{comma}\"{key}\":{s}")));
        }
        if random.below(4) > 0 {
            required.push(key);
            bodies = with;
        } else {
            bodies.extend(with);
        }
    }
    let schema = json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": false});
    (schema, bodies.iter().map(|b| format!("{{{b}}}")).collect(), all)
}

#[test]
fn outputs_are_closed_whenever_the_shortest_fits() {
    let engine = engine();
    let vocab = engine.vocabulary();
    let longest = vocab.max_token_len();
    let tokens: HashSet<Vec<u8>> = (0..vocab.len() as u32).map(|t| vocab.token_bytes(t).to_vec()).collect();
    let mut random = Random::new(11);
    let (mut closed, mut stopped) = (0, 0);
    for round in 0..60 {
        let (schema, texts, all) = small_schema(&mut random);
        let least = texts.iter().map(|t| fewest(&tokens, longest, t)).min().unwrap();
        let constraint = Constraint::json_schema(schema.to_string()).unwrap();
        let temperature = [0.0, 1.0, 2.0][random.below(3)];
        let with = |limit: usize| {
            Request::new(Prompt::text(TEXT))
                .constraint(constraint.clone())
                .temperature(temperature)
                .seed(round)
                .max_tokens(limit)
                .close_before_limit(true)
        };
        for limit in [least, least + 1, least + 2 + random.below(20)] {
            let mut outputs = both(&engine, || with(limit)).to_vec();
            for mode in [Mode::Canonical, Mode::Longest] {
                outputs.push(engine.generate(&with(limit).mode(mode)).unwrap());
            }
            for output in outputs {
                let what = format!("{schema} in {limit}: {:?} {:?}", output.text, output.finish);
                assert!(output.tokens.len() <= limit && output.complete, "{what}");
                let value: Value = serde_json::from_str(&output.text).expect(&what);
                assert!(jsonschema::is_valid(&schema, &value), "{what}");
                match output.finish {
                    Finish::Stop => stopped += 1,
                    Finish::Closed => closed += 1,
                    _ => panic!("{what}"),
                }
            }
        }
        if all && least > 1 {
            let output = engine.generate(&with(least - 1)).unwrap();
            assert!(matches!(output.finish, Finish::Length { .. }) && !output.complete, "{}", output.text);
        }
    }
    eprintln!("{closed} closed, {stopped} stopped");
    assert!(closed > 50 && stopped > 10, "{closed} closed, {stopped} stopped");
}

#[test]
fn closing_changes_nothing_where_there_is_room() {
    let engine = engine();
    let plain = engine.generate(&request()).unwrap();
    assert_eq!(plain.finish, Finish::Stop);
    let closing = engine.generate(&request().close_before_limit(true)).unwrap();
    assert_eq!((closing.tokens, closing.finish), (plain.tokens, Finish::Stop));
    // An endless number, an endless text.
    for regex in ["[0-9]+", "\"[a-z]*\"", "(ab)+c"] {
        let constraint = Constraint::regex(regex).unwrap();
        let with = || {
            let request = Request::new(Prompt::text("1 2 3 ")).constraint(constraint.clone());
            request.max_tokens(12).close_before_limit(true).temperature(1.0)
        };
        let [off, _] = both(&engine, with);
        assert!(off.complete, "{}", off.text);
    }
}
