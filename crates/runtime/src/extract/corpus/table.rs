//! Tables from the journal of a run: rows, columns, and CSV.
//!
//! A column is a property that is no object, named by its path: `customer.name`. Members of the line
//! beside the record have an underscore in front of their names, and so has a record that is no
//! object. Two columns never have one name: in a path, a dot of a name is `\.` and a backslash `\\`,
//! and a property of the record that begins with an underscore gets another one. Columns are in the
//! order in which they first occur.
//!
//! # Cost
//!
//! Two passes over the journal: one finds the columns. The names of columns are kept.

use std::collections::HashMap;
use std::path::Path;

use serde_json::value::RawValue;

use super::journal::replace;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::Members;

/// Passes on the lines of a table, each time that it is called.
pub type Lines<'a> = &'a dyn Fn(&mut dyn FnMut(&str) -> Result<()>) -> Result<()>;

/// Writes a table of lines to a file.
pub type WriteTable = fn(Lines, &Path) -> Result<()>;

/// The endings of names of outputs.
const ENDINGS: &str = ".jsonl, .ndjson, .csv, .tsv and .parquet";

/// A format of tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TableFormat {
    /// CSV, or TSV, by the delimiter.
    Separated(u8),
    /// Parquet, for programs that hand down what writes it.
    Parquet,
}

impl TableFormat {
    /// Returns the format of an output by its name; `None` for JSON Lines, also without an ending.
    ///
    /// # Errors
    /// If the ending is another one.
    pub fn of(output: &Path) -> Result<Option<TableFormat>> {
        let ending = output.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let fail = |error: Error| Err(error.at(Place::File(output.into())));
        match &*ending {
            "" | "jsonl" | "ndjson" => Ok(None),
            "csv" => Ok(Some(TableFormat::Separated(b','))),
            "tsv" => Ok(Some(TableFormat::Separated(b'\t'))),
            "parquet" => Ok(Some(TableFormat::Parquet)),
            _ => fail(
                Error::new(ErrorKind::InvalidOption, format!("no format of outputs ends in .{ending}"))
                    .hint(format!("the endings are {ENDINGS}; without one the output is JSON Lines")),
            ),
        }
    }

    /// Writes the table of lines.
    pub(super) fn write(self, lines: Lines, to: &Path, parquet: Option<WriteTable>) -> Result<()> {
        match self {
            TableFormat::Separated(delimiter) => write_csv(lines, to, delimiter),
            TableFormat::Parquet => parquet.ok_or_else(no_parquet)?(lines, to),
        }
    }
}

/// The error about Parquet in a program that cannot read and write it.
pub(super) fn no_parquet() -> Error {
    Error::new(ErrorKind::Unsupported, "this program is built without Parquet")
        .hint("build it with the feature `parquet`, or use CSV")
}

/// Maximum number of columns: maps with a name for each entry make no table.
const MAX_COLUMNS: usize = 4096;

/// The cells of a row with the names of their columns, as JSON.
type Row = Vec<(String, Box<RawValue>)>;

/// The columns of a table, each with what its cells have in common.
pub struct Columns<T> {
    /// The names, in the order in which they first occur.
    pub names: Vec<String>,
    /// What the cells have in common.
    pub kinds: Vec<T>,
    index: HashMap<String, usize>,
}

impl<T: Default> Columns<T> {
    /// Reads all cells of some lines. `see` gets each cell as JSON.
    ///
    /// # Errors
    /// `TooComplex` for too many columns, and the errors of the lines.
    pub fn read(lines: Lines, mut see: impl FnMut(&mut T, &str)) -> Result<Self> {
        let mut columns = Columns { names: Vec::new(), kinds: Vec::new(), index: HashMap::new() };
        // A table without rows has a column, too.
        columns.column("_source");
        for_each_row(lines, &mut |row| {
            for (name, cell) in &row {
                let column = columns.column(name);
                see(&mut columns.kinds[column], cell.get());
            }
            match columns.names.len() > MAX_COLUMNS {
                true => Err(Error::new(
                    ErrorKind::TooComplex,
                    format!("the table has more than {MAX_COLUMNS} columns"),
                )
                .hint("objects with names of their own make no table: use JSON Lines")),
                false => Ok(()),
            }
        })?;
        Ok(columns)
    }

    /// Returns the index of a column.
    fn column(&mut self, name: &str) -> usize {
        if let Some(column) = self.index.get(name) {
            return *column;
        }
        self.index.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.kinds.push(T::default());
        self.names.len() - 1
    }

    /// Passes on the cells of each row, one for each column; absent cells and null are `None`.
    ///
    /// # Errors
    /// Those of the lines and of `take`.
    pub fn for_each(
        &self,
        lines: Lines,
        mut take: impl FnMut(&[Option<Box<RawValue>>]) -> Result<()>,
    ) -> Result<()> {
        let mut cells: Vec<Option<Box<RawValue>>> = Vec::new();
        for_each_row(lines, &mut |row| {
            cells.clear();
            cells.resize_with(self.names.len(), || None);
            for (name, cell) in row {
                if let Some(column) = self.index.get(&name).filter(|_| cell.get() != "null") {
                    cells[*column] = Some(cell);
                }
            }
            take(&cells)
        })
    }
}

/// Writes the records of lines as CSV with a delimiter. The table replaces a file as a whole.
/// Lists are JSON texts, null and absent values are empty cells.
fn write_csv(lines: Lines, to: &Path, delimiter: u8) -> Result<()> {
    let columns = Columns::<()>::read(lines, |_, _| {})?;
    let fail = |e: csv::Error| Error::io(to, &io_error(e));
    replace(to, |file| {
        let mut table = csv::WriterBuilder::new().delimiter(delimiter).from_writer(file);
        table.write_record(&columns.names).map_err(fail)?;
        columns.for_each(lines, |cells| {
            let texts =
                cells.iter().map(|cell| cell.as_deref().map_or(String::new(), |cell| text_of(cell.get())));
            table.write_record(texts).map_err(fail)
        })?;
        table.flush().map_err(|e| Error::io(to, &e))
    })
}

/// Returns the text of a cell: strings without quotes, all else as JSON.
pub fn text_of(cell: &str) -> String {
    match cell.starts_with('"') {
        true => serde_json::from_str(cell).unwrap_or_else(|_| cell.to_owned()),
        false => cell.to_owned(),
    }
}

fn io_error(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

fn for_each_row(lines: Lines, take: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    lines(&mut |line| {
        let rows = rows_of(line)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("a line of an earlier run: {e}")))?;
        rows.into_iter().try_for_each(&mut *take)
    })
}

/// Collects the cells of a line: a row, or one for each of its `records`.
fn rows_of(line: &str) -> serde_json::Result<Vec<Row>> {
    let line: Members = serde_json::from_str(line)?;
    let (mut row, mut records) = (Row::new(), None);
    for (name, value) in line.0 {
        match name.as_str() {
            "records" => records = Some(serde_json::from_str::<Vec<Members>>(value.get())?),
            _ => add_member(&name, value, &mut row)?,
        }
    }
    let Some(records) = records else { return Ok(vec![row]) };
    let with_record = |record: Members| {
        let mut row = row.clone();
        record.0.into_iter().try_for_each(|(name, value)| add_member(&name, value, &mut row))?;
        Ok(row)
    };
    records.into_iter().map(with_record).collect()
}

/// Adds the cells of a member of a line.
fn add_member(name: &str, value: Box<RawValue>, row: &mut Row) -> serde_json::Result<()> {
    match name {
        "key" | "finish" => Ok(()),
        "record" if value.get().starts_with('{') => {
            let record: Members = serde_json::from_str(value.get())?;
            record.0.into_iter().try_for_each(|(name, value)| {
                let own = if name.starts_with('_') { "_" } else { "" };
                flatten(&format!("{own}{}", escaped(&name)), value, row)
            })
        }
        name => flatten(&format!("_{name}"), value, row),
    }
}

/// Adds the cells of a value. An empty object is a cell, as it has none.
fn flatten(name: &str, value: Box<RawValue>, row: &mut Row) -> serde_json::Result<()> {
    if value.get().starts_with('{') {
        let members: Members = serde_json::from_str(value.get())?;
        if !members.0.is_empty() {
            let mut members = members.0.into_iter();
            return members.try_for_each(|(n, v)| flatten(&format!("{name}.{}", escaped(&n)), v, row));
        }
    }
    row.push((name.to_owned(), value));
    Ok(())
}

/// Returns a name as it stands in a path.
fn escaped(name: &str) -> String {
    name.replace('\\', r"\\").replace('.', r"\.")
}

#[cfg(test)]
mod tests {
    use ffwd_testkit::random::Random;

    use super::*;

    /// Returns the cells of the table, with the header.
    fn table(lines: &[&str], delimiter: u8) -> Vec<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("t.csv");
        write_csv(&|take| lines.iter().try_for_each(|line| take(line)), &to, delimiter).unwrap();
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).delimiter(delimiter).from_path(&to).unwrap();
        reader.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn records_become_rows() {
        let lines = [
            r#"{"source":"a,b.txt","record":{"n":1.50,"who":{"name":"Ann \"x\"","age":null}},"key":"1"}"#,
            r#"{"source":"c","id":7,"record":{"tags":["x","y"],"who":{"name":"é\nz"},"source":true},"key":"2"}"#,
        ];
        for delimiter in [b',', b'\t'] {
            let rows = table(&lines, delimiter);
            assert_eq!(rows[0], ["_source", "n", "who.name", "who.age", "_id", "tags", "source"]);
            assert_eq!(rows[1], ["a,b.txt", "1.50", "Ann \"x\"", "", "", "", ""]);
            assert_eq!(rows[2], ["c", "", "é\nz", "", "7", r#"["x","y"]"#, "true"]);
        }
        let line = r#"{"source":"s","records":[{"record":{"n":1},"chunks":[]},{"record":[2],"chunks":[{"chars":[0,9]}]}],"key":"1"}"#;
        let rows = table(&[line], b',');
        assert_eq!(rows[0], ["_source", "n", "_chunks", "_record"]);
        assert_eq!(rows[1..], [["s", "1", "[]", ""], ["s", "", r#"[{"chars":[0,9]}]"#, "[2]"]]);
        assert_eq!(table(&[], b','), [["_source"]]);
    }

    /// Random names made of the characters of the rule: as many columns as values, and each value in
    /// its own.
    #[test]
    fn columns_never_collide() {
        let mut random = Random::new(11);
        let mut name = || -> String {
            (0..1 + random.next() % 3)
                .map(|_| ['_', '.', '\\', 'i', 'd'][random.next() as usize % 5])
                .collect()
        };
        for _ in 0..500 {
            let (mut record, mut count) = (serde_json::Map::new(), 0);
            for _ in 0..6 {
                let (outer, inner) = (name(), name());
                let value = serde_json::json!(format!("v{count}"));
                let slot = record.entry(outer).or_insert_with(|| serde_json::json!({}));
                count += usize::from(slot.as_object_mut().unwrap().insert(inner, value).is_none());
                let slot = record.entry(name()).or_insert(serde_json::Value::Null);
                if slot.is_null() {
                    (*slot, count) = (serde_json::json!({"_": format!("w{count}")}), count + 1);
                }
            }
            let line =
                serde_json::json!({"source": "s", "id": "i", "record": record, "key": "1"}).to_string();
            let rows = table(&[&line], b',');
            let names: std::collections::HashSet<&String> = rows[0].iter().collect();
            assert_eq!((names.len(), rows[1].len()), (count + 2, count + 2), "{rows:?}");
            assert!(rows[1].iter().all(|cell| !cell.is_empty()), "{rows:?}");
        }
    }
}
