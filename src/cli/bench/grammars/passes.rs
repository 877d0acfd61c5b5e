//! The passes of one engine over the texts of one grammar.
//!
//! Each text is once the first one that a newly compiled grammar meets. The same text follows a
//! second time, and then another text of the grammar. So all three kinds of passes are over the same
//! texts, and their times compare.

use std::time::{Duration, Instant};

use super::super::engines::{Compiled, Language, MaskEngine, TextWalk, WalkFault, walk};
use crate::vocab::{TokenId, Vocabulary};

/// A text in tokens.
pub(super) struct TokenText {
    tokens: Vec<TokenId>,
    /// The bytes of each token, for messages.
    pieces: Vec<String>,
}

impl TokenText {
    pub(super) fn new(tokens: Vec<TokenId>, vocab: &Vocabulary) -> Self {
        let piece = |&token: &TokenId| String::from_utf8_lossy(vocab.token_bytes(token)).into_owned();
        TokenText { pieces: tokens.iter().map(piece).collect(), tokens }
    }
}

/// What happened after one compilation.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    pub compile: Duration,
    /// From the text of the grammar to the first mask.
    pub first_mask: Duration,
    /// A text with a newly compiled grammar.
    pub cold: TextWalk,
    /// The same text once more.
    pub again: TextWalk,
    /// The text before it, which the grammar has not met; its index is one lower.
    pub new: Option<TextWalk>,
    /// Bytes held after all passes.
    pub bytes: Option<usize>,
}

/// Measures the engine with each of the texts as the first one.
///
/// # Errors
/// If the engine refuses the grammar, or a token that its language has.
pub(super) fn measure(
    engine: &mut dyn MaskEngine,
    language: &Language,
    texts: &[TokenText],
) -> Result<Vec<Rotation>, String> {
    let rotation = |at: usize| {
        let started = Instant::now();
        let grammar = engine.compile(language)?;
        let compile = started.elapsed();
        let cold = follow(&*grammar, &texts[at])?;
        let first_mask = compile + cold.start + cold.masks.first().copied().unwrap_or_default();
        let again = follow(&*grammar, &texts[at])?;
        let previous = (at + texts.len() - 1) % texts.len();
        let new = (previous != at).then(|| follow(&*grammar, &texts[previous])).transpose()?;
        Ok(Rotation { compile, first_mask, cold, again, new, bytes: grammar.bytes() })
    };
    (0..texts.len()).map(rotation).collect()
}

fn follow(grammar: &dyn Compiled, text: &TokenText) -> Result<TextWalk, String> {
    let walk = walk(grammar, &text.tokens);
    let (before, rest) = text.pieces.split_at(walk.accepts.len());
    let (before, piece) = (before.concat(), rest.first().map_or("", String::as_str));
    match &walk.fault {
        None => Ok(walk),
        Some(WalkFault::NoMask(fault)) => {
            Err(format!("no mask after {before:?}: {}", fault.lines().next().unwrap_or_default()))
        }
        Some(WalkFault::NotInMask) => Err(format!("{piece:?} is not in the mask after {before:?}")),
        Some(WalkFault::Refused) => Err(format!("{piece:?} is in the mask and refused after {before:?}")),
        Some(WalkFault::Incomplete) => Err(format!("the text {before:?} is not complete")),
    }
}
