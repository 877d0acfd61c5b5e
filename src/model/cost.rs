//! What a forward pass over m tokens costs, measured on the machine at hand.
//!
//! The gate that decides how many drafts to verify compares these numbers; only their ratios matter.
//! Measuring takes some tens of milliseconds once per model. A formula was rejected: between machines
//! and precisions, eight rows cost anything from 1.7 to 6 times one row.

use std::time::{Duration, Instant};

use super::Model;

/// Numbers of tokens that are measured.
const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Positions in the cache while measuring: short enough to be quick, long enough to be typical.
const OFFSET: usize = 64;
/// Measured passes per size; the fastest counts, since other work on the machine only adds.
const ROUNDS: usize = 4;
/// When this has passed, the remaining rounds are left out.
const BUDGET: Duration = Duration::from_millis(80);

/// Milliseconds of a pass over m tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct CostTable {
    /// `(m, milliseconds)`, both strictly or weakly increasing.
    points: Vec<(usize, f64)>,
}

impl CostTable {
    /// A table from measured points; times are raised where they would fall with m, since noise is the
    /// only reason for that.
    pub fn from_points(points: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut points: Vec<_> =
            points.into_iter().filter(|p| p.0 > 0 && p.1.is_finite() && p.1 >= 0.0).collect();
        points.sort_by_key(|p| p.0);
        points.dedup_by_key(|p| p.0);
        for i in 1..points.len() {
            points[i].1 = points[i].1.max(points[i - 1].1);
        }
        CostTable { points }
    }

    /// The measured points.
    pub fn points(&self) -> &[(usize, f64)] {
        &self.points
    }

    /// Milliseconds of a pass over `m` tokens with logits for all: interpolated between the measured
    /// points, continued along the last two, and 0 for no tokens.
    pub fn ms(&self, m: usize) -> f64 {
        let along = |(m0, t0): (usize, f64), (m1, t1): (usize, f64)| {
            t0 + (t1 - t0) * (m as f64 - m0 as f64) / (m1 as f64 - m0 as f64)
        };
        match self.points.as_slice() {
            _ if m == 0 => 0.0,
            [] => 0.0,
            [only] => only.1 * m as f64 / only.0 as f64,
            points => {
                let i = points.partition_point(|p| p.0 < m).clamp(1, points.len() - 1);
                along(points[i - 1], points[i]).max(0.0)
            }
        }
    }

    /// The cost of `m` tokens in passes over one token.
    pub fn ratio(&self, m: usize) -> f64 {
        match self.ms(1) {
            one if one > 0.0 => self.ms(m) / one,
            _ => m as f64,
        }
    }

    pub(super) fn measure(model: &Model) -> Self {
        let context = model.config().context;
        let largest = SIZES[SIZES.len() - 1];
        let offset = OFFSET.min(context.saturating_sub(largest));
        let tokens: Vec<u32> =
            (0..offset.max(largest)).map(|i| (i % model.config().vocab_size) as u32).collect();
        let begin = Instant::now();
        // A pass cannot fail here: tokens and context were chosen to fit. If it did, an empty table
        // would only make every size look free, and nothing would be wrong but slow.
        let run = || -> crate::error::Result<Vec<(usize, f64)>> {
            let mut cache = model.new_cache()?;
            model.forward(&tokens[..offset], &mut cache, 0..0)?;
            let sizes: Vec<usize> = SIZES.into_iter().filter(|m| offset + m <= context).collect();
            let mut best = vec![f64::INFINITY; sizes.len()];
            // The first round warms up: candle rearranges quantised weights at their first use.
            for round in 0..=ROUNDS {
                for (i, &m) in sizes.iter().enumerate() {
                    let start = Instant::now();
                    model.forward(&tokens[..m], &mut cache, 0..m)?;
                    cache.truncate(offset);
                    let ms = start.elapsed().as_secs_f64() * 1e3;
                    best[i] = if round <= 1 { ms } else { ms.min(best[i]) };
                    if begin.elapsed() > BUDGET && round > 0 {
                        return Ok(sizes.into_iter().zip(best).collect());
                    }
                }
            }
            Ok(sizes.into_iter().zip(best).collect())
        };
        CostTable::from_points(run().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_interpolated_and_never_fall() {
        let t = CostTable::from_points([(1, 1.0), (4, 4.0), (2, 1.5), (8, 3.0)]);
        assert_eq!(t.points(), [(1, 1.0), (2, 1.5), (4, 4.0), (8, 4.0)]);
        assert_eq!((t.ms(0), t.ms(1), t.ms(3), t.ms(8), t.ms(100)), (0.0, 1.0, 2.75, 4.0, 4.0));
        assert_eq!(t.ratio(2), 1.5);
        let t = CostTable::from_points([(1, 2.0), (2, 3.0)]);
        assert_eq!(t.ms(4), 5.0);
        assert_eq!(CostTable::from_points([(2, 3.0)]).ms(4), 6.0);
        assert_eq!(CostTable::from_points([]).ms(4), 0.0);
    }
}
