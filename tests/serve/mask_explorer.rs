//! The Mask Explorer's endpoint: probabilities against a plain softmax, and what a walk shows.

use std::net::SocketAddr;

use ffwd::extract::Extractor;
use ffwd::serve::{BoundServer, ModelSource, ServeOptions};
use ffwd::{Engine, TokenId};
use serde_json::{Value, json};

use crate::client::{post, server};

const PATH: &str = "/playground/api/explorer";

fn position(address: SocketAddr, body: &Value) -> Value {
    let answer = post(address, PATH, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The softmax of some logits.
fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
    logits.iter().map(|logit| (logit - most).exp() / sum).collect()
}

fn id(position: &Value, text: &str) -> u64 {
    let tokens = position["tokens"].as_array().unwrap();
    tokens.iter().find(|token| token["text"] == text).unwrap()["id"].as_u64().unwrap()
}

/// Compares the probabilities of a position that lists all tokens.
fn check_probabilities(position: &Value) {
    let tokens = position["tokens"].as_array().unwrap();
    let logits: Vec<f64> = tokens.iter().map(|token| token["logit"].as_f64().unwrap()).collect();
    let legal = |token: &&Value| token["legal"] == true;
    let legal_logits: Vec<f64> =
        tokens.iter().filter(legal).map(|token| token["logit"].as_f64().unwrap()).collect();
    let (raw, masked) = (softmax(&logits), softmax(&legal_logits));
    let mut masked = masked.into_iter();
    let mut rejected = 0.0;
    for (token, raw) in tokens.iter().zip(raw) {
        let wanted = if token["legal"] == true { masked.next().unwrap() } else { 0.0 };
        rejected += if token["legal"] == true { 0.0 } else { raw };
        assert!((token["raw"].as_f64().unwrap() - raw).abs() < 1e-12, "{token}");
        assert!((token["masked"].as_f64().unwrap() - wanted).abs() < 1e-12, "{token}");
    }
    assert!((position["rejected"].as_f64().unwrap() - rejected).abs() < 1e-12);
    assert_eq!(position["legal"], legal_logits.len());
}

/// Walks with the best legal token at each step, or with the best of all.
fn walk(address: SocketAddr, profile: &str, masked: bool) -> (Vec<Value>, Value) {
    let (mut tokens, mut positions) = (Vec::new(), Vec::new());
    loop {
        let here = position(address, &json!({"profile": profile, "tokens": tokens}));
        if here["tokens"].is_null() {
            return (positions, here);
        }
        check_probabilities(&here);
        tokens.push(here["best"][if masked { "legal" } else { "raw" }].as_u64().unwrap());
        positions.push(here);
    }
}

fn text(end: &Value) -> String {
    end["prefix"].as_array().unwrap().iter().map(|token| token["text"].as_str().unwrap()).collect()
}

#[test]
fn profiles_end_as_they_should() {
    let server = server(|_| {});
    let address = server.address();
    let right = r#"{"tool":"retrieve","source":"docs","k":2}<eos>"#;
    for (profile, wanted, as_asked) in [
        ("friendly", right, true),
        ("confused", right, true),
        ("mismatch", r#"{"tool":"retrieve","source":"tickets","k":2}<eos>"#, false),
    ] {
        let (positions, end) = walk(address, profile, true);
        assert_eq!(
            (text(&end).as_str(), &end["finished"], &end["as_asked"]),
            (wanted, &true.into(), &as_asked.into())
        );
        let rejected: Vec<f64> = positions.iter().map(|p| p["rejected"].as_f64().unwrap()).collect();
        assert_eq!(rejected.iter().all(|r| *r > 0.9), profile == "confused", "{profile}: {rejected:?}");
        assert!(positions[3]["state"].as_str().unwrap().contains("tool"), "{}", positions[3]);
    }
    // Without the mask a friendly model arrives as well, and a confused one breaks the first prefix.
    assert_eq!(text(&walk(address, "friendly", false).1), right);
    let (positions, end) = walk(address, "confused", false);
    assert_eq!((positions.len(), text(&end).as_str()), (1, "\"DROP\""));
    assert_eq!((&end["broken"]["at"], &end["broken"]["expected"]), (&0.into(), &json!(["{"])));
    assert_eq!(positions[0]["best"]["why"]["expected"], json!(["{"]));
}

#[test]
fn top_p_before_the_mask_can_leave_nothing() {
    let server = server(|_| {});
    for (share, kept, legal) in [(0.9, 2, 0), (0.5, 1, 0), (1.0, 17, 1)] {
        let here = position(server.address(), &json!({"profile": "confused", "top_p": share}));
        let before = &here["top_p"]["before"];
        assert_eq!((&before["tokens"], &before["legal"]), (&kept.into(), &legal.into()), "{share}: {before}");
        assert_eq!(here["top_p"]["after"]["tokens"], 1);
    }
}

#[test]
fn a_transition_without_an_end_behind_it_is_no_choice() {
    let server = server(|_| {});
    let (positions, end) = walk(server.address(), "confused", true);
    let trap = |position: &Value| {
        let tokens = position["tokens"].as_array().unwrap();
        let trap: Vec<_> = tokens.iter().filter(|token| token["leads_nowhere"] == true).collect();
        assert!(trap.iter().all(|token| token["text"] == "true" && token["legal"] == false));
        trap.len()
    };
    let counts: Vec<usize> = positions.iter().map(trap).collect();
    assert_eq!((counts.iter().sum::<usize>(), counts[11]), (1, 1));
    assert!(end["warnings"][0].as_str().unwrap().contains("trap"), "{end}");
    // The model of this profile wants it more than anything else.
    assert_eq!(positions[11]["best"]["raw"], id(&positions[11], "true"));
}

#[test]
fn a_model_is_described_by_its_logits_and_the_engines_mask() {
    // Without the markers of tools and thinking, which would be text of strings.
    let load = |_: Vec<String>| Engine::embedded();
    let source = ModelSource { name: "plain".into(), load: Box::new(load), tool_style: None };
    let mut options = ServeOptions::default();
    options.address.set_port(0);
    let server = BoundServer::bind(vec![source], options).unwrap().spawn();
    let engine = Engine::embedded().unwrap();
    let schema = r#"{"type": "object", "properties": {"paid": {"type": "boolean"}, "city": {"type": "string"}},
        "required": ["paid", "city"]}"#;
    let document = "Settled in Lisbon.";
    let extractor = Extractor::new(&engine, schema).unwrap();
    let grammar = engine.compiler().compile(&extractor.constraint(Some(document)).unwrap()).unwrap();
    let mut matcher = grammar.matcher();
    let mut all = extractor.prompt(document).unwrap().encode(engine.vocabulary()).unwrap();
    let mut tokens: Vec<TokenId> = Vec::new();
    let body = |tokens: &[TokenId]| json!({"profile": "model", "schema": schema, "text": document, "tokens": tokens});
    for step in 0..40 {
        let here = position(server.address(), &body(&tokens));
        assert_eq!(here["finished"], matcher.is_finished());
        if matcher.is_finished() {
            assert!(step > 5);
            let record: Value =
                serde_json::from_slice(&engine.vocabulary().decode(&matcher.tokens())).unwrap();
            assert!(record["city"].is_string());
            return;
        }
        let mut cache = engine.target().new_cache().unwrap();
        let rows = engine.target().forward(&all, &mut cache, all.len() - 1..all.len()).unwrap();
        let logits: Vec<f64> = rows[0].iter().map(|logit| f64::from(*logit)).collect();
        let legal: Vec<bool> = (0..logits.len()).map(|id| matcher.allows(id as TokenId)).collect();
        let raw = softmax(&logits);
        let closed: Vec<f64> =
            logits.iter().zip(&legal).map(|(l, legal)| if *legal { *l } else { f64::NEG_INFINITY }).collect();
        let masked = softmax(&closed);
        let wanted: f64 = raw.iter().zip(&legal).filter(|pair| !pair.1).map(|pair| pair.0).sum();
        assert_eq!(here["legal"], matcher.legal_count());
        assert!((here["rejected"].as_f64().unwrap() - wanted).abs() < 1e-9, "{} {wanted}", here["rejected"]);
        for token in here["tokens"].as_array().unwrap() {
            let at = token["id"].as_u64().unwrap() as usize;
            assert_eq!(token["legal"], legal[at]);
            assert!((token["raw"].as_f64().unwrap() - raw[at]).abs() < 1e-9, "{token}");
            assert!((token["masked"].as_f64().unwrap() - masked[at]).abs() < 1e-9, "{token}");
        }
        let best = (0..masked.len()).max_by(|a, b| masked[*a].total_cmp(&masked[*b]).then(b.cmp(a))).unwrap();
        assert_eq!(here["best"]["legal"], best);
        matcher.accept_token(best as TokenId).unwrap();
        tokens.push(best as TokenId);
        all.push(best as TokenId);
    }
    panic!("not ended");
}
