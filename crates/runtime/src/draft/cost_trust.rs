//! Trust in measured costs: how far the gate believes them while it leaves proposals out.
//!
//! A row or call that is left out because of its cost never runs, so its cost is never measured
//! again. If the first measurement was disturbed (by another program, or a slow moment of the
//! processor), drafts would be left out for good. So while the gate leaves out something that would
//! pay at a share of its cost, it believes less and less of the cost, until it tries. The forward
//! that follows decides. If it takes as long as the table says, the cost is believed in full again
//! and trust falls half as fast from then on. If it takes less, the gate keeps trying and the table
//! comes down ([`CostTable::observe`](crate::model::CostTable::observe)). The method is optimism in
//! the face of uncertainty, as in bandit algorithms.
//!
//! # Cost
//!
//! A multiplication for each proposal.
//!
//! # Alternatives considered
//!
//! Measuring all sizes again from time to time was rejected: with a large model that takes as long
//! as an extraction.

/// The lowest share of a cost that is believed.
pub(super) const MIN_BELIEVED: f64 = 1.0 / 3.0;
/// Amount by which the share falls after a forward that left something out.
const INITIAL_STEP: f64 = 1.0 / 32.0;
/// Lowest value of that amount, to which it falls after trials that confirmed the cost.
const MIN_STEP: f64 = 1.0 / 4096.0;

/// The trust in one cost table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CostTrust {
    share: f64,
    step: f64,
}

impl Default for CostTrust {
    fn default() -> Self {
        CostTrust { share: 1.0, step: INITIAL_STEP }
    }
}

/// The gate's decisions before a forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CostDecision {
    /// True if something was left out that would pay at [`MIN_BELIEVED`] of its cost.
    pub left_out: bool,
    /// True if something was taken that does not pay at its full cost.
    pub tried: bool,
}

impl CostTrust {
    /// Returns the share of a cost that is believed.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Learns from a forward; `less` is true if it took less time than the table says.
    pub(crate) fn learn(&mut self, decided: CostDecision, less: bool) {
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
            // A trial that proves cheaper is repeated.
            doubt.learn(tried, true);
            assert!(doubt.share() <= 0.8);
            doubt.learn(tried, false);
        }
        (0..100_000).for_each(|_| doubt.learn(left_out, false));
        assert_eq!(doubt.share(), MIN_BELIEVED);
    }
}
