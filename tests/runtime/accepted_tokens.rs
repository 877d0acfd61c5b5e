//! The number of times that the tokens of a generation pass through a matcher: a drafted token at
//! most twice, a token of the target's own once. Alone and in a batch.

use std::sync::Arc;

use ffwd::decode::Scheduler;
use ffwd::draft::DraftSource;
use ffwd::{CompiledGrammar, Constraint, Engine, Output, Request, SchedulerOptions, extract};

use crate::common::exact::engine;
use crate::common::schemas::{SCHEMAS, TEXT};

/// A source, and a request that uses it.
type Variant = (DraftSource, fn(Request) -> Request);

const VARIANTS: [Variant; 4] = [
    (DraftSource::Forced, |r| r.without_gate().lookup(false).draft_model(false)),
    (DraftSource::Lookup, |r| r.without_gate().draft_model(false)),
    (DraftSource::Model, |r| r.without_gate().lookup(false).forced_runs(false)),
    (DraftSource::Model, |r| r.without_gate()),
];

fn grammar(engine: &Engine, schema: &str) -> CompiledGrammar {
    let builder = Constraint::builder().source(TEXT, &Default::default());
    engine.compiler().compile(&builder.json_schema(schema).unwrap()).unwrap()
}

fn request(schema: &str, grammar: &CompiledGrammar, variant: &Variant, seed: u64) -> Request {
    let request = extract::embedded::request(schema, TEXT).unwrap().grammar(grammar.clone());
    let temperature = if seed == 0 { 0.0 } else { 1.0 };
    (variant.1)(request.max_tokens(120)).temperature(temperature).seed(seed)
}

/// Drafted tokens, the target's own tokens, and tokens accepted by matchers.
#[derive(Debug, Default)]
struct TokenCounts {
    of_source: usize,
    drafted: u64,
    own: u64,
    accepted: u64,
}

impl TokenCounts {
    fn add(&mut self, outputs: &[Output], accepted: u64, source: DraftSource) {
        for stats in outputs.iter().map(|output| &output.stats) {
            self.of_source += stats.drafted_by_source[source];
            self.drafted += stats.drafted as u64;
            self.own += (stats.tokens + stats.taken_back - stats.accepted) as u64;
        }
        self.accepted += accepted;
    }

    fn check(&self, what: &str) {
        eprintln!("{what}: {self:?}");
        assert!(self.of_source > 20, "{what}: {self:?}");
        // Each token of the output is accepted somewhere, or the counter does not count.
        assert!(self.accepted >= self.own, "{what}: {self:?}");
        assert!(self.accepted <= 2 * self.drafted + self.own, "{what}: {self:?}");
    }
}

#[test]
fn a_drafted_token_is_accepted_at_most_twice() {
    let engine = Arc::new(engine());
    for variant in &VARIANTS {
        let mut counts = TokenCounts::default();
        for schema in SCHEMAS {
            for seed in 0..4 {
                let grammar = grammar(&engine, schema);
                let output = engine.generate(&request(schema, &grammar, variant, seed)).unwrap();
                counts.add(&[output], grammar.tokens_stepped(), variant.0);
            }
        }
        counts.check(&format!("{:?} alone", variant.0));
    }
}

#[test]
fn in_a_batch_as_well() {
    let engines = [1, 2].map(|threads| Arc::new(engine().with_threads(threads)));
    for variant in &VARIANTS {
        let mut counts = TokenCounts::default();
        for engine in &engines {
            let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(8)).unwrap();
            for schema in SCHEMAS {
                let grammar = grammar(engine, schema);
                let submit = |seed| scheduler.submit(request(schema, &grammar, variant, seed)).unwrap();
                let handles: Vec<_> = (0..6).map(submit).collect();
                let outputs: Vec<Output> = handles.into_iter().map(|handle| handle.wait().unwrap()).collect();
                counts.add(&outputs, grammar.tokens_stepped(), variant.0);
            }
        }
        counts.check(&format!("{:?} in a batch", variant.0));
    }
}
