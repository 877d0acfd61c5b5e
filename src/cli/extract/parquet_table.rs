//! A table in Parquet from the lines of `ffwd extract`, with the columns of the CSV.
//!
//! The values of a column decide its type. Integers are `INT64`, other numbers `DOUBLE`, true and
//! false `BOOLEAN`, strings and all mixtures `STRING`, as in CSV. Lists of such values are a `LIST`
//! of them; other lists are JSON in a `STRING`. A number that its type would round makes the column
//! a `STRING` with all digits. Each column can be null.
//!
//! # Cost
//!
//! Two passes over the journal: one finds the columns and their types. A row group of bounded size
//! is in memory.
//!
//! # Alternatives considered
//!
//! Types from the schema were rejected: a journal may hold records of several schemas, and a schema
//! may leave a type open. Structs for nested objects were rejected: CSV and Parquet would have
//! other names for the same value.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::extract::corpus::{Columns, Lines, replace, text_of};

/// Maximum number of rows in a row group.
const GROUP_ROWS: usize = 1 << 16;
/// Size of the cells, as JSON, at which a row group ends, in bytes.
const GROUP_BYTES: usize = 16 << 20;
/// Integers up to this one are exact as `DOUBLE`.
const EXACT: u64 = 1 << 53;

/// What the values of a column have in common.
#[derive(Debug, Clone, Copy, Default)]
struct ValueKinds {
    booleans: bool,
    integers: bool,
    /// Numbers with a point or an exponent, or beyond 64 bits.
    reals: bool,
    /// Integers that a `DOUBLE` would round.
    large: bool,
    /// Numbers that each type would change.
    wide: bool,
    /// Strings and objects without members.
    texts: bool,
}

/// What the cells of a column have in common.
#[derive(Debug, Clone, Copy, Default)]
struct Cells {
    single: ValueKinds,
    /// The items of lists.
    items: ValueKinds,
    lists: bool,
    /// Lists with lists or objects.
    deep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ScalarType {
    Boolean,
    Integer,
    Real,
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ColumnType {
    Scalar(ScalarType),
    List(ScalarType),
}

impl ValueKinds {
    fn see(&mut self, json: &str) {
        match json.as_bytes() {
            b"null" => {}
            b"true" | b"false" => self.booleans = true,
            [b'-' | b'0'..=b'9', ..] => self.see_number(json),
            _ => self.texts = true,
        }
    }

    fn see_number(&mut self, json: &str) {
        if let Ok(n) = json.parse::<i64>() {
            self.integers = true;
            self.large |= n.unsigned_abs() > EXACT;
            return;
        }
        self.reals = true;
        let real: f64 = json.parse().unwrap_or(f64::INFINITY);
        let is_integer = json.bytes().all(|b| b == b'-' || b.is_ascii_digit());
        let is_exact = || json.parse::<i128>().is_ok_and(|n| n as f64 as i128 == n);
        self.wide |= !real.is_finite() || is_integer && !is_exact();
    }

    fn kind(self) -> ScalarType {
        match (self.booleans, self.integers || self.reals, self.texts) {
            (true, false, false) => ScalarType::Boolean,
            (false, true, false) if !self.reals => ScalarType::Integer,
            (false, true, false) if !self.wide && !self.large => ScalarType::Real,
            _ => ScalarType::Text,
        }
    }

    fn any(self) -> bool {
        self.booleans || self.integers || self.reals || self.texts
    }
}

impl Cells {
    fn see(&mut self, json: &str) {
        if !json.starts_with('[') {
            return self.single.see(json);
        }
        self.lists = true;
        for item in items(json) {
            self.deep |= item.get().starts_with(['[', '{']);
            self.items.see(item.get());
        }
    }

    fn kind(self) -> ColumnType {
        match self.lists {
            false => ColumnType::Scalar(self.single.kind()),
            true if self.deep || self.single.any() => ColumnType::Scalar(ScalarType::Text),
            true => ColumnType::List(self.items.kind()),
        }
    }
}

/// Returns the items of a list.
fn items(json: &str) -> Vec<&RawValue> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Writes the records of a journal as Parquet. The table replaces a file as a whole.
pub(super) fn write_parquet(lines: Lines, to: &Path) -> Result<()> {
    let columns = Columns::<Cells>::read(lines, Cells::see)?;
    let kinds: Vec<ColumnType> = columns.kinds.iter().map(|cells| cells.kind()).collect();
    let fail = |e: ParquetError| Error::io(to, &io_error(e));
    let fields =
        columns.names.iter().zip(&kinds).map(|(name, kind)| field(name, *kind)).collect::<Result<_, _>>();
    let schema = fields.and_then(|fields| Type::group_type_builder("schema").with_fields(fields).build());
    let schema = Arc::new(schema.map_err(fail)?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    replace(to, |file| {
        let mut table = SerializedFileWriter::new(file, schema, properties).map_err(fail)?;
        let mut group = RowGroup::new(&kinds);
        columns.for_each(lines, |cells| {
            group.add(cells);
            if group.rows == GROUP_ROWS || group.bytes >= GROUP_BYTES {
                group.write(&mut table).map_err(fail)?;
            }
            Ok(())
        })?;
        group.write(&mut table).and_then(|()| table.close()).map(drop).map_err(fail)
    })
}

fn io_error(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(error) => std::io::Error::other(error),
        },
        other => std::io::Error::other(other),
    }
}

fn field(name: &str, kind: ColumnType) -> Result<TypePtr, ParquetError> {
    let list = match kind {
        ColumnType::Scalar(kind) => return scalar(name, kind),
        ColumnType::List(kind) => Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![scalar("element", kind)?])
            .build()?,
    };
    let list = Type::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(list)]);
    list.build().map(Arc::new)
}

fn scalar(name: &str, kind: ScalarType) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match kind {
        ScalarType::Boolean => (Physical::BOOLEAN, None),
        ScalarType::Integer => (Physical::INT64, None),
        ScalarType::Real => (Physical::DOUBLE, None),
        ScalarType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let builder = Type::primitive_type_builder(name, physical).with_logical_type(logical);
    builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
}

/// Cells of a column, with the levels of Parquet: how deep each is defined, and whether it begins a
/// row (0) or continues a list (1).
struct ColumnCells {
    kind: ColumnType,
    defined: Vec<i16>,
    repeated: Vec<i16>,
    /// The values as JSON.
    values: Vec<String>,
}

/// Rows in memory.
struct RowGroup {
    columns: Vec<ColumnCells>,
    rows: usize,
    bytes: usize,
}

impl RowGroup {
    fn new(kinds: &[ColumnType]) -> RowGroup {
        RowGroup { columns: kinds.iter().map(|kind| ColumnCells::new(*kind)).collect(), rows: 0, bytes: 0 }
    }

    fn add(&mut self, cells: &[Option<Box<RawValue>>]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.bytes += cell.as_ref().map_or(1, |cell| cell.get().len());
            column.add(cell.as_deref().map(RawValue::get));
        }
        self.rows += 1;
    }

    /// Writes the rows, if there are any, and removes them.
    fn write(&mut self, table: &mut SerializedFileWriter<&mut BufWriter<File>>) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = table.next_row_group()?;
        for cells in &mut self.columns {
            let Some(mut to) = group.next_column()? else { break };
            cells.write(&mut to)?;
            to.close()?;
            *cells = ColumnCells::new(cells.kind);
        }
        (self.rows, self.bytes) = (0, 0);
        group.close().map(drop)
    }
}

impl ColumnCells {
    fn new(kind: ColumnType) -> ColumnCells {
        ColumnCells { kind, defined: Vec::new(), repeated: Vec::new(), values: Vec::new() }
    }

    fn add(&mut self, cell: Option<&str>) {
        match (self.kind, cell) {
            (_, None) => self.defined.push(0),
            (ColumnType::Scalar(_), Some(cell)) => {
                self.defined.push(1);
                self.values.push(cell.to_owned());
            }
            (ColumnType::List(_), Some(list)) => return self.add_list(&items(list)),
        }
        self.repeated.push(0);
    }

    fn add_list(&mut self, items: &[&RawValue]) {
        if items.is_empty() {
            self.defined.push(1);
            self.repeated.push(0);
        }
        for (i, item) in items.iter().enumerate() {
            self.repeated.push(i16::from(i > 0));
            if item.get() == "null" {
                self.defined.push(2);
            } else {
                self.defined.push(3);
                self.values.push(item.get().to_owned());
            }
        }
    }

    /// Writes the values, of which the type was found by [`Cells`].
    fn write(&self, to: &mut SerializedColumnWriter) -> Result<(), ParquetError> {
        let (ColumnType::Scalar(kind) | ColumnType::List(kind)) = self.kind;
        match kind {
            ScalarType::Boolean => self.write_as::<BoolType>(to, |json| json == "true"),
            ScalarType::Integer => self.write_as::<Int64Type>(to, |json| json.parse().unwrap_or_default()),
            ScalarType::Real => self.write_as::<DoubleType>(to, |json| json.parse().unwrap_or_default()),
            ScalarType::Text => self.write_as::<ByteArrayType>(to, |json| text_of(json).into_bytes().into()),
        }
    }

    fn write_as<T: DataType>(
        &self,
        to: &mut SerializedColumnWriter,
        value: fn(&str) -> T::T,
    ) -> Result<(), ParquetError> {
        let values: Vec<T::T> = self.values.iter().map(|json| value(json)).collect();
        let repeated = matches!(self.kind, ColumnType::List(_)).then_some(&self.repeated[..]);
        to.typed::<T>().write_batch(&values, Some(&self.defined), repeated).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::FileReader;
    use parquet::file::serialized_reader::SerializedFileReader;
    use parquet::record::{Field, RowAccessor};
    use serde_json::{Value, json};

    use super::*;

    fn kind(values: &[Value]) -> ColumnType {
        let mut cells = Cells::default();
        values.iter().for_each(|value| cells.see(&value.to_string()));
        cells.kind()
    }

    #[test]
    fn the_values_decide_the_type() {
        use ScalarType::{Boolean, Integer, Real, Text};
        let scalar = |values: &[Value]| match kind(values) {
            ColumnType::Scalar(kind) => kind,
            list => panic!("{list:?}"),
        };
        assert_eq!(scalar(&[json!(null), json!(true)]), Boolean);
        assert_eq!(scalar(&[json!(1), json!(i64::MIN), json!(null)]), Integer);
        assert_eq!(scalar(&[json!(1), json!(1.5)]), Real);
        assert_eq!(scalar(&[json!(1_u64 << 60), json!(1.5)]), Text, "1 << 60 would be rounded");
        assert_eq!(scalar(&[json!(u64::MAX)]), Text);
        assert_eq!(scalar(&[json!(1_u64 << 63)]), Real, "it is exact");
        assert_eq!(scalar(&[json!(1), json!("1")]), Text);
        assert_eq!(scalar(&[json!(1), json!(true)]), Text);
        assert_eq!(scalar(&[json!({})]), Text);
        assert_eq!(scalar(&[]), Text);
        assert_eq!(scalar(&[json!([1]), json!(1)]), Text);
        assert_eq!(scalar(&[json!([[1]])]), Text);
        assert_eq!(kind(&[json!([]), json!([1, null]), json!(null)]), ColumnType::List(Integer));
        assert_eq!(kind(&[json!([])]), ColumnType::List(Text));
        let mut cells = Cells::default();
        cells.see("1e999");
        assert_eq!(cells.kind(), ColumnType::Scalar(Text));
    }

    /// Returns a value of the file as JSON.
    fn read(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::Bool(b) => json!(b),
            Field::Long(n) => json!(n),
            Field::Double(x) => json!(x),
            Field::Str(text) => json!(text),
            Field::ListInternal(list) => list.elements().iter().map(read).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn write(lines: &[String], to: &Path) {
        write_parquet(&|take| lines.iter().try_for_each(|line| take(line)), to).unwrap();
    }

    #[test]
    fn records_become_rows_of_all_types() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("t.parquet");
        let records = [
            json!({"n": 1, "x": 1.5, "who": {"name": "é\n", "old": true}, "tags": ["a", null], "any": 1, "deep": [[1]]}),
            json!({"n": null, "x": 2, "who": {"name": null}, "tags": [], "any": "b", "deep": [{"c": 1}]}),
            json!({"n": -7, "who": {}, "tags": null, "any": {}}),
        ];
        let lines = records.iter().map(|r| json!({"source": "s", "record": r, "key": "1"}).to_string());
        write(&lines.collect::<Vec<_>>(), &table);
        let reader = SerializedFileReader::new(File::open(&table).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let got: Vec<Value> = rows
            .iter()
            .map(|row| row.get_column_iter().map(|(name, field)| (name.clone(), read(field))).collect())
            .collect();
        let want = [
            json!({"_source": "s", "n": 1, "x": 1.5, "who.name": "é\n", "who.old": true, "tags": ["a", null], "any": "1", "deep": "[[1]]", "who": null}),
            json!({"_source": "s", "n": null, "x": 2.0, "who.name": null, "who.old": null, "tags": [], "any": "b", "deep": "[{\"c\":1}]", "who": null}),
            json!({"_source": "s", "n": -7, "x": null, "who.name": null, "who.old": null, "tags": null, "any": "{}", "deep": null, "who": "{}"}),
        ];
        assert_eq!(got, want);
        assert!(rows[0].get_long(1).is_ok());
        // Without rows, and with several row groups.
        write(&[], &table);
        let reader = SerializedFileReader::new(File::open(&table).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        let count = GROUP_ROWS + 3;
        let lines = (0..count).map(|i| format!("{{\"source\":\"{i}\",\"record\":{{\"i\":{i}}}}}"));
        write(&lines.collect::<Vec<_>>(), &table);
        let reader = SerializedFileReader::new(File::open(&table).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let sum: i64 = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_long(1).unwrap()).sum();
        assert_eq!(sum, (0..count as i64).sum::<i64>());
    }
}
