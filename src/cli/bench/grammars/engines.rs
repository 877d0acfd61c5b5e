//! The engines that compute masks for grammars.

use super::corpus::{GrammarSample, Notation};
use crate::constraint::Constraint;
use crate::matcher::{CompiledGrammar, Compiler, Matcher};
use crate::vocab::{TokenId, Vocabulary};

/// An engine under measurement. What depends on the vocabulary only is prepared.
pub(super) trait GrammarEngine {
    fn name(&self) -> &'static str;
    /// Compiles the grammar anew.
    ///
    /// # Errors
    /// Why the engine refuses it.
    fn compile(&self, sample: &GrammarSample) -> Result<Box<dyn Followed>, String>;
}

/// A compiled grammar, with all that it keeps from one text to the next.
pub(super) trait Followed {
    /// Starts a text.
    fn start(&self) -> Box<dyn Follower + '_>;
    /// Bytes held, if the engine reports them.
    fn bytes(&self) -> Option<usize>;
}

/// A text in progress.
pub(super) trait Follower {
    /// Computes the mask.
    ///
    /// # Errors
    /// Why the engine gives it up.
    fn mask(&mut self) -> Result<(), String>;
    /// Looks a token up in the last mask.
    fn has(&self, token: TokenId) -> bool;
    /// Returns false if the token is refused.
    fn accept(&mut self, token: TokenId) -> bool;
    fn may_end(&mut self) -> bool;
}

/// This engine.
pub(super) struct OwnGrammars(Compiler);

impl OwnGrammars {
    pub(super) fn new(vocab: &Vocabulary) -> Self {
        let compiler = Compiler::new(vocab.clone());
        compiler.warm_up();
        OwnGrammars(compiler)
    }
}

impl GrammarEngine for OwnGrammars {
    fn name(&self) -> &'static str {
        "ffwd"
    }

    fn compile(&self, sample: &GrammarSample) -> Result<Box<dyn Followed>, String> {
        let builder = Constraint::builder();
        let constraint = match sample.notation {
            Notation::Lark => builder.lark(&sample.grammar),
            Notation::Gbnf => builder.gbnf(&sample.grammar),
        };
        let grammar = constraint.and_then(|constraint| self.0.compile(&constraint));
        Ok(Box::new(grammar.map_err(|error| error.to_string())?))
    }
}

impl Followed for CompiledGrammar {
    fn start(&self) -> Box<dyn Follower + '_> {
        Box::new(OwnFollower { matcher: self.matcher(), row: vec![0; self.vocabulary().bitmask_words()] })
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.memory().total())
    }
}

struct OwnFollower {
    matcher: Matcher,
    row: Vec<u32>,
}

impl Follower for OwnFollower {
    fn mask(&mut self) -> Result<(), String> {
        self.matcher.fill_bitmask(&mut self.row);
        Ok(())
    }

    fn has(&self, token: TokenId) -> bool {
        self.row[token as usize / 32] >> (token % 32) & 1 == 1
    }

    fn accept(&mut self, token: TokenId) -> bool {
        self.matcher.accept_token(token).is_ok()
    }

    fn may_end(&mut self) -> bool {
        self.matcher.is_accepting()
    }
}
