//! "Did you mean": the keyword that an unknown name is probably a misspelling of.
//!
//! # Cost
//!
//! The length of a name rules out most keywords; the edit distance to each other one is computed.

use super::keywords::Keyword;
use crate::edit_distance::distance;

/// Returns the assertion keyword that `word` is probably a misspelling of.
pub(super) fn did_you_mean(word: &str) -> Option<&'static str> {
    if word.len() > 24 || word.starts_with("x-") {
        return None;
    }
    Keyword::ALL.iter().map(|keyword| keyword.name()).find(|known| {
        let near = match known.len() {
            0..=4 => 0,
            5..=7 => 1,
            _ => 2,
        };
        known.eq_ignore_ascii_case(word) || (near > 0 && within(known, word, near))
    })
}

/// Returns true if the edit distance of two words is at most `limit`. Case does not count.
fn within(a: &str, b: &str, limit: usize) -> bool {
    // An edit changes the set of letters by two at most.
    let letters = |word: &str| word.bytes().fold(0u32, |set, byte| set | 1 << (byte & 31));
    a.len().abs_diff(b.len()) <= limit
        && (letters(a) ^ letters(b)).count_ones() as usize <= 2 * limit
        && distance(a, b) <= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings() {
        assert_eq!(did_you_mean("additionalproperties"), Some("additionalProperties"));
        assert_eq!(did_you_mean("propertes"), Some("properties"));
        assert_eq!(did_you_mean("maxLenght"), Some("maxLength"));
        assert_eq!(did_you_mean("version"), None);
        assert_eq!(did_you_mean("nullable"), None);
    }

    #[test]
    fn letters_rule_out_no_misspelling() {
        let mut random = ffwd_testkit::random::Random::new(11);
        let mut meant = 0;
        for round in 0..4_000 {
            let mut word = Keyword::ALL[round % Keyword::ALL.len()].name().as_bytes().to_vec();
            for _ in 0..random.below(4) {
                let (at, letter) = (random.below(word.len()), b"aeimnprstATY_$"[random.below(14)]);
                match random.below(3) {
                    0 => word[at] = letter,
                    1 => word.insert(at, letter),
                    _ if word.len() > 1 => drop(word.remove(at)),
                    _ => {}
                }
            }
            let word = String::from_utf8(word).unwrap();
            let near = |known: &str| [0, 1, 2][usize::from(known.len() > 4) + usize::from(known.len() > 7)];
            let slow = Keyword::ALL.iter().map(|keyword| keyword.name()).find(|known| {
                word.len() <= 24
                    && !word.starts_with("x-")
                    && (known.eq_ignore_ascii_case(&word)
                        || near(known) > 0 && within(known, &word, near(known)))
            });
            assert_eq!(did_you_mean(&word), slow, "{word}");
            meant += usize::from(slow.is_some());
        }
        assert!((1_000..3_900).contains(&meant), "{meant}");
    }
}
