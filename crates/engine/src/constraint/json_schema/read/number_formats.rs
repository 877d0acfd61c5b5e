//! Formats of numbers: the machine types that OpenAPI and type generators name, such as `int32`.
//!
//! An integer format bounds the integer. `float` and `double` bound the magnitude: no text is
//! written that overflows the type. Formats say nothing about values that are no numbers.
//!
//! # Cost
//!
//! A lookup among a few names.

use super::context::SchemaContext;
use super::types::Types;
use crate::constraint::json::document::Id;
use crate::decimal::Decimal;

/// A machine type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberFormat {
    /// The least and the greatest value.
    pub bounds: [&'static str; 2],
    /// For types with fractions: numbers below this power of ten do not overflow.
    pub magnitude: Option<u32>,
}

/// The format, the least and the greatest value, and the power of ten for types with fractions.
const FORMATS: &[(&str, [&str; 2], Option<u32>)] = &[
    ("int8", ["-128", "127"], None),
    ("int16", ["-32768", "32767"], None),
    ("int32", ["-2147483648", "2147483647"], None),
    ("int64", INT64, None),
    ("int", INT64, None),
    ("int128", INT128, None),
    ("double-int", ["-9007199254740991", "9007199254740991"], None),
    ("uint8", ["0", "255"], None),
    ("uint16", ["0", "65535"], None),
    ("uint32", ["0", "4294967295"], None),
    ("uint64", UINT64, None),
    ("uint", UINT64, None),
    ("uint128", ["0", "340282366920938463463374607431768211455"], None),
    ("float", FLOAT, Some(38)),
    ("double", ["-1.7976931348623157e308", "1.7976931348623157e308"], Some(308)),
];

const INT64: [&str; 2] = ["-9223372036854775808", "9223372036854775807"];
const UINT64: [&str; 2] = ["0", "18446744073709551615"];
const INT128: [&str; 2] =
    ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"];
const FLOAT: [&str; 2] =
    ["-340282346638528859811704183484516925440", "340282346638528859811704183484516925440"];

/// Returns the machine type that a format names; `None` for other formats. Types as wide as a
/// pointer have 64 bits.
pub(super) fn number_format(name: &str) -> Option<NumberFormat> {
    let &(_, bounds, magnitude) = FORMATS.iter().find(|format| format.0 == name)?;
    Some(NumberFormat { bounds, magnitude })
}

impl NumberFormat {
    /// Returns true if a literal is of the machine type.
    pub(crate) fn holds(self, context: &mut SchemaContext<'_>, value: Id) -> bool {
        let whole = self.magnitude.is_some() || context.type_of(value) == Types::INT;
        let [least, most] = self.bounds.map(Decimal::new);
        context.number(value).is_none_or(|number| whole && (least..=most).contains(&*number))
    }
}
