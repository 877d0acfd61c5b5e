//! Real schemas with a real tokenizer: random walks through masks end in valid instances, given
//! instances are accepted or refused correctly, and damaged schemas never cause a panic.
//!
//! Needs the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench` next to the repository).
//! Without it, the tests that use it say so and pass. `FFWD_WALKS` sets the walks for each schema.
//! With `FFWD_WALKS_ALL` they use all schemas of the development set instead of a sample.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use ffwd::{Compiler, Constraint, Matcher, Policy, TokenId, Vocabulary};
use ffwd_testkit::data::{self, Entry};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, accepts, is_set};

/// Tokens before a walk heads for its end, and before it is given up.
const FREE: usize = 60;
const LONGEST: usize = 3000;

struct BenchData {
    entries: Vec<Entry>,
    vocab: Vocabulary,
    compiler: Compiler,
}

fn bench() -> Option<&'static BenchData> {
    static BENCH: OnceLock<Option<BenchData>> = OnceLock::new();
    let bench = BENCH.get_or_init(|| {
        let dir = data::bench_dir()?;
        let all = env::walks_all();
        let file = if all { "maskbench-dev.jsonl.zst" } else { "maskbench-dev-sample.jsonl.zst" };
        let entries = data::load(&dir.join(file)).expect("readable data");
        let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("a tokenizer");
        Some(BenchData { entries, compiler: Compiler::new(vocab.clone()), vocab })
    });
    if bench.is_none() {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR to the folder that holds it");
    }
    bench.as_ref()
}

fn policy() -> Policy {
    Policy { exponent: true, ..Policy::default() }
}

/// Tokens that bring a walk to its end, most wanted first, then all single bytes.
fn closing(vocab: &Vocabulary) -> &'static [TokenId] {
    const ORDER: [&[u8]; 14] =
        [b"}", b"]", b"\"", b"\"}", b"\"]", b"0", b"1", b"null", b"true", b"{}", b"[]", b"{", b"[", b","];
    static TOKENS: OnceLock<Vec<TokenId>> = OnceLock::new();
    TOKENS.get_or_init(|| {
        let all = || 0..vocab.len() as TokenId;
        ORDER.iter().flat_map(|o| all().filter(|&t| vocab.token_bytes(t) == *o)).collect()
    })
}

fn single_bytes(vocab: &Vocabulary) -> &'static [TokenId] {
    static TOKENS: OnceLock<Vec<TokenId>> = OnceLock::new();
    TOKENS.get_or_init(|| (0..vocab.len() as TokenId).filter(|&t| vocab.token_bytes(t).len() == 1).collect())
}

/// A random token of a mask, drawn evenly; with `single`, one of a single byte if there is any.
fn draw(row: &[u32], vocab: &Vocabulary, single: bool, random: &mut Random) -> Option<TokenId> {
    if single {
        let bytes: Vec<TokenId> = single_bytes(vocab).iter().copied().filter(|&t| is_set(row, t)).collect();
        if !bytes.is_empty() {
            return Some(*random.pick(&bytes));
        }
    }
    let count: usize = row.iter().map(|w| w.count_ones() as usize).sum();
    let mut left = random.below(count.max(1)) as u32;
    for (at, &word) in row.iter().enumerate() {
        if left < word.count_ones() {
            let mut word = word;
            for _ in 0..left {
                word &= word - 1;
            }
            return Some(at as u32 * 32 + word.trailing_zeros());
        }
        left -= word.count_ones();
    }
    None
}

/// Ends a walk by the shortest completion.
fn complete(matcher: &mut Matcher, vocab: &Vocabulary, mut out: Vec<u8>) -> Vec<u8> {
    let rest = matcher.shortest_completion(usize::MAX).unwrap_or_else(|| {
        panic!("no completion of {:?}", String::from_utf8_lossy(&out));
    });
    for &byte in &rest {
        let token = single_bytes(vocab).iter().copied().find(|&t| vocab.token_bytes(t) == [byte]);
        matcher.accept_token(token.expect("a token of each byte")).expect("what completes can follow");
        out.push(byte);
    }
    assert!(matcher.is_accepting(), "not complete: {:?}", String::from_utf8_lossy(&out));
    out
}

/// Follows random legal tokens until the end token, or until it is time to `complete` them; the
/// text, or `None` if it took too long.
fn walk(matcher: &mut Matcher, vocab: &Vocabulary, random: &mut Random, completed: bool) -> Option<Vec<u8>> {
    let mut row = vec![0u32; vocab.bitmask_words()];
    let mut out = Vec::new();
    let free = random.below(FREE);
    for step in 0..LONGEST {
        if completed && step >= free {
            return Some(complete(matcher, vocab, out));
        }
        matcher.fill_bitmask(&mut row);
        let ends = step >= free || random.chance(25);
        let accepting = is_set(&row, vocab.eos()[0]);
        for &end in vocab.eos() {
            row[end as usize / 32] &= !(1 << (end % 32));
        }
        // Inside a string only the quote ends anything; a brace there is text.
        let quote = vocab.token_id("\"").filter(|&t| is_set(&row, t) && matcher.in_string());
        let shut =
            quote.or_else(|| closing(vocab).iter().copied().find(|&t| is_set(&row, t))).filter(|_| ends);
        let choice = shut.or_else(|| draw(&row, vocab, ends, random));
        if accepting && (ends || choice.is_none()) {
            matcher.accept_token(vocab.eos()[0]).expect("an end token with its bit set");
            return Some(out);
        }
        let Some(choice) = choice else {
            panic!("a dead end after {:?}", String::from_utf8_lossy(&out));
        };
        if let Err(e) = matcher.accept_token(choice) {
            panic!("a token with its bit set is refused after {:?}: {e}", String::from_utf8_lossy(&out));
        }
        out.extend_from_slice(vocab.token_bytes(choice));
    }
    None
}

/// Whether the validator may be wrong about a JSON text. It calculates in binary floating point,
/// which keeps fifteen digits only. Its `.` matches all line ends but one; in ECMA-262 it matches
/// none of four.
fn is_beyond(text: &str) -> bool {
    let number = |part: &str| part.bytes().filter(u8::is_ascii_digit).count() > 15;
    let outside = text.split('"').step_by(2);
    ["\\r", "\u{2028}", "\u{2029}"].iter().any(|end| text.contains(end))
        || outside.flat_map(|part| part.split(|c: char| !c.is_ascii_digit() && c != '.')).any(number)
}

#[test]
fn walks_end_in_valid_instances() {
    let Some(bench) = bench() else { return };
    let walks = env::walks();
    let (mut valid, mut unfinished, mut refused, mut unchecked, mut beyond) = (0, Vec::new(), 0, 0, 0);
    let mut faults = Vec::new();
    for (number, entry) in bench.entries.iter().enumerate() {
        // Without exponents, whose numbers may be too large for the validator's parser.
        let constraint = Constraint::json_schema(&entry.schema);
        let Ok(grammar) = constraint.and_then(|c| bench.compiler.compile(&c)) else {
            refused += 1;
            continue;
        };
        let schema: serde_json::Value = serde_json::from_str(&entry.schema).expect("a schema is JSON");
        let Ok(validator) = jsonschema::options().should_validate_formats(true).build(&schema) else {
            unchecked += 1;
            continue;
        };
        for seed in 0..walks {
            let mut random = Random::new(number as u64 * 1000 + seed);
            let mut matcher = grammar.matcher();
            // Every third one ends in the shortest way.
            let completed = seed % 3 == 2;
            let result =
                catch_unwind(AssertUnwindSafe(|| walk(&mut matcher, &bench.vocab, &mut random, completed)));
            let text = match result {
                Ok(Some(text)) => text,
                Ok(None) => {
                    unfinished.push(entry.id.clone());
                    continue;
                }
                Err(e) => {
                    let why = e.downcast_ref::<String>().cloned().unwrap_or_default();
                    faults.push(format!("{}: {why}", entry.id));
                    continue;
                }
            };
            let shown = String::from_utf8_lossy(&text).into_owned();
            match serde_json::from_slice::<serde_json::Value>(&text) {
                Err(e) if e.to_string().starts_with("recursion limit") => beyond += 1,
                Err(e) => faults.push(format!("{}: not JSON ({e}): {shown}", entry.id)),
                Ok(value) => match validator.validate(&value) {
                    Ok(()) => valid += 1,
                    Err(_) if is_beyond(&shown) => beyond += 1,
                    Err(e) => {
                        let short: String = shown.chars().take(600).collect();
                        faults.push(format!("{}: {e} at {}: {short}", entry.id, e.instance_path()));
                    }
                },
            }
        }
    }
    eprintln!(
        "{valid} walks ended in valid instances, {} unfinished, {} faults, {beyond} that the validator cannot judge; \
         {refused} schemas refused, {unchecked} that it cannot read",
        unfinished.len(),
        faults.len()
    );
    unfinished.dedup();
    eprintln!("unfinished: {unfinished:?}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults[..faults.len().min(40)].join("\n"));
    assert!(beyond * 100 <= valid, "{beyond} beyond the validator");
    assert!(valid > bench.entries.len() / 2, "most schemas must compile and end");
    assert!(unfinished.len() * 20 < bench.entries.len(), "{unfinished:?}");
}

/// Instances of all schemas of the sample, tried against each schema: what is accepted is valid.
#[test]
fn instances_of_other_schemas_are_judged_rightly() {
    let Some(bench) = bench() else { return };
    let compiler = Compiler::new(TestVocab::new(1, 0, &[]).vocab);
    let all = bench.entries.iter().flat_map(|e| &e.tests).map(|t| t.data.as_str());
    let small: Vec<&str> = all.filter(|text| text.len() < 300).collect();
    let mut checked = 0;
    for (i, entry) in bench.entries.iter().enumerate().filter(|(_, e)| e.schema.len() < 20_000) {
        let constraint = Constraint::json_schema(&entry.schema);
        let Ok(grammar) = constraint.and_then(|c| compiler.compile(&c)) else { continue };
        let schema: serde_json::Value = serde_json::from_str(&entry.schema).expect("a schema is JSON");
        let Ok(validator) = jsonschema::validator_for(&schema) else { continue };
        let own = entry.tests.iter().map(|t| t.data.as_str()).filter(|text| text.len() < 5_000);
        for text in small.iter().copied().skip(i % 7).step_by(7).chain(own) {
            if accepts(&grammar, text) {
                let value = serde_json::from_str(text).expect("JSON");
                assert!(validator.is_valid(&value), "{}: {text}\n{}", entry.id, entry.schema);
                checked += 1;
            }
        }
    }
    assert!(checked > 400, "{checked}");
}

// ---- damage ----

fn small() -> (Vocabulary, Compiler) {
    let words = TestVocab::new(9, 120, &[]);
    (words.vocab.clone(), Compiler::new(words.vocab))
}

/// Compiles whatever it is and takes a few steps.
fn exercise(constraint: ffwd::Result<Constraint>, vocab: &Vocabulary, compiler: &Compiler) -> bool {
    let Ok(constraint) = constraint else { return false };
    let Ok(grammar) = compiler.compile(&constraint) else { return false };
    let mut matcher = grammar.matcher();
    let mut row = vec![0; vocab.bitmask_words()];
    for _ in 0..3 {
        matcher.fill_bitmask(&mut row);
        let Some(word) = row.iter().position(|&w| w != 0) else {
            panic!("no legal token");
        };
        let token = word as u32 * 32 + row[word].trailing_zeros();
        if vocab.eos().contains(&token) || matcher.accept_token(token).is_err() {
            break;
        }
    }
    matcher.forced_bytes();
    true
}

/// One to four random injuries to a text.
fn damage(text: &str, other: &str, random: &mut Random) -> Vec<u8> {
    const ATOMS: &[&str] = &[
        "null",
        "true",
        "-1",
        "1e400",
        "99999999999999999999",
        "0.5",
        "\"\"",
        "{}",
        "[]",
        "\"\\ud800\"",
        "\"#\"",
        "{\"$ref\":\"#\"}",
        "[1,\"a\"]",
        "\"(\"",
        "4294967296",
        "\"^(a|b*)*$\"",
        "{\"not\":{}}",
        "false",
    ];
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let end = (at + 1 + random.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let from = random.below(other.len());
                let piece = other.as_bytes()[from..(from + 40).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                // Well-formed damage: the value behind a colon becomes another one.
                let colons: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] == b':').collect();
                if let Some(&colon) = colons.get(random.below(colons.len().max(1))) {
                    let rest = String::from_utf8_lossy(&bytes[colon + 1..]).into_owned();
                    let mut stream =
                        serde_json::Deserializer::from_str(&rest).into_iter::<serde_json::Value>();
                    let _ = stream.next();
                    let end = colon + 1 + stream.byte_offset().min(bytes.len() - colon - 1);
                    bytes.splice(colon + 1..end, random.pick::<&str>(ATOMS).bytes());
                }
            }
        }
    }
    bytes
}

/// Schemas with most keywords.
const SCHEMAS: [&str; 5] = [
    r##"{"$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/a"},"c":{"enum":[1,"x",null]}}}},"allOf":[{"$ref":"#/$defs/a"},{"required":["c"]}],"patternProperties":{"^x-":{"type":"string","pattern":"^[a-z]{1,3}$"}},"additionalProperties":false}"##,
    r#"{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"}},"required":["k"]}],"minProperties":1}"#,
    r#"{"type":["array","null"],"prefixItems":[{"type":"integer","minimum":-5,"maximum":1e2,"multipleOf":5}],"items":{"type":"number","multipleOf":0.01},"minItems":1,"maxItems":4}"#,
    r#"{"if":{"properties":{"t":{"const":1}}},"then":{"required":["u"]},"else":{"not":{"required":["v"]}},"dependentRequired":{"a":["b"]},"propertyNames":{"maxLength":5}}"#,
    r#"{"type":"string","pattern":"^(a|b)+\\d?$","format":"date-time","minLength":2,"maxLength":30,"anyOf":[{"pattern":"x"},{"not":{"enum":["a","b"]}}]}"#,
];

#[test]
fn damaged_schemas_never_panic() {
    let real = bench().into_iter().flat_map(|bench| bench.entries.iter().map(|e| e.schema.as_str()));
    let schemas: Vec<&str> = SCHEMAS.iter().copied().chain(real).collect();
    let (vocab, compiler) = small();
    let (mut compiled, mut faults) = (0, Vec::new());
    for number in 0..18_000u64 {
        let mut random = Random::new(number);
        // Every third one is well known.
        let text = if number % 3 == 0 { *random.pick(&SCHEMAS) } else { *random.pick(&schemas) };
        let hurt = damage(text, random.pick::<&str>(&schemas), &mut random);
        let hurt = String::from_utf8_lossy(&hurt).into_owned();
        let run = || exercise(Constraint::builder().policy(policy()).json_schema(&hurt), &vocab, &compiler);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(fine) => compiled += usize::from(fine),
            Err(e) => {
                let why = e.downcast_ref::<String>().cloned();
                let why = why.or(e.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default();
                faults.push(format!("case {number}: {why}: {:.300}", hurt));
            }
        }
    }
    eprintln!("18000 damaged schemas: {compiled} still compile, {} panics", faults.len());
    assert!(faults.is_empty(), "{}", faults[..faults.len().min(10)].join("\n"));
    assert!(compiled > 100, "the damage leaves nothing to compile");
}
