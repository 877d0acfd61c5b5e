//! `ffwd bench masks`: masks along texts of schemas and grammars, with new grammars and known ones.
//!
//! In each round an engine compiles a language and follows all of its texts. At each token the mask is
//! computed into a row, the token is looked up in it, and accepted. At the end an end token must be
//! legal. Then all texts of the language are followed once more. Each round begins with another text.
//! One thread; each call is timed by itself. Engines take turns language by language.
//!
//! # Alternatives considered
//!
//! - Measuring a mask only where the engine has a choice was rejected: it hides the cost of the states
//!   that a server requests most.
//! - Comparing the masks of the engines was rejected: engines with a lexer allow other tokens. Each
//!   token of a text must be in the masks of all.

mod corpus;
mod engine;
#[cfg(feature = "llguidance")]
mod llguidance;
mod percentiles;
mod process;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ffwd_runtime::decode::CancelToken;
use ffwd_runtime::{Error, ErrorKind, Result, TokenId, Vocabulary};

use crate::report::BenchReport;
use crate::rounds::{self, RoundArgs, interleave, keep_named, progress};
use corpus::Sample;
use engine::{Ffwd, Language, MaskEngine, TextWalk, WalkFault};

/// Rounds of schemas, and those before them: what counts is a schema that was never seen.
const SCHEMA_ROUNDS: (u16, u16) = (1, 0);

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read schemas with instances, or grammars with texts, from FILE
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Measure the engine NAME (repeatable) [default: ffwd, and llguidance if the program has it]
    #[arg(long, value_enum, value_name = "NAME")]
    engine: Vec<EngineName>,
    /// Also measure an engine in a process of its own, such as benches/grammars/engines.py (repeatable)
    #[arg(long, value_name = "COMMAND")]
    process: Vec<String>,
    /// Take all languages with one engine before the next engine starts
    #[arg(long)]
    apart: bool,
    /// Measure the schema or grammar NAME only (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Take every N-th schema or grammar
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Name schemas that do not pass on standard error
    #[arg(long)]
    failures: bool,
    /// Print the N slowest masks of each engine
    #[arg(long, value_name = "N", default_value_t = 0)]
    slowest: usize,
    #[command(flatten)]
    rounds: RoundArgs,
}

/// An engine of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineName {
    /// This engine
    Ffwd,
    /// This engine, with masks that are looked at where it keeps them
    Borrowed,
    /// llguidance, with a tokenizer.json
    #[cfg(feature = "llguidance")]
    Llguidance,
}

impl Args {
    fn engines(&self, tokenizer: Option<&Path>, vocab: &Vocabulary) -> Result<Vec<Box<dyn MaskEngine>>> {
        let file = tokenizer.filter(|file| file.extension().is_some_and(|end| end == "json"));
        let needed = |name: &str| {
            Error::new(ErrorKind::InvalidOption, format!("{name} needs --tokenizer with a tokenizer.json"))
        };
        let mut names = self.engine.clone();
        if names.is_empty() {
            names.push(EngineName::Ffwd);
            #[cfg(feature = "llguidance")]
            match file {
                Some(_) => names.push(EngineName::Llguidance),
                None => eprintln!("note: {}", needed("llguidance")),
            }
        }
        let mut engines: Vec<Box<dyn MaskEngine>> = Vec::new();
        for name in names {
            engines.push(match name {
                EngineName::Ffwd => Box::new(Ffwd::new(vocab, false)?),
                EngineName::Borrowed => Box::new(Ffwd::new(vocab, true)?),
                #[cfg(feature = "llguidance")]
                EngineName::Llguidance => {
                    let file = file.ok_or_else(|| needed("llguidance"))?;
                    Box::new(llguidance::LlGuidance::new(file, vocab)?)
                }
            });
        }
        for command in &self.process {
            let file = file.ok_or_else(|| needed("--process"))?;
            engines.push(Box::new(process::ProcessEngine::new(command, file, vocab)?));
        }
        Ok(engines)
    }
}

/// Measures the engines with the tokenizer of a file, or that of the vocabulary alone.
///
/// # Errors
/// If a file cannot be read, or an engine does not start.
pub fn run(
    args: &Args,
    tokenizer: Option<&Path>,
    vocab: &Vocabulary,
    stop: &CancelToken,
) -> Result<BenchReport> {
    let mut samples = corpus::read_all(&args.files)?;
    keep_named(&mut samples, &args.only, |sample: &Sample| &sample.name, "schema or grammar")?;
    let samples = samples.into_iter().step_by(args.every as usize);
    let samples = samples.map(|sample| TokenSample::new(sample, vocab)).collect::<Result<Vec<_>>>()?;
    let mut engines = args.engines(tokenizer, vocab)?;
    let has_grammar = samples.iter().any(|sample| !matches!(sample.language, Language::JsonSchema(_)));
    let usual = if has_grammar { rounds::USUAL } else { SCHEMA_ROUNDS };
    let plan = args.rounds.plan(samples.len(), usual);
    let mut outcomes: Vec<Vec<Outcome>> = engines.iter().map(|_| Vec::with_capacity(samples.len())).collect();
    let size = if args.apart { 1 } else { engines.len() };
    let bar = progress(plan, samples.len() * engines.len());
    let mut finished = true;
    'all: for (engines, outcomes) in engines.chunks_mut(size).zip(outcomes.chunks_mut(size)) {
        for sample in &samples {
            bar.set_message(sample.name.clone());
            outcomes.iter_mut().for_each(|all| all.push(Outcome::default()));
            finished = interleave(engines.len(), plan, stop, |turn| {
                bar.inc(1);
                let outcome = outcomes[turn.arm].last_mut();
                if let Some(outcome) = outcome.filter(|outcome| outcome.refused.is_none()) {
                    let pass = measure(&mut *engines[turn.arm], sample, turn.number);
                    outcome.add(pass, turn.round.is_some());
                }
                Ok(())
            })?;
            if !finished {
                break 'all;
            }
        }
    }
    bar.finish_and_clear();
    let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    let mut report = report::report(&names, &samples, &outcomes, vocab.len(), args.slowest);
    for (engine, outcomes) in names.iter().zip(&outcomes) {
        for (sample, outcome) in samples.iter().zip(outcomes) {
            let is_schema = matches!(sample.language, Language::JsonSchema(_));
            for fault in outcome.faults(sample).filter(|_| args.failures || !is_schema) {
                eprintln!("{}{engine}: {}: {fault}", if is_schema { "" } else { "error: " }, sample.name);
                report.failed |= finished && !is_schema;
            }
        }
    }
    report.interrupted = (!finished).then_some("some schemas or grammars are missing");
    Ok(report)
}

/// A language with its texts in tokens.
struct TokenSample {
    name: String,
    language: Language,
    texts: Vec<TokenText>,
}

struct TokenText {
    tokens: Vec<TokenId>,
    /// Whether the text is of the language.
    valid: bool,
    /// The bytes of each token, for messages.
    pieces: Vec<String>,
}

impl TokenSample {
    fn new(sample: Sample, vocab: &Vocabulary) -> Result<Self> {
        let piece = |&token: &TokenId| String::from_utf8_lossy(vocab.token_bytes(token)).into_owned();
        let texts = sample.texts.iter().map(|(text, valid)| {
            let tokens = vocab.encode(text)?;
            Ok(TokenText { pieces: tokens.iter().map(piece).collect(), tokens, valid: *valid })
        });
        Ok(TokenSample { texts: texts.collect::<Result<_>>()?, name: sample.name, language: sample.language })
    }
}

/// What an engine did with a language.
#[derive(Default)]
struct Outcome {
    /// Why the language was refused: when it was compiled, or later by an engine that gave a mask up.
    refused: Option<String>,
    passes: Vec<Pass>,
}

impl Outcome {
    fn add(&mut self, pass: Result<Pass, String>, counts: bool) {
        match pass {
            Ok(pass) => self.passes.extend(counts.then_some(pass)),
            Err(error) => self.refused = Some(error),
        }
    }

    /// Returns why the language was refused, or its texts were judged wrongly.
    fn faults<'a>(&'a self, sample: &'a TokenSample) -> impl Iterator<Item = String> + 'a {
        let walks = self.passes.first().into_iter().flat_map(|pass| &pass.walks);
        let wrong = walks.filter_map(|(text, walk)| judgement(&sample.texts[*text], walk));
        self.refused.iter().cloned().chain(wrong)
    }
}

/// What happened after one compilation.
struct Pass {
    /// From the text of the language to the compiled grammar; none if the engine does that later.
    compile: Option<Duration>,
    /// From the text of the language to the first mask.
    first_mask: Duration,
    /// Numbers of texts with their walks, in the order of the walks.
    walks: Vec<(usize, TextWalk)>,
    /// The same for the texts of the language, once more.
    again: Vec<(usize, TextWalk)>,
    /// Bytes held at the end.
    bytes: Option<usize>,
}

/// Compiles a language and follows all of its texts, beginning with one that the round chooses.
///
/// # Errors
/// If the engine refuses the language, or gives a mask up.
fn measure(engine: &mut dyn MaskEngine, sample: &TokenSample, round: usize) -> Result<Pass, String> {
    let count = sample.texts.len();
    let order: Vec<usize> = (0..count).map(|at| (at + round) % count).collect();
    let compile = engine.compile(&sample.language)?;
    let mut pass = Pass {
        compile: (!engine.is_lazy()).then_some(compile),
        first_mask: compile,
        walks: Vec::with_capacity(count),
        again: Vec::new(),
        bytes: None,
    };
    // Without texts there is only the first mask.
    let only_mask = if count == 0 { vec![engine.follow(&[])] } else { Vec::new() };
    pass.walks.extend(order.iter().map(|&text| (text, engine.follow(&sample.texts[text].tokens))));
    for walk in pass.walks.iter().map(|walk| &walk.1).chain(&only_mask) {
        if let Some(WalkFault::NoMask(fault)) = &walk.fault {
            return Err(format!("no mask after {} tokens: {fault}", walk.accepts.len()));
        }
    }
    if let Some(first) = pass.walks.iter().map(|walk| &walk.1).chain(&only_mask).next() {
        pass.first_mask += first.start + first.masks.first().copied().unwrap_or_default();
    }
    let right = |text: &&usize| sample.texts[**text].valid;
    pass.again
        .extend(order.iter().filter(right).map(|&text| (text, engine.follow(&sample.texts[text].tokens))));
    pass.bytes = engine.bytes();
    Ok(pass)
}

/// Says in words why a text was judged wrongly; none if it was judged rightly.
fn judgement(text: &TokenText, walk: &TextWalk) -> Option<String> {
    let (before, rest) = text.pieces.split_at(walk.accepts.len());
    let (before, piece) = (before.concat(), rest.first().map_or("", String::as_str));
    match (&walk.fault, text.valid) {
        (None, true) | (Some(_), false) => None,
        (None, false) => Some(format!("{before:?} is accepted")),
        (Some(WalkFault::NoMask(fault)), true) => Some(format!("no mask after {before:?}: {fault}")),
        (Some(WalkFault::NotInMask), true) => Some(format!("{piece:?} is not in the mask after {before:?}")),
        (Some(WalkFault::Refused), true) => {
            Some(format!("{piece:?} is in the mask and refused after {before:?}"))
        }
        (Some(WalkFault::Incomplete), true) => Some(format!("the text {before:?} is not complete")),
    }
}
