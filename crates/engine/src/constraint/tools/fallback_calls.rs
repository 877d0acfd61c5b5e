//! Calls in a reply that is not in the style that was asked for: bare JSON, JSON in a code fence, or
//! calls in Python.
//!
//! A model that is free to write text may write a call as it saw calls in training. Such a call was
//! not generated under the schema of its function, so whoever reads it checks its arguments.
//!
//! # Cost
//! One pass over the reply for each brace, bracket or line that begins a value, at most
//! [`MAX_VALUES`].

use serde_json::{Deserializer, Value};

use super::python_literal;
use super::reply::{Reply, ToolCall};

/// Maximum number of places in a reply at which a call is looked for.
const MAX_VALUES: usize = 1_000;
/// Texts around a call that go with it.
const FENCES: [(&str, &str); 12] = [
    ("```json", "```"),
    ("```tool_call", "```"),
    ("```tool_code", "```"),
    ("```python", "```"),
    ("```", "```"),
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("<|tool_call|>", ""),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<|python_tag|>", ""),
    ("[TOOL_CALLS]", ""),
];

/// Returns true if a reply that begins like this may be a call of one of these functions, or may
/// become one.
pub(super) fn may_begin<'t>(mut names: impl Iterator<Item = &'t str>, text: &str) -> bool {
    let begins = |mark: &str| text.starts_with(mark) || mark.starts_with(text);
    text.starts_with(['{', '['])
        || FENCES.iter().any(|fence| begins(fence.0))
        || names.any(|name| match text.strip_prefix(name) {
            Some(rest) => rest.is_empty() || rest.starts_with('('),
            None => name.starts_with(text),
        })
}

/// Returns the calls that fit in a reply, and the text around them; `None` if there are none.
pub(super) fn read(fits: &impl Fn(&ToolCall) -> bool, reply: &str) -> Option<Reply> {
    read_by(json_at, fits, reply).or_else(|| read_by(python_at, fits, reply))
}

/// Returns the calls in the value that begins a text, and its length; without calls, the number of
/// bytes to skip.
type ReadValue = fn(&str, &dyn Fn(&ToolCall) -> bool) -> (Option<Vec<ToolCall>>, usize);

fn read_by(value_at: ReadValue, fits: &impl Fn(&ToolCall) -> bool, reply: &str) -> Option<Reply> {
    let mut out = Reply::default();
    let (mut from, mut at) = (0, 0);
    for _ in 0..MAX_VALUES {
        let rest = &reply[at..];
        let (found, length) = value_at(rest, fits);
        if let Some(calls) = found {
            let (before, after) = around(&reply[from..at], &rest[length..]);
            out.text.push_str(before);
            out.calls.extend(calls);
            from = reply.len() - after.len();
            at = from;
        } else if length < rest.len() {
            at += length;
        } else {
            break;
        }
    }
    out.text.push_str(&reply[from..]);
    out.text = out.text.trim().to_owned();
    (!out.calls.is_empty()).then_some(out)
}

fn json_at(text: &str, fits: &dyn Fn(&ToolCall) -> bool) -> (Option<Vec<ToolCall>>, usize) {
    let next = |from: usize| from + text[from..].find(['{', '[']).unwrap_or(text.len() - from);
    if !text.starts_with(['{', '[']) {
        return (None, next(0));
    }
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().and_then(std::result::Result::ok);
    let calls = value.as_ref().and_then(|value| calls(value, fits));
    // A call inside of another object counts, one among other items of a list does not.
    let whole = calls.is_some() || value.is_some_and(|value| value.is_array());
    (calls, if whole { values.byte_offset() } else { next(1) })
}

/// Reads calls in Python that take whole lines: `f(a=1)`, or a list of them.
fn python_at(text: &str, fits: &dyn Fn(&ToolCall) -> bool) -> (Option<Vec<ToolCall>>, usize) {
    let line = text.find('\n').map_or(text.len(), |end| end + 1);
    let Some((calls, rest)) = python_literal::calls(text) else { return (None, line) };
    let call = |(name, arguments): (&str, String)| ToolCall { name: name.to_owned(), arguments };
    let calls: Vec<ToolCall> = calls.into_iter().map(call).collect();
    let alone = rest.trim_start_matches([' ', ';']);
    let ends = alone.is_empty() || alone.starts_with(['\n', '\r', '`', '<']);
    match ends && calls.iter().all(fits) {
        true => (Some(calls), text.len() - alone.len()),
        false => (None, line),
    }
}

/// Removes a fence around a call from the texts before and after it.
fn around<'a>(before: &'a str, after: &'a str) -> (&'a str, &'a str) {
    let (trimmed, rest) = (before.trim_end(), after.trim_start());
    for (begin, end) in FENCES {
        if let (Some(before), Some(after)) = (trimmed.strip_suffix(begin), rest.strip_prefix(end)) {
            return (before, after);
        }
    }
    (before, after)
}

/// Returns the calls that a value describes, if all fit: one, or a list of them.
fn calls(value: &Value, fits: &dyn Fn(&ToolCall) -> bool) -> Option<Vec<ToolCall>> {
    let fitting = |value: &Value| call(value).filter(fits);
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(fitting).collect(),
        _ => Some(vec![fitting(value)?]),
    }
}

/// Returns the call that an object describes.
pub(super) fn call(value: &Value) -> Option<ToolCall> {
    let own = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = own.get("name").and_then(Value::as_str)?;
    let arguments = ["arguments", "parameters", "input"].iter().find_map(|word| own.get(*word))?;
    let arguments = match arguments {
        Value::Object(_) => arguments.clone(),
        // Some services write the arguments as a text that holds JSON.
        Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_object)?,
        _ => return None,
    };
    Some(ToolCall { name: name.to_owned(), arguments: arguments.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(reply: &str) -> Option<(String, Vec<(String, String)>)> {
        let reply = read(&|call: &ToolCall| ["add", "now"].contains(&&*call.name), reply)?;
        Some((reply.text, reply.calls.into_iter().map(|call| (call.name, call.arguments)).collect()))
    }

    fn one(text: &str) -> Option<(String, Vec<(String, String)>)> {
        Some((text.into(), vec![("add".into(), r#"{"a":1}"#.into())]))
    }

    #[test]
    fn calls_in_other_spellings_are_found() {
        let call = r#"{"name": "add", "arguments": {"a": 1}}"#;
        assert_eq!(read_all(call), one(""));
        assert_eq!(read_all(&format!("Sure.\n```json\n{call}\n```\n")), one("Sure."));
        assert_eq!(read_all(&format!("```\n[{call}]\n```")), one(""));
        assert_eq!(read_all(&format!("<tool_call>{call}</tool_call> Done.")), one("Done."));
        assert_eq!(read_all(r#"{"name": "add", "parameters": {"a": 1}}"#), one(""));
        assert_eq!(
            read_all(r#"{"type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}"#),
            one("")
        );
        let two = read_all(&format!("{call}\n{}", r#"{"name": "now", "input": {}}"#)).unwrap();
        assert_eq!(two.1[1], ("now".into(), "{}".into()));
        // Other JSON around it stays text.
        assert_eq!(read_all(&format!("{{}} [1] {{\"x\": {call}")), one("{} [1] {\"x\":"));
    }

    #[test]
    fn calls_in_python_are_found() {
        for text in ["add(a=1)", "[add(a=1)]", " add ( a = 1, )\n", "```python\nadd(a=1)\n```"] {
            assert_eq!(read_all(text), one(""), "{text}");
        }
        assert_eq!(read_all("Sure.\n```tool_code\n[add(a=1)]\n```"), one("Sure."));
        let two = read_all("[add(a=1), now()]\nand so on").unwrap();
        assert_eq!((two.0.as_str(), two.1.len(), &*two.1[1].1), ("and so on", 2, "{}"));
        let (_, nested) = read_all("add(a={'x': [True, None]}, b=\"y\")").unwrap();
        assert_eq!(nested[0].1, r#"{"a":{"x":[true,null]},"b":"y"}"#);
    }

    #[test]
    fn beginnings_of_calls_are_known() {
        let may = |text: &str| may_begin(["add", "now"].into_iter(), text);
        for text in
            ["{", "[add", "`", "```js", "<tool", "<tool_call>{", "ad", "add", "add(a", "[TOOL_CALLS]x"]
        {
            assert!(may(text), "{text}");
        }
        for text in ["a sum", "`x`", "<b>", "added", "now is", "now (", "The"] {
            assert!(!may(text), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_calls() {
        for text in [
            "",
            "add(1)",
            "add(a=1) or so",
            "add(a=x)",
            "[add(a=1), 2]",
            "sub(a=1)",
            "{",
            r#"{"name": "sub", "arguments": {"a": 1}}"#,
            r#"{"name": "add"}"#,
            r#"{"name": "add", "arguments": [1]}"#,
            r#"{"name": "add", "arguments": "no JSON"}"#,
            r#"[{"name": "add", "arguments": {}}, 2]"#,
        ] {
            assert_eq!(read_all(text), None, "{text}");
        }
        assert_eq!(read_all(&"[".repeat(100_000)), None);
    }
}
