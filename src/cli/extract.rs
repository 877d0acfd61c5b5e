//! `ffwd extract`: a JSON record from each text.
//!
//! All files share one compiled constraint, unless the schema copies strings from the text: then
//! each file has its own. A failure of one file does not stop the others.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{DecodeArgs, JsonArgs, ModelArgs, read_text};
use super::schema_refs::{Documents, ReferenceArgs};
use super::value_args::{self, ValueArgs};
use super::{help, output};
use crate::constraint::substring::SubstringOptions;
use crate::constraint::{Constraint, Policy, Whitespace};
use crate::decode::{Engine, Event, Finish, Handle, Output, Request, Scheduler, SchedulerOptions, Stats};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::{self, Example, Extractor};

const EXAMPLES: [(&str, &str); 4] = [
    ("Extract one record", "ffwd extract invoice.txt --schema invoice.schema.json"),
    (
        "Read the text from standard input, and print statistics too",
        "cat mail.txt | ffwd extract - --schema ticket.schema.json --stats -",
    ),
    (
        "Process many files in batches of 16",
        "ffwd extract inbox/*.txt -s ticket.schema.json --batch 16 > records.jsonl",
    ),
    (
        "Tell a model more about the record, and look at the prompt",
        "ffwd extract mail.txt -s ticket.schema.json -m qwen.gguf --example solved.json \\\n  \
            --instructions 'The customer is the sender.' --show-prompt",
    ),
];

const OUTPUT: [&str; 5] = [
    "One file prints its record, or as much as there is if the record is incomplete.",
    "Several files print JSON Lines, in the order of the files, with `source`, `record`",
    "and `finish`. An incomplete record has its text in `partial`, and each failure has",
    "its message in `error`. The exit code is 1 if any file failed or any record is",
    "incomplete.",
];

/// Extract a JSON record from each text, valid against a JSON Schema
///
/// The model reads the schema and the text, and fills in the record. The schema is also the
/// constraint, so each record parses and validates. Let the schema allow null where a text may lack
/// a value. Objects have no properties that the schema does not mention, unless it says otherwise.
#[derive(clap::Args)]
#[command(
    after_help = help::examples(&EXAMPLES),
    after_long_help = help::sections(&[help::note("Output", &OUTPUT), help::examples(&EXAMPLES)]),
)]
pub(super) struct Args {
    /// Read these texts (`-` = standard input)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Generate records that are valid against the JSON Schema in FILE
    #[arg(short, long, value_name = "FILE")]
    schema: PathBuf,
    /// Allow properties that the schema does not mention, as the JSON Schema standard does
    ///
    /// Without this option, objects are closed: they have the properties that the schema declares
    /// or requires. Objects without declared properties stay open, as do those with
    /// patternProperties, additionalProperties or unevaluatedProperties.
    #[arg(long)]
    open_objects: bool,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Print each value while it is generated, as JSON Lines, before the record
    ///
    /// Each line has `pointer`, `state` (pending, partial or done) and `value`. Only for one file.
    #[arg(long)]
    stream: bool,
    /// Process N texts together; the records are the same
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    batch: u16,
    /// Write statistics as JSON to FILE (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Begin and end strings with `"x-verbatim": true` in the schema at words of the text
    #[arg(long)]
    whole_words: bool,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    references: ReferenceArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    models: ModelArgs,
}

/// Options of the prompt.
#[derive(clap::Args)]
#[command(next_help_heading = "Prompt")]
struct PromptArgs {
    /// Print the prompt for each text, and generate nothing
    #[arg(long, conflicts_with_all = ["stream", "stats"])]
    show_prompt: bool,
    /// Replace the user message of the prompt by the template in FILE
    ///
    /// Its placeholders are {text}, which it needs, {schema}, {fields} (the properties as a list),
    /// {notes} (on dates, numbers and the like), {instructions} and {examples}. {{ and }} are
    /// braces. A placeholder on a line of its own disappears with its line if it has no value.
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// Set the system message of the prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Add TEXT to the prompt, such as what a property means
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    instructions: Option<String>,
    /// Show the model the example in FILE, JSON with `text` and `record` (repeatable)
    #[arg(long, value_name = "FILE")]
    example: Vec<PathBuf>,
}

/// A line of the output for several files.
#[derive(Serialize)]
struct Line<'a> {
    source: String,
    record: Option<&'a RawValue>,
    finish: &'a str,
    /// The text of an incomplete record.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Output of the model for one file.
struct Outcome {
    /// The record, or the part of it that was generated.
    text: String,
    finish: &'static str,
    stats: Stats,
    /// The error of an incomplete record.
    incomplete: Option<Error>,
}

/// Statistics of one of several files.
#[derive(Serialize)]
struct FileStats<'a> {
    source: String,
    #[serde(flatten)]
    stats: &'a Stats,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.decode.validate()?;
    if args.files.iter().filter(|f| *f == Path::new("-")).count() > 1 {
        return Err(Error::new(ErrorKind::InvalidOption, "standard input (-) is named more than once"));
    }
    if args.stream && args.files.len() > 1 {
        return Err(Error::new(ErrorKind::InvalidOption, "--stream with more than one file")
            .hint("stream one file at a time"));
    }
    let (schema, documents) = (read_text(&args.schema)?, args.references.read()?);
    check_schema(args, &schema, &documents)?;
    let engine = Arc::new(args.models.engine()?);
    let extractor = extractor(args, &engine, &schema, &documents)?;
    if args.prompt.show_prompt {
        return show_prompts(args, &extractor);
    }
    output::print_warnings(extractor.warnings());
    let job = Job { args, engine: &engine, extractor: &extractor };
    if let [file] = &args.files[..] {
        let outcome = extract_file(&job, file, true)?;
        // A stream has the values of a record that was cut.
        if outcome.incomplete.is_none() || !args.stream {
            output::print_line(&outcome.text)?;
        }
        output::print_summary(&outcome.stats);
        if let Some(path) = &args.stats {
            output::write_stats(path, &outcome.stats)?;
        }
        return outcome.incomplete.map_or(Ok(ExitCode::SUCCESS), Err);
    }
    extract_all(&job)
}

/// Reads the schema before a model is loaded, so that a wrong one fails at once.
fn check_schema(args: &Args, schema: &str, documents: &Documents) -> Result<()> {
    // Strings that are spans of a text need one.
    if schema.contains("\"x-verbatim\"") {
        return Ok(());
    }
    let policy = Policy { closed_objects: !args.open_objects, ..args.json.policy(Whitespace::Compact) };
    let read = documents.add_to(Constraint::builder().policy(policy)).json_schema(schema);
    match read.and_then(|constraint| args.json.check_warnings(constraint)) {
        // The extractor has a hint about closed objects.
        Err(e) if e.kind() != ErrorKind::Unsatisfiable => Err(e.at(Place::File(args.schema.clone()))),
        _ => Ok(()),
    }
}

/// Builds the extractor that all files share.
fn extractor(args: &Args, engine: &Engine, schema: &str, documents: &Documents) -> Result<Extractor> {
    let policy = Policy { closed_objects: !args.open_objects, ..args.json.policy(engine.whitespace()) };
    let spans = if args.whole_words { SubstringOptions::words() } else { SubstringOptions::default() };
    let mut builder = Extractor::builder(engine).policy(policy).spans(spans);
    for (uri, text) in &documents.0 {
        builder = builder.document(uri, text);
    }
    let PromptArgs { prompt, system, instructions, example, .. } = &args.prompt;
    let template = prompt.as_deref().map(read_text).transpose()?;
    for file in example {
        let example = Example::from_json(read_text(file)?).map_err(|e| e.at(Place::File(file.clone())))?;
        builder = builder.example(example.in_file(file));
    }
    builder = template.iter().fold(builder, |builder, text| builder.prompt(text.trim_end_matches('\n')));
    builder = system.iter().fold(builder, |builder, text| builder.system(text));
    builder = instructions.iter().fold(builder, |builder, text| builder.instructions(text));
    builder.build(schema).map_err(|e| match prompt {
        _ if e.places().iter().any(|place| matches!(place, Place::File(_))) => e,
        Some(file) if e.kind() == ErrorKind::InvalidOption => e.at(Place::File(file.clone())),
        _ => e.at(Place::File(args.schema.clone())),
    })
}

/// Prints the prompt for each file.
fn show_prompts(args: &Args, extractor: &Extractor) -> Result<ExitCode> {
    for file in &args.files {
        let prompt = extractor.prompt(read_text(file)?).map_err(|e| e.at(Place::File(file.clone())))?;
        output::print_line(prompt.to_text().trim_end_matches('\n'))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Outcome {
    /// Returns the line of the output for this file.
    fn line(&self, source: &str) -> Result<String> {
        let (record, partial) = match self.incomplete {
            None => (serde_json::from_str::<&RawValue>(&self.text).ok(), None),
            Some(_) => (None, Some(&*self.text)),
        };
        let error = self.incomplete.as_ref().map(Error::to_string);
        json(&Line { source: source.into(), record, finish: self.finish, partial, error })
    }
}

/// What all files share.
struct Job<'a> {
    args: &'a Args,
    engine: &'a Arc<Engine>,
    extractor: &'a Extractor,
}

/// Builds the request for one file.
fn request(job: &Job, file: &Path, first: bool) -> Result<Request> {
    let Job { args, extractor, .. } = *job;
    let text = read_text(file)?;
    let in_file = |e: Error| e.at(Place::File(file.into()));
    if extractor.shared_constraint().is_none() {
        let in_schema = |e: Error| in_file(e.at(Place::File(args.schema.clone())));
        let constraint = extractor.constraint(Some(&text)).map_err(in_schema)?;
        let constraint = args.json.check_warnings(constraint).map_err(in_schema)?;
        if first {
            output::print_warnings(constraint.warnings());
        }
    }
    let request = extractor.request(&text).map_err(in_file)?;
    Ok(args.values.apply(args.decode.apply(request)))
}

fn extract_file(job: &Job, file: &Path, first: bool) -> Result<Outcome> {
    let request = request(job, file, first)?;
    let mut written = Ok(());
    let output = match job.args.stream {
        false => job.engine.generate(&request),
        true => job.engine.generate_events(&request, &mut |event| {
            if let Event::Field(field) = event
                && written.is_ok()
            {
                written = json(field).and_then(|line| output::print_line(&line));
            }
        }),
    };
    let outcome = outcome_of(job, file, output);
    written?;
    outcome
}

/// Converts the engine's output for a file; one that the token limit cut is not an error here.
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
    for message in value_args::messages(&stats) {
        match job.args.files.len() {
            1 => eprintln!("{message}"),
            _ => eprintln!("{}: {message}", file.display()),
        }
    }
    let incomplete = extract::finished(output).err().map(in_file);
    Ok(Outcome { text, finish, stats, incomplete })
}

/// Processes all files and passes each outcome to `take`, in the order of the files.
fn for_each_file(job: &Job, mut take: impl FnMut(&Path, Result<Outcome>) -> Result<()>) -> Result<()> {
    let args = job.args;
    if args.batch == 1 {
        return args
            .files
            .iter()
            .enumerate()
            .try_for_each(|(at, file)| take(file, extract_file(job, file, at == 0)));
    }
    let batch = usize::from(args.batch);
    let scheduler = Scheduler::new(job.engine.clone(), SchedulerOptions::with_batch(batch))?;
    let mut in_flight: VecDeque<(&Path, Result<Handle>)> = VecDeque::new();
    let mut files = args.files.iter().enumerate();
    loop {
        // Enough requests to keep the batch full during the wait for the first of them.
        while in_flight.len() < 2 * batch
            && let Some((at, file)) = files.next()
        {
            let handle = request(job, file, at == 0).and_then(|request| scheduler.submit(request));
            in_flight.push_back((file, handle));
        }
        let Some((file, handle)) = in_flight.pop_front() else { return Ok(()) };
        take(file, handle.and_then(|handle| outcome_of(job, file, handle.wait())))?;
    }
}

/// Prints a line for each file; returns the exit code 1 if any of them failed.
fn extract_all(job: &Job) -> Result<ExitCode> {
    let args = job.args;
    let mut all = Vec::new();
    let mut failed = 0;
    let bar = progress_bar(args.files.len());
    let start = Instant::now();
    for_each_file(job, |file, outcome| {
        let source = file.display().to_string();
        let line = match outcome {
            Ok(outcome) => {
                if let Some(gate) = &outcome.stats.gate {
                    bar.suspend(|| eprint!("{source}:\n{gate}"));
                }
                let line = outcome.line(&source)?;
                failed += usize::from(outcome.incomplete.is_some());
                if let Some(error) = &outcome.incomplete {
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
        bar.suspend(|| output::print_line(&line))?;
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
        // The times of records in a batch overlap, so their sum means nothing.
        match args.batch {
            1 => all.iter().map(|(_, s)| s.seconds).sum::<f64>(),
            _ => start.elapsed().as_secs_f64(),
        },
    );
    if let Some(path) = &args.stats {
        let all: Vec<FileStats> =
            all.iter().map(|(source, stats)| FileStats { source: source.clone(), stats }).collect();
        output::write_stats(path, &all)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json(line: &impl Serialize) -> Result<String> {
    serde_json::to_string(line)
        .map_err(|e| Error::new(ErrorKind::Io, format!("a record cannot be written as JSON: {e}")))
}

/// Returns a progress bar on standard error, which is hidden if that is no terminal.
fn progress_bar(files: usize) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new(files as u64);
    if let Ok(style) = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} files, {eta} left") {
        bar.set_style(style);
    }
    bar
}
