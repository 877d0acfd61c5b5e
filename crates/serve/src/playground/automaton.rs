//! Endpoint of the tab "Automaton": the states of a small constraint as a graph.
//!
//! States that accept the same texts are merged, unless the graph was cut. A run is a chain of
//! states that leave no choice: the page draws it as one edge until it is opened.
//!
//! # Cost
//! A step for each byte in each state, a mask for each state, and a partition of the states that is
//! refined at most once for each of them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api_error::{ApiError, ApiResult, json_response};
use crate::app::App;
use crate::fields::Fields;
use crate::model::LoadedModel;
use ffwd_runtime::constraint::{Constraint, Policy};
use ffwd_runtime::matcher::StateGraph;
use ffwd_runtime::vocab::Vocabulary;

/// Largest constraint in bytes: more has no graph that can be looked at.
const MAX_TEXT: usize = 16 << 10;
/// Default and largest number of states.
const STATES: usize = 80;
const MAX_STATES: usize = 400;

pub(super) async fn automaton(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let text = app.body(body).await?;
    let mut fields = Fields::body(&text)?;
    let model = fields.text("model")?;
    let kind = fields.needed_text("kind")?;
    let constraint = fields.needed_text("constraint")?;
    let limit = fields.count("limit")?.unwrap_or(STATES);
    fields.finish()?;
    if constraint.len() > MAX_TEXT {
        let message = format!("the constraint has {} bytes, the limit is {MAX_TEXT}", constraint.len());
        return Err(ApiError::field("constraint", message));
    }
    if !(1..=MAX_STATES).contains(&limit) {
        return Err(ApiError::field("limit", format!("`limit` must be from 1 to {MAX_STATES}")));
    }
    let model = app.model(model.as_deref()).await?;
    let value = app.work_of(&app.page, deadline, move || graph_of(&model, &kind, &constraint, limit)).await?;
    Ok(json_response(&value))
}

fn graph_of(model: &LoadedModel, kind: &str, text: &str, limit: usize) -> ApiResult<Value> {
    let vocab = model.engine.vocabulary();
    let constraint = read_constraint(model, kind, text)?;
    let grammar = model.engine.compiler().compile(&constraint);
    let grammar = grammar.map_err(|error| ApiError::of(&error, "constraint"))?;
    let Some(found) = grammar.matcher().state_graph(limit) else {
        return Err(ApiError::field("constraint", "a constraint over tokens has no states over bytes"));
    };
    let states = if found.complete { merged(&found) } else { plain(&found) };
    Ok(json!({
        "vocabulary": vocab.len(),
        "complete": found.complete,
        "limit": limit,
        "before_merging": found.states.len(),
        "runs": runs(&states, vocab),
        "states": states,
        "warnings": grammar.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
    }))
}

fn read_constraint(model: &LoadedModel, kind: &str, text: &str) -> ApiResult<Constraint> {
    let policy = Policy { whitespace: model.engine.whitespace(), closed_objects: true, ..Policy::default() };
    let builder = Constraint::builder().policy(policy);
    let constraint = match kind {
        "json_schema" => builder.json_schema(text),
        "regex" => builder.regex(text),
        "choice" => builder.choice(text.lines().filter(|line| !line.is_empty())),
        "pattern" => builder.pattern(text),
        "ebnf" => builder.ebnf(text),
        "gbnf" => builder.gbnf(text),
        "lark" => builder.lark(text),
        other => {
            let known = "json_schema, regex, choice, pattern, ebnf, gbnf and lark";
            return Err(ApiError::unknown("kind", other, known));
        }
    };
    constraint.map_err(|error| ApiError::of(&error, "constraint"))
}

/// A state as the page draws it.
#[derive(Debug, Serialize)]
struct DrawnState {
    accepting: bool,
    legal_tokens: usize,
    edges: Vec<DrawnEdge>,
}

#[derive(Debug, Serialize)]
struct DrawnEdge {
    bytes: Vec<(u8, u8)>,
    label: String,
    /// `None` if the target lies beyond the limit.
    to: Option<usize>,
}

impl DrawnEdge {
    fn new(bytes: Vec<(u8, u8)>, to: Option<usize>) -> Self {
        DrawnEdge { label: label(&bytes), bytes, to }
    }
}

fn plain(graph: &StateGraph) -> Vec<DrawnState> {
    let state = |state: &ffwd_runtime::matcher::GraphState| DrawnState {
        accepting: state.accepting,
        legal_tokens: state.legal_tokens,
        edges: state.edges.iter().map(|edge| DrawnEdge::new(edge.bytes.clone(), edge.to)).collect(),
    };
    graph.states.iter().map(state).collect()
}

/// Merges the states of a whole graph that accept the same texts: refines the partition into
/// accepting and other states until the states of a part agree on the parts of their targets.
fn merged(graph: &StateGraph) -> Vec<DrawnState> {
    let targets: Vec<[u32; 256]> = graph.states.iter().map(|state| targets(&state.edges)).collect();
    let mut part: Vec<u32> = graph.states.iter().map(|state| u32::from(state.accepting)).collect();
    let mut count = 0;
    loop {
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let of = |to: &u32| part.get(*to as usize).copied().unwrap_or(u32::MAX);
        let signature = |(at, targets): (usize, &[u32; 256])| -> Vec<u32> {
            std::iter::once(part[at]).chain(targets.iter().map(of)).collect()
        };
        let refined: Vec<u32> = targets
            .iter()
            .enumerate()
            .map(|state| {
                let next = known.len() as u32;
                *known.entry(signature(state)).or_insert(next)
            })
            .collect();
        part = refined;
        if known.len() == count {
            break;
        }
        count = known.len();
    }
    // Parts are numbered by their first state.
    let first = |wanted: usize| part.iter().position(|part| *part as usize == wanted).unwrap_or_default();
    let state = |wanted: usize| {
        let state = &graph.states[first(wanted)];
        let mut edges: Vec<DrawnEdge> = Vec::new();
        for (byte, to) in targets[first(wanted)].iter().enumerate() {
            let Some(&to) = part.get(*to as usize) else { continue };
            add_byte(&mut edges, byte as u8, to as usize);
        }
        edges.iter_mut().for_each(|edge| edge.label = label(&edge.bytes));
        DrawnState { accepting: state.accepting, legal_tokens: state.legal_tokens, edges }
    };
    (0..count).map(state).collect()
}

/// Returns the target of each byte, `u32::MAX` for none.
fn targets(edges: &[ffwd_runtime::matcher::GraphEdge]) -> [u32; 256] {
    let mut targets = [u32::MAX; 256];
    for edge in edges {
        for &(from, to) in &edge.bytes {
            let target = edge.to.map_or(u32::MAX, |to| to as u32);
            targets[usize::from(from)..=usize::from(to)].fill(target);
        }
    }
    targets
}

fn add_byte(edges: &mut Vec<DrawnEdge>, byte: u8, to: usize) {
    let Some(edge) = edges.iter_mut().find(|edge| edge.to == Some(to)) else {
        return edges.push(DrawnEdge { bytes: vec![(byte, byte)], label: String::new(), to: Some(to) });
    };
    match edge.bytes.last_mut() {
        Some(last) if byte > 0 && last.1 == byte - 1 => last.1 = byte,
        _ => edge.bytes.push((byte, byte)),
    }
}

/// Returns byte ranges as a class, or a single byte alone.
fn label(ranges: &[(u8, u8)]) -> String {
    let shown = |byte: u8| match byte {
        b' ' => "\u{2423}".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\r' => "\\r".to_owned(),
        byte if byte.is_ascii_graphic() => char::from(byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    };
    if let [(from, to)] = ranges
        && from == to
    {
        return shown(*from);
    }
    let in_class =
        |byte: u8| if b"]\\^-[".contains(&byte) { format!("\\{}", shown(byte)) } else { shown(byte) };
    let range = |&(from, to): &(u8, u8)| match to - from {
        0 => in_class(from),
        1 => in_class(from) + &in_class(to),
        _ => format!("{}-{}", in_class(from), in_class(to)),
    };
    format!("[{}]", ranges.iter().map(range).collect::<String>())
}

/// A chain of states that leave no choice.
#[derive(Debug, Serialize)]
struct ForcedChain {
    /// All states of the chain, the last one included.
    states: Vec<usize>,
    text: String,
    bytes: usize,
    /// Number of tokens by which the tokenizer writes the text; `None` if it is no text.
    tokens: Option<usize>,
}

/// Returns the chains of two bytes or more. Only the first state of a chain has transitions from
/// elsewhere.
fn runs(states: &[DrawnState], vocab: &Vocabulary) -> Vec<ForcedChain> {
    let mut arriving = vec![0usize; states.len()];
    let edges = states.iter().flat_map(|state| &state.edges);
    edges.filter_map(|edge| edge.to).for_each(|to| arriving[to] += 1);
    let step = |at: usize| match &states[at].edges[..] {
        [DrawnEdge { bytes, to: Some(to), .. }] if !states[at].accepting => match bytes[..] {
            [(from, last)] if from == last => Some((from, *to)),
            _ => None,
        },
        _ => None,
    };
    // A chain continues through states with one transition into them; the start has none.
    let is_inner = |at: usize| {
        at != 0 && arriving[at] == 1 && (0..states.len()).any(|from| step(from).is_some_and(|s| s.1 == at))
    };
    let mut found = Vec::new();
    for start in (0..states.len()).filter(|&at| step(at).is_some() && !is_inner(at)) {
        let (mut chain, mut bytes) = (vec![start], Vec::new());
        while let Some((byte, to)) = step(chain[chain.len() - 1]) {
            bytes.push(byte);
            chain.push(to);
            if !is_inner(to) {
                break;
            }
        }
        if bytes.len() > 1 {
            let text = std::str::from_utf8(&bytes).ok();
            let tokens = text.and_then(|text| vocab.encode(text).ok()).map(|tokens| tokens.len());
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.push(ForcedChain { states: chain, text, bytes: bytes.len(), tokens });
        }
    }
    found
}
