//! `ffwd bench formats`: memory and time of a forward, for one model in several formats of weights, or
//! without and with an adapter.
//!
//! The models take turns, and the fastest of several rounds counts. Forwards of fewer tokens than a
//! prompt run after one.
//!
//! # Alternatives considered
//!
//! Models with random weights in the program were rejected: files of any format are models, and
//! `benches/formats/random_models.rs` writes one for each.

use std::path::PathBuf;
use std::time::Instant;

use ffwd_runtime::Result;
use ffwd_runtime::model::{Adapter, KvCache, LoadOptions, Model};

use crate::environment::Environment;
use crate::report::BenchReport;
use crate::table::{Grid, short};

/// Number of tokens of a prompt.
const PROMPT: usize = 256;

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure these GGUF files or model folders
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Measure each model once more with this adapter (LoRA): a folder of PEFT or a GGUF file
    #[arg(long, value_name = "FOLDER|FILE")]
    adapter: Option<PathBuf>,
    /// Measure forwards of these numbers of tokens, with commas between them
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,8,64", value_parser = tokens)]
    tokens: Vec<usize>,
    /// Measure N rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

fn tokens(text: &str) -> std::result::Result<usize, String> {
    let parsed = text.trim().parse().ok().filter(|tokens| (1..=4096).contains(tokens));
    parsed.ok_or_else(|| format!("{text:?} is not a number from 1 to 4096"))
}

/// Measures forwards of all models.
///
/// # Errors
/// If a model cannot be loaded, or the adapter is not one of it.
pub fn run(args: &Args) -> Result<BenchReport> {
    let adapter = args.adapter.as_ref().map(Adapter::open).transpose()?;
    let mut models = Vec::new();
    for file in &args.files {
        let name = file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let model = Model::open(file, &LoadOptions::default())?;
        if let Some(adapter) = &adapter {
            models.push((format!("{name} with the adapter"), model.with_adapter(adapter)?));
        }
        models.insert(models.len() - usize::from(adapter.is_some()), (name, model));
    }
    let mut least = vec![vec![f64::INFINITY; args.tokens.len()]; models.len()];
    for (at, &tokens) in args.tokens.iter().enumerate() {
        let cache = |(_, model): &(String, Model)| {
            let mut cache = model.new_cache()?;
            if tokens < PROMPT {
                model.forward(&(0..PROMPT as u32).collect::<Vec<_>>(), &mut cache, 0..0)?;
            }
            Ok(cache)
        };
        let mut caches = models.iter().map(cache).collect::<Result<Vec<_>>>()?;
        for _ in 0..args.rounds {
            for (((_, model), cache), least) in models.iter().zip(&mut caches).zip(&mut least) {
                least[at] = least[at].min(forward_ms(model, cache, tokens)?);
            }
        }
    }
    let columns = args.tokens.iter().map(|tokens| format!("{tokens} rows, ms"));
    let header: Vec<String> = ["model".to_owned(), "MB".to_owned()].into_iter().chain(columns).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Grid::new("forwards", &header);
    for ((name, model), least) in models.into_iter().zip(least) {
        let size = format!("{:.1}", model.weight_bytes() as f64 / 1e6);
        table.rows.push([name, size].into_iter().chain(least.into_iter().map(short)).collect());
    }
    Ok(BenchReport::of_tables("Formats of weights", Environment::of_machine(), vec![table]))
}

/// Returns the milliseconds of a forward of tokens after those in the cache, with the logits of the last.
fn forward_ms(model: &Model, cache: &mut KvCache, tokens: usize) -> Result<f64> {
    let ids: Vec<u32> = (0..tokens as u32).map(|id| id % model.config().vocab_size as u32).collect();
    let before = cache.len();
    let start = Instant::now();
    model.forward(&ids, cache, tokens - 1..tokens)?;
    cache.truncate(before);
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
