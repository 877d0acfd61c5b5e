//! Numbers without bounds.

use crate::constraint::policy::Policy;

/// Numbers without bounds, and how they are written. The policy determines this when a schema is
/// parsed, as for numbers with bounds. `number::free` has the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FreeNumber {
    /// Only integers, which have no exponents.
    pub integer: bool,
    /// True if integers may have zeros after a point.
    pub zeros: bool,
    /// True if there may be an exponent.
    pub exponent: bool,
    /// Maximum number of digits before and after the point.
    pub digits: (u8, u8),
}

impl FreeNumber {
    /// Returns all numbers, or all integers, as a policy writes them.
    pub fn new(integer: bool, zeros: bool, policy: &Policy) -> Self {
        let (zeros, exponent) = (integer && zeros, !integer && policy.exponent);
        let behind = if integer && !zeros { 0 } else { policy.max_fraction_digits };
        FreeNumber { integer, zeros, exponent, digits: (policy.max_integer_digits, behind) }
    }
}
