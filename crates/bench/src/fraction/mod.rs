//! `ffwd bench fraction`: the speedup of each mode by the deterministic fraction, the share of the
//! output tokens that the constraint forces.

mod layout;
mod report;

use std::path::PathBuf;

use ffwd_runtime::decode::{CancelToken, forced_share};
use ffwd_runtime::extract::corpus::read_text;
use ffwd_runtime::speedup::{ForwardCosts, Spread};
use ffwd_runtime::{Engine, Error, ErrorKind, Prompt, Request, Result, TokenId};

use crate::arm::Arm;
use crate::decode::{Arms, Measurement, Samples, twin};
use crate::environment::{Environment, ModelNames};
use crate::report::BenchReport;
use crate::rounds::{self, Plan, RoundArgs, interleave};
use crate::scenario::Scenario;
use layout::Layout;
use report::{Ceilings, FractionArm, FractionPoint, FractionResults, SchemaPoint};

const PROMPT: &str = "The list of all open orders, with the names of the customers:\n";
/// Longest draft of a request.
const MAX_DRAFT: usize = 24;
const ARMS: [Arm; 5] = [Arm::Off, Arm::Exact, Arm::Forced, Arm::Canonical, Arm::Longest];

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure these fractions, with commas between them, from 0 to 0.98
    #[arg(
        long,
        value_name = "F,...",
        value_delimiter = ',',
        default_value = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,0.95",
        value_parser = fraction
    )]
    fractions: Vec<f64>,
    /// Generate N tokens in each output
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(8..=1000))]
    tokens: u16,
    /// Force N tokens in a row, or more where a high fraction needs it
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=200))]
    run: u16,
    /// Mark the extraction of records that are valid against the JSON Schema in FILE
    #[arg(short, long, value_name = "FILE", requires = "text")]
    schema: Option<PathBuf>,
    /// Extract the record of --schema from the text in FILE
    #[arg(long, value_name = "FILE", requires = "schema")]
    text: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundArgs,
}

fn fraction(text: &str) -> std::result::Result<f64, String> {
    let parsed = text.trim().parse::<f64>().ok().filter(|f| (0.0..=0.98).contains(f));
    parsed.ok_or_else(|| format!("{text:?} is not a number from 0 to 0.98"))
}

/// Measures each fraction with an engine.
///
/// # Errors
/// If a file cannot be read, the vocabulary has too few words, or a generation fails.
pub fn run(args: &Args, engine: &Engine, models: &ModelNames, stop: &CancelToken) -> Result<BenchReport> {
    let extraction = match (&args.schema, &args.text) {
        (Some(schema), Some(text)) => Some(Scenario::extraction(read_text(schema)?, read_text(text)?)),
        _ => None,
    };
    let (tokens, run) = (usize::from(args.tokens), usize::from(args.run));
    let prompt = engine.vocabulary().encode(PROMPT)?.len();
    let mut results = FractionResults {
        tokens,
        run,
        max_draft: MAX_DRAFT,
        costs: ForwardCosts::measure(engine.target(), prompt + tokens / 2)?,
        points: Vec::new(),
        schema: None,
    };
    let arms = ARMS.map(|arm| twin(engine, false).map(|engine| (arm, engine)));
    let arms = arms.into_iter().collect::<Result<Vec<_>>>()?;
    let plan = args.rounds.plan(args.fractions.len() + usize::from(extraction.is_some()), rounds::USUAL);
    let mut finished = true;
    for &fraction in &args.fractions {
        let sweep = Sweep { arms: &arms, layout: Layout::new(tokens, fraction, run), fraction };
        let (point, done) = sweep.measure(plan, &results.costs, stop)?;
        results.points.extend(point);
        finished = done;
        if !finished {
            break;
        }
    }
    if let Some(extraction) = extraction.filter(|_| finished) {
        results.schema = schema_point(engine, &extraction, plan, stop)?;
    }
    let mut report = results.report(Environment::of_engine(engine, models));
    report.interrupted = (!finished).then_some("some fractions are missing");
    Ok(report)
}

/// The measurement of one fraction.
struct Sweep<'a> {
    arms: &'a [(Arm, Engine)],
    layout: Layout,
    fraction: f64,
}

impl Sweep<'_> {
    /// Returns the point, and false if the rounds were interrupted.
    fn measure(
        &self,
        plan: Plan,
        costs: &ForwardCosts,
        stop: &CancelToken,
    ) -> Result<(Option<FractionPoint>, bool)> {
        let vocab = self.arms[0].1.vocabulary();
        let constraint = self.layout.constraint(vocab)?;
        let grammar = self.arms[0].1.compiler().compile(&constraint)?;
        let mut samples: Vec<Samples> = self.arms.iter().map(|_| Samples::default()).collect();
        let bar = rounds::progress(plan, self.arms.len());
        bar.set_message(format!("fraction {:.2}", self.fraction));
        let finished = interleave(self.arms.len(), plan, stop, |turn| {
            let (arm, engine) = &self.arms[turn.arm];
            // Greedy words would soon repeat themselves, and copies of them would hide the fraction.
            let request = Request::new(Prompt::text(PROMPT)).temperature(1.0).grammar(grammar.clone());
            let request = arm.apply(request.max_tokens(self.layout.tokens)).max_draft(MAX_DRAFT).cancel(stop);
            samples[turn.arm].run(engine, &request, turn)?;
            bar.inc(1);
            Ok(())
        })?;
        bar.finish_and_clear();
        let off = samples[0].last.as_ref().map(|output| output.tokens.clone()).unwrap_or_default();
        let share = forced_share(&grammar, &off);
        Ok((self.point(&samples, &off, share, costs), finished))
    }

    fn point(
        &self,
        samples: &[Samples],
        off_tokens: &[TokenId],
        share: f64,
        costs: &ForwardCosts,
    ) -> Option<FractionPoint> {
        let off = samples.first()?;
        let prompt = Spread::of(&off.prompt).median;
        let alone = |seconds: f64| (seconds - prompt).max(1e-9);
        let arms = self.arms.iter().zip(samples).filter_map(|((arm, _), samples)| {
            let output = samples.last.as_ref().filter(|_| !samples.seconds.is_empty())?;
            let pairs = off.seconds.iter().zip(&samples.seconds);
            let speedup: Vec<f64> = pairs.map(|(off, own)| alone(*off) / alone(*own)).collect();
            let seconds: Vec<f64> = samples.seconds.iter().map(|s| alone(*s)).collect();
            Some(FractionArm {
                arm: *arm,
                seconds: Spread::of(&seconds),
                speedup: Spread::of(&speedup),
                tokens: output.tokens.len(),
                forwards: output.stats.forwards,
                same_text: output.tokens == off_tokens,
            })
        });
        let arms: Vec<FractionArm> = arms.collect();
        (!arms.is_empty()).then(|| FractionPoint {
            wanted: self.fraction,
            fraction: share,
            runs: self.layout.runs.len(),
            longest_run: self.layout.runs.iter().copied().max().unwrap_or_default(),
            ceilings: Ceilings::of(&self.layout, costs),
            arms,
        })
    }
}

/// Measures the extraction with a schema of the user.
fn schema_point(
    engine: &Engine,
    scenario: &Scenario,
    plan: Plan,
    stop: &CancelToken,
) -> Result<Option<SchemaPoint>> {
    let prepared = scenario.prepare(engine)?;
    let arms = Arms { wanted: &ARMS, threads: &[], max_draft: None, keep_prompts: false };
    let mut measurement = Measurement::new(engine, scenario, &prepared, &arms)?;
    measurement.run(plan, stop)?;
    let (Some(result), Some(grammar)) = (measurement.result(), &prepared[0].grammar) else { return Ok(None) };
    let Some(off) = result.arms.first() else { return Ok(None) };
    let tokens = measurement.off_tokens();
    if tokens.is_empty() {
        return Err(Error::new(ErrorKind::Incomplete, "the output of off is empty"));
    }
    Ok(Some(SchemaPoint {
        fraction: forced_share(grammar, tokens),
        tokens: off.tokens,
        text: off.text.clone(),
        arms: result
            .arms
            .iter()
            .map(|arm| FractionArm {
                arm: arm.arm,
                seconds: arm.seconds.map(|s| (s - result.prompt_seconds).max(0.0)),
                speedup: arm.decoding_speedup,
                tokens: arm.tokens,
                forwards: arm.forwards,
                same_text: arm.same_text == Some(true),
            })
            .collect(),
    }))
}
