//! The engine's operations one by one, on the Llama-3 vocabulary of 128,256 tokens: warm and cold
//! masks for each kind of state, accepting a token, compiling, forced runs, rollback, fork.
//!
//! *Cold* is the first mask of a state in a freshly compiled grammar (without the time to compile
//! and to reach the state), *warm* the same mask again. Criterion reads the command line.
//!
//! Needs the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench`). Without it nothing is
//! measured.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use ffwd::constraint::substring::{Source, SubstringOptions};
use ffwd::{Compiler, Constraint, Matcher, Policy, TokenId, Vocabulary, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::{data, env, tables};

const SMALL: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0}},
  "required":["name","age"],"additionalProperties":false}"#;

const MEDIUM: &str = r##"{"$defs":{"money":{"type":"object","properties":{"amount":{"type":"number","minimum":0},
    "currency":{"enum":["EUR","USD","GBP","CHF","JPY"]}},"required":["amount","currency"],"additionalProperties":false},
  "party":{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":80},
    "id":{"type":"string","pattern":"^[A-Z]{2}[0-9]{6,10}$"},"email":{"type":"string","format":"email"},
    "tags":{"type":"array","items":{"type":"string"},"maxItems":8}},"required":["name"]}},
  "type":"object","properties":{"number":{"type":"string","pattern":"^INV-[0-9]{4}-[0-9]+$"},
    "date":{"type":"string","format":"date"},"seller":{"$ref":"#/$defs/party"},"buyer":{"$ref":"#/$defs/party"},
    "lines":{"type":"array","minItems":1,"items":{"type":"object","properties":{"text":{"type":"string"},
      "count":{"type":"integer","minimum":1,"maximum":9999},"price":{"$ref":"#/$defs/money"},
      "discount":{"type":["number","null"]}},"required":["text","count","price"],"additionalProperties":false}},
    "total":{"$ref":"#/$defs/money"},"paid":{"type":"boolean"},"note":{"anyOf":[{"type":"null"},{"type":"string"}]}},
  "required":["number","date","seller","buyer","lines","total"]}"##;

/// 120 tables of 12 columns of four kinds, referring to each other.
fn large() -> String {
    let mut defs = String::new();
    let mut tables = String::new();
    for t in 0..120 {
        let mut columns = String::new();
        for c in 0..12 {
            let kind = match (t + c) % 4 {
                0 => format!("{{\"type\":\"string\",\"maxLength\":{}}}", 20 + c),
                1 => format!("{{\"type\":\"integer\",\"minimum\":{},\"maximum\":{}}}", -c, 1000 + t),
                2 => format!("{{\"enum\":[\"a{t}\",\"b{c}\",\"c\",null]}}"),
                _ => format!("{{\"$ref\":\"#/$defs/table{}\"}}", (t + c) % 120),
            };
            let comma = if c == 0 { "" } else { "," };
            columns += &format!("{comma}\"column_{c}_of_{t}\":{kind}");
        }
        let comma = if t == 0 { "" } else { "," };
        defs += &format!(
            "{comma}\"table{t}\":{{\"type\":\"object\",\"properties\":{{{columns}}},\"required\":[\"column_1_of_{t}\"]}}"
        );
        tables += &format!(
            "{comma}\"table_{t}\":{{\"type\":\"array\",\"items\":{{\"$ref\":\"#/$defs/table{t}\"}}}}"
        );
    }
    format!("{{\"$defs\":{{{defs}}},\"type\":\"object\",\"properties\":{{{tables}}}}}")
}

struct Bench {
    vocab: Vocabulary,
    compiler: Compiler,
}

impl Bench {
    fn at(&self, constraint: &Constraint, prefix: &str) -> Matcher {
        let mut matcher = self.compiler.compile(constraint).expect("it compiles").matcher();
        for id in self.vocab.encode(prefix).expect("it encodes") {
            matcher.accept_token(id).unwrap_or_else(|e| panic!("{prefix}: {e}"));
        }
        matcher
    }
}

fn schema(text: &str, flexible: bool) -> Constraint {
    let whitespace = if flexible { Whitespace::Flexible { max: 20 } } else { Whitespace::Compact };
    Constraint::builder()
        .policy(Policy { whitespace, exponent: true, ..Policy::default() })
        .json_schema(text)
        .expect(text)
}

/// Kinds of state: name, schema, flexible white space, text before.
const STATES: &[(&str, &str, bool, &str)] = &[
    ("object start", MEDIUM, false, ""),
    ("closed key", SMALL, false, "{\""),
    ("open key", MEDIUM, false, "{\"number\":\"INV-2024-7\",\"date\":\"2024-05-06\",\"seller\":{\""),
    ("in string", SMALL, false, "{\"name\":\"Ada"),
    (
        "in bounded string",
        MEDIUM,
        false,
        "{\"number\":\"INV-2024-7\",\"date\":\"2024-05-06\",\"seller\":{\"name\":\"A",
    ),
    ("in pattern string", r#"{"type":"string","pattern":"^[a-z]+(-[a-z0-9]+)*$"}"#, false, "\"abc"),
    ("in searching pattern", r#"{"type":"string","pattern":"foo|b[aeiou]r"}"#, false, "\"xy"),
    ("number", SMALL, false, "{\"name\":\"Ada\",\"age\":1"),
    (
        "after value",
        MEDIUM,
        false,
        "{\"number\":\"INV-2024-7\",\"date\":\"2024-05-06\",\"seller\":{\"name\":\"A\"",
    ),
    ("any JSON value", "{}", false, "{\"a\":"),
    ("any JSON, in array", "{}", false, "{\"a\":[1,"),
    ("object start, flexible", MEDIUM, true, "{ "),
    ("in string, flexible", SMALL, true, "{\"name\": \"Ada"),
];

fn masks(c: &mut Criterion, bench: &Bench) {
    let mut row = vec![0u32; bench.vocab.bitmask_words()];
    let mut group = c.benchmark_group("mask warm");
    for &(name, text, flexible, prefix) in STATES {
        let mut matcher = bench.at(&schema(text, flexible), prefix);
        matcher.fill_bitmask(&mut row);
        group.bench_function(name, |b| b.iter(|| matcher.fill_bitmask(black_box(&mut row))));
    }
    group.finish();
    let mut group = c.benchmark_group("mask cold");
    for &(name, text, flexible, prefix) in STATES {
        let constraint = schema(text, flexible);
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || bench.at(&constraint, prefix),
                |matcher| matcher.fill_bitmask(black_box(&mut row)),
                BatchSize::PerIteration,
            )
        });
    }
    group.finish();
}

fn steps(c: &mut Criterion, bench: &Bench) {
    let text = "{\"number\":\"INV-2024-7\",\"date\":\"2024-05-06\",\"seller\":{\"name\":\"Ada\"},\"buyer\":\
                {\"name\":\"Charles\"},\"lines\":[{\"text\":\"engine\",\"count\":2,\"price\":{\"amount\":12.5,\
                \"currency\":\"GBP\"}}],\"total\":{\"amount\":25,\"currency\":\"GBP\"}}";
    let constraint = schema(MEDIUM, false);
    let tokens: Vec<TokenId> = bench.vocab.encode(text).expect("it encodes");
    let mut matcher = bench.at(&constraint, "");
    let mut group = c.benchmark_group("step");
    group.bench_function(format!("accept and roll back {} tokens, warm", tokens.len()), |b| {
        b.iter(|| {
            for &t in &tokens {
                matcher.accept_token(t).expect("a valid invoice");
            }
            matcher.rollback(tokens.len());
        })
    });
    group.bench_function(format!("validate {} tokens, warm", tokens.len()), |b| {
        b.iter(|| assert_eq!(matcher.validate_tokens(&tokens), tokens.len()))
    });
    let whole = bench.at(&constraint, text);
    group.bench_function("fork", |b| b.iter(|| black_box(whole.fork())));
    group.bench_function("fork, roll back 16", |b| {
        b.iter_batched_ref(|| whole.fork(), |m| m.rollback(16), BatchSize::SmallInput)
    });
    group.bench_function("allows", |b| b.iter(|| matcher.allows(black_box(tokens[0]))));
    group.finish();
}

fn forced(c: &mut Criterion, bench: &Bench) {
    let mut group = c.benchmark_group("forced");
    let constraint = schema(SMALL, false);
    let last = bench.vocab.encode("{\"name\":\"Ada\"").expect("it encodes").last().copied();
    let mut matcher = bench.at(&constraint, "{\"name\":\"Ada\"");
    group.bench_function("bytes, warm", |b| b.iter(|| matcher.forced_bytes()));
    group.bench_function("longest tokens, warm", |b| b.iter(|| matcher.longest_forced_tokens()));
    group.bench_function("canonical tokens, warm", |b| b.iter(|| matcher.canonical_forced_tokens(last)));
    let cold = || bench.at(&constraint, "{\"name\":\"Ada\"");
    group.bench_function("bytes, cold", |b| {
        b.iter_batched_ref(cold, |m| m.forced_bytes(), BatchSize::PerIteration)
    });
    group.bench_function("canonical tokens, cold", |b| {
        b.iter_batched_ref(cold, |m| m.canonical_forced_tokens(last), BatchSize::PerIteration)
    });
    // A text that the vocabulary has not split yet: each iteration has a name of its own.
    let mut names = 0;
    group.bench_function("canonical tokens, new text", |b| {
        b.iter_batched_ref(
            || {
                names += 1;
                let text = format!(
                    r#"{{"type":"object","required":["a{names}"],"properties":{{"a{names}":{{"type":"integer"}}}}}}"#
                );
                bench.at(&schema(&text, false), "{")
            },
            |m| m.forced_tokens(),
            BatchSize::PerIteration,
        )
    });
    group.finish();
}

fn compile(c: &mut Criterion, bench: &Bench) {
    let mut group = c.benchmark_group("compile");
    let large = large();
    let mut row = vec![0u32; bench.vocab.bitmask_words()];
    for (name, text) in [("small", SMALL), ("medium", MEDIUM), ("large", &large)] {
        group.bench_function(format!("{name} schema ({} bytes), first mask", text.len()), |b| {
            b.iter(|| {
                let grammar = bench.compiler.compile(&schema(text, false)).expect("it compiles");
                grammar.matcher().fill_bitmask(black_box(&mut row));
            })
        });
    }
    group.finish();
}

/// Words with the frequencies of a language (Zipf), in sentences and paragraphs, of about `bytes`
/// bytes.
fn prose(bytes: usize) -> String {
    const SYLLABLES: &[&str] =
        &["con", "ta", "re", "mi", "s", "ver", "er", "in", "al", "de", "lo", "ing", "th", "e", "ble", "un"];
    let mut random = Random::new(7);
    let mut next = |n: usize| random.below(n);
    let word = |next: &mut dyn FnMut(usize) -> usize| {
        (0..1 + next(4)).map(|_| SYLLABLES[next(SYLLABLES.len())]).collect::<String>()
    };
    let words: Vec<String> = (0..4_000).map(|_| word(&mut next)).collect();
    let mut text = String::new();
    while text.len() < bytes {
        let most = 1 << next(13);
        text += &words[next(most.min(words.len()))];
        text += [" ", " ", " ", " ", ", ", ". ", " 12 "][next(7)];
    }
    text
}

/// Spans of a source of 100 kB.
fn substring(c: &mut Criterion, bench: &Bench) {
    let text = prose(100_000);
    let schema = r#"{"type":"object","properties":{"quote":{"type":"string","x-verbatim":true}},"required":["quote"]}"#;
    let mut group = c.benchmark_group("substring of 100 kB");
    let words = bench.vocab.bitmask_words();
    let mut row = vec![0u32; words];
    for (name, options) in [("characters", SubstringOptions::default()), ("words", SubstringOptions::words())]
    {
        group.bench_function(format!("{name}, source"), |b| {
            b.iter(|| Source::new(black_box(&text), &options).expect("below the limit"))
        });
        group.bench_function(format!("{name}, constraint"), |b| {
            b.iter(|| Constraint::substring(black_box(&text), &options).expect("below the limit"))
        });
        let leaf = || Constraint::builder().source(&text, &options).json_schema(schema).expect("a schema");
        for (kind, constraint, prefix) in [
            ("text", Constraint::substring(&text, &options).expect("below the limit"), ""),
            ("JSON leaf", leaf(), "{\"quote\":\""),
        ] {
            group.bench_function(format!("{name}, {kind}, compile"), |b| {
                b.iter(|| bench.compiler.compile(black_box(&constraint)).expect("it compiles"))
            });
            group.bench_function(format!("{name}, {kind}, first mask"), |b| {
                b.iter_batched_ref(
                    || bench.at(&constraint, prefix),
                    |matcher| matcher.fill_bitmask(black_box(&mut row)),
                    BatchSize::PerIteration,
                )
            });
            // A quotation of about 40 tokens, from a word in the middle.
            let from = text[50_000..].find(' ').map_or(0, |at| 50_001 + at);
            let tokens = bench.vocab.encode(&text[from..from + 150]).expect("it encodes");
            group.bench_function(format!("{name}, {kind}, {} later masks", tokens.len() - 1), |b| {
                b.iter_batched_ref(
                    || {
                        let mut matcher = bench.at(&constraint, prefix);
                        matcher.fill_bitmask(&mut vec![0; words]);
                        matcher
                    },
                    |matcher| {
                        for &token in &tokens[..tokens.len() - 1] {
                            matcher.accept_token(token).expect("a part of the source");
                            matcher.fill_bitmask(black_box(&mut row));
                        }
                    },
                    BatchSize::PerIteration,
                )
            });
        }
    }
    let source = Source::new(&text, &SubstringOptions::default()).expect("below the limit");
    group.bench_function("find a span of 150 bytes", |b| {
        b.iter(|| source.find(black_box(&text[60_000..60_150])))
    });
    group.finish();
}

fn main() {
    let Some(dir) = data::bench_dir() else {
        println!("engine: skipped, no benchmark data (set FFWD_BENCH_DIR)");
        return;
    };
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("a tokenizer");
    let bench = Bench { compiler: Compiler::new(vocab.clone()), vocab };
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    masks(&mut criterion, &bench);
    steps(&mut criterion, &bench);
    forced(&mut criterion, &bench);
    compile(&mut criterion, &bench);
    substring(&mut criterion, &bench);
    criterion.final_summary();
    tables::put("engine", &table()).unwrap_or_else(|e| eprintln!("engine: {e}"));
}

/// The medians of Criterion, as a table.
fn table() -> String {
    let mut text = String::from("| operation | median |\n| --- | --- |\n");
    for group in ["mask warm", "mask cold", "step", "forced", "compile", "substring of 100 kB"] {
        let mut rows: Vec<(String, f64)> = Vec::new();
        for dir in std::fs::read_dir(criterion_dir().join(group)).into_iter().flatten().flatten() {
            let median = || -> Option<(String, f64)> {
                let read = |name: &str| std::fs::read(dir.path().join("new").join(name)).ok();
                let of = |json: Vec<u8>| serde_json::from_slice::<serde_json::Value>(&json).ok();
                let name = of(read("benchmark.json")?)?["function_id"].as_str()?.to_string();
                Some((name, of(read("estimates.json")?)?["median"]["point_estimate"].as_f64()?))
            };
            rows.extend(median());
        }
        rows.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (name, ns) in rows {
            let time = match ns {
                ..1e3 => format!("{ns:.0} ns"),
                ..1e4 => format!("{:.1} µs", ns / 1e3),
                ..1e6 => format!("{:.0} µs", ns / 1e3),
                _ => format!("{:.1} ms", ns / 1e6),
            };
            text += &format!("| {group}: {name} | {time} |\n");
        }
    }
    text
}

/// Where Criterion keeps its results.
fn criterion_dir() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    env::criterion_home().unwrap_or_else(|| env::target_dir().unwrap_or_else(default).join("criterion"))
}
