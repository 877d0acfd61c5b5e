//! Outputs as JSON, from which `ffwd.results` makes its classes.

use ffwd_runtime::decode::{AlternativeOptions, Finish, TokenLogprob, ValueAlternatives, ValueConfidence};
use ffwd_runtime::extract::{Extraction, ValueSpans, finished, spans_of};
use ffwd_runtime::{Engine, Output, Request, Stats, TokenId};
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::error::Failure;
use crate::many::Origin;

/// An output of `generate`.
#[derive(Serialize)]
struct OutputJson<'a> {
    text: &'a str,
    answer: Option<&'a str>,
    tokens: &'a [TokenId],
    complete: bool,
    finish: &'a Finish,
    stats: &'a Stats,
    confidence: Vec<ConfidenceJson<'a>>,
    logprobs: &'a [Option<TokenLogprob>],
}

/// A record and all about it.
#[derive(Serialize)]
struct DetailsJson<'a> {
    text: &'a str,
    finish: &'a Finish,
    stats: &'a Stats,
    confidence: Vec<ConfidenceJson<'a>>,
    alternatives: Vec<ValueAlternatives>,
    spans: Vec<ValueSpans>,
}

#[derive(Serialize)]
struct ConfidenceJson<'a> {
    pointer: &'a str,
    #[serde(flatten)]
    value: &'a ValueConfidence,
}

fn confidence(values: &[ValueConfidence]) -> Vec<ConfidenceJson<'_>> {
    values.iter().map(|value| ConfidenceJson { pointer: &value.pointer, value }).collect()
}

/// Returns an output as JSON.
pub(crate) fn output_json(output: &Output) -> String {
    json(&OutputJson {
        text: &output.text,
        answer: output.answer.as_deref(),
        tokens: &output.tokens,
        complete: output.complete,
        finish: &output.finish,
        stats: &output.stats,
        confidence: confidence(&output.confidence),
        logprobs: &output.logprobs,
    })
}

/// What a record is returned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Wanted {
    /// Everything about the generation.
    pub details: bool,
    /// The probabilities of the values that the schema allows; costs forwards.
    pub alternatives: bool,
}

/// A record as JSON, and the details as JSON if they are wanted.
pub(crate) type Record = (String, Option<String>);

/// Returns the record of an output about `text`. `request` makes its request once more.
pub(crate) fn record_of(
    engine: &Engine,
    text: &str,
    output: Output,
    wanted: Wanted,
    request: impl FnOnce() -> ffwd_runtime::Result<Request>,
) -> Result<Record, Failure> {
    let alternatives = match wanted.alternatives && output.complete {
        true => engine.alternatives(&request()?, &output, &AlternativeOptions::default())?,
        false => Vec::new(),
    };
    let extraction = record(output)?;
    let details = wanted.details.then(|| details_json(&extraction, alternatives, text));
    Ok((extraction.text, details))
}

/// Returns the record that an earlier run has written to a line, without its statistics.
pub(crate) fn resumed(line: &str, text: &str, wanted: Wanted) -> Record {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        record: Option<&'a serde_json::value::RawValue>,
        finish: String,
        #[serde(default)]
        confidence: serde_json::Map<String, Value>,
    }
    let line: Option<Line<'_>> = serde_json::from_str(line).ok();
    let record = line.as_ref().and_then(|line| line.record).map_or("null", |record| record.get());
    let details = wanted.details.then(|| {
        let confidence = line.iter().flat_map(|line| &line.confidence);
        let confidence = confidence.filter_map(|(pointer, value)| {
            let mut value = value.as_object()?.clone();
            value.insert("pointer".into(), pointer.as_str().into());
            Some(Value::Object(value))
        });
        json(&serde_json::json!({
            "text": record,
            "finish": {"reason": line.as_ref().map(|line| &line.finish)},
            "stats": Stats::default(),
            "confidence": confidence.collect::<Vec<_>>(),
            "alternatives": [],
            "spans": spans_of(record, &[], text),
        }))
    });
    (record.to_owned(), details)
}

/// Adds to the details of a record from which file it is, and where its spans stand.
pub(crate) fn placed((record, details): Record, origin: &Origin) -> Record {
    let details = details.map(|details| {
        let mut details: Value = serde_json::from_str(&details).unwrap_or_default();
        details["source"] = serde_json::json!(origin.source);
        if let (Some(places), Some(spans)) = (&origin.places, details["spans"].as_array_mut()) {
            let spans = spans.iter_mut().filter_map(|value| value["occurrences"].as_array_mut());
            spans.flatten().for_each(|span| places.add_to_span(span));
        }
        json(&details)
    });
    (record, details)
}

/// Returns the record of an output. An error has what there is of it.
pub(crate) fn record(output: Output) -> Result<Extraction, Failure> {
    let kept = (output.answer.clone().unwrap_or_else(|| output.text.clone()), json(&output.stats));
    finished(output).map_err(|error| Failure { error, output: Some(kept) })
}

/// Returns all about a record as JSON.
fn details_json(extraction: &Extraction, alternatives: Vec<ValueAlternatives>, text: &str) -> String {
    json(&DetailsJson {
        text: &extraction.text,
        finish: &extraction.finish,
        stats: &extraction.stats,
        confidence: confidence(&extraction.confidence),
        alternatives,
        spans: extraction.spans(text),
    })
}

/// Returns a value of this file, or one of statistics, as JSON.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Such values have keys that are strings, and numbers that JSON has; others become null.
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}
