//! The filter `tojson`: JSON as Python's `json.dumps` writes it. Unlike Jinja's own filter, it does
//! not escape letters and markup.

use std::io::{Result as Written, Write};

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, Value};
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

use super::arguments::Arguments;
use super::{fault, python};

/// Maximum indentation.
const MAX_INDENT: usize = 16;

/// Writes a value; the parameters are those of the hub's libraries.
pub(super) fn tojson(value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let args = Arguments::new(&["ensure_ascii", "indent", "separators", "sort_keys"], &rest, &named)?;
    let indent = args.value(1).map(indentation).transpose()?;
    let (item, member) = match args.value(2) {
        Some(separators) => match &separators.try_iter()?.collect::<Vec<Value>>()[..] {
            [item, member] => (text(item)?, text(member)?),
            _ => return Err(fault("tojson takes two separators")),
        },
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let mut out = Vec::new();
    let python = Python { item, member, indent, ascii: args.flag(0), depth: 0, empty: true };
    let mut serializer = Serializer::with_formatter(&mut out, python);
    let written = match args.flag(3) {
        false => value.serialize(&mut serializer),
        true => serde_json::to_value(value).and_then(|mut value| {
            value.sort_all_objects();
            value.serialize(&mut serializer)
        }),
    };
    written.map_err(|e| fault(format!("tojson: {e}")))?;
    String::from_utf8(out).map_err(|e| fault(e.to_string()))
}

fn text(value: &Value) -> Result<String, Error> {
    value.as_str().map(str::to_owned).ok_or_else(|| fault("a separator of tojson is not a string"))
}

/// Returns the text of one level.
fn indentation(value: &Value) -> Result<String, Error> {
    let text = match value.kind() {
        ValueKind::String => value.as_str().map(str::to_owned),
        _ => value.as_usize().filter(|n| *n <= MAX_INDENT).map(|n| " ".repeat(n)),
    };
    text.filter(|text| text.len() <= MAX_INDENT)
        .ok_or_else(|| fault(format!("the indent of tojson is a number up to {MAX_INDENT}, or a short text")))
}

/// A formatter with the spaces, line breaks, numbers and escapes of Python's encoder.
struct Python {
    item: String,
    member: String,
    indent: Option<String>,
    ascii: bool,
    depth: usize,
    /// True if the innermost list or object is still empty.
    empty: bool,
}

impl Python {
    fn line<W: ?Sized + Write>(&self, out: &mut W) -> Written<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(indent.as_bytes()))
    }

    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> Written<()> {
        self.depth += 1;
        self.empty = true;
        out.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> Written<()> {
        self.depth -= 1;
        if !self.empty {
            self.line(out)?;
        }
        self.empty = false;
        out.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Written<()> {
        if !first {
            out.write_all(self.item.as_bytes())?;
        }
        self.empty = false;
        self.line(out)
    }
}

impl Formatter for Python {
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> Written<()> {
        out.write_all(python::float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> Written<()> {
        if !self.ascii {
            return out.write_all(text.as_bytes());
        }
        for c in text.chars() {
            // A private character marks text from outside, and is removed from the output.
            if (c.is_ascii() && c != '\x7f') || ('\u{e000}'..'\u{f900}').contains(&c) {
                write!(out, "{c}")?;
                continue;
            }
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> Written<()> {
        serde_json::ser::CompactFormatter.write_char_escape(out, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Written<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Written<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Written<()> {
        self.next(out, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Written<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Written<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Written<()> {
        self.next(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Written<()> {
        out.write_all(self.member.as_bytes())
    }
}
