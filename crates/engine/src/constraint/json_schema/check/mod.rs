//! Checks: what is known of schemas and literals without merging.
//!
//! - `validate` checks literals exactly, with `evaluated` (what `unevaluated…` leaves over).
//! - `disjoint` sees from the keywords that no value satisfies two schemas.
//! - `infinite_recursion` refuses schemas that apply to the same value as themselves.

mod disjoint;
mod evaluated;
mod infinite_recursion;
mod validate;

pub(crate) use self::disjoint::{are_disjoint, has_few_values, only_narrows_declared, only_requires};
pub(crate) use self::evaluated::{EvaluatedSets, UnevaluatedKind, is_evaluated, item_outside};
pub(crate) use self::infinite_recursion::RecursionCheck;
pub(crate) use self::validate::Validator;
