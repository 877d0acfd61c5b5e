//! `ffwd extract`: a JSON record from each text.
//!
//! All texts share one compiled constraint, unless the schema copies strings from the text: then
//! each text has its own. A failure of one text does not stop the others.

mod options;
#[cfg(feature = "parquet")]
mod parquet_table;
#[cfg(feature = "parquet")]
mod parquet_texts;
mod progress;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::builder::TypedValueParser;
use serde::Serialize;
use serde_json::Value;

use options::{ChunkArgs, DocumentArgs, GroundingArgs};
use progress::Progress;

use super::args::{DecodeArgs, JsonArgs, ModelArgs, ValueArgs, read_text};
use super::schema_refs::{self, ReferenceArgs};
use super::{help, output};
use crate::constraint::substring::SubstringOptions;
use crate::constraint::{Policy, Whitespace};
use crate::decode::{Engine, Event, SchedulerOptions, Stats};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::corpus::{
    self, CorpusOptions, CorpusRun, Document, DocumentReader, Outcome, RowCount, SetRequest, Start,
    TableFormat, is_output,
};
use crate::extract::schema::{ExtractionSchema, SchemaOptions};
use crate::extract::{ChunkOptions, Example, Extractor, PromptForm};
use crate::model::named::NamedModel;

const EXAMPLES: [(&str, &str); 7] = [
    ("Extract one record", "ffwd extract invoice.txt --schema invoice.schema.json"),
    (
        "Read the text from standard input, and print statistics too",
        "cat mail.txt | ffwd extract - --schema ticket.schema.json --stats -",
    ),
    (
        "Process a folder in batches of 16; the same command with --resume continues it",
        "ffwd extract inbox -s ticket.schema.json --batch 16 --output records.jsonl",
    ),
    (
        "Read a column of a table, and write a table",
        "ffwd extract mails.parquet --text-field body --id-field id -s ticket.schema.json -o tickets.csv",
    ),
    (
        "Copy names from the text, and print where each value is and how probable",
        "ffwd extract mail.txt -s ticket.schema.json --verbatim --spans --confidence",
    ),
    (
        "Cut a long text into parts, and merge the records with the same name",
        "ffwd extract book.txt -s people.schema.json --chunk-tokens 800 --chunk-overlap 80 --merge-key name",
    ),
    (
        "Tell a model more about the record, and look at the prompt",
        "ffwd extract mail.txt -s ticket.schema.json -m qwen.gguf --example solved.json \\\n  \
            --instructions 'The customer is the sender.' --show-prompt",
    ),
];

const OUTPUT: [&str; 9] = [
    "One file prints its record, or as much as there is if the record is incomplete.",
    "Several texts print JSON Lines, in their order, with `source`, `record` and `finish`.",
    "An incomplete record has its text in `partial`, and each failure has its message in",
    "`error`. With --output, records are lines of FILE as soon as they are complete, and",
    "failures are lines of FILE.failures. Of CSV and Parquet, the lines are in FILE.journal,",
    "and the table is written at the end. Ctrl-C finishes the texts that are in work.",
    "",
    "The exit code is 1 if any text failed or any record is incomplete, 2 for a wrong",
    "option, and 130 after Ctrl-C.",
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
    #[command(flatten)]
    documents: DocumentArgs,
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
    /// Write records to FILE, JSON Lines or, if it ends in .csv, .tsv or .parquet, a table
    ///
    /// Nested properties are columns such as customer.name. Lists are JSON in CSV, and lists in
    /// Parquet if they hold no lists or objects. `source` and `id` are the columns _source and _id.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the output: extract only the records that it lacks
    ///
    /// The output gets what a run from nothing would give. Records stay if their texts are still
    /// there, also elsewhere or with another identifier; records of other texts go. If another
    /// schema, prompt, model or option made the output, that is an error that names the difference:
    /// `--resume=keep` keeps such records, and the `key` of each names its run in FILE.runs.
    #[arg(
        long,
        requires = "output",
        value_name = "same|keep",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "same",
        value_parser = clap::builder::PossibleValuesParser::new(["same", "keep"]).map(resume_of)
    )]
    resume: Option<Start>,
    /// Replace the output, if it exists
    #[arg(long, requires = "output", conflicts_with = "resume")]
    restart: bool,
    /// Keep the records of texts that changed or are no longer there, with the member `stale`
    #[arg(long, requires = "resume")]
    keep_stale: bool,
    #[command(flatten)]
    chunks: ChunkArgs,
    /// Stop after N failures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_failures: Option<u64>,
    /// Write statistics as JSON to FILE (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Write a report to FILE: a page that shows each text with its spans, record and tokens
    ///
    /// The page is one file that loads nothing. It is complete after each text, so a run that is
    /// killed leaves a page, and --resume continues it. A report is replaced, any other file is not.
    #[arg(long, value_name = "FILE", conflicts_with = "stream")]
    html: Option<PathBuf>,
    /// Write progress, failures and totals to standard error as JSON Lines, an event a line
    ///
    /// The events are `start`, `record` and `failure` for each text, `message`, and `end`.
    #[arg(long)]
    log_json: bool,
    /// Begin and end strings with `"x-verbatim": true` in the schema at words of the text
    #[arg(long)]
    whole_words: bool,
    #[command(flatten)]
    grounding: GroundingArgs,
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
    /// Put schema and text in the form that the model was trained on: default, nuextract (2.0 and 3),
    /// nuextract-1.5 or lfm2-extract [default: nuextract if the chat template has it]
    ///
    /// In the forms of NuExtract, the prompt has a template made from the schema, and --schema may also name a
    /// template. The record satisfies the schema all the same; a warning says what the prompt does not show.
    #[arg(long, value_name = "FORM", value_parser = PromptForm::by_name)]
    prompt_form: Option<PromptForm>,
    /// Set the system message of the prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Add TEXT to the prompt, such as what a property means
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    instructions: Option<String>,
    /// Show the model the example in FILE, JSON with `text` and `record` (repeatable)
    ///
    /// A file that ends in .jsonl has an example on each line.
    #[arg(long, value_name = "FILE")]
    example: Vec<PathBuf>,
}

fn resume_of(name: String) -> Start {
    if name == "keep" { Start::Keep } else { Start::Resume }
}

/// Options that change no record, or whose content counts by itself.
const NEUTRAL: [&str; 27] = [
    "files",
    "include",
    "text_field",
    "id_field",
    "encoding",
    "lenient",
    "schema",
    "prompt",
    "example",
    "show_prompt",
    "stream",
    "batch",
    "output",
    "resume",
    "restart",
    "keep_stale",
    "max_failures",
    "stats",
    "html",
    "log_json",
    "references",
    "schema_dir",
    "model",
    "adapter",
    "revision",
    "offline",
    "chat_template",
];
/// Options that change no record in the mode `exact`, which gives those of `off`.
const DRAFTING: [&str; 5] = ["mode", "lookup", "no_lookup", "explain_gate", "draft_model"];

/// Returns the options that change records, with their values.
fn record_options(matches: &clap::ArgMatches) -> Vec<(String, String)> {
    let value = |id: &str| -> Option<String> {
        let values = matches.get_raw(id)?.map(|value| value.to_string_lossy().into_owned());
        Some(values.collect::<Vec<_>>().join(" "))
    };
    let command = <Args as clap::Args>::augment_args(clap::Command::new("extract"));
    let is_exact = matches!(value("mode").as_deref(), Some("off" | "exact"));
    let names = command.get_arguments().filter_map(|arg| Some((arg.get_id().as_str(), arg.get_long()?)));
    let counts = |id: &str| !(NEUTRAL.contains(&id) || is_exact && DRAFTING.contains(&id));
    names
        .filter(|(id, _)| counts(id))
        .filter_map(|(id, long)| Some((format!("--{long}"), value(id)?)))
        .collect()
}

/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Statistics of one of several texts.
#[derive(Serialize)]
struct TextStats {
    source: String,
    #[serde(flatten)]
    stats: Stats,
}

/// Reasons to begin no more texts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Interrupted,
    Failures,
}

pub(super) fn run(args: &Args, matches: &clap::ArgMatches) -> Result<ExitCode> {
    args.decode.validate()?;
    args.output.as_deref().map(TableFormat::of).transpose()?;
    let texts = args.documents.options();
    let mut files = texts.files()?;
    for output in args.output.iter().chain(&args.html) {
        // Also if it lies in the folder that is read.
        files.retain(|file| !is_output(file, output));
    }
    let (text, references) = (read_text(&args.schema)?, args.references.read()?);
    // A wrong schema fails at once, before a model is loaded.
    let whitespace = args.models.whitespace();
    let mut read = read_schema(args, &text, &references, whitespace)?;
    let list = list_of_rows(args, &mut read.1)?;
    let chunks = args.chunks.options(list.is_some());
    let grounding = args.grounding.options();
    let many = args.output.is_some()
        || args.html.is_some()
        || grounding.confidence
        || grounding.spans
        || grounding.abstain.is_some()
        || chunks.is_some()
        || texts.are_many(&files);
    if args.stream && many {
        return Err(Error::new(ErrorKind::InvalidOption, "--stream with more than one text")
            .hint("stream one file at a time, in one part"));
    }
    if args.log_json && !many {
        return Err(Error::new(ErrorKind::InvalidOption, "--log-json with a single text")
            .hint("--stats writes the statistics of a single text"));
    }
    let engine = Arc::new(args.models.engine()?);
    // The embedded model may also come from a file.
    if engine.whitespace() != whitespace {
        read = read_schema(args, &text, &references, engine.whitespace())?;
        list_of_rows(args, &mut read.1)?;
    }
    let extractor = extractor(args, &engine, read)?;
    let documents = texts.read(files);
    if args.prompt.show_prompt {
        return show_prompts(documents, &extractor, chunks.as_ref());
    }
    output::print_warnings(extractor.warnings());
    let advice = advice(args, &engine);
    let options = CorpusOptions {
        scheduler: SchedulerOptions::with_batch(args.batch.into()),
        chunks,
        merge_keys: args.chunks.merge_key.clone(),
        list,
        grounding,
        output: args.output.clone(),
        start: if args.restart { Start::Anew } else { args.resume.unwrap_or_default() },
        keep_stale: args.keep_stale,
        report: args.html.clone(),
        #[cfg(feature = "parquet")]
        parquet: Some(parquet_table::write_parquet),
        #[cfg(not(feature = "parquet"))]
        parquet: None,
        made_by: record_options(matches),
    };
    let run = CorpusRun::new(engine.clone(), extractor.clone(), options, set_request(args, &extractor))?;
    match many {
        true => extract_all(args, documents, run, advice),
        false => extract_one(args, documents, &engine, &run, advice),
    }
}

/// Returns the property whose list has the rows of a text.
///
/// # Errors
/// If `--list` names no property of the schema, or there are keys to merge by too.
fn list_of_rows(args: &Args, schema: &mut Value) -> Result<Option<String>> {
    let list = corpus::list_of(schema, args.chunks.list.as_deref());
    let list = list.map_err(|e| e.at(Place::File(args.schema.clone())))?;
    match list.is_some() && !args.chunks.merge_key.is_empty() {
        true => Err(Error::new(ErrorKind::InvalidOption, "--merge-key with a list of rows")
            .hint("rows of a table may be equal; leave out the keys, or `x-rows` in the schema")),
        false => Ok(list),
    }
}

/// Returns what sets the options of a request, and prints the warnings of the first schema.
fn set_request(args: &Args, extractor: &Extractor) -> SetRequest {
    let (json, values, decode) = (args.json.clone(), args.values.clone(), args.decode.clone());
    let (schema, shared) = (args.schema.clone(), extractor.shared_constraint().is_some());
    let first = AtomicBool::new(true);
    Box::new(move |request| {
        if let Some(own) = request.own_constraint().filter(|_| !shared) {
            let own = json.check_warnings(own.clone()).map_err(|e| e.at(Place::File(schema.clone())))?;
            if first.swap(false, Ordering::Relaxed) {
                output::print_warnings(own.warnings());
            }
        }
        Ok(values.apply(decode.apply(request)))
    })
}

/// Returns where better records come from, if the model is the embedded one or lacks its adapter.
fn advice(args: &Args, engine: &Engine) -> Option<&'static str> {
    if args.models.name().is_none() {
        return Some("note: --model small or medium gets more fields right");
    }
    let lacks = engine.adapter().is_none()
        && NamedModel::of_base(engine.target().config(), engine.vocabulary()).is_some();
    lacks.then_some("note: there is an adapter for this model; --adapter extract gets more fields right")
}

/// Returns the messages about a record.
fn notes(args: &Args, outcome: &Outcome) -> Vec<String> {
    let mut notes = output::value_messages(&outcome.stats);
    if outcome.finish == "closed" {
        let limit = args.decode.max_tokens();
        notes.push(format!("closed before the limit of {limit} tokens; the last values are not the model's"));
    }
    notes.extend(outcome.notes.iter().map(|note| (*note).to_owned()));
    notes.extend(outcome.rows.iter().map(RowCount::summary));
    notes
}

/// Extracts the record of a single text, and prints it.
fn extract_one(
    args: &Args,
    mut documents: DocumentReader,
    engine: &Engine,
    run: &CorpusRun,
    advice: Option<&str>,
) -> Result<ExitCode> {
    advice.iter().for_each(|advice| eprintln!("{advice}"));
    let Some(Document { source, text, .. }) = documents.next() else { return Ok(ExitCode::SUCCESS) };
    documents.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let in_file = |e: Error| e.at(Place::File(source.clone()));
    let text = text?;
    let request = run.request(&text).map_err(in_file)?;
    let mut written = Ok(());
    let output = match args.stream {
        false => engine.generate(&request),
        true => engine.generate_events(&request, &mut |event| {
            if let Event::Field(field) = event
                && written.is_ok()
            {
                written = output::print_json(field);
            }
        }),
    };
    let outcome = output.and_then(|output| run.outcome(&text, output)).map_err(in_file);
    written?;
    let outcome = outcome?;
    notes(args, &outcome).iter().for_each(|note| eprintln!("{note}"));
    // A stream has the values of a record that was cut.
    if outcome.incomplete.is_none() || !args.stream {
        output::print_line(&outcome.text)?;
    }
    output::print_summary(&outcome.stats);
    if let Some(path) = &args.stats {
        output::write_stats(path, &outcome.stats)?;
    }
    outcome.incomplete.map_or(Ok(ExitCode::SUCCESS), |error| Err(in_file(error)))
}

/// Extracts the records of all texts.
fn extract_all(
    args: &Args,
    documents: DocumentReader,
    mut run: CorpusRun,
    advice: Option<&str>,
) -> Result<ExitCode> {
    let interrupts = interrupts()?;
    let mut progress = Progress::start(documents.known_len(), args.batch, args.log_json);
    advice.iter().for_each(|advice| progress.message(advice));
    let mut stats = Vec::new();
    let stopped = take_all(args, documents, &mut run, &mut progress, &mut stats, &interrupts)?;
    progress.clear();
    let failures = progress.totals.failures;
    if let Some(file) = run.failures().filter(|_| failures > 0) {
        progress.message(&format!("failures are in {}", file.display()));
    }
    let ended = run.end(stopped.is_none())?;
    if ended.again > 0 {
        progress.message(&format!("{} records were made again, because the report lacked them", ended.again));
    }
    if ended.stale > 0 {
        let went = if args.keep_stale { "are marked as stale" } else { "were removed" };
        let message = format!("{} records of texts that changed or are no longer there {went}", ended.stale);
        progress.message(&message);
    }
    if let Some(path) = &args.stats {
        output::write_stats(path, &stats)?;
    }
    progress.end(stopped.map(Stop::name));
    match stopped {
        Some(Stop::Interrupted) if args.output.is_some() => {
            progress.message("interrupted; the same command with --resume continues it");
        }
        Some(Stop::Failures) => {
            progress.message(&format!("stopped after {failures} failures (--max-failures)"));
        }
        _ => {}
    }
    Ok(match stopped {
        Some(Stop::Interrupted) => ExitCode::from(INTERRUPTED),
        Some(Stop::Failures) => ExitCode::FAILURE,
        None if failures > 0 => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// Gives all texts to the run and shows what became of them; returns why it stopped before the last.
fn take_all(
    args: &Args,
    mut documents: DocumentReader,
    run: &mut CorpusRun,
    progress: &mut Progress,
    stats: &mut Vec<TextStats>,
    interrupts: &AtomicUsize,
) -> Result<Option<Stop>> {
    let (mut stop, mut more) = (None, true);
    loop {
        // A text that has begun is finished also after an interrupt.
        let is_over = args.max_failures.is_some_and(|most| progress.totals.failures >= most);
        let failures = is_over.then_some(Stop::Failures);
        stop = stop.or((interrupts.load(Ordering::Relaxed) > 0).then_some(Stop::Interrupted)).or(failures);
        while more && stop.is_none() && !run.is_full() {
            let document = documents.next();
            documents.warnings.drain(..).for_each(|warning| progress.message(&warning));
            more = document.is_some();
            progress.totals.pages_without_text = documents.pages_without_text;
            document.into_iter().for_each(|document| run.push(document));
        }
        let Some(done) = run.pop()? else { return Ok(stop) };
        if args.output.is_none()
            && let Some(line) = done.line()?
        {
            progress.suspend(|| output::print_line(&line))?;
        }
        progress.cut(done.parts);
        match &done.outcome {
            None => progress.resumed(),
            Some(Err(error)) => progress.failed(&done.task, error, None),
            Some(Ok(outcome)) => progress.outcome(&done.task, outcome, &notes(args, outcome)),
        }
        if let Some(Ok(outcome)) = done.outcome.filter(|_| args.stats.is_some()) {
            stats.push(TextStats { source: done.task.name(), stats: outcome.stats });
        }
    }
}

impl Stop {
    fn name(self) -> &'static str {
        match self {
            Stop::Interrupted => "interrupted",
            Stop::Failures => "failures",
        }
    }
}

/// Counts Ctrl-C. The first one lets the texts in work finish, the second one ends the program.
fn interrupts() -> Result<Arc<AtomicUsize>> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let set = ctrlc::set_handler(move || {
        if counted.fetch_add(1, Ordering::Relaxed) > 0 {
            std::process::exit(i32::from(INTERRUPTED));
        }
        eprintln!("finishing the texts in work; Ctrl-C again ends at once");
    });
    set.map_err(|e| Error::new(ErrorKind::Io, format!("Ctrl-C cannot be handled: {e}")))?;
    Ok(count)
}

/// Reads the schema for a model that writes JSON with such whitespace, unless an option names another one.
fn read_schema(
    args: &Args,
    text: &str,
    documents: &schema_refs::Documents,
    auto: Whitespace,
) -> Result<(ExtractionSchema, Value)> {
    let in_file = |e: Error| e.at(Place::File(args.schema.clone()));
    let spans = if args.whole_words { SubstringOptions::words() } else { SubstringOptions::default() };
    let options = SchemaOptions {
        policy: Policy { closed_objects: !args.open_objects, ..args.json.policy(auto) },
        documents: documents.0.clone(),
        spans,
        verbatim: args.grounding.verbatim,
        form: args.prompt.prompt_form,
    };
    let (schema, value) = ExtractionSchema::read(text, options).map_err(in_file)?;
    schema.shared.iter().try_for_each(|c| args.json.check_warnings(c.clone()).map(drop)).map_err(in_file)?;
    Ok((schema, value))
}

/// Builds the extractor that all files share.
fn extractor(args: &Args, engine: &Engine, (schema, value): (ExtractionSchema, Value)) -> Result<Extractor> {
    let mut builder = Extractor::builder(engine);
    let PromptArgs { prompt, system, instructions, example, .. } = &args.prompt;
    let template = prompt.as_deref().map(read_text).transpose()?;
    for file in example {
        let text = read_text(file)?;
        let are_lines = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("jsonl"));
        let examples = match are_lines {
            true => Example::from_json_lines(text),
            false => Example::from_json(text).map(|example| vec![example]),
        };
        for example in examples.map_err(|e| e.at(Place::File(file.clone())))? {
            builder = builder.example(example.in_file(file));
        }
    }
    builder = template.iter().fold(builder, |builder, text| builder.prompt(text.trim_end_matches('\n')));
    builder = system.iter().fold(builder, |builder, text| builder.system(text));
    builder = instructions.iter().fold(builder, |builder, text| builder.instructions(text));
    builder.build_from(schema, &value).map_err(|e| match prompt {
        _ if e.places().iter().any(|place| matches!(place, Place::File(_))) => e,
        Some(file) if e.kind() == ErrorKind::InvalidOption => e.at(Place::File(file.clone())),
        _ => e.at(Place::File(args.schema.clone())),
    })
}

/// Prints the prompt for each text, or for each of its parts.
fn show_prompts(
    documents: DocumentReader,
    extractor: &Extractor,
    chunks: Option<&ChunkOptions>,
) -> Result<ExitCode> {
    for Document { source, text, .. } in documents {
        let text = text?;
        let in_file = |e: Error| e.at(Place::File(source.clone()));
        let whole: Vec<_> = std::iter::once(0..text.len()).collect();
        let parts = match chunks {
            None => whole,
            Some(options) => {
                let parts = extractor.chunks(&text, options).map_err(in_file)?;
                parts.into_iter().map(|part| part.bytes).collect()
            }
        };
        for part in parts {
            let prompt = extractor.prompt(&text[part]).map_err(in_file)?;
            output::print_line(prompt.to_text().trim_end_matches('\n'))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
