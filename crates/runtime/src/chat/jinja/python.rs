//! Values as Python prints them.

use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

/// Returns `str(value)`.
pub(super) fn to_text(value: &Value) -> String {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            let mut out = String::new();
            write_repr(value, &mut out);
            out
        }
        _ => value.to_string(),
    }
}

/// Writes `repr(value)`.
fn write_repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::Seq => {
            let is_tuple = value.downcast_object_ref::<Tuple>().is_some();
            let (open, close) = if is_tuple { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                out.push_str(if count == 0 { "" } else { ", " });
                write_repr(&item, out);
                count += 1;
            }
            out.push_str(if is_tuple && count == 1 { "," } else { "" });
            out.push(close);
        }
        ValueKind::Map => write_map(value, out),
        _ => out.push_str(&value.to_string()),
    }
}

fn write_map(value: &Value, out: &mut String) {
    let Some(pairs) = value.as_object().and_then(|object| object.try_iter_pairs()) else {
        return out.push_str(&value.to_string());
    };
    out.push('{');
    for (at, (key, item)) in pairs.enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        write_repr(&key, out);
        out.push_str(": ");
        write_repr(&item, out);
    }
    out.push('}');
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match u32::from(c) {
                n @ ..0x100 => format!("\\x{n:02x}"),
                n @ ..0x10000 => format!("\\u{n:04x}"),
                n => format!("\\U{n:08x}"),
            }),
        }
    }
    out.push(quote);
}

/// Returns true if Python prints a character as it is. Private characters are: one of them marks
/// text from outside, and is removed from the output.
pub(super) fn is_printable(c: char) -> bool {
    if c == ' ' || ('\u{e000}'..'\u{f900}').contains(&c) {
        return true;
    }
    // Behind a letter, a combining character is printed.
    let mut buffer = [0; 8];
    let text = ['a', c].iter().fold(0, |at, c| at + c.encode_utf8(&mut buffer[at..]).len());
    let text = std::str::from_utf8(&buffer[..text]).unwrap_or_default();
    matches!(c, '\'' | '"' | '\\') || (!c.is_whitespace() && text.escape_debug().count() == 2)
}

/// Returns a number as Python writes it: the shortest text, with an exponent from 1e16 and below
/// 1e-4.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan".into()
        } else if number < 0.0 {
            "-inf".into()
        } else {
            "inf".into()
        };
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => format!("{number:?}"),
        exponent => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_exponents_of_python() {
        for (number, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn the_mark_of_outside_text_is_not_escaped() {
        assert_eq!(to_text(&Value::from(vec!["\u{e000}<\u{200b}é\u{301}"])), "['\u{e000}<\\u200bé\u{301}']");
    }
}
