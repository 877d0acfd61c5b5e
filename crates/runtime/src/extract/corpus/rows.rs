//! RowCount of a long table: the lists of all parts of a text as one, and which rows of the text are not in it.
//!
//! The rows of the text are counted without the model: lines whose cells have the kinds that most lines with
//! cells have, such as text, text, number. Each extracted row is placed at the line that has most of its
//! values. Two rows at one line come from the overlap of two parts, so the first one stays.
//!
//! # Cost
//! A pass over the text, and a search of a part's lines for each of its rows.
//!
//! # Alternatives considered
//! Asking a model for the number of rows was rejected: it is the model that loses them. Merging by a key was
//! rejected: rows of a table may be equal.

use std::collections::HashMap;
use std::ops::Range;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::places::Places;
use crate::decode::leaf_values;
use crate::error::{Error, ErrorKind, Result};
use crate::extract::Chunk;
use crate::extract::members::Members;

/// Tokens of a part of a long table: small models lose rows of longer ones.
pub const LIST_TOKENS: usize = 100;
/// Smallest number of lines of one kind that are taken for rows.
const MIN_ROWS: usize = 3;
/// Number of kinds of lines that are tried as rows.
const MAX_KINDS: usize = 3;
/// Largest number of missing rows that are listed.
const MAX_LISTED: usize = 1_000;

/// What became of the rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RowCount {
    /// Number of extracted rows.
    pub found: usize,
    /// Number of lines of the text that look like rows.
    pub expected: usize,
    /// Number of these at which no extracted row was placed.
    pub lost: usize,
    /// The first thousand of those.
    pub missing: Vec<MissingRow>,
    /// Number of rows that two parts read otherwise.
    pub different: usize,
    /// Number of rows that stand at no such line.
    pub unplaced: usize,
    /// The lines of the first thousand rows with values that are not in their line.
    pub mixed: Vec<MissingRow>,
}

/// A line that looks like a row, and is in no record, or not as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissingRow {
    /// Byte offsets in the text.
    #[serde(serialize_with = "crate::extract::spans::as_pair")]
    pub bytes: Range<usize>,
    /// The page, if the text has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The line.
    pub text: String,
}

impl RowCount {
    /// Says in a line what was found and what is missing.
    pub fn summary(&self) -> String {
        let RowCount { found, expected, lost, different, unplaced, mixed, .. } = self;
        let mut text = format!("{} of {expected} rows found", expected - lost);
        if let Some(first) = self.missing.first() {
            text += &match first.page {
                Some(page) => format!("; missing near page {page}"),
                None => format!("; missing near byte {}", first.bytes.start),
            };
        }
        for (count, what) in [
            (*different, "read otherwise by two parts"),
            (*unplaced, "at no row of the text"),
            (mixed.len(), "with values that are not in their row"),
        ] {
            if count > 0 {
                text += &format!("; {count} {what}");
            }
        }
        if *found == 0 && *expected == 0 {
            text += "; no line looks like a row";
        }
        text
    }

    /// Adds the pages of missing rows.
    pub(super) fn add_pages(&mut self, places: &Places) {
        for row in self.missing.iter_mut().chain(&mut self.mixed) {
            row.page = places.of(&row.bytes).map(|(page, _)| page);
        }
    }
}

impl MissingRow {
    fn of(text: &str, line: &Range<usize>) -> MissingRow {
        MissingRow { bytes: line.clone(), page: None, text: text[line.clone()].to_owned() }
    }
}

/// Returns the property whose list has the rows of a text: the one of this name or pointer, such as `/items`,
/// or the one whose schema has `"x-rows": true`. The mark is removed, as a model has no use for it.
///
/// # Errors
/// `InvalidOption` if the schema has no such property, or `x-rows` stands elsewhere.
pub fn list_of(schema: &mut Value, name: Option<&str>) -> Result<Option<String>> {
    let fail = |message: String| {
        let error = Error::new(ErrorKind::InvalidOption, message);
        Err(error.hint("name a property of the record whose value is a list of rows"))
    };
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let mut marked = None;
    for (name, property) in properties.into_iter().flatten() {
        let mark = property.as_object_mut().and_then(|members| members.shift_remove("x-rows"));
        marked = marked.or_else(|| mark.filter(|mark| *mark == true).map(|_| name.clone()));
    }
    if schema.to_string().contains("\"x-rows\":true") {
        return fail("`x-rows` is for a property of the record".to_owned());
    }
    let list = name.map(|name| name.strip_prefix('/').unwrap_or(name).to_owned()).or(marked);
    let lacks = |list: &String| schema.get("properties").is_some_and(|all| all.get(list).is_none());
    match list {
        Some(list) if lacks(&list) => fail(format!("the list {list}: the schema has no such property")),
        list => Ok(list),
    }
}

/// A part of a text with its record, as JSON.
pub(super) struct RecordOfPart<'a> {
    pub chunk: &'a Chunk,
    pub text: &'a str,
    /// `None` if it failed, so its rows are missing.
    pub record: Option<&'a str>,
}

/// The records of all parts as one.
pub(super) struct JoinedRows {
    pub record: String,
    pub rows: RowCount,
    /// Where each row comes from: the part, and the place in its list.
    pub origins: Vec<(usize, usize)>,
}

/// Joins the records of all parts: the list at a property has the rows of all, and every other property its
/// first value that is not null.
///
/// # Errors
/// `InvalidJson` if a record is no JSON object.
pub(super) fn join(parts: &[RecordOfPart<'_>], list: &str) -> Result<JoinedRows> {
    let text = whole(parts);
    // Where a row takes several lines, those count at which most rows stand.
    let mut best: Option<JoinedRows> = None;
    for lines in row_lines(&text) {
        let joined = join_at(parts, list, &text, &lines)?;
        let placed = |joined: &JoinedRows| joined.rows.expected - joined.rows.lost;
        if best.as_ref().is_none_or(|best| placed(&joined) > placed(best)) {
            best = Some(joined);
        }
    }
    best.map_or_else(|| join_at(parts, list, &text, &[]), Ok)
}

/// The same with these lines as rows.
fn join_at(parts: &[RecordOfPart<'_>], list: &str, text: &str, lines: &[Range<usize>]) -> Result<JoinedRows> {
    let mut rows = RowCount { expected: lines.len(), ..RowCount::default() };
    let mut record = Members(Vec::new());
    let (mut all, mut origins): (Vec<Box<RawValue>>, _) = (Vec::new(), Vec::new());
    // The row at each line.
    let mut placed: Vec<Option<usize>> = vec![None; lines.len()];
    for (number, part) in parts.iter().enumerate() {
        let Some(own) = part.record else { continue };
        let Members(members) = parsed(own)?;
        let from = lines.partition_point(|line| line.start < part.chunk.bytes.start);
        // A part may lie inside of a line.
        let to = lines.partition_point(|line| line.end <= part.chunk.bytes.end).max(from);
        let mut taken = vec![false; to - from];
        for (name, value) in members {
            let is_list = name == list && value.get() != "null";
            let own = is_list.then(|| parsed::<Vec<Box<RawValue>>>(value.get())).transpose()?;
            match record.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) if known.get() == "null" => *known = value,
                Some(_) => {}
                // A list keeps its place among the properties.
                None => record.0.push((name, value)),
            }
            for (item, row) in own.into_iter().flatten().enumerate() {
                let own = lines[from..to].iter().map(|line| &text[line.clone()]);
                let line = line_of(row.get(), own, &taken);
                if let Some((at, whole)) = line {
                    taken[at] = true;
                    if let Some(other) = placed[from + at] {
                        rows.different += usize::from(all[other].get() != row.get());
                        continue;
                    }
                    placed[from + at] = Some(all.len());
                    if !whole && rows.mixed.len() < MAX_LISTED {
                        rows.mixed.push(MissingRow::of(text, &lines[from + at]));
                    }
                }
                rows.unplaced += usize::from(line.is_none());
                all.push(row);
                origins.push((number, item));
            }
        }
    }
    let lost: Vec<&Range<usize>> =
        lines.iter().zip(&placed).filter(|(_, row)| row.is_none()).map(|(line, _)| line).collect();
    rows.found = all.len();
    rows.lost = lost.len();
    rows.missing = lost.iter().take(MAX_LISTED).map(|line| MissingRow::of(text, line)).collect();
    let list_text = format!("[{}]", all.iter().map(|row| row.get()).collect::<Vec<_>>().join(","));
    let member = |(name, value): &(String, Box<RawValue>)| -> String {
        let value = if name == list { &list_text } else { value.get() };
        format!("{}:{value}", serde_json::Value::from(name.as_str()))
    };
    let members: Vec<String> = record.0.iter().map(member).collect();
    Ok(JoinedRows { record: format!("{{{}}}", members.join(",")), rows, origins })
}

fn parsed<'a, T: serde::Deserialize<'a>>(json: &'a str) -> Result<T> {
    serde_json::from_str(json).map_err(|e| {
        Error::new(ErrorKind::InvalidJson, format!("the record of a part has no list of rows: {e}"))
    })
}

/// Returns the text that was cut into these parts, which may overlap; blanks stand for parts that were left out.
fn whole(parts: &[RecordOfPart<'_>]) -> String {
    let mut text = String::new();
    for part in parts {
        let start = part.chunk.bytes.start;
        text.extend(std::iter::repeat_n(' ', start.saturating_sub(text.len())));
        text.push_str(part.text.get(text.len() - start..).unwrap_or_default());
    }
    text
}

/// Returns the lines that look like rows: those of the most frequent kinds, the most frequent first.
fn row_lines(text: &str) -> Vec<Vec<Range<usize>>> {
    let mut at = 0;
    let lines = text.split_inclusive(['\n', '\u{c}']).map(|line| {
        let start = at;
        at += line.len();
        let own = line.trim();
        let begin = start + (line.len() - line.trim_start().len());
        (begin..begin + own.len(), kinds(own))
    });
    let lines: Vec<(Range<usize>, String)> = lines.filter(|(_, kinds)| kinds.contains('9')).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (_, kinds) in lines.iter().filter(|(_, kinds)| kinds.len() > 1) {
        *counts.entry(kinds).or_default() += 1;
    }
    let mut usual: Vec<(usize, usize, &str)> =
        counts.into_iter().map(|(kinds, count)| (count, kinds.len(), kinds)).collect();
    usual.sort_unstable_by(|a, b| b.cmp(a));
    let usual = usual.into_iter().filter(|(count, ..)| *count >= MIN_ROWS).take(MAX_KINDS);
    let of = |(_, _, usual): (usize, usize, &str)| {
        let own = lines.iter().filter(|(_, kinds)| kinds == usual || is_one_off(kinds, usual));
        own.map(|(line, _)| line.clone()).collect()
    };
    usual.map(of).collect()
}

/// Returns the kind of each cell of a line: `9` if it has a digit, `a` otherwise.
fn kinds(line: &str) -> String {
    let cells = line.split("  ").flat_map(|part| part.split(['\t', '|'])).map(str::trim);
    let cells = cells.filter(|cell| !cell.is_empty());
    cells.map(|cell| if cell.contains(|c: char| c.is_ascii_digit()) { '9' } else { 'a' }).collect()
}

/// Returns true if the kinds of a line's cells are those of a row without one of them, with another one, or
/// with one of another kind, but for the first and the last cell.
fn is_one_off(kinds: &str, usual: &str) -> bool {
    if usual.len() < 4 || kinds.len() < 3 {
        return false;
    }
    let ends = |kinds: &str| (kinds.chars().next(), kinds.chars().last());
    let same = kinds.bytes().zip(usual.bytes()).take_while(|(a, b)| a == b).count();
    let behind = kinds.bytes().rev().zip(usual.bytes().rev()).take_while(|(a, b)| a == b).count();
    ends(kinds) == ends(usual)
        && kinds.len().abs_diff(usual.len()) <= 1
        && same + behind + 1 >= kinds.len().max(usual.len())
}

/// Returns the first line with most values of a row, at least half of them, that no other row has, and whether
/// it has all of them.
fn line_of<'t>(row: &str, lines: impl Iterator<Item = &'t str>, taken: &[bool]) -> Option<(usize, bool)> {
    let values: Vec<String> = leaf_values(row.as_bytes())
        .into_iter()
        .map(|leaf| plain(&row[leaf.bytes]))
        .filter(|value| !value.is_empty() && value != "null")
        .collect();
    let least = values.len().div_ceil(2).max(1);
    let mut best: Option<(usize, usize)> = None;
    for (i, line) in lines.enumerate().filter(|(i, _)| !taken[*i]) {
        let line = plain(line);
        let count = values.iter().filter(|value| line.contains(value.as_str())).count();
        if count >= least && best.is_none_or(|best| count > best.1) {
            best = Some((i, count));
        }
    }
    best.map(|(at, count)| (at, count == values.len()))
}

/// Returns the letters and digits of a text, in small letters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(rows: usize) -> String {
        let line = |i: usize| format!("T{i:03}  2026-01-{:02}  Payee {i}  {}.50\n", i % 28 + 1, 1000 + i);
        let head = "Number  Date  Payee  Amount\n";
        (0..rows)
            .map(|i| if i % 10 == 0 { format!("Page {}\n{head}{}", i / 10 + 1, line(i)) } else { line(i) })
            .collect()
    }

    fn row(i: usize) -> String {
        format!(r#"{{"number":"T{i:03}","payee":"Payee {i}","amount":{}.50}}"#, 1000 + i)
    }

    fn record(rows: impl Iterator<Item = usize>) -> String {
        format!(r#"{{"bank":null,"rows":[{}],"total":7}}"#, rows.map(row).collect::<Vec<_>>().join(", "))
    }

    /// Parts of 20 rows that overlap by two.
    fn parts(text: &str) -> Vec<Chunk> {
        let starts: Vec<usize> = text.match_indices("\nT").map(|(at, _)| at + 1).collect();
        let end = |i: usize| starts.get(i).copied().unwrap_or(text.len());
        let part = |i: usize| {
            let bytes = if i == 0 { 0 } else { starts[i - 2] }..end(i + 20);
            Chunk { chars: bytes.clone(), bytes }
        };
        (0..starts.len()).step_by(20).map(part).collect()
    }

    fn joined(text: &str, records: &[Option<String>]) -> (serde_json::Value, RowCount) {
        let chunks = parts(text);
        let own: Vec<RecordOfPart> = chunks
            .iter()
            .zip(records)
            .map(|(chunk, record)| RecordOfPart {
                chunk,
                text: &text[chunk.bytes.clone()],
                record: record.as_deref(),
            })
            .collect();
        assert_eq!(whole(&own), text);
        let joined = join(&own, "rows").unwrap();
        let json: serde_json::Value = serde_json::from_str(&joined.record).unwrap();
        for (row, (part, item)) in json["rows"].as_array().unwrap().iter().zip(&joined.origins) {
            let own: serde_json::Value = serde_json::from_str(records[*part].as_ref().unwrap()).unwrap();
            assert_eq!(*row, own["rows"][item]);
        }
        (json, joined.rows)
    }

    #[test]
    fn rows_of_all_parts_are_one_list_and_lost_ones_are_named() {
        let text = text(60);
        let whole = [0..20, 18..40, 38..60].map(|rows| Some(record(rows)));
        let (json, rows) = joined(&text, &whole);
        assert_eq!(json["rows"].as_array().unwrap().len(), 60);
        assert_eq!((&json["total"], rows.summary().as_str()), (&7.into(), "60 of 60 rows found"));
        assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), ["bank", "rows", "total"]);
        // Two rows are left out, one in an overlap, where the other part has it; one part has failed.
        let some = [Some(record((0..20).filter(|i| *i != 7 && *i != 19))), Some(record(18..40)), None];
        let (json, rows) = joined(&text, &some);
        assert_eq!(json["rows"].as_array().unwrap().len(), 39);
        assert_eq!((rows.found, rows.expected, rows.lost, rows.different, rows.unplaced), (39, 60, 21, 0, 0));
        assert!(rows.missing[0].text.starts_with("T007") && rows.missing[1].text.starts_with("T040"));
        assert_eq!(&text[rows.missing[0].bytes.clone()], rows.missing[0].text);
    }

    #[test]
    fn parts_that_disagree_and_rows_from_nowhere_are_counted() {
        let text = text(40);
        let other = record(18..40).replace("1019.50", "1019.05");
        let (json, rows) =
            joined(&text, &[Some(record(0..20)), Some(other.replace("[{", &format!("[{}, {{", row(777))))]);
        assert_eq!((rows.different, rows.unplaced, rows.lost, rows.mixed.len()), (1, 1, 0, 0));
        assert_eq!(json["rows"].as_array().unwrap().len(), 41);
        assert!(rows.summary().ends_with("1 read otherwise by two parts; 1 at no row of the text"));
        let (_, rows) = joined(&text, &[Some(record(0..20).replace("T005", "T006")), Some(record(18..40))]);
        assert!(rows.lost == 0 && rows.mixed.len() == 1 && rows.mixed[0].text.starts_with("T005"));
    }

    /// A row of two lines counts once: at the line that has most of its values.
    #[test]
    fn rows_of_two_lines_count_once() {
        let line =
            |i: usize| format!("{i}  1/{i}  Ann Number{i}  NOR  {}  Club\n{i}.01  (  1.{i})\n", 1900 + i);
        let text: String = (1..30).map(line).collect();
        let chunk = Chunk { bytes: 0..text.len(), chars: 0..text.len() };
        let rows: Vec<String> =
            (1..28).map(|i| format!(r#"{{"name":"Ann Number{i}","year":{}}}"#, 1900 + i)).collect();
        let own = format!(r#"{{"rows":[{}]}}"#, rows.join(","));
        let joined =
            join(&[RecordOfPart { chunk: &chunk, text: &text, record: Some(&own) }], "rows").unwrap();
        assert_eq!((joined.rows.expected, joined.rows.lost, joined.rows.unplaced), (29, 2, 0));
        assert!(joined.rows.missing[0].text.contains("Number28"), "{:?}", joined.rows.missing);
    }

    /// Parts that end in the middle of lines, as those of a text with long ones.
    #[test]
    fn parts_inside_of_lines_have_no_rows() {
        let text = text(20);
        let ends: Vec<usize> = (0..text.len()).step_by(7).chain([text.len()]).collect();
        let chunks = ends.windows(2).map(|pair| Chunk { bytes: pair[0]..pair[1], chars: pair[0]..pair[1] });
        let chunks: Vec<Chunk> = chunks.collect();
        let own = record(0..1);
        let part = |chunk| RecordOfPart { chunk, text: &text[chunk.bytes.clone()], record: Some(&own) };
        let joined = join(&chunks.iter().map(part).collect::<Vec<_>>(), "rows").unwrap();
        assert_eq!((joined.rows.expected, joined.rows.lost), (20, 20));
        assert_eq!((joined.rows.found, joined.rows.unplaced), (chunks.len(), chunks.len()));
    }

    #[test]
    fn the_list_is_named_or_marked() {
        let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let marked = r#"{"properties": {"a": {"type": "array"}, "b": {"type": "array", "x-rows": true}}}"#;
        for (name, list) in [(None, "b"), (Some("a"), "a"), (Some("/a"), "a")] {
            let mut marked = schema(marked);
            assert_eq!(list_of(&mut marked, name).unwrap().as_deref(), Some(list));
            assert!(!marked.to_string().contains("x-rows"));
        }
        assert_eq!(list_of(&mut schema(r#"{"properties": {"a": {"x-rows": false}}}"#), None).unwrap(), None);
        assert!(list_of(&mut schema(marked), Some("/b/c")).unwrap_err().message().contains("b/c"));
        let inner = r#"{"properties": {"a": {"properties": {"b": {"type": "array", "x-rows": true}}}}}"#;
        assert!(list_of(&mut schema(inner), None).is_err());
    }

    /// Random rows of random kinds, of which some are lost: those and no others are missing.
    #[test]
    fn random_losses_are_found() {
        let mut state = 7u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % count
        };
        for _ in 0..200 {
            let text = text(20 + below(60));
            let chunks = parts(&text);
            let count = text.matches("\nT").count();
            let lost: Vec<usize> = (0..count).filter(|_| below(10) == 0).collect();
            let own = |chunk: &Chunk| {
                let part = &text[chunk.bytes.clone()];
                let inside = (0..count).filter(|i| part.contains(&format!("T{i:03}")) && !lost.contains(i));
                Some(record(inside))
            };
            let (_, rows) = joined(&text, &chunks.iter().map(own).collect::<Vec<_>>());
            let missing: Vec<String> = rows.missing.iter().map(|row| row.text[..4].to_owned()).collect();
            assert_eq!(missing, lost.iter().map(|i| format!("T{i:03}")).collect::<Vec<_>>());
            assert_eq!((rows.found, rows.unplaced, rows.different), (count - lost.len(), 0, 0));
        }
    }
}
