//! The trie of labels with probabilities: those of the library, and sums that add up.

use std::collections::HashMap;

use ffwd::constraint::token_machine::{Labels, Lead, Levels};
use ffwd::decode::LabelOptions;
use ffwd::{ChatOptions, Engine, Message};
use serde_json::{Value, json};

use crate::client::{post, server};

const PATH: &str = "/playground/api/labels";
const LABELS: &str =
    "Technology\nTechnology > AI\nTechnology > AI > Vision\nTechnology > Telecom\nSports > Tennis\nPolitics";
const TEXT: &str = "The match went to a fifth set.";

#[test]
fn probabilities_are_those_of_the_library_and_add_up() {
    let server = server(|_| {});
    let engine = Engine::embedded().unwrap();
    for (name, levels, count) in
        [("listed", Levels::Listed, 6), ("leaves", Levels::Leaves, 4), ("all", Levels::All, 7)]
    {
        let answer = post(server.address(), PATH, &json!({"labels": LABELS, "text": TEXT, "levels": name}));
        assert_eq!(answer.status, 200, "{answer:?}");
        let found = answer.json();
        let labels = Labels::new(LABELS.lines()).paths(" > ", levels).lead(Lead::Nothing);
        let trie = engine.label_trie(&labels).unwrap();
        assert_eq!(trie.len(), count);
        let question = format!(
            "Classify the text into one of these labels: {}.\n\nText: {TEXT}",
            trie.labels().join(", ")
        );
        let messages = [
            Message::system("You are a text classifier. Answer with the label only."),
            Message::user(question),
        ];
        let prompt = engine.chat_prompt(&messages, &ChatOptions::default()).unwrap();
        let wanted = engine.label_probabilities(&prompt, &trie, &LabelOptions::default()).unwrap();
        let labels = found["labels"].as_array().unwrap();
        assert_eq!(labels.len(), count);
        for (label, wanted) in labels.iter().zip(&wanted.labels) {
            assert_eq!(label["label"], wanted.label);
            assert!((label["probability"].as_f64().unwrap() - wanted.probability).abs() < 1e-12);
        }
        check_tree(&found, count);
    }
}

/// Checks that each node has the sum of what is below it, and each path the text of its label.
fn check_tree(found: &Value, count: usize) {
    let nodes: HashMap<u64, &Value> = found["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["node"].as_u64().unwrap(), node))
        .collect();
    let of_label: HashMap<&str, f64> = found["labels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|label| (label["label"].as_str().unwrap(), label["probability"].as_f64().unwrap()))
        .collect();
    let mut todo = vec![(0, String::new())];
    let mut met = 0;
    while let Some((at, text)) = todo.pop() {
        let node = nodes[&at];
        let mut sum = node["ends"].as_f64().unwrap_or(0.0);
        if let Some(label) = node["label"].as_str() {
            met += 1;
            assert_eq!(text.trim_start(), label);
            assert!((sum - of_label[label]).abs() < 1e-12);
        }
        for child in node["children"].as_array().unwrap() {
            let next = child["node"].as_u64().unwrap();
            sum += nodes[&next]["probability"].as_f64().unwrap();
            todo.push((next, text.clone() + child["text"].as_str().unwrap()));
        }
        assert!((node["probability"].as_f64().unwrap() - sum).abs() < 1e-9, "{node}");
    }
    assert_eq!(met, count);
    assert!((nodes[&0]["probability"].as_f64().unwrap() - 1.0).abs() < 1e-9);
}
