//! Automata of formats, which all schemas share.
//!
//! # Cost
//!
//! Determinising one takes longer than most schemas take as a whole, and it depends on nothing. So
//! each is made once, on the first use or by [`prepare`], and kept.
//!
//! # Alternatives considered
//!
//! Tables made when the crate is built were rejected: nearly all schemas need none of them, and
//! they would add to every program.

use std::sync::{Arc, OnceLock};

use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::format;
use crate::constraint::ir::Ir;
use crate::error::Result;

/// Returns the automaton of the decoded texts of a format; `None` for an unknown format.
///
/// # Errors
/// `TooComplex` for one that is too large, as from `CharDfa::from_nfa`.
pub(super) fn automaton(name: &str) -> Result<Option<Arc<CharDfa>>> {
    static MADE: [OnceLock<Arc<CharDfa>>; format::NAMES.len()] =
        [const { OnceLock::new() }; format::NAMES.len()];
    let Some(at) = format::NAMES.iter().position(|&n| n == name) else { return Ok(None) };
    if let Some(made) = MADE[at].get() {
        return Ok(Some(made.clone()));
    }
    let mut ir = Ir::new();
    let Some(node) = format::language(name, &mut ir) else { return Ok(None) };
    let dfa = Arc::new(CharDfa::from_nfa(&ByteNfa::new(&ir, node)?)?);
    // Another thread may have made it meanwhile.
    Ok(Some(MADE[at].get_or_init(|| dfa).clone()))
}

/// Makes all of them that are not too large.
pub(crate) fn prepare() {
    for name in format::NAMES {
        if let Err(error) = automaton(name) {
            // A use of the format reports the error.
            tracing::debug!(%error, name, "no automaton of a format");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_an_automaton_that_is_made_once() {
        prepare();
        for name in format::NAMES {
            let (one, again) = (automaton(name).unwrap().unwrap(), automaton(name).unwrap().unwrap());
            assert!(Arc::ptr_eq(&one, &again), "{name}");
            assert!(!one.matches("(\u{0}["), "{name}");
        }
        assert!(automaton("no-such-format").unwrap().is_none());
        let date = automaton("date").unwrap().unwrap();
        assert!(date.matches("2024-02-29") && !date.matches("2023-02-29"));
    }
}
