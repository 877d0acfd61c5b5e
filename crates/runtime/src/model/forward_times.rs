//! Measured times of forwards by their number of rows.

use std::time::{Duration, Instant};

use super::Model;
use crate::error::Result;

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
