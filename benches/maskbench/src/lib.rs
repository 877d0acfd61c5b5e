//! MaskBench: masks along the instances of many schemas, for ffwd, llguidance (feature
//! `llguidance`) and XGrammar (the package `benches/xgrammar`) in the same process, interleaved
//! schema by schema.
//!
//! Every schema is compiled anew, and nothing is warmed up for it. Some parts depend on the
//! vocabulary alone, or on nothing (the formats of JSON Schema, `Compiler::warm_up`). They are made
//! once for each engine, before the first schema.
//!
//! At every token of every instance, the mask is computed into a caller's row. The token is looked
//! up in the mask and accepted. At the end an end token must be legal. One thread, wall-clock time
//! of each single call.
//!
//! ```text
//! cargo run --release -p ffwd-maskbench --features ffwd-maskbench/llguidance -- [FILE.jsonl[.zst]] [OPTIONS]
//! cargo run --release --manifest-path benches/xgrammar/Cargo.toml -- [FILE.jsonl[.zst]] [OPTIONS]
//! ```
//!
//! With `--apart` each engine takes all schemas before the next engine starts, as in MaskBench
//! itself. An engine then finds the processor's caches as it left them; otherwise the other engines
//! have filled them.
//!
//! # Alternatives considered
//!
//! Measuring a mask only where the engine has a choice was rejected: it hides the cost of the
//! states that a server requests most.

// A program that is a library only for `benches/xgrammar`.
#![allow(missing_docs)]

pub mod engines;
pub mod options;
pub mod report;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ffwd_engine::Vocabulary;
use ffwd_testkit::data::{self, Entry};
use ffwd_testkit::tables;

use engines::{ENGINES, Make, MaskEngine, Prepared, ms};
use options::Args;
use report::{EngineReport, Outcome};

/// Runs the program with `further` engines next to those of this package.
pub fn main(further: &[(&'static str, Make)]) -> ExitCode {
    match run(&Args::parse(), further) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("maskbench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Args, further: &[(&'static str, Make)]) -> Result<(), String> {
    let chosen = options.select(&[ENGINES, further].concat())?;
    let Some(file) = options.schemas() else {
        println!("maskbench: skipped, no benchmark data (set FFWD_BENCH_DIR or name a file)");
        return Ok(());
    };
    let entries = data::load(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let started = Instant::now();
    let vocab = Vocabulary::from_file(options.tokenizer()).map_err(|e| e.to_string())?;
    println!("vocabulary of {} tokens: {:.0} ms", vocab.len(), ms(started));
    let mut engines: Vec<(Box<dyn MaskEngine>, EngineReport)> = Vec::new();
    for (name, make) in chosen {
        engines.push((make(options, &vocab)?, EngineReport::new(name)));
    }
    for (engine, report) in &mut engines {
        report.settings = engine.settings();
        println!("{}: {}", report.name, report.settings);
    }
    let wanted = |e: &&Entry| options.filter.as_ref().is_none_or(|f| e.id.contains(f.as_str()));
    let chosen = entries.iter().filter(wanted).step_by(options.every).take(options.limit);
    let prepared = chosen.map(|entry| Prepared::new(entry, &vocab)).collect::<Result<Vec<_>, _>>()?;
    // By engine, for each schema.
    let mut outcomes: Vec<Vec<Outcome>> =
        engines.iter().map(|_| Vec::with_capacity(prepared.len())).collect();
    let one = |engine: &mut Box<dyn MaskEngine>, prepared: &Prepared| {
        // The first run counts; further ones only lower the noise of the times.
        let mut outcome = engine.run(prepared);
        for _ in 1..options.repeat {
            outcome.keep_fastest(engine.run(prepared));
        }
        outcome
    };
    if options.apart {
        for ((engine, _), outcomes) in engines.iter_mut().zip(&mut outcomes) {
            outcomes.extend(prepared.iter().map(|p| one(engine, p)));
        }
    } else {
        for p in &prepared {
            for ((engine, _), outcomes) in engines.iter_mut().zip(&mut outcomes) {
                outcomes.push(one(engine, p));
            }
        }
    }
    let mut outcomes: Vec<_> = outcomes.into_iter().map(Vec::into_iter).collect();
    for p in &prepared {
        let own: Vec<Outcome> = outcomes.iter_mut().filter_map(Iterator::next).collect();
        let common = own.iter().all(|o| o.compile_error.is_none());
        for ((_, report), outcome) in engines.iter_mut().zip(own) {
            report.add(p, outcome, common);
        }
    }
    let reports: Vec<&EngineReport> = engines.iter().map(|(_, r)| r).collect();
    report::print(&reports, options.failures, options.slowest);
    if options.filter.is_none() && options.limit == usize::MAX && !options.apart {
        let table = report::to_markdown(&reports);
        match further {
            [_, ..] => tables::put("xgrammar", &table)?,
            [] if options.every > 1 => {}
            [] => tables::put("maskbench", &table)?,
        }
    }
    if let Some(path) = &options.json {
        let text = report::to_json(&reports, &file);
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
