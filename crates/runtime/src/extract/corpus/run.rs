//! A run over many texts: in batches, with outputs that a later run can resume.
//!
//! # Cost
//!
//! The texts and outcomes of two batches are in memory at a time.
//!
//! # Alternatives considered
//!
//! Outcomes in the order in which they become complete were rejected: callers would need the index
//! with each of them to know its text, and the lines would have no order.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::document::Document;
use super::grounding::GroundingOptions;
use super::journal::{FAILURES, Journal, PARTIAL, Resume, Unclaimed, output_exists, with_suffix};
use super::line::Outcome;
use super::parts::{DonePart, JoinOptions, TextPart, join, parts};
use super::provenance::{MadeBy, RUNS, Runs};
use super::report::{ReportLine, Shown, open_report};
use super::table::{Lines, TableFormat, WriteTable, no_parquet};
use super::task::{Key, Task};
use crate::decode::{Engine, Handle, Output, Request, Scheduler, SchedulerOptions};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::{ChunkOptions, Extractor, incomplete};

/// Sets further options of a request. A request about a text may be made twice.
pub type SetRequest = Box<dyn Fn(Request) -> Result<Request> + Send>;

/// Share of a text's tokens that an adapter has not seen, above which there is a note.
const UNFAMILIAR: f64 = 0.5;

/// What a run does, beside making records.
#[derive(Debug, Clone, Default)]
pub struct CorpusOptions {
    /// The number of texts that run together, and other limits of the scheduler.
    pub scheduler: SchedulerOptions,
    /// Cuts texts into parts of a bounded length, if set.
    pub chunks: Option<ChunkOptions>,
    /// Merges the records of the parts of a text that agree in these; see
    /// [`merge_records`](crate::extract::merge_records).
    pub merge_keys: Vec<String>,
    /// The property whose list has the rows of a text: the records of its parts are one, and rows are
    /// counted. Only with `chunks`.
    pub list: Option<String>,
    /// What lines and outcomes say about values.
    pub grounding: GroundingOptions,
    /// The file of the lines, or of the table.
    pub output: Option<PathBuf>,
    /// What happens to an output that exists.
    pub start: Start,
    /// Keeps the lines of texts that changed or are no longer there.
    pub keep_stale: bool,
    /// The file of the report.
    pub report: Option<PathBuf>,
    /// Writes tables in Parquet.
    pub parquet: Option<WriteTable>,
    /// Further options that determine the records, by name.
    pub made_by: Vec<(String, String)>,
}

/// What a run does with an output that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// It is an error.
    #[default]
    New,
    /// Lines of the same texts, made by the same model, schema and options, stay.
    Resume,
    /// Lines of the same texts stay, whatever made them.
    Keep,
    /// The output begins again, without its records.
    Anew,
}

/// A text that is done.
pub struct Done {
    /// The text.
    pub task: Task,
    /// Number of its parts.
    pub parts: usize,
    /// What became of it; `None` if an earlier run has made its line.
    pub outcome: Option<Result<Outcome>>,
    /// The line of the earlier run.
    claim: usize,
}

/// What is to be said about a run that ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Number of lines of texts that changed or are no longer there.
    pub stale: usize,
    /// Number of records that were made again, because the report lacked them.
    pub again: usize,
}

/// A text in work.
enum TextInWork {
    /// An earlier run has made its line, which is claimed by this number.
    Resumed(Task, usize),
    Part(TextPart),
}

/// A run over many texts.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::sync::Arc;
///
/// use ffwd::Engine;
/// use ffwd::extract::Extractor;
/// use ffwd::extract::corpus::{CorpusOptions, CorpusRun, Document};
///
/// # fn main() -> ffwd::Result<()> {
/// let engine = Arc::new(Engine::embedded()?);
/// let schema = r#"{"properties": {"total": {"type": "number"}}, "required": ["total"]}"#;
/// let extractor = Extractor::new(&engine, schema)?;
/// let limit = Box::new(|request: ffwd::Request| Ok(request.max_tokens(64)));
/// let mut run = CorpusRun::new(engine, extractor, CorpusOptions::default(), limit)?;
/// for (source, text) in [("a.txt", "Total: 12.50 EUR"), ("b.txt", "To pay: 7 EUR")] {
///     run.push(Document { source: source.into(), id: None, text: Ok(text.into()), places: None });
/// }
/// while let Some(done) = run.pop()? {
///     // {"source":"a.txt","record":{"total":12.50},"finish":"stop"}
///     assert!(done.line()?.is_some_and(|line| line.contains("\"total\"")));
/// }
/// run.end(true)?;
/// # Ok(())
/// # }
/// ```
pub struct CorpusRun {
    engine: Arc<Engine>,
    extractor: Extractor,
    options: CorpusOptions,
    set: SetRequest,
    journal: Option<Journal>,
    report: Option<Journal>,
    /// The run that makes the records; see [`Key`].
    run: u64,
    /// Number of texts that were begun.
    begun: usize,
    again: usize,
    /// What is left of texts that were taken.
    waiting: VecDeque<TextInWork>,
    /// Declared before the scheduler, so that its requests are cancelled first.
    in_work: VecDeque<(TextInWork, Option<Result<Handle>>)>,
    scheduler: Arc<Scheduler>,
    /// Largest number of requests in work.
    ahead: usize,
    /// The parts that are done of the first text in work.
    done: Vec<DonePart>,
}

impl CorpusRun {
    /// Begins a run. Its outputs are opened.
    ///
    /// # Errors
    /// `InvalidOption` if an output exists and is not continued, or has records that something else
    /// made; `Busy` if another run writes it; `Io` if it cannot be written.
    pub fn new(
        engine: Arc<Engine>,
        extractor: Extractor,
        options: CorpusOptions,
        set: SetRequest,
    ) -> Result<CorpusRun> {
        let mut limits = options.scheduler.clone();
        // Submitting never waits.
        limits.queue = limits.queue.max(options.scheduler.batch.saturating_mul(2));
        let scheduler = Arc::new(Scheduler::new(engine.clone(), limits)?);
        Self::on(scheduler, engine, extractor, options, set)
    }

    /// Begins a run on a scheduler of this engine that others use too.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on(
        scheduler: Arc<Scheduler>,
        engine: Arc<Engine>,
        extractor: Extractor,
        options: CorpusOptions,
        set: SetRequest,
    ) -> Result<CorpusRun> {
        let (mut journal, mut report, mut run) = (None, None, 0);
        if options.output.is_some() || options.report.is_some() {
            let mut made_by = MadeBy::new();
            made_by.add_model(&engine, &extractor)?;
            options.made_by.iter().for_each(|(name, value)| made_by.add(name, value));
            run = made_by.run();
            journal = options
                .output
                .as_deref()
                .map(|output| open_journal(&options, output, made_by))
                .transpose()?;
            let resume = options.start.resume().filter(|_| options.start != Start::Anew);
            report = options.report.as_deref().map(|path| open_report(path, run, resume)).transpose()?;
        }
        let ahead = options.scheduler.batch.saturating_mul(2);
        Ok(CorpusRun {
            engine,
            extractor,
            options,
            set,
            journal,
            report,
            run,
            begun: 0,
            again: 0,
            waiting: VecDeque::new(),
            in_work: VecDeque::new(),
            scheduler,
            ahead,
            done: Vec::new(),
        })
    }

    /// Sets further options of each request that is made from now on.
    pub(crate) fn set(&mut self, set: SetRequest) {
        self.set = set;
    }

    /// Returns true if texts should be taken from the run before it gets further ones.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty() || self.in_work.len() >= self.ahead
    }

    /// Gives a text to the run.
    pub fn push(&mut self, document: Document) {
        let Document { source, id, text, places } = document;
        let mut task = Task { number: self.begun, source, id, places, key: None };
        self.begun += 1;
        if let (Some(journal), Ok(text)) = (&mut self.journal, &text) {
            let key = Key { run: self.run, text: text_digest(text) };
            let is_shown = self.report.as_ref().is_none_or(|report| report.has(key));
            match journal.has(key) {
                true if is_shown => {
                    let claim = journal.claim(&task, key);
                    if let Some(report) = &mut self.report {
                        report.claim(&task, key);
                    }
                    self.waiting.push_back(TextInWork::Resumed(task, claim));
                    return self.feed();
                }
                true => self.again += 1,
                false => {}
            }
            task.key = Some(key);
        }
        let parts = parts(&self.extractor, self.options.chunks.as_ref(), task, text);
        self.waiting.extend(parts.into_iter().map(TextInWork::Part));
        self.feed();
    }

    /// Submits what fits into the batch.
    fn feed(&mut self) {
        while self.in_work.len() < self.ahead
            && let Some(entry) = self.waiting.pop_front()
        {
            let handle = match &entry {
                TextInWork::Resumed(..) => None,
                TextInWork::Part(part) => {
                    let request = part.text.as_ref().map_err(Error::clone);
                    let request =
                        request.and_then(|text| self.request(text).map_err(|e| part.task.placed(e)));
                    Some(request.and_then(|request| self.scheduler.submit(request)))
                }
            };
            self.in_work.push_back((entry, handle));
        }
    }

    /// Returns the request for a text.
    ///
    /// # Errors
    /// As [`Extractor::request`], and those of the options that were set.
    pub fn request(&self, text: &str) -> Result<Request> {
        let request = (self.set)(self.extractor.request(text)?)?;
        let request =
            if self.options.grounding.needs_confidence() { request.confidence(true) } else { request };
        Ok(if self.report.is_some() { request.origins(true) } else { request })
    }

    /// Waits for the first request in work, for a limited time. Returns true if [`pop`](Self::pop)
    /// does not wait for it.
    pub fn wait_for(&mut self, limit: Duration) -> bool {
        match self.in_work.front_mut() {
            Some((_, Some(Ok(handle)))) => handle.wait_for(limit),
            _ => true,
        }
    }

    /// Takes the next text that is done, in the order of the texts; `None` if none is in work.
    ///
    /// # Errors
    /// If an output cannot be written. What became of the text is in [`Done::outcome`].
    pub fn pop(&mut self) -> Result<Option<Done>> {
        loop {
            let Some((entry, handle)) = self.in_work.pop_front() else { return Ok(None) };
            // The batch is full during the wait.
            self.feed();
            let part = match entry {
                TextInWork::Resumed(task, claim) => {
                    return Ok(Some(Done { task, parts: 1, outcome: None, claim }));
                }
                TextInWork::Part(part) => part,
            };
            let output = handle
                .unwrap_or_else(|| Err(gone()))
                .and_then(|handle| handle.wait().map_err(|e| part.task.placed(e)));
            let text = part.text.as_deref().unwrap_or_default();
            let outcome =
                output.and_then(|output| self.outcome(text, output).map_err(|e| part.task.placed(e)));
            let outcome = outcome.map(|outcome| Outcome {
                incomplete: outcome.incomplete.map(|e| part.task.placed(e)),
                ..outcome
            });
            if let Some(done) = self.take_part(part, outcome)? {
                return Ok(Some(done));
            }
        }
    }

    /// Converts the output of [`request`](Self::request) about a text; one that the token limit cut is
    /// no error here.
    ///
    /// # Errors
    /// If the values of the record cannot be grounded.
    pub fn outcome(&self, text: &str, output: Output) -> Result<Outcome> {
        let options = &self.options.grounding;
        let mut grounding = options.members(&self.engine, &output, text, || self.request(text))?;
        let incomplete = incomplete(&output);
        let answer = output.answer.as_deref().unwrap_or(&output.text);
        let mut record = output.text.clone();
        if incomplete.is_none() && options.abstain.is_some() {
            let fits = |record: &str| self.extractor.check(&self.engine, text, record).is_ok();
            (record, grounding.abstained) = options.abstain(answer, &output.confidence, fits);
        }
        if options.spans || options.abstain.is_some() {
            let kept = if grounding.abstained.is_some() { &record } else { answer };
            grounding.unsupported = Some(self.extractor.unsupported(text, kept));
        }
        let vocab = self.engine.vocabulary();
        let shown = self.report.is_some().then(|| Shown::new(text, &output, &grounding, vocab));
        Ok(Outcome {
            text: record,
            finish: output.finish.name(),
            stats: output.stats.clone(),
            grounding,
            incomplete,
            notes: self.unfamiliar(text)?.into_iter().collect(),
            output: Some(output),
            shown,
            ..Outcome::default()
        })
    }

    /// Returns a note if the adapter's training has not seen most tokens of a text.
    fn unfamiliar(&self, text: &str) -> Result<Option<&'static str>> {
        let adapter = self.engine.adapter().filter(|adapter| adapter.says_trained());
        let Some(adapter) = adapter else { return Ok(None) };
        let share = adapter.untrained_share(&self.engine.vocabulary().encode(text)?);
        Ok(share.filter(|share| *share > UNFAMILIAR).map(|_| {
            "the adapter has seen few of this text's tokens, as of another language or script; compare with \
             the model without it"
        }))
    }

    /// Takes the outcome of a text, or of a part of one; the parts of a text come in their order.
    fn take_part(&mut self, part: TextPart, mut outcome: Result<Outcome>) -> Result<Option<Done>> {
        if let (Some(places), Ok(Outcome { shown: Some(shown), .. })) = (&part.task.places, &mut outcome) {
            shown.add_pages(places, part.chunk.as_ref().map_or(0, |chunk| chunk.bytes.start));
        }
        self.show(&part, &outcome)?;
        let TextPart { task, text, chunk, last } = part;
        let Some(chunk) = chunk else { return self.take(&task, 1, outcome).map(Some) };
        self.done.push(DonePart { chunk, text: text.unwrap_or_default(), outcome });
        if !last {
            return Ok(None);
        }
        let done = std::mem::take(&mut self.done);
        let count = done.len();
        let fits = |text: &str, record: &str| self.extractor.check(&self.engine, text, record);
        let options =
            JoinOptions { merge_keys: &self.options.merge_keys, list: self.options.list.as_deref() };
        let outcome = join(&task, done, options, &fits);
        self.take(&task, count, outcome).map(Some)
    }

    /// Adds a text, or a part of one, to the report.
    fn show(&mut self, part: &TextPart, outcome: &Result<Outcome>) -> Result<()> {
        let Some(report) = &mut self.report else { return Ok(()) };
        let task = &part.task;
        let (error, finish) = match outcome {
            Ok(outcome) => (outcome.incomplete.as_ref(), outcome.finish),
            Err(error) => (Some(error), "error"),
        };
        let shown = outcome.as_ref().ok().and_then(|outcome| outcome.shown.as_ref());
        let failed = Shown::failed(part.text.as_deref().ok());
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
    fn take(&mut self, task: &Arc<Task>, parts: usize, mut outcome: Result<Outcome>) -> Result<Done> {
        if let (Some(places), Ok(outcome)) = (&task.places, &mut outcome) {
            let records = outcome.records.iter_mut().flatten().map(|(_, grounding)| grounding);
            let all =
                records.chain([&mut outcome.grounding]).filter_map(|grounding| grounding.spans.as_mut());
            all.for_each(|spans| places.add_to(spans));
            outcome.rows.iter_mut().for_each(|rows| rows.add_pages(places));
        }
        let done = Done { task: Task::clone(task), parts, outcome: Some(outcome), claim: 0 };
        if let Some(journal) = &mut self.journal
            && let Some(line) = done.line()?
        {
            match done.error() {
                Some(_) => journal.append_failure(&line)?,
                None => journal.append(task.number, 0, &line)?,
            }
        }
        Ok(done)
    }

    /// Reads the line that an earlier run has made of a text.
    ///
    /// # Errors
    /// `Io` if it cannot be read.
    pub fn resumed_line(&self, done: &Done) -> Result<String> {
        self.journal.as_ref().map_or(Ok(String::new()), |journal| journal.line(done.claim))
    }

    /// The file of the failures, if there are outputs.
    pub fn failures(&self) -> Option<&Path> {
        self.journal.as_ref().map(Journal::failures)
    }

    /// Ends the run: brings the outputs in the order of the texts, and writes the table. Texts in work
    /// are cancelled. `all` says that the run was given all texts, and gave them back.
    ///
    /// # Errors
    /// If an output cannot be written.
    pub fn end(self, all: bool) -> Result<Ended> {
        let mut ended = Ended { again: self.again, ..Ended::default() };
        let unclaimed = match all {
            false => Unclaimed::Stay,
            true if self.options.keep_stale => Unclaimed::Marked,
            true => Unclaimed::Go,
        };
        if let (Some(mut journal), Some(output)) = (self.journal, self.options.output.as_deref()) {
            journal.sync()?;
            let lines: Lines = &|take| journal.for_each(take);
            let written = TableFormat::of(output)?;
            let written = written.map_or(Ok(()), |format| format.write(lines, output, self.options.parquet));
            let left = journal.close(unclaimed)?;
            ended.stale = if all { left.saturating_sub(self.again) } else { 0 };
            let hint =
                format!("the records are in {}; --resume makes the table", journal_of(output).display());
            written.map_err(|e| if e.hint_text().is_none() { e.hint(hint) } else { e })?;
        }
        if let Some(mut report) = self.report {
            report.sync()?;
            report.close(if all { Unclaimed::Go } else { Unclaimed::Stay })?;
        }
        Ok(ended)
    }
}

impl std::fmt::Debug for CorpusRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CorpusRun").field("in_work", &self.in_work.len()).finish_non_exhaustive()
    }
}

impl Done {
    /// Returns why there is no whole record, if there is none.
    pub fn error(&self) -> Option<&Error> {
        match self.outcome.as_ref()? {
            Ok(outcome) => outcome.incomplete.as_ref(),
            Err(error) => Some(error),
        }
    }

    /// Returns the line about the text; `None` if an earlier run has made it.
    ///
    /// # Errors
    /// `Io` if it cannot be written as JSON.
    pub fn line(&self) -> Result<Option<String>> {
        self.outcome
            .as_ref()
            .map(|outcome| match outcome {
                Ok(outcome) => self.task.line(outcome),
                Err(error) => self.task.failure(error),
            })
            .transpose()
    }
}

impl Start {
    fn resume(self) -> Option<Resume> {
        match self {
            Start::New => None,
            Start::Resume => Some(Resume::Same),
            Start::Keep | Start::Anew => Some(Resume::Keep),
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the request was not made")
}

/// Opens the journal of an output for a run.
fn open_journal(options: &CorpusOptions, output: &Path, made_by: MadeBy) -> Result<Journal> {
    if TableFormat::of(output)? == Some(TableFormat::Parquet) && options.parquet.is_none() {
        return Err(no_parquet().at(Place::File(output.into())));
    }
    let path = journal_of(output);
    let resume = options.start.resume();
    // A table that no run has written is not replaced.
    if path != output && output.exists() {
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
    if options.start == Start::Anew {
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
pub fn is_output(file: &Path, output: &Path) -> bool {
    let lines = journal_of(output);
    let own = [output.to_owned(), with_suffix(&lines, FAILURES), with_suffix(output, RUNS), lines];
    let partial = own.clone().map(|path| with_suffix(&path, PARTIAL));
    own.into_iter().chain(partial).any(|own| match (file.canonicalize(), own.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    })
}

fn text_digest(text: &str) -> u128 {
    Sha256::digest(text).iter().take(16).fold(0, |key, byte| key << 8 | u128::from(*byte))
}
