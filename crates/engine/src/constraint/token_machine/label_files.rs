//! Reads labels from files: lines, a JSON array, or a JSON tree. One pass over the text.

use serde_json::Value;

use super::labels::invalid;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::text::without_mark;

/// Reads a list of labels: JSON or lines.
pub(super) fn list(text: &str) -> Result<Vec<String>> {
    let text = without_mark(text).trim();
    if is_tree(text) {
        return Err(invalid("the labels are a JSON object, which is a tree of paths".into())
            .hint("read it with a separator for the paths (`Labels::from_tree`, --labels-path)"));
    }
    if !(text.starts_with('[') && text.ends_with(']')) {
        return Ok(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect());
    }
    let Value::Array(items) = json(text)? else { return Ok(Vec::new()) };
    let label = |(at, item)| match item {
        Value::String(label) => Ok(label),
        other => {
            Err(invalid(format!("a label is a string, not {other}")).at(Place::Pointer(format!("/{at}"))))
        }
    };
    items.into_iter().enumerate().map(label).collect()
}

/// Returns true if a text is a JSON tree of labels.
pub(super) fn is_tree(text: &str) -> bool {
    let text = without_mark(text).trim();
    text.starts_with('{') && text.ends_with('}')
}

/// Returns the paths to the leaves of a JSON tree, in its order.
pub(super) fn tree(text: &str, separator: &str) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    // The values still to be visited, with the paths to them; the next one is last.
    let mut todo = vec![(String::new(), json(without_mark(text))?)];
    while let Some((path, value)) = todo.pop() {
        let below =
            |name: &str| if path.is_empty() { name.into() } else { format!("{path}{separator}{name}") };
        match value {
            Value::Object(members) if !members.is_empty() => {
                todo.extend(members.into_iter().rev().map(|(name, value)| (below(&name), value)));
            }
            Value::Array(items) if !items.is_empty() => {
                todo.extend(items.into_iter().rev().map(|item| (path.clone(), item)));
            }
            Value::String(name) => paths.push(below(&name)),
            Value::Null | Value::Object(_) | Value::Array(_) if !path.is_empty() => paths.push(path),
            other => {
                let message = format!("below {path:?} there is {other}");
                return Err(invalid(message).hint("a tree is made of objects, arrays, strings and null"));
            }
        }
    }
    Ok(paths)
}

/// Parses a JSON text; the parser bounds its depth.
fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| {
        Error::new(ErrorKind::InvalidJson, format!("the labels are not JSON: {e}"))
            .at(Place::LineColumn(e.line(), e.column()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_arrays_are_the_same_list() {
        let lines = list("\u{feff}Sport\r\n\n  Science fiction \n[urgent] mail\n").unwrap();
        assert_eq!(lines, ["Sport", "Science fiction", "[urgent] mail"]);
        assert_eq!(list(r#" ["a", "b c"] "#).unwrap(), ["a", "b c"]);
        assert_eq!(list(r#"["a", 1]"#).unwrap_err().pointer(), Some("/1"));
        assert_eq!(list("[\"a\",]").unwrap_err().kind(), ErrorKind::InvalidJson);
        assert!(list(r#"{"a": null}"#).unwrap_err().to_string().contains("tree"));
    }

    #[test]
    fn trees_are_walked_in_order() {
        let text = r#"{"Technology": {"AI": ["NLP", {"Vision": ["OCR"]}], "Law": null}, "Sport": []}"#;
        let paths = tree(&format!("\u{feff}{text}"), " > ").unwrap();
        assert_eq!(
            paths,
            ["Technology > AI > NLP", "Technology > AI > Vision > OCR", "Technology > Law", "Sport"]
        );
        assert!(tree("{\"a\": 1}", "/").unwrap_err().to_string().contains("\"a\""));
        assert!(tree("{}", "/").is_err() && tree("null", "/").is_err());
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(tree(&deep, "/").unwrap_err().kind(), ErrorKind::InvalidJson);
    }
}
