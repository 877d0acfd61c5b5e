//! Formats of numbers: the machine types that OpenAPI and type generators name, such as `int32`.
//!
//! An integer format bounds the integer. `float` and `double` bound the magnitude: no text is
//! written that overflows the type. Formats say nothing about values that are no numbers.
//!
//! # Cost
//!
//! A lookup among a few names.

use super::context::SchemaContext;
use super::shape::{Bound, Shape, Term, Terms};
use super::types::Types;
use crate::constraint::json::document::Id;
use crate::decimal::Decimal;
use crate::error::Result;

/// A machine type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberFormat {
    /// The least and the greatest value.
    bounds: (&'static str, &'static str),
    /// For types with fractions: numbers below this power of ten do not overflow.
    magnitude: Option<u32>,
}

const INT64: (&str, &str) = ("-9223372036854775808", "9223372036854775807");
const UINT64: (&str, &str) = ("0", "18446744073709551615");
const INT128: (&str, &str) =
    ("-170141183460469231731687303715884105728", "170141183460469231731687303715884105727");
const UINT128: (&str, &str) = ("0", "340282366920938463463374607431768211455");
const FLOAT: (&str, &str) =
    ("-340282346638528859811704183484516925440", "340282346638528859811704183484516925440");
const DOUBLE: (&str, &str) = ("-1.7976931348623157e308", "1.7976931348623157e308");

/// Returns the machine type that a format names; `None` for other formats. Types as wide as a
/// pointer have 64 bits.
pub(super) fn number_format(name: &str) -> Option<NumberFormat> {
    let integer = |bounds| Some(NumberFormat { bounds, magnitude: None });
    match name {
        "int8" => integer(("-128", "127")),
        "int16" => integer(("-32768", "32767")),
        "int32" => integer(("-2147483648", "2147483647")),
        "int64" | "int" => integer(INT64),
        "int128" => integer(INT128),
        "double-int" => integer(("-9007199254740991", "9007199254740991")),
        "uint8" => integer(("0", "255")),
        "uint16" => integer(("0", "65535")),
        "uint32" => integer(("0", "4294967295")),
        "uint64" | "uint" => integer(UINT64),
        "uint128" => integer(UINT128),
        "float" => Some(NumberFormat { bounds: FLOAT, magnitude: Some(38) }),
        "double" => Some(NumberFormat { bounds: DOUBLE, magnitude: Some(308) }),
        _ => None,
    }
}

/// Merges a machine type.
pub(super) fn bound_by_format(context: &mut SchemaContext<'_>, shape: &mut Shape, format: NumberFormat) {
    let digits = u32::from(context.policy.max_integer_digits.max(1));
    match format.magnitude {
        None => shape.types = shape.types.without(Types::FRACTION),
        // Without an exponent no number is that long.
        Some(magnitude) if digits <= magnitude => {
            let least = shape.number.magnitude.map_or(magnitude, |known| known.min(magnitude));
            shape.number.magnitude = Some(least);
            return;
        }
        Some(_) => {}
    }
    let mut bound =
        |text: &str| Bound { value: Decimal::new(text), text: context.doc.intern(text), exclusive: false };
    shape.number.at_least(bound(format.bounds.0));
    shape.number.at_most(bound(format.bounds.1));
}

/// Returns true if a literal is of a machine type.
pub(super) fn is_of_number_format(context: &mut SchemaContext<'_>, format: NumberFormat, value: Id) -> bool {
    let whole = format.magnitude.is_some() || context.type_of(value) == Types::INT;
    let Some(number) = context.number(value) else { return true };
    whole && Decimal::new(format.bounds.0) <= *number && *number <= Decimal::new(format.bounds.1)
}

/// Returns the alternatives that violate a machine type.
pub(super) fn other_than_number_format(
    context: &mut SchemaContext<'_>,
    format: NumberFormat,
) -> Result<Vec<Terms>> {
    let (least, most) = format.bounds;
    let least = context.synthetic.number(&mut context.doc, least);
    let most = context.synthetic.number(&mut context.doc, most);
    let outside = [Term::Below(least), Term::Above(most)];
    let mut choice: Vec<Terms> =
        outside.into_iter().map(|term| Terms::from_slice(&[Term::Types(Types::NUMBER), term])).collect();
    if format.magnitude.is_none() {
        choice.push(Terms::from_slice(&[Term::Types(Types::FRACTION)]));
    }
    Ok(choice)
}
