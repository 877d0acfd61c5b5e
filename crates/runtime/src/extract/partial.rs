//! A record while it is generated.
//!
//! # Cost
//!
//! Each event walks its JSON pointer.
//!
//! # Alternatives considered
//!
//! A partial value of the record's type was rejected: most of its properties would have to be
//! optional, so it would be another type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::decode::{Field, FieldState};

/// The part of a record that is generated, from the fields of
/// [`Event::Field`](crate::decode::Event::Field) and [`HandleEvent::Field`](crate::decode::HandleEvent::Field).
///
/// ```
/// use ffwd::decode::JsonStream;
/// use ffwd::extract::PartialRecord;
/// use serde_json::json;
///
/// let (mut stream, mut partial) = (JsonStream::new(), PartialRecord::default());
/// for field in stream.feed(br#"{"name": "Zoe", "tags": ["a", "b"#) {
///     partial.update(&field);
/// }
/// assert_eq!(partial.value(), &json!({"name": "Zoe", "tags": ["a", "b"]}));
/// assert!(partial.is_done("/name") && partial.is_done("/tags/0") && !partial.is_done("/tags/1"));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartialRecord {
    value: Value,
    done: BTreeSet<String>,
}

impl PartialRecord {
    /// Takes an event: a value has begun, grown or ended.
    pub fn update(&mut self, field: &Field) {
        let value = match field.state {
            FieldState::Done => {
                self.done.insert(field.pointer.clone());
                field.value.clone()
            }
            _ => field.value.clone(),
        };
        if let Some(slot) = self.slot(field) {
            *slot = value;
        }
    }

    /// Returns the record so far. Strings may be unfinished. A property whose value has not begun is
    /// null, as is an object or array without content.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns true if the value at a JSON pointer is complete.
    pub fn is_done(&self, pointer: &str) -> bool {
        self.done.contains(pointer)
    }

    /// Returns the JSON pointers of the complete values, sorted.
    pub fn done(&self) -> impl Iterator<Item = &str> {
        self.done.iter().map(String::as_str)
    }

    /// Returns the position of a field in the record. Its parents are made if they are missing;
    /// their own events replace them.
    fn slot(&mut self, field: &Field) -> Option<&mut Value> {
        let mut at = &mut self.value;
        let mut steps = field.pointer.split('/').skip(1).peekable();
        while let Some(step) = steps.next() {
            let index = if steps.peek().is_none() { field.index } else { step.parse().ok() };
            if at.is_null() {
                *at = match index.is_some() && steps.peek().is_none() {
                    true => Value::Array(Vec::new()),
                    false => Value::Object(Map::new()),
                };
            }
            at = match at {
                Value::Object(members) => {
                    members.entry(step.replace("~1", "/").replace("~0", "~")).or_insert(Value::Null)
                }
                Value::Array(items) => {
                    let index = index?;
                    if index == items.len() {
                        items.push(Value::Null);
                    }
                    items.get_mut(index)?
                }
                _ => return None,
            };
        }
        Some(at)
    }
}
