//! Calls in a reply that is not in the style that was asked for: bare JSON, or JSON in a code fence.
//!
//! A model that is free to write text may write a call as it saw calls in training. Such a call was
//! not generated under the schema of its function, so its arguments may be anything.
//!
//! # Cost
//! One pass over the reply for each brace or bracket that begins a value, at most [`MAX_VALUES`].

use serde_json::{Deserializer, Value};

use super::reply::{Reply, ToolCall};

/// Maximum number of places in a reply at which a call is looked for.
const MAX_VALUES: usize = 1_000;
/// Texts around a call that go with it.
const FENCES: [(&str, &str); 6] = [
    ("```json", "```"),
    ("```tool_call", "```"),
    ("```", "```"),
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("[TOOL_CALLS]", ""),
];

/// Returns the calls of these functions in a reply, and the text around them; `None` if there are
/// none.
pub(super) fn read<'t>(names: impl Fn(&str) -> bool + 't, reply: &str) -> Option<Reply> {
    let mut out = Reply::default();
    let (mut from, mut at) = (0, 0);
    for _ in 0..MAX_VALUES {
        let Some(found) = reply[at..].find(['{', '[']) else { break };
        let start = at + found;
        let mut values = Deserializer::from_str(&reply[start..]).into_iter::<Value>();
        let value = values.next().and_then(std::result::Result::ok);
        let Some(calls) = value.as_ref().and_then(|value| calls(value, &names)) else {
            // A call inside of another object counts, one among other items of a list does not.
            at = if value.is_some_and(|value| value.is_array()) {
                start + values.byte_offset()
            } else {
                start + 1
            };
            continue;
        };
        let end = start + values.byte_offset();
        let (before, after) = around(&reply[from..start], &reply[end..]);
        out.text.push_str(before);
        out.calls.extend(calls);
        from = reply.len() - after.len();
        at = from;
    }
    out.text.push_str(&reply[from..]);
    out.text = out.text.trim().to_owned();
    (!out.calls.is_empty()).then_some(out)
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

/// Returns the calls that a value describes: one, or a list of them.
fn calls(value: &Value, names: &impl Fn(&str) -> bool) -> Option<Vec<ToolCall>> {
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(|value| call(value, names)).collect(),
        _ => Some(vec![call(value, names)?]),
    }
}

/// Returns the call that an object describes.
pub(super) fn call(value: &Value, names: &impl Fn(&str) -> bool) -> Option<ToolCall> {
    let own = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = own.get("name").and_then(Value::as_str).filter(|name| names(name))?;
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
        let reply = read(|name| ["add", "now"].contains(&name), reply)?;
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
    fn other_texts_are_no_calls() {
        for text in [
            "",
            "add(1)",
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
