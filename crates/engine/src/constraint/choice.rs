//! Constraint for one text out of a fixed list.
//!
//! The list becomes one `Node::Literals`, which the machine lowers as a trie.
//!
//! # Cost
//!
//! Linear in the total length of the texts.
//!
//! # Alternatives considered
//!
//! A union of literals was rejected: determinisation would then cost time for each text at each
//! prefix.

use rustc_hash::FxHashSet;

use super::ir::Ir;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of choices.
pub(super) const MAX_CHOICES: usize = 1_000_000;
/// Maximum size of all choices together, in bytes.
pub(super) const MAX_CHOICE_BYTES: usize = 64 << 20;

/// Returns the language of exactly these texts. Repeated texts count once.
///
/// # Errors
/// [`ErrorKind::InvalidOption`] if the list is empty, [`ErrorKind::TooComplex`] above a limit.
pub(super) fn parse<S: AsRef<str>>(choices: impl IntoIterator<Item = S>) -> Result<Ir> {
    let mut seen: FxHashSet<Vec<u8>> = FxHashSet::default();
    let mut literals: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0usize;
    for choice in choices {
        let text = choice.as_ref().as_bytes();
        if seen.contains(text) {
            continue;
        }
        bytes = bytes.saturating_add(text.len());
        if literals.len() >= MAX_CHOICES {
            return Err(too_many(format!("more than {MAX_CHOICES} choices")));
        }
        if bytes > MAX_CHOICE_BYTES {
            return Err(too_many(format!("the choices have more than {MAX_CHOICE_BYTES} bytes in all")));
        }
        seen.insert(text.to_vec());
        literals.push(text.to_vec());
    }
    if literals.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOption, "there is nothing to choose from")
            .hint("give at least one choice"));
    }
    let mut ir = Ir::new();
    let root = ir.literals(literals);
    ir.set_root(root);
    Ok(ir)
}

fn too_many(message: String) -> Error {
    Error::new(ErrorKind::TooComplex, message).hint("describe the texts by a regular expression instead")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::ir::Node;

    #[test]
    fn keeps_each_choice_once_in_order() {
        let ir = parse(["b", "a", "b", ""]).unwrap();
        let Node::Literals(texts) = ir.node(ir.root()) else { panic!("{:?}", ir.node(ir.root())) };
        assert!(texts.iter().map(|t| &t[..]).eq([&b"b"[..], b"a", b""]));
    }

    #[test]
    fn refuses_nothing_and_too_much() {
        let error = parse(Vec::<String>::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        let error = parse((0..=MAX_CHOICES).map(|n| n.to_string())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooComplex);
        let big = "x".repeat(MAX_CHOICE_BYTES);
        assert!(parse([&big]).is_ok());
        assert_eq!(parse([&big, "y"]).unwrap_err().kind(), ErrorKind::TooComplex);
    }
}
