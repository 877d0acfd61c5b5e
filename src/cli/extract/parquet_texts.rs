//! Texts in a column of a Parquet file.
//!
//! A column of strings is a column of byte arrays, whatever its type is in memory: Utf8, LargeUtf8,
//! Utf8View and dictionaries are all written as such.
//!
//! # Cost
//!
//! A page of each of the two columns and a few values are in memory at a time. Other columns are
//! not read.
//!
//! # Alternatives considered
//!
//! Arrow's record batches were rejected: they double the dependencies, and need whole row groups of
//! a column for what a page at a time gives.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{AsBytes, ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use serde_json::Value;

use ffwd_engine::text::decode;

use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::corpus::{Document, MAX_INPUT, place};

/// Number of rows that are read at a time.
const ROWS: usize = 32;

/// An open Parquet file.
pub(super) struct ParquetTexts {
    path: PathBuf,
    file: SerializedFileReader<File>,
    text: usize,
    id: Option<usize>,
    /// The next row group.
    group: usize,
    /// The columns of the row group that is read.
    columns: Option<(ColumnReader, Option<ColumnReader>)>,
    rows: VecDeque<(Option<Value>, Result<String>)>,
    /// Number of rows that were returned.
    row: usize,
}

/// Opens a file; see [`OpenTable`](crate::extract::corpus::OpenTable).
pub(super) fn open(
    path: &Path,
    text: &str,
    id: Option<&str>,
) -> Result<(usize, Box<dyn Iterator<Item = Document>>)> {
    let texts = ParquetTexts::open(path, text, id)?;
    Ok((texts.rows(), Box::new(texts)))
}

impl ParquetTexts {
    /// Opens a file with a column of texts, and a column of identifiers if one is named.
    pub(super) fn open(path: &Path, text: &str, id: Option<&str>) -> Result<ParquetTexts> {
        let file = File::open(path).map_err(|e| Error::io(path, &e))?;
        let file = caught(|| SerializedFileReader::new(file)).map_err(|e| broken(path, &e))?;
        let schema = file.metadata().file_metadata().schema_descr();
        let at = |e: Error| e.at(Place::File(path.into()));
        let text = column(schema, text).map_err(at)?;
        check_text(&schema.column(text), schema).map_err(at)?;
        let id = id.map(|id| column(schema, id)).transpose().map_err(at)?;
        if let Some(id) = id {
            check_id(&schema.column(id)).map_err(at)?;
        }
        let (path, rows) = (path.to_owned(), VecDeque::new());
        Ok(ParquetTexts { path, text, id, group: 0, columns: None, rows, row: 0, file })
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or_default()
    }

    /// Reads the next rows, if there are any.
    fn read(&mut self) -> Result<(), ParquetError> {
        loop {
            let Some((text, id)) = &mut self.columns else {
                if self.group == self.file.num_row_groups() {
                    return Ok(());
                }
                let group = self.file.get_row_group(self.group)?;
                self.group += 1;
                let id = self.id.map(|id| group.get_column_reader(id)).transpose()?;
                self.columns = Some((group.get_column_reader(self.text)?, id));
                continue;
            };
            let schema = self.file.metadata().file_metadata().schema_descr();
            let texts = texts(text, schema.column(self.text).max_def_level())?;
            if texts.is_empty() {
                self.columns = None;
                continue;
            }
            let ids = match (id, self.id) {
                (Some(id), Some(column)) => ids(id, &schema.column(column))?,
                _ => Vec::new(),
            };
            let mut ids = ids.into_iter();
            self.rows.extend(texts.into_iter().map(|text| (ids.next().filter(|id| !id.is_null()), text)));
            return Ok(());
        }
    }
}

impl Iterator for ParquetTexts {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        let read = if self.rows.is_empty() { caught(|| self.read()) } else { Ok(()) };
        self.row += 1;
        let source = place(&self.path, self.row);
        if let Err(error) = read {
            // What follows a broken page cannot be found.
            (self.columns, self.group) = (None, self.file.num_row_groups());
            return Some(Document { text: Err(broken(&source, &error)), source, id: None, places: None });
        }
        let (id, text) = self.rows.pop_front()?;
        let text = text.map_err(|e| e.at(Place::File(source.clone())));
        Some(Document { source, id, text, places: None })
    }
}

thread_local! {
    /// True while a panic is caught and becomes an error.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls the crate `parquet`, which panics on some broken files.
fn caught<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                usual(info);
            }
        }));
    });
    CAUGHT.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CAUGHT.set(false);
    result.unwrap_or_else(|_| Err(ParquetError::General("its parts contradict each other".to_owned())))
}

/// Returns the next values of a column, with the number that stands for null.
fn values<T: DataType>(from: &mut ColumnReaderImpl<T>, most: i16) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let (rows, ..) = from.read_records(ROWS, Some(&mut levels), None, &mut values)?;
    if most == 0 {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(levels.into_iter().take(rows).map(|level| if level == most { values.next() } else { None }).collect())
}

/// Returns the next texts of a column of byte arrays.
fn texts(from: &mut ColumnReader, most: i16) -> Result<Vec<Result<String>>, ParquetError> {
    let ColumnReader::ByteArrayColumnReader(from) = from else { return Ok(Vec::new()) };
    Ok(values(from, most)?.into_iter().map(text_of).collect())
}

fn text_of(value: Option<ByteArray>) -> Result<String> {
    let fail = |message: &str| Error::new(ErrorKind::InvalidOption, message);
    let value = value.ok_or_else(|| fail("the row has no text, but null"))?;
    let bytes = value.as_bytes();
    if bytes.len() as u64 > MAX_INPUT {
        let message = format!("the text is larger than {} MiB", MAX_INPUT >> 20);
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    decode(bytes.to_vec())
}

/// Returns the next identifiers: numbers and strings of JSON, and dates, times and the like in words.
fn ids(from: &mut ColumnReader, column: &ColumnDescPtr) -> Result<Vec<Value>, ParquetError> {
    use ColumnReader as Reader;
    let most = column.max_def_level();
    match from {
        Reader::BoolColumnReader(from) => json(from, most, Value::Bool),
        Reader::Int32ColumnReader(from) => json(from, most, |n| id_json(Field::convert_int32(column, n))),
        Reader::Int64ColumnReader(from) => json(from, most, |n| match column.logical_type_ref() {
            // The nanoseconds of pandas.
            Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS && n % 1000 == 0 => {
                Field::TimestampMicros(n / 1000).to_string().into()
            }
            _ => id_json(Field::convert_int64(column, n)),
        }),
        Reader::Int96ColumnReader(from) => json(from, most, |n| id_json(Field::convert_int96(column, n))),
        Reader::FloatColumnReader(from) => json(from, most, |x| id_json(Field::convert_float(column, x))),
        Reader::DoubleColumnReader(from) => json(from, most, |x| id_json(Field::convert_double(column, x))),
        Reader::ByteArrayColumnReader(from) => json(from, most, |bytes| id_bytes(column, bytes)),
        Reader::FixedLenByteArrayColumnReader(from) => {
            json(from, most, |bytes| id_bytes(column, bytes.into()))
        }
    }
}

fn json<T: DataType>(
    from: &mut ColumnReaderImpl<T>,
    most: i16,
    to_json: impl Fn(T::T) -> Value,
) -> Result<Vec<Value>, ParquetError> {
    let values = values(from, most)?.into_iter();
    Ok(values.map(|value| value.map_or(Value::Null, &to_json)).collect())
}

fn id_json(field: Field) -> Value {
    match field {
        Field::Byte(n) => n.into(),
        Field::Short(n) => n.into(),
        Field::Int(n) => n.into(),
        Field::Long(n) => n.into(),
        Field::UByte(n) => n.into(),
        Field::UShort(n) => n.into(),
        Field::UInt(n) => n.into(),
        Field::ULong(n) => n.into(),
        // The digits of the shorter type.
        Field::Float(x) if x.is_finite() => x.to_string().parse::<f64>().map_or(Value::Null, Value::from),
        Field::Double(x) if x.is_finite() => x.into(),
        other => other.to_string().into(),
    }
}

/// Returns an identifier of bytes: a text, a decimal number, a UUID, or the bytes in hexadecimal.
fn id_bytes(column: &ColumnDescPtr, bytes: ByteArray) -> Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    if matches!(column.logical_type_ref(), Some(LogicalType::Uuid)) && bytes.len() == 16 {
        let hex = hex(bytes.as_bytes());
        return [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-").into();
    }
    if column.converted_type() == ConvertedType::DECIMAL {
        return Field::convert_byte_array(column, bytes)
            .map_or(Value::Null, |field| field.to_string().into());
    }
    String::from_utf8(bytes.as_bytes().to_vec()).unwrap_or_else(|_| hex(bytes.as_bytes())).into()
}

/// Returns the index of a column.
fn column(schema: &SchemaDescriptor, name: &str) -> Result<usize> {
    let found = (0..schema.num_columns()).find(|i| schema.column(*i).path().string() == name);
    found.ok_or_else(|| {
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        Error::new(ErrorKind::InvalidOption, format!("no column is named `{name}`"))
            .hint(format!("the columns are {}", listed(&names)))
    })
}

/// # Errors
/// If a column holds no texts.
fn check_text(column: &ColumnDescPtr, schema: &SchemaDescriptor) -> Result<()> {
    if holds_text(column) {
        return Ok(());
    }
    let message = format!("the column `{}` holds {}, not texts", column.path().string(), kind(column));
    let texts = schema.columns().iter().filter(|column| holds_text(column));
    let names: Vec<String> = texts.map(|column| column.path().string()).collect();
    let hint = match names.is_empty() {
        true => "no column of the file holds texts".to_owned(),
        false => format!("the columns of texts are {}", listed(&names)),
    };
    Err(Error::new(ErrorKind::InvalidOption, message).hint(hint))
}

/// # Errors
/// If a column holds lists.
fn check_id(column: &ColumnDescPtr) -> Result<()> {
    if column.max_rep_level() == 0 {
        return Ok(());
    }
    let message = format!("the column `{}` holds {}, not identifiers", column.path().string(), kind(column));
    Err(Error::new(ErrorKind::InvalidOption, message).hint("name a column with one value in each row"))
}

/// Returns true for strings, and for byte arrays of writers that say no more.
fn holds_text(column: &ColumnDescPtr) -> bool {
    let texts = [ConvertedType::UTF8, ConvertedType::ENUM, ConvertedType::JSON];
    column.physical_type() == Physical::BYTE_ARRAY
        && column.max_rep_level() == 0
        && (is_plain(column) || texts.contains(&column.converted_type()))
}

/// Returns true if a column has no type but the physical one.
fn is_plain(column: &ColumnDescPtr) -> bool {
    column.converted_type() == ConvertedType::NONE && column.logical_type_ref().is_none()
}

/// Returns the type of a column for a message.
fn kind(column: &ColumnDescPtr) -> String {
    if column.max_rep_level() > 0 {
        return "lists".to_owned();
    }
    match column.converted_type() {
        ConvertedType::NONE => format!("{}", column.physical_type()),
        converted => format!("{converted}"),
    }
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 40;
    let mut list = names.iter().take(MOST).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        list += &format!(" and {} more", names.len() - MOST);
    }
    list
}

fn broken(path: &Path, error: &ParquetError) -> Error {
    let message = match error {
        ParquetError::General(message) | ParquetError::NYI(message) | ParquetError::EOF(message) => {
            format!("not readable as Parquet: {message}")
        }
        other => format!("not readable as Parquet: {other}"),
    };
    Error::new(ErrorKind::InvalidOption, message)
        .at(Place::File(path.into()))
        .hint("files that are complete and compressed by Snappy or Zstandard, or not at all, are read")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ffwd_testkit::random::Random;
    use parquet::basic::Compression;
    use parquet::data_type::{
        BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType,
        Int32Type, Int64Type,
    };
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
    use parquet::schema::parser::parse_message_type;

    use super::*;

    const SCHEMA: &str = "message schema {
        optional int64 id; optional binary body (UTF8); required int32 n; required binary raw;
        optional group tags (LIST) { repeated group list { optional binary element (UTF8); } } }";

    type Line = (Option<i64>, Option<String>);

    fn write(path: &Path, groups: &[Vec<Line>], dictionary: bool, compression: Compression) {
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(dictionary)
            .set_data_page_row_count_limit(7)
            .set_write_batch_size(5);
        let mut file =
            SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties.build()))
                .unwrap();
        for rows in groups {
            let mut group = file.next_row_group().unwrap();
            let mut i = 0;
            while let Some(mut column) = group.next_column().unwrap() {
                let texts = || rows.iter().filter_map(|row| row.1.as_deref()).map(ByteArray::from);
                let defined = |there: &dyn Fn(&Line) -> bool| -> Vec<i16> {
                    rows.iter().map(|row| i16::from(there(row))).collect()
                };
                match i {
                    0 => {
                        let ids: Vec<i64> = rows.iter().filter_map(|row| row.0).collect();
                        let defined = defined(&|row| row.0.is_some());
                        column.typed::<Int64Type>().write_batch(&ids, Some(&defined), None)
                    }
                    1 => {
                        let defined = defined(&|row| row.1.is_some());
                        let texts: Vec<ByteArray> = texts().collect();
                        column.typed::<ByteArrayType>().write_batch(&texts, Some(&defined), None)
                    }
                    2 => column.typed::<Int32Type>().write_batch(&vec![1; rows.len()], None, None),
                    3 => {
                        let raw = vec![ByteArray::from(vec![0xff, 0xfe, 0x41]); rows.len()];
                        column.typed::<ByteArrayType>().write_batch(&raw, None, None)
                    }
                    _ => {
                        let zeros = vec![0; rows.len()];
                        column.typed::<ByteArrayType>().write_batch(&[], Some(&zeros), Some(&zeros))
                    }
                }
                .unwrap();
                column.close().unwrap();
                i += 1;
            }
            group.close().unwrap();
        }
        file.close().unwrap();
    }

    fn random_groups(random: &mut Random) -> Vec<Vec<Line>> {
        (0..random.below(4))
            .map(|_| {
                (0..random.below(90))
                    .map(|_| {
                        let text = format!("Text é {}", random.below(9)).repeat(random.below(3));
                        (random.chance(70).then_some(random.next() as i64), random.chance(80).then_some(text))
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn all_rows_are_read_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut random = Random::new(1);
        for round in 0..60 {
            let groups = random_groups(&mut random);
            let compression = *random.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY]);
            write(&path, &groups, round % 2 == 0, compression);
            let rows: Vec<Line> = groups.concat();
            let texts = ParquetTexts::open(&path, "body", Some("id")).unwrap();
            assert_eq!(texts.rows(), rows.len());
            let documents: Vec<Document> = texts.collect();
            assert_eq!(documents.len(), rows.len());
            for (i, (document, row)) in documents.into_iter().zip(rows).enumerate() {
                assert_eq!(document.source, place(&path, i + 1));
                assert_eq!(document.id, row.0.map(Value::from));
                match row.1 {
                    Some(text) => assert_eq!(document.text.unwrap(), text),
                    None => assert!(document.text.unwrap_err().message().contains("null")),
                }
            }
        }
    }

    #[test]
    fn columns_that_hold_no_texts_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        write(&path, &[vec![(Some(1), Some("a".into()))]], true, Compression::SNAPPY);
        for (text, id, parts) in [
            ("n", None, ["holds INT32, not texts", "`body`, `raw`"]),
            ("tags.list.element", None, ["holds lists", "`body`"]),
            ("tags", None, ["no column is named `tags`", "`id`, `body`, `n`, `raw`, `tags.list.element`"]),
            ("body", Some("no"), ["no column is named `no`", "`id`"]),
            ("body", Some("tags.list.element"), ["holds lists, not identifiers", "one value in each row"]),
        ] {
            let error = ParquetTexts::open(&path, text, id).err().unwrap().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        let ids: Vec<_> = ParquetTexts::open(&path, "body", Some("n")).unwrap().map(|d| d.id).collect();
        assert_eq!(ids, [Some(Value::from(1))]);
        let ids: Vec<_> = ParquetTexts::open(&path, "body", Some("raw")).unwrap().map(|d| d.id).collect();
        assert_eq!(ids, [Some(Value::from("fffe41"))], "bytes that are no text");
        // Bytes that are UTF-16.
        let raw = ParquetTexts::open(&path, "raw", None).unwrap().next().unwrap();
        assert!(raw.text.unwrap_err().message().contains("half a unit"));
        for broken in [&b""[..], b"PAR1", b"PAR1 and more text than that PAR1", b"text"] {
            std::fs::write(&path, broken).unwrap();
            let error = ParquetTexts::open(&path, "body", None).err().unwrap().to_string();
            assert!(error.contains("not readable as Parquet") && error.contains("t.parquet"), "{error}");
        }
    }

    #[test]
    fn identifiers_have_any_type_of_a_single_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let id = |column: &str, write: &dyn Fn(&mut SerializedColumnWriter<'_>)| {
            let schema = format!("message schema {{ required {column}; required binary body (UTF8); }}");
            let schema = Arc::new(parse_message_type(&schema).unwrap());
            let mut file =
                SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::default()).unwrap();
            let mut group = file.next_row_group().unwrap();
            let mut ids = group.next_column().unwrap().unwrap();
            write(&mut ids);
            ids.close().unwrap();
            let mut texts = group.next_column().unwrap().unwrap();
            texts.typed::<ByteArrayType>().write_batch(&[ByteArray::from("a")], None, None).unwrap();
            texts.close().unwrap();
            group.close().unwrap();
            file.close().unwrap();
            ParquetTexts::open(&path, "body", Some("id")).unwrap().next().unwrap().id.unwrap()
        };
        fn one<T: DataType>(value: T::T) -> impl Fn(&mut SerializedColumnWriter<'_>) {
            move |to| {
                to.typed::<T>().write_batch(std::slice::from_ref(&value), None, None).unwrap();
            }
        }
        let (int, long) = (one::<Int32Type>, one::<Int64Type>);
        let fixed = |bytes: &[u8]| one::<FixedLenByteArrayType>(FixedLenByteArray::from(bytes.to_vec()));
        assert_eq!(id("boolean id", &one::<BoolType>(true)), true);
        assert_eq!(id("float id", &one::<FloatType>(0.1)), 0.1);
        assert_eq!(id("double id", &one::<DoubleType>(f64::NAN)), "NaN");
        assert_eq!(id("int32 id (DATE)", &int(20_000)), "2024-10-04");
        assert_eq!(id("int32 id (UINT_32)", &int(-1)), u32::MAX);
        assert_eq!(id("int32 id (DECIMAL(6,2))", &int(1234)), "12.34");
        assert_eq!(id("int64 id (UINT_64)", &long(-1)), u64::MAX);
        let time = "2001-09-09 01:46:40";
        for (unit, n) in
            [("MILLIS", 1_000_000_000_000), ("MICROS", 1_000_000_000_000_000), ("NANOS", 10_i64.pow(18))]
        {
            let found = id(&format!("int64 id (TIMESTAMP({unit},true))"), &long(n));
            assert!(found.as_str().unwrap().starts_with(time), "{found}");
        }
        assert_eq!(id("int64 id (TIMESTAMP(NANOS,true))", &long(1)), 1, "no unit of words is so small");
        let uuid =
            id("fixed_len_byte_array(16) id (UUID)", &fixed(b"\x12\x34\x56\x78\x9a\xbc\xde\xf0ABCDEFGH"));
        assert_eq!(uuid, "12345678-9abc-def0-4142-434445464748");
        assert_eq!(id("fixed_len_byte_array(2) id (DECIMAL(4,1))", &fixed(b"\x00\x7b")), "12.3");
    }

    /// A file with any bytes changed gives rows or errors.
    #[test]
    fn broken_files_end_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut random = Random::new(2);
        let (mut failed, mut read) = (0, 0);
        for round in 0..1500 {
            if round % 30 == 0 {
                write(&path, &[random_groups(&mut random).concat()], round % 60 == 0, Compression::SNAPPY);
            }
            let whole = std::fs::read(&path).unwrap();
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            if random.chance(20) {
                let footer = bytes.split_off(bytes.len().saturating_sub(200));
                bytes.truncate(random.below(bytes.len() + 1));
                bytes.extend(footer);
            }
            std::fs::write(&path, &bytes).unwrap();
            match ParquetTexts::open(&path, "body", Some("id")) {
                Ok(texts) => {
                    let documents: Vec<Document> = texts.take(10_000).collect();
                    failed += usize::from(documents.iter().any(|d| d.text.is_err()));
                    read += documents.len();
                }
                Err(_) => failed += 1,
            }
            std::fs::write(&path, whole).unwrap();
        }
        assert!(failed > 100 && read > 1000, "{failed} {read}");
    }
}
