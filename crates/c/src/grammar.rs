//! `ffwd_grammar`.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use ffwd_engine::CompiledGrammar;

use crate::constraint::Constraint;
use crate::error::{Error, Status, c_text};
use crate::guard::{free, make, value};
use crate::memory::given;
use crate::vocabulary::Vocabulary;

/// A constraint compiled for a vocabulary. Immutable to the caller; masks that one generation computed
/// are there for the next ones, on all threads.
pub struct GrammarObject {
    pub(crate) inner: CompiledGrammar,
    warnings: Vec<CString>,
}

/// Compiles a constraint for a vocabulary. Neither is needed afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_grammar_new(
    vocabulary: Option<&Vocabulary>,
    constraint: Option<&Constraint>,
    out: Option<&mut MaybeUninit<*mut GrammarObject>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        let (vocab, constraint) = (given(vocabulary, "vocabulary")?, given(constraint, "constraint")?);
        let inner = vocab.compiler().compile(&constraint.0)?;
        let warnings = inner.warnings().iter().map(|warning| c_text(&warning.to_string())).collect();
        Ok(GrammarObject { inner, warnings })
    })
}

/// Returns the number of warnings: what the constraint means differently from what its author may
/// expect, such as an unknown keyword.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_grammar_warning_count(grammar: Option<&GrammarObject>) -> usize {
    value(|| Some(grammar?.warnings.len()))
}

/// Returns a warning as `#POINTER: MESSAGE` or a message alone, or null behind the last one. The text
/// lives as long as the grammar.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_grammar_warning(grammar: Option<&GrammarObject>, index: usize) -> *const c_char {
    let warning = grammar.and_then(|grammar| grammar.warnings.get(index));
    warning.map_or(std::ptr::null(), |warning| warning.as_ptr())
}

/// Returns the bytes of the tables of this grammar, without those that all grammars share.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_grammar_memory(grammar: Option<&GrammarObject>) -> usize {
    value(|| Some(grammar?.inner.memory().total()))
}

/// Frees a grammar. Null has no effect. Its matchers keep working.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_grammar_free(grammar: Option<Box<GrammarObject>>) {
    free(grammar);
}
