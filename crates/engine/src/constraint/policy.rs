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
    /// One blank behind each comma and each colon, none elsewhere: `{"a": 1, "b": [2, 3]}`. As most models have
    /// seen JSON written (Python's `json.dumps`); no more is left open than in [`Compact`](Self::Compact).
    SingleSpace,
    /// At each place where JSON allows it, up to `max` bytes out of space, tab, newline and
    /// carriage return; never without end.
    Flexible {
        /// Most whitespace bytes at one place, 1 to 64.
        max: u8,
    },
}

impl Whitespace {
    /// The fewest bytes behind a comma or a colon.
    pub(crate) fn least_gap(self) -> u32 {
        u32::from(self == Whitespace::SingleSpace)
    }
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
    /// Whether the numbers of `enum` and `const` may be written in every way that equals them, and integers with zeros behind
    /// the point (default no: as the schema writes them, and without a point). `1` is then also `1.0` and `1.00`, but not in a
    /// schema of draft 4, where these are no integers. For texts that others wrote.
    pub equal_numbers: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            whitespace: Whitespace::Compact,
            key_order: KeyOrder::Declared,
            max_integer_digits: 20,
            max_fraction_digits: 20,
            exponent: false,
            equal_numbers: false,
        }
    }
}
