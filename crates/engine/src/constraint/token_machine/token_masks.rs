//! `TokenMasks`: a list of token sets, one for each position.
//!
//! This is the simplest constraint over tokens: it depends only on the number of tokens so far. It
//! becomes a [`TokenFsm`] with a state for each position, so everything said there holds here.
//!
//! # Alternatives considered
//! A counter in addition to the positions was rejected: repeated lists are short, and errors can
//! name states.

use super::fsm::{MAX_STATES, TokenFsm};
use super::{State, TokenSet};
use crate::error::{Error, ErrorKind, Result};

/// A set of tokens for each position; after the last one only the end token is legal.
///
/// ```
/// use ffwd_engine::constraint::token_machine::TokenMasks;
/// use ffwd_engine::{Compiler, Constraint, Vocabulary};
///
/// # fn main() -> ffwd_engine::Result<()> {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
/// // Usually `Vocabulary::from_file("tokenizer.json")?`.
/// let vocab = Vocabulary::from_bytes(tokenizer)?;
/// let lower = vocab.tokens_matching("[a-z]")?;
/// let newline = vocab.tokens_matching("\n")?;
/// // Five tokens of one small letter each, then a newline.
/// let masks = TokenMasks::new([&lower; 5]).then(&newline);
/// let grammar = Compiler::new(vocab).compile(&Constraint::token_masks(&masks)?)?;
/// assert_eq!(grammar.matcher().legal_count(), 26);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct TokenMasks {
    positions: Vec<TokenSet>,
    least: u32,
    most: Option<u32>,
}

impl TokenMasks {
    /// Creates a list with these sets, one for each position.
    pub fn new<S: Into<TokenSet>>(positions: impl IntoIterator<Item = S>) -> Self {
        TokenMasks { positions: positions.into_iter().map(Into::into).collect(), least: 1, most: Some(1) }
    }

    /// Adds one position.
    pub fn then(mut self, tokens: impl Into<TokenSet>) -> Self {
        self.positions.push(tokens.into());
        self
    }

    /// Repeats the whole list `least` to `most` times (`None`: unbounded).
    pub fn repeat(self, least: u32, most: Option<u32>) -> Self {
        TokenMasks { least, most, ..self }
    }

    /// The sets.
    pub fn positions(&self) -> &[TokenSet] {
        &self.positions
    }

    /// Returns the automaton: state n comes after n tokens. With unbounded repetition the last copy
    /// of the list leads back to its own beginning.
    ///
    /// # Errors
    /// Returns `InvalidOption` if there are no positions or `least` is above `most`, `TooComplex`
    /// beyond [`MAX_STATES`] states, `Unsatisfiable` for a position without tokens, which it names.
    pub fn fsm(&self) -> Result<TokenFsm> {
        let wrong = |message: String| Error::new(ErrorKind::InvalidOption, message);
        if self.positions.is_empty() {
            return Err(wrong("there are no positions".into()).hint("give at least one set of tokens"));
        }
        if let Some(most) = self.most.filter(|&most| most < self.least || most == 0) {
            return Err(wrong(format!("{} to {most} repetitions are none at all", self.least)));
        }
        if let Some(at) = self.positions.iter().position(TokenSet::is_empty) {
            let message = format!("the mask of position {at} is empty");
            return Err(Error::new(ErrorKind::Unsatisfiable, message).hint("positions are counted from 0"));
        }
        let lists = self.most.unwrap_or(self.least.max(1)) as usize;
        let states = lists.saturating_mul(self.positions.len());
        if states >= MAX_STATES {
            let message = format!("the positions make {states} states, at most {MAX_STATES} are possible");
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        let mut fsm = TokenFsm::new();
        if self.least == 0 {
            fsm.accept(0);
        }
        for n in 0..states {
            let tokens = &self.positions[n % self.positions.len()];
            // The number of states is below the limit, so both fit.
            fsm.add_transition(n as State, tokens, n as State + 1);
            let lists_done = (n + 1) / self.positions.len();
            if (n + 1) % self.positions.len() == 0 && lists_done >= self.least as usize {
                fsm.accept(n as State + 1);
            }
        }
        if self.most.is_none() {
            // One more repetition leads back to the end of the first position.
            let again = states - self.positions.len() + 1;
            fsm.add_transition(states as State, &self.positions[0], again as State);
        }
        Ok(fsm)
    }
}
