//! `ffwd bench start`: the time from nothing to a model that is ready, and the memory that it needs.
//!
//! Vocabulary, weights and the first forward are timed by themselves. A file is read once before
//! anything is timed, so it is in the page cache. The least time of the rounds counts.
//!
//! # Cost
//!
//! A few loads of each model.
//!
//! # Alternatives considered
//!
//! Medians were rejected: a few loads of a large model take long, and other work only adds to them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ffwd_runtime::model::{LoadOptions, Model, Precision, vocabulary_of};
use ffwd_runtime::{Result, Vocabulary};

use crate::environment::Environment;
use crate::report::BenchReport;
use crate::table::Grid;

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure these GGUF files, model folders or tokenizer.json files [default: the embedded model]
    #[cfg_attr(not(feature = "embedded"), arg(required = true))]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Hold weights as in the file (stored), or as f32, q8_0 or q4_k
    #[arg(long, value_name = "stored|f32|q8_0|q4_k", default_value = "stored")]
    precision: Precision,
    /// Take the least time of N rounds
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Load no weights
    #[arg(long)]
    vocabulary: bool,
}

/// Loads each model some times.
///
/// # Errors
/// If a model cannot be loaded.
pub fn run(args: &Args) -> Result<BenchReport> {
    let options = LoadOptions::with_precision(args.precision);
    let header = [
        "model",
        "MB",
        "vocabulary, ms",
        "weights, ms",
        "first forward, ms",
        "resident after the vocabulary, MB",
        "at most",
        "in the end",
    ];
    let mut table = Grid::new("the start of models", &header);
    let mut add = |name: &str, bytes: u64, vocabulary: &dyn Fn() -> Result<Vocabulary>, load: Load| {
        let (times, memory) = measure(args, vocabulary, load)?;
        let times = times.map(|ms| if ms.is_finite() { format!("{ms:.0}") } else { "-".to_owned() });
        let names = [name.to_owned(), (bytes / 1_000_000).to_string()];
        table.rows.push(names.into_iter().chain(times).chain(memory.map(|mb| mb.to_string())).collect());
        Ok(())
    };
    #[cfg(feature = "embedded")]
    if args.files.is_empty() {
        use ffwd_runtime::model::embedded;
        let load = || Model::embedded_target(&options);
        add("embedded", embedded::TARGET_GGUF.len() as u64, &embedded::vocabulary, Some(&load))?;
    }
    for file in &args.files {
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let (bytes, load) = (cached(file), || Model::open(file, &options));
        match file.extension().is_some_and(|end| end == "json") {
            true => add(&name, bytes, &|| Vocabulary::from_file(file), None)?,
            false => add(&name, bytes, &|| vocabulary_of(file), Some(&load))?,
        }
    }
    Ok(BenchReport::of_tables("Start", Environment::of_machine(), vec![table]))
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

/// Returns the least milliseconds of vocabulary, weights and first forward, infinite if there were none,
/// and the megabytes that were resident after the vocabulary, at the peak, and at the end.
fn measure(
    args: &Args,
    vocabulary: &dyn Fn() -> Result<Vocabulary>,
    load: Load,
) -> Result<([f64; 3], [u64; 3])> {
    let (mut least, mut resident_mb) = ([f64::INFINITY; 3], [0; 3]);
    let mut time = |i: usize, start: Instant| {
        least[i] = least[i].min(start.elapsed().as_secs_f64() * 1e3);
    };
    for _ in 0..args.rounds {
        forget_peak();
        let start = Instant::now();
        let vocabulary = vocabulary()?;
        time(0, start);
        resident_mb[0] = memory_mb("VmRSS");
        if let Some(load) = load.filter(|_| !args.vocabulary) {
            let start = Instant::now();
            let model = load()?;
            time(1, start);
            let start = Instant::now();
            let mut cache = model.new_cache()?;
            model.forward(&[1], &mut cache, 0..1)?;
            time(2, start);
        }
        (resident_mb[1], resident_mb[2]) = (memory_mb("VmHWM"), memory_mb("VmRSS"));
        drop(vocabulary);
    }
    Ok((least, resident_mb))
}

/// Lets the peak of resident memory begin at the present, where the system can do that.
pub(crate) fn forget_peak() {
    // Without it a row has the peak of all rows so far.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns an entry of the process's memory in MB, or 0 where the system has none.
pub(crate) fn memory_mb(entry: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(entry));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024 / 1_000_000
}
