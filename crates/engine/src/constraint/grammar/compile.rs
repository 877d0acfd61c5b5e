//! The steps after parsing, which both notations share.

use super::{analysis, graph, lower, rules};
use crate::constraint::ir::Ir;
use crate::error::{Error, ErrorKind, Result};

/// Maximum length of a grammar in bytes.
pub(crate) const MAX_TEXT: usize = 4 << 20;

/// Refuses texts longer than [`MAX_TEXT`].
pub(super) fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    let message = format!("the grammar has {} bytes, more than the limit of {MAX_TEXT}", text.len());
    Err(Error::new(ErrorKind::TooComplex, message).hint("split the grammar"))
}

/// Compiles rules to the intermediate representation.
pub(super) fn compile(grammar: &rules::Grammar) -> Result<Ir> {
    let graphs = graph::build(grammar)?;
    let graphs = analysis::without_empty(grammar, graphs)?;
    lower::lower(grammar, &graphs)
}
