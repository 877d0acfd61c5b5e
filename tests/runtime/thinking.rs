//! Free text before the answer: the marker, the budget, and outputs that drafts do not change.

use ffwd::constraint::token_machine::Labels;
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, ErrorKind, Finish, Mode, Output, Prompt, Request, extract};
use serde_json::Value;

use crate::common::exact;

const TEXT: &str = "Invoice INV-20417 from Bright Glacier Consulting. We ask for 1,840.00 EUR.";
const SCHEMA: &str = r#"{"type":"object","properties":{"number":{"type":"string","maxLength":20},
    "paid":{"type":"boolean"}},"required":["number","paid"],"additionalProperties":false}"#;

/// The marker is a special token of the tokenizer.
fn engine() -> Engine {
    exact::engine_with(&["</think>"])
}

fn request() -> Request {
    extract::embedded::request(SCHEMA, TEXT).unwrap().max_tokens(90)
}

fn both(engine: &Engine, request: impl Fn() -> Request) -> Output {
    let off = engine.generate(&request().mode(Mode::Off)).unwrap();
    let exact = engine.generate(&request().without_gate()).unwrap();
    assert_eq!((&exact.tokens, &exact.text, &exact.answer), (&off.tokens, &off.text, &off.answer));
    assert_eq!((&exact.finish, exact.complete), (&off.finish, off.complete));
    exact
}

#[test]
fn thinking_ends_by_its_marker_or_by_its_budget() {
    let engine = engine();
    let (mut by_itself, mut by_budget) = (0, 0);
    // Markers that the model writes of itself, and ones that it never would.
    for end in ["</think>", "\n\n", "0", "e", "\": ", "---"] {
        for budget in [0, 1, 7, 30] {
            for (seed, temperature) in [(0, 0.0), (1, 1.0), (2, 1.5)] {
                let with = || request().think_until(end, budget).temperature(temperature).seed(seed);
                let output = both(&engine, with);
                let what = format!("{end:?} {budget}: {:?}", output.text);
                let at = output.text.find(end).expect(&what);
                let answer = output.answer.expect(&what);
                assert_eq!(answer, output.text[at + end.len()..], "{what}");
                assert!(answer.is_empty() || answer.starts_with('{'), "{what}");
                let spent = |n: usize| engine.vocabulary().decode(&output.tokens[..n]).len();
                match output.stats.unverified {
                    0 => {
                        by_itself += 1;
                        assert!(spent(budget.min(output.tokens.len())) >= at + end.len(), "{what}");
                    }
                    // The marker is at the end of the budget.
                    _ => {
                        by_budget += 1;
                        // A character that was begun is ended before: at most three bytes more.
                        let ended = output.text[..at].chars().next_back().map_or(0, |c| c.len_utf8() - 1);
                        assert!(spent(budget) + ended >= at && spent(budget) <= at + end.len(), "{what}");
                    }
                }
                if output.finish == Finish::Stop {
                    let value: Value = serde_json::from_str(&answer).expect(&what);
                    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
                    assert!(jsonschema::is_valid(&schema, &value) && output.complete, "{what}");
                }
            }
        }
    }
    assert!(by_itself > 3 && by_budget > 10, "{by_itself} by themselves, {by_budget} by their budget");
}

/// Thoughts contain whatever the model writes; stop texts and stop tokens cut the answer, where a
/// scan of the answer alone finds them.
#[test]
fn stops_belong_to_the_answer() {
    let engine = engine();
    let (mut in_thoughts, mut cut) = (0, 0);
    for (end, budget, seed) in [("</think>", 12, 1), ("e", 30, 2), ("\n\n", 20, 3), ("---", 15, 4)] {
        let plain = || request().think_until(end, budget).temperature(1.2).seed(seed);
        let whole = both(&engine, plain);
        let answer = whole.answer.as_deref().unwrap();
        let begin = whole.text.len() - answer.len();
        let thoughts = &whole.text[..begin];
        let ends = [end, &thoughts[..thoughts.len().min(1)], &answer[1..3]].map(str::to_owned);
        for stop in ends.into_iter().chain(["e", "n", " ", "number", "{", ":\"", "}"].map(str::to_owned)) {
            if stop.is_empty() {
                continue;
            }
            let output = both(&engine, || plain().stop(&stop));
            let what = format!("{end:?} {stop:?}: {:?} of {:?}", output.text, whole.text);
            in_thoughts += usize::from(thoughts.contains(&stop));
            match answer.find(&stop) {
                Some(at) => {
                    cut += 1;
                    assert_eq!(output.text, whole.text[..begin + at], "{what}");
                    assert_eq!(output.answer.as_deref(), Some(&answer[..at]), "{what}");
                    assert_eq!(
                        (&output.finish, output.complete),
                        (&Finish::StopText { stop: stop.clone() }, false),
                        "{what}"
                    );
                }
                None => assert_eq!((&output.text, &output.finish), (&whole.text, &whole.finish), "{what}"),
            }
            // What is streamed is what there is, and no more.
            let mut streamed = String::new();
            let again = engine.generate_streaming(&plain().stop(&stop), &mut |text| streamed.push_str(text));
            assert_eq!((&streamed, &again.unwrap().text), (&output.text, &output.text), "{what}");
        }
        // The first token of the thoughts as a stop token.
        let first = whole.tokens[0];
        let begun = |n: &usize| engine.vocabulary().decode(&whole.tokens[..*n]).len() >= begin;
        let answer_tokens = &whole.tokens[(1..whole.tokens.len()).find(begun).unwrap()..];
        let output = both(&engine, || plain().stop_token(first));
        assert!(output.tokens.len() > 1, "{end:?}");
        if !answer_tokens.contains(&first) {
            assert_eq!(output.text, whole.text, "{end:?}");
        }
    }
    assert!(in_thoughts > 8 && cut > 8, "{in_thoughts} in thoughts, {cut} cut");
}

#[test]
fn thinking_is_closed_before_the_limit() {
    let engine = engine();
    for limit in [14, 24, 34] {
        for mode in Mode::ALL {
            let request = request().think_until("</think>", 100).max_tokens(limit).close_before_limit(true);
            let output = engine.generate(&request.mode(mode)).unwrap();
            assert!(output.complete && output.tokens.len() <= limit, "{limit}: {:?}", output.text);
            serde_json::from_str::<Value>(output.answer.as_deref().unwrap()).unwrap();
        }
    }
}

#[test]
fn thinking_needs_a_marker_and_a_constraint() {
    let engine = engine();
    let kind = |request: Request| engine.generate(&request).unwrap_err().kind();
    assert_eq!(kind(request().think_until("", 5)), ErrorKind::InvalidOption);
    assert_eq!(kind(Request::new(Prompt::text("x")).think_until("</think>", 5)), ErrorKind::InvalidOption);
    let grammar = engine.compiler().compile(&Constraint::regex("a").unwrap()).unwrap();
    assert_eq!(kind(request().grammar(grammar).think_until("</think>", 5)), ErrorKind::InvalidOption);
    assert_eq!(engine.generate(&request()).unwrap().answer, Some(engine.generate(&request()).unwrap().text));
}

#[test]
fn labels_may_stand_behind_thinking() {
    let engine = engine();
    let names = ["invoice", "order", "letter of thanks", "invoice reminder"];
    let labels = Constraint::labels(&Labels::new(names).several("; ").at_most(2));
    let mut marked = 0;
    for end in ["</think>", "\n\n", "e", "---", "\":\""] {
        for budget in [0, 3, 25] {
            for (seed, temperature) in [(0, 0.0), (1, 1.3)] {
                let request = || {
                    // The thoughts are a record, which has the last marker behind its first key.
                    let prompt = extract::embedded::prompt(SCHEMA, TEXT);
                    let request = Request::new(prompt).constraint(labels.clone());
                    request.think_until(end, budget).temperature(temperature).seed(seed).max_tokens(60)
                };
                let output = both(&engine, request);
                let what = format!("{end:?} {budget}: {:?}", output.text);
                let answer = output.answer.expect(&what);
                assert!(output.complete && output.finish == Finish::Stop, "{what}");
                assert_eq!(answer, output.text[output.text.find(end).expect(&what) + end.len()..], "{what}");
                let chosen: Vec<&str> = answer.trim_start().split("; ").collect();
                assert!(chosen.iter().all(|c| names.contains(c)) && chosen.len() <= 2, "{what}");
                marked += usize::from(output.stats.unverified == 0);
                // Too few tokens for all of it: the shortest way out.
                let short = || request().max_tokens(budget + 12).close_before_limit(true);
                let output = both(&engine, short);
                assert!(output.complete, "{end:?} {budget}: {:?}", output.text);
            }
        }
    }
    assert!(marked > 0, "the model never wrote a marker of its own");
}

#[test]
fn a_marker_that_has_begun_is_completed() {
    let engine = engine();
    let dash = engine.vocabulary().encode("-").unwrap()[0];
    let sampling = || SamplingParams { logit_bias: vec![(dash, 1000.0)], ..SamplingParams::default() };
    for (budget, unasked) in [(0, "---"), (1, "--"), (2, "-"), (3, "")] {
        let request = || request().think_until("---", budget).sampling(sampling());
        let output = both(&engine, request);
        let what = format!("{budget}: {:?}", output.text);
        assert!(output.text.starts_with("---{") && output.answer.unwrap().starts_with('{'), "{what}");
        let spelled = engine.vocabulary().encode(unasked).unwrap().len();
        assert_eq!(output.stats.unverified, if budget < 3 { spelled } else { 0 }, "{what}");
    }
}
