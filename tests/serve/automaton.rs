//! The graph of an automaton: it accepts what the constraint accepts, and its runs have one text.

use ffwd::{Compiler, Constraint, Engine};
use ffwd_testkit::random::Random;
use serde_json::{Value, json};

use crate::client::{Answer, post, server};

const PATH: &str = "/playground/api/automaton";

fn graph(server: &ffwd::serve::ServerHandle, kind: &str, constraint: &str, limit: usize) -> Answer {
    post(server.address(), PATH, &json!({"kind": kind, "constraint": constraint, "limit": limit}))
}

fn targets(state: &Value) -> Vec<(u8, u8, usize)> {
    let byte = |value: &Value| value.as_u64().unwrap() as u8;
    let mut all = Vec::new();
    for edge in state["edges"].as_array().unwrap() {
        let to = edge["to"].as_u64().unwrap() as usize;
        all.extend(
            edge["bytes"].as_array().unwrap().iter().map(|range| (byte(&range[0]), byte(&range[1]), to)),
        );
    }
    all
}

/// Returns whether a text ends in an accepting state, by way of the graph.
fn accepts(states: &[Value], text: &[u8]) -> bool {
    let mut at = 0;
    for byte in text {
        match targets(&states[at]).into_iter().find(|(from, to, _)| (from..=to).contains(&byte)) {
            Some((_, _, to)) => at = to,
            None => return false,
        }
    }
    states[at]["accepting"] == true
}

#[test]
fn the_graph_accepts_what_the_constraint_accepts() {
    let server = server(|_| {});
    let engine = Engine::embedded().unwrap();
    let schema = r#"{"type": "object", "properties": {"name": {"enum": ["Ada", "Alan"]}, "age": {"type": "integer", "minimum": 0,
        "maximum": 99}}, "required": ["name", "age"], "additionalProperties": false}"#;
    let compiler = Compiler::new(engine.vocabulary().clone());
    for (kind, text, constraint, states_merged) in [
        ("regex", r"[0-9]+(\.[0-9]+)?", Constraint::regex(r"[0-9]+(\.[0-9]+)?"), 4),
        ("regex", r"[A-Z]+: [a-z]+\n", Constraint::regex(r"[A-Z]+: [a-z]+\n"), 6),
        ("choice", "yes\nno\nmaybe", Constraint::choice(["yes", "no", "maybe"]), 9),
        ("json_schema", schema, Constraint::json_schema(schema), 0),
    ] {
        let found = graph(&server, kind, text, 300).json();
        assert_eq!(found["complete"], true, "{found}");
        let states = found["states"].as_array().unwrap();
        assert!(states_merged == 0 || states.len() == states_merged, "{text}: {}", states.len());
        assert!(states.len() <= found["before_merging"].as_u64().unwrap() as usize);
        let grammar = compiler.compile(&constraint.unwrap()).unwrap();
        let mut random = Random::new(3);
        let (mut yes, mut no) = (0, 0);
        for _ in 0..400 {
            let (mut at, mut text) = (0, Vec::new());
            while text.len() < 40 && !(states[at]["accepting"] == true && random.below(3) == 0) {
                let all = targets(&states[at]);
                if all.is_empty() {
                    break;
                }
                let (from, to, next) = *random.pick(&all);
                text.push(from + random.below(usize::from(to - from) + 1) as u8);
                at = next;
            }
            if random.chance(30) {
                let at = random.below(text.len() + 1);
                text.insert(at, *random.pick(b"1a\". "));
            }
            let matcher = grammar.matcher();
            let found = matcher.explain_bytes(&text);
            let wanted = found.fits == text.len() && found.may_end;
            assert_eq!(accepts(states, &text), wanted, "{:?}", String::from_utf8_lossy(&text));
            if wanted { yes += 1 } else { no += 1 }
        }
        assert!(yes > 100 && no > 20, "{text}: {yes} {no}");
        check_runs(&found, &grammar, &engine);
    }
}

/// Checks that the matcher forces the text of each run where it begins.
fn check_runs(found: &Value, grammar: &ffwd::CompiledGrammar, engine: &Engine) {
    let states = found["states"].as_array().unwrap();
    for run in found["runs"].as_array().unwrap() {
        let list: Vec<usize> =
            run["states"].as_array().unwrap().iter().map(|s| s.as_u64().unwrap() as usize).collect();
        let text = run["text"].as_str().unwrap();
        assert_eq!((list.len(), run["bytes"].as_u64().unwrap() as usize), (text.len() + 1, text.len()));
        for (pair, byte) in list.windows(2).zip(text.bytes()) {
            assert_eq!(targets(&states[pair[0]]), [(byte, byte, pair[1])]);
        }
        let tokens = engine.vocabulary().encode(text).unwrap().len();
        assert_eq!(run["tokens"], tokens);
        if list[0] == 0 {
            assert!(grammar.matcher().forced_bytes().starts_with(text.as_bytes()));
        }
    }
}

#[test]
fn a_schema_has_runs_of_its_keys() {
    let server = server(|_| {});
    let schema = r#"{"type": "object", "properties": {"invoice_number": {"type": "boolean"}}, "required": ["invoice_number"]}"#;
    let found = graph(&server, "json_schema", schema, 100).json();
    let runs: Vec<&str> =
        found["runs"].as_array().unwrap().iter().map(|run| run["text"].as_str().unwrap()).collect();
    assert!(runs.iter().any(|text| text.contains("\"invoice_number\":")), "{runs:?}");
    let first = &found["states"][0];
    assert_eq!((first["edges"][0]["label"].as_str(), &first["accepting"]), (Some("{"), &false.into()));
}

#[test]
fn what_is_too_large_is_cut() {
    let server = server(|_| {});
    let found = graph(&server, "json_schema", "{}", 50).json();
    assert_eq!((&found["complete"], found["states"].as_array().unwrap().len()), (&false.into(), 50));
    let beyond =
        found["states"].as_array().unwrap().iter().flat_map(|state| state["edges"].as_array().unwrap());
    assert!(beyond.filter(|edge| edge["to"].is_null()).count() > 0);
}

#[test]
fn work_of_the_page_has_the_time_limit_of_requests() {
    let server = server(|options| options.timeout = std::time::Duration::from_nanos(1));
    let answer = graph(&server, "regex", "([a-z]{3,40}[0-9]?){1,9}", 400);
    assert_eq!(answer.status, 504, "{answer:?}");
}
