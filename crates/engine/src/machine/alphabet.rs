//! The bytes that a vocabulary can write, as runs.
//!
//! The table is made once for each base. A lookup returns the end of a run.
//!
//! # Alternatives considered
//!
//! Checking each byte of each range of a class: it is a large part of the time to lower classes
//! beyond ASCII.

use crate::json_escape::needs_escape;

/// The bytes that occur in a vocabulary, and the ends of their runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alphabet {
    has: [bool; 256],
    /// By byte: one past the run that begins there, as in [`Alphabet::plain_end`]; without and with
    /// `escaped`.
    ends: [[u16; 256]; 2],
}

impl Alphabet {
    pub(super) fn new(has: &[bool; 256]) -> Self {
        let mut ends = [[0; 256]; 2];
        for (escaped, ends) in [false, true].into_iter().zip(&mut ends) {
            let mut end = 256;
            for b in (0..=255u8).rev() {
                if !has[b as usize] || escaped && needs_escape(b) {
                    end = u16::from(b);
                }
                ends[b as usize] = end;
            }
        }
        Alphabet { has: *has, ends }
    }

    pub(super) fn has(&self, b: u8) -> bool {
        self.has[b as usize]
    }

    /// Returns the first byte from `b` on that does not occur, or 256 if there is none. With
    /// `escaped`, bytes that need an escape in a JSON string count as absent, too.
    pub(super) fn plain_end(&self, b: u8, escaped: bool) -> u16 {
        self.ends[usize::from(escaped)][b as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    #[test]
    fn runs_end_where_a_look_at_each_byte_says() {
        let mut random = Random::new(29);
        for round in 0..40 {
            let has: [bool; 256] = std::array::from_fn(|_| round == 0 || random.below(8) > 0);
            let alphabet = Alphabet::new(&has);
            for (b, escaped) in (0..=255u8).flat_map(|b| [(b, false), (b, true)]) {
                let plain = |&c: &u8| has[c as usize] && !(escaped && needs_escape(c));
                let run = (b..=255).take_while(plain).count() as u16;
                assert_eq!(alphabet.plain_end(b, escaped), u16::from(b) + run);
                assert_eq!(alphabet.has(b), has[b as usize]);
            }
        }
    }
}
