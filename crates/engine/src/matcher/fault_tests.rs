//! A panic in a step must leave nothing behind: masks afterwards equal those of fresh tables.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ffwd_testkit::random::Random;

use crate::fault::{self, Injected, Point};
use crate::{CompiledGrammar, Compiler, Constraint, KeyOrder, Matcher, Policy, TokenId, Vocabulary};

/// Positions of the walks of one constraint.
const MASKS: usize = 1_000;
/// Positions of one walk at most.
const LENGTH: usize = 40;
/// Passages of a point before its panic.
const COUNTS: [u32; 6] = [0, 1, 2, 5, 17, 60];

/// A name, a schema, whether its properties may have any order, and points that it never passes.
type Case = (&'static str, &'static str, bool, &'static [Point]);

const CASES: [Case; 6] = [
    (
        "unique items",
        r#"{"type": "array", "uniqueItems": true, "items": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 30},
            {"type": "object", "properties": {"a": {"enum": ["x", "xy", 1]}, "b": {"type": "boolean"}},
             "additionalProperties": false}, {"type": "array", "uniqueItems": true, "items": {"enum": [[], [1], "x", "xx"]}}]}}"#,
        false,
        &[Point::Name],
    ),
    (
        "items with few values",
        r#"{"type": "array", "uniqueItems": true, "minItems": 3, "prefixItems": [{"enum": ["a", "ab"]},
            {"enum": [{"k": 1}, "ab", "c"]}], "items": {"enum": ["a", "ab", "c", "cd", {"k": 1}, [2]]}}"#,
        false,
        &[Point::Name],
    ),
    (
        "unordered properties",
        r#"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"maxLength": 3, "type": "string"}, "ab": {"const": null}},
            "required": ["a", "b"], "patternProperties": {"^[a-c]{1,2}$": {}}, "additionalProperties": {"type": "array"},
            "minProperties": 3, "maxProperties": 6}"#,
        true,
        &[Point::Scan, Point::Search],
    ),
    (
        "unique strings",
        r#"{"type": "array", "items": {"type": "array", "uniqueItems": true, "items": {"type": "string", "pattern": "^[ab]{1,7}$"}}}"#,
        false,
        &[Point::Scan, Point::Search],
    ),
    (
        "recursion",
        r##"{"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"l": {"$ref": "#/$defs/tree"},
            "v": {"type": ["null", "number"]}, "r": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "array", "items": {"$ref": "#"}}]}},
            "additionalProperties": false}}}"##,
        false,
        &[Point::Name, Point::Scan, Point::Search],
    ),
    (
        "references",
        r##"{"$defs": {"p": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
            "q": {"items": {"$ref": "#/$defs/p"}, "type": "array", "minItems": 1}, "any": {}},
            "type": "object", "properties": {"p": {"$ref": "#/$defs/p"}, "q": {"$ref": "#/$defs/q"}, "x": {"$ref": "#/$defs/any"}},
            "required": ["q"]}"##,
        false,
        &[Point::Scan, Point::Search],
    ),
];

fn vocabulary() -> Vocabulary {
    let json =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
    Vocabulary::from_bytes(json).expect("the tokenizer of the embedded model")
}

/// A path of an output, with the mask at each of its positions.
type Walk = Vec<(Vec<u32>, Option<TokenId>)>;

fn row(matcher: &mut Matcher) -> Vec<u32> {
    let mut row = vec![0; matcher.vocabulary().bitmask_words()];
    matcher.fill_bitmask(&mut row);
    row
}

/// Walks through the masks at random. Short tokens are preferred, so that texts end and repeat.
fn walk(random: &mut Random, grammar: &CompiledGrammar) -> Walk {
    let (mut matcher, mut walk) = (grammar.matcher(), Walk::new());
    let vocab = grammar.vocabulary().clone();
    while walk.len() < LENGTH && !matcher.is_terminated() {
        let mask = row(&mut matcher);
        let legal: Vec<TokenId> = (0..vocab.len() as TokenId)
            .filter(|t| mask[*t as usize / 32] >> (t % 32) & 1 == 1 && !vocab.eos().contains(t))
            .collect();
        let cost = |t: &TokenId| match vocab.token_bytes(*t) {
            bytes if bytes.iter().any(|b| b"\"[]{},:".contains(b)) => 0,
            bytes if bytes.iter().all(|b| b"abcxkid12".contains(b)) => 1,
            bytes => 1 + bytes.len(),
        };
        let token = (0..4).map(|_| *random.pick(&legal)).min_by_key(cost).expect("a legal token");
        let text = String::from_utf8_lossy(&vocab.decode(&matcher.tokens())).into_owned();
        matcher.accept_token(token).unwrap_or_else(|e| panic!("after {text:?}: {e}"));
        walk.push((mask, Some(token)));
    }
    walk.push((row(&mut matcher), None));
    walk
}

/// Follows a walk, and compares every mask.
fn follow(matcher: &mut Matcher, walk: &Walk, from: usize, what: &str) -> usize {
    for (at, (mask, token)) in walk.iter().enumerate().skip(from) {
        assert!(row(matcher) == *mask, "{what}: another mask after {at} tokens");
        if let Some(token) = token {
            matcher.accept_token(*token).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
    walk.len() - from
}

/// Follows a walk with an armed point at each token, and the start of another walk after each panic.
/// Returns the number of panics.
fn panicking(
    matcher: &mut Matcher,
    (walk, other): (&Walk, &Walk),
    (point, count): (Point, u32),
    what: &str,
) -> usize {
    let mut panics = 0;
    for (at, (mask, token)) in walk.iter().enumerate() {
        let accepted = matcher.num_accepted();
        fault::arm(point, count);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let found = row(matcher);
            if let Some(token) = token {
                matcher.accept_token(*token).expect("a legal token");
            }
            found
        }));
        fault::disarm();
        match result {
            Ok(found) => assert!(found == *mask, "{what}: another mask after {at} tokens"),
            Err(payload) if payload.is::<Injected>() => {
                panics += 1;
                assert_eq!(matcher.num_accepted(), accepted, "{what}: a token without its step");
                // Another step than the one that did not end: that one would do its work again.
                let start = other[..other.len().min(4)].to_vec();
                follow(&mut matcher.grammar().matcher(), &start, 0, what);
                follow(matcher, &vec![(mask.clone(), *token)], 0, what);
            }
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }
    panics
}

#[test]
fn masks_after_a_panic_are_those_of_fresh_tables() {
    // Injected panics are expected; all others are printed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Injected>() {
            hook(info);
        }
    }));
    let vocab = vocabulary();
    for (name, schema, any_order, never) in CASES {
        let key_order = if any_order { KeyOrder::Any } else { KeyOrder::Declared };
        let policy = Policy { key_order, ..Policy::default() };
        let constraint = Constraint::builder().policy(policy).json_schema(schema).expect(name);
        let compiler = Compiler::new(vocab.clone()).with_replicas(1);
        let grammar = || compiler.compile(&constraint).expect(name);
        let (mut random, fresh) = (Random::new(1), grammar());
        let (mut walks, mut masks) = (Vec::new(), 0);
        while masks < MASKS {
            let walk = walk(&mut random, &fresh);
            masks += walk.len();
            walks.push(walk);
        }
        for point in Point::ALL {
            let shared = grammar();
            let mut other = shared.matcher();
            follow(&mut other, &walks[0][..1].to_vec(), 0, name);
            let mut panics = 0;
            for (i, count) in COUNTS.into_iter().enumerate() {
                let what = format!("{name}, {point:?} after {count}");
                let (walk, next) = (&walks[i % walks.len()], &walks[(i + 1) % walks.len()]);
                panics += panicking(&mut shared.matcher(), (walk, next), (point, count), &what);
            }
            let what = format!("{name}, {point:?}");
            assert_eq!(panics == 0, never.contains(&point), "{what}: {panics} panics");
            // A generation that was there, before it moves.
            let mut same = fresh.matcher();
            follow(&mut same, &walks[0][..1].to_vec(), 0, &what);
            assert_eq!(other.forced_prefix(None, 9), same.forced_prefix(None, 9), "{what}");
            assert_eq!(other.is_forced(), same.is_forced(), "{what}");
            assert_eq!(other.shortest_completion(99), same.shortest_completion(99), "{what}");
            // Now it moves; and new ones.
            follow(&mut other, &walks[0], 1, &what);
            let compared: usize = walks.iter().map(|w| follow(&mut shared.matcher(), w, 0, &what)).sum();
            assert!(compared >= MASKS);
        }
    }
}
