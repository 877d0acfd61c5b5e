//! Texts in a column of a table with separators: CSV and TSV.
//!
//! The delimiter is that of the file's name, or else the one with which the header has the columns
//! that are wanted: a comma, a semicolon, a tab or a bar.
//!
//! # Cost
//!
//! A row is in memory at a time. A pass over the bytes finds quotes that are not closed, which the
//! crate `csv` reads without an error.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Result as IoResult};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;

use super::document::{Document, place};
use crate::error::{Error, ErrorKind, Place, Result};

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// An open table.
pub(super) struct SeparatedTexts {
    path: PathBuf,
    rows: csv::Reader<Watched>,
    text: usize,
    id: Option<usize>,
    row: usize,
    quotes: Rc<RefCell<Quotes>>,
    lenient: bool,
    /// Number of rows with faults, and of two columns of one name.
    faults: usize,
    record: csv::StringRecord,
}

impl SeparatedTexts {
    /// Opens a table with a column of texts, and a column of identifiers if one is named.
    ///
    /// # Errors
    /// If the header lacks a column, or has it twice.
    pub(super) fn open(
        path: &Path,
        from: impl Read + 'static,
        delimiter: u8,
        (text, id): (&str, Option<&str>),
        lenient: bool,
    ) -> Result<Self> {
        let mut from = BufReader::with_capacity(super::document::BUFFER, from);
        let begin = from.fill_buf().map_err(|e| Error::io(path, &e))?;
        let has_columns = |delimiter: &u8| {
            let mut reader = csv::ReaderBuilder::new().delimiter(*delimiter).from_reader(begin);
            let header = reader.headers().ok();
            header.is_some_and(|header| {
                [Some(text), id].into_iter().flatten().all(|n| header.iter().any(|h| h == n))
            })
        };
        let delimiter = [delimiter].into_iter().chain(DELIMITERS).find(has_columns).unwrap_or(delimiter);
        let quotes = Rc::new(RefCell::new(Quotes { delimiter, ..Quotes::default() }));
        let watched = Watched { from: Box::new(from), quotes: quotes.clone() };
        let mut rows = csv::ReaderBuilder::new().delimiter(delimiter).flexible(lenient).from_reader(watched);
        let header = rows.headers().map_err(|e| fault(path, &e))?.clone();
        let mut faults = 0;
        let mut column = |name: &str| {
            let fail =
                |message: String| Error::new(ErrorKind::InvalidOption, message).at(Place::File(path.into()));
            let found: Vec<usize> = (0..header.len()).filter(|i| &header[*i] == name).collect();
            match found[..] {
                [at] => Ok(at),
                [at, ..] if lenient => {
                    faults += 1;
                    Ok(at)
                }
                [a, b, ..] => {
                    let message =
                        format!("columns {} and {} of line 1 are both named `{name}`", a + 1, b + 1);
                    Err(fail(message).hint("rename one of them, or take the first with --lenient"))
                }
                [] => {
                    let names = header.iter().collect::<Vec<_>>().join("`, `");
                    let hint = match names.is_empty() {
                        true => "the file has no header".to_owned(),
                        false => format!("the columns are `{names}`"),
                    };
                    Err(fail(format!("no column is named `{name}`")).hint(hint))
                }
            }
        };
        let (text, id) = (column(text)?, id.map(column).transpose()?);
        let (path, record) = (path.to_owned(), csv::StringRecord::new());
        Ok(SeparatedTexts { path, rows, text, id, row: 1, quotes, lenient, faults, record })
    }

    /// Returns what is to be said about the faults that were passed over.
    pub(super) fn faults(&self) -> Option<String> {
        let (faults, file) = (self.faults, self.path.display());
        (faults > 0)
            .then(|| format!("{file}: {faults} faults of rows and columns were passed over (--lenient)"))
    }
}

impl Iterator for SeparatedTexts {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        let read = self.rows.read_record(&mut self.record);
        self.row += 1;
        let source = place(&self.path, self.row);
        let quote = self.quotes.borrow_mut().fault(self.rows.position().line());
        let fields = self.rows.headers().map_or(0, csv::StringRecord::len);
        let fault = match (read, quote) {
            (Ok(false), _) => return None,
            (_, Some(message)) => Some(invalid(&source, &message)),
            (Err(e), None) => Some(fault(&source, &e)),
            (Ok(true), None) => (self.record.len() != fields).then(|| invalid(&source, "")),
        };
        match fault {
            Some(error) if !self.lenient => return Some(Document::of_file(source, Err(error))),
            fault => self.faults += usize::from(fault.is_some()),
        }
        let field = |at: usize| self.record.get(at).unwrap_or_default().to_owned();
        let id = self.id.map(|at| Value::String(field(at)));
        Some(Document { id, text: Ok(field(self.text)), source, places: None })
    }
}

fn invalid(place: &Path, message: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("not valid CSV: {message}"))
        .at(Place::File(place.into()))
        .hint("--lenient takes such rows as they are")
}

fn fault(place: &Path, error: &csv::Error) -> Error {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            invalid(place, &format!("line {line} has {len} fields, the header has {expected_len}"))
        }
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Error::new(ErrorKind::Io, format!("line {line} is not UTF-8"))
                .at(Place::File(place.into()))
                .hint("name the encoding, such as --encoding windows-1252")
        }
        _ => invalid(place, &error.to_string()),
    }
}

/// Bytes that pass by [`Quotes`].
struct Watched {
    from: Box<dyn Read>,
    quotes: Rc<RefCell<Quotes>>,
}

impl Read for Watched {
    fn read(&mut self, to: &mut [u8]) -> IoResult<usize> {
        let read = self.from.read(to)?;
        self.quotes.borrow_mut().see(&to[..read]);
        Ok(read)
    }
}

/// Finds quotes that are not closed, and those that close before the end of a field, which follow
/// them in another row.
#[derive(Default)]
struct Quotes {
    delimiter: u8,
    state: State,
    /// Number of line breaks.
    lines: u64,
    /// The line in which the open field begins.
    opened: u64,
    is_end: bool,
    /// Lines of quotes that close too early, with the lines in which they opened.
    early: std::collections::VecDeque<(u64, u64)>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Start,
    Plain,
    Quoted,
    /// Behind a quote that closes, or is one of two.
    Closed,
}

impl Quotes {
    fn see(&mut self, bytes: &[u8]) {
        self.is_end |= bytes.is_empty();
        for byte in bytes {
            self.state = match (self.state, *byte) {
                (State::Start, b'"') => {
                    self.opened = self.lines + 1;
                    State::Quoted
                }
                (State::Quoted, b'"') => State::Closed,
                (State::Quoted, _) | (State::Closed, b'"') => State::Quoted,
                (_, b'\r' | b'\n') => State::Start,
                (_, b) if b == self.delimiter => State::Start,
                (State::Closed, _) => {
                    self.early.push_back((self.lines + 1, self.opened));
                    State::Plain
                }
                _ => State::Plain,
            };
            self.lines += u64::from(*byte == b'\n');
        }
    }

    /// Returns the fault of the row that ends before a line, if it has one.
    fn fault(&mut self, line: u64) -> Option<String> {
        let mut fault = None;
        while let Some((closed, opened)) =
            self.early.front().filter(|(closed, _)| *closed < line || self.is_end)
        {
            fault = Some(format!(
                "the quote that opens in line {opened} closes within a field, in line {closed}"
            ));
            self.early.pop_front();
        }
        if self.is_end && self.state == State::Quoted {
            fault = Some(format!("the quote that opens in line {} is never closed", self.opened));
        }
        fault
    }
}
