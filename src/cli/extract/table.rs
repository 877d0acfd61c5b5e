//! Tables from the journal of `ffwd extract`: rows, columns, and CSV.
//!
//! A column is a property that is no object, named by its path: `customer.name`. Members of the line
//! beside the record have an underscore in front of their names. Columns are in the order in which
//! they first occur.
//!
//! # Cost
//!
//! Two passes over the journal: one finds the columns. The names of columns are kept.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::value::RawValue;

use super::journal::replace;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::Members;

/// Maximum number of columns: maps with a name for each entry make no table.
const MAX_COLUMNS: usize = 4096;

/// The cells of a row with the names of their columns, as JSON.
pub(super) type Row = Vec<(String, Box<RawValue>)>;

/// The columns of a table, each with what its cells have in common.
pub(super) struct Columns<T> {
    pub names: Vec<String>,
    pub kinds: Vec<T>,
    index: HashMap<String, usize>,
}

impl<T: Default> Columns<T> {
    /// Reads all cells of a journal.
    pub fn read(journal: &Path, mut see: impl FnMut(&mut T, &str)) -> Result<Self> {
        let mut columns = Columns { names: Vec::new(), kinds: Vec::new(), index: HashMap::new() };
        // A table without rows has a column, too.
        columns.column("_source");
        for_each_row(journal, |row| {
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
    pub fn for_each(
        &self,
        journal: &Path,
        mut take: impl FnMut(&[Option<Box<RawValue>>]) -> Result<()>,
    ) -> Result<()> {
        let mut cells: Vec<Option<Box<RawValue>>> = Vec::new();
        for_each_row(journal, |row| {
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

/// Writes the records of a journal as CSV. The table replaces a file as a whole. Lists are JSON
/// texts, null and absent values are empty cells.
pub(super) fn write_csv(journal: &Path, to: &Path) -> Result<()> {
    let columns = Columns::<()>::read(journal, |_, _| {})?;
    let fail = |e: csv::Error| Error::io(to, &io_error(e));
    replace(to, |file| {
        let mut table = csv::Writer::from_writer(file);
        table.write_record(&columns.names).map_err(fail)?;
        columns.for_each(journal, |cells| {
            let texts =
                cells.iter().map(|cell| cell.as_deref().map_or(String::new(), |cell| text_of(cell.get())));
            table.write_record(texts).map_err(fail)
        })?;
        table.flush().map_err(|e| Error::io(to, &e))
    })
}

/// Returns the text of a cell: strings without quotes, all else as JSON.
pub(super) fn text_of(cell: &str) -> String {
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

fn for_each_row(journal: &Path, mut take: impl FnMut(Row) -> Result<()>) -> Result<()> {
    let fail = |e: std::io::Error| Error::io(journal, &e);
    for line in BufReader::new(File::open(journal).map_err(fail)?).lines() {
        let rows = rows_of(&line.map_err(fail)?).map_err(|e| {
            Error::new(ErrorKind::Io, format!("not a line of JSON: {e}")).at(Place::File(journal.into()))
        })?;
        rows.into_iter().try_for_each(&mut take)?;
    }
    Ok(())
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
            record.0.into_iter().try_for_each(|(name, value)| flatten(&name, value, row))
        }
        "record" => flatten("record", value, row),
        name => flatten(&format!("_{name}"), value, row),
    }
}

/// Adds the cells of a value. An empty object is a cell, as it has none.
fn flatten(name: &str, value: Box<RawValue>, row: &mut Row) -> serde_json::Result<()> {
    if value.get().starts_with('{') {
        let members: Members = serde_json::from_str(value.get())?;
        if !members.0.is_empty() {
            let mut members = members.0.into_iter();
            return members.try_for_each(|(n, v)| flatten(&format!("{name}.{n}"), v, row));
        }
    }
    row.push((name.to_owned(), value));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_rows() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, table) = (dir.path().join("j"), dir.path().join("t.csv"));
        let lines = [
            r#"{"source":"a,b.txt","record":{"n":1.50,"who":{"name":"Ann \"x\"","age":null}},"key":"1"}"#,
            r#"{"source":"c","id":7,"record":{"tags":["x","y"],"who":{"name":"é\nz"},"source":true},"key":"2"}"#,
        ];
        std::fs::write(&journal, lines.join("\n") + "\n").unwrap();
        write_csv(&journal, &table).unwrap();
        let mut read = csv::Reader::from_path(&table).unwrap();
        let header: Vec<String> = read.headers().unwrap().iter().map(str::to_owned).collect();
        assert_eq!(header, ["_source", "n", "who.name", "who.age", "_id", "tags", "source"]);
        let rows: Vec<Vec<String>> =
            read.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect();
        assert_eq!(rows[0], ["a,b.txt", "1.50", "Ann \"x\"", "", "", "", ""]);
        assert_eq!(rows[1], ["c", "", "é\nz", "", "7", r#"["x","y"]"#, "true"]);
        let line = r#"{"source":"s","records":[{"record":{"n":1},"chunks":[]},{"record":[2],"chunks":[{"chars":[0,9]}]}],"key":"1"}"#;
        std::fs::write(&journal, line).unwrap();
        write_csv(&journal, &table).unwrap();
        let text = std::fs::read_to_string(&table).unwrap();
        assert_eq!(text, "_source,n,_chunks,record\ns,1,[],\ns,,\"[{\"\"chars\"\":[0,9]}]\",[2]\n");
        std::fs::write(&journal, "").unwrap();
        write_csv(&journal, &table).unwrap();
        assert_eq!(std::fs::read_to_string(&table).unwrap(), "_source\n");
    }
}
