//! Members of a line that ground the values of a record: `confidence`, `spans`, and what was left out because
//! it is not certain.
//!
//! # Cost
//!
//! Confidence costs the log-probabilities of all tokens, alternatives some forwards. Spans cost a
//! search of the text for each value. Each value that may be left out costs a check of the record.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::decode::{
    AlternativeOptions, Engine, Output, Request, ValueAlternatives, ValueConfidence, leaf_values,
};
use crate::error::{Error, ErrorKind, Result};
use crate::extract::{Chunk, ValueSpans, spans_of};

/// What a line says about the values of its record.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroundingOptions {
    /// How probable each value is.
    pub confidence: bool,
    /// With confidence, the probabilities of all values that the schema allows; costs forwards.
    pub alternatives: bool,
    /// Where in the text each value is.
    pub spans: bool,
    /// Values that are less probable than this become null where the schema allows it.
    pub abstain: Option<f64>,
}

/// Members of a line about the values of its record, by JSON pointers.
#[derive(Debug, Default, Serialize)]
pub struct Grounding {
    /// How probable each value is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Map<String, Value>>,
    /// Where in the text each value is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spans: Option<Map<String, Value>>,
    /// The values that became null, each with its probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abstained: Option<Map<String, Value>>,
    /// The values of enumerations whose words are not in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<Map<String, Value>>,
}

impl GroundingOptions {
    /// Returns true if requests must give the confidence of values.
    pub(super) fn needs_confidence(&self) -> bool {
        self.confidence || self.abstain.is_some()
    }

    /// Replaces values by null that are not probable enough, the least probable first, where `fits` accepts
    /// the record; returns the record, and these values.
    pub(super) fn abstain(
        &self,
        record: &str,
        confidence: &[ValueConfidence],
        fits: impl Fn(&str) -> bool,
    ) -> (String, Option<Map<String, Value>>) {
        let mut record = record.to_owned();
        let Some(least) = self.abstain else { return (record, None) };
        let mut values: Vec<&ValueConfidence> =
            confidence.iter().filter(|value| value.probability < least).collect();
        values.sort_by(|a, b| a.probability.total_cmp(&b.probability));
        let mut left = Map::new();
        for ValueConfidence { pointer, probability, .. } in values {
            let leaves = leaf_values(record.as_bytes());
            let Some(leaf) = leaves.into_iter().find(|leaf| leaf.pointer == *pointer) else { continue };
            let written = &record[leaf.bytes.clone()];
            let value: Value = serde_json::from_str(written).unwrap_or_default();
            let mut without = record.clone();
            without.replace_range(leaf.bytes, "null");
            if !value.is_null() && fits(&without) {
                left.insert(pointer.clone(), json!({"value": value, "probability": probability}));
                record = without;
            }
        }
        (record, Some(left))
    }

    /// Returns the members for the output about a text. `request` makes its request once more.
    pub(super) fn members(
        &self,
        engine: &Engine,
        output: &Output,
        text: &str,
        request: impl FnOnce() -> Result<Request>,
    ) -> Result<Grounding> {
        let mut grounding = Grounding::default();
        if self.confidence {
            let alternatives = match self.alternatives {
                true => engine.alternatives(&request()?, output, &AlternativeOptions::default())?,
                false => Vec::new(),
            };
            grounding.confidence = Some(confidence(output, &alternatives)?);
        }
        if self.spans {
            let record = output.answer.as_deref().unwrap_or_default();
            let spans = spans_of(record, &output.source_spans, text);
            grounding.spans =
                Some(spans.iter().map(|value| (value.pointer.clone(), spans_json(value))).collect());
        }
        Ok(grounding)
    }
}

impl Grounding {
    fn all(&mut self) -> [&mut Option<Map<String, Value>>; 4] {
        [&mut self.confidence, &mut self.spans, &mut self.abstained, &mut self.unsupported]
    }

    /// Returns the members for a part of a record of a part of a text: of the values below the pointer
    /// `prefix`. Offsets count from the start of the text.
    pub(super) fn in_text(&self, prefix: &str, part: &Chunk) -> Grounding {
        let of_item = |members: &Map<String, Value>| -> Map<String, Value> {
            let own = members.iter().filter_map(|(pointer, value)| {
                let rest = pointer.strip_prefix(prefix)?;
                (rest.is_empty() || rest.starts_with('/')).then(|| (rest.to_owned(), value.clone()))
            });
            own.collect()
        };
        let mut spans = self.spans.as_ref().map(of_item);
        spans.iter_mut().flat_map(Map::values_mut).for_each(|span| shift(span, part));
        let [confidence, abstained, unsupported] = [&self.confidence, &self.abstained, &self.unsupported]
            .map(|members| members.as_ref().map(of_item));
        Grounding { confidence, spans, abstained, unsupported }
    }

    /// Adds members of which there are none, below a pointer.
    pub(super) fn add(&mut self, prefix: &str, more: Grounding) {
        let more = [more.confidence, more.spans, more.abstained, more.unsupported];
        for (all, more) in self.all().into_iter().zip(more) {
            let Some(more) = more else { continue };
            let all = all.get_or_insert_default();
            for (pointer, value) in more {
                all.entry(format!("{prefix}{pointer}")).or_insert(value);
            }
        }
    }

    /// Removes the members below a pointer.
    pub(super) fn remove(&mut self, prefix: &str) {
        let all = self.all().into_iter().flatten();
        all.for_each(|members| members.retain(|pointer, _| !pointer.starts_with(prefix)));
    }

    /// Removes values that are not the same in two records, given as JSON.
    pub(super) fn keep_same(&mut self, first: &Value, merged: &Value) {
        for members in self.all().into_iter().flatten() {
            members.retain(|pointer, _| first.pointer(pointer) == merged.pointer(pointer));
        }
    }
}

/// Adds the start of a part to the offsets in it.
fn shift(span: &mut Value, part: &Chunk) {
    if let Some(list) = span.get_mut("occurrences").and_then(Value::as_array_mut) {
        return list.iter_mut().for_each(|span| shift(span, part));
    }
    for (kind, start) in [("bytes", part.bytes.start), ("chars", part.chars.start)] {
        for offset in span.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            *offset = json!(offset.as_u64().unwrap_or_default() + start as u64);
        }
    }
}

fn confidence(output: &Output, alternatives: &[ValueAlternatives]) -> Result<Map<String, Value>> {
    let mut members = Map::new();
    for value in &output.confidence {
        let mut member = to_json(value)?;
        if let Some(found) = alternatives.iter().find(|found| found.pointer == value.pointer) {
            member["alternatives"] = to_json(&found.values)?;
            member["rest"] = json!(found.rest);
        }
        members.insert(value.pointer.clone(), member);
    }
    Ok(members)
}

fn spans_json(value: &ValueSpans) -> Value {
    match value.unique() {
        Some(span) => json!(span),
        None => json!({"occurrences": value.occurrences}),
    }
}

fn to_json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|e| Error::new(ErrorKind::Io, format!("a confidence cannot be written as JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_out_where_null_fits() {
        let record = r#"{"a": "x", "b": [1, 2], "c": null}"#;
        let value = |pointer: &str, probability: f64| ValueConfidence {
            pointer: pointer.into(),
            bytes: 0..0,
            probability,
            margin: 0.0,
            legal_mass: 1.0,
        };
        let all = [value("/a", 0.5), value("/b/0", 0.1), value("/b/1", 0.95), value("/c", 0.2)];
        let options = GroundingOptions { abstain: Some(0.9), ..GroundingOptions::default() };
        let (kept, left) = options.abstain(record, &all, |_| true);
        assert_eq!(kept, r#"{"a": null, "b": [null, 2], "c": null}"#);
        assert_eq!(
            json!(left),
            json!({"/b/0": {"value": 1, "probability": 0.1}, "/a": {"value": "x", "probability": 0.5}})
        );
        let (kept, left) = options.abstain(record, &all, |record| !record.contains("[null"));
        assert_eq!((kept.as_str(), left.unwrap().len()), (r#"{"a": null, "b": [1, 2], "c": null}"#, 1));
        assert_eq!(GroundingOptions::default().abstain(record, &all, |_| true), (record.to_owned(), None));
    }
}
