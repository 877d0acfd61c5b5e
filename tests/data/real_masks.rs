//! Masks over a real vocabulary against each token's bytes, one by one.
//!
//! The reference is the same constraint compiled for a vocabulary of single bytes. A token is legal
//! iff its bytes are accepted in their order there. Some parts of the engine need many and long
//! tokens, which the small vocabularies of `mask_oracle` do not have: slices of the vocabulary,
//! searches that stop early, sets of tokens that are known to be rejected.
//!
//! Constraints are random words and classes, counted: as a regular expression, as a pattern within
//! an object and as rules of a grammar. Real schemas are tested, too.
//!
//! With the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench` next to the repository) the
//! vocabulary has 128,256 tokens. Without it the vocabulary is that of the embedded model, and real
//! schemas are left out. `FFWD_REAL_MASKS` is the number of random expressions and of states for
//! each schema, `FFWD_REAL_SEED` selects another series of them. With `FFWD_REAL_ALL` all schemas
//! of the development set are compared instead of some.

use std::path::Path;
use std::sync::OnceLock;

use ffwd::{Compiler, Constraint, KeyOrder, Matcher, Policy, TokenId, Vocabulary, Whitespace};
use ffwd_testkit::data;
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, row};

/// The engine under test, and the reference.
struct Pair {
    vocab: Vocabulary,
    compiler: Compiler,
    bytes: Compiler,
}

fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| {
        let file = match data::bench_dir() {
            Some(dir) => dir.join("tokenizers/llama3/tokenizer.json"),
            None => {
                eprintln!("no benchmark data: the vocabulary is that of the embedded model");
                Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/runtime/assets/extract-5m/tokenizer.json")
            }
        };
        let vocab = Vocabulary::from_file(file).expect("a tokenizer");
        let single = TestVocab::new(1, 0, &[]);
        assert!((0..=255u8).all(|b| single.tokens[b as usize] == [b]), "a token is its byte");
        Pair { compiler: Compiler::new(vocab.clone()), bytes: Compiler::new(single.vocab), vocab }
    })
}

/// A generation and its reference.
struct Walk {
    matcher: Matcher,
    bytes: Matcher,
    text: Vec<u8>,
}

impl Walk {
    /// `None` if the constraint is refused; then both refuse it.
    fn new(constraint: &Constraint) -> Option<Walk> {
        let pair = pair();
        match (pair.compiler.compile(constraint), pair.bytes.compile(constraint)) {
            (Ok(a), Ok(b)) => Some(Walk { matcher: a.matcher(), bytes: b.matcher(), text: Vec::new() }),
            (Err(_), Err(_)) => None,
            (a, b) => panic!("{:?} for one vocabulary, {:?} for the other", a.err(), b.err()),
        }
    }

    fn accept(&mut self, token: TokenId) -> Result<(), String> {
        let bytes = pair().vocab.token_bytes(token);
        self.matcher.accept_token(token).map_err(|e| e.to_string())?;
        for &b in bytes {
            self.bytes.accept_token(TokenId::from(b)).map_err(|e| format!("by bytes: {e}"))?;
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    /// Compares the masks; the legal tokens but those that end.
    fn compare(&mut self, what: &dyn Fn() -> String) -> Vec<TokenId> {
        let vocab = &pair().vocab;
        let mask = row(&mut self.matcher);
        let mut legal = Vec::new();
        let mut ids = Vec::new();
        for token in 0..vocab.len() as TokenId {
            let bytes = vocab.token_bytes(token);
            ids.clear();
            ids.extend(bytes.iter().map(|&b| TokenId::from(b)));
            let expected = match bytes {
                [] => self.matcher.is_accepting() && vocab.eos().contains(&token),
                _ => self.bytes.validate_tokens(&ids) == ids.len(),
            };
            if expected && !bytes.is_empty() {
                legal.push(token);
            }
            assert_eq!(
                mask.contains(&token),
                expected,
                "token {token} {:?} behind {:?} of {}",
                String::from_utf8_lossy(bytes),
                String::from_utf8_lossy(&self.text),
                what()
            );
        }
        assert_eq!(self.matcher.is_accepting(), self.bytes.is_accepting(), "{}", what());
        legal
    }

    /// Compares in a number of states along random tokens.
    fn wander(&mut self, states: usize, random: &mut Random, what: &dyn Fn() -> String) {
        for _ in 0..states {
            let legal = self.compare(what);
            for _ in 0..1 + random.below(3) {
                // The last of a few draws, so that the steps in between need no reference.
                let legal = match self.text.is_empty() {
                    true => legal.clone(),
                    false => row(&mut self.matcher).into_iter().collect(),
                };
                let words = legal.into_iter().filter(|&t| !pair().vocab.token_bytes(t).is_empty());
                let words: Vec<TokenId> = words.collect();
                if words.is_empty() {
                    return;
                }
                let token = *random.pick(&words);
                self.accept(token).unwrap_or_else(|e| panic!("{token} of {}: {e}", what()));
            }
        }
    }
}

/// A random expression that needs no escaping in JSON, nor between slashes.
fn expression(random: &mut Random, depth: usize) -> String {
    const ATOMS: [&str; 24] = [
        "[a-z]",
        "[A-Z]",
        "[A-Za-z]",
        "[a-zé]",
        "[0-9]",
        "[^,]",
        "[^ ]",
        "[^,; ]",
        "[a-zA-Z0-9_]",
        "[ -~]",
        "[À-ž]",
        "[一-龥]",
        "the",
        "and",
        "of",
        " ",
        ", ",
        "-",
        "é",
        "中",
        "[aeiou]",
        "[^aeiou]",
        "x",
        "[a-f0-9]",
    ];
    if depth == 0 || random.chance(30) {
        return (*random.pick(&ATOMS)).to_string();
    }
    match random.below(6) {
        0 => format!("({}|{})", expression(random, depth - 1), expression(random, depth - 1)),
        1..=3 => {
            let inner = expression(random, depth - 1);
            let most = *random.pick(&[2, 5, 12, 50]);
            let (least, more) = (random.below(4), random.below(most));
            let times = match random.below(5) {
                0 => "*".to_string(),
                1 => "+".to_string(),
                2 => "?".to_string(),
                _ => format!("{{{least},{}}}", least + more),
            };
            format!("({inner}){times}")
        }
        _ => {
            let parts = 2 + random.below(3);
            (0..parts).map(|_| expression(random, depth - 1)).collect()
        }
    }
}

#[test]
fn random_expressions() {
    let (count, seed) = (env::real_masks(40), env::real_seed());
    let (mut compared, mut refused) = (0, 0);
    for n in 0..count {
        let mut random = Random::new(seed * 1_000_003 + n as u64);
        let (one, two) = (expression(&mut random, 4), expression(&mut random, 2));
        let three = expression(&mut random, 2);
        let object = format!(
            r#"{{"type": "object", "properties": {{"a": {{"type": "string", "pattern": "^({one})$"}},
                "b": {{"type": "string", "pattern": "{two}", "maxLength": 40}}}},
                "patternProperties": {{"{two}": {{"type": "integer"}}}}, "required": ["a"]}}"#
        );
        // While a name is written, an automaton for each set of patterns is alive.
        let names = format!(
            r#"{{"type": "object", "minProperties": 2, "patternProperties": {{"{two}": {{"type": "integer"}},
                "^{three}": {{"maximum": 5}}, "{three}.?$": {{"minimum": 3}}, "[0-9]e": {{"type": "number"}}}}}}"#
        );
        // A rule that calls itself stays one.
        let rules = "start: (A | b \"!\") \";\" b\nb: \"(\" b \")\" | B | A";
        let grammar = format!("{rules}\nA: /{one}/\nB: /{two}/\n");
        let written = [
            ("regex", &one, Constraint::regex(&one)),
            ("json schema", &object, Constraint::json_schema(&object)),
            ("names", &names, Constraint::json_schema(&names)),
            ("lark", &grammar, Constraint::builder().lark(&grammar)),
        ];
        for (kind, text, constraint) in written {
            let Some(mut walk) = constraint.ok().and_then(|c| Walk::new(&c)) else {
                refused += 1;
                continue;
            };
            let what = || format!("{kind} {n} of series {seed}: {text}");
            // Names are remembered for every token that is tried, which makes the reference slow.
            walk.wander(if kind == "names" { 2 } else { 4 }, &mut random, &what);
            compared += 1;
        }
    }
    eprintln!("{compared} constraints, {refused} refused");
    assert!(compared > refused, "most of them compile");
}

/// Rules that end beyond the bound of a search, and long tokens that continue after them.
#[test]
fn rules_end_within_long_tokens() {
    const INSIDE: [&str; 8] =
        ["[^;]", "[^;] ?", "([^;]|;;)", r"[-=_*#\/ é]", "[^a-z]", "(-=?)", "([^;]{2}|;)", "(--|[^-]|中)"];
    const BEHIND: [&str; 4] = [r"[-=_*#\/ .]*", "-*", "( +|#+)", "[^A-Z]*"];
    let (count, seed) = (env::real_masks(24), env::real_seed());
    let mut behind = 0;
    for n in 0..count {
        let mut random = Random::new(seed * 1_000_003 + n as u64);
        // Where a character has ten states, a search sees about 62 of them.
        let least = if random.chance(50) { 58 + random.below(12) } else { 1 + random.below(70) };
        let more = random.below(2) * random.below(30);
        let inside = format!("({}){{{least},{}}}", random.pick(&INSIDE), least + more);
        // A rule that calls itself stays one.
        let rules = "start: a B \"é\"\na: \"(\" a \")\" | A";
        let grammar = format!("{rules}\nA: /{inside}/\nB: /{}/\n", random.pick(&BEHIND));
        let constraint = Constraint::builder().lark(&grammar).expect("a grammar");
        let mut walk = Walk::new(&constraint).expect("a bounded machine");
        let what = || format!("grammar {n} of series {seed}: {grammar}");
        let legal = walk.compare(&what);
        behind += legal.iter().filter(|&&t| pair().vocab.token_bytes(t).len() > least).count();
        walk.wander(3, &mut random, &what);
    }
    assert!(behind > 0, "no token goes on behind a rule");
}

/// Two readings of a text: one may allow a token that the other refuses, by an end before more
/// text.
#[test]
fn what_one_reading_refuses_another_ends_before() {
    for word in ["zz", "qu", "ck", "é", "-"] {
        let any = match word.chars().collect::<Vec<_>>()[..] {
            [one] => format!("([^{one}])*"),
            [a, b] => format!("([^{a}]|{a}[^{b}])*"),
            _ => unreachable!("one or two characters"),
        };
        let rules = format!("a: \"(\" a \")\" | A\nA: /{any}/\nb: \"(\" b \")\" | B\nB: /[a-z ]{{0,3}}/\n");
        for start in [format!("a | b \"{word}\" a \";\""), format!("b \"{word}\" /[a-z]*/ | a")] {
            let grammar = format!("start: {start}\n{rules}");
            let constraint = Constraint::builder().lark(&grammar).expect("a grammar");
            let mut walk = Walk::new(&constraint).expect("a machine");
            walk.wander(3, &mut Random::new(1), &|| grammar.clone());
        }
    }
}

/// Names that only escapes tell apart.
#[test]
fn names_with_escapes() {
    for (n, pattern) in [r"^\n", r"^\\\\", r"^.?\t", r"^[\n\\\\]", r"^\u0001", r"^[^\n]*$"].iter().enumerate()
    {
        for more in [r#", "e$": {"maximum": 5}"#, ""] {
            let rules = format!(r#""patternProperties": {{"{pattern}": {{"type": "integer"}}{more}}}"#);
            let schema =
                format!(r#"{{"type": "object", {rules}, "additionalProperties": {{"type": "string"}}}}"#);
            let constraint = Constraint::json_schema(&schema).expect("a schema");
            let mut walk = Walk::new(&constraint).expect("a machine");
            for text in ["{", "\""] {
                walk.accept(pair().vocab.token_id(text).expect("a token")).expect("legal");
            }
            walk.wander(1, &mut Random::new(n as u64), &|| schema.clone());
        }
    }
}

#[test]
fn real_schemas() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR to the folder that holds it");
        return;
    };
    let all = env::real_all();
    let (file, every) = match all {
        true => ("maskbench-dev.jsonl.zst", 1),
        false => ("maskbench-dev-sample.jsonl.zst", 10),
    };
    let (states, seed) = (env::real_masks(2), env::real_seed());
    let mut compared = 0;
    for (n, entry) in data::load(&dir.join(file)).expect("readable data").iter().enumerate().step_by(every) {
        let mut random = Random::new(seed * 1_000_003 + n as u64);
        let (spaces, any_order) = (random.below(10), random.chance(30));
        let whitespace = match spaces {
            0..3 => Whitespace::Flexible { max: 2 },
            3..5 => Whitespace::SingleSpace,
            _ => Whitespace::Compact,
        };
        let policy = Policy {
            whitespace,
            key_order: if any_order { KeyOrder::Any } else { KeyOrder::Declared },
            ..Policy::default()
        };
        let Ok(constraint) = Constraint::builder().policy(policy).json_schema(&entry.schema) else {
            continue;
        };
        let Some(mut walk) = Walk::new(&constraint) else { continue };
        let what = || format!("schema {}, {whitespace:?}, any order {any_order}", entry.id);
        walk.wander(states, &mut random, &what);
        // States that texts of people lead to.
        let valid: Vec<_> = entry.tests.iter().filter(|t| t.valid).collect();
        if !valid.is_empty() {
            let text = data::canonical(&random.pick(&valid).data).unwrap_or_default();
            let tokens = pair().vocab.encode(&text).unwrap_or_default();
            let mut walk = Walk::new(&constraint).expect("as before");
            for at in 0..tokens.len() {
                if random.below(tokens.len()) < states {
                    walk.compare(&what);
                }
                if walk.accept(tokens[at]).is_err() {
                    break;
                }
            }
        }
        compared += 1;
    }
    eprintln!("{compared} schemas");
    assert!(compared > 0);
}
