//! llguidance as an engine of MaskBench, with its own settings for JSON Schema. Only white space is
//! off, as for ffwd.

use std::time::Instant;

use ffwd_engine::Vocabulary;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};

use crate::engines::{MaskEngine, Prepared, ms};
use crate::options::Args;
use crate::report::Outcome;

/// The compiler of llguidance.
pub struct LlGuidance {
    factory: ParserFactory,
    setup_ms: f64,
}

impl LlGuidance {
    pub fn new(options: &Args, vocab: &Vocabulary) -> Result<Self, String> {
        let started = Instant::now();
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let mut tokenizer =
            toktrie_hf_tokenizers::ByteTokenizer::from_file(options.tokenizer()).map_err(|e| text(&e))?;
        if !vocab.eos().is_empty() {
            tokenizer.set_eos_tokens(vocab.eos());
        }
        let env: TokEnv = tokenizer.into_tok_env(None).map_err(|e| text(&e))?;
        let caps = InferenceCapabilities { ff_tokens: false, ..InferenceCapabilities::default() };
        let slices = llguidance::earley::SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&env, caps, &slices).map_err(|e| text(&e))?;
        factory.quiet();
        Ok(LlGuidance { factory, setup_ms: ms(started) })
    }

    fn compile(&self, schema: &str) -> Result<Matcher, String> {
        let mut schema: serde_json::Value = serde_json::from_str(schema).map_err(|e| e.to_string())?;
        if let Some(object) = schema.as_object_mut() {
            object.insert("x-guidance".into(), serde_json::json!({"whitespace_flexible": false}));
        }
        let parser = self
            .factory
            .create_parser(TopLevelGrammar::from_json_schema(schema))
            .map_err(|e| e.to_string())?;
        Ok(Matcher::new(Ok(parser)))
    }
}

impl MaskEngine for LlGuidance {
    fn settings(&self) -> String {
        format!(
            "1.9.1, JSON slices, whitespace_flexible false, default limits, ff_tokens off in masks; set up in {:.0} ms",
            self.setup_ms
        )
    }

    fn run(&mut self, prepared: &Prepared) -> Outcome {
        let mut outcome = Outcome::default();
        let started = Instant::now();
        let first = self.compile(prepared.schema).and_then(|mut m| {
            m.compute_mask().map_err(|e| e.to_string())?;
            Ok(m)
        });
        outcome.first_mask = started.elapsed();
        let base = match first {
            Ok(matcher) => matcher,
            Err(error) => {
                outcome.compile_error = Some(error);
                return outcome;
            }
        };
        for (number, walk) in prepared.instances.iter().enumerate() {
            // A plain clone shares the lexer's tables, as its documentation recommends.
            let mut matcher = base.clone();
            let end = outcome.follow(
                number,
                walk,
                &mut (&mut matcher, None),
                |(m, failed): &mut (&mut Matcher, Option<String>), token| match m.compute_mask_or_eos() {
                    Ok(mask) => mask.is_allowed(token),
                    Err(e) => {
                        *failed = Some(e.to_string());
                        false
                    }
                },
                |(m, _), token| m.consume_token(token).map_err(|e| e.to_string()),
                |(m, failed)| match failed.take() {
                    Some(e) => Err(e),
                    None => m.is_accepting().map_err(|e| e.to_string()),
                },
            );
            outcome.end(number, walk, end);
        }
        for walk in prepared.instances.iter().filter(|w| w.valid) {
            let mut matcher = base.clone();
            let mut at = 0;
            while at < walk.tokens.len() {
                let run = matcher.compute_ff_tokens();
                let same = run.iter().zip(&walk.tokens[at..]).take_while(|(a, b)| a == b).count();
                outcome.forced += same;
                let next = (at + same.max(1)).min(walk.tokens.len());
                if matcher.consume_tokens(&walk.tokens[at..next]).is_err() {
                    break;
                }
                at = next;
            }
            outcome.forced_of += walk.tokens.len();
        }
        outcome
    }
}
