//! The output file of a run: an append-only journal, a line for each record.
//!
//! A record is done when its line is in the file with its line break. A line that a killed run left
//! incomplete is cut off when the next run resumes. Each line has a [`Key`]: the run that made it and
//! a digest of the text. A text of this run that has a line claims it, and a line is claimed once. At
//! the end of a run over all texts, the file has the claimed lines in the order of the texts, with
//! the sources and identifiers that the texts have now. That is what a run from nothing writes. Lines
//! that no text has claimed are stale. Failures go to a file of their own, which each run begins
//! anew.
//!
//! The report is such a file too: its lines follow a page, and a text may have several, its parts.
//!
//! # Cost
//!
//! One write for each record. Resuming reads the journal once and keeps some 100 bytes for each
//! record. The end of a run copies the file if lines move or change.
//!
//! # Alternatives considered
//!
//! Parquet and databases were rejected as journals: they are complete only once they are closed, or
//! need a reader of their own. Lines survive every end of the process, and any tool reads them.
//!
//! An index of the text in each line was rejected as the order: it is wrong once the input has more
//! texts. The order of a run over all texts is right by itself.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind as IoKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::task::{Key, Task};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::Members;

/// The end of the name of the file of failures.
pub(super) const FAILURES: &str = ".failures";
/// The end of the name of a file that is to replace another one.
pub(super) const PARTIAL: &str = ".partial";

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 256 << 20;

/// A line of an earlier run.
struct OldLine {
    start: u64,
    /// Digest of what it says about the place of its text.
    place: u64,
    /// The next line with the same text and part.
    next_same: Option<usize>,
    is_last_part: bool,
    /// True if it stays in the file as long as it may be claimed.
    is_unclaimed: bool,
}

/// A line of a text of this run.
struct Claim {
    text: usize,
    part: u32,
    start: u64,
    /// What the line has to say about the place of its text, if it says something else.
    place: Option<Box<Task>>,
}

/// The open journal.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// What the file has before its lines.
    head: String,
    /// Bytes of the whole lines, with the head.
    len: u64,
    /// Number of the whole lines.
    lines: usize,
    old: Vec<OldLine>,
    /// For each text and part the first of its old lines that are not claimed.
    unclaimed: HashMap<(u128, u32), usize>,
    claims: Vec<Claim>,
    /// The other runs that made lines, but those of stale lines.
    pub other_runs: Vec<u64>,
    hasher: RandomState,
    failures: PathBuf,
    failed: Option<File>,
}

/// How an output is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resume {
    /// Only with what made its records.
    Same,
    /// Whatever made its records.
    Keep,
}

/// What a journal does with the lines that no text has claimed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unclaimed {
    /// Not all texts were read: the lines stay.
    Stay,
    Go,
    /// They stay last, with the member `stale`.
    Marked,
}

impl Journal {
    /// Creates the journal of a run, or opens it to resume. `head` stands before its lines.
    pub(super) fn open(path: &Path, head: &str, run: u64, resume: Option<Resume>) -> Result<Journal> {
        let fail = |e: &std::io::Error| Error::io(path, e);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if resume.is_none() {
            options.create_new(true);
        }
        let file = options.create(true).truncate(false).open(path).map_err(|e| match e.kind() {
            IoKind::AlreadyExists => output_exists(path),
            _ => fail(&e),
        })?;
        // A device may have bytes without end.
        if !file.metadata().map_err(|e| fail(&e))?.is_file() {
            return Err(Error::new(ErrorKind::InvalidOption, "the output is not a regular file")
                .at(Place::File(path.into()))
                .hint("without --output, the lines go to standard output"));
        }
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Error::new(ErrorKind::Busy, "another run writes this output")
                .at(Place::File(path.into()))
                .hint("wait for its end, or name another file"));
        }
        let mut journal = Journal {
            path: path.into(),
            len: head.len() as u64,
            head: head.to_owned(),
            lines: 0,
            old: Vec::new(),
            unclaimed: HashMap::new(),
            claims: Vec::new(),
            other_runs: Vec::new(),
            hasher: RandomState::new(),
            failures: with_suffix(path, FAILURES),
            failed: None,
            file,
        };
        if journal.file.metadata().map_err(|e| fail(&e))?.len() < journal.len {
            let begun =
                journal.file.set_len(0).and_then(|()| journal.file.write_all(journal.head.as_bytes()));
            begun.map_err(|e| fail(&e))?;
        }
        journal.read_lines(run, resume == Some(Resume::Keep))?;
        Ok(journal)
    }

    /// Reads what is known of all whole lines. Those of other runs can be claimed only if they are kept.
    fn read_lines(&mut self, run: u64, keep: bool) -> Result<()> {
        let mut from = BufReader::new(&self.file);
        from.seek(SeekFrom::Start(self.len)).map_err(|e| Error::io(&self.path, &e))?;
        let (mut line, mut keys) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let read = read.map_err(|e| Error::io(&self.path, &e))?;
            if line.last() != Some(&b'\n') && (read as u64) < MAX_LINE {
                break;
            }
            let known: Option<KnownLine> = serde_json::from_slice(&line).ok();
            let key = known.as_ref().and_then(|line| Key::parse(line.key?));
            if known.is_none() || key.is_none() && self.head.is_empty() {
                return Err(Error::new(
                    ErrorKind::InvalidOption,
                    "not a journal of records: the line has no `key`",
                )
                .at(Place::File(self.path.clone()))
                .at(Place::LineColumn(keys.len() + 1, 1))
                .hint("name another file with --output"));
            }
            let Some(known) = known else { continue };
            self.old.push(OldLine {
                start: self.len,
                place: self.hasher.hash_one((known.index, &known.source, known.id.map(RawValue::get))),
                next_same: None,
                is_last_part: known.last.unwrap_or(true),
                is_unclaimed: key.is_some(),
            });
            keys.push((key, known.part, known.stale));
            self.len += read as u64;
            self.lines += 1;
        }
        let others = keys.iter().filter(|(_, _, stale)| !stale).filter_map(|(key, ..)| Some((*key)?.run));
        self.other_runs = others.filter(|other| *other != run).collect();
        self.other_runs.sort_unstable();
        self.other_runs.dedup();
        // Lines of this run come first.
        for is_own in if keep { &[false, true][..] } else { &[true] } {
            for (line, (key, part, _)) in keys.iter().enumerate().rev() {
                if let Some(key) = key.filter(|key| (key.run == run) == *is_own) {
                    self.old[line].next_same = self.unclaimed.insert((key.text, *part), line);
                }
            }
        }
        Ok(())
    }

    /// Forgets all lines, so that the output begins again.
    pub(super) fn clear(&mut self) {
        (self.len, self.lines) = (self.head.len() as u64, 0);
        self.old.clear();
        self.unclaimed.clear();
        self.other_runs.clear();
    }

    /// Prepares for the records of this run, once it is known that it may write this file.
    pub(super) fn begin(&mut self) -> Result<()> {
        let cut = self.file.set_len(self.len).and_then(|()| self.file.seek(SeekFrom::End(0)));
        cut.map_err(|e| Error::io(&self.path, &e))?;
        match std::fs::remove_file(&self.failures) {
            Err(e) if e.kind() != IoKind::NotFound => Err(Error::io(&self.failures, &e)),
            _ => Ok(()),
        }
    }

    /// Returns true if there are unclaimed lines of all parts of a text.
    pub(super) fn has(&self, key: Key) -> bool {
        let mut parts = (0..).map_while(|part| self.unclaimed.get(&(key.text, part)));
        parts.any(|line| self.old[*line].is_last_part)
    }

    /// Claims the lines of a text, which [has](Self::has) them; returns the number of the claim.
    pub(super) fn claim(&mut self, task: &Task, key: Key) -> usize {
        let first = self.claims.len();
        let (index, id) = (self.index(task), task.id.as_ref().map(Value::to_string));
        let now = self.hasher.hash_one((index, task.name(), id.as_deref()));
        for part in 0.. {
            let Some(line) = self.unclaimed.remove(&(key.text, part)) else { break };
            let old = &mut self.old[line];
            old.is_unclaimed = false;
            if let Some(next) = old.next_same {
                self.unclaimed.insert((key.text, part), next);
            }
            let place = (old.place != now).then(|| Box::new(task.clone()));
            self.claims.push(Claim { text: task.number, part, start: old.start, place });
            if old.is_last_part {
                break;
            }
        }
        first
    }

    /// Reads a claimed line. Lines can be appended afterwards.
    pub(super) fn line(&self, claim: usize) -> Result<String> {
        let line = LineReader::new(self)?.read(&self.claims[claim]).map(str::to_owned);
        (&self.file).seek(SeekFrom::End(0)).map_err(|e| Error::io(&self.path, &e))?;
        line
    }

    /// Returns the number of a text as a line says it: only the report does.
    fn index(&self, task: &Task) -> Option<usize> {
        (!self.head.is_empty()).then_some(task.number)
    }

    /// Appends a line of a text. If that fails, the file has the lines before it.
    pub(super) fn append(&mut self, text: usize, part: u32, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        if let Err(e) = self.file.write_all(line.as_bytes()) {
            // A part of a line would be cut off when the run is resumed, too.
            let _ = self.file.set_len(self.len);
            return Err(
                Error::io(&self.path, &e).hint("the records so far are in the file; --resume continues it")
            );
        }
        self.claims.push(Claim { text, part, start: self.len, place: None });
        self.lines += 1;
        self.len += line.len() as u64;
        Ok(())
    }

    /// Writes a line about a failure.
    pub(super) fn append_failure(&mut self, line: &str) -> Result<()> {
        let fail = |e: std::io::Error| Error::io(&self.failures, &e);
        let file = match &mut self.failed {
            Some(file) => file,
            none => none.insert(File::create(&self.failures).map_err(fail)?),
        };
        writeln!(file, "{line}").map_err(fail)
    }

    /// Makes sure that the records survive a failure of power, too, and brings the lines in the order
    /// of the texts. No line can be appended any more.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.claims.sort_by_key(|claim| (claim.text, claim.part));
        self.file.sync_data().map_err(|e| Error::io(&self.path, &e))
    }

    /// Passes on the lines of this run's texts, in the order of the texts.
    pub(super) fn for_each(&self, mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let mut lines = LineReader::new(self)?;
        self.claims.iter().try_for_each(|claim| take(lines.read(claim)?))
    }

    /// Ends the run. The file is replaced if a line moves, changes or goes; returns the number of
    /// unclaimed lines.
    pub(super) fn close(self, unclaimed: Unclaimed) -> Result<usize> {
        // In the order in which they are in the file.
        let mut left: Vec<&OldLine> = self.old.iter().filter(|line| line.is_unclaimed).collect();
        let count = left.len();
        let is_same = self.lines == self.claims.len()
            && self.claims.iter().all(|claim| claim.place.is_none())
            && self.claims.is_sorted_by_key(|claim| claim.start);
        if is_same {
            return Ok(0);
        }
        if unclaimed == Unclaimed::Go {
            left.clear();
        }
        let mut lines = LineReader::new(&self)?;
        replace(&self.path, |to| {
            let fail = |e: std::io::Error| Error::io(&self.path, &e);
            to.write_all(self.head.as_bytes()).map_err(fail)?;
            for claim in &self.claims {
                writeln!(to, "{}", lines.read(claim)?).map_err(fail)?;
            }
            for line in left {
                let line = lines.read_at(line.start)?;
                match unclaimed {
                    Unclaimed::Marked => writeln!(to, "{}", marked(line)?),
                    _ => writeln!(to, "{line}"),
                }
                .map_err(fail)?;
            }
            Ok(())
        })?;
        Ok(count)
    }

    /// The file of the failures.
    pub(super) fn failures(&self) -> &Path {
        &self.failures
    }
}

/// Reads lines of a journal in any order.
struct LineReader<'a> {
    journal: &'a Journal,
    from: BufReader<&'a File>,
    at: u64,
    line: String,
}

impl<'a> LineReader<'a> {
    fn new(journal: &'a Journal) -> Result<Self> {
        let mut from = BufReader::new(&journal.file);
        from.rewind().map_err(|e| Error::io(&journal.path, &e))?;
        Ok(LineReader { journal, from, at: 0, line: String::new() })
    }

    fn read(&mut self, claim: &Claim) -> Result<&str> {
        self.read_at(claim.start)?;
        if let Some(task) = &claim.place {
            self.line = moved(&self.line, task)?;
            if !self.journal.head.is_empty() {
                self.line = self.line.replace('<', "\\u003c");
            }
        }
        Ok(&self.line)
    }

    fn read_at(&mut self, start: u64) -> Result<&str> {
        self.line.clear();
        let read = self.from.seek_relative(start as i64 - self.at as i64);
        let read = read.and_then(|()| self.from.read_line(&mut self.line));
        let read = read.map_err(|e| {
            Error::io(&self.journal.path, &e)
                .hint("the records are in the file, but not in the order of the texts")
        })?;
        self.at = start + read as u64;
        self.line.truncate(self.line.trim_end_matches('\n').len());
        Ok(&self.line)
    }
}

/// Returns a line as it is for a text that is elsewhere now, or has another identifier.
fn moved(line: &str, task: &Task) -> Result<String> {
    changed(line, |members| {
        members.retain(|(name, _)| !matches!(&**name, "id" | "stale"));
        for (name, value) in members.iter_mut() {
            match &**name {
                "index" => *value = to_raw_value(&task.number)?,
                "source" => *value = to_raw_value(&task.name())?,
                _ => {}
            }
        }
        if let Some(id) = &task.id {
            let at = members.iter().position(|(name, _)| name == "source").map_or(0, |at| at + 1);
            members.insert(at, ("id".to_owned(), to_raw_value(id)?));
        }
        Ok(())
    })
}

/// Returns a line that is marked as stale.
fn marked(line: &str) -> Result<String> {
    changed(line, |members| {
        members.retain(|(name, _)| name != "stale");
        members.push(("stale".to_owned(), to_raw_value(&true)?));
        Ok(())
    })
}

type LineMembers = Vec<(String, Box<RawValue>)>;

fn changed(line: &str, change: impl FnOnce(&mut LineMembers) -> serde_json::Result<()>) -> Result<String> {
    let change = || {
        let mut members: Members = serde_json::from_str(line)?;
        change(&mut members.0)?;
        serde_json::to_string(&members)
    };
    change().map_err(|e| Error::new(ErrorKind::InvalidJson, format!("a line of an earlier run: {e}")))
}

/// The members of a line that a resumed run needs.
#[derive(serde::Deserialize)]
struct KnownLine<'a> {
    key: Option<&'a str>,
    index: Option<usize>,
    #[serde(default)]
    source: String,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    part: u32,
    last: Option<bool>,
    #[serde(default)]
    stale: bool,
}

/// Returns the error about a file that no run may overwrite.
pub(super) fn output_exists(path: &Path) -> Error {
    Error::new(ErrorKind::InvalidOption, "the output exists")
        .at(Place::File(path.into()))
        .hint("add --resume to continue it or --restart to begin it anew, or name another file")
}

/// Writes a file beside another one, which it then replaces as a whole.
///
/// # Errors
/// `Io` if it cannot be written.
pub fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let partial = with_suffix(path, PARTIAL);
    let fail = |e: std::io::Error| Error::io(path, &e);
    let written = File::create(&partial).map_err(fail).and_then(|file| {
        let mut to = BufWriter::new(file);
        write(&mut to)?;
        to.flush().and_then(|()| to.get_ref().sync_data()).map_err(fail)
    });
    written.and_then(|()| std::fs::rename(&partial, path).map_err(fail)).inspect_err(|_| {
        // A part of a file is of no use, and a full disk needs its space.
        drop(std::fs::remove_file(&partial));
    })
}

/// Returns a path with more at its end.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use ffwd_testkit::env::oracle_cases;
    use ffwd_testkit::random::Random;
    use serde_json::json;

    use super::*;

    const RUN: u64 = 7;

    fn key(text: u128) -> Key {
        Key { run: RUN, text }
    }

    fn task(number: usize, source: &str, id: Option<Value>) -> Task {
        Task { number, source: source.into(), id, places: None, key: None }
    }

    #[test]
    fn a_line_is_done_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let line = |key: Key| json!({"source": "s", "record": {"text": "é\n"}, "key": key.hex()}).to_string();
        let mut journal = Journal::open(&path, "", RUN, None).unwrap();
        for (i, text) in [1, 2, 1].into_iter().enumerate() {
            journal.append(i, 0, &line(key(text))).unwrap();
        }
        journal.append_failure("{}").unwrap();
        let failures = journal.failures().to_owned();
        let resumed = || Journal::open(&path, "", RUN, Some(Resume::Same));
        assert!(resumed().err().unwrap().to_string().contains("another run"));
        journal.sync().unwrap();
        assert_eq!(journal.close(Unclaimed::Go).unwrap(), 0);
        assert!(failures.exists());
        assert!(Journal::open(&path, "", RUN, None).is_err(), "nothing is overwritten");
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = resumed().unwrap();
            journal.begin().unwrap();
            let lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
            let done = [1, 2, 1, 1, 3].map(|text| {
                let has = journal.has(key(text));
                journal.claim(&task(0, "s", None), key(text));
                has
            });
            assert_eq!(done, [lines > 0, lines > 1, lines > 2, false, false], "{cut}");
            journal.append(0, 0, &line(key(3))).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), lines + 1, "{cut}: {text}");
            assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{cut}");
        }
        assert!(!failures.exists(), "each run begins them anew");
        std::fs::write(&path, "{\"source\":\"s\"}\n").unwrap();
        let error = resumed().err().unwrap().to_string();
        assert!(error.contains("key") && error.contains("line 1, column 1"), "{error}");
    }

    /// A text of a history. Texts with the same number are the same.
    #[derive(Clone, Debug)]
    struct Text {
        number: u128,
        source: String,
        id: Option<Value>,
    }

    /// Returns the lines of a text, in the order of its parts, as a run writes them.
    fn lines(at: usize, text: &Text, is_report: bool, run: u64) -> Vec<String> {
        let parts = if is_report { text.number % 3 } else { 0 };
        let line = |part: u128| {
            let mut line = serde_json::Map::new();
            if is_report {
                line.insert("index".into(), json!(at));
            }
            if parts > 0 {
                line.extend([("part".into(), json!(part)), ("last".into(), json!(part == parts))]);
            }
            line.insert("source".into(), json!(text.source));
            line.extend(text.id.clone().map(|id| ("id".into(), id)));
            line.insert("record".into(), json!({"n": text.number.to_string(), "tag": "<b>"}));
            line.insert("key".into(), json!(Key { run, text: text.number }.hex()));
            let line = serde_json::to_string(&line).unwrap();
            if is_report { line.replace('<', "\\u003c") } else { line }
        };
        (0..=parts).map(line).collect()
    }

    /// Runs over texts that change between them: some of the runs are killed, some stop early, some
    /// texts fail at first. The last run gives what a run from nothing gives, byte for byte.
    #[test]
    fn a_resumed_run_gives_what_a_run_from_nothing_gives() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(3);
        let (mut moved, mut stale) = (0, 0);
        for round in 0..oracle_cases(500) {
            let is_report = round % 2 == 1;
            let head = if is_report { "<!-- <a> -->\né\n" } else { "" };
            let path = dir.path().join(format!("{round}.jsonl"));
            let mut texts: Vec<Text> = Vec::new();
            for last in [false, false, false, true] {
                for _ in 0..random.next() % 6 {
                    let at = random.next() as usize % (texts.len() + 1);
                    let number = u128::from(random.next() % 12);
                    let source = format!("<{}>.txt", random.next() % 9);
                    let id = random.chance(50).then(|| json!(random.next() % 5));
                    match random.next() % 4 {
                        0 if at < texts.len() => drop(texts.remove(at)),
                        1 if at < texts.len() => texts[at].source = source,
                        2 if at < texts.len() => texts[at].id = id,
                        _ => texts.insert(at, Text { number, source, id }),
                    }
                }
                let mut journal = Journal::open(&path, head, RUN, Some(Resume::Same)).unwrap();
                journal.begin().unwrap();
                let stops = if !last && random.chance(30) { texts.len() / 2 } else { texts.len() };
                for (at, text) in texts[..stops].iter().enumerate() {
                    let task = task(at, &text.source, text.id.clone());
                    if journal.has(key(text.number)) {
                        journal.claim(&task, key(text.number));
                    } else if last || !random.chance(30) {
                        for (part, line) in lines(at, text, is_report, RUN).iter().enumerate() {
                            journal.append(at, part as u32, line).unwrap();
                        }
                    } else if is_report {
                        journal.append(at, 0, &format!("{{\"index\":{at},\"source\":\"\"}}")).unwrap();
                    }
                }
                if !last && random.chance(40) {
                    drop(journal);
                    let bytes = std::fs::read(&path).unwrap();
                    let cut = random.next() as usize % (bytes.len() - head.len() + 1);
                    std::fs::write(&path, &bytes[..head.len() + cut]).unwrap();
                    continue;
                }
                journal.sync().unwrap();
                moved += usize::from(journal.claims.iter().any(|claim| claim.place.is_some()));
                let unclaimed = if stops == texts.len() { Unclaimed::Go } else { Unclaimed::Stay };
                let mut shown = String::new();
                let mut show = |line: &str| {
                    shown += &format!("{line}\n");
                    Ok(())
                };
                journal.for_each(&mut show).unwrap();
                stale += journal.close(unclaimed).unwrap();
                let after = std::fs::read_to_string(&path).unwrap();
                assert!(after.starts_with(&format!("{head}{shown}")), "a table has the lines of this run");
            }
            let of = |(at, text)| lines(at, text, is_report, RUN).into_iter().map(|line| line + "\n");
            let wanted = head.to_owned() + &texts.iter().enumerate().flat_map(of).collect::<String>();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted, "round {round}");
        }
        assert!(moved > 20 && stale > 20, "{moved} {stale}");
    }

    #[test]
    fn records_of_other_runs_are_claimed_only_if_they_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let text = |number, source: &str| Text { number, source: source.into(), id: None };
        let all = [text(1, "a"), text(2, "b"), text(3, "c")];
        let mut journal = Journal::open(&path, "", RUN, None).unwrap();
        for (at, text) in all.iter().enumerate() {
            journal.append(at, 0, &lines(at, text, false, RUN)[0]).unwrap();
        }
        drop(journal);
        let other = Journal::open(&path, "", 8, Some(Resume::Same)).unwrap();
        assert!(other.other_runs == [RUN] && !other.has(key(1)));
        drop(other);
        let mut other = Journal::open(&path, "", 8, Some(Resume::Keep)).unwrap();
        assert!(other.has(key(1)));
        other.begin().unwrap();
        other.claim(&task(0, "a2", None), key(1));
        other.append(1, 0, &lines(1, &all[1], false, 8)[0]).unwrap();
        other.sync().unwrap();
        // The two that are left are marked, do not count as those of another run, and are found again.
        assert_eq!(other.close(Unclaimed::Marked).unwrap(), 2);
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after.matches(r#","stale":true}"#).count(), 2);
        assert!(after.starts_with(&lines(0, &text(1, "a2"), false, RUN)[0]), "its key names its run");
        let mut again = Journal::open(&path, "", RUN, Some(Resume::Same)).unwrap();
        assert_eq!(again.other_runs, [8]);
        again.clear();
        assert!(!again.has(key(1)) && again.other_runs.is_empty());
        again.begin().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
