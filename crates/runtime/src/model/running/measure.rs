//! The times of forwards: measured for a report, and as the table of costs of a model.
//!
//! Other work on the machine can only add to a time, so the fastest of several rounds counts in a
//! table. Rounds continue until they find nothing faster.

use std::time::{Duration, Instant};

use super::cost_law::CostLaw;
use super::cost_table::{CostTable, MORE_SIZES, SHORT_CACHE_POSITIONS, SIZES};
use super::model::Model;
use crate::error::Result;

/// Number of positions in the cache for the second measurement of [`FAR_ROWS`] rows, which
/// determines the cost of a cached position.
const LONG_CACHE_POSITIONS: usize = 512;
const FAR_ROWS: usize = 4;
/// Measuring ends after this number of rounds without an improvement by more than [`NOISE`].
const CALM_ROUNDS: usize = 2;
/// Smallest relative improvement that counts as faster.
const NOISE: f64 = 0.02;
/// Minimum and maximum number of measured rounds.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=24;
/// After this time no more than the minimum of rounds are run.
const BUDGET: Duration = Duration::from_millis(250);
/// After this time one run of each size after the warm-up is enough: for large models.
const LIMIT: Duration = Duration::from_millis(500);
impl Model {
    /// Returns the milliseconds of a pass by its number of tokens. The first call measures them:
    /// tens of milliseconds for a small model, at most a few passes for a large one.
    pub fn cost_table(&self) -> &CostTable {
        self.costs.measured.get_or_init(|| CostTable::measure(self))
    }

    /// Returns the table of [`cost_table`](Self::cost_table) if it was measured, otherwise one that
    /// is estimated from sizes and costs nothing. Generations begin with it and correct it. The law
    /// of the estimate is that of a processor, so an accelerator is measured. Its first forward of
    /// each shape also loads code.
    pub fn cost_estimate(&self) -> &CostTable {
        if self.is_on_accelerator() {
            return self.cost_table();
        }
        let estimated = || self.costs.estimated.get_or_init(|| CostTable::estimate(self));
        self.costs.measured.get().unwrap_or_else(estimated)
    }
}

impl CostTable {
    /// Returns a table estimated from the sizes of the model. It costs nothing.
    pub fn estimate(model: &Model) -> Self {
        let law = CostLaw::of(model.config(), model.weight_bytes(), model.threads().number());
        let context = model.config().context;
        let points = SIZES.into_iter().filter(|m| *m <= context).map(|m| (m, law.ms(m)));
        let table = CostTable::from_points(points).with_cached(CostLaw::cached(model.config()));
        CostTable { law: Some(law), ..table }
    }

    /// Measures forwards of a model: tens of milliseconds for a small model, at most a few forwards
    /// of each size for a large one. See also [`Model::cost_table`].
    pub fn measure(model: &Model) -> Self {
        let context = model.config().context;
        let more: &[usize] = if model.is_on_accelerator() { &MORE_SIZES } else { &[] };
        let all = || SIZES.into_iter().chain(more.iter().copied());
        let largest = all().max().unwrap_or(0);
        let near = SHORT_CACHE_POSITIONS.min(context.saturating_sub(largest));
        let far = LONG_CACHE_POSITIONS.min(context.saturating_sub(FAR_ROWS)).max(near);
        let sizes = || all().filter(|m| near + m <= context);
        let mut cases: Vec<(usize, usize)> = sizes().map(|m| (m, near)).collect();
        cases.push((FAR_ROWS.min(context), far));
        let best = fastest(model, &cases);
        // A pass cannot fail here: tokens and context are chosen to fit. If it did, missing points
        // would only make sizes look free, and decoding would be slow but correct.
        let points = sizes().zip(best.iter().copied());
        let table = CostTable::from_points(points);
        match best.last() {
            Some(ms) if far > near => {
                let rows = FAR_ROWS.min(context);
                let slope = (ms - table.ms(rows)) / (rows * (far - near)) as f64;
                table.with_cached(slope)
            }
            _ => table,
        }
    }
}

/// Returns the fastest milliseconds of each case (tokens, positions in the cache).
fn fastest(model: &Model, cases: &[(usize, usize)]) -> Vec<f64> {
    let mut all = vec![f64::INFINITY; cases.len()];
    let most = cases.iter().map(|c| c.0).max().unwrap_or(0);
    let tokens: Vec<u32> = (0..most).map(|i| (i % model.config().vocab_size) as u32).collect();
    let begin = Instant::now();
    let mut calm = 0;
    let Ok(mut cache) = model.new_cache() else { return all };
    // The first round warms up: candle rearranges quantised weights at their first use.
    for round in 0..=*ROUNDS.end() {
        let mut found = false;
        for (best, &(m, cached)) in all.iter_mut().zip(cases) {
            cache.set_len_for_timing(cached);
            let start = Instant::now();
            if model.forward(&tokens[..m], &mut cache, 0..m).is_err() {
                continue;
            }
            let ms = start.elapsed().as_secs_f64() * 1e3;
            found |= ms < *best * (1.0 - NOISE);
            *best = ms.min(*best);
        }
        calm = if found { 0 } else { calm + 1 };
        let spent = begin.elapsed();
        let enough = round >= *ROUNDS.start() && (calm >= CALM_ROUNDS || spent > BUDGET);
        if enough || round > 0 && spent > LIMIT {
            break;
        }
    }
    all
}

/// The rounds of a measurement of forwards.
pub struct ForwardRounds {
    /// Number of tokens before the rows, or fewer in a small context.
    pub cached: usize,
    /// Rounds that count, after one that warms up.
    pub rounds: usize,
    /// Rounds that are run even if the time limit is reached.
    pub least: usize,
    /// Time limit.
    pub limit: Duration,
}

/// Returns the milliseconds of forwards for each number of rows, with the logits of the last row. The
/// numbers take turns. `sizes` rises.
///
/// # Errors
/// Those of the model.
///
/// # Panics
/// If `sizes` is empty.
pub fn forward_times(model: &Model, sizes: &[usize], rounds: &ForwardRounds) -> Result<Vec<Vec<f64>>> {
    let config = model.config();
    let most = sizes[sizes.len() - 1];
    let cached = rounds.cached.min(config.context.saturating_sub(most));
    let size = config.vocab_size as u32;
    let tokens: Vec<u32> = (0..(cached + most) as u32).map(|i| (i * 7 + 11) % size).collect();
    let mut cache = model.new_cache()?;
    if cached > 0 {
        model.forward(&tokens[..cached], &mut cache, 0..0)?;
    }
    let mut times = vec![Vec::new(); sizes.len()];
    let begun = Instant::now();
    for round in 0..=rounds.rounds {
        for (times, &rows) in times.iter_mut().zip(sizes) {
            let start = Instant::now();
            model.forward(&tokens[cached..cached + rows], &mut cache, rows - 1..rows)?;
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            cache.truncate(cached);
        }
        if round >= rounds.least && begun.elapsed() > rounds.limit {
            break;
        }
    }
    Ok(times)
}
