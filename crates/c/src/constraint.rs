//! `ffwd_constraint`.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::error::{Error, Status};
use crate::guard::{free, make};
use crate::memory::{given, name, text};

/// What an output may be: parsed, checked, and not yet bound to a vocabulary. Immutable.
pub struct Constraint(pub(crate) ffwd_engine::Constraint);

/// Parses a constraint.
///
/// `kind` says what `text` is:
/// - `json_schema`: a JSON Schema. `json_object`: any JSON object; `text` is empty.
/// - `regex`: a regular expression that the whole output matches. `pattern`: an element pattern.
/// - `choice`: a JSON array of texts, one of which is the output.
/// - `gbnf`: a grammar as llama.cpp and XGrammar have them. `lark`: one in a subset of Lark's notation.
///   `ebnf`: one of both, found out.
/// - `structural_tag`: a structural tag (JSON). `tools`: a list of functions (JSON), as in a request of
///   OpenAI's API; the option `style` is required.
/// - `substring`: a text of which the output is a span.
/// - `labels`: a JSON array or tree of labels. `token_masks`: a JSON array of the ids of each position.
///   `token_fsm`: `{"transitions": [[from, [ids], to], ...], "accept": [states]}`.
///
/// `options` is null or a JSON object with the options of the kind, which are those of Python's
/// `ffwd.Constraint`: `{"whitespace": "single_space", "strict": true}`. Both names end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_constraint_new(
    kind: *const c_char,
    text: *const c_char,
    length: usize,
    options: *const c_char,
    out: Option<&mut MaybeUninit<*mut Constraint>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        // SAFETY: the header's rules.
        let (kind, text, options) =
            unsafe { (name(kind, "kind")?, self::text(text, length, "text")?, name(options, "options")?) };
        let kind = given(kind, "kind")?;
        Ok(Constraint(ffwd_engine::Constraint::of_kind(kind, text, options.unwrap_or("{}"))?))
    })
}

/// Makes the constraint of a text of `first`, followed by one of `second`.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_constraint_then(
    first: Option<&Constraint>,
    second: Option<&Constraint>,
    out: Option<&mut MaybeUninit<*mut Constraint>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || Ok(Constraint(given(first, "first")?.0.then(&given(second, "second")?.0)?)))
}

/// Makes the constraint of a text of `first`, or of `second`.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_constraint_or(
    first: Option<&Constraint>,
    second: Option<&Constraint>,
    out: Option<&mut MaybeUninit<*mut Constraint>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || Ok(Constraint(given(first, "first")?.0.or(&given(second, "second")?.0)?)))
}

/// Makes the constraint of the texts that satisfy both. Neither may have JSON values or rules.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_constraint_and(
    first: Option<&Constraint>,
    second: Option<&Constraint>,
    out: Option<&mut MaybeUninit<*mut Constraint>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || Ok(Constraint(given(first, "first")?.0.and(&given(second, "second")?.0)?)))
}

/// Makes the constraint of the texts that do not satisfy this one, which may not have JSON values or
/// rules.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_constraint_not(
    constraint: Option<&Constraint>,
    out: Option<&mut MaybeUninit<*mut Constraint>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || Ok(Constraint(given(constraint, "constraint")?.0.not()?)))
}

/// Makes the constraint of any text up to the first `marker`, the marker, and then a text of this one:
/// for answers after thinking.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_constraint_after(
    constraint: Option<&Constraint>,
    marker: *const c_char,
    length: usize,
    out: Option<&mut MaybeUninit<*mut Constraint>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        // SAFETY: the header's rules.
        let marker = unsafe { text(marker, length, "marker")? };
        Ok(Constraint(given(constraint, "constraint")?.0.behind_marker(marker)?))
    })
}

/// Frees a constraint. Null has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_constraint_free(constraint: Option<Box<Constraint>>) {
    free(constraint);
}
