//! How constraints may be *spelled*: the deliberate subsets of the full language.
//!
//! JSON leaves spelling free: whitespace, escapes, digits without end. Models waste tokens on that
//! freedom or never stop using it, so the default policy closes it. It is one value, so that a test
//! can compare masks with "all tokens that still lead to an output valid under schema and policy".

/// Whitespace between the tokens of JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Whitespace {
    /// None at all: `{"a":1,"b":[2,3]}`.
    #[default]
    Compact,
    /// At each place where JSON allows it, up to `max` bytes out of space, tab, newline and
    /// carriage return; never without end.
    Flexible {
        /// Most whitespace bytes at one place, 1 to 64.
        max: u8,
    },
}

/// The order of an object's properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyOrder {
    /// As the schema declares them, undeclared ones last: the order in which models write, and the
    /// longest forced runs.
    #[default]
    Declared,
    /// Any order, for texts that others wrote. Every property that is still missing may come next, so
    /// little is forced.
    Any,
}

/// Spelling rules for everything a constraint generates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whitespace in JSON text.
    pub whitespace: Whitespace,
    /// The order of properties.
    pub key_order: KeyOrder,
    /// Most digits before the decimal point (default 20).
    pub max_integer_digits: u8,
    /// Most digits after the decimal point (default 20).
    pub max_fraction_digits: u8,
    /// Whether `number` may be written with an exponent of up to three digits (default no).
    pub exponent: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            whitespace: Whitespace::Compact,
            key_order: KeyOrder::Declared,
            max_integer_digits: 20,
            max_fraction_digits: 20,
            exponent: false,
        }
    }
}
