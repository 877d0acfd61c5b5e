//! Chat templates render what Jinja2 renders: many expressions, with the output of Jinja2 in
//! `tests/data/jinja/expressions.jsonl`, which `expected.py` next to it writes.
//!
//! `open.jsonl` lists the templates that come out otherwise: features that no template of the hub is
//! known to use, and errors of Jinja2 that are none here. It must be exact.

use ffwd::{ChatOptions, ChatTemplate};
use serde_json::{Map, Value};

const EXPRESSIONS: &str = include_str!("../data/jinja/expressions.jsonl");
const OPEN: &str = include_str!("../data/jinja/open.jsonl");

fn render(template: &str, variables: &Map<String, Value>) -> Option<String> {
    let options = ChatOptions { variables: variables.clone(), ..ChatOptions::default() };
    ChatTemplate::new(template).and_then(|template| template.render(&[], &options)).ok()
}

#[test]
fn expressions_render_what_jinja2_renders() {
    let open: Vec<String> = OPEN.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (variables, cases) = EXPRESSIONS.split_once('\n').unwrap();
    let variables: Map<String, Value> = serde_json::from_str(variables).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in cases.lines() {
        let (template, expected): (String, Option<String>) = serde_json::from_str(line).unwrap();
        let rendered = render(&template, &variables);
        match (rendered == expected, open.contains(&template)) {
            (false, false) => wrong.push(format!("{template:?} is {rendered:?}, not {expected:?}")),
            (true, true) => wrong.push(format!("{template:?} is right: it is open no more")),
            _ => {}
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 1000 && open.len() < 100, "{count} {}", open.len());
}
