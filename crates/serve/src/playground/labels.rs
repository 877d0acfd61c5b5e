//! Endpoint of the tab "Labels": the trie of a taxonomy with the probability of each node.
//!
//! # Cost
//! That of [`Engine::label_probabilities`](ffwd_runtime::Engine::label_probabilities): the prompt is read
//! once, and each choice of the trie takes at most one short forward.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};

use super::token_text;
use crate::api_error::{ApiError, ApiResult, json_response};
use crate::app::App;
use crate::fields::Fields;
use crate::model::LoadedModel;
use ffwd_runtime::constraint::token_machine::{LabelTrie, Labels, Lead, Levels};
use ffwd_runtime::decode::{LabelOptions, LabelProbabilities};
use ffwd_runtime::extract::{LABEL_QUESTION, Template, label_prompt};
use ffwd_runtime::sample::SamplingParams;

/// Largest number of labels of a request.
const MAX_LABELS: usize = 500;
/// Separator of the parts of a path, unless the request names another.
const SEPARATOR: &str = " > ";

pub(super) async fn labels(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let read = |fields: &mut Fields, _: &SamplingParams| {
        let list = fields.needed_text("labels")?;
        let separator = fields.text("separator")?.unwrap_or_else(|| SEPARATOR.to_owned());
        let levels = fields.value("levels", "listed, leaves or all")?.unwrap_or_default();
        let labels = read_labels(&list, &separator, levels)?;
        Ok((fields.text("model")?, labels, fields.needed_text("text")?))
    };
    let (model, labels, document) = app.read(body, read).await?;
    let model = app.model(model.as_deref()).await?;
    let value = app.work_of(&app.page, deadline, move || classify(&model, labels, &document)).await?;
    Ok(json_response(&value))
}

/// Reads a list of labels, one on each line or as a JSON array, or a JSON tree.
fn read_labels(text: &str, separator: &str, levels: Levels) -> ApiResult<Labels> {
    let text = text.trim();
    let labels = match text.starts_with('{') {
        true => Labels::from_tree(text, separator),
        false => Labels::from_text(text),
    };
    let labels = labels.map_err(|error| ApiError::of(&error, "labels"))?;
    let count = labels.texts().len();
    if count > MAX_LABELS {
        let error = ApiError::field("labels", format!("there are {count} labels, the limit is {MAX_LABELS}"));
        return Err(error.hint("`ffwd classify` takes more"));
    }
    Ok(labels.paths(separator, levels))
}

fn classify(model: &LoadedModel, labels: Labels, document: &str) -> ApiResult<Value> {
    let engine = &model.engine;
    let in_labels = |error: ffwd_runtime::Error| ApiError::of(&error, "labels");
    // The answer in a chat begins without a space.
    let labels = if engine.has_chat() { labels.lead(Lead::Nothing) } else { labels };
    let trie = engine.label_trie(&labels).map_err(in_labels)?;
    let template = Template::new(LABEL_QUESTION, &["labels", "text"], &["text"]);
    let user = template.map_err(|error| ApiError::general(&error))?;
    let user = user.render(&[&trie.labels().join(", "), document.trim_end()]);
    let prompt = label_prompt(engine, &user).map_err(|error| ApiError::general(&error))?;
    let found = engine.label_probabilities(&prompt, &trie, &LabelOptions::default());
    let found = found.map_err(|error| ApiError::of(&error, "text"))?;
    Ok(json!({
        "labels": found.labels,
        "legal_mass": found.legal_mass,
        "forwards": found.forwards,
        "separator": trie.path_separator(),
        "lead": trie.lead(),
        "nodes": nodes(&trie, &found),
        "warnings": trie.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
    }))
}

/// Returns the nodes of the trie, each before those below it, with the probability that an output
/// passes it.
fn nodes(trie: &LabelTrie, found: &LabelProbabilities) -> Vec<Value> {
    let vocab = trie.vocabulary();
    let mut of_label = vec![0.0; trie.len()];
    found.labels.iter().for_each(|label| of_label[label.index] = label.probability);
    let mut probability = vec![0.0; trie.node_count()];
    let mut order = Vec::with_capacity(trie.node_count());
    let mut todo = vec![trie.root()];
    while let Some(node) = todo.pop() {
        order.push(node);
        todo.extend(trie.children(node).iter().rev().map(|child| child.1));
    }
    // Nodes below come later, so their probabilities are known first.
    for &node in order.iter().rev() {
        let own = trie.label_at(node).map_or(0.0, |label| of_label[label]);
        let below: f64 = trie.children(node).iter().map(|child| probability[child.1 as usize]).sum();
        probability[node as usize] = own + below;
    }
    let node = |&node: &u32| {
        let children: Vec<Value> = trie
            .children(node)
            .iter()
            .map(|&(token, child)| json!({"token": token, "text": token_text(vocab, token), "node": child}))
            .collect();
        json!({
            "node": node,
            "probability": probability[node as usize],
            "label": trie.label_at(node).map(|label| trie.labels()[label].as_str()),
            "ends": trie.label_at(node).map(|label| of_label[label]),
            "labels_below": trie.labels_below(node),
            "children": children,
        })
    };
    order.iter().map(node).collect()
}
