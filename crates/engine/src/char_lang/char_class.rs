//! Sets of Unicode scalar values, as classes of `regex-syntax`.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Range of every Unicode scalar value.
pub(crate) const ANY_CHAR: (char, char) = ('\0', char::MAX);

/// Returns a canonical class from any ranges.
pub(crate) fn unicode(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|&(lo, hi)| ClassUnicodeRange::new(lo, hi)))
}

/// Returns the ranges of a class, sorted and disjoint.
pub(crate) fn ranges(class: &ClassUnicode) -> impl Iterator<Item = (char, char)> + '_ {
    class.ranges().iter().map(|r| (r.start(), r.end()))
}
