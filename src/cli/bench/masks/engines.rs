//! The engines that compute masks, and the walk of one instance.

use std::time::{Duration, Instant};

use super::corpus::Sample;
use crate::constraint::{Constraint, Policy};
use crate::error::Result;
use crate::matcher::Compiler;
use crate::vocab::{TokenId, Vocabulary};

/// What an engine does with one schema.
#[derive(Debug, Default)]
pub(super) struct SchemaOutcome {
    /// Why the schema was refused.
    pub refused: Option<String>,
    /// From the text of the schema to the compiled grammar; none if the engine does not tell.
    pub compile: Option<Duration>,
    /// From the text of the schema to the first mask.
    pub first_mask: Duration,
    pub masks: Vec<Duration>,
    pub accepts: Vec<Duration>,
    /// Instances that are valid and were refused, and that are not and were accepted.
    pub wrongly_refused: usize,
    pub wrongly_accepted: usize,
}

impl SchemaOutcome {
    pub(super) fn passes(&self) -> bool {
        self.refused.is_none() && self.wrongly_refused == 0 && self.wrongly_accepted == 0
    }
}

/// An instance in tokens.
pub(super) struct Walked {
    pub tokens: Vec<TokenId>,
    pub valid: bool,
}

/// An engine under measurement.
pub(super) trait MaskRunner {
    fn name(&self) -> &'static str;
    /// Compiles the schema, then follows every instance.
    fn run(&mut self, sample: &Sample, instances: &[Walked]) -> SchemaOutcome;
}

/// This engine.
pub(super) struct Own {
    compiler: Compiler,
    row: Vec<u32>,
}

impl Own {
    /// Prepares what depends on the vocabulary only.
    pub(super) fn new(vocab: &Vocabulary) -> Result<Self> {
        let compiler = Compiler::new(vocab.clone());
        compiler.compile(&Constraint::json_object().with_policy(policy()))?;
        compiler.warm_up();
        Ok(Own { compiler, row: vec![0; vocab.bitmask_words()] })
    }
}

/// The policy of the measurement: instances may have exponents.
fn policy() -> Policy {
    Policy { exponent: true, ..Policy::default() }
}

impl MaskRunner for Own {
    fn name(&self) -> &'static str {
        "ffwd"
    }

    fn run(&mut self, sample: &Sample, instances: &[Walked]) -> SchemaOutcome {
        let mut outcome = SchemaOutcome::default();
        let started = Instant::now();
        let constraint = Constraint::builder().policy(policy()).json_schema(&sample.schema);
        let grammar = match constraint.and_then(|constraint| self.compiler.compile(&constraint)) {
            Ok(grammar) => grammar,
            Err(error) => {
                outcome.refused = Some(error.to_string());
                return outcome;
            }
        };
        outcome.compile = Some(started.elapsed());
        grammar.matcher().fill_bitmask(&mut self.row);
        outcome.first_mask = started.elapsed();
        for instance in instances {
            let mut matcher = grammar.matcher();
            let ended = instance.tokens.iter().all(|&token| {
                let start = Instant::now();
                matcher.fill_bitmask(&mut self.row);
                let masked = Instant::now();
                outcome.masks.push(masked - start);
                let legal = self.row[token as usize / 32] >> (token % 32) & 1 == 1;
                let accepted = legal && matcher.accept_token(token).is_ok();
                if accepted {
                    outcome.accepts.push(masked.elapsed());
                }
                accepted
            });
            outcome.judge(instance.valid, ended && matcher.is_accepting());
        }
        outcome
    }
}

impl SchemaOutcome {
    pub(super) fn judge(&mut self, valid: bool, accepted: bool) {
        self.wrongly_refused += usize::from(valid && !accepted);
        self.wrongly_accepted += usize::from(!valid && accepted);
    }
}
