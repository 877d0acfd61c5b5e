//! Schemas with equal parts mean the same as schemas in which every part is written differently.
//!
//! The engine merges equal parts of a schema before anything else. Here every schema is compiled
//! twice: as it is, and with an unknown keyword of another value in each part, so that no two parts
//! are equal. Masks, errors and the finished outputs (by another validator) must be the same.
//! `FFWD_ORACLE_CASES` sets the number of schemas.

use ffwd::{CompiledGrammar, Compiler, Constraint, ErrorKind, KeyOrder, Policy};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, accepts, row};
use serde_json::{Map, Value, json};

/// Tokens before a walk heads for its end, and before it is given up.
const FREE: usize = 25;
const LONGEST: usize = 300;

const NAMES: [&str; 6] = ["a", "b", "title", "description", "const", "properties"];

/// A random schema, of parts that occurred before in one of three times.
struct Parts {
    random: Random,
    known: Vec<Value>,
}

impl Parts {
    fn part(&mut self, depth: usize) -> Value {
        if !self.known.is_empty() && self.random.chance(35) {
            return self.random.pick(&self.known).clone();
        }
        let mut schema = match self.random.below(if depth == 0 { 4 } else { 9 }) {
            0 => json!({"type": *self.random.pick(&["string", "boolean", "null", "integer"])}),
            1 => json!({"const": self.literal()}),
            2 => json!({"enum": [self.literal(), self.literal(), 1]}),
            3 => json!({"type": "string", "maxLength": 1 + self.random.below(2)}),
            4 => json!({"type": "array", "items": self.part(depth - 1), "maxItems": 2}),
            5 | 6 => self.object(depth),
            _ => {
                let word = *self.random.pick(&["oneOf", "oneOf", "anyOf", "allOf"]);
                let count = 2 + self.random.below(2);
                let list: Vec<Value> = (0..count).map(|_| self.part(depth - 1)).collect();
                json!({ word: list })
            }
        };
        if self.random.chance(15) && depth > 0 {
            schema["not"] = self.part(depth - 1);
        }
        if self.random.chance(10) && depth > 0 {
            schema["if"] = self.part(depth - 1);
            schema["then"] = self.part(depth - 1);
        }
        self.known.push(schema.clone());
        if self.random.chance(30) {
            let word = *self.random.pick(&["title", "description", "$comment"]);
            schema[word] = json!(format!("text {}", self.random.below(100)));
        }
        schema
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let name = *self.random.pick(&NAMES);
            if !properties.contains_key(name) && self.random.chance(50) {
                required.push(name);
            }
            properties.insert(name.into(), self.part(depth - 1));
        }
        let rest = match self.random.below(4) {
            0 => self.part(depth - 1),
            _ => json!(false),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": rest})
    }

    /// Literals that differ only in what does not count in a schema.
    fn literal(&mut self) -> Value {
        let all =
            [json!({"title": "a"}), json!({"title": "b"}), json!({}), json!("x"), json!([]), json!(true)];
        self.random.pick(&all).clone()
    }
}

/// The schema with another unknown keyword in each of its parts.
fn told_apart(schema: &Value, count: &mut u32) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut apart = Map::new();
    for (word, value) in members {
        let value = match (word.as_str(), value) {
            ("properties", Value::Object(named)) => {
                named.iter().map(|(n, s)| (n.clone(), told_apart(s, count))).collect()
            }
            ("oneOf" | "anyOf" | "allOf", Value::Array(list)) => {
                list.iter().map(|s| told_apart(s, count)).collect()
            }
            ("items" | "not" | "if" | "then" | "additionalProperties", part) => told_apart(part, count),
            (_, other) => other.clone(),
        };
        apart.insert(word.clone(), value);
    }
    *count += 1;
    apart.insert("x-part".into(), json!(*count));
    Value::Object(apart)
}

/// Writes a random instance and requires equal masks of both grammars; true if the instance is
/// complete.
fn walk(
    words: &TestVocab,
    grammar: &CompiledGrammar,
    expected: Option<&CompiledGrammar>,
    schema: &Value,
    mut random: Random,
) -> bool {
    let (mut matcher, mut other) = (grammar.matcher(), expected.map(CompiledGrammar::matcher));
    let mut text = Vec::new();
    for step in 0..LONGEST {
        let legal = row(&mut matcher);
        let shown = || format!("{schema}\nafter {}", String::from_utf8_lossy(&text));
        if let Some(other) = &mut other {
            assert_eq!(legal, row(other), "{}", shown());
        }
        assert!(!legal.is_empty(), "{}", shown());
        if matcher.is_accepting() && (legal.len() <= words.eos.len() || step > FREE || random.chance(20)) {
            let written = serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{e}: {}", shown()));
            assert!(jsonschema::is_valid(schema, &written), "{}", shown());
            return true;
        }
        let open: Vec<u32> = legal.into_iter().filter(|t| !words.eos.contains(t)).collect();
        let closes = |t: &&u32| words.tokens[**t as usize].iter().all(|b| b"\"}],:1".contains(b));
        let closing: Vec<u32> = open.iter().filter(closes).copied().collect();
        let list = if closing.is_empty() || step < FREE && random.chance(60) { &open } else { &closing };
        let token = *random.pick(list);
        matcher.accept_token(token).expect("it is legal");
        if let Some(other) = &mut other {
            other.accept_token(token).expect("it is legal there, too");
        }
        text.extend_from_slice(&words.tokens[token as usize]);
    }
    false
}

/// In the declared order, a name of an excluded branch still has its position. It need not be
/// considered where equal parts are known to exclude each other. So masks are compared in any order
/// only.
#[test]
fn equal_parts_mean_what_different_ones_would() {
    let cases = env::oracle_cases(1500);
    let words = TestVocab::new(5, 200, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let (mut compiled, mut walks, mut ended, mut repeated) = (0, 0, 0, 0);
    for seed in 0..cases {
        let mut parts = Parts { random: Random::new(seed), known: Vec::new() };
        let schema = json!({ "oneOf": [parts.part(3), parts.part(3), parts.part(2)] });
        let apart = told_apart(&schema, &mut 0);
        for key_order in [KeyOrder::Any, KeyOrder::Declared] {
            let numbers = Policy { max_integer_digits: 2, max_fraction_digits: 1, ..Policy::default() };
            let policy = Policy { key_order, exponent: false, ..numbers };
            let compile = |schema: &Value| {
                let constraint = Constraint::builder().policy(policy.clone()).json_schema(schema.to_string());
                constraint.and_then(|constraint| compiler.compile(&constraint))
            };
            let (grammar, expected) = match (compile(&schema), compile(&apart)) {
                (Ok(grammar), Ok(expected)) => (grammar, Some(expected)),
                // Less is to be kept apart.
                (Ok(grammar), Err(e)) if e.kind() != ErrorKind::Unsatisfiable => (grammar, None),
                (Err(e), Err(expected)) => {
                    assert_eq!(e.kind(), expected.kind(), "{schema}\n{e}\n{expected}");
                    continue;
                }
                (one, other) => panic!("{schema}\n{:?}\n{:?}", one.err(), other.err()),
            };
            compiled += 1;
            repeated += usize::from(expected.is_none());
            let expected = expected.as_ref().filter(|_| key_order == KeyOrder::Any);
            for n in 0..if expected.is_some() { 4 } else { 1 } {
                walks += 1;
                let random = Random::new(seed * 8 + n);
                ended += usize::from(walk(&words, &grammar, expected, &schema, random));
            }
        }
    }
    eprintln!(
        "{compiled} of {} compiled, {repeated} only as they are, {ended} of {walks} walks ended",
        cases * 2
    );
    assert!(
        compiled > cases as usize && ended * 10 > walks * 9,
        "{compiled} compiled, {ended} of {walks} walks ended"
    );
}

/// Branches that differ only in their own property, as in schemas of programs that replace
/// references by their parts.
#[test]
fn many_branches_of_common_parts() {
    let query = json!({"oneOf": [{"type": "string", "maxLength": 3}, {"type": "object",
        "properties": {"kind": {"enum": ["x", "y"]}, "more": {"type": "object", "additionalProperties": false}},
        "required": ["kind"], "additionalProperties": false}]});
    let branch = |i: usize| {
        let own = format!("own {i}");
        json!({"type": "object", "title": own, "properties": {"type": {"enum": [own]}, "id": {"type": "string"},
            "label": {"type": "string", "maxLength": 5}, "query": query, "other": query, "list": {"type": "array",
            "items": query}, own.as_str(): {"type": "integer"}}, "additionalProperties": false})
    };
    let schema = json!({ "oneOf": (0..6).map(branch).collect::<Vec<_>>() });
    let words = TestVocab::new(5, 50, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let compile = |schema: &Value| {
        Constraint::json_schema(schema.to_string()).and_then(|constraint| compiler.compile(&constraint))
    };
    let grammar = compile(&schema).expect("equal parts need no look inside");
    let error = compile(&told_apart(&schema, &mut 0)).expect_err("and different ones do");
    assert_eq!(error.kind(), ErrorKind::TooComplex);
    let validator = jsonschema::validator_for(&schema).unwrap();
    for text in [
        r#"{"type":"own 3","id":"7"}"#,
        r#"{"id":"7","own 2":4}"#,
        r#"{"query":{"kind":"x"},"own 5":1}"#,
        r#"{"id":"7"}"#,
        r#"{}"#,
        r#"{"query":"abcd","own 5":1}"#,
        r#"{"type":"own 3","id":"7","own 4":1}"#,
    ] {
        assert_eq!(
            accepts(&grammar, text),
            validator.is_valid(&serde_json::from_str(text).unwrap()),
            "{text}"
        );
    }
}
