//! Search for the maximum in a row of logits: finds the next group that holds a larger value.
//!
//! A search for the maximum finds larger values a few times at first and then hardly ever. Between
//! them, comparing 32 values at once is the only work.
//!
//! # Cost
//!
//! That comparison, with the widest vectors of the processor.
//!
//! # Alternatives considered
//!
//! Leaving the comparison to the instructions that every processor of a family has was rejected: it
//! needs more of them.

use super::simd16::{Simd16, Simd16Work, run};

/// Number of values that are compared together, and of bits in a word of a mask.
pub(crate) const COMPARED_AT_ONCE: usize = 32;

struct Next<'a> {
    values: &'a [f32],
    mask: Option<&'a [u32]>,
    from: usize,
    than: f32,
    found: &'a mut Option<usize>,
}

impl Simd16Work for Next<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        // Plain code, compiled with the instructions of V.
        for (i, group) in self.values.chunks(COMPARED_AT_ONCE).enumerate().skip(self.from) {
            if self.mask.is_some_and(|mask| mask.get(i).is_none_or(|word| *word == 0)) {
                continue;
            }
            // Written so that NaN counts as larger.
            let below = match <&[f32; COMPARED_AT_ONCE]>::try_from(group) {
                Ok(group) => group.iter().fold(true, |all, value| all & (*value <= self.than)),
                Err(_) => group.iter().all(|value| *value <= self.than),
            };
            if !below {
                *self.found = Some(i);
                return;
            }
        }
    }
}

/// Returns the first group of [`COMPARED_AT_ONCE`] values, from group `from` on, that has a legal
/// token and a value larger than `than`, or NaN. That value need not be legal.
pub(crate) fn next_group_above(
    values: &[f32],
    mask: Option<&[u32]>,
    from: usize,
    than: f32,
) -> Option<usize> {
    let mut found = None;
    run(Next { values, mask, from, than, found: &mut found });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_a_loop_finds() {
        let mut random = ffwd_testkit::random::Random::new(11);
        for _ in 0..2000 {
            let len = random.below(200);
            let values: Vec<f32> = (0..len)
                .map(|_| match random.below(60) {
                    0 => f32::NAN,
                    1 => f32::INFINITY,
                    2 => f32::NEG_INFINITY,
                    n => n as f32,
                })
                .collect();
            let mask: Vec<u32> = (0..random.below(8)).map(|_| random.below(3) as u32).collect();
            let mask = (random.below(3) > 0).then_some(&mask[..]);
            let (from, than) = (random.below(5), random.below(64) as f32);
            let legal = |i: usize| mask.is_none_or(|m| m.get(i).is_some_and(|word| *word != 0));
            let above = |i: usize| values[i * 32..].iter().take(32).any(|v| v.is_nan() || *v > than);
            let want = (from..len.div_ceil(32)).find(|i| legal(*i) && above(*i));
            assert_eq!(next_group_above(&values, mask, from, than), want);
        }
    }
}
