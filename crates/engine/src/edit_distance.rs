//! Edit distance of names, for hints about misspelt ones.

use smallvec::SmallVec;

/// Returns the known name closest to `name`, if it is at most two edits away.
pub(crate) fn closest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = known.into_iter().map(|known| (distance(known, name), known));
    near.filter(|&(distance, known)| distance <= 2 && distance < known.len()).min().map(|near| near.1)
}

/// Returns the edit distance (insertions, deletions, substitutions) of two names, in which the case of
/// ASCII letters does not count. Very long names are far from all others.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    if a.len() > 60 || b.len() > 60 {
        return usize::MAX;
    }
    let b: SmallVec<[char; 32]> = b.chars().collect();
    let mut row: SmallVec<[usize; 33]> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(!x.eq_ignore_ascii_case(&y));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    /// The definition, without a table.
    fn reference(a: &[char], b: &[char]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a_rest @ ..], [y, b_rest @ ..]) => {
                let substituted = reference(a_rest, b_rest) + usize::from(x != y);
                substituted.min(reference(a_rest, b) + 1).min(reference(a, b_rest) + 1)
            }
        }
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let words = ["", "a", "é", "ab", "ba", "abc", "acb", "bcda", "éaé"];
        for a in words {
            for b in words {
                let chars = |word: &str| word.chars().collect::<Vec<_>>();
                assert_eq!(distance(a, b), reference(&chars(a), &chars(b)), "{a} {b}");
            }
        }
        assert_eq!(distance(&"x".repeat(61), "x"), usize::MAX);
    }
}
