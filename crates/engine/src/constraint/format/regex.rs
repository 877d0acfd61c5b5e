//! The format `regex`: patterns of ECMA-262 with the `u` flag, as JSON Schema reads them.
//!
//! The syntax is a grammar with nesting, and whether a backreference, a group's name or the order of a range is
//! right takes counting. The language here is regular: what it holds is a pattern by the standard, and groups
//! go three deep. Each depth is a copy of the same automaton, some 300 states. A grammar with calls
//! instead, for any depth, was rejected: text that other keywords test as well (`pattern`, `minLength`, `not`) has
//! to be regular, and a format would then be the one that combines with nothing.

use std::fmt::Write;

/// Groups in groups, and in a lookahead, which stands outside of groups.
const DEPTH: (u32, u32) = (3, 1);

/// Escapes that mean the same inside and outside of classes.
const ESCAPE: &str = concat!(
    r"\\(?:[dDwWsStnvfr]|c[a-zA-Z]|x[0-9a-fA-F]{2}|u(?:[0-9a-fA-F]{4}|\{(?:[0-9a-fA-F]{1,5}|10[0-9a-fA-F]{4})\})",
    r"|[pP]\{(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfson]?)\}",
    r"|[\^$\\.*+?()\[\]{}|/])",
);

/// A pattern for the patterns, without anchors.
pub(super) fn pattern() -> String {
    let top = terms(Some(groups(DEPTH.0)));
    let ahead = format!(r"\(\?[=!]{}\)", terms(Some(groups(DEPTH.1))));
    format!("(?:{top}|{ahead})*")
}

/// Groups that hold groups, `depth` in all.
fn groups(depth: u32) -> String {
    let inner = (depth > 1).then(|| groups(depth - 1));
    format!(r"\((?:\?:)?{}\)", terms(inner))
}

/// Any number of terms and bars; an alternative may be empty. Assertions take no quantifier.
fn terms(group: Option<String>) -> String {
    let group = group.map_or(String::new(), |g| format!("|{g}"));
    let atom = format!(r"(?:[^\^$\\.*+?()\[\]{{}}|]|\.|{ESCAPE}|{}{group})", class());
    format!(r"(?:{atom}(?:{})?|[\^$|]|\\[bB])*", quantifier())
}

/// A class: hyphens at its ends only, and ranges of digits, of letters from the first or up to the last of the
/// alphabet, and of all of ASCII that is printed, none of which can be out of order.
fn class() -> String {
    let mut ranges = String::from("a-[a-z]|[a-z]-z|A-[A-Z]|[A-Z]-Z| -~");
    for low in 0..=9 {
        // Writing to a string cannot fail.
        let _ = write!(ranges, "|{low}-[{low}-9]");
    }
    format!(r"\[\^?-?(?:{ranges}|[^\\\]-]|{ESCAPE}|\\[b-])*-?\]")
}

/// A quantifier: counts of at most three digits, the greater one with more digits or a greater first one.
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
