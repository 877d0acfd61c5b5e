//! What a forward costs by the number of its tokens, extraction in the four modes, and batches, with the
//! embedded models: `cargo bench --bench decode`.
//!
//! Forwards run behind 300 cached tokens and return the logits of every row, as verification needs
//! them. Prompts are processed within the extraction times. `-- batch` prints only the figures of
//! `batch.rs`, `-- gate`, `-- schema`, `-- rows`, `-- forced` and `-- large` those of the files of these names (the last only
//! on request: it needs a gigabyte and some minutes); candle's threads are set by `CANDLE_NUM_THREADS`.

#[path = "decode/batch.rs"]
mod batch;
#[path = "decode/forced.rs"]
mod forced;
#[path = "decode/gate.rs"]
mod gate;
#[path = "decode/large.rs"]
mod large;
#[path = "decode/one_schema.rs"]
mod one_schema;
#[path = "decode/rows.rs"]
mod rows;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use ffwd::model::{LoadOptions, Model, Precision};
use ffwd::{Constraint, Engine, Mode, Result, extract};

const TEXT: &str = include_str!("../examples/data/invoice.txt");
const SCHEMA: &str = include_str!("../examples/data/invoice.schema.json");
/// Tokens in the cache while forwards are timed.
const CACHED: u32 = 300;

fn main() -> Result<()> {
    if std::env::args().any(|a| a == "batch") {
        return batch::run();
    }
    if std::env::args().any(|a| a == "gate") {
        return gate::run();
    }
    if std::env::args().any(|a| a == "rows") {
        return rows::run();
    }
    if std::env::args().any(|a| a == "large") {
        return large::run();
    }
    if std::env::args().any(|a| a == "schema") {
        return one_schema::run(Engine::embedded, 10, 20);
    }
    if std::env::args().any(|a| a == "forced") {
        return forced::run_all();
    }
    let mut criterion = Criterion::default()
        .configure_from_args()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    forwards(&mut criterion)?;
    modes(&mut criterion)?;
    criterion.final_summary();
    rows::run()?;
    gate::run()?;
    one_schema::run(Engine::embedded, 10, 20)?;
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
        let request = extract::request(SCHEMA, TEXT)?.grammar(grammar.clone()).mode(mode);
        group.bench_function(mode.name(), |b| {
            b.iter(|| engine.generate(black_box(&request)).map(|o| o.tokens.len()))
        });
    }
    group.finish();
    Ok(())
}
