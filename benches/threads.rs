//! One grammar used by 1, 2, ... threads at the same time, up to the number of cores: masks per
//! second, and their ratio to one thread.
//!
//! *Warm*: every thread follows the same document again and again. *Cold*: each thread follows
//! documents of its own in a new grammar, so that nearly every mask is computed. *A grammar each*:
//! the same, with a grammar for each thread: the limit of the machine itself.
//!
//! Needs the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench`). Without it nothing is
//! measured.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::Parser;
use ffwd::{CompiledGrammar, Compiler, Constraint, TokenId, Vocabulary};
use ffwd_testkit::{data, tables};

/// Measure one grammar on several threads.
#[derive(Parser)]
struct Args {
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

const SCHEMA: &str = r#"{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":60},
  "tags":{"type":"array","items":{"type":"string","pattern":"^[a-z0-9-]+$"}},
  "when":{"type":"string","format":"date-time"},"parts":{"type":"array","items":{"type":"object",
    "properties":{"code":{"type":"string","pattern":"[A-Z]{3}"},"count":{"type":"integer","maximum":9999}},
    "required":["code"],"additionalProperties":false}}},"required":["id","name"]}"#;
/// Measured runs per number of threads, taken in turns; the best counts.
const ROUNDS: usize = 7;
const WARM_DOCUMENTS: usize = 400;
const COLD_DOCUMENTS: usize = 40;

fn document(number: usize) -> String {
    let n = number.wrapping_mul(2_654_435_761) % 1_000_000;
    let words = ["pump", "valve", "ring", "gasket", "bolt", "shaft", "seal", "cap"];
    let word = |i: usize| words[(n >> i) % words.len()];
    let parts: Vec<String> = (0..4)
        .map(|i| format!("{{\"code\":\"{}-ABC{}\",\"count\":{}}}", word(i), n % (7 + i), n % (900 + i)))
        .collect();
    format!(
        "{{\"id\":{n},\"name\":\"{} {} no. {n}\",\"tags\":[\"{}\",\"{}-{n}\"],\
         \"when\":\"2024-0{}-1{}T0{}:30:00Z\",\"parts\":[{}],\"note{n}\":{{\"{}\":[{n},\"{}\"]}}}}",
        word(0),
        word(3),
        word(5),
        word(7),
        1 + n % 9,
        n % 10,
        n % 10,
        parts.join(","),
        word(2),
        word(4)
    )
}

struct Bench {
    vocab: Vocabulary,
    compiler: Compiler,
}

impl Bench {
    fn grammar(&self) -> CompiledGrammar {
        let constraint = Constraint::json_schema(SCHEMA).expect("a schema");
        self.compiler.compile(&constraint).expect("it compiles")
    }

    fn tokens(&self, number: usize) -> Vec<TokenId> {
        self.vocab.encode(&document(number)).expect("it encodes")
    }
}

/// Follows documents, with a mask before each token; the number of masks.
fn follow(grammar: &CompiledGrammar, documents: &[Vec<TokenId>], row: &mut [u32]) -> usize {
    let mut masks = 0;
    for tokens in documents {
        let mut matcher = grammar.matcher();
        for &token in tokens {
            matcher.fill_bitmask(row);
            matcher.accept_token(token).expect("a valid document");
            masks += 1;
        }
    }
    masks
}

/// Runs `work` on `threads` threads at once; masks per second of all together.
fn together(threads: usize, words: usize, work: impl Fn(usize, &mut [u32]) -> usize + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let mut row = vec![0; words];
        barrier.wait();
        let started = Instant::now();
        (work(thread, &mut row), started, Instant::now())
    };
    let done: Vec<(usize, Instant, Instant)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        handles.into_iter().map(|h| h.join().expect("no panic")).collect()
    });
    let masks: usize = done.iter().map(|d| d.0).sum();
    let from = done.iter().map(|d| d.1).min().unwrap_or_else(Instant::now);
    let to = done.iter().map(|d| d.2).max().unwrap_or_else(Instant::now);
    masks as f64 / (to - from).max(Duration::from_nanos(1)).as_secs_f64()
}

fn main() {
    Args::parse();
    let Some(dir) = data::bench_dir() else {
        println!("threads: skipped, no benchmark data (set FFWD_BENCH_DIR)");
        return;
    };
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("a tokenizer");
    let bench = Bench { compiler: Compiler::new(vocab.clone()), vocab };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let words = bench.vocab.bitmask_words();
    let warm = vec![bench.tokens(1)];
    let own: Vec<Vec<Vec<TokenId>>> = (0..cores)
        .map(|t| (0..COLD_DOCUMENTS).map(|d| bench.tokens(1 + t * COLD_DOCUMENTS + d)).collect())
        .collect();
    let mut best = vec![[0.0f64; 4]; cores];
    for _ in 0..ROUNDS {
        for threads in 1..=cores {
            let shared = bench.grammar();
            follow(&shared, &warm, &mut vec![0; words]);
            let repeated = |_: usize, row: &mut [u32]| {
                (0..WARM_DOCUMENTS).map(|_| follow(&shared, &warm, row)).sum::<usize>()
            };
            let fresh = bench.grammar();
            let each: Vec<CompiledGrammar> = (0..threads).map(|_| bench.grammar()).collect();
            let known: Vec<CompiledGrammar> = (0..threads).map(|_| bench.grammar()).collect();
            for grammar in &known {
                follow(grammar, &warm, &mut vec![0; words]);
            }
            let alone = |t: usize, row: &mut [u32]| {
                (0..WARM_DOCUMENTS).map(|_| follow(&known[t], &warm, row)).sum::<usize>()
            };
            let found = [
                together(threads, words, repeated),
                together(threads, words, alone),
                together(threads, words, |t, row| follow(&fresh, &own[t], row)),
                together(threads, words, |t, row| follow(&each[t], &own[t], row)),
            ];
            for (best, found) in best[threads - 1].iter_mut().zip(found) {
                *best = best.max(found);
            }
        }
    }
    let mut table =
        String::from("| masks of | threads | masks per second | ratio |\n| --- | --- | --- | --- |\n");
    for (case, name) in
        ["one grammar, warm", "a grammar each, warm", "one grammar, cold", "a grammar each, cold"]
            .iter()
            .enumerate()
    {
        for (threads, rates) in best.iter().enumerate() {
            let (rate, ratio) = (rates[case], rates[case] / best[0][case]);
            table += &format!("| {name} | {} | {rate:.0} | {ratio:.2} |\n", threads + 1);
        }
    }
    print!("{table}");
    tables::put("threads", &table).unwrap_or_else(|e| eprintln!("threads: {e}"));
}
