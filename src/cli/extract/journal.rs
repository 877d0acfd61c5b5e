//! The output file of `ffwd extract`: an append-only journal, a line for each record.
//!
//! A record is done when its line is in the file with its line break. A line that a killed run left
//! incomplete is cut off when the next run resumes. Each line has a key, a digest of everything that
//! determines the record, so a resumed run knows what is done. Texts that occur several times have
//! a line each. Failures go to a file of their own, which each run begins anew.
//!
//! Lines are in the order of the texts. A text that failed at first gets its line last, so the run
//! that completes such a journal puts its lines in order: it writes a new file that then replaces
//! the journal as a whole.
//!
//! # Cost
//!
//! One write for each record. Resuming reads the journal once and keeps some 70 bytes for each
//! record. Putting in order copies the file.
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
use std::io::{BufRead, BufReader, BufWriter, ErrorKind as IoKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Place, Result};

/// The end of the name of the file of failures.
pub(super) const FAILURES: &str = ".failures";
/// The end of the name of a file that is to replace another one.
pub(super) const PARTIAL: &str = ".partial";

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 256 << 20;

/// Digest of what determines a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(u128);

impl Key {
    /// Takes the first 16 bytes of a longer digest.
    pub fn new(digest: &[u8]) -> Key {
        Key(digest.iter().take(16).fold(0, |key, byte| key << 8 | u128::from(*byte)))
    }

    /// Returns the digits in a line.
    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }

    fn parse(text: &str) -> Option<Key> {
        u128::from_str_radix(text, 16).ok().map(Key)
    }
}

/// The open journal.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes of the whole lines.
    len: u64,
    /// Number of the whole lines.
    lines: usize,
    /// For each key the first of its lines that no text of this run has used.
    unused: HashMap<Key, usize>,
    /// For each line of an earlier run the next one with the same key.
    next_same: Vec<Option<usize>>,
    /// The texts of this run, by number, and their lines, in the order in which they were done.
    order: Vec<(usize, usize)>,
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
            len: 0,
            lines: 0,
            unused: HashMap::new(),
            next_same: Vec::new(),
            order: Vec::new(),
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

    /// Reads the keys of all whole lines.
    fn read_keys(&mut self) -> Result<()> {
        let mut from = BufReader::new(&self.file);
        let (mut line, mut keys) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let read = read.map_err(|e| Error::io(&self.path, &e))?;
            if line.last() != Some(&b'\n') && (read as u64) < MAX_LINE {
                break;
            }
            let value: Option<LineKey> = serde_json::from_slice(&line).ok();
            let Some(key) = value.and_then(|line| Key::parse(&line.key)) else {
                return Err(Error::new(
                    ErrorKind::InvalidOption,
                    "not a journal of records: the line has no `key`",
                )
                .at(Place::File(self.path.clone()))
                .at(Place::LineColumn(keys.len() + 1, 1))
                .hint("name another file with --output"));
            };
            keys.push(key);
            self.len += read as u64;
        }
        self.lines = keys.len();
        self.next_same = vec![None; keys.len()];
        for (line, key) in keys.into_iter().enumerate().rev() {
            self.next_same[line] = self.unused.insert(key, line);
        }
        Ok(())
    }

    /// Returns true if a text with this key is done, and makes its line that of a text of this run.
    pub fn take_done(&mut self, text: usize, key: Key) -> bool {
        let Some(line) = self.unused.remove(&key) else { return false };
        if let Some(next) = self.next_same[line] {
            self.unused.insert(key, next);
        }
        self.order.push((text, line));
        true
    }

    /// Appends the line of a text. If that fails, the file has the lines before it.
    pub fn append(&mut self, text: usize, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        if let Err(e) = self.file.write_all(line.as_bytes()) {
            // A part of a line would be cut off when the run is resumed, too.
            let _ = self.file.set_len(self.len);
            return Err(
                Error::io(&self.path, &e).hint("the records so far are in the file; --resume continues it")
            );
        }
        self.len += line.len() as u64;
        self.order.push((text, self.lines));
        self.lines += 1;
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

    /// Makes sure that the records survive a failure of power, too. After a run over all texts, the
    /// lines get the order of the texts.
    pub fn close(mut self, all_texts: bool) -> Result<()> {
        self.order.sort_unstable();
        self.file.sync_data().map_err(|e| Error::io(&self.path, &e))?;
        match all_texts && !self.order.is_sorted_by_key(|text| text.1) {
            true => self.put_in_order(),
            false => Ok(()),
        }
    }

    /// Writes the lines in the order of the texts to a file that replaces the journal. Lines that no
    /// text of this run has used stay where they are.
    fn put_in_order(self) -> Result<()> {
        let fail = |e: std::io::Error| {
            Error::io(&self.path, &e).hint("the records are in the file, but not in the order of the texts")
        };
        let mut from = BufReader::new(&self.file);
        from.rewind().map_err(fail)?;
        let (mut starts, mut at, mut line) = (Vec::with_capacity(self.lines), 0, Vec::new());
        for _ in 0..self.lines {
            starts.push(at);
            line.clear();
            at += from.read_until(b'\n', &mut line).map_err(fail)? as u64;
        }
        // The lines of this run go where they are already, taken together.
        let mut taken: Vec<usize> = (0..self.lines).collect();
        let mut slots: Vec<usize> = self.order.iter().map(|text| text.1).collect();
        slots.sort_unstable();
        for (slot, (_, line)) in slots.into_iter().zip(&self.order) {
            taken[slot] = *line;
        }
        let mut here = at;
        let lines = taken.into_iter().map(|line| starts[line]);
        replace(&self.path, |to| {
            for start in lines {
                from.seek_relative(start as i64 - here as i64).map_err(fail)?;
                line.clear();
                here = start + from.read_until(b'\n', &mut line).map_err(fail)? as u64;
                to.write_all(&line).map_err(fail)?;
            }
            Ok(())
        })
    }

    /// The file of the failures.
    pub fn failures(&self) -> &Path {
        &self.failures
    }
}

/// The member of a line that a resumed run needs.
#[derive(serde::Deserialize)]
struct LineKey {
    key: String,
}

/// Writes a file beside another one, which it then replaces as a whole.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
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
    use ffwd_testkit::random::Random;
    use serde_json::Value;

    use super::*;

    fn key(digits: &str) -> Key {
        Key::parse(digits).unwrap()
    }

    #[test]
    fn a_line_is_done_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let mut journal = Journal::open(&path, false).unwrap();
        for digits in ["a", "b", "a"] {
            journal.append(0, &format!(r#"{{"key":"{digits}","record":{{"text":"é\n"}}}}"#)).unwrap();
        }
        journal.append_failure("{}").unwrap();
        let failures = journal.failures().to_owned();
        assert!(Journal::open(&path, true).err().unwrap().to_string().contains("another run"));
        journal.close(true).unwrap();
        assert!(failures.exists());
        assert!(Journal::open(&path, false).is_err(), "nothing is overwritten");
        let whole = std::fs::read(&path).unwrap();
        let second = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&path, true).unwrap();
            let lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
            let done = ["a", "b", "a", "a", "c"].map(|digits| journal.take_done(0, key(digits)));
            assert_eq!(done, [lines > 0, lines > 1, lines > 2, false, false], "{cut}");
            journal.append(0, r#"{"key":"c"}"#).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), lines + 1, "{cut}: {text}");
            assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{cut}");
        }
        assert!(!failures.exists(), "each run begins them anew");
        std::fs::write(&path, [&whole[..second], b"{}\n"].concat()).unwrap();
        let error = Journal::open(&path, true).err().unwrap().to_string();
        assert!(error.contains("key") && error.contains("line 2, column 1"), "{error}");
    }

    /// Runs over random texts, of which some fail, until all are done: then the lines of the last
    /// run are in the order of its texts, and all other lines are where they were.
    #[test]
    fn lines_get_the_order_of_the_texts() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(3);
        let mut reordered = 0;
        for round in 0..200 {
            let path = dir.path().join(format!("{round}.jsonl"));
            let mut texts: Vec<u64> = Vec::new();
            for run in 0..4 {
                // More texts come in the middle; some are the same as others.
                for _ in 0..random.next() % 4 {
                    let at = random.next() as usize % (texts.len() + 1);
                    texts.insert(at, random.next() % 12);
                }
                if run == 2 && random.chance(30) {
                    texts.truncate(texts.len() / 2);
                }
                let before = std::fs::read_to_string(&path).unwrap_or_default();
                let mut journal = Journal::open(&path, true).unwrap();
                let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
                let mut used = vec![false; lines.len()];
                let mut wanted = Vec::new();
                // Records come when those after them are found to be done.
                let mut later: Vec<(usize, String)> = Vec::new();
                for (place, text) in texts.iter().enumerate() {
                    let digits = format!("{text:x}");
                    let old = (0..used.len())
                        .find(|i| !used[*i] && lines[*i].ends_with(&format!("\"{digits}\"}}")));
                    assert_eq!(journal.take_done(place, key(&digits)), old.is_some());
                    match old {
                        Some(i) => {
                            used[i] = true;
                            wanted.push(i);
                        }
                        None if run < 3 && random.chance(40) => {}
                        None => {
                            let line = format!("{{\"n\":\"{run}.{place}\",\"key\":\"{digits}\"}}");
                            wanted.push(lines.len() + later.len());
                            later.push((place, line));
                        }
                    }
                }
                for (place, line) in later {
                    journal.append(place, &line).unwrap();
                    lines.push(line);
                }
                let all_texts = run == 3 || random.chance(50);
                journal.close(all_texts).unwrap();
                let after = std::fs::read_to_string(&path).unwrap();
                let after: Vec<&str> = after.lines().collect();
                if !all_texts {
                    assert_eq!(after, lines);
                    continue;
                }
                reordered += usize::from(after != lines);
                let mine: std::collections::HashSet<usize> = wanted.iter().copied().collect();
                let mut next = wanted.iter();
                for (i, line) in after.iter().enumerate() {
                    let from = if mine.contains(&i) { *next.next().unwrap() } else { i };
                    assert_eq!(*line, lines[from], "round {round}, run {run}");
                }
                assert_eq!(after.len(), lines.len());
            }
        }
        assert!(reordered > 20, "{reordered}");
        assert!(
            std::fs::read_dir(dir.path()).unwrap().all(|f| f.unwrap().path().extension().unwrap() == "jsonl")
        );
    }
}
