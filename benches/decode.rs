//! The cost of a forward by the number of its tokens, extraction in the four modes, and batches,
//! with the embedded models.
//!
//! ```text
//! cargo bench --bench decode [-- PART]
//! ```
//!
//! Forwards run after a fixed number of cached tokens and return the logits of every row, as
//! verification needs them. Prompts are processed within the extraction times.
//!
//! Each file of `decode/` is a part: `batch`, `gate`, `schema` (`same_schema.rs`), `rows`, `forced`
//! and `large`. `large` runs only on request: it needs a gigabyte and some minutes.
//! `CANDLE_NUM_THREADS` sets the number of threads.

#[path = "decode/batch.rs"]
mod batch;
#[path = "decode/forced.rs"]
mod forced;
#[path = "decode/gate.rs"]
mod gate;
#[path = "decode/large.rs"]
mod large;
#[path = "decode/rows.rs"]
mod rows;
#[path = "decode/same_schema.rs"]
mod same_schema;

use std::hint::black_box;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use criterion::{BenchmarkId, Criterion};
use ffwd::model::{LoadOptions, Model, Precision};
use ffwd::{Constraint, Engine, Mode, Result, extract};

const TEXT: &str = include_str!("../examples/data/invoice.txt");
const SCHEMA: &str = include_str!("../examples/data/invoice.schema.json");
/// Tokens in the cache while forwards are timed.
const CACHED: u32 = 300;

/// Measure forwards, modes, drafts and batches.
#[derive(Parser)]
struct Args {
    /// Run one part [default: all but `large`]
    part: Option<Part>,
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Forwards by their number of tokens
    Forward,
    /// Extraction in the four modes
    Extract,
    /// Rows of a forward against candle's stock model
    Rows,
    /// Drafting with several mixes of sources
    Gate,
    /// Many texts, one schema
    Schema,
    /// Forced runs
    Forced,
    /// Batches against single requests
    Batch,
    /// Drafting on a large model
    Large,
}

fn main() -> Result<()> {
    let wanted = Args::parse().part;
    match wanted {
        None | Some(Part::Forward | Part::Extract) => {}
        Some(Part::Rows) => return rows::run(),
        Some(Part::Gate) => return gate::run(),
        Some(Part::Schema) => return same_schema::run(Engine::embedded, 10, 20),
        Some(Part::Forced) => return forced::run_all(),
        Some(Part::Batch) => return batch::run(),
        Some(Part::Large) => return large::run(),
    }
    // Criterion reads the same arguments: a part of its own is the name of its group.
    let mut criterion = Criterion::default()
        .configure_from_args()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    forwards(&mut criterion)?;
    modes(&mut criterion)?;
    criterion.final_summary();
    if wanted.is_some() {
        return Ok(());
    }
    rows::run()?;
    gate::run()?;
    same_schema::run(Engine::embedded, 10, 20)?;
    forced::run_all()?;
    batch::run()
}

fn forwards(criterion: &mut Criterion) -> Result<()> {
    let mut group = criterion.benchmark_group("forward");
    for (name, precision) in [("Q8_0", Precision::Q8_0), ("F32", Precision::F32)] {
        let model = Model::embedded_target(&LoadOptions::with_precision(precision))?;
        let mut cache = model.new_cache()?;
        let context: Vec<u32> = (0..CACHED).map(|i| 100 + i).collect();
        model.forward(&context, &mut cache, 0..1)?;
        for m in [1, 2, 4, 8, 16, 32] {
            let tokens: Vec<u32> = (0..m).map(|i| 500 + i).collect();
            group.bench_function(BenchmarkId::new(name, m), |b| {
                b.iter(|| {
                    let rows = model.forward(black_box(&tokens), &mut cache, 0..tokens.len());
                    cache.truncate(CACHED as usize);
                    rows.map(|rows| rows.len()).unwrap_or(0)
                });
            });
        }
    }
    group.finish();
    Ok(())
}

fn modes(criterion: &mut Criterion) -> Result<()> {
    let engine = Engine::embedded()?.with_prefix_bytes(0);
    let grammar = engine.compiler().compile(&Constraint::json_schema(SCHEMA)?)?;
    let mut group = criterion.benchmark_group("extract");
    for mode in Mode::ALL {
        let request = extract::embedded::request(SCHEMA, TEXT)?.grammar(grammar.clone()).mode(mode);
        group.bench_function(mode.name(), |b| {
            b.iter(|| engine.generate(black_box(&request)).map(|o| o.tokens.len()))
        });
    }
    group.finish();
    Ok(())
}
