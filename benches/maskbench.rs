//! MaskBench: masks along the instances of many schemas, for ffwd, (feature `bench-llguidance`) llguidance and
//! (the package `benches/xgrammar`) XGrammar in the same process, interleaved schema by schema.
//!
//! Every schema is compiled anew, nothing is warmed up for it; what depends on the vocabulary alone, or on nothing at all
//! (the formats of JSON Schema, `Compiler::warm_up`), is made once for each engine before the first schema. At every token of every instance the mask is
//! computed into a caller's row, the instance's token is looked up in it and accepted; at the end an
//! end token must be legal. One thread, wall-clock time of each single call. For ffwd the same instances
//! are then followed once more (*warm*): into a row, and with masks that are only borrowed. Its bytes are
//! those that the grammar holds after the first pass, without what all grammars share.
//!
//! ```text
//! cargo bench --no-default-features --features bench-llguidance --bench maskbench -- \
//!     [FILE.jsonl[.zst]] [--tokenizer FILE] [--engine NAME|both|all] [--limit N] [--every N] [--filter TEXT]
//!     [--json FILE] [--failures N] [--slowest N] [--repeat N] [--apart]
//! FFWD_BENCH_DIR=... cargo run --release --manifest-path benches/xgrammar/Cargo.toml -- ...
//! ```
//!
//! Engines are `ffwd`, `llguidance`, `xgrammar` and `xgrammar-strict`; `both` are the first two. With `--apart` each
//! goes through all schemas before the next one does, as in MaskBench itself: an engine then finds the processor's
//! caches as it left them, where otherwise the others have filled them.
//!
//! The alternative, a mask only where the engine has a choice, was rejected: it hides the cost of
//! the states that a server asks for most.

#[path = "../tests/common/data.rs"]
#[allow(dead_code)]
mod data;
mod maskbench_report;
#[path = "../tests/common/tables.rs"]
#[allow(dead_code)]
mod tables;
#[cfg(feature = "bench-xgrammar")]
#[path = "xgrammar/engine.rs"]
mod xgrammar_engine;

use std::path::PathBuf;
use std::time::Instant;

use data::Entry;
use ffwd::{CompiledGrammar, Compiler, Constraint, Policy, TokenId, Vocabulary};
use maskbench_report::{Outcome, Report};

fn main() {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("maskbench: {message}");
            std::process::exit(2);
        }
    };
    if let Err(message) = run(&options) {
        eprintln!("maskbench: {message}");
        std::process::exit(1);
    }
}

struct Options {
    file: PathBuf,
    tokenizer: PathBuf,
    engines: Vec<&'static str>,
    limit: usize,
    every: usize,
    filter: Option<String>,
    json: Option<PathBuf>,
    failures: usize,
    slowest: usize,
    repeat: usize,
    apart: bool,
}

/// The engines, and whether each was built in.
const ENGINES: [(&str, bool); 4] = [
    ("ffwd", true),
    ("llguidance", cfg!(feature = "bench-llguidance")),
    ("xgrammar", cfg!(feature = "bench-xgrammar")),
    ("xgrammar-strict", cfg!(feature = "bench-xgrammar")),
];

/// The engines that a name of `--engine` means.
fn engines(name: &str) -> Result<Vec<&'static str>, String> {
    let wanted = |engine: &str| name == "all" || name == "both" && !engine.starts_with('x') || name == engine;
    let found: Vec<_> = ENGINES.iter().filter(|e| wanted(e.0)).collect();
    match found.iter().find(|e| !e.1) {
        Some(missing) => Err(format!("built without {}", missing.0)),
        None if found.is_empty() => Err(format!("no engine {name}")),
        None => Ok(found.iter().map(|e| e.0).collect()),
    }
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let dir = data::bench_dir();
        let inside = |name: &str| dir.as_ref().map(|d| d.join(name)).unwrap_or_default();
        let mut options = Options {
            file: inside("maskbench-dev-sample.jsonl.zst"),
            tokenizer: inside("tokenizers/llama3/tokenizer.json"),
            engines: ENGINES.iter().filter(|e| e.1).map(|e| e.0).collect(),
            limit: usize::MAX,
            every: 1,
            filter: None,
            json: None,
            failures: 10,
            slowest: 5,
            repeat: 1,
            apart: false,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            let number = |text: String| text.parse::<usize>().map_err(|e| format!("{text}: {e}"));
            match arg.as_str() {
                "--bench" => {}
                "--tokenizer" => options.tokenizer = value()?.into(),
                "--engine" => options.engines = engines(&value()?)?,
                "--limit" => options.limit = number(value()?)?,
                "--every" => options.every = number(value()?)?.max(1),
                "--filter" => options.filter = Some(value()?),
                "--json" => options.json = Some(value()?.into()),
                "--failures" => options.failures = number(value()?)?,
                "--slowest" => options.slowest = number(value()?)?,
                "--apart" => options.apart = true,
                "--repeat" => options.repeat = number(value()?)?.max(1),
                _ if arg.starts_with("--") => return Err(format!("no option {arg}")),
                _ => options.file = arg.into(),
            }
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<(), String> {
    if options.file.as_os_str().is_empty() {
        println!("maskbench: skipped, no benchmark data (set FFWD_BENCH_DIR or name a file)");
        return Ok(());
    }
    let entries = data::load(&options.file).map_err(|e| format!("{}: {e}", options.file.display()))?;
    let started = Instant::now();
    let vocab = Vocabulary::from_file(&options.tokenizer).map_err(|e| e.to_string())?;
    println!("vocabulary of {} tokens: {:.0} ms", vocab.len(), ms(started));
    let mut engines: Vec<(Box<dyn Engine>, Report)> = Vec::new();
    for &name in &options.engines {
        engines.push((engine(name, options, &vocab)?, Report::new(name)));
    }
    for (engine, report) in &mut engines {
        report.settings = engine.settings();
        println!("{}: {}", report.name, report.settings);
    }
    let wanted = |e: &&Entry| options.filter.as_ref().is_none_or(|f| e.id.contains(f.as_str()));
    let chosen = entries.iter().filter(wanted).step_by(options.every).take(options.limit);
    let prepared = chosen.map(|entry| Prepared::new(entry, &vocab)).collect::<Result<Vec<_>, _>>()?;
    // By engine, for each schema.
    let mut outcomes: Vec<Vec<Outcome>> =
        engines.iter().map(|_| Vec::with_capacity(prepared.len())).collect();
    let one = |engine: &mut Box<dyn Engine>, prepared: &Prepared| {
        // The first run counts; further ones only lower the noise of the times.
        let mut outcome = engine.run(prepared);
        for _ in 1..options.repeat {
            outcome.keep_fastest(engine.run(prepared));
        }
        outcome
    };
    if options.apart {
        for ((engine, _), outcomes) in engines.iter_mut().zip(&mut outcomes) {
            outcomes.extend(prepared.iter().map(|p| one(engine, p)));
        }
    } else {
        for p in &prepared {
            for ((engine, _), outcomes) in engines.iter_mut().zip(&mut outcomes) {
                outcomes.push(one(engine, p));
            }
        }
    }
    let mut outcomes: Vec<_> = outcomes.into_iter().map(Vec::into_iter).collect();
    for p in &prepared {
        let own: Vec<Outcome> = outcomes.iter_mut().filter_map(Iterator::next).collect();
        let common = own.iter().all(|o| o.compile_error.is_none());
        for ((_, report), outcome) in engines.iter_mut().zip(own) {
            report.add(p, outcome, common);
        }
    }
    let reports: Vec<&Report> = engines.iter().map(|(_, r)| r).collect();
    maskbench_report::print(&reports, options.failures, options.slowest);
    if options.filter.is_none() && options.limit == usize::MAX && !options.apart {
        let table = maskbench_report::to_markdown(&reports);
        match cfg!(feature = "bench-xgrammar") {
            // Paths begin at the package.
            true => tables::put("../../docs/engine.md", "xgrammar", &table)?,
            false if options.every > 1 => {}
            false => tables::put("README.md", "maskbench", &table)?,
        }
    }
    if let Some(path) = &options.json {
        let text = maskbench_report::to_json(&reports, &options.file);
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// An engine that was built in, by its name.
fn engine(name: &str, options: &Options, vocab: &Vocabulary) -> Result<Box<dyn Engine>, String> {
    Ok(match name {
        #[cfg(feature = "bench-llguidance")]
        "llguidance" => Box::new(peer::LlGuidance::new(options, vocab)?),
        #[cfg(feature = "bench-xgrammar")]
        "xgrammar" | "xgrammar-strict" => {
            Box::new(xgrammar_engine::XGrammar::new(options, vocab, name == "xgrammar-strict")?)
        }
        _ => {
            let _ = options;
            Box::new(Ffwd::new(vocab.clone())?)
        }
    })
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A schema with its instances in tokens.
pub struct Prepared<'a> {
    pub id: &'a str,
    pub schema: &'a str,
    pub instances: Vec<Walk>,
    /// Instances left out: their text is no Unicode, so no vocabulary of text can spell it.
    pub unspellable: usize,
}

/// An instance in tokens.
pub struct Walk {
    pub tokens: Vec<TokenId>,
    pub valid: bool,
    /// Whether one of its numbers has more digits than ffwd's policy allows.
    pub long_number: bool,
}

impl<'a> Prepared<'a> {
    fn new(entry: &'a Entry, vocab: &Vocabulary) -> Result<Self, String> {
        let cap = usize::from(policy().max_integer_digits);
        let mut instances = Vec::new();
        for test in &entry.tests {
            if let Some(text) = data::canonical(&test.data) {
                let tokens = vocab.encode(&text).map_err(|e| e.to_string())?;
                let (integer, fraction) = data::longest_digits(&text);
                let long_number = integer > cap || fraction > cap;
                instances.push(Walk { tokens, valid: test.valid, long_number });
            }
        }
        let unspellable = entry.tests.len() - instances.len();
        Ok(Prepared { id: &entry.id, schema: &entry.schema, instances, unspellable })
    }
}

fn policy() -> Policy {
    Policy { exponent: true, ..Policy::default() }
}

/// What is measured.
pub trait Engine {
    fn settings(&self) -> String;
    /// Compiles the schema, then follows every instance.
    fn run(&mut self, prepared: &Prepared) -> Outcome;
}

struct Ffwd {
    compiler: Compiler,
    row: Vec<u32>,
    setup_ms: f64,
}

impl Ffwd {
    fn new(vocab: Vocabulary) -> Result<Self, String> {
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

impl Engine for Ffwd {
    fn settings(&self) -> String {
        format!("{:?}; set up in {:.0} ms", policy(), self.setup_ms)
    }

    fn run(&mut self, prepared: &Prepared) -> Outcome {
        let mut outcome = Outcome::default();
        let started = Instant::now();
        let grammar = Constraint::json_schema_with(prepared.schema, policy())
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

#[cfg(feature = "bench-llguidance")]
mod peer {
    use super::*;
    use llguidance::api::TopLevelGrammar;
    use llguidance::toktrie::{InferenceCapabilities, TokEnv};
    use llguidance::{Matcher, ParserFactory};

    /// llguidance's own settings for JSON Schema, but for white space, which is off as for ffwd.
    pub struct LlGuidance {
        factory: ParserFactory,
        setup_ms: f64,
    }

    impl LlGuidance {
        pub fn new(options: &Options, vocab: &Vocabulary) -> Result<Self, String> {
            let started = Instant::now();
            let text = |e: &dyn std::fmt::Display| e.to_string();
            let mut tokenizer =
                toktrie_hf_tokenizers::ByteTokenizer::from_file(&options.tokenizer).map_err(|e| text(&e))?;
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

    impl Engine for LlGuidance {
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
}
