//! Context-free grammars in two common notations for language models: GBNF and a subset of Lark.
//!
//! [`gbnf`] reads the notation of llama.cpp (`root ::= ...`), [`lark`] a subset of Lark's
//! (`start: ...`). Both produce a set of rules over characters, which is compiled in steps:
//!
//! 1. `graph`: each rule becomes a small automaton whose edges are texts or calls of rules.
//! 2. `analysis`: unproductive parts and the empty text are removed.
//! 3. `recursion`: left recursion becomes loops.
//! 4. `lower`: the rules are lowered to the intermediate representation. Small rules that do not
//!    recur are inlined, so that they cost what a regular expression costs.
//!
//! # Semantics
//! The language is exactly that of the grammar over characters. There is no lexer, also not for
//! Lark. A terminal matches any text of its language, not only the longest one, and a keyword can
//! also be read as a name. Generation needs this: a token mask must allow whatever some reading
//! allows.
//!
//! # Cost
//! Compiling is linear in the size of the grammar with counted repetitions written out. A group of
//! mutually left-recursive rules adds its size once for each of its members that is called.
//!
//! At run time a byte costs constant time for grammars without ambiguity. In the worst case the
//! number of threads is linear in the length of the text. A byte then costs the square of it (a
//! graph-structured stack), with a large constant. Hard cases are `a ::= b a "x"? | "a"` with
//! `b ::= a b | root? "a"`, and a dangling else; random grammars can be slower still.
//!
//! Grammars that only look ambiguous, such as `root ::= root "+" root | "n"` or
//! `root ::= root root | "a" | ""`, become regular and cost nothing extra.
//!
//! # Alternatives considered
//! An Earley parser in addition to the machine was rejected. It needs no transformation, but it
//! costs a set of items for each byte. Its masks would share nothing with those of JSON values and
//! regular expressions, which grammars may contain (`%json`).
//!
//! ```
//! use ffwd_engine::Constraint;
//!
//! # fn main() -> ffwd_engine::Result<()> {
//! let gbnf = Constraint::ebnf(r#"
//! root ::= sum                          # left recursion is fine
//! sum  ::= sum "+" term | term
//! term ::= [0-9]+ | "(" sum ")"
//! "#)?;
//! let lark = Constraint::ebnf(r#"
//! start: start "+" term | term
//! term: INT | "(" start ")"
//! %import common.INT
//! %import common.WS_INLINE
//! %ignore WS_INLINE
//! "#)?;
//! assert!(gbnf.warnings().is_empty() && lark.warnings().is_empty());
//!
//! let error = Constraint::ebnf("root ::= itm\nitem ::= [a-z]").unwrap_err();
//! assert_eq!(error.hint_text(), Some("did you mean `item`?"));
//! # Ok(())
//! # }
//! ```

mod analysis;
mod cursor;
mod expr_builder;
pub mod gbnf;
mod graph;
pub mod lark;
mod lower;
mod other_tokens;
mod recursion;
mod regex;
mod rules;
#[cfg(test)]
mod tests;

use super::ir::{Ir, Quoting};
use super::policy::Policy;
use crate::error::{Error, ErrorKind, Result};

/// Parses a grammar: as GBNF if it contains `::=` outside of strings and comments, otherwise as
/// Lark, with a policy for its JSON Schemas and a source text for `x-verbatim` in them.
pub(super) fn parse_from(text: &str, policy: &Policy, source: Quoting<'_>) -> Result<Ir> {
    if is_gbnf(text) { gbnf::parse(text) } else { lark::parse_from(text, policy, source) }
}

/// Returns true if `::=` occurs outside of strings, classes and comments. An unclosed quote ends
/// with its line, so that one error does not hide the rest.
fn is_gbnf(text: &str) -> bool {
    text.lines().any(|line| {
        let (mut quoted, mut escaped) = (false, false);
        for (at, b) in line.bytes().enumerate() {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'#' => return false,
                b'/' if line[at..].starts_with("//") => return false,
                b':' if line[at..].starts_with("::=") => return true,
                _ => {}
            }
        }
        false
    })
}

/// Maximum length of a grammar in bytes.
pub(crate) const MAX_TEXT: usize = 4 << 20;

/// Refuses texts longer than [`MAX_TEXT`].
fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    let message = format!("the grammar has {} bytes, more than the limit of {MAX_TEXT}", text.len());
    Err(Error::new(ErrorKind::TooComplex, message).hint("split the grammar"))
}

/// Compiles rules to the intermediate representation.
fn compile(mut grammar: rules::Grammar) -> Result<Ir> {
    graph::name_repeated_parts(&mut grammar);
    let graphs = graph::build(&grammar)?;
    let graphs = analysis::without_empty(&grammar, graphs)?;
    lower::lower(&grammar, &graphs)
}
