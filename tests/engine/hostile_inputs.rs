//! Hostile text: random and damaged patterns, schemas and tokenizers end in an answer or an error,
//! never in a panic.

use ffwd::{Compiler, Constraint, Vocabulary};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

/// Random text over pieces that mean something to the parsers.
fn text(random: &mut Random, pieces: &[&str], most: usize) -> String {
    (0..random.below(most)).map(|_| *random.pick(pieces)).collect()
}

/// `original` with a few bytes changed, removed, doubled, or the end cut off.
fn damaged(random: &mut Random, original: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] = *random.pick(b"\"{}[],:0\\-nt"),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + random.below(40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[test]
fn regular_expressions_and_patterns() {
    let compiler = Compiler::new(TestVocab::new(1, 100, &[]).vocab);
    let regex = [
        "a",
        "b",
        "é",
        "0",
        "(",
        ")",
        "(?:",
        "(?i)",
        "[",
        "]",
        "[^",
        "-",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{0,3}",
        "{,",
        "}",
        ".",
        "^",
        "$",
        "\\",
        "\\d",
        "\\w",
        "\\p{L}",
        "\\b",
        "\\x",
        "\\u{1F600}",
        "(?=",
        "(?<a>",
        "&&",
        "\n",
        "\"",
        "(?s:.)",
    ];
    let pattern = [
        "UPPER", "LOWER", "DIGIT", "ANY", "SPACE", "PUNCT", "NEWLINE", "LETTER", "'", "a", "'b'", "''", " ",
        "+", "*", "?", "{1}", "{2,3}", "{", "}", ",", "\\n", "\\'", "X", "é", "9",
    ];
    let mut random = Random::new(11);
    let (mut good, mut bad) = (0, 0);
    for i in 0..20_000 {
        let constraint = match i % 3 {
            0 => Constraint::regex(text(&mut random, &regex, 12)),
            1 => Constraint::pattern(text(&mut random, &pattern, 8)),
            _ => {
                let pattern = serde_json::Value::String(text(&mut random, &regex, 10));
                Constraint::json_schema(format!("{{\"type\":\"string\",\"pattern\":{pattern}}}"))
            }
        };
        match constraint.and_then(|c| compiler.compile(&c)) {
            Ok(grammar) => {
                // What compiles can begin.
                let mut matcher = grammar.matcher();
                let mut row = vec![0u32; grammar.vocabulary().bitmask_words()];
                matcher.fill_bitmask(&mut row);
                assert!(row.iter().any(|w| *w != 0));
                good += 1;
            }
            Err(error) => {
                assert!(!error.message().is_empty());
                bad += 1;
            }
        }
    }
    assert!(good > 1_000 && bad > 1_000, "{good} compile, {bad} do not: no fair mix");
}

#[test]
fn schemas_of_random_words() {
    let compiler = Compiler::new(TestVocab::new(1, 100, &[]).vocab);
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"type\"",
        "\"string\"",
        "\"object\"",
        "\"array\"",
        "\"integer\"",
        "\"properties\"",
        "\"a\"",
        "\"items\"",
        "\"$ref\"",
        "\"#\"",
        "\"#/a\"",
        "\"enum\"",
        "\"minimum\"",
        "\"anyOf\"",
        "\"not\"",
        "1",
        "-1e999",
        "0.5",
        "null",
        "true",
        "\"pattern\"",
        "\"required\"",
        "\"format\"",
        "\"date\"",
        "\"maxLength\"",
        "\"additionalProperties\"",
    ];
    let mut random = Random::new(12);
    for _ in 0..20_000 {
        // Mostly well-formed: a member is a word, a colon and a value.
        let mut schema = String::from("{");
        for i in 0..random.below(4) {
            let comma = if i == 0 { "" } else { "," };
            schema += &format!("{comma}{}:{}", random.pick(&pieces[6..]), random.pick(&pieces[6..]));
            if random.chance(10) {
                schema += &text(&mut random, &pieces, 4);
            }
        }
        schema.push('}');
        if let Ok(grammar) = Constraint::json_schema(&schema).and_then(|c| compiler.compile(&c)) {
            grammar.matcher().forced_bytes();
        }
    }
}

#[test]
fn tokenizers() {
    let shakespeare: &[u8] = include_bytes!("../../examples/data/shakespeare-char-1m/tokenizer.json");
    let extract: &[u8] = include_bytes!("../../crates/runtime/assets/extract-5m/tokenizer.json");
    let mut random = Random::new(13);
    let (mut good, mut bad) = (0, 0);
    for (original, count) in [(shakespeare, 1_500), (extract, 60)] {
        assert!(Vocabulary::from_bytes(original).is_ok());
        for _ in 0..count {
            match Vocabulary::from_bytes(&damaged(&mut random, original)) {
                Ok(vocab) => {
                    // It need not spell everything, but what it says must hang together.
                    let _ = vocab.encode("To be, or not to be");
                    let compiler = Compiler::new(vocab);
                    if let Ok(constraint) = Constraint::regex("[a-z ]{1,5}") {
                        let _ = compiler.compile(&constraint).map(|g| g.matcher().forced_tokens());
                    }
                    good += 1;
                }
                Err(error) => {
                    assert!(!error.message().is_empty());
                    bad += 1;
                }
            }
        }
    }
    for _ in 0..2_000 {
        let noise: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        assert!(Vocabulary::from_bytes(&noise).is_err());
    }
    assert!(good > 50 && bad > 50, "{good} load, {bad} do not: no fair mix");
}
