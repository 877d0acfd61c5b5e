//! Notes of a prompt about the kinds of values that a schema has.
//!
//! Models that see a schema often copy `14 March 2024` into a date. A note says how a value is
//! written, and is left out where the schema has no such value.
//!
//! # Cost
//! One walk over the schema.

use serde_json::Value;

/// Kinds of values with a note, by the member of a schema that shows them.
const NOTES: [(&str, &[&str], &str); 8] = [
    ("format", &["date"], "Write dates as YYYY-MM-DD: \"3 February 2021\" becomes \"2021-02-03\"."),
    (
        "format",
        &["time"],
        "Write times of day as HH:MM:SSZ: \"half past two in the afternoon\" becomes \"14:30:00Z\".",
    ),
    (
        "format",
        &["date-time"],
        "Write points in time as YYYY-MM-DDTHH:MM:SSZ: \"3 February 2021 at 2.30 pm\" becomes \"2021-02-03T14:30:00Z\".",
    ),
    ("format", &["duration"], "Write durations in ISO 8601: \"90 minutes\" becomes \"PT90M\"."),
    (
        "type",
        &["number", "integer"],
        "Write numbers in digits, without units, currency signs or thousands separators: \"2,500 euros\" becomes 2500, \"three\" becomes 3.",
    ),
    ("type", &["boolean"], "Answer yes-or-no properties with true or false."),
    ("type", &["null"], "Write null if the text does not give a value."),
    ("type", &["array"], "List every item that the text names, each as a separate element."),
];

/// Returns the notes for a schema, each on a line that begins with a dash.
pub(super) fn notes(schema: &Value) -> String {
    let mut found = [false; NOTES.len()];
    let mut todo = vec![schema];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(list) => todo.extend(list),
            Value::Object(members) => {
                for (found, (name, values, _)) in found.iter_mut().zip(&NOTES) {
                    *found |= members.get(*name).is_some_and(|value| names_one(value, values));
                }
                todo.extend(members.values());
            }
            _ => {}
        }
    }
    let notes = NOTES.iter().zip(found).filter(|(_, found)| *found);
    notes.map(|((_, _, note), _)| format!("- {note}")).collect::<Vec<_>>().join("\n")
}

/// Returns true if a text, or one of a list of texts, is among `values`.
fn names_one(value: &Value, values: &[&str]) -> bool {
    match value {
        Value::String(text) => values.contains(&text.as_str()),
        Value::Array(list) => list.iter().filter_map(Value::as_str).any(|text| values.contains(&text)),
        _ => false,
    }
}
