//! The median of some measurements, its quartiles, and the range in which it is known.

use serde::{Deserialize, Serialize};

/// Rounds from which on the quartiles say something about the noise.
const ENOUGH_ROUNDS: usize = 5;
/// Smallest relative uncertainty of a median: pauses and clock rates that a run does not see.
const FLOOR: f64 = 0.02;
/// The same with fewer rounds.
const FLOOR_OF_FEW: f64 = 0.25;

/// Median and quartiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
    /// Number of samples.
    pub rounds: usize,
}

impl Spread {
    /// Returns the spread of the samples; zeros if there are none.
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| match sorted.len() {
            0 => 0.0,
            len => {
                let place = share * (len - 1) as f64;
                let (below, above) = (place.floor() as usize, place.ceil() as usize);
                sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
            }
        };
        Spread { median: at(0.5), low: at(0.25), high: at(0.75), rounds: sorted.len() }
    }

    /// Returns the range in which the median is known: the notch of a box plot, 1.57 quartile
    /// distances by the root of the number of rounds, but at least a share of the median.
    pub fn notch(&self) -> (f64, f64) {
        let floor = if self.rounds < ENOUGH_ROUNDS { FLOOR_OF_FEW } else { FLOOR };
        let notch = 1.57 * (self.high - self.low) / (self.rounds.max(1) as f64).sqrt();
        let half = notch.max(floor * self.median.abs());
        (self.median - half, self.median + half)
    }

    /// Returns the values as other ones, such as seconds as records a second.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        let (a, b) = (change(self.low), change(self.high));
        Spread { median: change(self.median), low: a.min(b), high: a.max(b), rounds: self.rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_sorted_samples() {
        let spread = Spread::of(&[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((spread.low, spread.median, spread.high, spread.rounds), (2.0, 3.0, 4.0, 5));
        assert_eq!(Spread::of(&[1.0, 2.0]).median, 1.5);
        assert_eq!(Spread::of(&[]), Spread::default());
        let rate = spread.map(|x| 12.0 / x);
        assert_eq!((rate.low, rate.median, rate.high), (3.0, 4.0, 6.0));
    }

    #[test]
    fn few_rounds_are_less_sure_than_many() {
        let width = |samples: &[f64]| {
            let (low, high) = Spread::of(samples).notch();
            high - low
        };
        assert!(width(&[1.0]) > 0.4);
        assert!((width(&[1.0; 20]) - 0.04).abs() < 1e-12);
        let wide: Vec<f64> = (0..20).map(|i| 1.0 + f64::from(i) * 0.05).collect();
        assert!(width(&wide) > 0.2 && width(&[wide.clone(), wide.clone()].concat()) < width(&wide));
    }
}
