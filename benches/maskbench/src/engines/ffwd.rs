//! ffwd as an engine of MaskBench.
//!
//! After the measured pass, the same instances are followed once more (*warm*): into a row, and
//! with masks that are only borrowed. The bytes are those that the grammar holds after the first
//! pass, without the parts that all grammars share.

use std::time::Instant;

use ffwd_engine::{CompiledGrammar, Compiler, Constraint, Policy, Vocabulary};

use crate::engines::{MaskEngine, Prepared, ms};
use crate::report::Outcome;

/// The policy of all measurements.
pub fn policy() -> Policy {
    Policy { exponent: true, ..Policy::default() }
}

/// The compiler of ffwd with its row for masks.
pub struct Ffwd {
    compiler: Compiler,
    row: Vec<u32>,
    setup_ms: f64,
}

impl Ffwd {
    pub fn new(vocab: Vocabulary) -> Result<Self, String> {
        let row = vec![0; vocab.bitmask_words()];
        let started = Instant::now();
        let compiler = Compiler::new(vocab);
        // The base of the policy belongs to the vocabulary, not to a schema.
        let any = Constraint::json_object().with_policy(policy());
        compiler.compile(&any).map_err(|e| e.to_string())?;
        compiler.warm_up();
        Ok(Ffwd { compiler, row, setup_ms: ms(started) })
    }
}

impl Ffwd {
    /// The times of a generation whose states and masks are all known.
    fn again(&mut self, grammar: &CompiledGrammar, prepared: &Prepared, outcome: &mut Outcome) {
        for walk in prepared.instances.iter().filter(|w| w.valid) {
            let mut matcher = grammar.matcher();
            for &token in &walk.tokens {
                let started = Instant::now();
                matcher.fill_bitmask(&mut self.row);
                let copied = Instant::now();
                let legal = matcher.bitmask().contains(token);
                let borrowed = Instant::now();
                if !legal || matcher.accept_token(token).is_err() {
                    break;
                }
                outcome.warm_accepts.push(borrowed.elapsed());
                outcome.warm_masks.push(copied - started);
                outcome.borrowed.push(borrowed - copied);
            }
        }
    }
}

impl MaskEngine for Ffwd {
    fn settings(&self) -> String {
        format!("{:?}; set up in {:.0} ms", policy(), self.setup_ms)
    }

    fn run(&mut self, prepared: &Prepared) -> Outcome {
        let mut outcome = Outcome::default();
        let started = Instant::now();
        let grammar = Constraint::builder()
            .policy(policy())
            .json_schema(prepared.schema)
            .and_then(|constraint| self.compiler.compile(&constraint));
        let grammar = match grammar {
            Ok(grammar) => grammar,
            Err(error) => {
                outcome.compile_error = Some(error.to_string());
                return outcome;
            }
        };
        let mut first = grammar.matcher();
        first.fill_bitmask(&mut self.row);
        outcome.first_mask = started.elapsed();
        let mut fresh = Some(first);
        for (number, walk) in prepared.instances.iter().enumerate() {
            let mut matcher = fresh.take().unwrap_or_else(|| grammar.matcher());
            let end = outcome.follow(
                number,
                walk,
                &mut (&mut matcher, &mut self.row),
                |(m, row), token| {
                    m.fill_bitmask(row);
                    row[token as usize / 32] >> (token % 32) & 1 == 1
                },
                |(m, _), token| m.accept_token(token).map_err(|e| e.to_string()),
                |(m, _)| Ok(m.is_accepting()),
            );
            outcome.end(number, walk, end);
        }
        outcome.bytes = grammar.memory().total();
        self.again(&grammar, prepared, &mut outcome);
        // Forced tokens in a further pass, so that finding them warms nothing that was measured.
        for walk in prepared.instances.iter().filter(|w| w.valid) {
            let mut matcher = grammar.matcher();
            let mut at = 0;
            while at < walk.tokens.len() {
                let last = at.checked_sub(1).map(|i| walk.tokens[i]);
                let run = matcher.canonical_forced_tokens(last);
                let same = run.iter().zip(&walk.tokens[at..]).take_while(|(a, b)| a == b).count();
                outcome.forced += same;
                let next = (at + same.max(1)).min(walk.tokens.len());
                if walk.tokens[at..next].iter().any(|&t| matcher.accept_token(t).is_err()) {
                    break;
                }
                at = next;
            }
            outcome.forced_of += walk.tokens.len();
        }
        outcome
    }
}
