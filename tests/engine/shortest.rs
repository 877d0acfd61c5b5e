//! Completions against a slow reference: a breadth-first search over all bytes that may follow, for
//! random constraints, from random positions.

use std::collections::HashSet;

use ffwd::{Compiler, Constraint, KeyOrder, Matcher, Policy, Whitespace};
use ffwd_testkit::env;
use ffwd_testkit::oracle::{Id, Oracle};
use ffwd_testkit::random::Random;
use ffwd_testkit::shapes::{self, Shape};
use ffwd_testkit::vocab::TestVocab;
use serde_json::json;

/// Most bytes of a completion: there are strings that must have hundreds of characters.
const LONGEST: usize = 1 << 16;
/// States of the reference that are looked at for a completion.
const MAX_STATES: usize = 400;

/// What was compared.
#[derive(Debug, Default)]
struct Seen {
    /// Those for which a shorter one is found under a bound.
    bettered: usize,
    /// Completions, and those of which none is shorter.
    found: usize,
    shortest: usize,
    /// Those that are longer than they need be.
    longer: usize,
}

/// Few bytes can be spelled, for the reference tries them all.
fn vocabulary(more: &[u8]) -> TestVocab {
    let known = [b"{}[]:,\"\\ ab012.-eunltrfs", more].concat();
    let missing: Vec<u8> = (0..=255).filter(|b| !known.contains(b)).collect();
    TestVocab::new(9, 40, &missing)
}

fn policies() -> [Policy; 5] {
    let base = Policy::default();
    [
        base.clone(),
        Policy { key_order: KeyOrder::Any, ..base.clone() },
        Policy { whitespace: Whitespace::Flexible { max: 1 }, max_integer_digits: 3, ..base.clone() },
        Policy { whitespace: Whitespace::SingleSpace, ..base.clone() },
        Policy { whitespace: Whitespace::SingleSpace, key_order: KeyOrder::Any, ..base },
    ]
}

/// The length of the shortest completion; `None` if there are too many ways to tell.
fn shortest(oracle: &mut Oracle, from: Id, most: usize) -> Option<usize> {
    let (mut layer, mut seen) = (vec![from], HashSet::from([from]));
    for depth in 0..=most {
        if layer.iter().any(|&state| oracle.accepts(state)) {
            return Some(depth);
        }
        let mut next = Vec::new();
        for state in layer {
            for byte in oracle.live_bytes(state) {
                let to = oracle.derive(state, byte);
                if seen.insert(to) {
                    next.push(to);
                }
            }
            if seen.len() > MAX_STATES {
                return None;
            }
        }
        layer = next;
    }
    panic!("the reference knows no completion of {most} bytes");
}

/// Compares at the start of a constraint and at some places behind it.
fn compare(shape: &Shape, policy: &Policy, vocab: &TestVocab, random: &mut Random, seen: &mut Seen) {
    let constraint = Constraint::from_ir(shape.ir(), policy.clone());
    // What cannot be is refused, which other tests look at.
    let Ok(grammar) = Compiler::new(vocab.vocab.clone()).compile(&constraint) else { return };
    let mut oracle = Oracle::new(constraint.ir(), constraint.policy(), vocab.alphabet);
    let (mut matcher, mut state) = (grammar.matcher(), oracle.start());
    for _ in 0..6 {
        let Some(bytes) = matcher.shortest_completion(LONGEST) else {
            panic!("no completion behind {:?}: {shape:?} {policy:?}", decoded(&matcher));
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let end = oracle.after(state, &bytes);
        assert!(oracle.accepts(end), "{text:?} completes nothing: {shape:?} {policy:?}");
        if !bytes.is_empty() {
            let within = |most| matcher.shortest_completion(most).map(|b| b.len());
            // Where the search gives up on the shortest, a bound can make it find a better one.
            seen.bettered += usize::from(within(bytes.len() - 1).is_some());
            // A bound that is too high would not let it pass.
            let again = within(bytes.len());
            assert_eq!(again, Some(bytes.len()), "behind {:?}: {shape:?} {policy:?}", decoded(&matcher));
        }
        seen.found += 1;
        if let Some(least) = shortest(&mut oracle, state, bytes.len()) {
            seen.shortest += usize::from(bytes.len() == least);
            if bytes.len() > least {
                seen.longer += 1;
                if env::oracle_trace() {
                    eprintln!(
                        "{least} bytes do for {text:?} behind {:?}: {shape:?} {policy:?}",
                        decoded(&matcher)
                    );
                }
            }
        }
        for _ in 0..1 + random.below(4) {
            let live = oracle.live_bytes(state);
            let Some(&byte) = (!live.is_empty()).then(|| random.pick(&live)) else { return };
            let token =
                vocab.tokens.iter().position(|token| token[..] == [byte]).expect("each byte is a token");
            matcher.accept_token(token as u32).expect("it can follow");
            state = oracle.derive(state, byte);
        }
    }
}

fn decoded(matcher: &Matcher) -> String {
    String::from_utf8_lossy(&matcher.vocabulary().decode(&matcher.tokens())).into_owned()
}

fn compare_many(cases: u64, make: impl Fn(&mut Random) -> Shape) -> Seen {
    compare_over(&vocabulary(b""), cases, make)
}

fn compare_over(vocab: &TestVocab, cases: u64, make: impl Fn(&mut Random) -> Shape) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let shape = make(&mut random);
        let policy = random.pick(&policies()).clone();
        compare(&shape, &policy, vocab, &mut random, &mut seen);
    }
    eprintln!("{seen:?}");
    assert!(seen.shortest > 100, "{seen:?}");
    assert!(seen.bettered * 100 <= seen.found, "too long: {seen:?}");
    seen
}

#[test]
fn completions_of_texts_are_the_shortest() {
    let seen = compare_many(150, |random| shapes::language(random, 3, 0));
    assert_eq!(seen.longer, 0);
}

#[test]
fn completions_of_values_are_the_shortest() {
    let seen = compare_many(150, |random| shapes::value(random, 3, 0));
    assert_eq!(seen.longer, 0);
}

#[test]
fn completions_where_texts_must_be_new_are_short() {
    let seen =
        compare_many(
            150,
            |random| if random.chance(50) { shapes::set(random) } else { shapes::demanding(random) },
        );
    assert!(seen.longer * 20 < seen.shortest, "{seen:?}");
}

/// The rest of texts as they are, and of objects in a markup.
#[test]
fn completions_of_calls_are_short() {
    let vocab = vocabulary(b"<>=;\n_p/k");
    let seen = compare_over(&vocab, 250, |random| match random.chance(20) {
        true => Shape::Raw(Box::new(shapes::text(random, 3)), random.below(5) as u32, None),
        false => shapes::call(random),
    });
    assert!(seen.longer * 20 < seen.shortest, "{seen:?}");
}

/// Long completions: the bound alone determines them, or the search finds them among many choices.
#[test]
fn long_and_wide_constraints() {
    let vocab = TestVocab::new(9, 40, &[]).vocab;
    let completion = |schema: serde_json::Value, most: usize| {
        let constraint = Constraint::json_schema(schema.to_string()).expect("a schema");
        let grammar = Compiler::new(vocab.clone()).compile(&constraint).expect("it compiles");
        grammar.matcher().shortest_completion(most).map(|bytes| bytes.len())
    };
    let object = |min: u32| json!({"type": "object", "minProperties": min, "additionalProperties": {"type": "integer"}});
    for endless in [
        json!({"type": "array", "minItems": 1_000_000_000}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "array", "items": {"type": "array", "minItems": 60_000}, "minItems": 60_000}),
        object(1_000_000),
    ] {
        assert_eq!(completion(endless, usize::MAX), None);
    }
    assert_eq!(completion(json!({"type": "string", "minLength": 9000}), usize::MAX), Some(9002));
    assert_eq!(
        completion(json!({"type": "array", "minItems": 9000, "items": {"type": "null"}}), 45_001),
        Some(45_001)
    );
    assert_eq!(
        completion(json!({"type": "array", "minItems": 9000, "items": {"type": "null"}}), 45_000),
        None
    );
    // Two quotes, a colon, a digit and a comma, and names of a few characters: too many to find the
    // shortest.
    let many = completion(object(300), usize::MAX).expect("there are many names");
    assert!((300 * 5..300 * 12).contains(&many), "{many}");
    let words: Vec<String> = (0..20_000).map(|i| format!("{i:05} and more")).collect();
    let properties: serde_json::Map<String, serde_json::Value> =
        (0..300).map(|i| (format!("p{i:03}"), json!({"$ref": "#/$defs/words"}))).collect();
    let required = ["p299", "p000"];
    let wide = json!({"type": "object", "properties": properties, "required": required,
        "$defs": {"words": {"enum": words}}});
    assert_eq!(completion(wide, usize::MAX), Some(2 * (r#""p000":"00000 and more","#.len()) + 1));
    let nested = |items: u32| {
        (0..200).fold(json!({"const": 1}), |inner, i| match i % 2 {
            0 => json!({"type": "array", "items": inner, "minItems": items}),
            _ => json!({"type": "object", "properties": {"a": inner, "b": {"enum": words[..50]}}, "required": ["a"]}),
        })
    };
    assert_eq!(completion(nested(1), usize::MAX), Some(100 * r#"{"a":[]}"#.len() + 1));
    // The text doubles with each array.
    assert_eq!(completion(nested(2), usize::MAX), None);
}

#[test]
fn objects_in_any_order_inside_each_other() {
    let vocab = TestVocab::new(9, 40, &[]);
    let compiler = Compiler::new(vocab.vocab.clone());
    let policy = Policy { key_order: KeyOrder::Any, ..Policy::default() };
    // What an inner object asks for must be known from outside: the names that may be invented are
    // endless.
    let inner = json!({"type": "object", "properties": {"name": {"type": "integer"}, "uri": {"type": "string"}},
        "required": ["uri", "name"]});
    let outer = |items: u32| {
        let list = json!({"type": "array", "minItems": items, "items": inner});
        json!({"type": "object", "properties": {"list": list, "more": inner}, "required": ["list"],
            "additionalProperties": inner, "minProperties": 2})
    };
    let one = r#"{"name":0,"uri":""}"#.len();
    // Two orders of each item, and no bound on the text between.
    for items in [0, 1, 4, 600] {
        let constraint =
            Constraint::builder().policy(policy.clone()).json_schema(outer(items).to_string()).unwrap();
        let matcher = compiler.compile(&constraint).unwrap().matcher();
        let found = matcher.shortest_completion(usize::MAX).map(|bytes| bytes.len());
        let list = items as usize * (one + 1) - usize::from(items > 0);
        // The other property has no name.
        assert_eq!(found, Some(r#"{"list":[],"":}"#.len() + list + one), "{items} items");
    }
}
