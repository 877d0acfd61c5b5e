//! Texts to extract from: files, folders, patterns, standard input, and a field of each line
//! of JSON Lines or of each row of CSV or Parquet.
//!
//! # Cost
//!
//! Names of files are kept; texts are read one at a time, when their turn comes.
//!
//! # Alternatives considered
//!
//! Reading everything first was rejected: all texts may be larger than memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use ffwd_engine::text::decode;

use super::document::{BUFFER, Document, MAX_INPUT, place, read_bytes};
use super::encoding::{Decoded, Encoding};
use super::separated::SeparatedTexts;
use super::table::no_parquet;
use crate::error::{Error, ErrorKind, Place, Result};

/// Opens a table with a column of texts, and a column of identifiers if one is named: the number of its
/// rows, and the texts.
pub type OpenTable = fn(&Path, &str, Option<&str>) -> Result<(usize, Box<dyn Iterator<Item = Document>>)>;

/// Reads a file of a kind that holds text among other things, such as PDF, if it is one.
pub type ReadDocument = fn(&Path, &[u8]) -> Result<Option<DocumentTexts>>;

/// The texts of a file.
#[derive(Debug, Default)]
pub struct DocumentTexts {
    /// The text of the file, and those of what is attached to it.
    pub documents: Vec<Document>,
    /// What was not read.
    pub warnings: Vec<String>,
    /// Number of pages that show something, but have no text.
    pub pages_without_text: usize,
}

/// Which texts are read, and how.
#[derive(Debug, Clone, Default)]
pub struct TextOptions {
    /// Files, folders with all folders in them, patterns such as `mails/**/*.txt`, and `-` for standard
    /// input.
    pub files: Vec<PathBuf>,
    /// Of folders, only files whose name matches one of these patterns are read.
    pub include: Vec<String>,
    /// The field or column with the text, for JSON Lines, CSV, TSV and Parquet.
    pub text_field: Option<String>,
    /// The field or column that identifies a text.
    pub id_field: Option<String>,
    /// The encoding of files without a byte order mark.
    pub encoding: Option<Encoding>,
    /// Rows with faults are taken as they are, and counted.
    pub lenient: bool,
    /// Opens files that end in `.parquet`.
    pub parquet: Option<OpenTable>,
    /// Reads files that are not plain text.
    pub document: Option<ReadDocument>,
}

/// Reads one text after the other.
pub struct DocumentReader<'a> {
    files: std::vec::IntoIter<PathBuf>,
    args: &'a TextOptions,
    rows: Option<Rows>,
    /// The texts of the last file that are left.
    left: std::vec::IntoIter<Document>,
    /// What is to be said about files that were read.
    pub warnings: Vec<String>,
    /// Number of pages so far that show something, but have no text.
    pub pages_without_text: usize,
}

impl DocumentReader<'_> {
    /// Returns the number of texts, if it is known before they are read.
    pub fn known_len(&self) -> Option<usize> {
        let Some(text) = &self.args.text_field else {
            let many = self.files.as_slice().iter().any(|file| may_hold_files(file));
            return (!many).then_some(self.files.len());
        };
        self.files.as_slice().iter().map(|file| parquet_rows(file, text, self.args.parquet)).sum()
    }
}

/// Returns the texts of a file that is no table.
///
/// # Errors
/// Those of the reader; `Unsupported` for PDF and the like without one.
pub fn texts_of(
    path: &Path,
    bytes: Vec<u8>,
    read: Option<ReadDocument>,
    encoding: Option<Encoding>,
) -> Result<DocumentTexts> {
    if let Some(read) = read
        && let Some(texts) = read(path, &bytes)?
    {
        return Ok(texts);
    }
    if [&b"%PDF-"[..], b"PK\x03\x04", b"\xd0\xcf\x11\xe0"].iter().any(|begin| bytes.starts_with(begin)) {
        let error = Error::new(ErrorKind::Unsupported, "this file is no plain text");
        let error = error.hint(match read {
            None => "the feature `documents`, which is part of `full`, reads PDF and .docx",
            Some(_) => "save it as PDF, .docx or text; a table as .csv",
        });
        return Err(error.at(Place::File(path.into())));
    }
    let text = match encoding {
        None => decode(bytes).map_err(|e| e.at(Place::File(path.into()))),
        Some(encoding) => encoding.decode(path, bytes),
    };
    Ok(DocumentTexts {
        documents: vec![Document::of_file(path.into(), Ok(text?))],
        ..DocumentTexts::default()
    })
}

/// An open file with many texts.
enum Rows {
    Lines { path: PathBuf, from: Box<dyn BufRead>, line: usize },
    Table(Box<SeparatedTexts>),
    Parquet(Box<dyn Iterator<Item = Document>>),
}

impl TextOptions {
    /// Returns the files, in the order in which they are named, those of folders by name.
    ///
    /// # Errors
    /// `InvalidOption` if a pattern is faulty or a name stands for no file.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        if self.files.iter().filter(|f| *f == Path::new("-")).count() > 1 {
            return Err(Error::new(ErrorKind::InvalidOption, "standard input (-) is named more than once"));
        }
        let mut include = globset::GlobSetBuilder::new();
        for pattern in &self.include {
            include.add(glob(pattern)?);
        }
        let include = include.build().map_err(|e| pattern_error(&e))?;
        let included =
            |path: &Path| self.include.is_empty() || path.file_name().is_some_and(|n| include.is_match(n));
        let mut files = Vec::new();
        for path in &self.files {
            let before = files.len();
            if path.is_dir() {
                walk(path, &included, &mut files);
            } else if path.exists() || path == Path::new("-") || !is_pattern(path) {
                files.push(path.clone());
                continue;
            } else {
                let pattern = glob(&path.to_string_lossy())?.compile_matcher();
                walk(&fixed_part(path), &|p: &Path| pattern.is_match(p), &mut files);
            }
            if files.len() == before {
                let error = Error::new(ErrorKind::InvalidOption, "no file is there, or none matches");
                return Err(error.at(Place::File(path.clone())));
            }
        }
        Ok(files)
    }

    /// Returns true if there may be several texts, whose records are lines of the output.
    pub fn are_many(&self, files: &[PathBuf]) -> bool {
        files.len() > 1
            || self.text_field.is_some()
            || self.files.iter().any(|f| f.is_dir() || is_pattern(f) && !f.exists() || may_hold_files(f))
    }

    /// Reads the texts of the files.
    pub fn read(&self, files: Vec<PathBuf>) -> DocumentReader<'_> {
        DocumentReader {
            files: files.into_iter(),
            args: self,
            rows: None,
            left: Vec::new().into_iter(),
            warnings: Vec::new(),
            pages_without_text: 0,
        }
    }
}

/// Adds the files below a folder that are not hidden and that `wanted` accepts, by name.
fn walk(folder: &Path, wanted: &dyn Fn(&Path) -> bool, files: &mut Vec<PathBuf>) {
    let hidden = |entry: &walkdir::DirEntry| {
        entry.depth() > 0 && entry.file_name().as_encoded_bytes().starts_with(b".")
    };
    let entries = walkdir::WalkDir::new(folder).follow_links(true).sort_by_file_name().into_iter();
    for entry in entries.filter_entry(|entry| !hidden(entry)) {
        let entry = match entry {
            Ok(entry) => entry,
            // A text that cannot be read, such as a link to nothing, or a folder with some.
            Err(e) => {
                let path = e.path().unwrap_or(folder);
                files.extend(Some(path.to_owned()).filter(|path| path.is_dir() || wanted(path)));
                continue;
            }
        };
        let path = entry.path().strip_prefix("./").unwrap_or(entry.path());
        if entry.file_type().is_file() && wanted(path) {
            files.push(path.to_owned());
        }
    }
}

fn glob(pattern: &str) -> Result<globset::Glob> {
    let built = globset::GlobBuilder::new(pattern.strip_prefix("./").unwrap_or(pattern))
        .literal_separator(true)
        .build();
    built.map_err(|e| pattern_error(&e))
}

fn pattern_error(error: &globset::Error) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("a pattern of files: {error}"))
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[', '{'])
}

/// Returns the folder of a pattern in which all its files are.
fn fixed_part(pattern: &Path) -> PathBuf {
    let fixed: PathBuf = pattern.components().take_while(|c| !is_pattern(Path::new(c.as_os_str()))).collect();
    if fixed.as_os_str().is_empty() { PathBuf::from(".") } else { fixed }
}

impl Iterator for DocumentReader<'_> {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        loop {
            if let Some(document) = self.left.next() {
                return Some(document);
            }
            if let Some(rows) = &mut self.rows {
                match rows.next(self.args) {
                    Some(document) => return Some(document),
                    None => {
                        if let Some(Rows::Table(table)) = self.rows.take() {
                            self.warnings.extend(table.faults());
                        }
                    }
                }
            }
            let path = self.files.next()?;
            if let Some(error) = unreadable_folder(&path) {
                return Some(Document::of_file(path, Err(error)));
            }
            if self.args.text_field.is_none() && !is_parquet(&path) {
                let args = self.args;
                let read = |bytes| texts_of(&path, bytes, args.document, args.encoding);
                match read_bytes(&path).and_then(read) {
                    Ok(texts) => {
                        self.warnings.extend(texts.warnings);
                        self.pages_without_text += texts.pages_without_text;
                        self.left = texts.documents.into_iter();
                    }
                    Err(error) => {
                        return Some(Document::of_file(path, Err(error)));
                    }
                }
                continue;
            }
            match Rows::open(&path, self.args, &mut self.warnings) {
                Ok(rows) => self.rows = Some(rows),
                Err(error) => {
                    return Some(Document::of_file(path, Err(error)));
                }
            }
        }
    }
}

impl Rows {
    fn open(path: &Path, args: &TextOptions, warnings: &mut Vec<String>) -> Result<Rows> {
        if is_parquet(path) {
            return Rows::open_parquet(path, args);
        }
        let from: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(std::io::stdin()),
            false => Box::new(File::open(path).map_err(|e| Error::io(path, &e))?),
        };
        let mut from = BufReader::with_capacity(BUFFER, from);
        if from.fill_buf().map_err(|e| Error::io(path, &e))?.starts_with(b"PAR1") {
            let error = Error::new(ErrorKind::InvalidOption, "this is a Parquet file");
            return Err(error.at(Place::File(path.into())).hint("name a file that ends in .parquet"));
        }
        let (encoding, mark) = Encoding::of_mark(from.buffer());
        from.consume(mark);
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let is_table = ending == "csv" || ending == "tsv";
        let may_be_cut = from.buffer().len() + mark == BUFFER;
        let encoding = encoding.or(args.encoding).unwrap_or_else(|| {
            if !is_table || !Encoding::looks_windows_1252(from.buffer(), may_be_cut) {
                return Encoding::Utf8;
            }
            let file = path.display();
            warnings.push(format!("{file} is not UTF-8: read as windows-1252 (--encoding names another)"));
            Encoding::Windows1252
        });
        let from = Decoded::new(from, encoding);
        if !is_table {
            return Ok(Rows::Lines { path: path.into(), from: Box::new(BufReader::new(from)), line: 0 });
        }
        let delimiter = if ending == "tsv" { b'\t' } else { b',' };
        let text = args.text_field.as_deref().unwrap_or_default();
        let table =
            SeparatedTexts::open(path, from, delimiter, (text, args.id_field.as_deref()), args.lenient)?;
        Ok(Rows::Table(Box::new(table)))
    }

    /// Opens a column of a Parquet file.
    fn open_parquet(path: &Path, args: &TextOptions) -> Result<Rows> {
        let in_file = |e: Error| e.at(Place::File(path.into()));
        let open = args.parquet.ok_or_else(|| in_file(no_parquet()))?;
        let Some(text) = &args.text_field else {
            let error = Error::new(ErrorKind::InvalidOption, "a Parquet file has its texts in a column");
            return Err(in_file(error).hint("name the column with --text-field"));
        };
        Ok(Rows::Parquet(open(path, text, args.id_field.as_deref())?.1))
    }

    fn next(&mut self, args: &TextOptions) -> Option<Document> {
        match self {
            Rows::Parquet(texts) => texts.next(),
            Rows::Lines { path, from, line } => loop {
                *line += 1;
                let source = place(path, *line);
                let mut bytes = Vec::new();
                let read = from.by_ref().take(MAX_INPUT + 1).read_until(b'\n', &mut bytes);
                match read {
                    Ok(0) => return None,
                    Ok(_) if bytes.trim_ascii().is_empty() => continue,
                    _ => {}
                }
                let (id, text) =
                    match read.map_err(|e| Error::io(&*path, &e)).and_then(|_| json_line(&bytes, args)) {
                        Ok((id, text)) => (id, Ok(text)),
                        Err(e) => (None, Err(e.at(Place::File(source.clone())))),
                    };
                return Some(Document { source, id, text, places: None });
            },
            Rows::Table(texts) => texts.next(),
        }
    }
}

/// Returns the error about a folder that stands among files, as its files cannot be read.
fn unreadable_folder(path: &Path) -> Option<Error> {
    let error = match path.is_dir().then(|| std::fs::read_dir(path))? {
        Err(e) => Error::io(path, &e),
        Ok(_) => Error::new(ErrorKind::Io, "a link to a folder around it").at(Place::File(path.into())),
    };
    Some(error)
}

/// Returns the number of rows of a Parquet file. A file that cannot be read is one failure.
fn parquet_rows(file: &Path, text: &str, open: Option<OpenTable>) -> Option<usize> {
    Some(is_parquet(file).then(|| open.map(|open| open(file, text, None)))??.map_or(1, |table| table.0))
}

/// Returns true if a file may hold others by its name: an e-mail or a mailbox.
fn may_hold_files(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("eml") || e.eq_ignore_ascii_case("mbox"))
}

/// Returns true if a file is Parquet by its name.
pub(super) fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"))
}

/// Returns the identifier and the text of a line.
fn json_line(bytes: &[u8], args: &TextOptions) -> Result<(Option<Value>, String)> {
    let fail = |message: String| Error::new(ErrorKind::InvalidOption, message);
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Error::new(
            ErrorKind::TooComplex,
            format!("the line is longer than {} MiB", MAX_INPUT >> 20),
        ));
    }
    let line = decode(bytes.to_vec())?;
    let mut line: Value =
        serde_json::from_str(&line).map_err(|e| fail(format!("the line is not valid JSON: {e}")))?;
    let name = args.text_field.as_deref().unwrap_or_default();
    let text = match line.get_mut(name).map(Value::take) {
        Some(Value::String(text)) => text,
        Some(_) => return Err(fail(format!("the field `{name}` is not a string"))),
        None => return Err(fail(format!("the line has no field `{name}`"))),
    };
    Ok((args.id_field.as_deref().and_then(|id| line.get_mut(id).map(Value::take)), text))
}
