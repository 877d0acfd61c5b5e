//! Output policy: the whitespace, key order and digits that a constraint permits in JSON text.
//!
//! JSON permits many encodings of one value: whitespace, escapes, unlimited digits. Models waste
//! tokens on that freedom or never stop using it, so the default policy removes it. The policy is
//! one value. So a test can compare masks with "all tokens that still lead to an output valid under
//! schema and policy".

/// Whitespace between the tokens of JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Whitespace {
    /// No whitespace: `{"a":1,"b":[2,3]}`.
    #[default]
    Compact,
    /// One blank after each comma and each colon, none elsewhere: `{"a": 1, "b": [2, 3]}`. Most
    /// models have seen JSON in this form (Python's `json.dumps`). It is as strict as
    /// [`Compact`](Self::Compact).
    SingleSpace,
    /// At each position where JSON allows whitespace, up to `max` bytes out of space, tab, newline
    /// and carriage return. The limit keeps whitespace finite.
    Flexible {
        /// Maximum number of whitespace bytes at one position, 1 to 64.
        max: u8,
    },
}

impl Whitespace {
    /// Returns the minimum number of bytes after a comma or a colon.
    pub(crate) fn min_separator_bytes(self) -> u32 {
        u32::from(self == Whitespace::SingleSpace)
    }
}

/// Order of an object's properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// The order in which the schema declares them, undeclared ones last. Models write in this
    /// order, and it gives the longest forced runs.
    #[default]
    Declared,
    /// Any order, for texts from other sources. Every property that is still missing may come next,
    /// so little is forced.
    Any,
}

/// Encoding policy for everything that a constraint generates.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::{Constraint, KeyOrder, Policy, Whitespace};
///
/// let policy = Policy {
///     whitespace: Whitespace::SingleSpace,
///     key_order: KeyOrder::Any,
///     ..Policy::default()
/// };
/// let object = Constraint::builder().policy(policy).json_schema(r#"{"type": "object"}"#)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whitespace in JSON text.
    pub whitespace: Whitespace,
    /// Order of properties.
    pub key_order: KeyOrder,
    /// Maximum number of digits before the decimal point (default 20).
    pub max_integer_digits: u8,
    /// Maximum number of digits after the decimal point (default 20).
    pub max_fraction_digits: u8,
    /// Permits an exponent of up to three digits in `number` (default false).
    pub exponent: bool,
    /// Permits every text that equals a number of `enum` or `const`, and zeros after the point of
    /// integers (default false: the text in the schema, and integers without a point). `1` is then
    /// also `1.0` and `1.00`, except in a schema of draft 4, where these are not integers. For
    /// texts from other sources.
    pub equal_numbers: bool,
    /// Closes the objects of a JSON Schema that declares some of their properties (default false:
    /// the standard's reading, any other property is allowed). Such an object then has its declared
    /// and required properties only, as with `"unevaluatedProperties": false` at the outermost
    /// schema that applies to it, in every draft. So `allOf` and `$ref` still compose. Objects
    /// without declared properties stay open, as do those with `patternProperties`,
    /// `additionalProperties` or `unevaluatedProperties` in a schema that applies, and those that
    /// could not have enough properties otherwise.
    pub closed_objects: bool,
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
            closed_objects: false,
        }
    }
}
