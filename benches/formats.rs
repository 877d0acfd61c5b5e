//! Memory and time of a forward for every format of weights, on one model with random weights.
//!
//! ```text
//! RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1 cargo bench --bench formats [-- --layers 8]
//! ```
//!
//! The formats take turns, and the fastest of several rounds counts. Prints a Markdown table.

use std::time::Instant;

use clap::Parser;
use ffwd::Result;
use ffwd::model::{LoadOptions, Model};
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
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Numbers of tokens of a forward.
const TOKENS: [usize; 4] = [1, 4, 8, 64];

fn main() -> Result<()> {
    let args = Args::parse();
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
                let tokens: Vec<u32> = (0..n as u32).collect();
                let mut cache = model.new_cache()?;
                let start = Instant::now();
                model.forward(&tokens, &mut cache, n - 1..n)?;
                *best = best.min(start.elapsed().as_secs_f64() * 1e3);
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
