//! llguidance as an engine, with its own settings. Only white space of JSON is off, as for this
//! engine, and masks of large grammars have a higher limit.

use std::path::Path;
use std::time::{Duration, Instant};

use ffwd_runtime::{Error, ErrorKind, Result, TokenId, Vocabulary};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};

use super::engine::{Language, MaskEngine, TextWalk, walk};

/// Maximum number of Earley items for one mask of a grammar. At its own limit llguidance gives up
/// some masks of large grammars.
const MAX_ITEMS: usize = 5_000_000;

/// llguidance with its compiler.
pub(super) struct LlGuidance {
    factory: ParserFactory,
    /// The compiled language, from which matchers are cloned. A plain clone shares the tables of the
    /// lexer, as its documentation recommends.
    grammar: Option<Matcher>,
}

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
        Ok(LlGuidance { factory, grammar: None })
    }

    /// Reads a grammar in Lark's notation.
    fn lark(&mut self, text: &str) -> TopLevelGrammar {
        self.factory.limits_mut().step_max_items = MAX_ITEMS;
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
    fn name(&self) -> &str {
        "llguidance"
    }

    fn compile(&mut self, language: &Language) -> Result<Duration, String> {
        let started = Instant::now();
        let grammar = match language {
            Language::JsonSchema(text) => schema(text)?,
            Language::Lark(text) | Language::Gbnf { lark: Some(text), .. } => self.lark(text),
            Language::Gbnf { lark: None, .. } => return Err("it reads Lark's notation only".to_owned()),
        };
        let parser = self.factory.create_parser(grammar).map_err(|e| e.to_string())?;
        let grammar = Matcher::new(Ok(parser));
        let elapsed = started.elapsed();
        self.grammar = Some(grammar);
        Ok(elapsed)
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn follow(&mut self, tokens: &[TokenId]) -> TextWalk {
        let Some(grammar) = &self.grammar else { return TextWalk::default() };
        let started = Instant::now();
        let mut matcher = grammar.clone();
        walk(
            (started.elapsed(), &mut matcher),
            tokens,
            |matcher, token| {
                matcher.compute_mask_or_eos().map(|mask| mask.is_allowed(token)).map_err(|e| e.to_string())
            },
            |matcher, token| matcher.consume_token(token).is_ok(),
            |matcher| matcher.is_accepting().unwrap_or(false),
        )
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}
