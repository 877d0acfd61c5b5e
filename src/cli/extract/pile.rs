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

use super::documents::{Document, DocumentReader};
use super::journal::{FAILURES, Journal, Key, PARTIAL, Resume, Unclaimed, output_exists, with_suffix};
use super::line::Task;
use super::made_by::{MadeBy, RUNS, Runs, hex};
use super::parts::{DonePart, TextPart, join, parts};
use super::progress::Progress;
use super::report::{ReportLine, Shown, open_report};
use super::table::TableFormat;
use super::{Job, Outcome, extract_document, outcome_of, request};
use crate::cli::{output, schema_refs};
use crate::decode::{Handle, Scheduler, SchedulerOptions, Stats};
use crate::error::{Error, ErrorKind, Place, Result};
#[cfg(feature = "embedded")]
use crate::model::embedded::{DRAFT_GGUF, TARGET_GGUF, TOKENIZER_JSON};

/// What the records of all texts depend on, beside the model.
pub(super) struct Fixed<'a> {
    pub schema: &'a str,
    pub documents: &'a schema_refs::Documents,
    /// The options that change records, by name.
    pub options: Vec<(String, String)>,
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
    report: Option<Journal>,
    /// The run that makes the records; see [`Key`].
    run: u64,
    /// Number of records that are made again, because the report lacks them.
    again: usize,
    progress: Progress,
    /// Number of texts that were begun.
    begun: usize,
    stats: Vec<TextStats>,
    /// The parts that are done of the text that has begun.
    done: Vec<DonePart>,
}

/// Extracts the records of all texts.
pub(super) fn extract_all(job: &Job, documents: DocumentReader, fixed: &Fixed) -> Result<ExitCode> {
    let args = job.args;
    let made_by = made_by(job, fixed)?;
    let run = made_by.run();
    let journal = args.output.as_deref().map(|output| open_journal(args, output, made_by)).transpose()?;
    let report = args.html.as_deref().map(|path| open_report(path, run, args.resume)).transpose()?;
    let interrupts = interrupts()?;
    let mut pile = Pile {
        job,
        journal,
        report,
        run,
        again: 0,
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
    let Pile { journal, report, progress, stats, again, .. } = pile;
    let failures = progress.totals.failures;
    let unclaimed = match stopped {
        Some(_) => Unclaimed::Stay,
        None if args.keep_stale => Unclaimed::Marked,
        None => Unclaimed::Go,
    };
    if again > 0 {
        progress.message(&format!("{again} records were made again, because the report lacked them"));
    }
    if let (Some(mut journal), Some(output)) = (journal, args.output.as_deref()) {
        if failures > 0 {
            progress.message(&format!("failures are in {}", journal.failures().display()));
        }
        journal.sync()?;
        let written = TableFormat::of(output)?.map_or(Ok(()), |format| format.write(&journal, output));
        let stale = journal.close(unclaimed)?.saturating_sub(again);
        if stale > 0 && stopped.is_none() {
            let went = if args.keep_stale { "are marked as stale" } else { "were removed" };
            progress.message(&format!("{stale} records of texts that changed or are no longer there {went}"));
        }
        let hint = format!("the records are in {}; --resume makes the table", journal_of(output).display());
        written.map_err(|e| if e.hint_text().is_none() { e.hint(hint) } else { e })?;
    }
    if let Some(mut report) = report {
        report.sync()?;
        report.close(if stopped.is_some() { Unclaimed::Stay } else { Unclaimed::Go })?;
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
                    let document = documents.next();
                    documents.warnings.drain(..).for_each(|warning| self.progress.message(&warning));
                    let Some(document) = document else { break };
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
        let Ok(text) = &document.text else { return Some((task, document)) };
        let key = Key { run: self.run, text: text_digest(text) };
        if let Some(journal) = &mut self.journal {
            let is_shown = self.report.as_ref().is_none_or(|report| report.has(key));
            match journal.has(key) {
                true if is_shown => {
                    journal.claim(&task, key);
                    self.report.iter_mut().for_each(|report| report.claim(&task, key));
                    self.progress.resumed();
                    return None;
                }
                true => self.again += 1,
                false => {}
            }
            task.key = Some(key);
        }
        Some((task, document))
    }

    /// Takes the outcome of a text, or of a part of one; the parts of a text come in their order.
    fn take_part(&mut self, part: TextPart, outcome: Result<Outcome>) -> Result<()> {
        self.show(&part, &outcome)?;
        let Some(chunk) = part.chunk else { return self.take(&part.task, outcome) };
        self.done.push(DonePart { chunk, text: part.document.text.unwrap_or_default(), outcome });
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
        let failed = Shown::failed(text);
        let line = ReportLine {
            index: task.number,
            part: part.chunk.is_some().then_some(self.done.len()),
            last: part.chunk.is_some().then_some(part.last),
            source: &task.name(),
            id: task.id.as_ref(),
            key: task.key.filter(|_| error.is_none()).map(Key::hex),
            finish,
            error: error.map(Error::to_string),
            shown: shown.unwrap_or(&failed),
        };
        report.append(task.number, self.done.len() as u32, &line.text()?)
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
            Some(journal) => journal.append(text, 0, line),
        }
    }
}

/// Opens the journal of an output for a run.
///
/// # Errors
/// If the output exists and is not continued, or another run made records of it.
fn open_journal(args: &super::Args, output: &Path, made_by: MadeBy) -> Result<Journal> {
    let path = journal_of(output);
    let resume = if args.restart { Some(Resume::Keep) } else { args.resume };
    if path != output && output.exists() {
        // A table that no run has written is not replaced.
        match resume {
            None => return Err(output_exists(output)),
            Some(_) if path.exists() => {}
            Some(_) => {
                let message = format!("the output exists, but its journal {} does not", path.display());
                let error = Error::new(ErrorKind::InvalidOption, message).at(Place::File(output.into()));
                return Err(error.hint("name another file, or remove this one"));
            }
        }
    }
    let mut journal = Journal::open(&path, "", made_by.run(), resume)?;
    if args.restart {
        journal.clear();
    }
    let runs = Runs::read(output)?;
    if resume == Some(Resume::Same) && !journal.other_runs.is_empty() {
        return Err(runs.other_run(output, &made_by, &journal.other_runs));
    }
    journal.begin()?;
    runs.write(made_by, &journal.other_runs)?;
    Ok(journal)
}

/// Returns the journal of an output file.
fn journal_of(output: &Path) -> PathBuf {
    match TableFormat::of(output) {
        Ok(Some(_)) => with_suffix(output, ".journal"),
        _ => output.to_owned(),
    }
}

/// Returns true if a file is the output or one of the files beside it.
pub(super) fn is_own(file: &Path, output: &Path) -> bool {
    let lines = journal_of(output);
    let partial = [output, &lines].map(|path| with_suffix(path, PARTIAL));
    let own = [output.to_owned(), with_suffix(&lines, FAILURES), with_suffix(output, RUNS), lines];
    own.into_iter().chain(partial).any(|own| match (file.canonicalize(), own.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    })
}

fn text_digest(text: &str) -> u128 {
    Sha256::digest(text).iter().take(16).fold(0, |key, byte| key << 8 | u128::from(*byte))
}

/// Returns all that determines the records but the texts.
fn made_by(job: &Job, fixed: &Fixed) -> Result<MadeBy> {
    let mut made_by = MadeBy::new();
    made_by.add_text("schema", fixed.schema);
    for (uri, text) in &fixed.documents.0 {
        made_by.add_text(&format!("schema {uri}"), text);
    }
    // The template, the instructions and the examples are around any text.
    made_by.add_text("prompt", &job.extractor.prompt("x")?.to_text());
    match job.engine.path() {
        Some(path) => made_by.add_files("model", path)?,
        None => made_by.add("model", "embedded"),
    }
    #[cfg(feature = "embedded")]
    if job.engine.path().is_none() {
        let mut digest = Sha256::new();
        [TARGET_GGUF, DRAFT_GGUF, TOKENIZER_JSON].iter().for_each(|file| digest.update(file));
        made_by.add("model: digest", hex(&digest.finalize()));
    }
    if let Some(adapter) = job.engine.adapter() {
        for file in adapter.files() {
            made_by.add_files("adapter", file)?;
        }
        made_by.add("adapter: scale", adapter.scale().to_string());
    }
    fixed.options.iter().for_each(|(name, value)| made_by.add(name, value));
    Ok(made_by)
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
