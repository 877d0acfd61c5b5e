//! Writing of JSON with the whitespace of a policy, for examples in prompts.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use crate::constraint::Whitespace;

/// Returns a value as the model is meant to write it.
pub(super) fn to_text(value: &Value, whitespace: Whitespace) -> String {
    match whitespace {
        Whitespace::Compact => value.to_string(),
        _ => written(value, SingleSpace),
    }
}

/// Returns a value on lines of their own, indented by four blanks.
pub(super) fn indented(value: &Value) -> String {
    written(value, PrettyFormatter::with_indent(b"    "))
}

fn written(value: &Value, formatter: impl Formatter) -> String {
    let mut bytes = Vec::new();
    // Neither writing to memory nor a `Value` can fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter));
    String::from_utf8(bytes).unwrap_or_default()
}

/// One space after each comma and each colon.
struct SingleSpace;

impl Formatter for SingleSpace {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        CompactFormatter.begin_object_value(writer)?;
        writer.write_all(b" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_styles() {
        let value = serde_json::json!({"a": [1, {"b": null}], "c: d, e": "x"});
        assert_eq!(to_text(&value, Whitespace::Compact), r#"{"a":[1,{"b":null}],"c: d, e":"x"}"#);
        assert_eq!(to_text(&value, Whitespace::SingleSpace), r#"{"a": [1, {"b": null}], "c: d, e": "x"}"#);
    }
}
