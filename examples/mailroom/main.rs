//! A mail room: reads a folder of mixed documents, finds the type of each, extracts a record with
//! the schema of that type, and books the invoices into a ledger by tool calls.
//!
//! ```text
//! cargo run --release --example mailroom [-- FOLDER] [--model FILE] [--ledger FILE]
//! ```
//!
//! The embedded models know labels only a little, so some documents get a wrong type. A model with
//! one and a half billion parameters (Qwen2.5-Coder-1.5B-Instruct) finds all types of the shipped
//! folder.

mod bookkeeper;
mod sorter;

use std::path::PathBuf;

use clap::Parser;
use ffwd::extract::{Extractor, finished};
use ffwd::{Engine, Request, Result};
use serde_json::Value;

use bookkeeper::Invoice;
use sorter::{Kind, Sorter};

/// Most tokens of a record: a value that runs on ends here.
const MAX_TOKENS: usize = 160;

/// Sort a folder of documents, extract a record from each, and book the invoices
#[derive(Parser)]
struct Args {
    /// Read the .txt files of this folder
    #[arg(default_value = "examples/data/mailroom")]
    folder: PathBuf,
    /// Load this model instead of the embedded ones
    #[arg(short, long)]
    model: Option<PathBuf>,
    /// Write the ledger to this file
    #[arg(long, default_value = "target/ledger.csv")]
    ledger: PathBuf,
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let engine = match &args.model {
        Some(model) => Engine::builder().model(model).build()?,
        None => Engine::embedded()?,
    };
    let sorter = Sorter::new(&engine)?;
    let extractors = Kind::ALL.map(|kind| kind.schema().map(|schema| Extractor::new(&engine, schema)));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&args.folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|e| e == "txt"));
    files.sort();

    let mut invoices = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file)?;
        let (kind, probability) = sorter.kind(&engine, &text)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        println!("{name}: {} ({:.0} %)", kind.label(), 100.0 * probability);
        let Some(extractor) = &extractors[kind as usize] else { continue };
        let record = record(&engine, extractor.as_ref().map_err(Clone::clone)?, &text)?;
        println!("  {record}");
        if kind == Kind::Invoice {
            invoices.push(Invoice::new(&record)?);
        }
    }

    println!("bookkeeping");
    let ledger = bookkeeper::book(&engine, &invoices)?;
    ledger.check(&invoices)?;
    ledger.write(&args.ledger)?;
    println!("{} entries, {}, in {}", ledger.len(), ledger.totals(), args.ledger.display());
    Ok(())
}

fn record(engine: &Engine, extractor: &Extractor, text: &str) -> Result<Value> {
    let request: Request = extractor.request(text)?.max_tokens(MAX_TOKENS).close_before_limit(true);
    Ok(finished(engine.generate(&request)?)?.record)
}
