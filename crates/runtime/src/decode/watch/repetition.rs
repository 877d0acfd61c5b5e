//! Finds a text that ends in repetitions of itself.
//!
//! # Cost
//!
//! For each possible period a comparison of eight bytes, which nearly always differ. A period that
//! fits is followed backwards as far as it holds.
//!
//! # Alternatives considered
//!
//! Counting periods byte by byte was rejected: the counts would be a state that has to follow every
//! draft and return with every rejected one. Looking at the end of the text needs no state.

/// Longest period that counts, in bytes.
pub(super) const MAX_PERIOD: usize = 256;
/// Number of bytes of the first comparison.
const PROBE: usize = 8;

/// A repetition at the end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repetition {
    /// Number of bytes after which the text repeats itself: the smallest that fits.
    pub period: usize,
    /// Offset from which on it does.
    pub start: usize,
}

/// The least extent of a repetition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Number of bytes.
    pub bytes: usize,
    /// Number of periods; at least 2.
    pub periods: usize,
}

/// Returns the repetition of this extent in which `text` ends, if there is one.
pub(super) fn repetition(text: &[u8], least: Extent) -> Option<Repetition> {
    if text.len() < least.bytes.max(PROBE + 1) {
        return None;
    }
    let end = &text[text.len() - PROBE..];
    let longest = MAX_PERIOD.min(text.len() / least.periods).min(text.len() - PROBE);
    (1..=longest).filter(|period| &text[text.len() - PROBE - period..text.len() - period] == end).find_map(
        |period| {
            let same = (period..text.len()).rev().take_while(|&at| text[at] == text[at - period]);
            let start = text.len() - same.count() - period;
            let enough = least.bytes.max(least.periods * period);
            (text.len() - start >= enough).then_some(Repetition { period, start })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    /// The definition: every byte of the last `n` equals the one a period before it, for the least
    /// `n` that is long enough.
    fn by_definition(text: &[u8], least: Extent) -> Option<usize> {
        (1..=MAX_PERIOD).find(|&period| {
            let n = least.bytes.max(least.periods * period).max(PROBE + period);
            n <= text.len() && (text.len() - n + period..text.len()).all(|at| text[at] == text[at - period])
        })
    }

    #[test]
    fn equals_the_definition() {
        let mut random = Random::new(5);
        let (mut found, mut not) = (0, 0);
        for _ in 0..4000 {
            let least = Extent { bytes: 1 + random.below(60), periods: 2 + random.below(4) };
            let letters = 1 + random.below(3);
            let letter = |random: &mut Random| b"abc"[random.below(letters)];
            let mut text: Vec<u8> = (0..random.below(20)).map(|_| letter(&mut random)).collect();
            let unit: Vec<u8> = (0..1 + random.below(24)).map(|_| letter(&mut random)).collect();
            let n = random.below(120);
            text.extend(unit.iter().cycle().take(n));
            if random.below(4) == 0 && !text.is_empty() {
                let at = random.below(text.len());
                text[at] = b'x';
            }
            let expected = by_definition(&text, least);
            let got = repetition(&text, least);
            assert_eq!(got.map(|r| r.period), expected, "{least:?} {:?}", String::from_utf8_lossy(&text));
            if let Some(Repetition { period, start }) = got {
                assert!((start + period..text.len()).all(|at| text[at] == text[at - period]));
                assert!(start == 0 || text[start - 1] != text[start + period - 1]);
                found += 1;
            } else {
                not += 1;
            }
        }
        assert!(found > 500 && not > 500, "{found} {not}");
    }

    #[test]
    fn long_periods_are_found_up_to_the_limit() {
        let least = Extent { bytes: 256, periods: 4 };
        let mut random = Random::new(9);
        for period in [1, 2, 63, 64, 255, 256, 257] {
            let unit: Vec<u8> = (0..period).map(|_| random.below(256) as u8).collect();
            let n = (4 * period).max(256);
            let text: Vec<u8> = unit.iter().copied().cycle().take(n).collect();
            assert_eq!(repetition(&text, least).is_some(), period <= MAX_PERIOD, "{period}");
            assert_eq!(repetition(&text[1..], least), None, "one byte too few");
        }
    }
}
