//! A table in CSV from the journal of `ffwd extract`.
//!
//! A column is a property that is no object, named by its path: `customer.name`. Lists are JSON
//! texts, null and absent values are empty cells. Columns are in the order in which they first
//! occur.
//!
//! # Cost
//!
//! Two passes over the journal: one finds the columns. The names of columns are kept.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::journal::with_suffix;
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum number of columns: maps with a name for each entry make no table.
const MAX_COLUMNS: usize = 4096;

/// Writes the records of a journal as CSV. The table replaces a file as a whole.
pub(super) fn write_csv(journal: &Path, to: &Path) -> Result<()> {
    let mut columns: Vec<String> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for_each_row(journal, |row| {
        for (name, _) in row {
            if known.insert(name.clone()) {
                columns.push(name);
            }
        }
        match columns.len() > MAX_COLUMNS {
            true => Err(Error::new(
                ErrorKind::TooComplex,
                format!("the table has more than {MAX_COLUMNS} columns"),
            )
            .hint("objects with names of their own make no table: use JSON Lines")),
            false => Ok(()),
        }
    })?;
    let partial = with_suffix(to, ".partial");
    let fail = |e: csv::Error| Error::new(ErrorKind::Io, e.to_string()).at(Place::File(partial.clone()));
    let mut table = csv::Writer::from_path(&partial).map_err(fail)?;
    table.write_record(&columns).map_err(fail)?;
    for_each_row(journal, |row| {
        let row: std::collections::HashMap<String, String> = row.into_iter().collect();
        table.write_record(columns.iter().map(|c| row.get(c).map_or("", String::as_str))).map_err(fail)
    })?;
    table.flush().map_err(|e| Error::io(&partial, &e))?;
    drop(table);
    std::fs::rename(&partial, to).map_err(|e| Error::io(to, &e))
}

fn for_each_row(journal: &Path, mut take: impl FnMut(Vec<(String, String)>) -> Result<()>) -> Result<()> {
    let fail = |e: std::io::Error| Error::io(journal, &e);
    for line in BufReader::new(File::open(journal).map_err(fail)?).lines() {
        let mut row = Vec::new();
        row_of(&line.map_err(fail)?, &mut row).map_err(|e| {
            Error::new(ErrorKind::Io, format!("not a line of JSON: {e}")).at(Place::File(journal.into()))
        })?;
        take(row)?;
    }
    Ok(())
}

/// Collects the cells of a line. `source` and `id` get an underscore, so that they differ from
/// properties of the record.
fn row_of(line: &str, row: &mut Vec<(String, String)>) -> serde_json::Result<()> {
    let line: Members = serde_json::from_str(line)?;
    for (name, value) in line.0 {
        match name.as_str() {
            "key" | "finish" => {}
            "record" if value.get().starts_with('{') => {
                let record: Members = serde_json::from_str(value.get())?;
                record.0.iter().try_for_each(|(name, value)| flatten(name, value.get(), row))?;
            }
            "record" => flatten("record", value.get(), row)?,
            name => flatten(&format!("_{name}"), value.get(), row)?,
        }
    }
    Ok(())
}

/// Adds the cells of a value, given as JSON. Numbers keep their text.
fn flatten(name: &str, value: &str, row: &mut Vec<(String, String)>) -> serde_json::Result<()> {
    let cell = match value.as_bytes() {
        [b'{', ..] => {
            let members: Members = serde_json::from_str(value)?;
            if !members.0.is_empty() {
                let mut members = members.0.iter();
                return members.try_for_each(|(n, v)| flatten(&format!("{name}.{n}"), v.get(), row));
            }
            value.to_owned()
        }
        [b'"', ..] => serde_json::from_str(value)?,
        b"null" => String::new(),
        _ => value.to_owned(),
    };
    row.push((name.to_owned(), cell));
    Ok(())
}

/// The members of an object, in their order, as JSON.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Object)
    }
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
    }
}
