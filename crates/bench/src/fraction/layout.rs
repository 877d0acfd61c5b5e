//! Constraints with a chosen deterministic fraction: a fixed number of tokens, of which runs of some
//! length are forced, and any word may be at the other positions.
//!
//! # Alternatives considered
//!
//! A regular expression of literals and classes was rejected: the model chooses the tokens of a
//! literal, so outputs of different fractions have different lengths. A machine over tokens fixes
//! both. Under it, all modes give the same text.

use ffwd_runtime::constraint::token_machine::TokenFsm;
use ffwd_runtime::{Constraint, Error, ErrorKind, Result, Vocabulary};

/// The text whose tokens the forced runs repeat.
const LITERAL: &str = "\",\"invoice_number\":\"\",\"customer_name\":\"\",\"shipping_address\":\"\",\
                       \"total_amount\":\"\",\"currency_code\":\"\",\"issued_on\":\"";
/// Smallest share of the vocabulary that is free at a free position. Below a sixteenth, `exact`
/// would compute fewer logits than `off`.
const MIN_FREE_SHARE: f64 = 0.1;

/// Which of the tokens are forced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Lengths of the forced runs. One free token is before the first, at least one after each.
    pub runs: Vec<usize>,
    /// Free tokens after each run.
    free: Vec<usize>,
    pub tokens: usize,
}

impl Layout {
    /// Returns a layout of `tokens` tokens in which this share is forced, in runs of about `run`
    /// tokens; longer ones where there are too few free tokens between them.
    pub(super) fn new(tokens: usize, fraction: f64, run: usize) -> Self {
        let forced = ((fraction * tokens as f64).round() as usize).min(tokens.saturating_sub(2));
        let free = tokens - forced;
        let count = forced.div_ceil(run.max(1)).min(free - 1);
        let runs = shares(forced, count);
        Layout { runs, free: shares(free - 1, count), tokens }
    }

    /// Returns true for each forced position.
    pub(super) fn positions(&self) -> Vec<bool> {
        let mut positions = vec![false];
        for (&run, &free) in self.runs.iter().zip(&self.free) {
            positions.extend(std::iter::repeat_n(true, run));
            positions.extend(std::iter::repeat_n(false, free));
        }
        positions.resize(self.tokens, false);
        positions
    }

    /// Returns the constraint over the tokens of a vocabulary.
    ///
    /// # Errors
    /// If the vocabulary has too few words.
    pub(super) fn constraint(&self, vocab: &Vocabulary) -> Result<Constraint> {
        let words = vocab.tokens_where(|bytes| {
            let word = bytes.strip_prefix(b" ").unwrap_or(bytes);
            word.len() > 1 && word.iter().all(u8::is_ascii_alphabetic)
        });
        if (words.len() as f64) < MIN_FREE_SHARE * vocab.len() as f64 {
            let message = format!("only {} of {} tokens are words", words.len(), vocab.len());
            return Err(Error::new(ErrorKind::Unsupported, message).hint("use another model"));
        }
        let mut literal = vocab.encode(LITERAL)?.into_iter().cycle();
        let mut machine = TokenFsm::new();
        for (i, forced) in self.positions().into_iter().enumerate() {
            let (from, to) = (i as u32, i as u32 + 1);
            match literal.next().filter(|_| forced) {
                Some(token) => machine.add_transition(from, token, to),
                None => machine.add_transition(from, words.clone(), to),
            };
        }
        machine.accept(self.tokens as u32);
        Ok(Constraint::token_fsm(&machine))
    }
}

/// Returns `count` numbers that add up to `all` and differ by one at most.
fn shares(all: usize, count: usize) -> Vec<usize> {
    (0..count).map(|i| all * (i + 1) / count - all * i / count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "embedded")]
    use ffwd_runtime::decode::forced_share;

    #[test]
    fn a_layout_has_the_fraction_that_was_wanted() {
        for tokens in [2, 3, 24, 96] {
            for percent in [0, 5, 10, 50, 90, 95, 100] {
                for run in [1, 8, 40] {
                    let layout = Layout::new(tokens, f64::from(percent) / 100.0, run);
                    let positions = layout.positions();
                    assert_eq!(positions.len(), tokens);
                    assert!(!positions[0] && !positions[tokens - 1]);
                    let forced = positions.iter().filter(|forced| **forced).count();
                    let wanted = (percent as usize * tokens + 50) / 100;
                    assert!(forced == wanted || forced == tokens - 2, "{tokens} {percent} {run}: {forced}");
                    assert_eq!(layout.runs.iter().sum::<usize>(), forced);
                    let runs = positions.chunk_by(|a, b| a == b).filter(|chunk| chunk[0]).map(<[bool]>::len);
                    assert_eq!(runs.collect::<Vec<_>>(), layout.runs, "{tokens} {percent} {run}");
                }
            }
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn forced_tokens_are_those_of_the_layout() {
        let vocab = ffwd_runtime::model::embedded::vocabulary().unwrap();
        let layout = Layout::new(40, 0.6, 8);
        let compiler = ffwd_runtime::Compiler::new(vocab.clone());
        let grammar = compiler.compile(&layout.constraint(&vocab).unwrap()).unwrap();
        let mut matcher = grammar.matcher();
        let mut tokens = Vec::new();
        while !matcher.is_terminated() {
            let token = matcher.example_tokens(1)[0];
            matcher.accept_token(token).unwrap();
            tokens.push(token);
        }
        assert_eq!(tokens.len(), 40);
        assert_eq!(forced_share(&grammar, &tokens), 0.6);
        // In a text, a token that reaches past the run is not forced.
        let grammar = compiler.compile(&Constraint::regex("abc[0-9]{3}").unwrap()).unwrap();
        let tokens = vocab.encode("abc123").unwrap();
        let share = forced_share(&grammar, &tokens);
        assert!(share > 0.0 && share < 1.0, "{share} {tokens:?}");
    }
}
