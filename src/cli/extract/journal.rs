//! The output file of `ffwd extract`: an append-only journal, a line for each record.
//!
//! A record is done when its line is in the file with its line break. A line that a killed run left
//! incomplete is cut off when the next run resumes. Each line has a key, a digest of everything that
//! determines the record, so a resumed run knows what is done. Texts that occur several times have
//! a line each. Failures go to a file of their own, which each run begins anew.
//!
//! # Cost
//!
//! One write for each record. Resuming reads the journal once and keeps a key of 16 bytes for each
//! record.
//!
//! # Alternatives considered
//!
//! Parquet and databases were rejected as journals: they are complete only once they are closed, or
//! need a reader of their own. Lines survive every end of the process, and any tool reads them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind as IoKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Place, Result};

/// The end of the name of the file of failures.
pub(super) const FAILURES: &str = ".failures";

/// Digest of what determines a record, in hexadecimal digits.
pub(super) type Key = String;

/// The open journal.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes of the whole lines.
    len: u64,
    /// For each key the number of its lines that no text of this run has used.
    done: HashMap<Key, usize>,
    failures: PathBuf,
    failed: Option<File>,
}

impl Journal {
    /// Creates the journal, or opens it to resume.
    pub fn open(path: &Path, resume: bool) -> Result<Journal> {
        let fail = |e: &std::io::Error| Error::io(path, e);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if !resume {
            options.create_new(true);
        }
        let file = options.create(true).truncate(false).open(path).map_err(|e| match e.kind() {
            IoKind::AlreadyExists => Error::new(ErrorKind::InvalidOption, "the output exists")
                .at(Place::File(path.into()))
                .hint("add --resume to continue it, or name another file"),
            _ => fail(&e),
        })?;
        let mut journal = Journal {
            path: path.into(),
            len: 0,
            done: HashMap::new(),
            failures: with_suffix(path, FAILURES),
            failed: None,
            file,
        };
        journal.read_keys()?;
        let cut = journal.file.set_len(journal.len);
        cut.and_then(|()| journal.file.seek(SeekFrom::End(0))).map_err(|e| fail(&e))?;
        match std::fs::remove_file(&journal.failures) {
            Err(e) if e.kind() != IoKind::NotFound => Err(Error::io(&journal.failures, &e)),
            _ => Ok(journal),
        }
    }

    /// Counts the keys of all whole lines.
    fn read_keys(&mut self) -> Result<()> {
        let mut from = BufReader::new(&self.file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            let read = from.read_until(b'\n', &mut line).map_err(|e| Error::io(&self.path, &e))?;
            if line.last() != Some(&b'\n') {
                return Ok(());
            }
            let value: Option<Value> = serde_json::from_slice(&line).ok();
            let Some(key) = value.as_ref().and_then(|v| v.get("key")).and_then(Value::as_str) else {
                return Err(Error::new(
                    ErrorKind::InvalidOption,
                    "not a journal of records: the line has no `key`",
                )
                .at(Place::File(self.path.clone()))
                .at(Place::LineColumn(number, 1))
                .hint("name another file with --output"));
            };
            *self.done.entry(key.to_owned()).or_default() += 1;
            self.len += read as u64;
        }
    }

    /// Returns true if a text with this key is done, and counts it as used.
    pub fn take_done(&mut self, key: &str) -> bool {
        match self.done.get_mut(key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Appends a line. If that fails, the file has the lines before it.
    pub fn append(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        if let Err(e) = self.file.write_all(line.as_bytes()) {
            // A part of a line would be cut off when the run is resumed, too.
            let _ = self.file.set_len(self.len);
            return Err(
                Error::io(&self.path, &e).hint("the records so far are in the file; --resume continues it")
            );
        }
        self.len += line.len() as u64;
        Ok(())
    }

    /// Writes a line about a failure.
    pub fn append_failure(&mut self, line: &str) -> Result<()> {
        let fail = |e: std::io::Error| Error::io(&self.failures, &e);
        let file = match &mut self.failed {
            Some(file) => file,
            none => none.insert(File::create(&self.failures).map_err(fail)?),
        };
        writeln!(file, "{line}").map_err(fail)
    }

    /// Makes sure that the records survive a failure of power, too.
    pub fn close(self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io(&self.path, &e))
    }

    /// The file of the failures.
    pub fn failures(&self) -> &Path {
        &self.failures
    }
}

/// Returns a path with more at its end.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_done_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let mut journal = Journal::open(&path, false).unwrap();
        for key in ["a", "b", "a"] {
            journal.append(&format!(r#"{{"key":"{key}","record":{{"text":"é\n"}}}}"#)).unwrap();
        }
        journal.append_failure("{}").unwrap();
        let failures = journal.failures().to_owned();
        journal.close().unwrap();
        assert!(failures.exists());
        assert!(Journal::open(&path, false).is_err(), "nothing is overwritten");
        let whole = std::fs::read(&path).unwrap();
        let second = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&path, true).unwrap();
            let lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
            let done = ["a", "b", "a", "a", "c"].map(|key| journal.take_done(key));
            assert_eq!(done, [lines > 0, lines > 1, lines > 2, false, false], "{cut}");
            journal.append(r#"{"key":"c"}"#).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), lines + 1, "{cut}: {text}");
            assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{cut}");
        }
        assert!(!failures.exists(), "each run begins them anew");
        std::fs::write(&path, [&whole[..second], b"{}\n"].concat()).unwrap();
        let error = Journal::open(&path, true).err().unwrap().to_string();
        assert!(error.contains("key") && error.contains("line 2, column 1"), "{error}");
    }
}
