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
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::documents::{Document, DocumentReader};
use super::journal::{FAILURES, Journal, Key, with_suffix};
use super::{Job, Line, Outcome, extract_document, json, outcome_of, request, table};
use crate::cli::{output, schema_refs};
use crate::decode::{Handle, Scheduler, SchedulerOptions, Stats};
use crate::error::{Error, ErrorKind, Result};

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

/// A text in work.
struct Task {
    source: PathBuf,
    id: Option<Value>,
    key: Option<Key>,
}

/// Sums over all texts.
#[derive(Default)]
struct Totals {
    records: usize,
    failed: u64,
    resumed: usize,
    tokens: usize,
    forwards: usize,
    forced: usize,
    drafted: usize,
    accepted: usize,
    seconds: f64,
}

impl Totals {
    fn add(&mut self, stats: &Stats) {
        self.tokens += stats.tokens;
        self.forwards += stats.forwards;
        self.forced += stats.forced;
        self.drafted += stats.drafted;
        self.accepted += stats.accepted;
        self.seconds += stats.seconds;
    }
}

/// The run over all texts.
struct Pile<'a> {
    job: &'a Job<'a>,
    journal: Option<Journal>,
    /// A digest of everything but the text.
    fixed: Sha256,
    totals: Totals,
    stats: Vec<TextStats>,
    bar: indicatif::ProgressBar,
}

/// Extracts the records of all texts.
pub(super) fn extract_all(job: &Job, documents: DocumentReader, fixed: &Fixed) -> Result<ExitCode> {
    let args = job.args;
    let lines = args.output.as_deref().map(journal_of);
    if let Some(path) = args.output.as_deref().filter(|path| is_table(path) && path.exists() && !args.resume)
    {
        let error = Error::new(ErrorKind::InvalidOption, format!("the output {} exists", path.display()));
        return Err(error.hint("add --resume to continue it, or name another file"));
    }
    let journal = lines.as_deref().map(|path| Journal::open(path, args.resume)).transpose()?;
    let start = Instant::now();
    let interrupts = interrupts()?;
    let mut pile = Pile {
        job,
        fixed: digest_of(job, fixed)?,
        journal,
        totals: Totals::default(),
        stats: Vec::new(),
        bar: progress_bar(documents.known_len()),
    };
    let stopped = pile.run(documents, &interrupts)?;
    pile.bar.finish_and_clear();
    let Pile { journal, totals, stats, .. } = pile;
    if let Some(journal) = journal {
        if totals.failed > 0 {
            eprintln!("failures are in {}", journal.failures().display());
        }
        journal.close()?;
    }
    if let (Some(to), Some(lines)) = (args.output.as_deref().filter(|path| is_table(path)), &lines) {
        table::write_csv(lines, to)?;
    }
    print_totals(&totals, args.batch, start);
    if let Some(path) = &args.stats {
        output::write_stats(path, &stats)?;
    }
    match stopped {
        Some(Stop::Interrupted) => {
            if args.output.is_some() {
                eprintln!("interrupted; the same command with --resume continues it");
            }
            Ok(ExitCode::from(INTERRUPTED))
        }
        Some(Stop::Failures) => {
            eprintln!("stopped after {} failures (--max-failures)", totals.failed);
            Ok(ExitCode::FAILURE)
        }
        None if totals.failed > 0 => Ok(ExitCode::FAILURE),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Reasons to begin no more texts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Interrupted,
    Failures,
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
        let mut in_flight: VecDeque<(Task, Result<Handle>)> = VecDeque::new();
        let (mut documents, mut first, mut stop) = (documents, true, None);
        loop {
            stop = stop.or_else(|| self.stop(interrupts));
            // Enough requests to keep the batch full during the wait for the first of them.
            while stop.is_none()
                && in_flight.len() < 2 * batch
                && let Some(document) = documents.next()
            {
                let Some((task, document)) = self.begin(document) else { continue };
                let was_first = std::mem::take(&mut first);
                match &scheduler {
                    Some(scheduler) => {
                        let made = request(self.job, document, was_first);
                        in_flight.push_back((task, made.and_then(|request| scheduler.submit(request))));
                    }
                    None => {
                        let outcome = extract_document(self.job, document, was_first);
                        self.take(&task, outcome)?;
                        stop = self.stop(interrupts);
                    }
                }
            }
            let Some((task, handle)) = in_flight.pop_front() else { return Ok(stop) };
            let output = handle.and_then(|handle| outcome_of(self.job, &task.source, handle.wait()));
            self.take(&task, output)?;
        }
    }

    fn stop(&self, interrupts: &AtomicUsize) -> Option<Stop> {
        if interrupts.load(Ordering::Relaxed) > 0 {
            return Some(Stop::Interrupted);
        }
        self.job.args.max_failures.filter(|most| self.totals.failed >= *most).map(|_| Stop::Failures)
    }

    /// Begins a text, unless its record is in the journal.
    fn begin(&mut self, document: Document) -> Option<(Task, Document)> {
        let mut task = Task { source: document.source.clone(), id: document.id.clone(), key: None };
        if let (Some(journal), Ok(text)) = (&mut self.journal, &document.text) {
            let mut digest = self.fixed.clone();
            add(&mut digest, text.as_bytes());
            let key: Key = digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            if journal.take_done(&key) {
                self.totals.resumed += 1;
                self.bar.inc(1);
                return None;
            }
            task.key = Some(key);
        }
        Some((task, document))
    }

    /// Writes the outcome of a text.
    fn take(&mut self, task: &Task, outcome: Result<Outcome>) -> Result<()> {
        let source = task.source.display().to_string();
        let (error, line) = match outcome {
            Ok(outcome) => {
                if let Some(gate) = &outcome.stats.gate {
                    self.bar.suspend(|| eprint!("{source}:\n{gate}"));
                }
                let line = line_of(task, &outcome)?;
                self.totals.add(&outcome.stats);
                if self.job.args.stats.is_some() {
                    self.stats.push(TextStats { source, stats: outcome.stats });
                }
                (outcome.incomplete, line)
            }
            Err(error) => {
                let message = Some(error.to_string());
                let id = task.id.as_ref();
                let line = Line {
                    source,
                    id,
                    record: None,
                    finish: "error",
                    partial: None,
                    error: message,
                    key: None,
                };
                (Some(error), json(&line)?)
            }
        };
        match &error {
            Some(error) => {
                self.totals.failed += 1;
                self.bar.suspend(|| eprintln!("error: {error}"));
            }
            None => self.totals.records += 1,
        }
        match (&mut self.journal, &error) {
            (None, _) => self.bar.suspend(|| output::print_line(&line))?,
            (Some(journal), None) => journal.append(&line)?,
            (Some(journal), Some(_)) => journal.append_failure(&line)?,
        }
        self.bar.inc(1);
        Ok(())
    }
}

/// Returns the line of the output for a text.
fn line_of(task: &Task, outcome: &Outcome) -> Result<String> {
    let (record, partial) = match outcome.incomplete {
        None => (serde_json::from_str::<&RawValue>(&outcome.text).ok(), None),
        Some(_) => (None, Some(&*outcome.text)),
    };
    json(&Line {
        source: task.source.display().to_string(),
        id: task.id.as_ref(),
        record,
        finish: outcome.finish,
        partial,
        error: outcome.incomplete.as_ref().map(Error::to_string),
        key: task.key.as_deref(),
    })
}

/// Returns the journal of an output file.
fn journal_of(output: &Path) -> PathBuf {
    if is_table(output) { with_suffix(output, ".journal") } else { output.to_owned() }
}

/// Returns true if a file is the output or one of the files beside it.
pub(super) fn is_own(file: &Path, output: &Path) -> bool {
    let lines = journal_of(output);
    let own = [output.to_owned(), with_suffix(&lines, FAILURES), lines];
    own.iter().any(|own| match (file.canonicalize(), own.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    })
}

fn is_table(output: &Path) -> bool {
    output.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

fn add(digest: &mut Sha256, part: &[u8]) {
    digest.update((part.len() as u64).to_le_bytes());
    digest.update(part);
}

/// Returns the digest of all that determines the records but the texts. A model counts by its name
/// and the size of its file.
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
    let options =
        format!("{json:?} {values:?} {decode:?} {models:?} {} {}", args.open_objects, args.whole_words);
    add(&mut digest, options.as_bytes());
    let size = models.name().and_then(|name| std::fs::metadata(name).ok()).map_or(0, |file| file.len());
    add(&mut digest, &size.to_le_bytes());
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

fn print_totals(totals: &Totals, batch: u16, start: Instant) {
    let resumed = match totals.resumed {
        0 => String::new(),
        n => format!(" ({n} were done)"),
    };
    eprintln!(
        "{} of {} records{resumed}, {} tokens in {} forwards, {} forced, {} drafted, {} accepted, {:.2} s",
        totals.records,
        totals.records as u64 + totals.failed,
        totals.tokens,
        totals.forwards,
        totals.forced,
        totals.drafted,
        totals.accepted,
        // The times of records in a batch overlap, so their sum means nothing.
        match batch {
            1 => totals.seconds,
            _ => start.elapsed().as_secs_f64(),
        },
    );
}

/// Returns a progress bar on standard error, which is hidden if that is no terminal.
fn progress_bar(len: Option<usize>) -> indicatif::ProgressBar {
    let (bar, template) = match len {
        Some(len) => {
            (indicatif::ProgressBar::new(len as u64), "{bar:30} {pos}/{len} texts, {per_sec}, {eta} left")
        }
        None => (indicatif::ProgressBar::new_spinner(), "{spinner} {pos} texts, {per_sec}, {elapsed}"),
    };
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
