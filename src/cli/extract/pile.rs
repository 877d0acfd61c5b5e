//! Many texts: in batches, with a journal that a later run can resume.
//!
//! # Cost
//!
//! The texts and outcomes of two batches are in memory at a time. Statistics are kept for each text
//! only if they were requested.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use sha2::{Digest, Sha256};

#[cfg(not(feature = "parquet"))]
use super::documents::no_parquet;
use super::documents::{Document, DocumentReader, is_parquet};
use super::journal::{FAILURES, Journal, Key, PARTIAL, with_suffix};
use super::line::Task;
#[cfg(feature = "parquet")]
use super::parquet_table;
use super::parts::{TextPart, join, parts};
use super::progress::Progress;
use super::report::{HtmlReport, ReportLine, Shown};
use super::{Job, Outcome, extract_document, outcome_of, request, table};
use crate::cli::{output, schema_refs};
use crate::decode::{Handle, Scheduler, SchedulerOptions, Stats};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::Chunk;
#[cfg(feature = "embedded")]
use crate::model::embedded::{DRAFT_GGUF, TARGET_GGUF, TOKENIZER_JSON};

/// What the records of all texts depend on, beside the options.
pub(super) struct Fixed<'a> {
    pub schema: &'a str,
    pub documents: &'a schema_refs::Documents,
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

/// The run over all texts.
struct Pile<'a> {
    job: &'a Job<'a>,
    journal: Option<Journal>,
    report: Option<HtmlReport>,
    /// A digest of everything but the text.
    fixed: Sha256,
    progress: Progress,
    /// Number of texts that were begun.
    begun: usize,
    stats: Vec<TextStats>,
    /// The parts that are done of the text that has begun.
    done: Vec<(Chunk, Result<Outcome>)>,
}

/// Extracts the records of all texts.
pub(super) fn extract_all(job: &Job, documents: DocumentReader, fixed: &Fixed) -> Result<ExitCode> {
    let args = job.args;
    #[cfg(not(feature = "parquet"))]
    if let Some(path) = args.output.as_deref().filter(|path| is_parquet(path)) {
        return Err(no_parquet().at(Place::File(path.into())));
    }
    let lines = args.output.as_deref().map(journal_of);
    if let Some(path) = args.output.as_deref().filter(|path| is_table(path) && path.exists() && !args.resume)
    {
        let error = Error::new(ErrorKind::InvalidOption, "the output exists").at(Place::File(path.into()));
        return Err(error.hint("add --resume to continue it, or name another file"));
    }
    let journal = lines.as_deref().map(|path| Journal::open(path, args.resume)).transpose()?;
    let report = args.html.as_deref().map(|path| HtmlReport::open(path, args.resume)).transpose()?;
    let interrupts = interrupts()?;
    let mut pile = Pile {
        job,
        fixed: digest_of(job, fixed)?,
        journal,
        report,
        progress: Progress::start(documents.known_len(), args.batch, args.log_json),
        begun: 0,
        stats: Vec::new(),
        done: Vec::new(),
    };
    if let Some(advice) = job.advice() {
        pile.progress.message(advice);
    }
    let stopped = pile.run(documents, &interrupts)?;
    pile.progress.clear();
    let Pile { journal, report, progress, stats, .. } = pile;
    let failures = progress.totals.failures;
    if let Some(journal) = journal {
        if failures > 0 {
            progress.message(&format!("failures are in {}", journal.failures().display()));
        }
        journal.close(stopped.is_none())?;
    }
    if let (Some(to), Some(lines)) = (args.output.as_deref().filter(|path| is_table(path)), &lines) {
        let hint = format!("the records are in {}; --resume makes the table", lines.display());
        write_table(lines, to).map_err(|e| if e.hint_text().is_none() { e.hint(hint) } else { e })?;
    }
    if let Some(missing) = report.map(|report| report.missing).filter(|missing| *missing > 0) {
        progress.message(&format!("the report lacks {missing} records that an earlier run made without it"));
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

/// Reasons to begin no more texts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Interrupted,
    Failures,
}

impl Stop {
    fn name(self) -> &'static str {
        match self {
            Stop::Interrupted => "interrupted",
            Stop::Failures => "failures",
        }
    }
}

impl Pile<'_> {
    /// Processes the texts in their order; returns why it stopped before the last.
    fn run(&mut self, documents: DocumentReader, interrupts: &AtomicUsize) -> Result<Option<Stop>> {
        let batch = usize::from(self.job.args.batch);
        let options = SchedulerOptions::with_batch(batch);
        let scheduler = match batch {
            1 => None,
            _ => Some(Scheduler::new(self.job.engine.clone(), options)?),
        };
        let mut in_flight: VecDeque<(TextPart, Result<Handle>)> = VecDeque::new();
        // Parts of the text that has begun. It is finished also after an interrupt.
        let mut waiting: VecDeque<TextPart> = VecDeque::new();
        let (mut documents, mut first, mut stop) = (documents, true, None);
        loop {
            stop = stop.or_else(|| self.stop(interrupts));
            // Enough requests to keep the batch full during the wait for the first of them.
            while in_flight.len() < 2 * batch {
                let Some(part) = waiting.pop_front() else {
                    if stop.is_some() {
                        break;
                    }
                    let Some(document) = documents.next() else { break };
                    if let Some((task, document)) = self.begin(document) {
                        waiting.extend(parts(self.job, task, document));
                        self.progress.cut(waiting.len());
                    }
                    continue;
                };
                let was_first = std::mem::take(&mut first);
                match &scheduler {
                    Some(scheduler) => {
                        let made = request(self.job, &part.document, was_first);
                        in_flight.push_back((part, made.and_then(|request| scheduler.submit(request))));
                    }
                    None => {
                        let outcome = extract_document(self.job, &part.document, was_first);
                        self.take_part(part, outcome)?;
                        stop = stop.or_else(|| self.stop(interrupts));
                    }
                }
            }
            let Some((part, handle)) = in_flight.pop_front() else { return Ok(stop) };
            let output = handle.and_then(|handle| outcome_of(self.job, &part.document, handle.wait()));
            self.take_part(part, output)?;
        }
    }

    fn stop(&self, interrupts: &AtomicUsize) -> Option<Stop> {
        if interrupts.load(Ordering::Relaxed) > 0 {
            return Some(Stop::Interrupted);
        }
        self.job
            .args
            .max_failures
            .filter(|most| self.progress.totals.failures >= *most)
            .map(|_| Stop::Failures)
    }

    /// Begins a text, unless its record is in the journal.
    fn begin(&mut self, document: Document) -> Option<(Task, Document)> {
        let (source, id) = (document.source.clone(), document.id.clone());
        let mut task = Task { number: self.begun, source, id, key: None };
        self.begun += 1;
        if let (Some(journal), Ok(text)) = (&mut self.journal, &document.text) {
            let mut digest = self.fixed.clone();
            add(&mut digest, text.as_bytes());
            let key = Key::new(&digest.finalize());
            if journal.take_done(task.number, key) {
                self.progress.resumed();
                if let Some(report) = &mut self.report {
                    report.expect(key);
                }
                return None;
            }
            task.key = Some(key);
        }
        Some((task, document))
    }

    /// Takes the outcome of a text, or of a part of one; the parts of a text come in their order.
    fn take_part(&mut self, part: TextPart, outcome: Result<Outcome>) -> Result<()> {
        self.show(&part, &outcome)?;
        let Some(chunk) = part.chunk else { return self.take(&part.task, outcome) };
        self.done.push((chunk, outcome));
        if !part.last {
            return Ok(());
        }
        let outcome = join(self.job, &part.task, std::mem::take(&mut self.done));
        self.take(&part.task, outcome)
    }

    /// Adds a text, or a part of one, to the report.
    fn show(&mut self, part: &TextPart, outcome: &Result<Outcome>) -> Result<()> {
        let Some(report) = &mut self.report else { return Ok(()) };
        let (task, text) = (&part.task, part.document.text.as_deref().ok());
        let (error, finish) = match outcome {
            Ok(outcome) => (outcome.incomplete.as_ref(), outcome.finish),
            Err(error) => (Some(error), "error"),
        };
        let shown = outcome.as_ref().ok().and_then(|outcome| outcome.shown.as_ref());
        report.append(&ReportLine {
            index: task.number,
            part: part.chunk.is_some().then_some(self.done.len()),
            source: &task.name(),
            id: task.id.as_ref(),
            key: task.key.filter(|_| error.is_none()).map(|key| HtmlReport::key(key, self.done.len())),
            finish,
            error: error.map(Error::to_string),
            shown: shown.unwrap_or(&Shown::failed(text)),
        })
    }

    /// Writes the outcome of a text.
    fn take(&mut self, task: &Task, outcome: Result<Outcome>) -> Result<()> {
        match outcome {
            Ok(outcome) => {
                self.write(task.number, &task.line(&outcome)?, outcome.incomplete.is_some())?;
                self.progress.outcome(task, &outcome);
                if self.job.args.stats.is_some() {
                    self.stats.push(TextStats { source: task.name(), stats: outcome.stats });
                }
            }
            Err(error) => {
                self.write(task.number, &task.failure(&error)?, true)?;
                self.progress.failed(task, &error, None);
            }
        }
        Ok(())
    }

    fn write(&mut self, text: usize, line: &str, failed: bool) -> Result<()> {
        match &mut self.journal {
            None => self.progress.suspend(|| output::print_line(line)),
            Some(journal) if failed => journal.append_failure(line),
            Some(journal) => journal.append(text, line),
        }
    }
}

/// Returns the journal of an output file.
fn journal_of(output: &Path) -> PathBuf {
    if is_table(output) { with_suffix(output, ".journal") } else { output.to_owned() }
}

/// Writes the table of a journal, in the format of the file's name.
fn write_table(journal: &Path, to: &Path) -> Result<()> {
    match is_parquet(to) {
        #[cfg(feature = "parquet")]
        true => parquet_table::write_parquet(journal, to),
        #[cfg(not(feature = "parquet"))]
        true => Err(no_parquet()),
        false => table::write_csv(journal, to),
    }
}

/// Returns true if a file is the output or one of the files beside it.
pub(super) fn is_own(file: &Path, output: &Path) -> bool {
    let lines = journal_of(output);
    let partial = [with_suffix(output, PARTIAL), with_suffix(&lines, PARTIAL)];
    let own = [output.to_owned(), with_suffix(&lines, FAILURES), lines].into_iter().chain(partial);
    own.into_iter().any(|own| match (file.canonicalize(), own.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    })
}

fn is_table(output: &Path) -> bool {
    is_parquet(output) || output.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

fn add(digest: &mut Sha256, part: &[u8]) {
    digest.update((part.len() as u64).to_le_bytes());
    digest.update(part);
}

/// Returns the digest of all that determines the records but the texts. A model counts by its name
/// and the size of its file, the embedded one and an adapter by their content.
fn digest_of(job: &Job, fixed: &Fixed) -> Result<Sha256> {
    let args = job.args;
    let mut digest = Sha256::new();
    add(&mut digest, env!("CARGO_PKG_VERSION").as_bytes());
    add(&mut digest, fixed.schema.as_bytes());
    for (uri, text) in &fixed.documents.0 {
        add(&mut digest, uri.as_bytes());
        add(&mut digest, text.as_bytes());
    }
    let (json, values, decode, models) = (&args.json, &args.values, &args.decode, &args.models);
    let grounding = &args.grounding;
    let options = format!(
        "{json:?} {values:?} {decode:?} {models:?} {grounding:?} {} {}",
        args.open_objects, args.whole_words
    );
    if args.chunks.options().is_some() {
        add(&mut digest, format!("{:?}", args.chunks).as_bytes());
    }
    add(&mut digest, options.as_bytes());
    let size = |path| std::fs::metadata(path).map_or(0, |file| file.len());
    add(&mut digest, &job.engine.path().map_or(0, size).to_le_bytes());
    #[cfg(feature = "embedded")]
    if job.engine.path().is_none() {
        [TARGET_GGUF, DRAFT_GGUF, TOKENIZER_JSON].iter().for_each(|file| add(&mut digest, file));
    }
    if let Some(adapter) = job.engine.adapter() {
        for file in adapter.files() {
            add(&mut digest, &std::fs::read(file).map_err(|e| Error::io(file, &e))?);
        }
        add(&mut digest, &adapter.scale().to_le_bytes());
    }
    // The template, the instructions and the examples are around any text.
    add(&mut digest, job.extractor.prompt("x")?.to_text().as_bytes());
    Ok(digest)
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
