//! llguidance as an engine for grammars, with its own settings.

use std::path::Path;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::SimpleVob;
use llguidance::{Matcher, ParserFactory};

use super::super::masks::llguidance::factory;
use super::corpus::{GrammarSample, Notation};
use super::engines::{Followed, Follower, GrammarEngine};
use crate::error::Result;
use crate::vocab::{TokenId, Vocabulary};

/// Maximum number of Earley items for one mask.
const MAX_ITEMS: usize = 5_000_000;

/// llguidance with its compiler.
pub(super) struct LlGuidanceGrammars(ParserFactory);

impl LlGuidanceGrammars {
    pub(super) fn new(tokenizer: &Path, vocab: &Vocabulary) -> Result<Self> {
        // Its slices for JSON are those that it has for all grammars.
        let mut factory = factory(tokenizer, vocab)?;
        // At its own limit it gives up some masks of large grammars.
        factory.limits_mut().step_max_items = MAX_ITEMS;
        Ok(LlGuidanceGrammars(factory))
    }
}

impl GrammarEngine for LlGuidanceGrammars {
    fn name(&self) -> &'static str {
        "llguidance"
    }

    fn compile(&self, sample: &GrammarSample) -> Result<Box<dyn Followed>, String> {
        let lark = match (sample.notation, &sample.lark) {
            (Notation::Lark, _) => &sample.grammar,
            (Notation::Gbnf, Some(lark)) => lark,
            (Notation::Gbnf, None) => return Err("it reads Lark's notation only".to_owned()),
        };
        let parser = self.0.create_parser(TopLevelGrammar::from_lark(lark.clone()));
        Ok(Box::new(Matcher::new(Ok(parser.map_err(|e| e.to_string())?))))
    }
}

impl Followed for Matcher {
    fn start(&self) -> Box<dyn Follower + '_> {
        // A plain clone shares the lexer's tables, as its documentation recommends.
        Box::new(LlGuidanceFollower { matcher: self.clone(), mask: None })
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}

struct LlGuidanceFollower {
    matcher: Matcher,
    mask: Option<SimpleVob>,
}

impl Follower for LlGuidanceFollower {
    fn mask(&mut self) -> Result<(), String> {
        self.mask = Some(self.matcher.compute_mask_or_eos().map_err(|e| e.to_string())?);
        Ok(())
    }

    fn has(&self, token: TokenId) -> bool {
        self.mask.as_ref().is_some_and(|mask| mask.is_allowed(token))
    }

    fn accept(&mut self, token: TokenId) -> bool {
        self.matcher.consume_token(token).is_ok()
    }

    fn may_end(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }
}
