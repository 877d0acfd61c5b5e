//! The command line.

use std::path::PathBuf;

use clap::Parser;
use ffwd_testkit::data;

use crate::engines::Make;

/// Measure masks along the instances of many schemas.
#[derive(Debug, Parser)]
#[command(name = "maskbench")]
pub struct Args {
    /// Read schemas from FILE, JSON Lines with `.jsonl` or `.jsonl.zst` [default: the sample of the
    /// benchmark data]
    pub file: Option<PathBuf>,
    /// Use the tokenizer in FILE [default: the Llama 3 tokenizer of the benchmark data]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Run the engine NAME; `both` is ffwd and llguidance [default: all]
    #[arg(long, value_name = "NAME|both|all")]
    engine: Option<String>,
    /// Stop after N schemas
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub limit: usize,
    /// Take every N-th schema
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub every: usize,
    /// Take the schemas whose id contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Write all results as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print at most N failures of each kind
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub failures: usize,
    /// Print the N slowest masks
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub slowest: usize,
    /// Run each schema N times and keep the fastest time of each step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub repeat: usize,
    /// Take all schemas with one engine before the next engine starts
    #[arg(long)]
    pub apart: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse::<usize>().map(|n| n.max(1)).map_err(|e| e.to_string())
}

impl Args {
    /// The tokenizer's file.
    pub fn tokenizer(&self) -> PathBuf {
        self.tokenizer.clone().unwrap_or_else(|| inside("tokenizers/llama3/tokenizer.json"))
    }

    /// The file with the schemas; `None` without benchmark data.
    pub(crate) fn schemas(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| data::bench_dir().map(|d| d.join("maskbench-dev-sample.jsonl.zst")))
    }

    /// The engines that `--engine` selects from those that were built in.
    pub(crate) fn select(&self, built: &[(&'static str, Make)]) -> Result<Vec<(&'static str, Make)>, String> {
        let names = match self.engine.as_deref() {
            None => return Ok(built.to_vec()),
            Some("both") => &["ffwd", "llguidance"][..],
            Some("all") => &["ffwd", "llguidance", "xgrammar", "xgrammar-strict"],
            Some(name) => &[name],
        };
        let found = |name: &&str| built.iter().find(|e| e.0 == *name).copied();
        names.iter().map(|name| found(name).ok_or_else(|| format!("built without {name}"))).collect()
    }
}

fn inside(name: &str) -> PathBuf {
    data::bench_dir().map(|d| d.join(name)).unwrap_or_default()
}
