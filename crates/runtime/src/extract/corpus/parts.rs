//! Parts of long texts: those of a text, and one outcome of all of them.

use std::sync::Arc;

use serde_json::Value;

use super::grounding::Grounding;
use super::line::Outcome;
use super::rows::{self, JoinedRows, RecordOfPart};
use super::task::Task;
use crate::decode::Stats;
use crate::error::{Error, Result};
use crate::extract::{Chunk, ChunkOptions, Extractor, MergedRecord, merge_records};

/// A text, or a part of one, to extract.
pub(super) struct TextPart {
    pub task: Arc<Task>,
    pub text: Result<String>,
    /// Only if texts are cut.
    pub chunk: Option<Chunk>,
    /// True for the last part of its text.
    pub last: bool,
}

/// Returns the parts of a text, without blank ones.
pub(super) fn parts(
    extractor: &Extractor,
    options: Option<&ChunkOptions>,
    task: Task,
    text: Result<String>,
) -> Vec<TextPart> {
    let task = Arc::new(task);
    let one = |text: Result<String>, chunk: Option<Chunk>| TextPart {
        task: task.clone(),
        text,
        chunk,
        last: false,
    };
    let cut = match (&text, options) {
        (Ok(text), Some(options)) => extractor.chunks(text, options).map_err(|e| task.placed(e)),
        _ => Ok(Vec::new()),
    };
    let mut parts: Vec<TextPart> = match (text, cut) {
        (_, Err(error)) => vec![one(Err(error), None)],
        (text, Ok(chunks)) if chunks.is_empty() => vec![one(text, None)],
        (Err(error), _) => vec![one(Err(error), None)],
        (Ok(text), Ok(mut chunks)) => {
            let blank = |chunk: &Chunk| text[chunk.bytes.clone()].trim().is_empty();
            if !chunks.iter().all(blank) {
                chunks.retain(|chunk| !blank(chunk));
            }
            chunks
                .into_iter()
                .map(|chunk| one(Ok(text[chunk.bytes.clone()].to_owned()), Some(chunk)))
                .collect()
        }
    };
    if let Some(last) = parts.last_mut() {
        last.last = true;
    }
    parts
}

/// A part that is done.
pub(super) struct DonePart {
    pub chunk: Chunk,
    pub text: String,
    pub outcome: Result<Outcome>,
}

/// How the records of the parts of a text become those of the text.
#[derive(Clone, Copy)]
pub(super) struct JoinOptions<'a> {
    /// Records that agree in these are one.
    pub merge_keys: &'a [String],
    /// The property whose list has the rows of the text: all records are one.
    pub list: Option<&'a str>,
}

/// Joins the outcomes of all parts of a text. `fits` checks a record about a text against the schema.
///
/// # Errors
/// If the only part failed, or a record is not JSON.
pub(super) fn join(
    task: &Task,
    mut outcomes: Vec<DonePart>,
    options: JoinOptions<'_>,
    fits: &dyn Fn(&str, &str) -> Result<()>,
) -> Result<Outcome> {
    if outcomes.len() == 1
        && let Some(DonePart { outcome: Err(error), .. }) = outcomes.pop_if(|part| part.outcome.is_err())
    {
        return Err(error);
    }
    if let Some(list) = options.list {
        return join_rows(task, outcomes, list, fits);
    }
    // Strings that are spans come from one part each.
    let texts = outcomes.iter().map(|part| &*part.text).collect::<Vec<_>>().join("\n");
    let Ending { mut finish, mut incomplete, stats, notes } = ending(task, &outcomes);
    let mut records = Vec::new();
    // The records with their grounding, by their number in `records`.
    let mut whole: Vec<(String, Grounding)> = Vec::new();
    for DonePart { chunk, outcome, .. } in outcomes {
        if let Some(outcome) = outcome.ok().filter(|outcome| outcome.incomplete.is_none()) {
            records.push((outcome.text.clone(), chunk));
            whole.push((outcome.text, outcome.grounding));
        }
    }
    let merged = merge_records(records, options.merge_keys)?;
    for (i, record) in merged.iter().enumerate().filter(|(_, record)| record.chunks.len() > 1) {
        if let Err(error) = check(fits, &texts, record, &whole[record.record].0)
            && incomplete.is_none()
        {
            incomplete = Some(merged_error(task, i, &error));
            finish = "error";
        }
    }
    let records = Some(merged.into_iter().map(|merged| grounded(merged, &whole)).collect());
    Ok(Outcome { records, finish, stats, incomplete, notes, ..Outcome::default() })
}

/// How the parts of a text ended.
struct Ending {
    finish: &'static str,
    /// The first error.
    incomplete: Option<Error>,
    stats: Stats,
    notes: Vec<&'static str>,
}

fn ending(task: &Task, outcomes: &[DonePart]) -> Ending {
    let (mut finish, mut incomplete, mut stats, mut notes) = ("stop", None, Vec::new(), Vec::new());
    for (i, DonePart { chunk, outcome, .. }) in outcomes.iter().enumerate() {
        let (ended, error) = match outcome {
            Ok(outcome) => {
                notes.extend(outcome.notes.iter().copied());
                stats.push(outcome.stats.clone());
                (outcome.finish, outcome.incomplete.as_ref())
            }
            Err(error) => ("error", Some(error)),
        };
        if ended != "stop" && finish == "stop" {
            finish = ended;
        }
        incomplete =
            incomplete.or_else(|| error.map(|error| part_error(task, i, outcomes.len(), chunk, error)));
    }
    Ending { finish, incomplete, stats: sum(&stats), notes }
}

/// Joins the outcomes of all parts of a text into one record, whose list has the rows of all.
fn join_rows(
    task: &Task,
    outcomes: Vec<DonePart>,
    list: &str,
    fits: &dyn Fn(&str, &str) -> Result<()>,
) -> Result<Outcome> {
    let Ending { mut finish, mut incomplete, stats, notes } = ending(task, &outcomes);
    let own: Vec<RecordOfPart<'_>> = outcomes
        .iter()
        .map(|DonePart { chunk, text, outcome }| {
            let whole = outcome.as_ref().ok().filter(|own| own.incomplete.is_none());
            RecordOfPart { chunk, text, record: whole.map(|own| &*own.text) }
        })
        .collect();
    let JoinedRows { record, rows, origins } = rows::join(&own, list)?;
    let mut grounding = Grounding::default();
    let below = |item: usize| format!("/{list}/{item}");
    for (row, (part, item)) in origins.into_iter().enumerate() {
        let DonePart { chunk, outcome: Ok(own), .. } = &outcomes[part] else { continue };
        grounding.add(&below(row), own.grounding.in_text(&below(item), chunk));
    }
    for DonePart { chunk, outcome, .. } in &outcomes {
        let Ok(own) = outcome else { continue };
        let mut others = own.grounding.in_text("", chunk);
        others.remove(&format!("/{list}/"));
        grounding.add("", others);
    }
    let texts = outcomes.iter().map(|part| &*part.text).collect::<Vec<_>>().join("\n");
    if incomplete.is_none()
        && let Err(error) = fits(&texts, &record)
    {
        incomplete = Some(task.placed(error));
        finish = "error";
    }
    let (text, rows) = (record, Some(rows));
    Ok(Outcome { text, finish, stats, grounding, incomplete, notes, rows, ..Outcome::default() })
}

fn part_error(task: &Task, i: usize, count: usize, chunk: &Chunk, error: &Error) -> Error {
    let (start, end) = (chunk.bytes.start, chunk.bytes.end);
    let message = format!("part {} of {count}, bytes {start} to {end}: {}", i + 1, error.message());
    let placed = task.placed(Error::new(error.kind(), message));
    error.hint_text().map_or(placed.clone(), |hint| placed.hint(hint))
}

fn merged_error(task: &Task, i: usize, error: &Error) -> Error {
    let message = format!("record {}, which was merged: {}", i + 1, error.message());
    let placed = task.placed(Error::new(error.kind(), message));
    error.places().iter().fold(placed, |placed, place| placed.at(place.clone()))
}

/// Checks a record of several parts against the schema. `first` is the record in which it began.
fn check(
    fits: &dyn Fn(&str, &str) -> Result<()>,
    texts: &str,
    merged: &MergedRecord,
    first: &str,
) -> Result<()> {
    let Some(item) = merged.item else { return fits(texts, &merged.json) };
    // Beside the other items of its list.
    let items = merge_records(vec![(first.to_owned(), merged.chunks[0].clone())], &[])?;
    let items: Vec<&str> = items
        .iter()
        .map(|other| if other.item == Some(item) { &*merged.json } else { &*other.json })
        .collect();
    fits(texts, &format!("[{}]", items.join(",")))
}

/// Adds the grounding of the first of the records that were merged; `whole` has them all.
fn grounded(merged: MergedRecord, whole: &[(String, Grounding)]) -> (MergedRecord, Grounding) {
    let (first, grounding) = &whole[merged.record];
    let prefix = merged.item.map(|item| format!("/{item}")).unwrap_or_default();
    let mut grounding = grounding.in_text(&prefix, &merged.chunks[0]);
    if merged.chunks.len() > 1 {
        let value = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
        let mut first = value(first);
        if let Some(item) = merged.item {
            first = first.get_mut(item).map(Value::take).unwrap_or_default();
        }
        grounding.keep_same(&first, &value(&merged.json));
    }
    (merged, grounding)
}

/// Returns the statistics of several generations together.
fn sum(all: &[Stats]) -> Stats {
    let mut sum = all.first().cloned().unwrap_or_default();
    for stats in &all[1.min(all.len())..] {
        sum.tokens += stats.tokens;
        sum.forwards += stats.forwards;
        sum.prompt_tokens += stats.prompt_tokens;
        sum.prompt_cached += stats.prompt_cached;
        sum.forced += stats.forced;
        sum.unverified += stats.unverified;
        sum.taken_back += stats.taken_back;
        sum.drafted += stats.drafted;
        sum.accepted += stats.accepted;
        sum.drafted_by_source.add(&stats.drafted_by_source);
        sum.accepted_by_source.add(&stats.accepted_by_source);
        sum.draft_forwards += stats.draft_forwards;
        sum.seconds += stats.seconds;
        sum.compile_seconds += stats.compile_seconds;
        sum.guarded.extend(stats.guarded.iter().cloned());
        sum.shortened.extend(stats.shortened.iter().cloned());
        if stats.finish != "stop" && sum.finish == "stop" {
            sum.finish.clone_from(&stats.finish);
        }
    }
    if all.len() > 1 {
        // They belong to a single generation.
        (sum.survival, sum.spent, sum.gate) = (None, None, None);
    }
    sum.tokens_per_forward = sum.tokens as f64 / sum.forwards.max(1) as f64;
    sum.deterministic_fraction = sum.forced as f64 / sum.tokens.max(1) as f64;
    sum
}
