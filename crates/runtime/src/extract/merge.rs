//! Merges the records of the parts of a text.
//!
//! # Cost
//!
//! Linear in the records. Each is parsed once.
//!
//! # Alternatives considered
//!
//! Comparing records as a whole, or values that are nearly the same, was rejected: two real records
//! would become one. Only the declared keys make records the same.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::chunks::Chunk;
use super::members::Members;
use crate::error::{Error, ErrorKind, Result};

/// A record of some parts of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRecord {
    /// The record as JSON.
    pub json: String,
    /// The parts that it comes from, in their order.
    pub chunks: Vec<Chunk>,
    /// The first record that it comes from, by number.
    pub record: usize,
    /// The number of the item, if that record is a list.
    pub item: Option<usize>,
}

/// Collects the records of the parts of a text, each as JSON, and merges those with the same keys.
///
/// The items of a list are records of their own. A key is the name of a property, or a JSON pointer
/// if it begins with `/`. Two records are the same if they have the same values at all keys, and not
/// null at all of them. Without keys, all records are kept.
///
/// Of records that are the same, the first one wins: it gets values where it has none or null, and
/// items of lists that it lacks. Numbers keep their digits.
///
/// ```
/// use ffwd::extract::{Chunk, merge_records};
///
/// # fn main() -> ffwd::Result<()> {
/// let part = |start, end| Chunk { bytes: start..end, chars: start..end };
/// let records = vec![
///     (r#"{"name":"Ann","age":null}"#.to_owned(), part(0, 90)),
///     (r#"{"name":"Ann","age":30}"#.to_owned(), part(80, 150)),
/// ];
/// let merged = merge_records(records, &["name".to_owned()])?;
/// assert_eq!(merged.len(), 1);
/// assert_eq!(merged[0].json, r#"{"name":"Ann","age":30}"#);
/// assert_eq!(merged[0].chunks.len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a record is not JSON.
pub fn merge_records(records: Vec<(String, Chunk)>, keys: &[String]) -> Result<Vec<MergedRecord>> {
    let mut merged: Vec<(Node, MergedRecord)> = Vec::new();
    let mut known: HashMap<Vec<Option<Node>>, usize> = HashMap::new();
    for (number, (json, chunk)) in records.into_iter().enumerate() {
        let record = Node::parse(&json)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("a record of a part: {e}")))?;
        let is_list = matches!(record, Node::List(_));
        let items = if let Node::List(items) = record { items } else { vec![record] };
        for (place, item) in items.into_iter().enumerate() {
            let values: Vec<Option<Node>> = keys.iter().map(|key| item.at(key).cloned()).collect();
            let same =
                values.iter().flatten().any(|value| !value.is_null()).then(|| known.get(&values)).flatten();
            match same {
                Some(first) => {
                    let (record, MergedRecord { chunks, .. }) = &mut merged[*first];
                    record.complete(item);
                    if chunks.last() != Some(&chunk) {
                        chunks.push(chunk.clone());
                    }
                }
                None => {
                    known.insert(values, merged.len());
                    let (chunks, item_of) = (vec![chunk.clone()], is_list.then_some(place));
                    merged.push((
                        item,
                        MergedRecord { json: String::new(), chunks, record: number, item: item_of },
                    ));
                }
            }
        }
    }
    Ok(merged.into_iter().map(|(record, merged)| MergedRecord { json: record.to_json(), ..merged }).collect())
}

/// A JSON value in which numbers and strings are as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Node {
    Object(Vec<(String, Node)>),
    List(Vec<Node>),
    Leaf(Box<str>),
}

impl Node {
    fn parse(json: &str) -> serde_json::Result<Node> {
        Ok(match json.trim_start().as_bytes().first() {
            Some(b'{') => {
                let members: Members = serde_json::from_str(json)?;
                let parse = |(name, value): (String, Box<RawValue>)| Ok((name, Node::parse(value.get())?));
                Node::Object(members.0.into_iter().map(parse).collect::<serde_json::Result<_>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(json)?;
                Node::List(items.into_iter().map(|item| Node::parse(item.get())).collect::<Result<_, _>>()?)
            }
            _ => Node::Leaf(serde_json::from_str::<&RawValue>(json)?.get().into()),
        })
    }

    fn is_null(&self) -> bool {
        matches!(self, Node::Leaf(text) if &**text == "null")
    }

    /// Returns the value at a property's name or a JSON pointer.
    fn at(&self, key: &str) -> Option<&Node> {
        let Some(pointer) = key.strip_prefix('/') else { return self.member(key) };
        pointer.split('/').try_fold(self, |node, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            match node {
                Node::List(items) => items.get(token.parse::<usize>().ok()?),
                node => node.member(&token),
            }
        })
    }

    fn member(&self, name: &str) -> Option<&Node> {
        let Node::Object(members) = self else { return None };
        members.iter().find(|member| member.0 == name).map(|member| &member.1)
    }

    /// Adds what is missing from another value.
    fn complete(&mut self, other: Node) {
        match (self, other) {
            (node, other) if node.is_null() => *node = other,
            (Node::Object(members), Node::Object(others)) => {
                for (name, value) in others {
                    match members.iter_mut().find(|member| member.0 == name) {
                        Some(member) => member.1.complete(value),
                        None => members.push((name, value)),
                    }
                }
            }
            (Node::List(items), Node::List(others)) => {
                for item in others {
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn to_json(&self) -> String {
        match self {
            Node::Leaf(text) => text.to_string(),
            Node::List(items) => {
                format!("[{}]", items.iter().map(Node::to_json).collect::<Vec<_>>().join(","))
            }
            Node::Object(members) => {
                let one = |(name, value): &(String, Node)| {
                    format!("{}:{}", serde_json::Value::from(name.as_str()), value.to_json())
                };
                format!("{{{}}}", members.iter().map(one).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ffwd_testkit::random::Random;
    use serde_json::{Value, json};

    use super::*;

    fn part(i: usize) -> Chunk {
        Chunk { bytes: i..i + 1, chars: i..i + 1 }
    }

    fn merged(records: &[Value], keys: &[&str]) -> Vec<(Value, Vec<usize>)> {
        let records = records.iter().enumerate().map(|(i, record)| (record.to_string(), part(i))).collect();
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let value = |record: &MergedRecord| serde_json::from_str(&record.json).unwrap();
        let parts = |record: &MergedRecord| record.chunks.iter().map(|chunk| chunk.bytes.start).collect();
        merge_records(records, &keys).unwrap().iter().map(|record| (value(record), parts(record))).collect()
    }

    #[test]
    fn records_with_the_same_keys_are_one() {
        let records = [
            json!({"name": "Ann", "mail": null, "tags": ["a"], "at": {"city": null}}),
            json!({"name": "Bob", "mail": "b@x", "tags": []}),
            json!({"name": "Ann", "mail": "a@x", "tags": ["b", "a"], "at": {"city": "Rom", "zip": 7}, "new": 1}),
            json!({"name": null, "mail": "c@x"}),
            json!({"name": null, "mail": "d@x"}),
            json!({"name": "Ann", "mail": "other@x"}),
        ];
        let ann = json!({"name": "Ann", "mail": "a@x", "tags": ["a", "b"], "at": {"city": "Rom", "zip": 7}, "new": 1});
        let want = vec![
            (ann, vec![0, 2, 5]),
            (records[1].clone(), vec![1]),
            (records[3].clone(), vec![3]),
            (records[4].clone(), vec![4]),
        ];
        assert_eq!(merged(&records, &["name"]), want);
        assert_eq!(merged(&records, &["name", "mail"]).len(), 6);
        assert_eq!(merged(&records, &["/at/city"]).len(), 6, "two have no city");
        assert_eq!(merged(&records, &[]).len(), 6);
        let lists = [json!([{"n": 1}, {"n": 2}]), json!([]), json!([{"n": 2, "m": 3}, 5, 5])];
        let items = merged(&lists, &["n"]);
        let want = [
            (json!({"n": 1}), vec![0]),
            (json!({"n": 2, "m": 3}), vec![0, 2]),
            (json!(5), vec![2]),
            (json!(5), vec![2]),
        ];
        assert_eq!(items, want);
        assert_eq!(
            merged(&[json!({"a": {"b/c": [1]}}), json!({"a": {"b/c": [1]}})], &["/a/b~1c/0"]).len(),
            1
        );
    }

    #[test]
    fn numbers_keep_their_digits() {
        let record = r#"{ "n" : 12345678901234567890.10, "s": "\u00e9" }"#.to_owned();
        let merged = merge_records(vec![(record, part(0))], &[]).unwrap();
        assert_eq!((merged[0].record, merged[0].item), (0, None));
        assert_eq!(merged[0].json, r#"{"n":12345678901234567890.10,"s":"\u00e9"}"#);
        assert!(merge_records(vec![("{".to_owned(), part(0))], &[]).is_err());
        let lists = vec![("[]".to_owned(), part(0)), ("[1, 2]".to_owned(), part(1))];
        let merged = merge_records(lists, &[]).unwrap();
        assert_eq!((merged[1].record, merged[1].item), (1, Some(1)));
    }

    /// Each record has all of its values in the result, and results differ in their keys.
    #[test]
    fn random_records_lose_nothing() {
        let mut random = Random::new(4);
        for _ in 0..500 {
            let records: Vec<Value> = (0..random.below(12))
                .map(|_| json!({"k": random.below(4), "l": [random.below(5)], "v": (random.chance(50)).then_some(1)}))
                .collect();
            let got = merged(&records, &["k"]);
            let keys: std::collections::HashSet<i64> =
                got.iter().map(|(record, _)| record["k"].as_i64().unwrap()).collect();
            assert_eq!(keys.len(), got.len());
            let parts: usize = got.iter().map(|(_, parts)| parts.len()).sum();
            assert_eq!(parts, records.len());
            for (record, parts) in &got {
                let same: Vec<&Value> = parts.iter().map(|i| &records[*i]).collect();
                assert!(same.iter().all(|one| one["k"] == record["k"]));
                let lists: Vec<&Value> = same.iter().map(|one| &one["l"][0]).collect();
                assert!(lists.iter().all(|item| record["l"].as_array().unwrap().contains(item)));
                assert_eq!(record["v"].is_null(), same.iter().all(|one| one["v"].is_null()));
            }
        }
    }
}
