//! Memory and time of a forward for every format of weights, on one model with random weights; or of
//! a model without and with an adapter.
//!
//! ```text
//! export RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1
//! cargo bench --bench formats [-- --layers 8]
//! cargo bench --bench formats -- --model BASE.gguf --adapter ADAPTER --rounds 30
//! ```
//!
//! The models take turns, and the fastest of several rounds counts. Prints a Markdown table.

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use ffwd::Result;
use ffwd::model::{Adapter, KvCache, LoadOptions, Model};
use ffwd_testkit::gguf_file::{self, FORMATS, llama};
use ffwd_testkit::random::Random;

/// Measure every format of weights.
#[derive(Parser)]
struct Args {
    /// Build models of N layers, each of about 17 million weights
    #[arg(long, value_name = "N", default_value_t = 8)]
    layers: usize,
    /// Measure N rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Measure this model instead
    #[arg(long, requires = "adapter")]
    model: Option<PathBuf>,
    /// The same model with this adapter beside it
    #[arg(long, requires = "model")]
    adapter: Option<PathBuf>,
    /// Measure forwards of N tokens only (repeatable)
    #[arg(long, value_name = "N", requires = "model")]
    tokens: Vec<usize>,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Numbers of tokens of a forward.
const TOKENS: [usize; 4] = [1, 4, 8, 64];
/// Number of tokens of a prompt.
const PROMPT: usize = 256;

fn main() -> Result<()> {
    let args = Args::parse();
    if let (Some(model), Some(adapter)) = (&args.model, &args.adapter) {
        let base = Model::open(model, &LoadOptions::default())?;
        let adapted = base.with_adapter(&Adapter::open(adapter)?)?;
        let tokens = if args.tokens.is_empty() { vec![1, 2, 4, 8, 16, 64, 256] } else { args.tokens };
        return with_and_without([base, adapted], &tokens, args.rounds);
    }
    let shape = [256, 1024, 4096, args.layers, 16];
    let mut rows = Vec::new();
    for (kind, name, weights, bytes, _) in FORMATS {
        let (metadata, tensors) = llama(kind, shape, &mut Random::new(7));
        let count: usize =
            tensors.iter().filter(|t| t.kind == kind).map(|t| t.shape.iter().product::<usize>()).sum();
        let file = gguf_file::file(&metadata, &tensors);
        let model = Model::from_gguf_bytes(&file, &LoadOptions::default())?;
        // The embedding table, which is also the output matrix, is small and in single precision.
        let held = (model.weight_bytes() - 4 * shape[0] * shape[1]) as f64 / count as f64;
        rows.push((name, 8.0 * bytes as f64 / weights as f64, held, model, [f64::INFINITY; TOKENS.len()]));
    }
    for _ in 0..args.rounds {
        for (_, _, _, model, best) in &mut rows {
            for (best, n) in best.iter_mut().zip(TOKENS) {
                *best = best.min(forward(model, &mut model.new_cache()?, n)?);
            }
        }
    }
    println!(
        "| format | bits in the file | bytes in memory | {} |",
        TOKENS.map(|n| format!("{n} tokens, ms")).join(" | ")
    );
    println!("|---|---|---|{}", "---|".repeat(TOKENS.len()));
    for (name, bits, held, _, best) in &rows {
        let times = best.map(|ms| format!("{ms:.1}")).join(" | ");
        println!("| `{name}` | {bits:.2} | {held:.3} | {times} |");
    }
    Ok(())
}

/// Returns the milliseconds of a forward of `n` tokens after those in the cache, with the logits of the
/// last.
fn forward(model: &Model, cache: &mut KvCache, n: usize) -> Result<f64> {
    let tokens: Vec<u32> = (0..n as u32).collect();
    let before = cache.len();
    let start = Instant::now();
    model.forward(&tokens, cache, n - 1..n)?;
    cache.truncate(before);
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Prints the times of a model and of the same with an adapter: of few tokens behind a prompt, and of
/// prompts.
fn with_and_without(models: [Model; 2], tokens: &[usize], rounds: usize) -> Result<()> {
    println!("| tokens | without adapter, ms | with, ms | ratio |\n|---|---|---|---|");
    for &n in tokens {
        let mut caches = [models[0].new_cache()?, models[1].new_cache()?];
        if n < PROMPT {
            for (model, cache) in models.iter().zip(&mut caches) {
                model.forward(&(0..PROMPT as u32).collect::<Vec<_>>(), cache, 0..0)?;
            }
        }
        let mut best = [f64::INFINITY; 2];
        for _ in 0..rounds {
            for (best, (model, cache)) in best.iter_mut().zip(models.iter().zip(&mut caches)) {
                *best = best.min(forward(model, cache, n)?);
            }
        }
        println!("| {n} | {:.2} | {:.2} | {:.3} |", best[0], best[1], best[1] / best[0]);
    }
    Ok(())
}
