//! The bytes that a vocabulary can write, in runs.
//!
//! Made once for each base; a look-up says where a run ends. To look at each byte of each range of a class was a tenth of the
//! time that schemas with classes beyond ASCII took.

use crate::json_escape::needs_escape;

/// Which bytes occur in a vocabulary, and where runs of them end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alphabet {
    has: [bool; 256],
    /// By byte, what lies behind the run of bytes that occur and begins there; without and with those that need an
    /// escape in a JSON string.
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

    /// The first byte from `b` on that does not occur, or (`escaped`) that needs an escape; 256 if there is none.
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
