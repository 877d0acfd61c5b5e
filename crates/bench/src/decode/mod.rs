//! `ffwd bench decode`: the arms of decoding on scenarios, in interleaved rounds.
//!
//! Each arm has an engine of its own, so that none learns from another. The engines share the
//! weights. No prefix of a prompt is kept, unless an option says so, and each run reads its prompt.
//!
//! # Alternatives considered
//!
//! One engine for all arms was rejected: the tokenisation of forced text that one arm learns would
//! speed up the others.

mod batch;
mod compare;
mod report;

use std::path::PathBuf;
use std::time::Instant;

use ffwd_runtime::decode::{CancelToken, Event, forced_share};
use ffwd_runtime::error::Place;
use ffwd_runtime::extract::corpus::read_text;
use ffwd_runtime::speedup::{Estimate, ForwardCosts, Spread, Walker, estimate};
use ffwd_runtime::{Engine, Error, Finish, Output, Request, Result, Threads, TokenId};

use crate::arm::Arm;
use crate::environment::{Environment, ModelNames};
use crate::report::BenchReport;
use crate::rounds::{self, Plan, RoundArgs, Turn, interleave, keep_named};
use crate::scenario::{self, ReadyScenario, Scenario};
use crate::table::Grid;
use report::{ArmResult, DecodeResults, ScenarioResult};

/// The scenarios of the program, as TOML.
pub use crate::scenario::BUILT_IN as SCENARIOS;

/// Rounds in which the time to the first token is taken.
const FIRST_TOKEN_ROUNDS: usize = 5;

/// Smallest share of an output's time that counts as decoding.
const LEAST_DECODING: f64 = 0.02;

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read the scenarios in FILE instead of those of the program
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    scenarios: Option<PathBuf>,
    /// Run the scenario NAME only (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the scenarios of the program as TOML, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Measure the extraction of records that are valid against the JSON Schema in FILE
    #[arg(short, long, value_name = "FILE", requires = "text")]
    schema: Option<PathBuf>,
    /// Extract the record of --schema from the text in FILE
    #[arg(long, value_name = "FILE", requires = "schema")]
    text: Option<PathBuf>,
    /// Run these arms and `off`, with commas between them [default: all that apply, but ungated and
    /// random-drafts]
    #[arg(long, value_enum, value_name = "ARM,...", value_delimiter = ',', hide_possible_values = true)]
    arms: Vec<Arm>,
    /// Draft at most N tokens at once
    #[arg(long, value_name = "N")]
    max_draft: Option<usize>,
    /// Keep the beginnings of prompts from round to round, as an engine does by default
    #[arg(long)]
    keep_prompts: bool,
    /// Also run all scenarios together in batches of N, against one request after another
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1024))]
    batch: Option<u16>,
    /// Compare with the results of --json in FILE
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundArgs,
}

/// The files that the options name.
pub struct Inputs {
    scenarios: Vec<Scenario>,
    earlier: Option<compare::EarlierRun>,
    /// Texts that must be tokens of their own in the vocabulary, such as the start of a tool call.
    pub markers: Vec<String>,
}

impl Args {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// If one cannot be read or is not what it should be.
    pub fn read(&self) -> Result<Inputs> {
        let earlier = self.compare.as_deref().map(compare::read).transpose()?;
        let mut scenarios = match (&self.scenarios, &self.schema, &self.text) {
            (_, Some(schema), Some(text)) => {
                vec![Scenario::extraction(read_text(schema)?, read_text(text)?)]
            }
            (Some(file), ..) => scenario::read(file)?,
            _ => scenario::built_in()?,
        };
        keep_named(&mut scenarios, &self.only, |scenario| &scenario.name, "scenario")?;
        let markers = scenarios.iter().map(Scenario::marks).collect::<Result<Vec<_>>>()?.concat();
        Ok(Inputs { scenarios, earlier, markers })
    }
}

/// Measures the scenarios with an engine, and with each of the numbers of threads if there are several.
///
/// # Errors
/// If a constraint does not compile, or a generation fails.
pub fn run(
    args: &Args,
    inputs: &Inputs,
    engine: &Engine,
    models: &ModelNames,
    threads: &[usize],
    stop: &CancelToken,
) -> Result<BenchReport> {
    let environment = Environment::of_engine(engine, models);
    let mut costs = None;
    let mut results = DecodeResults::default();
    let mut prepared = Vec::new();
    let mut finished = true;
    let parts = inputs.scenarios.len() + usize::from(args.batch.is_some());
    let plan = args.rounds.plan(parts, rounds::USUAL);
    for scenario in &inputs.scenarios {
        let named = |e: Error| match e.places().iter().any(|place| matches!(place, Place::File(_))) {
            true => e,
            false => Error::new(e.kind(), format!("scenario {:?}: {}", scenario.name, e.message()))
                .hint(e.hint_text().unwrap_or("`ffwd bench decode --list` shows scenarios that work")),
        };
        let ready = scenario.prepare(engine).map_err(named)?;
        let arms =
            Arms { wanted: &args.arms, threads, max_draft: args.max_draft, keep_prompts: args.keep_prompts };
        let mut measure = Measurement::new(engine, scenario, &ready, &arms)?;
        finished = measure.run(plan, stop)?;
        if let Some(mut result) = measure.result() {
            result.estimate = expected(engine, &ready[0], &mut costs)?;
            results.scenarios.push(result);
        }
        if !finished {
            break;
        }
        prepared.push((scenario.max_tokens(), ready));
    }
    let mut batches = None;
    if let Some(size) = args.batch.filter(|_| finished) {
        batches = Some(batch::compare(engine, &prepared, size.into(), plan, stop)?);
        results.batches = batches.as_ref().map(Grid::json);
    }
    let mut report = BenchReport::new("Decoding with drafts", environment.clone(), &results, Vec::new());
    results.show(&mut report);
    report.tables.extend(batches);
    if let Some(earlier) = &inputs.earlier {
        let (table, notes) = compare::compare(&environment, &results, earlier);
        report.tables.push(table);
        report.notes.extend(notes);
    }
    report.interrupted = (!finished).then_some("the last scenario has fewer rounds");
    Ok(report)
}

/// Which arms run, and what all of them have in common.
pub(crate) struct Arms<'a> {
    pub wanted: &'a [Arm],
    /// With several numbers, each is an arm of its own.
    pub threads: &'a [usize],
    pub max_draft: Option<usize>,
    pub keep_prompts: bool,
}

/// The samples of one arm.
#[derive(Default)]
pub(crate) struct Samples {
    /// Seconds of the very first output, in which the engine knows nothing.
    first_output: Option<f64>,
    pub seconds: Vec<f64>,
    first_token: Vec<f64>,
    /// Seconds of reading the prompt.
    pub prompt: Vec<f64>,
    pub last: Option<Output>,
}

impl Samples {
    /// Runs a request, whose times count in a round. Returns the output unless it was cancelled.
    pub(crate) fn run(&mut self, engine: &Engine, request: &Request, turn: Turn) -> Result<Option<&Output>> {
        let start = Instant::now();
        let output = engine.generate(request)?;
        let seconds = start.elapsed().as_secs_f64();
        if matches!(output.finish, Finish::Cancelled { .. }) {
            return Ok(None);
        }
        self.first_output.get_or_insert(seconds);
        if turn.round.is_some() {
            self.seconds.push(seconds);
            self.prompt.push(output.stats.spent.map_or(0.0, |spent| spent.prompt));
        }
        Ok(Some(self.last.insert(output)))
    }
}

/// The measurement of one scenario.
pub(crate) struct Measurement<'a> {
    scenario: &'a Scenario,
    prepared: &'a [ReadyScenario],
    arms: Vec<(Arm, Option<usize>, Engine)>,
    samples: Vec<Samples>,
    max_draft: Option<usize>,
    /// Tokens that the outputs without a constraint may have.
    free_tokens: usize,
}

impl<'a> Measurement<'a> {
    pub(crate) fn new(
        engine: &Engine,
        scenario: &'a Scenario,
        prepared: &'a [ReadyScenario],
        wanted: &Arms,
    ) -> Result<Self> {
        let has_draft = engine.draft().is_some();
        let applies = |arm: &Arm| arm.applies(prepared[0].grammar.is_some(), has_draft);
        let arms = Arm::chosen(wanted.wanted).filter(applies);
        let pools: Vec<Option<Threads>> = match wanted.threads {
            [] | [_] => vec![None],
            numbers => numbers.iter().map(|number| Some(Threads::new(*number))).collect(),
        };
        let pairs = arms.flat_map(|arm| pools.iter().map(move |pool| (arm, pool)));
        let arm = |(arm, pool): (Arm, &Option<Threads>)| {
            let engine = twin(engine, wanted.keep_prompts)?;
            Ok(match pool {
                Some(pool) => (arm, Some(pool.number()), engine.with_threads(pool)),
                None => (arm, None, engine),
            })
        };
        let arms = pairs.map(arm).collect::<Result<Vec<_>>>()?;
        let samples = arms.iter().map(|_| Samples::default()).collect();
        let free_tokens = scenario.max_tokens();
        Ok(Measurement { scenario, prepared, arms, samples, max_draft: wanted.max_draft, free_tokens })
    }

    /// Runs all rounds. Returns false if they were interrupted.
    pub(crate) fn run(&mut self, plan: Plan, stop: &CancelToken) -> Result<bool> {
        let bar = rounds::progress(plan, self.arms.len());
        bar.set_message(self.scenario.name.clone());
        let finished = interleave(self.arms.len(), plan, stop, |turn| {
            let ran = self.turn(turn, stop);
            bar.inc(1);
            ran
        });
        bar.finish_and_clear();
        finished
    }

    fn turn(&mut self, turn: Turn, stop: &CancelToken) -> Result<()> {
        let (arm, _, engine) = &self.arms[turn.arm];
        let tokens = match arm {
            Arm::Unconstrained => self.free_tokens,
            _ => self.scenario.max_tokens(),
        };
        let request = || {
            let ready = &self.prepared[turn.number % self.prepared.len()];
            let request = ready.request(*arm != Arm::Unconstrained).max_tokens(tokens);
            let request = self.max_draft.into_iter().fold(request, Request::max_draft);
            arm.apply(request).cancel(stop)
        };
        let samples = &mut self.samples[turn.arm];
        let Some(output) = samples.run(engine, &request(), turn)? else { return Ok(()) };
        if *arm == Arm::Off {
            self.free_tokens = output.tokens.len().max(1);
        }
        if turn.round.is_some_and(|round| round < FIRST_TOKEN_ROUNDS) {
            samples.first_token.extend(first_token(engine, request())?);
        }
        Ok(())
    }

    /// Returns the tokens of the last output of `off`.
    pub(crate) fn off_tokens(&self) -> &[TokenId] {
        self.samples.first().and_then(|samples| samples.last.as_ref()).map_or(&[], |output| &output.tokens)
    }

    /// Returns the results; none if no round was complete.
    pub(crate) fn result(&self) -> Option<ScenarioResult> {
        let off = self.samples.first()?;
        let off_text = &off.last.as_ref()?.text;
        // The time of reading the prompt, as `off` takes it.
        let prompt = Spread::of(&off.prompt).median;
        let arms = self.arms.iter().zip(&self.samples).filter(|(_, samples)| !samples.seconds.is_empty());
        let arms = arms.filter_map(|((arm, threads, _), samples)| {
            let output = samples.last.as_ref()?;
            let pairs = || off.seconds.iter().zip(&samples.seconds);
            let speedup: Vec<f64> = pairs().map(|(off, own)| off / own).collect();
            // An output of hardly any tokens takes no longer than its prompt.
            let alone = |seconds: &f64, prompt: f64| (seconds - prompt).max(seconds * LEAST_DECODING);
            // Other threads read the prompt in another time.
            let own_prompt = threads.map_or(prompt, |_| Spread::of(&samples.prompt).median);
            let decoding = pairs().map(|(off, own)| alone(off, prompt) / alone(own, own_prompt));
            let decoding: Vec<f64> = decoding.collect();
            Some(ArmResult {
                arm: *arm,
                threads: *threads,
                same_text: (*arm != Arm::Unconstrained).then_some(output.text == *off_text),
                text: output.text.clone(),
                finish: output.finish.name().to_owned(),
                tokens: output.stats.tokens,
                forwards: output.stats.forwards,
                draft_forwards: output.stats.draft_forwards,
                drafted: output.stats.drafted_by_source,
                accepted: output.stats.accepted_by_source,
                first_output_seconds: samples.first_output.unwrap_or_default(),
                seconds: Spread::of(&samples.seconds),
                first_token_seconds: Spread::of(&samples.first_token),
                speedup: Spread::of(&speedup),
                decoding_speedup: Spread::of(&decoding),
                samples: samples.seconds.clone(),
            })
        });
        Some(ScenarioResult {
            name: self.scenario.name.clone(),
            about: self.scenario.about.clone(),
            constraint: self.prepared[0].kind.to_owned(),
            prompt_tokens: off.last.as_ref()?.stats.prompt_tokens,
            prompt_seconds: prompt,
            max_tokens: self.scenario.max_tokens(),
            fraction: self.prepared[0].grammar.as_ref().map_or(0.0, |g| forced_share(g, self.off_tokens())),
            estimate: None,
            arms: arms.collect(),
        })
    }
}

/// Returns the estimate of `ffwd explain` for a JSON Schema, with costs that are measured at the first
/// one; `None` for other constraints.
fn expected(
    engine: &Engine,
    prepared: &ReadyScenario,
    costs: &mut Option<ForwardCosts>,
) -> Result<Option<Estimate>> {
    let (true, Some(grammar)) = (prepared.json, &prepared.grammar) else { return Ok(None) };
    let costs = match costs {
        Some(known) => known,
        None => costs.insert(ForwardCosts::measure(engine.target(), ForwardCosts::USUAL_PROMPT)?),
    };
    let mut walker = Walker::new(engine.vocabulary(), Walker::STRING_CHARS);
    estimate(grammar, &mut walker, costs).map(|(estimate, _)| Some(estimate))
}

/// Returns an engine with the same models that has learned nothing, and keeps prompts or none.
pub(crate) fn twin(engine: &Engine, keep_prompts: bool) -> Result<Engine> {
    let (target, draft) = (engine.target().clone(), engine.draft().cloned());
    let twin = Engine::from_parts(target, draft, engine.vocabulary().clone())?;
    Ok(if keep_prompts { twin } else { twin.with_prefix_bytes(0) })
}

/// Returns the seconds to the first token of a request, which is cancelled there.
fn first_token(engine: &Engine, request: Request) -> Result<Option<f64>> {
    let cancel = CancelToken::new();
    let request = request.cancel(&cancel);
    let (start, mut first) = (Instant::now(), None);
    engine.generate_events(&request, &mut |event| {
        if let Event::Stats(stats) = event
            && stats.tokens > 0
        {
            first.get_or_insert_with(|| start.elapsed().as_secs_f64());
            cancel.cancel();
        }
    })?;
    Ok(first)
}
