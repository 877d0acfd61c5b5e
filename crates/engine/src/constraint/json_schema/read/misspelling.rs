//! "Did you mean": the keyword that an unknown name is probably a misspelling of.
//!
//! # Cost
//!
//! The letters of a name rule out nearly all keywords; the edit distance to each other one is
//! computed.

use super::keywords::Keyword;

/// Returns the assertion keyword that `word` is probably a misspelling of.
pub fn did_you_mean(word: &str) -> Option<&'static str> {
    if word.len() > 24 || word.starts_with("x-") {
        return None;
    }
    let own = letters(word);
    let found = Keyword::ALL.iter().find(|&&keyword| {
        let known = keyword.name();
        let near = match known.len() {
            0..=4 => 0,
            5..=7 => 1,
            _ => 2,
        };
        let theirs = LETTERS[keyword as usize];
        // One edit adds at most one letter that only one of the two words has.
        let apart = (theirs & !own).count_ones().max((own & !theirs).count_ones());
        apart <= near
            && (known.eq_ignore_ascii_case(word) || (near > 0 && within(known, word, near as usize)))
    });
    found.map(|keyword| keyword.name())
}

/// Letters that occur in each keyword.
const LETTERS: [u32; Keyword::ALL.len()] = {
    let mut sets = [0; Keyword::ALL.len()];
    let mut i = 0;
    while i < sets.len() {
        sets[i] = letters(Keyword::ALL[i].name());
        i += 1;
    }
    sets
};

/// Returns a bit for each letter of a word. Case does not count, and other bytes share the bits of
/// some letters.
const fn letters(word: &str) -> u32 {
    let (mut set, mut i) = (0, 0);
    while i < word.len() {
        set |= 1 << (word.as_bytes()[i] & 31);
        i += 1;
    }
    set
}

/// Returns true if the edit distance of two words of at most 24 bytes is at most `limit`. The edits
/// are insert, delete and replace; case does not count.
fn within(a: &str, b: &str, limit: usize) -> bool {
    if a.len().abs_diff(b.len()) > limit {
        return false;
    }
    let b = b.as_bytes();
    let mut row: [usize; 25] = std::array::from_fn(|i| i);
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(!x.eq_ignore_ascii_case(&y))).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()] <= limit
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
