//! The parts of Jinja and Python that templates of the hub use and that `minijinja` does not have,
//! or has with other results.
//!
//! `tests/data/jinja` holds expressions with the output of Jinja2; `tests/runtime/jinja.rs` compares.
//!
//! # Cost
//! Each method and filter is linear in its input and output. Widths are limited.
//!
//! # Alternatives considered
//! Running Jinja2 itself was rejected: it needs Python, and templates are untrusted programs.

mod arguments;
mod filters;
mod json;
mod methods;
mod python;
mod source;
mod strings;

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, escape_formatter};

pub(super) use source::normalize;

/// Largest width, count or indentation that a template can name.
const MAX_WIDTH: usize = 1 << 16;

/// Adds the filters, tests, functions and methods to an environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(print);
    filters::add_to(environment);
    environment.add_filter("tojson", json::tojson);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", is_sequence);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_test("divisibleby", is_divisible);
    environment.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
}

fn fault(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Checks the widths and precisions in a text for formatting, whose parts begin with `open`.
fn check_widths(text: &str, open: char) -> Result<(), Error> {
    for part in text.split(open).skip(1) {
        // The parts of `str.format` end; those of `%` end with a letter, or have a name.
        let part = part.split('}').next().unwrap_or_default();
        let part = part.rsplit(')').next().unwrap_or_default();
        let part = match open {
            '{' => part.split_once(':').map_or("", |(_, spec)| spec),
            _ => part.split(char::is_alphabetic).next().unwrap_or_default(),
        };
        let mut numbers = part.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        if numbers.any(|digits| digits.parse().map_or(true, |width: usize| width > MAX_WIDTH)) {
            return Err(fault(format!("a width in {text:?} is above the limit of {MAX_WIDTH}")));
        }
    }
    Ok(())
}

/// Prints numbers and collections as Python does.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            out.write_str(&python::to_text(value)).map_err(|_| fault("the output cannot be written"))
        }
        _ => escape_formatter(out, state, value),
    }
}

/// Returns true for what has a length and items, as Jinja defines a sequence.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map)
}

fn is_divisible(value: &Value, by: &Value) -> Result<bool, Error> {
    match (value.as_i64(), by.as_i64()) {
        (_, Some(0)) => Err(fault("divisibleby 0")),
        (Some(value), Some(by)) => Ok(value.wrapping_rem(by) == 0),
        _ => Ok(minijinja::tests::is_divisibleby(value, by)),
    }
}
