//! llguidance as an engine, with its own settings. Only white space of JSON is off, as for this
//! engine, and masks of large grammars have a higher limit.

use std::path::Path;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, SimpleVob, TokEnv};
use llguidance::{Matcher, ParserFactory};

use super::engines::{Compiled, Follower, Language, MaskEngine};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::{TokenId, Vocabulary};

/// Maximum number of Earley items for one mask of a grammar. At its own limit llguidance gives up
/// some masks of large grammars.
const MAX_ITEMS: usize = 5_000_000;

/// llguidance with its compiler.
pub(super) struct LlGuidance(ParserFactory);

impl LlGuidance {
    /// Prepares what depends on the vocabulary only. Its slices for JSON are those that it has for
    /// all grammars.
    ///
    /// # Errors
    /// If llguidance does not read the tokenizer.
    pub(super) fn new(tokenizer: &Path, vocab: &Vocabulary) -> Result<Self> {
        let fault = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Tokenizer, format!("llguidance: {e}"));
        let mut bytes = toktrie_hf_tokenizers::ByteTokenizer::from_file(tokenizer).map_err(|e| fault(&e))?;
        if !vocab.eos().is_empty() {
            bytes.set_eos_tokens(vocab.eos());
        }
        let env: TokEnv = bytes.into_tok_env(None).map_err(|e| fault(&e))?;
        let caps = InferenceCapabilities { ff_tokens: false, ..InferenceCapabilities::default() };
        let slices = llguidance::earley::SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&env, caps, &slices).map_err(|e| fault(&e))?;
        factory.quiet();
        Ok(LlGuidance(factory))
    }

    /// Reads a grammar in Lark's notation.
    fn lark(&mut self, text: &str) -> TopLevelGrammar {
        self.0.limits_mut().step_max_items = MAX_ITEMS;
        TopLevelGrammar::from_lark(text.to_owned())
    }
}

fn schema(text: &str) -> Result<TopLevelGrammar, String> {
    let mut schema: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Some(object) = schema.as_object_mut() {
        object.insert("x-guidance".into(), serde_json::json!({"whitespace_flexible": false}));
    }
    Ok(TopLevelGrammar::from_json_schema(schema))
}

impl MaskEngine for LlGuidance {
    fn name(&self) -> &'static str {
        "llguidance"
    }

    fn compile(&mut self, language: &Language) -> Result<Box<dyn Compiled>, String> {
        let grammar = match language {
            Language::JsonSchema(text) => schema(text)?,
            Language::Lark(text) | Language::Gbnf { lark: Some(text), .. } => self.lark(text),
            Language::Gbnf { lark: None, .. } => return Err("it reads Lark's notation only".to_owned()),
        };
        let parser = self.0.create_parser(grammar);
        Ok(Box::new(Matcher::new(Ok(parser.map_err(|e| e.to_string())?))))
    }

    fn is_lazy(&self) -> bool {
        true
    }
}

impl Compiled for Matcher {
    fn start(&self) -> Box<dyn Follower + '_> {
        // A plain clone shares the lexer's tables, as its documentation recommends.
        Box::new(LlGuidanceFollower { matcher: self.clone(), mask: None })
    }

    fn first_mask(&mut self) -> Result<(), String> {
        self.compute_mask().map_err(|e| e.to_string()).map(drop)
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
