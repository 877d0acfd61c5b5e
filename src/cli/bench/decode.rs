//! `ffwd bench decode`: the arms of decoding on scenarios, in interleaved rounds.
//!
//! Each arm has an engine of its own, so that none learns from another. The engines share the
//! weights. No prefix of a prompt is kept, so each run reads its prompt.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use super::super::args::{ModelArgs, read_text};
use super::super::explain::{self, Estimate, Walker};
use super::super::{help, output};
use super::about::About;
use super::arms::Arm;
use super::compare;
use super::decode_report::{ArmResult, DecodeReport, ScenarioResult};
use super::outputs::ReportArgs;
use super::rounds::{self, RoundArgs, Turn, interleave, keep_named};
use super::scenario::{self, ReadyScenario, Scenario};
use crate::Threads;
use crate::cli::forward_costs::ForwardCosts;
use crate::cli::spread::Spread;
use crate::decode::{CancelToken, Engine, Event, Finish, Output, Request, forced_share};
use crate::error::{Error, Place, Result};
use crate::vocab::TokenId;

const EXAMPLES: [(&str, &str); 5] = [
    ("Measure the scenarios of the program", "ffwd bench decode --html decode.html"),
    (
        "Measure one's own schema and text with a model",
        "ffwd bench decode --schema ticket.schema.json --text mail.txt --model qwen.gguf",
    ),
    ("Take the time of two scenarios only", "ffwd bench decode --only contact --only invoice --quick"),
    ("Measure one and two threads", "ffwd bench decode --arms off,exact --threads 1,2"),
    ("Compare with an earlier run", "ffwd bench decode --json new.json --compare old.json"),
];

/// Rounds in which the time to the first token is taken.
const FIRST_TOKEN_ROUNDS: usize = 5;

/// Smallest share of an output's time that counts as decoding.
const LEAST_DECODING: f64 = 0.02;

/// Measure decoding in all modes and with each draft source alone
///
/// The arms take turns. The table has the median of each and, as a share of it, half the distance of
/// its quartiles. Times include the prompt, which is read anew each time.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Read the scenarios in FILE instead of those of the program
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    scenarios: Option<PathBuf>,
    /// Run the scenario NAME only (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the scenarios of the program as TOML, and measure nothing
    #[arg(long)]
    list: bool,
    /// Measure the extraction of records that are valid against the JSON Schema in FILE
    #[arg(short, long, value_name = "FILE", requires = "text")]
    schema: Option<PathBuf>,
    /// Extract the record of --schema from the text in FILE
    #[arg(long, value_name = "FILE", requires = "schema")]
    text: Option<PathBuf>,
    /// Run these arms and `off`, with commas between them [default: all that apply]
    #[arg(long, value_enum, value_name = "ARM,...", value_delimiter = ',', hide_possible_values = true)]
    arms: Vec<Arm>,
    /// Compare with the results of --json in FILE
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    models: ModelArgs,
}

impl Args {
    fn scenarios(&self) -> Result<Vec<Scenario>> {
        let mut scenarios = match (&self.scenarios, &self.schema, &self.text) {
            (_, Some(schema), Some(text)) => {
                vec![Scenario::extraction(read_text(schema)?, read_text(text)?)]
            }
            (Some(file), ..) => scenario::read(file)?,
            _ => scenario::own()?,
        };
        keep_named(&mut scenarios, &self.only, |scenario| &scenario.name, "scenario")?;
        Ok(scenarios)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        output::print_line(scenario::own_text().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let old = args.compare.as_deref().map(compare::read).transpose()?;
    let scenarios = args.scenarios()?;
    args.report.check()?;
    let marks = scenarios.iter().map(Scenario::marks).collect::<Result<Vec<_>>>()?.concat();
    let engine = args.models.engine_of_first_threads(marks)?;
    let stop = rounds::interrupts()?;
    let mut estimator = Estimator::default();
    let mut report = DecodeReport { about: About::of(&engine, &args.models), ..DecodeReport::default() };
    for scenario in &scenarios {
        let named = |e: Error| match e.places().iter().any(|place| matches!(place, Place::File(_))) {
            true => e,
            false => Error::new(e.kind(), format!("scenario {:?}: {}", scenario.name, e.message()))
                .hint(e.hint_text().unwrap_or("`ffwd bench decode --list` shows scenarios that work")),
        };
        let prepared = scenario.prepare(&engine).map_err(named)?;
        let mut measure =
            Measurement::new(&engine, scenario, &prepared, (&args.arms, args.models.threads()))?;
        let finished = measure.run(&args.rounds, scenarios.len(), &stop)?;
        if let Some(mut result) = measure.result() {
            result.estimate = estimator.estimate(&engine, &prepared)?;
            report.scenarios.push(result);
        }
        if !finished {
            report.interrupted = true;
            break;
        }
    }
    report.comparison = old.map(|old| compare::compare(&report, &old).text());
    args.report.finish(&report)
}

/// The samples of one arm.
#[derive(Default)]
pub(super) struct Samples {
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
    pub(super) fn run(&mut self, engine: &Engine, request: &Request, turn: Turn) -> Result<Option<&Output>> {
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
pub(super) struct Measurement<'a> {
    scenario: &'a Scenario,
    prepared: &'a ReadyScenario,
    arms: Vec<(Arm, Option<usize>, Engine)>,
    samples: Vec<Samples>,
    /// Tokens that the outputs without a constraint may have.
    free_tokens: usize,
}

impl<'a> Measurement<'a> {
    pub(super) fn new(
        engine: &Engine,
        scenario: &'a Scenario,
        prepared: &'a ReadyScenario,
        (wanted, threads): (&[Arm], &[usize]),
    ) -> Result<Self> {
        let has_draft = engine.draft().is_some();
        let is_wanted = |arm: &Arm| wanted.is_empty() || *arm == Arm::Off || wanted.contains(arm);
        let applies = |arm: &Arm| arm.applies(prepared.grammar.is_some(), has_draft);
        let arms = Arm::all().filter(|arm| is_wanted(arm) && applies(arm));
        // Several numbers of threads are arms of their own.
        let pools: Vec<Option<Threads>> = match threads {
            [] | [_] => vec![None],
            numbers => numbers.iter().map(|number| Some(Threads::new(*number))).collect(),
        };
        let pairs = arms.flat_map(|arm| pools.iter().map(move |pool| (arm, pool)));
        let arm = |(arm, pool): (Arm, &Option<Threads>)| {
            let engine = twin(engine)?;
            Ok(match pool {
                Some(pool) => (arm, Some(pool.number()), engine.with_threads(pool)),
                None => (arm, None, engine),
            })
        };
        let arms = pairs.map(arm).collect::<Result<Vec<_>>>()?;
        let samples = arms.iter().map(|_| Samples::default()).collect();
        Ok(Measurement { scenario, prepared, arms, samples, free_tokens: scenario.max_tokens() })
    }

    /// Runs all rounds. Returns false if they were interrupted.
    pub(super) fn run(&mut self, args: &RoundArgs, parts: usize, stop: &CancelToken) -> Result<bool> {
        let plan = args.plan(parts);
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
            let request = self.prepared.request(*arm != Arm::Unconstrained);
            arm.apply(request.max_tokens(tokens)).cancel(stop)
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
    pub(super) fn off_tokens(&self) -> &[TokenId] {
        self.samples.first().and_then(|samples| samples.last.as_ref()).map_or(&[], |output| &output.tokens)
    }

    /// Returns the results; none if no round was complete.
    pub(super) fn result(&self) -> Option<ScenarioResult> {
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
            constraint: self.prepared.kind.to_owned(),
            prompt_tokens: off.last.as_ref()?.stats.prompt_tokens,
            prompt_seconds: prompt,
            max_tokens: self.scenario.max_tokens(),
            fraction: self.prepared.grammar.as_ref().map_or(0.0, |g| forced_share(g, self.off_tokens())),
            estimate: None,
            arms: arms.collect(),
        })
    }
}

/// What the estimates of `ffwd explain` need, measured at the first one.
#[derive(Default)]
struct Estimator {
    costs: Option<ForwardCosts>,
}

impl Estimator {
    /// Returns the estimate for a JSON Schema; `None` for other constraints.
    fn estimate(&mut self, engine: &Engine, prepared: &ReadyScenario) -> Result<Option<Estimate>> {
        let (true, Some(grammar)) = (prepared.json, &prepared.grammar) else { return Ok(None) };
        let costs = match &self.costs {
            Some(known) => known,
            None => self.costs.insert(ForwardCosts::measure(engine.target(), explain::CACHED)?),
        };
        let mut walker = Walker::new(engine.vocabulary(), explain::STRING_CHARS);
        explain::estimate(grammar, &mut walker, costs).map(|(estimate, _)| Some(estimate))
    }
}

/// Returns an engine with the same models that has learned nothing and keeps no prompts.
pub(super) fn twin(engine: &Engine) -> Result<Engine> {
    let (target, draft) = (engine.target().clone(), engine.draft().cloned());
    Ok(Engine::from_parts(target, draft, engine.vocabulary().clone())?.with_prefix_bytes(0))
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
