//! The passes of one engine over the texts of one grammar.
//!
//! Each text is once the first one that a newly compiled grammar meets. The same text follows a
//! second time, and then another text of the grammar. So all three kinds of passes are over the same
//! texts, and their times compare.

use std::time::{Duration, Instant};

use super::corpus::GrammarSample;
use super::engines::{Followed, GrammarEngine};
use crate::vocab::{TokenId, Vocabulary};

/// A text in tokens.
pub(super) struct TokenText {
    pub tokens: Vec<TokenId>,
    /// The bytes of each token, for messages.
    pub pieces: Vec<String>,
}

impl TokenText {
    pub(super) fn new(tokens: Vec<TokenId>, vocab: &Vocabulary) -> Self {
        let piece = |&token: &TokenId| String::from_utf8_lossy(vocab.token_bytes(token)).into_owned();
        TokenText { pieces: tokens.iter().map(piece).collect(), tokens }
    }
}

/// The times of one pass over a text.
#[derive(Debug, Default, Clone)]
pub(super) struct Pass {
    /// Making the matcher of the text.
    pub start: Duration,
    pub masks: Vec<Duration>,
    /// All tokens.
    pub accept: Duration,
}

impl Pass {
    pub(super) fn masks_ms(&self) -> f64 {
        self.masks.iter().sum::<Duration>().as_secs_f64() * 1e3
    }
}

/// What happened after one compilation.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    pub compile: Duration,
    /// From the text of the grammar to the first mask.
    pub first_mask: Duration,
    /// A text with a newly compiled grammar.
    pub cold: Pass,
    /// The same text once more.
    pub again: Pass,
    /// The text before it, which the grammar has not met; its index is one lower.
    pub new: Option<Pass>,
    /// Bytes held after all passes.
    pub bytes: Option<usize>,
}

/// Measures the engine with each of the texts as the first one.
///
/// # Errors
/// If the engine refuses the grammar, or a token that its language has.
pub(super) fn measure(
    engine: &dyn GrammarEngine,
    sample: &GrammarSample,
    texts: &[TokenText],
) -> Result<Vec<Rotation>, String> {
    let rotation = |at: usize| {
        let started = Instant::now();
        let grammar = engine.compile(sample)?;
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

fn follow(grammar: &dyn Followed, text: &TokenText) -> Result<Pass, String> {
    let started = Instant::now();
    let mut follower = grammar.start();
    let mut pass = Pass { start: started.elapsed(), ..Pass::default() };
    for (at, &token) in text.tokens.iter().enumerate() {
        let start = Instant::now();
        let mask = follower.mask();
        let masked = Instant::now();
        let before = || text.pieces[..at].concat();
        if let Err(fault) = mask {
            let line = fault.lines().next().unwrap_or_default();
            return Err(format!("no mask after {:?}: {line}", before()));
        }
        let legal = follower.has(token);
        let looked_up = Instant::now();
        let accepted = legal && follower.accept(token);
        pass.accept += looked_up.elapsed();
        pass.masks.push(masked - start);
        if !accepted {
            let fault = if legal { "is in the mask and refused" } else { "is not in the mask" };
            return Err(format!("{:?} {fault} after {:?}", text.pieces[at], before()));
        }
    }
    match follower.may_end() {
        true => Ok(pass),
        false => Err(format!("the text {:?} is not complete", text.pieces.concat())),
    }
}
