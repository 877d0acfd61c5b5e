//! llguidance as an engine, with its own settings for JSON Schema. Only white space is off, as for
//! this engine.

use std::path::Path;
use std::time::Instant;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};

use super::corpus::Sample;
use super::engines::{MaskRunner, SchemaOutcome, Walked};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::Vocabulary;

/// llguidance with its compiler.
pub(super) struct LlGuidanceRunner(ParserFactory);

/// Prepares what depends on the vocabulary only.
///
/// # Errors
/// If llguidance does not read the tokenizer.
pub(in crate::cli::bench) fn factory(tokenizer: &Path, vocab: &Vocabulary) -> Result<ParserFactory> {
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
    Ok(factory)
}

impl LlGuidanceRunner {
    pub(super) fn new(tokenizer: &Path, vocab: &Vocabulary) -> Result<Self> {
        Ok(LlGuidanceRunner(factory(tokenizer, vocab)?))
    }

    fn compile(&self, schema: &str) -> Result<Matcher, String> {
        let mut schema: serde_json::Value = serde_json::from_str(schema).map_err(|e| e.to_string())?;
        if let Some(object) = schema.as_object_mut() {
            object.insert("x-guidance".into(), serde_json::json!({"whitespace_flexible": false}));
        }
        let parser = self.0.create_parser(TopLevelGrammar::from_json_schema(schema));
        let mut matcher = Matcher::new(Ok(parser.map_err(|e| e.to_string())?));
        matcher.compute_mask().map_err(|e| e.to_string())?;
        Ok(matcher)
    }
}

impl MaskRunner for LlGuidanceRunner {
    fn name(&self) -> &'static str {
        "llguidance"
    }

    fn run(&mut self, sample: &Sample, instances: &[Walked]) -> SchemaOutcome {
        let mut outcome = SchemaOutcome::default();
        let started = Instant::now();
        let base = match self.compile(&sample.schema) {
            Ok(matcher) => matcher,
            Err(error) => {
                outcome.refused = Some(error);
                return outcome;
            }
        };
        outcome.first_mask = started.elapsed();
        for instance in instances {
            // A plain clone shares the lexer's tables, as its documentation recommends.
            let mut matcher = base.clone();
            let ended = instance.tokens.iter().all(|&token| {
                let start = Instant::now();
                let mask = matcher.compute_mask_or_eos();
                let masked = Instant::now();
                outcome.masks.push(masked - start);
                let legal = mask.is_ok_and(|mask| mask.is_allowed(token));
                let accepted = legal && matcher.consume_token(token).is_ok();
                if accepted {
                    outcome.accepts.push(masked.elapsed());
                }
                accepted
            });
            outcome.judge(instance.valid, ended && matcher.is_accepting().unwrap_or(false));
        }
        outcome
    }
}
