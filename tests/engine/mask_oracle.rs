//! Masks against a slow reference: random constraints, small hostile vocabularies, random walks.
//!
//! At every step of a walk the mask must equal the mask of the reference in both directions: no
//! legal token is missing, no illegal token is set. Every other answer of the matcher must agree
//! with it. A failure is shrunk before it is reported.
//!
//! `FFWD_ORACLE_CASES` sets the number of random constraints of each kind, `FFWD_ORACLE_SEED`
//! selects another series of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ffwd::{Constraint, ErrorKind, KeyOrder, Policy, Whitespace};
use ffwd_testkit::env;
use ffwd_testkit::oracle::Oracle;
use ffwd_testkit::random::Random;
use ffwd_testkit::shapes::{self, Shape};
use ffwd_testkit::vocab::Setting;
use ffwd_testkit::walk::{Check, Seen, Spelled, Walk};

use super::examples::constraints;

/// Tokens in a walk.
const STEPS: usize = 24;
/// Failures reported by one test before it gives up.
const REPORTS: usize = 4;

/// Settings whose vocabulary has all bytes; the others lack some.
const WHOLE: usize = 3;

fn settings() -> &'static [Setting] {
    static SETTINGS: OnceLock<Vec<Setting>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let missing: Vec<u8> = (0..=255).filter(|b| b"]\\\xa9~u7\x01".contains(b)).collect();
        let no_quote: Vec<u8> = (0..=255).filter(|b| b"\"Ez\x80".contains(b)).collect();
        [(1, 400, vec![]), (2, 150, vec![]), (3, 700, vec![]), (4, 300, missing), (5, 100, no_quote)]
            .into_iter()
            .map(|(seed, extra, without)| Setting::new(seed, extra, &without))
            .collect()
    })
}

fn policies() -> Vec<Policy> {
    let base = Policy::default();
    vec![
        base.clone(),
        Policy { exponent: true, max_integer_digits: 3, max_fraction_digits: 2, ..base.clone() },
        Policy { whitespace: Whitespace::Flexible { max: 1 }, ..base.clone() },
        Policy { key_order: KeyOrder::Any, ..base.clone() },
        Policy {
            whitespace: Whitespace::Flexible { max: 3 },
            max_fraction_digits: 0,
            key_order: KeyOrder::Any,
            ..base.clone()
        },
        Policy { whitespace: Whitespace::SingleSpace, ..base.clone() },
        Policy { whitespace: Whitespace::SingleSpace, key_order: KeyOrder::Any, ..base },
    ]
}

/// What walks found.
#[derive(Default)]
struct Walked {
    walks: Seen,
    refused: usize,
    unsatisfiable: usize,
}

/// Runs one walk; an error names the prefix at which engine and reference differ.
fn walk(constraint: &Constraint, setting: &Setting, seed: u64, seen: &mut Walked) -> Check {
    let mut oracle = Oracle::new(constraint.ir(), constraint.policy(), setting.words.alphabet);
    let start = oracle.start();
    let possible = oracle.alive(start);
    let grammar = match setting.compiler.compile(constraint) {
        Ok(grammar) => grammar,
        Err(e) if e.kind() == ErrorKind::Unsatisfiable => {
            seen.unsatisfiable += 1;
            return if possible { Err(format!("compile: {e}, but something satisfies it")) } else { Ok(()) };
        }
        Err(e) if e.kind() == ErrorKind::TooComplex || e.to_string().contains("a bounded number of") => {
            seen.refused += 1;
            return Ok(());
        }
        Err(e) => return Err(format!("compile: {e}")),
    };
    if !possible {
        return Err("compile: nothing satisfies it, but it compiles".into());
    }
    let Setting { words, compiler } = setting;
    let mut walk = Walk::new(Spelled { texts: oracle, words }, words, constraint, compiler, &grammar);
    walk.random(STEPS, &mut Random::new(seed), &mut seen.walks)
}

/// A walk in which a panic is a failure like any other.
fn guarded(constraint: &Constraint, setting: &Setting, seed: u64, seen: &mut Walked) -> Check {
    catch_unwind(AssertUnwindSafe(|| walk(constraint, setting, seed, seen))).unwrap_or_else(|e| {
        let text = e.downcast_ref::<String>().cloned();
        if text.as_ref().is_some_and(|t| t.contains(ffwd_testkit::oracle::unique::TOO_MUCH)) {
            seen.refused += 1;
            return Ok(());
        }
        Err(format!(
            "panic: {}",
            text.or(e.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
        ))
    })
}

/// The smallest shape found that still fails, with its failure.
fn shrink(mut shape: Shape, policy: &Policy, setting: &Setting, mut error: String) -> (Shape, String) {
    let until = Instant::now() + Duration::from_secs(20);
    'again: loop {
        let mut candidates = shape.simpler();
        candidates.sort_by_key(|c| format!("{c:?}").len());
        for candidate in candidates {
            for seed in 0..6 {
                if Instant::now() > until {
                    return (shape, error);
                }
                let constraint = Constraint::from_ir(candidate.ir(), policy.clone());
                if let Err(e) = guarded(&constraint, setting, seed, &mut Walked::default())
                    && !e.contains("left recursion")
                {
                    (shape, error) = (candidate, e);
                    continue 'again;
                }
            }
        }
        return (shape, error);
    }
}

/// Random constraints of one kind.
fn random_cases(kind: &str, default: usize, make: impl Fn(&mut Random) -> Shape) {
    random_cases_with(kind, default, &settings()[..WHOLE], make);
}

fn random_cases_with(
    kind: &str,
    default: usize,
    settings: &'static [Setting],
    make: impl Fn(&mut Random) -> Shape,
) {
    let (mut seen, mut failures) = (Walked::default(), Vec::new());
    for case in 0..env::oracle_cases(default) as u64 {
        let seed = env::oracle_seed() * 1_000_000 + case;
        if env::oracle_only().is_some_and(|only| only != seed) {
            continue;
        }
        let mut random = Random::new(seed);
        let shape = make(&mut random);
        // Those with one blank differ from the compact ones in little.
        let policies = policies();
        let policy = policies[random.below(2 * policies.len() - 2) % policies.len()].clone();
        let setting = random.pick(settings);
        if env::oracle_trace() {
            eprintln!("{kind} seed {seed}: {shape:?} {policy:?}");
        }
        let constraint = Constraint::from_ir(shape.ir(), policy.clone());
        if let Err(error) = guarded(&constraint, setting, seed, &mut seen) {
            eprintln!("{kind} seed {seed} fails: {error}");
            let (small, why) = shrink(shape, &policy, setting, error.clone());
            failures.push(format!("seed {seed}: {error}\n  smallest: {small:?}\n  {policy:?}\n  {why}"));
            if failures.len() == REPORTS {
                break;
            }
        }
    }
    eprintln!(
        "{kind}: {} masks, {} ends, {} unsatisfiable, {} too complex",
        seen.walks.masks, seen.walks.finished, seen.unsatisfiable, seen.refused
    );
    assert!(failures.is_empty(), "{kind}:\n{}", failures.join("\n"));
    assert!(
        seen.walks.masks > env::oracle_cases(default) || env::oracle_only().is_some(),
        "the walks hardly began"
    );
}

#[test]
fn random_languages() {
    random_cases("languages", 250, |random| shapes::language(random, 3, 0));
}

#[test]
fn random_strings() {
    random_cases("strings", 250, |random| {
        let lang = random.chance(85).then(|| Box::new(shapes::text(random, 3)));
        let most = 2 * random.below(5) + 1;
        let min = random.below(most) as u32;
        let max = random.chance(60).then(|| min + random.below(6) as u32);
        Shape::Str { lang, min, max }
    });
}

#[test]
fn random_values() {
    random_cases("values", 360, |random| shapes::value(random, 3, 0));
}

#[test]
fn arrays_of_different_items() {
    random_cases("different items", 120, |random| match random.below(3) {
        0 => shapes::Shape::Union(vec![shapes::set(random), shapes::set(random)]),
        _ => shapes::set(random),
    });
}

#[test]
fn arrays_without_equal_items() {
    random_cases("no equal items", 48, |random| match random.below(4) {
        0 => shapes::Shape::Union(vec![shapes::unique(random), shapes::value(random, 1, 0)]),
        1 => shapes::Shape::Union(vec![shapes::unique(random), shapes::unique(random)]),
        2 => {
            let (prefix, rest) = (Vec::new(), Some(Box::new(shapes::unique(random))));
            shapes::Shape::Arr { prefix, rest, min: random.below(2) as u32, max: None }
        }
        _ => shapes::unique(random),
    });
}

#[test]
fn random_unions_of_values() {
    random_cases("unions", 240, |random| {
        let count = 2 + random.below(2);
        Shape::Union((0..count).map(|_| shapes::value(random, 2, 0)).collect())
    });
}

#[test]
fn bounded_containers() {
    random_cases("containers", 180, |random| {
        let count = random.below(3);
        let min = random.below(5) as u32;
        Shape::Arr {
            prefix: (0..count).map(|_| shapes::value(random, 1, 0)).collect(),
            rest: random.chance(80).then(|| Box::new(shapes::value(random, 1, 0))),
            min,
            max: random.chance(70).then(|| min + random.below(4) as u32),
        }
    });
}

#[test]
fn texts_as_they_are() {
    random_cases("texts", 200, |random| {
        let (min, lang) = (random.below(6) as u32, shapes::text(random, 3));
        let text = Shape::Raw(Box::new(lang), min, random.chance(60).then(|| min + random.below(5) as u32));
        Shape::Concat(vec![text, Shape::Bytes(random.pick(&["", "a", "\"", "\n</f>"]).as_bytes().to_vec())])
    });
}

#[test]
fn objects_in_a_markup() {
    random_cases("markup", 300, shapes::call);
}

#[test]
fn objects_with_few_names() {
    random_cases("few names", 360, shapes::demanding);
}

/// Vocabularies that cannot spell everything: what needs a missing byte is impossible.
#[test]
fn vocabularies_without_some_bytes() {
    random_cases_with("missing bytes", 200, &settings()[WHOLE..], |random| match random.below(3) {
        0 => shapes::language(random, 3, 0),
        1 => shapes::value(random, 3, 0),
        _ => Shape::Str { lang: Some(Box::new(shapes::text(random, 3))), min: 0, max: None },
    });
}

/// Shapes that once went wrong.
#[test]
fn found_before() {
    let bytes = |text: &str| Shape::Bytes(text.into());
    let nested = |inner| Shape::Concat(vec![bytes("("), inner, bytes(")")]);
    let star = |inner| Shape::Repeat(Box::new(inner), 0, None);
    let accented = Shape::Concat(vec![Shape::Bytes(vec![0xc3]), Shape::Class(vec![(0xa0, 0xbf)])]);
    let twice = Shape::Repeat(Box::new(accented), 2, Some(4));
    let list = [
        star(Shape::Rule(Box::new(Shape::Union(vec![Shape::Empty, nested(Shape::Back(0))])))),
        star(Shape::Rule(Box::new(Shape::Repeat(Box::new(nested(Shape::Back(0))), 0, Some(2))))),
        star(star(Shape::Rule(Box::new(Shape::Union(vec![bytes("a"), nested(star(Shape::Back(0)))]))))),
        // A loop over ASCII before a rule.
        Shape::Concat(vec![
            star(Shape::Class(vec![(0, 0x7f)])),
            Shape::Rule(Box::new(Shape::Class(vec![(0xc2, 0xdf)]))),
        ]),
        // The length bound cuts a branch off in the middle of a character.
        Shape::Str {
            lang: Some(Box::new(Shape::Union(vec![bytes("é"), twice.clone()]))),
            min: 1,
            max: Some(1),
        },
        Shape::Str { lang: Some(Box::new(Shape::Union(vec![bytes("é"), twice]))), min: 2, max: None },
        // A loop over nothing is no text of any length.
        Shape::Str { lang: Some(Box::new(star(Shape::Empty))), min: 1, max: None },
    ];
    let all = list.into_iter().map(|s| (format!("{s:?}"), Constraint::from_ir(s.ir(), Policy::default())));
    written("found before", all.collect());
}

/// Constraints made by the front ends.
fn written(kind: &str, constraints: Vec<(String, Constraint)>) {
    let mut seen = Walked::default();
    let mut failures = Vec::new();
    for (text, constraint) in &constraints {
        for (at, setting) in settings().iter().enumerate() {
            for seed in 0..3 {
                if let Err(error) = guarded(constraint, setting, env::oracle_seed() + seed, &mut seen) {
                    failures.push(format!("{text} (vocabulary {at}, seed {seed}): {error}"));
                    break;
                }
            }
        }
    }
    eprintln!(
        "{kind}: {} masks, {} ends, {} unsatisfiable",
        seen.walks.masks, seen.walks.finished, seen.unsatisfiable
    );
    assert!(failures.is_empty(), "{kind}:\n{}", failures.join("\n"));
    assert!(seen.walks.masks > constraints.len() && seen.walks.finished > 0, "the walks hardly began");
}

#[test]
fn regular_expressions() {
    let list = constraints("regex", "walked");
    written("regex", list.iter().map(|r| (r.clone(), Constraint::regex(r).expect(r))).collect());
}

#[test]
fn patterns_and_choices() {
    let patterns = constraints("element_patterns", "walked").into_iter();
    let patterns = patterns.map(|text| (text.clone(), Constraint::pattern(&text).expect("a pattern")));
    let choices: [&[&str]; 4] =
        [&["a", "ab", "abc", "b"], &["null", "true", "é", "éé"], &["", "x"], &["\u{1}\"", "{\"a\":1}"]];
    let choices = choices.map(|list| (format!("{list:?}"), Constraint::choice(list).expect("not empty")));
    let object = ("json_object".into(), Constraint::json_object());
    written("patterns and choices", patterns.chain(choices).chain([object]).collect());
}

#[test]
fn schemas() {
    let mut all = Vec::new();
    for text in constraints("json_schema", "walked") {
        for policy in policies() {
            let constraint = Constraint::builder().policy(policy.clone()).json_schema(&text);
            all.push((format!("{text} {policy:?}"), constraint.unwrap_or_else(|e| panic!("{text}: {e}"))));
        }
    }
    written("schemas", all);
}
