//! `ffwd bench threads`: one grammar used by 1, 2, ... threads at the same time, up to the number of cores: masks per
//! second, and their ratio to one thread.
//!
//! *Warm*: every thread follows the same document again and again. *Cold*: each thread follows
//! documents of its own in a new grammar, so that nearly every mask is computed. *A grammar each*:
//! the same, with a grammar for each thread: the limit of the machine itself.
//!
//! # Alternatives considered
//!
//! Medians were rejected: other work on the machine only lowers the rate, and it hits several threads
//! more than one.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use ffwd_runtime::{CompiledGrammar, Compiler, Constraint, Result, TokenId, Vocabulary};

use crate::environment::Environment;
use crate::report::BenchReport;
use crate::table::{Grid, short};

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Take the highest rate of N rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

const SCHEMA: &str = r#"{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":60},
  "tags":{"type":"array","items":{"type":"string","pattern":"^[a-z0-9-]+$"}},
  "when":{"type":"string","format":"date-time"},"parts":{"type":"array","items":{"type":"object",
    "properties":{"code":{"type":"string","pattern":"[A-Z]{3}"},"count":{"type":"integer","maximum":9999}},
    "required":["code"],"additionalProperties":false}}},"required":["id","name"]}"#;
const CASES: [&str; 4] =
    ["one grammar, warm", "a grammar each, warm", "one grammar, cold", "a grammar each, cold"];
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

/// Follows documents, with a mask before each token; the number of masks.
fn follow(grammar: &CompiledGrammar, documents: &[Vec<TokenId>], row: &mut [u32]) -> usize {
    let mut masks = 0;
    for tokens in documents {
        let mut matcher = grammar.matcher();
        for &token in tokens {
            matcher.fill_bitmask(row);
            masks += 1;
            if matcher.accept_token(token).is_err() {
                // The documents are valid; the number of masks would show that one is not.
                break;
            }
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
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let masks: usize = done.iter().map(|d| d.0).sum();
    let from = done.iter().map(|d| d.1).min().unwrap_or_else(Instant::now);
    let to = done.iter().map(|d| d.2).max().unwrap_or_else(Instant::now);
    masks as f64 / (to - from).max(Duration::from_nanos(1)).as_secs_f64()
}

/// Measures all numbers of threads up to that of the cores.
///
/// # Errors
/// If the vocabulary cannot spell the documents.
pub fn run(args: &Args, vocab: &Vocabulary) -> Result<BenchReport> {
    let (compiler, constraint) = (Compiler::new(vocab.clone()), Constraint::json_schema(SCHEMA)?);
    let grammars =
        |count: usize| (0..count).map(|_| compiler.compile(&constraint)).collect::<Result<Vec<_>>>();
    let documents = |first: usize, count: usize| {
        (first..first + count).map(|number| vocab.encode(&document(number))).collect::<Result<Vec<_>>>()
    };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let words = vocab.bitmask_words();
    let warm = documents(1, 1)?;
    let of_thread = |thread: usize| documents(1 + thread * COLD_DOCUMENTS, COLD_DOCUMENTS);
    let cold = (0..cores).map(of_thread).collect::<Result<Vec<_>>>()?;
    let again = |grammar: &CompiledGrammar, row: &mut [u32]| {
        (0..WARM_DOCUMENTS).map(|_| follow(grammar, &warm, row)).sum::<usize>()
    };
    // Masks per second of each case, by the number of threads.
    let mut rates = vec![[0.0f64; CASES.len()]; cores];
    for _ in 0..args.rounds {
        for threads in 1..=cores {
            // The first one is shared by all threads.
            let (known, fresh, each) = (grammars(threads + 1)?, grammars(1)?, grammars(threads)?);
            for grammar in &known {
                follow(grammar, &warm, &mut vec![0; words]);
            }
            let found = [
                together(threads, words, |_, row| again(&known[0], row)),
                together(threads, words, |t, row| again(&known[t + 1], row)),
                together(threads, words, |t, row| follow(&fresh[0], &cold[t], row)),
                together(threads, words, |t, row| follow(&each[t], &cold[t], row)),
            ];
            rates[threads - 1].iter_mut().zip(found).for_each(|(best, found)| *best = best.max(found));
        }
    }
    let mut table = Grid::new("masks of threads", &["masks of", "threads", "masks per second", "ratio"]);
    let alone = rates[0];
    for (case, name) in CASES.iter().enumerate() {
        for (at, rates) in rates.iter().enumerate() {
            let (threads, rate, ratio) = (at + 1, rates[case], rates[case] / alone[case]);
            table.rows.push(vec![
                (*name).to_owned(),
                threads.to_string(),
                format!("{rate:.0}"),
                short(ratio),
            ]);
        }
    }
    Ok(BenchReport::of_tables("Threads", Environment::of_machine(), vec![table]))
}
