//! Set of symbols of an object, as a bitmap in one 128-bit word.
//!
//! Most queries about an object are whether it has one name or some of a few, and most answers are
//! no. The set is made once, when the object is read.
//!
//! # Cost
//!
//! A query is one operation.
//!
//! # Alternatives considered
//!
//! Scanning the members for each query was rejected: there are several queries even for an object
//! with few members, and compiling was measurably slower.

use super::symbols::Symbol;

/// A set of symbols: a bit for each of the first ones, and one for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::constraint) struct SymbolSet(pub u128);

/// Symbols from this one on have no bit of their own.
pub(in crate::constraint) const FIRST_SHARED: u32 = 127;

impl SymbolSet {
    pub(crate) const ALL: SymbolSet = SymbolSet(u128::MAX);
    /// Symbols that share a bit.
    #[cfg(test)]
    const OTHERS: SymbolSet = SymbolSet(1 << FIRST_SHARED);

    /// Returns the set of one symbol.
    pub(crate) const fn one(symbol: Symbol) -> SymbolSet {
        SymbolSet(1 << if symbol.0 < FIRST_SHARED { symbol.0 } else { FIRST_SHARED })
    }

    /// Returns the union.
    pub(crate) const fn or(self, other: SymbolSet) -> SymbolSet {
        SymbolSet(self.0 | other.0)
    }

    /// Returns the intersection.
    pub(crate) const fn and(self, other: SymbolSet) -> SymbolSet {
        SymbolSet(self.0 & other.0)
    }

    /// Returns the symbols that are not in `other`.
    pub(crate) const fn without(self, other: SymbolSet) -> SymbolSet {
        SymbolSet(self.0 & !other.0)
    }

    /// Returns true if the intersection is not empty.
    pub(crate) const fn meet(self, other: SymbolSet) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set may contain the symbol. For a symbol without a bit of its own,
    /// another such symbol may be meant.
    pub(crate) fn may_have(self, symbol: impl Into<Symbol>) -> bool {
        self.meet(SymbolSet::one(symbol.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_symbols_have_bits_of_their_own() {
        for at in 0..FIRST_SHARED {
            let own = SymbolSet::one(Symbol(at));
            let alone = (0..1_000).filter(|&other| own.may_have(Symbol(other))).count() == 1;
            assert!(alone && !own.meet(SymbolSet::OTHERS), "{at}");
        }
        assert_eq!(SymbolSet::one(Symbol(FIRST_SHARED)), SymbolSet::OTHERS);
        assert_eq!(SymbolSet::one(Symbol(u32::MAX)), SymbolSet::OTHERS);
    }
}
