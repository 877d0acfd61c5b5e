//! The report of `ffwd extract`: one HTML file that shows each text with its record.
//!
//! The file is a page without external resources, followed by a line of JSON for each text. The
//! browser reads the lines when it opens the file, so the report is complete after each line, also
//! if the run is killed. It is a [`Journal`] behind a page: a text has a line for each of its parts.
//!
//! # Cost
//!
//! One write for each text. A line has the text, or the parts of a long text around the spans, and
//! each token of the record.
//!
//! # Alternatives considered
//!
//! A finished tree of elements was rejected: it is several times larger, and the browser builds all
//! of it before it shows the first text. A program that makes the page from the journal was
//! rejected, since the journal would need the texts and tokens.

use std::fs::File;
use std::io::{ErrorKind as IoKind, Read};
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::grounding::Grounding;
use super::journal::{Journal, Resume};
use super::places::Places;
use crate::decode::{Output, TokenSource, leaf_values};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::{ValueSpans, spans_of};
use crate::vocab::Vocabulary;

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");
/// The second line of each report, by which one is recognised.
const MARK: &str = "<!-- ffwd extraction report 1 -->";
/// Bytes up to which a text is shown as a whole.
const WHOLE_TEXT: usize = 16 << 10;
/// Bytes that are shown on either side of a span of a longer text, and at its begin.
const AROUND: usize = 600;

/// What a report shows of the output for a text.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pieces: Vec<ShownPiece>,
    fields: Vec<ShownField>,
    tokens: Vec<ShownToken>,
    forwards: usize,
    seconds: f64,
}

/// A piece of the text with the indices of the fields whose spans it is in; `None` for a note about
/// a part that is not shown.
#[derive(Debug, Serialize, PartialEq)]
struct ShownPiece(String, Option<Vec<usize>>);

#[derive(Debug, Serialize)]
struct ShownField {
    pointer: String,
    value: String,
    /// The span in characters, if the value has exactly one.
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<[usize; 2]>,
    /// The same in bytes of the text, or of its part.
    #[serde(skip)]
    bytes: Option<Range<usize>>,
    /// The page of the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    /// The member of the value in the line's `confidence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<Value>,
}

/// Text, source, and number of rejected tokens.
#[derive(Debug, Serialize)]
struct ShownToken(String, TokenSource, u32);

/// A line of the report.
#[derive(Serialize)]
pub(super) struct ReportLine<'a> {
    /// Position among the texts of the run.
    pub index: usize,
    /// Position among the parts of its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// True for the last part, false for those before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<bool>,
    pub source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a Value>,
    /// Only with a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub finish: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(flatten)]
    pub shown: &'a Shown,
}

impl Shown {
    /// Collects what is shown of an output about `text`.
    pub(super) fn new(text: &str, output: &Output, grounding: &Grounding, vocab: &Vocabulary) -> Shown {
        let record = output.answer.as_deref().unwrap_or(&output.text);
        let spans = spans_of(record, &output.source_spans, text);
        let fields = leaf_values(record.as_bytes()).into_iter().map(|leaf| {
            let written = &record[leaf.bytes];
            let span = spans.iter().find(|value| value.pointer == leaf.pointer).and_then(ValueSpans::unique);
            ShownField {
                value: match grounding.abstained.as_ref().is_some_and(|all| all.contains_key(&leaf.pointer)) {
                    true => "null".to_owned(),
                    false => serde_json::from_str(written).unwrap_or_else(|_| written.to_owned()),
                },
                span: span.map(|span| [span.chars.start, span.chars.end]),
                bytes: span.map(|span| span.bytes.clone()),
                page: None,
                confidence: grounding.confidence.as_ref().and_then(|all| all.get(&leaf.pointer)).cloned(),
                pointer: leaf.pointer,
            }
        });
        let fields: Vec<ShownField> = fields.collect();
        let at = |pointer: &str| fields.iter().position(|field| field.pointer == pointer);
        let mut marked = Vec::new();
        for value in &spans {
            if let Some(field) = at(&value.pointer) {
                marked.extend(value.occurrences.iter().map(|span| (span.bytes.clone(), field)));
            }
        }
        Shown {
            pieces: pieces(text, &marked),
            fields,
            tokens: tokens(output, vocab),
            forwards: output.stats.forwards,
            seconds: output.stats.seconds,
        }
    }

    /// Adds the pages of the spans, in a part of a text that begins at this byte.
    pub(super) fn add_pages(&mut self, places: &Places, begin: usize) {
        for field in &mut self.fields {
            let bytes = field.bytes.as_ref().map(|bytes| begin + bytes.start..begin + bytes.end);
            field.page = bytes.and_then(|bytes| places.of(&bytes)).map(|(page, _)| page);
        }
    }

    /// Returns what is shown of a text without an output.
    pub(super) fn failed(text: Option<&str>) -> Shown {
        let pieces = pieces(text.unwrap_or_default(), &[]);
        Shown { pieces, fields: Vec::new(), tokens: Vec::new(), forwards: 0, seconds: 0.0 }
    }
}

/// Returns the tokens. A character of several tokens is shown at the last of them.
fn tokens(output: &Output, vocab: &Vocabulary) -> Vec<ShownToken> {
    let mut open: Vec<u8> = Vec::new();
    let of = output.tokens.iter().zip(&output.origins);
    of.map(|(token, origin)| {
        open.extend_from_slice(vocab.token_bytes(*token));
        let whole = match std::str::from_utf8(&open) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            _ => open.len(),
        };
        let text = String::from_utf8_lossy(&open[..whole]).into_owned();
        open.drain(..whole);
        ShownToken(text, origin.source, origin.rejected)
    })
    .collect()
}

/// Returns the parts of a text that are shown: all of it, or the begin of a long text and the
/// surroundings of its spans.
fn shown_parts(text: &str, marked: &[(Range<usize>, usize)]) -> Vec<Range<usize>> {
    let whole = std::iter::once(0..text.len());
    if text.len() <= WHOLE_TEXT {
        return whole.collect();
    }
    let around = |span: Range<usize>| {
        let (mut from, mut to) = (span.start.saturating_sub(AROUND), (span.end + AROUND).min(text.len()));
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        while !text.is_char_boundary(to) {
            to += 1;
        }
        from..to
    };
    let spans = std::iter::once(0..0).chain(marked.iter().map(|(bytes, _)| bytes.clone()));
    let mut parts: Vec<Range<usize>> = spans.map(around).collect();
    parts.sort_by_key(|part| part.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    merged
}

/// Cuts the shown parts of a text at the bounds of all spans.
fn pieces(text: &str, marked: &[(Range<usize>, usize)]) -> Vec<ShownPiece> {
    let mut pieces = Vec::new();
    let mut end = 0;
    for window in shown_parts(text, marked) {
        hidden(&text[end..window.start], &mut pieces);
        end = window.end;
        let mut cuts: Vec<usize> = marked.iter().flat_map(|(bytes, _)| [bytes.start, bytes.end]).collect();
        cuts.extend([window.start, window.end]);
        cuts.retain(|cut| (window.start..=window.end).contains(cut));
        cuts.sort_unstable();
        cuts.dedup();
        for cut in cuts.windows(2) {
            let within = |bytes: &Range<usize>| bytes.start <= cut[0] && cut[1] <= bytes.end;
            let mut fields: Vec<usize> =
                marked.iter().filter(|(bytes, _)| within(bytes)).map(|(_, field)| *field).collect();
            fields.dedup();
            pieces.push(ShownPiece(text[cut[0]..cut[1]].to_owned(), Some(fields)));
        }
    }
    hidden(&text[end..], &mut pieces);
    pieces
}

/// Adds a note about a part that is not shown.
fn hidden(part: &str, pieces: &mut Vec<ShownPiece>) {
    if !part.is_empty() {
        pieces.push(ShownPiece(format!(" … {} characters … ", part.chars().count()), None));
    }
}

/// Opens the report. Another report is replaced, and any other file is an error. With `resume`, the
/// lines with records are kept.
pub(super) fn open_report(path: &Path, run: u64, resume: Option<Resume>) -> Result<Journal> {
    let page = page();
    let fail = |e: std::io::Error| Error::io(path, &e);
    match File::open(path) {
        Ok(file) => {
            let mut head = Vec::new();
            file.take(page.len() as u64).read_to_end(&mut head).map_err(fail)?;
            let head = String::from_utf8_lossy(&head);
            if !head.is_empty() && head.lines().nth(1) != Some(MARK) {
                return Err(Error::new(ErrorKind::InvalidOption, "the file exists and is no report")
                    .at(Place::File(path.into()))
                    .hint("name another file with --html"));
            }
            if resume.is_none() || head != page {
                std::fs::remove_file(path).map_err(fail)?;
            }
        }
        Err(e) if e.kind() == IoKind::NotFound => {}
        Err(e) => return Err(fail(e)),
    }
    let mut report = Journal::open(path, &page, run, Some(resume.unwrap_or(Resume::Same)))?;
    report.begin()?;
    Ok(report)
}

impl ReportLine<'_> {
    /// Returns the line. No tag of the page may begin within the data.
    pub(super) fn text(&self) -> Result<String> {
        Ok(super::task::json(self)?.replace('<', "\\u003c"))
    }
}

/// Returns the page before the data.
fn page() -> String {
    PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text_and_know_their_fields() {
        let text = "Zoë owes 12 EUR to Öz.";
        let zoe = 0..4;
        let owes = text.find("owes").unwrap()..text.find(" EUR").unwrap();
        let twelve = text.find("12").unwrap()..text.find(" EUR").unwrap();
        let found = pieces(text, &[(zoe, 0), (owes, 1), (twelve, 2)]);
        let want = [
            ("Zoë", vec![0]),
            (" ", vec![]),
            ("owes ", vec![1]),
            ("12", vec![1, 2]),
            (" EUR to Öz.", vec![]),
        ];
        assert_eq!(found, want.map(|(text, fields)| ShownPiece(text.into(), Some(fields))));
        assert_eq!(pieces("", &[]), []);
    }

    #[test]
    fn long_texts_are_shown_around_their_spans() {
        let text = "é".repeat(WHOLE_TEXT);
        let at = WHOLE_TEXT..WHOLE_TEXT + 2;
        let found = pieces(&text, &[(at, 3)]);
        let notes: Vec<bool> = found.iter().map(|piece| piece.1.is_none()).collect();
        assert_eq!(notes, [false, true, false, false, false, true]);
        assert_eq!(found[3], ShownPiece("é".into(), Some(vec![3])));
        let shown: usize = found.iter().filter(|p| p.1.is_some()).map(|p| p.0.len()).sum();
        assert_eq!(shown, AROUND + 2 * AROUND + 2);
    }
}
