//! A regular expression for JSON Schema's format `regex`: ECMA-262 patterns with the `u` flag whose
//! groups nest at most three deep.
//!
//! The full syntax is a grammar with nesting. Backreferences, group names and the order of a range
//! also need counting. The language here is regular: each of its texts is a pattern by the
//! standard, and groups nest at most three deep.
//!
//! # Cost
//!
//! Each depth is a copy of the same automaton, some 300 states.
//!
//! # Alternatives considered
//!
//! A grammar with calls, for any depth, was rejected. Text that other keywords test as well
//! (`pattern`, `minLength`, `not`) has to be regular, so this format could not be combined with
//! them.

use std::fmt::Write;

/// Nesting depth of groups, and of groups in a lookahead. A lookahead is never inside a group.
const GROUP_DEPTHS: (u32, u32) = (3, 1);

/// Escapes with the same meaning inside and outside of classes.
const ESCAPE: &str = concat!(
    r"\\(?:[dDwWsStnvfr]|c[a-zA-Z]|x[0-9a-fA-F]{2}|u(?:[0-9a-fA-F]{4}|\{(?:[0-9a-fA-F]{1,5}|10[0-9a-fA-F]{4})\})",
    r"|[pP]\{(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfson]?)\}",
    r"|[\^$\\.*+?()\[\]{}|/])",
);

/// Returns a pattern that matches patterns, without anchors.
pub(super) fn pattern() -> String {
    let top = terms(Some(groups(GROUP_DEPTHS.0)));
    let ahead = format!(r"\(\?[=!]{}\)", terms(Some(groups(GROUP_DEPTHS.1))));
    format!("(?:{top}|{ahead})*")
}

/// Returns a pattern for groups nested up to `depth` deep.
fn groups(depth: u32) -> String {
    let inner = (depth > 1).then(|| groups(depth - 1));
    format!(r"\((?:\?:)?{}\)", terms(inner))
}

/// Returns a pattern for any number of terms and bars. An alternative may be empty, and assertions
/// take no quantifier.
fn terms(group: Option<String>) -> String {
    let group = group.map_or(String::new(), |g| format!("|{g}"));
    let atom = format!(r"(?:[^\^$\\.*+?()\[\]{{}}|]|\.|{ESCAPE}|{}{group})", class());
    format!(r"(?:{atom}(?:{})?|[\^$|]|\\[bB])*", quantifier())
}

/// Returns a pattern for a class with hyphens at its ends only. Ranges cover digits, letters from
/// the first or up to the last of the alphabet, and all printable ASCII, so none can be out of
/// order.
fn class() -> String {
    let mut ranges = String::from("a-[a-z]|[a-z]-z|A-[A-Z]|[A-Z]-Z| -~");
    for low in 0..=9 {
        // Writing to a string cannot fail.
        let _ = write!(ranges, "|{low}-[{low}-9]");
    }
    format!(r"\[\^?-?(?:{ranges}|[^\\\]-]|{ESCAPE}|\\[b-])*-?\]")
}

/// Returns a pattern for a quantifier with counts of at most three digits. The greater count has
/// more digits or a greater first digit.
fn quantifier() -> String {
    let mut counts = String::from("[0-9]{1,3},?|[1-9][0-9],[1-9][0-9]{2}");
    for low in 0..=9 {
        let _ = write!(counts, "|{low},(?:[{low}-9]|[1-9][0-9]{{1,2}})");
    }
    for low in 1..=8 {
        let _ = write!(counts, "|{low}[0-9],[{}-9][0-9]", low + 1);
    }
    format!(r"(?:[*+?]|\{{(?:{counts})\}})\??")
}
