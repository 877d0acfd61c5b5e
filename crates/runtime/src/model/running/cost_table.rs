//! The cost table: milliseconds of a forward pass over m tokens on this machine.
//!
//! The draft gate compares these numbers; only their ratios matter. A table begins as an estimate
//! from the sizes of the model ([`CostTable::estimate`]), and the forwards of generations move it
//! to the times in real use ([`CostTable::observe`]).
//!
//! A table can also be measured ([`CostTable::measure`]). Other work on the machine can only add to
//! a time, so the fastest of several rounds counts. Rounds continue until they find nothing faster.
//!
//! # Alternatives considered
//!
//! A formula alone was rejected: between machines and precisions, the cost of eight rows varies by
//! a factor of more than three relative to one row.

use super::cost_law::CostLaw;

/// Numbers of tokens that are measured.
pub(super) const SIZES: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 24];
/// Further ones on an accelerator, where drafts are longer.
pub(super) const MORE_SIZES: [usize; 3] = [32, 48, 64];
/// Number of positions in the cache while sizes are measured.
pub(super) const SHORT_CACHE_POSITIONS: usize = 64;
/// Relative step by which an observed forward moves the table.
const STEP: f64 = 0.02;

/// Milliseconds of a pass by its number of tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct CostTable {
    /// `(m, milliseconds)`; m increases strictly, the time never falls.
    pub(super) points: Vec<(usize, f64)>,
    /// Milliseconds that a cached position adds to each row.
    pub(super) cached: f64,
    /// The law that the points follow, until enough forwards were seen.
    pub(super) law: Option<CostLaw>,
}

impl CostTable {
    /// Returns a table from measured points.
    ///
    /// A time is lowered where a larger m takes less, and where smaller passes over the same tokens
    /// take less. Both come from noise, which only adds.
    pub fn from_points(points: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut points: Vec<_> =
            points.into_iter().filter(|p| p.0 > 0 && p.1.is_finite() && p.1 >= 0.0).collect();
        points.sort_by_key(|p| p.0);
        points.dedup_by_key(|p| p.0);
        let mut table = CostTable { points, cached: 0.0, law: None };
        table.straighten(false);
        table
    }

    /// Makes the times consistent: a forward over more tokens takes no less time, and no more than
    /// forwards over parts of them. Where times fall, either the later ones are raised or the
    /// earlier ones lowered.
    fn straighten(&mut self, raise: bool) {
        let points = &mut self.points;
        for i in 1..points.len() {
            if raise {
                points[i].1 = points[i].1.max(points[i - 1].1);
            } else {
                let i = points.len() - 1 - i;
                points[i].1 = points[i].1.min(points[i + 1].1);
            }
        }
        for i in 1..self.points.len() {
            let (before, rest) = self.points.split_at_mut(i);
            let (m, ms) = &mut rest[0];
            let parts = before.iter().map(|(part, ms)| m.div_ceil(*part) as f64 * ms);
            *ms = parts.fold(*ms, f64::min).max(before[i - 1].1);
        }
    }

    /// Moves the table a little towards the observed time of a forward over `m` tokens after
    /// `cached` positions.
    ///
    /// An estimated table is moved as a whole, and the first forwards move it far. Otherwise the two
    /// points around m each make a step of fixed size. So they approach the median of the times,
    /// wherever they began, and a pause of the machine moves them no further than anything else.
    pub fn observe(&mut self, m: usize, cached: usize, ms: f64) {
        if let Some(law) = &mut self.law {
            if m == 0 || !ms.is_finite() {
                return;
            }
            let prompt = self.points.last().is_some_and(|last| m > last.0);
            // Tokens also see those before them in the same forward.
            let seen = (cached + m / 2) as f64 - SHORT_CACHE_POSITIONS as f64;
            law.observe(m, prompt, ms - self.cached * m as f64 * seen);
            self.points.iter_mut().for_each(|(m, ms)| *ms = law.ms(*m));
            if law.is_settled() {
                self.law = None;
            }
            return;
        }
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return };
        if m < first.0 || m > last.0 || !ms.is_finite() {
            return;
        }
        let step = if ms > self.ms_behind(m, cached) { STEP } else { -STEP };
        let i = self
            .points
            .partition_point(|p| p.0 < m)
            .clamp(1.min(self.points.len() - 1), self.points.len() - 1);
        let (low, high) = (i.saturating_sub(1), i);
        let span = (self.points[high].0 - self.points[low].0).max(1) as f64;
        let share = (m - self.points[low].0) as f64 / span;
        self.points[low].1 *= 1.0 + step * (1.0 - share);
        if high != low {
            self.points[high].1 *= 1.0 + step * share;
        }
        self.straighten(step > 0.0);
    }

    /// Returns the same table with the milliseconds that a cached position adds to each row. The
    /// points are those after 64 positions.
    pub fn with_cached(mut self, ms: f64) -> Self {
        self.cached = if ms.is_finite() { ms.max(0.0) } else { 0.0 };
        self
    }

    /// Returns the measured points.
    pub fn points(&self) -> &[(usize, f64)] {
        &self.points
    }

    /// Returns the milliseconds that a cached position adds to each row.
    pub fn cached(&self) -> f64 {
        self.cached
    }

    /// Returns the milliseconds of a pass over `m` tokens with logits for all. Interpolates between
    /// the measured points, continues along the last two, and gives 0 for no tokens.
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

    /// Returns the milliseconds of a pass over `m` tokens after `cached` positions.
    pub fn ms_behind(&self, m: usize, cached: usize) -> f64 {
        (self.ms(m) + self.cached * m as f64 * (cached as f64 - SHORT_CACHE_POSITIONS as f64)).max(0.0)
    }

    /// Returns the cost of `m` tokens in passes over one token.
    pub fn ratio(&self, m: usize) -> f64 {
        match self.ms(1) {
            one if one > 0.0 => self.ms(m) / one,
            _ => m as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::*;

    #[test]
    fn costs_are_interpolated_and_never_fall() {
        let t = CostTable::from_points([(1, 1.0), (4, 4.5), (2, 1.5), (8, 3.0)]);
        assert_eq!(t.points(), [(1, 1.0), (2, 1.5), (4, 3.0), (8, 3.0)]);
        assert_eq!((t.ms(0), t.ms(1), t.ms(3), t.ms(8), t.ms(100)), (0.0, 1.0, 2.25, 3.0, 3.0));
        assert_eq!(t.ratio(2), 1.5);
        let t = CostTable::from_points([(1, 2.0), (2, 3.0)]);
        assert_eq!(t.ms(4), 5.0);
        assert_eq!(CostTable::from_points([(2, 3.0)]).ms(4), 6.0);
        assert_eq!(CostTable::from_points([]).ms(4), 0.0);
    }

    #[test]
    fn observed_forwards_move_the_table_to_their_median() {
        let mut t = CostTable::from_points([(1, 0.1), (4, 0.2), (8, 0.4)]);
        for i in 0..3000 {
            // One in five is ten times as long.
            let pause = if i % 5 == 0 { 10.0 } else { 1.0 };
            let (m, ms) = [(1, 1.0), (4, 1.5), (6, 2.0), (8, 2.5)][i % 4];
            t.observe(m, 64, ms * pause);
        }
        for (m, ms) in [(1, 1.0), (4, 1.5), (6, 2.0), (8, 2.5)] {
            // Within a few steps.
            assert!((t.ms(m) / ms - 1.0).abs() < 5.0 * STEP, "{m}: {t:?}");
        }
        let before = t.clone();
        [(0, 1.0), (9, 1.0), (4, f64::NAN)].iter().for_each(|&(m, ms)| t.observe(m, 64, ms));
        assert_eq!(t, before);
        let mut empty = CostTable::from_points([]);
        empty.observe(1, 0, 1.0);
        let mut one = CostTable::from_points([(1, 1.0)]);
        (0..100).for_each(|_| one.observe(1, 64, 3.0));
        assert!((one.ms(1) / 3.0 - 1.0).abs() < 5.0 * STEP, "{one:?}");
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn forwards_correct_an_estimate() {
        let model = Model::embedded_draft(&Default::default()).unwrap();
        let mut t = CostTable::estimate(&model);
        assert_eq!(t.points().iter().map(|p| p.0).collect::<Vec<_>>(), SIZES);
        assert!(t.points().is_sorted_by(|a, b| 0.0 < a.1 && a.1 <= b.1), "{t:?}");
        assert!(t.cached() > 0.0);
        let long = t.clone();
        [(0, 1.0), (1, f64::INFINITY)].iter().for_each(|&(m, ms)| t.observe(m, 64, ms));
        assert_eq!(t, long);
        // A machine on which everything takes much longer, and rows nothing.
        for i in 0..200 {
            let (m, cached) = ([1, 2, 4, 12][i % 4], 64 + i);
            t.observe(m, cached, 7.0);
        }
        assert!(t.law.is_none());
        for m in [1, 2, 4, 12] {
            assert!((t.ms(m) / 7.0 - 1.0).abs() < 0.2, "{m}: {t:?}");
        }
    }

    #[test]
    fn cached_positions_cost_every_row() {
        let t = CostTable::from_points([(1, 1.0), (2, 1.5)]).with_cached(0.001);
        assert_eq!(t.ms_behind(1, 64), 1.0);
        assert!((t.ms_behind(2, 164) - 1.7).abs() < 1e-12);
        assert_eq!(t.ms_behind(0, 1000), 0.0);
        assert_eq!(t.clone().with_cached(f64::NAN), t.with_cached(0.0));
    }
}
