//! The playground: its page, and the endpoints of the tab "Generate".

use std::io::BufReader;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{get, metric, post, read_until, receive, send, server, wait_until, with_members};

const SCHEMA: &str = r#"{"type": "object", "properties": {"vendor": {"type": "string"},
    "total": {"type": "number"}, "currency": {"enum": ["EUR", "USD"]}},
    "required": ["vendor", "total", "currency"], "additionalProperties": false}"#;

pub(crate) fn body(more: &Value) -> Value {
    let body = json!({"prompt": "Invoice. Vendor: Bright Glacier Consulting. Total: 1840.00 EUR", "as": "chat",
        "constraint": {"kind": "json_schema", "text": SCHEMA}, "max_tokens": 80});
    with_members(body, more)
}

fn events(address: SocketAddr, more: &Value) -> Vec<Value> {
    let answer = post(address, "/playground/api/generate", &body(more));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.events()
}

fn state(address: SocketAddr, more: &Value) -> Value {
    let answer = post(address, "/playground/api/state", &body(more));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The tokens of all steps, without those taken back.
fn kept(events: &[Value]) -> Vec<u64> {
    let mut tokens = Vec::new();
    for step in events.iter().filter(|event| event["event"] == "forward") {
        assert_eq!(step["begin"], tokens.len());
        let ids = step["tokens"].as_array().unwrap().iter().map(|token| token["id"].as_u64().unwrap());
        tokens.extend(ids);
        tokens.truncate(tokens.len() - step["taken_back"].as_u64().unwrap() as usize);
    }
    tokens
}

fn ids(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|token| token["id"].as_u64().unwrap()).collect()
}

#[test]
fn the_page_needs_no_key_and_its_endpoints_do() {
    let server = server(|options| options.api_key = Some("secret".into()));
    let page = get(server.address(), "/");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{page:?}");
    assert!(page.head.contains("x-content-type-options: nosniff"));
    // Every file that the page or a script of it names is there.
    let mut wanted: Vec<String> = named(&page.body, "\"playground/");
    let mut seen = Vec::new();
    while let Some(file) = wanted.pop() {
        if seen.contains(&file) {
            continue;
        }
        let answer = get(server.address(), &format!("/playground/{file}"));
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.head.contains("nosniff"), "{file}");
        wanted.extend(named(&answer.body, "from \"./"));
        seen.push(file);
    }
    assert!(seen.len() > 8, "{seen:?}");
    assert_eq!(get(server.address(), "/playground/nothing.js").status, 401);
    assert_eq!(post(server.address(), "/playground/api/state", &body(&json!({}))).status, 401);
    let foreign = send(server.address(), "GET", "/", "Host: evil.example\r\n", "");
    assert_eq!(receive(foreign).unwrap().status, 403);
}

/// The files that a text names after `mark`.
fn named(text: &str, mark: &str) -> Vec<String> {
    text.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[test]
fn forwards_are_streamed_and_join_to_the_output() {
    let server = server(|_| {});
    let settings = [
        json!({}),
        json!({"mode": "off"}),
        json!({"forced_runs": false, "draft_model": false}),
        json!({"mode": "canonical"}),
    ];
    let mut texts = Vec::new();
    for setting in &settings {
        let events = events(server.address(), &json!({"ffwd": setting}));
        let [first, .., end] = &events[..] else { panic!("{events:?}") };
        assert_eq!((&first["event"], &end["event"]), (&json!("start"), &json!("end")));
        assert!(first["prompt"].as_str().unwrap().contains("Bright Glacier"));
        assert_eq!(kept(&events), ids(&end["tokens"]));
        let text: String =
            end["tokens"].as_array().unwrap().iter().map(|t| t["text"].as_str().unwrap()).collect();
        assert_eq!(text, end["text"].as_str().unwrap());
        assert_eq!(end["complete"], true);
        let forwards = events.iter().filter(|event| event["positions"].as_u64().is_some_and(|n| n > 0));
        assert_eq!(forwards.count() as u64, end["stats"]["forwards"].as_u64().unwrap());
        texts.push((text, end["stats"]["forwards"].as_u64().unwrap()));
    }
    assert_eq!(texts[0].0, texts[1].0);
    assert_eq!(texts[0].0, texts[2].0);
    assert!(texts[0].1 < texts[1].1, "{texts:?}");
}

#[test]
fn a_generation_needs_no_constraint() {
    let server = server(|_| {});
    let prompt = "Vendor: Bright Glacier Consulting. The vendor is Bright";
    let none = json!({"constraint": {"kind": "none"}, "prompt": prompt, "as": "text", "max_tokens": 3});
    assert_eq!(events(server.address(), &none).last().unwrap()["stats"]["tokens"], 3);
}

/// The probabilities of a state are the log-probabilities that a generation reports.
#[test]
fn probabilities_are_those_of_a_generation() {
    let server = server(|_| {});
    let more = json!({"ffwd": {"mode": "off"}});
    let tokens = ids(&events(server.address(), &more).last().unwrap()["tokens"]);
    let mut request = json!({"messages": [{"role": "user", "content": body(&json!({}))["prompt"]}],
        "logprobs": true, "max_tokens": 80, "ffwd": {"mode": "off"}});
    request["response_format"] = json!({"type": "json_schema", "json_schema":
        {"schema": serde_json::from_str::<Value>(SCHEMA).unwrap()}});
    let answer = post(server.address(), "/v1/chat/completions", &request).json();
    let logprobs = answer["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert!(tokens.len() >= 10 && logprobs.len() >= tokens.len(), "{answer}");
    // Backwards too, so that the kept keys and values are cut.
    for at in (0..tokens.len()).chain((0..tokens.len()).rev()) {
        let state = state(server.address(), &json!({"tokens": tokens[..at]}));
        let entry = state["top_legal"].as_array().unwrap().iter().find(|entry| entry["id"] == tokens[at]);
        let entry = entry.unwrap_or_else(|| panic!("{at}: {state}"));
        let near = |name: &str, expected: &Value| {
            let (ours, theirs) = (entry[name].as_f64().unwrap(), expected.as_f64().unwrap().exp());
            assert!((ours - theirs).abs() < 1e-3, "{at} {name}: {ours} {theirs}");
        };
        near("raw", &logprobs[at]["logprob"]);
        near("masked", &logprobs[at]["ffwd"]["masked"]);
        let legal: f64 = 1.0 - state["rejected_mass"].as_f64().unwrap();
        let (raw, masked) = (entry["raw"].as_f64().unwrap(), entry["masked"].as_f64().unwrap());
        assert!((raw - masked * legal).abs() < 1e-9);
        assert_eq!(state["position"], at);
    }
}

#[test]
fn states_are_explained() {
    let server = server(|_| {});
    let choice = json!({"kind": "labels", "text": "<img src=x>\n<imp>"});
    let start = state(server.address(), &json!({"constraint": choice, "why": "<img alt"}));
    assert_eq!(start["state"]["forced"]["text"], "<im");
    assert_eq!((&start["state"]["may_end"], &start["state"]["must_end"]), (&json!(false), &json!(false)));
    let why = &start["why"];
    assert_eq!((&why["legal"], &why["fits"], &why["fitting"]), (&json!(false), &json!(5), &json!("<img ")));
    assert_eq!(why["expected_bytes"], json!([b's']));
    assert!(why["reason"].as_str().unwrap().contains("'a'"), "{why}");
    let likely = start["top"].as_array().unwrap().iter().find(|entry| entry["legal"] == false).unwrap();
    let token =
        state(server.address(), &json!({"constraint": choice, "why_token": likely["id"]}))["why"].clone();
    assert_eq!((&token["legal"], &token["text"]), (&json!(false), &likely["text"]), "{token}");
    let special = state(server.address(), &json!({"constraint": choice, "why_token": 2}))["why"].clone();
    assert!(special["reason"].as_str().unwrap().contains("may not end here"), "{special}");
    // Illegal tokens have no probability, and legal ones have all of it.
    let top = start["top"].as_array().unwrap();
    assert!(top.iter().any(|entry| entry["legal"] == false && entry["masked"] == 0.0), "{start}");
    let legal: f64 =
        start["top_legal"].as_array().unwrap().iter().map(|entry| entry["masked"].as_f64().unwrap()).sum();
    assert!((legal - 1.0).abs() < 1e-9, "{start}");
    let schema = state(server.address(), &json!({}));
    assert!(schema["state"]["completion"].as_str().unwrap().starts_with("{\"vendor\":"), "{schema}");
    let free = state(server.address(), &json!({"constraint": {"kind": "none"}}));
    assert_eq!((&free["legal"], &free["state"]), (&free["vocabulary"], &Value::Null));
}

#[test]
fn a_client_that_leaves_ends_its_generation() {
    let server = server(|_| {});
    let more = json!({"constraint": {"kind": "regex", "text": "[a-z ]{4000}"}, "max_tokens": 1800,
        "ffwd": {"mode": "off"}});
    let stream = send(server.address(), "POST", "/playground/api/generate", "", &body(&more).to_string());
    let mut reader = BufReader::new(stream);
    read_until(&mut reader, "\"forward\"");
    drop(reader);
    let value = |name: &str| metric(server.address(), name);
    // The request is counted after its batch has ended.
    wait_until(|| {
        value("ffwd_batch_ended_total") > 0 && value("ffwd_outputs_total") + value("ffwd_abandoned_total") > 0
    });
    assert!(value("ffwd_forwards_total") < 1800);
    assert_eq!((value("ffwd_outputs_total"), value("ffwd_abandoned_total")), (0, 1));
}
