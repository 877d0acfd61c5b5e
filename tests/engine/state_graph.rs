//! The graph of states accepts the texts that the matcher accepts, and counts its tokens.

use ffwd::matcher::StateGraph;
use ffwd::{Compiler, Constraint, TokenId};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

const ALL: usize = 2_000;

fn constraints() -> Vec<(&'static str, Constraint)> {
    let schema = |text| Constraint::json_schema(text).unwrap();
    let regex = |text| Constraint::regex(text).unwrap();
    vec![
        ("number", regex(r"[0-9]+(\.[0-9]+)?")),
        ("name and line", regex(r"[A-Z]+: [a-z]+\n")),
        ("two letters", regex("(é|漢){1,3}")),
        ("choice", Constraint::choice(["yes", "yellow", "no", "north"]).unwrap()),
        (
            "closed",
            schema(
                r#"{"type": "object", "properties": {"a": {"enum": [1, 12, true]}, "b": {"maxLength": 2, "type": "string"}},
            "required": ["a"], "additionalProperties": false}"#,
            ),
        ),
        ("list", schema(r#"{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}"#)),
    ]
}

/// Returns whether a text leads through the graph, and to an accepting state.
fn follow(graph: &StateGraph, text: &[u8]) -> Option<(usize, bool)> {
    let mut at = 0;
    for byte in text {
        let edges = &graph.states[at].edges;
        let edge =
            edges.iter().find(|edge| edge.bytes.iter().any(|(from, to)| (from..=to).contains(&byte)))?;
        at = edge.to.expect("a whole graph");
    }
    Some((at, graph.states[at].accepting))
}

/// Returns a text that often fits: a walk through the graph with a wrong byte now and then.
fn text(graph: &StateGraph, random: &mut Random) -> Vec<u8> {
    let (mut at, mut text) = (0, Vec::new());
    while text.len() < 30 && !graph.states[at].edges.is_empty() && random.below(12) > 0 {
        let edge = random.pick(&graph.states[at].edges);
        let (from, to) = *random.pick(&edge.bytes);
        text.push(from + random.below(usize::from(to - from) + 1) as u8);
        at = edge.to.expect("a whole graph");
    }
    if random.chance(40) {
        let at = random.below(text.len() + 1);
        text.insert(at, *random.pick(b"a\"{9 \xc3,"));
    }
    text
}

#[test]
fn the_graph_accepts_what_the_matcher_accepts() {
    let known = TestVocab::new(3, 150, &[]);
    let compiler = Compiler::new(known.vocab.clone());
    let single = |byte: u8| known.tokens.iter().position(|t| t[..] == [byte]).unwrap() as TokenId;
    for (name, constraint) in constraints() {
        let grammar = compiler.compile(&constraint).unwrap();
        let graph = grammar.matcher().state_graph(ALL).unwrap();
        assert!(graph.complete && graph.states.len() < ALL, "{name}: {}", graph.states.len());
        let mut random = Random::new(7);
        let (mut fitting, mut wrong) = (0, 0);
        for _ in 0..1_000 {
            let text = text(&graph, &mut random);
            let mut matcher = grammar.matcher();
            let fits = text.iter().all(|&byte| matcher.accept_token(single(byte)).is_ok());
            let found = follow(&graph, &text);
            assert_eq!(found.is_some(), fits, "{name}: {text:?}");
            if let Some((at, accepting)) = found {
                assert_eq!(accepting, matcher.is_accepting(), "{name}: {text:?}");
                assert_eq!(graph.states[at].legal_tokens, matcher.legal_count(), "{name}: {text:?}");
            }
            if fits { fitting += 1 } else { wrong += 1 }
        }
        assert!(fitting > 300 && wrong > 100, "{name}: {fitting} {wrong}");
    }
}

#[test]
fn a_limit_cuts_the_graph_and_says_so() {
    let known = TestVocab::new(3, 150, &[]);
    let compiler = Compiler::new(known.vocab.clone());
    let compile = |constraint: &Constraint| compiler.compile(constraint).unwrap();
    let grammar = compile(&Constraint::json_object());
    let whole = grammar.matcher().state_graph(300).unwrap();
    let part = grammar.matcher().state_graph(20).unwrap();
    assert!(!whole.complete && !part.complete && part.states.len() == 20);
    for (few, many) in part.states.iter().zip(&whole.states) {
        assert_eq!((few.accepting, few.legal_tokens), (many.accepting, many.legal_tokens));
        for (a, b) in few.edges.iter().zip(&many.edges) {
            assert_eq!((&a.bytes, a.to), (&b.bytes, b.to.filter(|to| *to < 20)));
        }
    }
    // The position is where the graph begins.
    let mut matcher = compile(&Constraint::choice(["abc"]).unwrap()).matcher();
    let a = known.tokens.iter().position(|t| t == b"a").unwrap() as TokenId;
    matcher.accept_token(a).unwrap();
    let graph = matcher.state_graph(9).unwrap();
    assert_eq!(graph.states[0].edges[0].bytes, [(b'b', b'b')]);
    assert_eq!((graph.states.len(), graph.states[2].edges.len()), (3, 0));
    let labels = ffwd::constraint::token_machine::Labels::new(["ab"]);
    assert!(compile(&Constraint::labels(&labels)).matcher().state_graph(9).is_none());
}
