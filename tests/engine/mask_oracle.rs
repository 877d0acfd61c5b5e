//! Masks against a slow reference: random constraints, small hostile vocabularies, random walks.
//!
//! At every step of a walk the mask must equal the mask of the reference in both directions: no
//! legal token is missing, no illegal token is set. Every other answer of the matcher must agree
//! with it. A failure is shrunk before it is reported.
//!
//! `FFWD_ORACLE_CASES` sets the number of random constraints of each kind, `FFWD_ORACLE_SEED`
//! selects another series of them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ffwd::{Constraint, ErrorKind, KeyOrder, Matcher, Policy, Whitespace};
use ffwd_testkit::env;
use ffwd_testkit::oracle::{Id, Oracle};
use ffwd_testkit::random::Random;
use ffwd_testkit::shapes::{self, Shape};
use ffwd_testkit::vocab::Setting;

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

/// What one walk found.
#[derive(Default)]
struct Seen {
    masks: usize,
    finished: usize,
    refused: usize,
    unsatisfiable: usize,
}

/// A walk in progress: the engine and the reference side by side.
struct Walk<'a> {
    setting: &'a Setting,
    constraint: &'a Constraint,
    oracle: Oracle<'a>,
    matcher: Matcher,
    masks: HashMap<Id, Vec<bool>>,
    /// States of the reference after each token accepted.
    states: Vec<Id>,
    tokens: Vec<u32>,
    row: Vec<u32>,
}

type Check = Result<(), String>;

fn check(ok: bool, what: impl FnOnce() -> String) -> Check {
    if ok { Ok(()) } else { Err(what()) }
}

impl Walk<'_> {
    fn state(&self) -> Id {
        *self.states.last().expect("the start is always there")
    }

    fn expected(&mut self) -> Vec<bool> {
        let state = self.state();
        if !self.masks.contains_key(&state) {
            let mask = self.oracle.mask(state, &self.setting.words.tokens, &self.setting.words.eos);
            self.masks.insert(state, mask);
        }
        self.masks[&state].clone()
    }

    fn show(&self, token: u32) -> String {
        let bytes = &self.setting.words.tokens[token as usize];
        format!("token {token} {:?}", String::from_utf8_lossy(bytes))
    }

    fn same_mask(&mut self, matcher: &mut Matcher, what: &str) -> Check {
        let expected = self.expected();
        self.row.fill(0xdead_beef);
        matcher.fill_bitmask(&mut self.row);
        for (id, &want) in expected.iter().enumerate() {
            let got = self.row[id / 32] >> (id % 32) & 1 == 1;
            check(got == want, || format!("{what}: {}: expected {want}, got {got}", self.show(id as u32)))?;
        }
        let beyond = (expected.len()..self.row.len() * 32).all(|t| self.row[t / 32] >> (t % 32) & 1 == 0);
        check(beyond, || format!("{what}: bits set beyond the vocabulary"))?;
        let count = expected.iter().filter(|&&b| b).count();
        let legal = matcher.legal_count();
        check(legal == count, || format!("{what}: legal_count: expected {count}, got {legal}"))
    }

    /// Everything the matcher says at this point.
    fn compare(&mut self, random: &mut Random) -> Check {
        let mut matcher = self.matcher.fork();
        self.same_mask(&mut matcher, "mask")?;
        let expected = self.expected();
        for _ in 0..30 {
            let id = random.below(expected.len()) as u32;
            let (got, want) = (matcher.allows(id), expected[id as usize]);
            check(got == want, || format!("allows: {}: expected {want}, got {got}", self.show(id)))?;
        }
        let state = self.state();
        let accepts = self.oracle.accepts(state);
        check(matcher.is_accepting() == accepts, || format!("is_accepting: expected {accepts}"))?;
        let live = !self.oracle.live_bytes(state).is_empty();
        check(matcher.is_terminated() != live, || format!("is_terminated: expected {}", !live))?;
        let (run, want) = (matcher.forced_bytes(), self.oracle.forced(state));
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        check(!matcher.is_finished(), || "finished without an end token".into())?;
        check(run == want, || format!("forced_bytes: expected {:?}, got {:?}", text(&want), text(&run)))?;
        let last = self.tokens.last().copied();
        for (name, tokens) in [
            ("forced_tokens", matcher.forced_tokens()),
            ("canonical_forced_tokens", matcher.canonical_forced_tokens(last)),
            ("longest_forced_tokens", matcher.longest_forced_tokens()),
        ] {
            let bytes = self.setting.words.vocab.decode(&tokens);
            check(run.starts_with(&bytes), || format!("{name}: {:?} not in {:?}", text(&bytes), text(&run)))?;
            let valid = matcher.validate_tokens(&tokens);
            check(valid == tokens.len(), || format!("{name}: only {valid} of {tokens:?} are legal"))?;
        }
        self.compare_validate(&mut matcher, random)?;
        self.compare_illegal(&mut matcher, &expected, random)
    }

    /// `validate_tokens` on a sequence that is legal for a while.
    fn compare_validate(&mut self, matcher: &mut Matcher, random: &mut Random) -> Check {
        let (mut state, mut ids, mut want) = (self.state(), Vec::new(), None);
        let tokens = &self.setting.words.tokens;
        for _ in 0..6 {
            let mut id = 0;
            for _ in 0..20 {
                id = random.below(tokens.len());
                let next = self.oracle.after(state, &tokens[id]);
                if !tokens[id].is_empty() && self.oracle.alive(next) {
                    break;
                }
            }
            let next = self.oracle.after(state, &tokens[id]);
            if want.is_none() && (tokens[id].is_empty() || !self.oracle.alive(next)) {
                want = Some(ids.len());
            }
            ids.push(id as u32);
            state = next;
        }
        let (want, got) = (want.unwrap_or(ids.len()), matcher.validate_tokens(&ids));
        let shown: Vec<String> = ids.iter().map(|&id| self.show(id)).collect();
        check(got == want, || format!("validate_tokens({}): expected {want}, got {got}", shown.join(", ")))
    }

    /// An illegal token is an error and changes nothing.
    fn compare_illegal(&mut self, matcher: &mut Matcher, expected: &[bool], random: &mut Random) -> Check {
        let id = random.below(expected.len()) as u32;
        if !expected[id as usize] {
            check(matcher.accept_token(id).is_err(), || format!("accept_token took {}", self.show(id)))?;
            self.same_mask(matcher, "after a refused token")?;
        }
        Ok(())
    }

    /// The same point reached by a matcher that has cached nothing, byte by byte where possible.
    fn compare_fresh(&mut self) -> Check {
        let words = &self.setting.words;
        let grammar =
            self.setting.compiler.compile(self.constraint).map_err(|e| format!("second compile: {e}"))?;
        let mut fresh = grammar.matcher();
        for byte in words.vocab.decode(&self.tokens) {
            let id = words.tokens.iter().position(|t| t[..] == [byte]).expect("all bytes are tokens");
            fresh.accept_token(id as u32).map_err(|e| format!("byte by byte: {e}"))?;
        }
        self.same_mask(&mut fresh, "uncached, byte by byte")
    }

    fn accept(&mut self, id: u32) -> Check {
        self.matcher.accept_token(id).map_err(|e| format!("{}: {e}", self.show(id)))?;
        let next = self.oracle.after(self.state(), &self.setting.words.tokens[id as usize]);
        self.states.push(next);
        self.tokens.push(id);
        check(self.matcher.num_accepted() == self.tokens.len(), || "num_accepted".into())
    }

    fn roll_back(&mut self, random: &mut Random) -> Check {
        let count = random.below(self.tokens.len() + 1);
        let fork = self.matcher.fork();
        self.matcher.rollback(count);
        let here = self.states.len();
        let gone = self.states.split_off(here - count);
        let undone = self.tokens.split_off(self.tokens.len() - count);
        let mut matcher = self.matcher.fork();
        self.same_mask(&mut matcher, "after rollback")?;
        if random.chance(50) {
            return Ok(());
        }
        // Continue with the copy that was not rolled back.
        self.matcher = fork;
        self.states.extend(gone);
        self.tokens.extend(undone);
        let mut matcher = self.matcher.fork();
        self.same_mask(&mut matcher, "fork made before a rollback")
    }

    fn finish(&mut self) -> Check {
        let eos = self.setting.words.eos.clone();
        let mut matcher = self.matcher.fork();
        matcher.accept_token(eos[0]).map_err(|e| format!("end token: {e}"))?;
        check(matcher.is_terminated(), || "not terminated after the end token".into())?;
        self.row.fill(0xdead_beef);
        matcher.fill_bitmask(&mut self.row);
        let set: Vec<u32> = (0..self.row.len() as u32 * 32)
            .filter(|t| self.row[*t as usize / 32] >> (t % 32) & 1 == 1)
            .collect();
        check(set == eos, || format!("after the end token: expected {eos:?}, got {set:?}"))?;
        check(matcher.num_accepted() == self.tokens.len(), || "the end token is counted".into())?;
        check(matcher.is_finished() && matcher.fork().is_finished(), || "not finished".into())?;
        matcher.rollback(1);
        check(!matcher.is_finished(), || "finished after a rollback of the end token".into())?;
        check(matcher.tokens() == self.tokens, || "more than the end token rolled back".into())?;
        self.same_mask(&mut matcher, "after a rollback of the end token")?;
        Ok(())
    }

    fn run(&mut self, random: &mut Random, seen: &mut Seen) -> Check {
        for _ in 0..STEPS {
            self.compare(random)?;
            seen.masks += 1;
            if random.chance(15) {
                self.compare_fresh()?;
            }
            if random.chance(20) {
                self.roll_back(random)?;
            }
            let expected = self.expected();
            let state = self.state();
            if self.oracle.accepts(state) {
                self.finish()?;
                seen.finished += 1;
            }
            let tokens = &self.setting.words.tokens;
            let legal: Vec<u32> = (0..expected.len() as u32)
                .filter(|&t| expected[t as usize] && !tokens[t as usize].is_empty())
                .collect();
            if legal.is_empty() {
                return check(self.oracle.accepts(state), || "a dead end".into());
            }
            // Free text has many tokens, structure few: half of the time prefer structure.
            let structural: Vec<u32> = legal
                .iter()
                .copied()
                .filter(|&t| tokens[t as usize].iter().any(|b| b"\"{}[],:\\".contains(b)))
                .collect();
            let choice = if structural.is_empty() || random.chance(40) { &legal } else { &structural };
            self.accept(*random.pick(choice))?;
        }
        Ok(())
    }
}

/// Runs one walk; an error names the prefix at which engine and reference differ.
fn walk(constraint: &Constraint, setting: &Setting, seed: u64, seen: &mut Seen) -> Check {
    let mut oracle = Oracle::new(constraint.ir(), constraint.policy(), setting.words.alphabet);
    let start = oracle.start();
    let possible = oracle.alive(start);
    let grammar = match setting.compiler.compile(constraint) {
        Ok(grammar) => grammar,
        Err(e) if e.kind() == ErrorKind::Unsatisfiable => {
            seen.unsatisfiable += 1;
            return check(!possible, || format!("compile: {e}, but something satisfies it"));
        }
        Err(e) if e.kind() == ErrorKind::TooComplex || e.to_string().contains("a bounded number of") => {
            seen.refused += 1;
            return Ok(());
        }
        Err(e) => return Err(format!("compile: {e}")),
    };
    check(possible, || "compile: nothing satisfies it, but it compiles".into())?;
    let row = vec![0; setting.words.vocab.bitmask_words()];
    let mut walk = Walk {
        setting,
        constraint,
        oracle,
        matcher: grammar.matcher(),
        masks: HashMap::new(),
        states: vec![start],
        tokens: Vec::new(),
        row,
    };
    let result = walk.run(&mut Random::new(seed), seen);
    result.map_err(|e| {
        let prefix = setting.words.vocab.decode(&walk.tokens);
        format!("after {:?}: {e}", String::from_utf8_lossy(&prefix))
    })
}

/// A walk in which a panic is a failure like any other.
fn guarded(constraint: &Constraint, setting: &Setting, seed: u64, seen: &mut Seen) -> Check {
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
                if let Err(e) = guarded(&constraint, setting, seed, &mut Seen::default())
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
    let (mut seen, mut failures) = (Seen::default(), Vec::new());
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
        seen.masks, seen.finished, seen.unsatisfiable, seen.refused
    );
    assert!(failures.is_empty(), "{kind}:\n{}", failures.join("\n"));
    assert!(
        seen.masks > env::oracle_cases(default) || env::oracle_only().is_some(),
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
    let mut seen = Seen::default();
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
    eprintln!("{kind}: {} masks, {} ends, {} unsatisfiable", seen.masks, seen.finished, seen.unsatisfiable);
    assert!(failures.is_empty(), "{kind}:\n{}", failures.join("\n"));
    assert!(seen.masks > constraints.len() && seen.finished > 0, "the walks hardly began");
}

#[test]
fn regular_expressions() {
    let list = [
        "a",
        "a*",
        "(ab|a)(c|bcd)?",
        "[a-c]{2,5}x",
        r"\d{1,3}(\.\d{1,2})?",
        ".*",
        r"[^a]*a.{2}",
        "(a|b)*abb",
        "é+漢?😀",
        r"\p{L}{1,3}",
        "(?i)null|true",
        r"[\x00-\x1f]{0,2}",
        "x{3}|x{5}",
        r"\w+( \w+){0,2}",
        r#"\{"a":[01]+\}"#,
        "",
    ];
    written("regex", list.iter().map(|r| (r.to_string(), Constraint::regex(r).expect(r))).collect());
}

#[test]
fn patterns_and_choices() {
    let patterns =
        ["UPPER+ ':' ' ' LOWER+ '\\n'", "DIGIT{2,4} ('-' DIGIT{2}){0,2}", "ANY* '.'", "LETTER? SPACE* PUNCT"];
    let mut all: Vec<(String, Constraint)> = Vec::new();
    for text in patterns {
        all.push((text.into(), Constraint::pattern(text).expect(text)));
    }
    let choices = [
        vec!["a", "ab", "abc", "b"],
        vec!["null", "true", "é", "éé"],
        vec!["", "x"],
        vec!["\u{1}\"", "{\"a\":1}"],
    ];
    for list in choices {
        all.push((format!("{list:?}"), Constraint::choice(&list).expect("not empty")));
    }
    all.push(("json_object".into(), Constraint::json_object()));
    written("patterns and choices", all);
}

#[test]
fn schemas() {
    let list = [
        r#"{}"#,
        r#"{"type":"integer","minimum":-5,"maximum":120}"#,
        r#"{"type":"number","exclusiveMinimum":0.5,"maximum":10.25}"#,
        r#"{"type":["string","null"],"maxLength":3}"#,
        r#"{"type":"string","pattern":"^[a-c]+$","minLength":2,"maxLength":5}"#,
        r#"{"type":"string","pattern":"b"}"#,
        r#"{"type":"string","format":"date"}"#,
        r#"{"enum":["a","ab",1,12,null,{"a":[1]}]}"#,
        r#"{"type":"object","properties":{"a":{"type":"integer"},"ab":{"type":"string"}},"required":["a"]}"#,
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"const":"x"}},"additionalProperties":false}"#,
        r#"{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3}"#,
        r#"{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}"#,
        r##"{"type":"object","properties":{"v":{"type":"integer"},"n":{"$ref":"#"}},"required":["v"],"additionalProperties":false}"##,
        r#"{"anyOf":[{"type":"string","maxLength":2},{"type":"object","properties":{"a":true}},{"type":"number"}]}"#,
        r#"{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a\"":{"type":"null"}},"required":["a\""],"additionalProperties":{"type":"string"}}"#,
        r#"{"type":"string","pattern":"^(?!ab$)(?=.*b)[abc]*(?<!c)$"}"#,
        r#"{"type":"string","pattern":"\\ba\\b","maxLength":4}"#,
        r#"{"type":"object","anyOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},{"properties":{"b":true},"required":["b"]}],"unevaluatedProperties":false}"#,
        r#"{"type":"array","contains":{"type":"null"},"anyOf":[{"prefixItems":[{"const":1}]},{"minItems":2}],"unevaluatedItems":{"const":2}}"#,
        r##"{"$id":"https://example.com/s","$dynamicAnchor":"n","$ref":"t","unevaluatedProperties":false,"$defs":{"t":{"$id":"t","$dynamicAnchor":"n","type":"object","properties":{"a":true,"b":{"items":{"$dynamicRef":"#n"}}}}}}"##,
        r#"{"type":["object","array"],"not":{"enum":[{"a":1},[1,{"b":2}]]},"properties":{"a":{"type":"integer"}},"items":{"type":["integer","object"]}}"#,
    ];
    let mut all = Vec::new();
    for text in list {
        for policy in policies() {
            let constraint = Constraint::builder()
                .policy(policy.clone())
                .json_schema(text)
                .unwrap_or_else(|e| panic!("{text}: {e}"));
            all.push((format!("{text} {policy:?}"), constraint));
        }
    }
    written("schemas", all);
}
