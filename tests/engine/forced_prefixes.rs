//! The beginning of a forced run against the whole run. Runs have any characters, and are longer
//! and shorter than the lookahead.

use ffwd::{Compiler, Constraint, ForcedPrefix, KeyOrder, Policy, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

const CHARACTERS: &[&str] = &["a", "b", "1", " ", "\"", "é", "ß", "€", "语", "🦀", "\n", "null", "{\""];

#[test]
fn it_is_the_beginning_of_the_run() {
    let words = TestVocab::new(11, 250, &[]);
    let (vocab, mut random) = (&words.vocab, Random::new(23));
    let compiler = Compiler::new(vocab.clone());
    let (mut cut, mut whole) = (0, 0);
    for _ in 0..150 {
        let most = *random.pick(&[20, 700]);
        let pieces = random.below(most);
        let run: String = (0..pieces).map(|_| *random.pick(CHARACTERS)).collect();
        let choices = [format!("x{run}y"), format!("x{run}z"), "w".into()];
        let grammar = compiler.compile(&Constraint::choice(choices).unwrap()).unwrap();
        let mut matcher = grammar.matcher();
        assert!(!matcher.is_forced());
        let x = words.tokens.iter().position(|token| token == b"x").unwrap() as u32;
        matcher.accept_token(x).unwrap();
        assert_eq!(matcher.is_forced(), !run.is_empty());
        for tokens in [0, 1, 3, 10, 40] {
            // Before and after the whole run is known.
            for known in [false, true] {
                if known {
                    assert_eq!(matcher.forced_bytes(), run.as_bytes());
                }
                let starts = [matcher.forced_prefix(Some(x), tokens), matcher.longest_forced_start(tokens)];
                for (ForcedPrefix { tokens: found, whole: all }, longest) in
                    starts.into_iter().zip([false, true])
                {
                    let spelled = vocab.decode(&found);
                    assert!(run.as_bytes().starts_with(&spelled), "{spelled:?} of {run:?}");
                    assert_eq!(matcher.validate_tokens(&found), found.len());
                    if all {
                        assert_eq!(spelled, run.as_bytes());
                        let same = if longest {
                            matcher.longest_forced_tokens()
                        } else {
                            matcher.drafted_forced_tokens(Some(x))
                        };
                        assert_eq!(found, same);
                        whole += 1;
                    } else {
                        // No token of these is longer than eight bytes.
                        assert!(found.len() >= tokens.min(run.len() / 8), "{} of {tokens}", found.len());
                        assert!(spelled.len() < run.len() && spelled.len() <= 8 * tokens + 64);
                        cut += 1;
                    }
                }
                let behind = matcher.forced_bytes_after(run.as_bytes(), tokens);
                assert_eq!(behind.as_deref(), Some(&b""[..]), "two ways to go on");
            }
        }
    }
    assert!(cut > 500 && whole > 500, "{cut} {whole}");
}

/// A list of texts over the vocabulary of an embedded model: whichever of them is written, its forced
/// tokens are the tokenizer's own.
#[test]
fn forced_tokens_are_those_of_every_text() {
    let tokenizer = include_bytes!("../../crates/runtime/assets/extract-5m/tokenizer.json");
    let vocab = ffwd::Vocabulary::from_bytes(tokenizer).expect("a tokenizer");
    let compiler = Compiler::new(vocab.clone());
    const PARTS: [&str; 24] = [
        "the", "in", "ter", "nation", "al", "s", "e", "or", " ", " the", ":", "\"", ",", "{", "-", "/", "1",
        "23", "%", "\n", "er", "W", "D", "ing",
    ];
    let (mut forced, mut seen) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let text = |random: &mut Random, most: usize| -> String {
            (0..random.below(most)).map(|_| *random.pick(&PARTS)).collect()
        };
        // Texts that begin alike.
        let common = text(&mut random, 6);
        let texts: Vec<String> =
            (0..2 + random.below(3)).map(|_| format!("{common}{}x", text(&mut random, 5))).collect();
        let grammar = compiler.compile(&Constraint::choice(&texts).expect("texts")).expect("a choice");
        for text in &texts {
            let tokens = vocab.encode(text).expect("it encodes");
            if vocab.decode(&tokens) != text.as_bytes() {
                continue;
            }
            let mut matcher = grammar.matcher();
            for (at, &token) in tokens.iter().enumerate() {
                let run = matcher.forced_tokens();
                assert!(tokens[at..].starts_with(&run), "{text:?} of {texts:?} at {at}: {run:?}, {tokens:?}");
                (forced, seen) = (forced + run.len(), seen + 1);
                matcher.accept_token(token).expect("one of the texts");
            }
        }
    }
    assert!(forced > seen, "{forced} of {seen}");
}

/// A record, indented and on one line, under policies that leave white space open, and the order of keys. At
/// every byte the likely run is legal, and it is what comes.
#[test]
fn likely_runs_follow_the_white_space_so_far_and_the_order_of_the_schema() {
    let guessed = [KeyOrder::Declared, KeyOrder::Any].map(check_likely_runs);
    assert_eq!(guessed[0], guessed[1]);
}

/// Returns the number of positions with a likely run.
fn check_likely_runs(key_order: KeyOrder) -> usize {
    let words = TestVocab::new(11, 250, &[]);
    let policy = Policy { whitespace: Whitespace::Flexible { max: 8 }, key_order, ..Policy::default() };
    let schema = r#"{"type": "object", "properties": {"first": {"type": "integer"}, "inner": {"type": "object",
        "properties": {"one": {"type": "boolean"}, "two": {"type": "null"}}, "required": ["one", "two"],
        "additionalProperties": false}, "last": {"type": "integer"}}, "required": ["first", "inner", "last"],
        "additionalProperties": false}"#;
    let constraint = Constraint::builder().policy(policy).json_schema(schema).unwrap();
    let grammar = Compiler::new(words.vocab.clone()).compile(&constraint).unwrap();
    let plain = r#"{"first": 12, "inner": {"one": true, "two": null}, "last": 3}"#;
    let value: serde_json::Value = serde_json::from_str(plain).unwrap();
    let mut all = 0;
    for text in [plain.to_owned(), serde_json::to_string_pretty(&value).unwrap()] {
        let (mut guessed, mut right) = (0, 0);
        for at in 0..text.len() {
            let Some(mut matcher) = words.vocab.encode(&text[..at]).ok().and_then(|tokens| {
                let mut matcher = grammar.matcher();
                (matcher.validate_tokens(&tokens) == tokens.len()).then_some(())?;
                tokens.iter().try_for_each(|&token| matcher.accept_token(token)).ok()?;
                Some(matcher)
            }) else {
                panic!("{:?} is refused", &text[..at]);
            };
            let likely = matcher.likely_tokens(None, &text.as_bytes()[..at], 4);
            assert_eq!(matcher.validate_tokens(&likely), likely.len(), "{:?}", &text[..at]);
            let run = String::from_utf8(words.vocab.decode(&likely)).unwrap();
            // The first white space of all can not be known.
            let known = !likely.is_empty() && text[..at].contains('"');
            guessed += usize::from(known);
            right += usize::from(known && text[at..].starts_with(&run));
            if !likely.is_empty() {
                assert!(
                    matcher.forced_bytes().is_empty() || run.as_bytes().starts_with(&matcher.forced_bytes())
                );
            }
        }
        assert!(guessed > 20 && right == guessed, "{right} of {guessed} in {text}");
        all += guessed;
    }
    all
}
