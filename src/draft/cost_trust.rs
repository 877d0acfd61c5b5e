//! How far measured costs are believed.
//!
//! What is left out because of its cost is never run, and so its cost is never measured again. If the first
//! measurement was disturbed (another program ran, the processor was slow for a moment) drafts would be left out for good. So while
//! something is left out that would be worth a share of its cost, costs are taken for less and less, until it is
//! tried. The forward that follows tells who was right: if it takes as long as the table says, the table is
//! believed again and doubts grow half as fast from then on; if less, trying goes on and the table comes down ([`CostTable::observe`](
//! crate::model::CostTable::observe)). Cost: a multiplication for each proposal. Measuring all sizes again from time
//! to time was rejected: with a large model that takes as long as a record.

/// The share of a cost that is believed at the least.
pub const MIN_BELIEVED: f64 = 1.0 / 3.0;
/// What is taken off the share after a forward in front of which something was left out.
const INITIAL_STEP: f64 = 1.0 / 32.0;
/// The same after doubts that were not justified.
const MIN_STEP: f64 = 1.0 / 4096.0;

/// The state of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostTrust {
    share: f64,
    step: f64,
}

impl Default for CostTrust {
    fn default() -> Self {
        CostTrust { share: 1.0, step: INITIAL_STEP }
    }
}

/// What was decided in front of a forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostDecision {
    /// Something was left out that would be worth [`MIN_BELIEVED`] of its cost.
    pub left_out: bool,
    /// Something was taken that is not worth all of its cost.
    pub tried: bool,
}

impl CostTrust {
    /// The share of a cost that is believed.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Learns from a forward that took less than the table says, or did not.
    pub fn learn(&mut self, decided: CostDecision, less: bool) {
        if decided.tried && !less {
            *self = CostTrust { share: 1.0, step: (self.step / 2.0).max(MIN_STEP) };
        } else if decided.left_out {
            self.share = (self.share * (1.0 - self.step)).max(MIN_BELIEVED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_that_are_not_justified_grow_slower() {
        let (left_out, tried) =
            (CostDecision { left_out: true, tried: false }, CostDecision { left_out: true, tried: true });
        let mut doubt = CostTrust::default();
        let mut last = 0;
        for _ in 0..5 {
            assert_eq!(doubt.share(), 1.0);
            let mut rounds = 0;
            while doubt.share() > 0.8 {
                doubt.learn(left_out, true);
                rounds += 1;
            }
            assert!(rounds > 3 * last / 2, "{rounds} after {last}");
            last = rounds;
            // What was tried and is cheaper is tried further.
            doubt.learn(tried, true);
            assert!(doubt.share() <= 0.8);
            doubt.learn(tried, false);
        }
        (0..100_000).for_each(|_| doubt.learn(left_out, false));
        assert_eq!(doubt.share(), MIN_BELIEVED);
    }
}
