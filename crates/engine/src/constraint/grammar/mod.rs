//! Context-free grammars, in the two notations that people write for language models.
//!
//! [`gbnf`] reads the notation of llama.cpp (`root ::= ...`), [`lark`] a subset of Lark's
//! (`start: ...`). Both yield the same [`rules::Grammar`], a set of rules over characters. Each rule
//! becomes a small automaton whose edges are texts or calls of rules ([`graph`]); what cannot end is cut
//! away and the empty text is taken out ([`analysis`]); left recursion becomes loops ([`recursion`]);
//! and the rest goes to the common representation ([`lower`]), rules that do not recur inlined, so that
//! they cost what a regular expression costs.
//!
//! **Meaning.** The language is that of the grammar over characters, exactly. There is no lexer, also
//! for Lark: a terminal matches any text of its language, not the longest one, and a keyword is not kept
//! from being read as a name. For generation that is what is wanted: a token mask must allow whatever
//! some reading allows.
//!
//! **Cost.** Compiling is linear in the size of the grammar with counted repetitions written out, plus
//! the size of a group of mutually left-recursive rules for each of its members that is called. At run
//! time a byte costs a constant for grammars without ambiguity. In the worst case the threads are linear
//! in the length of the text and a byte costs its square (a graph-structured stack), with a large
//! constant: measured on one core, with a mask for each byte, 200 bytes of `a ::= b a "x"? | "a"`,
//! `b ::= a b | root? "a"` take 0.3 s and 291 bytes with a dangling else 16 ms; the worst of 300 random
//! grammars took 4 s for 150 bytes, with 19 stack nodes for each. What is only seemingly ambiguous,
//! `root ::= root "+" root | "n"` or `root ::= root root | "a" | ""`, becomes regular and costs nothing.
//!
//! **Rejected:** an Earley parser beside the machine. It needs no transformation, but the same text
//! costs it a set of items for each byte and its masks share nothing with those of values and regular
//! expressions, which grammars may hold (`%json`).
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
mod lark_terminals;
mod lower;
mod recursion;
mod regex;
mod rules;
#[cfg(test)]
mod tests;

use super::ir::Ir;
use super::json_schema::Quoting;
use super::policy::Policy;
use crate::error::{Error, ErrorKind, Result};

/// Longest grammar in bytes.
pub const MAX_TEXT: usize = 4 << 20;

/// The language of a grammar, in GBNF if `::=` stands in it outside of strings and comments, otherwise
/// in the Lark subset.
///
/// # Errors
/// Those of [`gbnf::parse`] and [`lark::parse`].
pub fn parse(text: &str) -> Result<Ir> {
    parse_from(text, &Policy::default(), None)
}

/// The same with a policy for JSON Schemas in it and a text that `x-verbatim` means in them.
pub(super) fn parse_from(text: &str, policy: &Policy, source: Quoting<'_>) -> Result<Ir> {
    if is_gbnf(text) { gbnf::parse(text) } else { lark::parse_from(text, policy, source) }
}

/// Whether `::=` stands outside of strings, classes and comments. A quote that is never closed ends at
/// the end of its line, so that a fault in one place does not hide the rest.
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

/// Refuses texts above [`MAX_TEXT`].
fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    let message = format!("the grammar has {} bytes, more than the limit of {MAX_TEXT}", text.len());
    Err(Error::new(ErrorKind::TooComplex, message).hint("split the grammar"))
}

/// From the rules to the representation.
fn compile(grammar: &rules::Grammar) -> Result<Ir> {
    let graphs = graph::build(grammar)?;
    let graphs = analysis::without_empty(grammar, graphs)?;
    lower::lower(grammar, &graphs)
}
