//! `ffwd extract`: a record from each text.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{DecodeArgs, ModelArgs, SpellingArgs, read};
use super::output;
use super::schema_refs::{ReferenceArgs, Supplied};
use crate::constraint::Constraint;
use crate::constraint::json_schema::JsonSchema;
use crate::constraint::substring::SubstringOptions;
use crate::decode::{Engine, Event, Finish, Handle, Output, Request, Scheduler, SchedulerOptions, Stats};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract;
use crate::matcher::CompiledGrammar;

/// Arguments of `ffwd extract`.
#[derive(clap::Args)]
#[command(
    after_help = "One file prints its record; several print JSON Lines with source, record and finish,\n\
    and of a record that was cut what there is of it as partial.\n\n\
    Examples:\n  ffwd extract invoice.txt --schema invoice.schema.json\n  \
    cat mail.txt | ffwd extract - --schema ticket.schema.json --stats -\n  \
    ffwd extract inbox/*.txt --schema ticket.schema.json --batch 16 > records.jsonl"
)]
pub(super) struct Args {
    /// Texts to read; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The JSON Schema that each record satisfies
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// Print each value as it comes, as JSON Lines with pointer, state (pending, partial, done) and value,
    /// before the record; for one file
    #[arg(long)]
    stream: bool,
    /// Run this many texts together; the records are the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Where to write the figures as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Values with `"x-verbatim": true` in the schema begin and end at words of the text
    #[arg(long)]
    whole_words: bool,
    #[command(flatten)]
    spelling: SpellingArgs,
    #[command(flatten)]
    references: ReferenceArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    models: ModelArgs,
}

/// A line of the output for several files.
#[derive(Serialize)]
struct Line<'a> {
    source: String,
    record: Option<&'a RawValue>,
    finish: &'a str,
    /// What there is of a record that was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What became of a file whose text the model has read.
struct Outcome {
    /// The record, or what there is of it.
    text: String,
    finish: &'static str,
    stats: Stats,
    /// Why it is no record.
    cut: Option<Error>,
}

/// Figures with the file they belong to, for several files.
#[derive(Serialize)]
struct Figures<'a> {
    source: String,
    #[serde(flatten)]
    stats: &'a Stats,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.decode.sampling_is_valid()?;
    if args.files.iter().filter(|f| *f == Path::new("-")).count() > 1 {
        return Err(Error::new(ErrorKind::InvalidOption, "standard input (-) is named more than once"));
    }
    if args.stream && args.files.len() > 1 {
        return Err(Error::new(ErrorKind::InvalidOption, "--stream with more than one file")
            .hint("stream one file at a time"));
    }
    let (schema, documents) = (read(&args.schema)?, args.references.read()?);
    let in_schema = |e: Error| e.at(Place::File(args.schema.clone()));
    // What is quoted differs from text to text; all else is compiled once.
    let constraint = match extract::is_quoting(&schema) {
        true => None,
        false => {
            let schema = documents.supply(JsonSchema::new(&schema)).policy(args.spelling.policy());
            let checked = schema.constraint().and_then(|constraint| args.spelling.checked(constraint));
            Some(checked.map_err(in_schema)?)
        }
    };
    constraint.as_ref().into_iter().for_each(warn);
    let engine = Arc::new(args.models.engine()?);
    let compile = |constraint: &Constraint| engine.compiler().compile(constraint).map_err(in_schema);
    let grammar = constraint.as_ref().map(compile).transpose()?;
    let job = Job {
        args,
        engine: &engine,
        schema: &schema,
        documents: &documents,
        shared: constraint.zip(grammar),
    };
    if let [file] = &args.files[..] {
        let outcome = one(&job, file, true)?;
        if outcome.cut.is_none() {
            output::line(&outcome.text)?;
        }
        output::print_summary(&outcome.stats);
        if let Some(path) = &args.stats {
            output::write_stats(path, &outcome.stats)?;
        }
        let Some(error) = outcome.cut else { return Ok(ExitCode::SUCCESS) };
        eprintln!("so far: {}", outcome.text);
        return Err(error);
    }
    many(&job)
}

impl Outcome {
    /// Its line of the output.
    fn line(&self, source: &str) -> Result<String> {
        let (record, partial) = match self.cut {
            None => (serde_json::from_str::<&RawValue>(&self.text).ok(), None),
            Some(_) => (None, Some(&*self.text)),
        };
        let error = self.cut.as_ref().map(Error::to_string);
        json(&Line { source: source.into(), record, finish: self.finish, partial, error })
    }
}

/// What all files have in common.
struct Job<'a> {
    args: &'a Args,
    engine: &'a Arc<Engine>,
    schema: &'a str,
    documents: &'a Supplied,
    /// The constraint, if it is the same for all texts.
    shared: Option<(Constraint, CompiledGrammar)>,
}

fn warn(constraint: &Constraint) {
    for warning in constraint.warnings() {
        eprintln!("warning: {warning}");
    }
}

/// What is asked of the engine for one file.
fn request(job: &Job, file: &Path, first: bool) -> Result<Request> {
    let Job { args, engine, schema, documents, .. } = *job;
    let text = read(file)?;
    let in_file = |e: Error| e.at(Place::File(file.into()));
    let request = match &job.shared {
        Some((constraint, grammar)) => {
            extract::request_for(constraint.clone(), schema, &text)?.grammar(grammar.clone())
        }
        None => {
            let bounds =
                if args.whole_words { SubstringOptions::words() } else { SubstringOptions::default() };
            let constraint = documents
                .supply(JsonSchema::new(schema))
                .policy(args.spelling.policy())
                .quoting(&text, &bounds)
                .constraint()
                .and_then(|constraint| args.spelling.checked(constraint))
                .map_err(|e| in_file(e.at(Place::File(args.schema.clone()))))?;
            if first {
                warn(&constraint);
            }
            extract::request_for(constraint, schema, &text)?
        }
    };
    let prompt = engine.extraction_prompt(schema, &text).map_err(in_file)?;
    Ok(args.decode.apply(request.prompt(prompt)))
}

fn one(job: &Job, file: &Path, first: bool) -> Result<Outcome> {
    let request = request(job, file, first)?;
    let mut written = Ok(());
    let output = match job.args.stream {
        false => job.engine.generate(&request),
        true => job.engine.generate_events(&request, &mut |event| {
            if let Event::Field(field) = event
                && written.is_ok()
            {
                written = json(field).and_then(|line| output::line(&line));
            }
        }),
    };
    let outcome = outcome_of(job, file, output);
    written?;
    outcome
}

/// What the engine gave for a file.
fn outcome_of(job: &Job, file: &Path, output: Result<Output>) -> Result<Outcome> {
    let in_file = |e: Error| e.at(Place::File(file.into()));
    let output = output.map_err(in_file)?;
    let (text, finish, stats) = (output.text.clone(), output.finish.name(), output.stats.clone());
    if output.finish == Finish::Closed {
        eprintln!(
            "closed before the limit of {} tokens; the last values are not the model's",
            job.args.decode.max_tokens()
        );
    }
    let cut = extract::finished(output).err().map(in_file);
    Ok(Outcome { text, finish, stats, cut })
}

/// Hands what became of each file to `take`, in the order of the files.
fn for_each_file(job: &Job, mut take: impl FnMut(&Path, Result<Outcome>) -> Result<()>) -> Result<()> {
    let args = job.args;
    if args.batch == 1 {
        return args.files.iter().enumerate().try_for_each(|(at, file)| take(file, one(job, file, at == 0)));
    }
    let batch = usize::from(args.batch);
    let scheduler = Scheduler::new(job.engine.clone(), SchedulerOptions::with_batch(batch))?;
    let mut under_way: VecDeque<(&Path, Result<Handle>)> = VecDeque::new();
    let mut files = args.files.iter().enumerate();
    loop {
        // Enough to keep the batch full while the first is waited for.
        while under_way.len() < 2 * batch
            && let Some((at, file)) = files.next()
        {
            let handle = request(job, file, at == 0).and_then(|request| scheduler.submit(request));
            under_way.push_back((file, handle));
        }
        let Some((file, handle)) = under_way.pop_front() else { return Ok(()) };
        take(file, handle.and_then(|handle| outcome_of(job, file, handle.wait())))?;
    }
}

/// Every file gets its line, whatever becomes of the others; the exit code tells whether all went well.
fn many(job: &Job) -> Result<ExitCode> {
    let args = job.args;
    let mut all = Vec::new();
    let mut failed = 0;
    let bar = progress(args.files.len());
    let start = Instant::now();
    for_each_file(job, |file, outcome| {
        let source = file.display().to_string();
        let line = match outcome {
            Ok(outcome) => {
                if let Some(gate) = &outcome.stats.gate {
                    bar.suspend(|| eprint!("{source}:\n{gate}"));
                }
                let line = outcome.line(&source)?;
                failed += usize::from(outcome.cut.is_some());
                if let Some(error) = &outcome.cut {
                    bar.suspend(|| eprintln!("error: {error}"));
                }
                all.push((source, outcome.stats));
                line
            }
            Err(error) => {
                failed += 1;
                bar.suspend(|| eprintln!("error: {error}"));
                let error = Some(error.to_string());
                json(&Line { source, record: None, finish: "error", partial: None, error })?
            }
        };
        bar.suspend(|| output::line(&line))?;
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    let sum = |f: fn(&Stats) -> usize| all.iter().map(|(_, s)| f(s)).sum::<usize>();
    eprintln!(
        "{} of {} records, {} tokens in {} forwards, {} forced, {} drafted, {} accepted, {:.2} s",
        args.files.len() - failed,
        args.files.len(),
        sum(|s| s.tokens),
        sum(|s| s.forwards),
        sum(|s| s.forced),
        sum(|s| s.drafted),
        sum(|s| s.accepted),
        // In a batch the seconds of the records overlap.
        match args.batch {
            1 => all.iter().map(|(_, s)| s.seconds).sum::<f64>(),
            _ => start.elapsed().as_secs_f64(),
        },
    );
    if let Some(path) = &args.stats {
        let figures: Vec<Figures> =
            all.iter().map(|(source, stats)| Figures { source: source.clone(), stats }).collect();
        output::write_stats(path, &figures)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json(line: &impl Serialize) -> Result<String> {
    serde_json::to_string(line)
        .map_err(|e| Error::new(ErrorKind::Io, format!("a record cannot be written as JSON: {e}")))
}

/// A bar on standard error, if that is a terminal.
fn progress(files: usize) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new(files as u64);
    if let Ok(style) = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} files, {eta} left") {
        bar.set_style(style);
    }
    bar
}
