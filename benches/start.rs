//! The time from nothing to a model that is ready: vocabulary, weights, the first forward, and the
//! most memory that was resident.
//!
//! ```text
//! cargo bench --bench start -- FILE.gguf... [--rounds N] [--precision P] [--kv f16]
//! ```
//!
//! A file is read once before anything is timed, so it is in the page cache. Without files the
//! embedded models are measured. A `tokenizer.json` is measured as a vocabulary alone. The least
//! time of the rounds counts.
//!
//! # Cost
//!
//! A few loads of each model.
//!
//! # Alternatives considered
//!
//! Criterion was rejected: its many rounds take minutes with a large model.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use ffwd::Result;
use ffwd::model::{LoadOptions, Model, Precision, embedded, vocabulary_of};
use ffwd::vocab::Vocabulary;

/// Measure the start of models.
#[derive(Parser)]
struct Args {
    /// Measure these GGUF files, model folders or tokenizer.json files [default: the embedded model]
    files: Vec<PathBuf>,
    /// Hold weights in this format
    #[arg(long, default_value = "stored")]
    precision: Precision,
    /// Take the least time of N rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Load no weights
    #[arg(long)]
    vocabulary: bool,
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    println!(
        "| file | MB | vocabulary, ms | weights, ms | first forward, ms | resident after the vocabulary / at most / in the end, MB |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let options = LoadOptions::with_precision(args.precision);
    if args.files.is_empty() {
        return row(
            &args,
            "embedded",
            embedded::TARGET_GGUF.len() as u64,
            embedded::vocabulary,
            Some(&|| Model::embedded_target(&options)),
        );
    }
    for file in &args.files {
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let size = cached(file);
        if file.extension().is_some_and(|e| e == "json") {
            row(&args, &name, size, || Vocabulary::from_file(file), None)?;
            continue;
        }
        let load = || match file.is_dir() {
            true => Model::from_dir(file, &options),
            false => Model::from_gguf(file, &options),
        };
        row(&args, &name, size, || vocabulary_of(file), Some(&load))?;
    }
    Ok(())
}

/// Reads the files at a path, so that they are in the page cache, and returns their bytes.
fn cached(path: &Path) -> u64 {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            entries.flatten().map(|e| if e.path().is_file() { cached(&e.path()) } else { 0 }).sum()
        }
        Err(_) => std::fs::File::open(path)
            .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()))
            .unwrap_or(0),
    }
}

/// A way to load a model.
type Load<'a> = Option<&'a dyn Fn() -> Result<Model>>;

fn row(
    args: &Args,
    name: &str,
    bytes: u64,
    vocabulary: impl Fn() -> Result<Vocabulary>,
    load: Load,
) -> Result<()> {
    let mut least = [f64::INFINITY; 3];
    let mut resident = [0; 3];
    let mut time = |i: usize, start: Instant| {
        least[i] = least[i].min(start.elapsed().as_secs_f64() * 1e3);
    };
    for _ in 0..args.rounds.max(1) {
        forget_the_peak();
        let start = Instant::now();
        let vocabulary = vocabulary()?;
        time(0, start);
        resident[0] = memory("VmRSS");
        if let Some(load) = load.filter(|_| !args.vocabulary) {
            let start = Instant::now();
            let model = load()?;
            time(1, start);
            let start = Instant::now();
            let mut cache = model.new_cache()?;
            model.forward(&[1], &mut cache, 0..1)?;
            time(2, start);
        }
        (resident[1], resident[2]) = (memory("VmHWM"), memory("VmRSS"));
        drop(vocabulary);
    }
    let ms = |t: f64| if t.is_finite() { format!("{t:.0}") } else { "-".into() };
    println!(
        "| {name} | {} | {} | {} | {} | {} / {} / {} |",
        bytes / 1_000_000,
        ms(least[0]),
        ms(least[1]),
        ms(least[2]),
        resident[0],
        resident[1],
        resident[2]
    );
    Ok(())
}

/// Makes the peak of resident memory begin anew, where the system can do that.
fn forget_the_peak() {
    // Without it the row has the peak of all rows so far.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns an entry of the process's memory in MB, or 0 where the system has none.
fn memory(entry: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(entry));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024 / 1_000_000
}
