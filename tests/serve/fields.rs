//! Fields: those of other servers are honoured, and what cannot be honoured is a fault that names it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{Answer, chat, chat_body, post, receive, send, server, with_members};
use crate::playground;

/// The texts of answers to requests that are honoured: endpoint, members on top of a sound request, text.
const CONSTRAINTS: &str = include_str!("constraints.jsonl");

/// Faults: endpoint, members on top of a sound request, status, and the error as it is sent.
const REFUSALS: &str = include_str!("refusals.jsonl");

/// Requests of other clients that are answered: endpoint, members on top of a sound request, and what
/// each of the warnings names; without one, there are none.
const ACCEPTED: &str = include_str!("accepted.jsonl");

/// Sends a sound request to an endpoint, with these members on top.
fn ask(address: SocketAddr, path: &str, more: &Value) -> Answer {
    let sound = match path {
        "/v1/chat/completions" => chat_body(json!({})),
        "/v1/responses" => json!({"input": "x"}),
        "/playground/api/generate" | "/playground/api/state" => playground::body(&json!({})),
        _ => json!({}),
    };
    post(address, path, &with_members(sound, more))
}

#[test]
fn constraints_of_other_servers_are_honoured() {
    let server = server(|_| {});
    for line in CONSTRAINTS.lines() {
        let (path, more, want): (String, Value, String) = serde_json::from_str(line).unwrap();
        let answer = ask(server.address(), &path, &more);
        let text = match path.starts_with("/playground") {
            true => answer.events().last().unwrap()["text"].as_str().unwrap().to_owned(),
            false => answer.content(),
        };
        assert_eq!(text, want, "{line}");
    }
}

#[test]
fn requests_of_other_clients_are_answered() {
    let server = server(|_| {});
    for line in ACCEPTED.lines() {
        let (path, mut more, named): (String, Value, Vec<String>) = serde_json::from_str(line).unwrap();
        if path == "/v1/chat/completions" && !line.contains("-1") && more["max_tokens"].is_null() {
            more["max_tokens"] = 2.into();
        }
        let answer = ask(server.address(), &path, &more);
        assert_eq!(answer.status, 200, "{line} {answer:?}");
        let warnings = answer.json()["ffwd"]["warnings"].to_string();
        assert!(named.iter().all(|name| warnings.contains(name)), "{line} {warnings}");
        assert_eq!(named.is_empty(), warnings == "[]", "{line} {warnings}");
    }
}

#[test]
fn what_a_client_cuts_reaches_the_model() {
    let server = server(|_| {});
    let prompt = |body: &str| {
        let answer = receive(send(server.address(), "POST", "/tokenize", "", body)).unwrap();
        answer.json()["token_strs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t.as_str().unwrap())
            .collect::<String>()
    };
    let body = |text: &str| format!("{{\"return_token_strs\": true, \"prompt\": \"{text}\"}}");
    // Half a character, and a whole one.
    assert_eq!(prompt(&body("a\\ud83d b")).replace('\u{fffd}', ""), "a b");
    assert_eq!(prompt(&body("a\\u00e9 \\\\ud83d")), "aé \\ud83d");
}

#[test]
fn faults_name_their_field() {
    let server = server(|options| options.max_constraint = 1024);
    for line in REFUSALS.lines() {
        let (path, more, status, error): (String, Value, u16, Value) = serde_json::from_str(line).unwrap();
        let answer = ask(server.address(), &path, &more);
        assert_eq!((answer.status, &answer.json()["error"]), (status, &error), "{line}");
    }
    // What is wrong is its length.
    let labels: Vec<String> = (0..600).map(|i| format!("label {i}")).collect();
    let prompt = "word ".repeat(3000);
    for (path, more, message) in [
        (
            "labels",
            json!({"labels": labels.join("\n"), "text": "a"}),
            "there are 600 labels, the limit is 500",
        ),
        (
            "explorer",
            json!({"profile": "friendly", "tokens": vec![0; 1000]}),
            "`tokens` has 1000 tokens, the limit is 512",
        ),
        ("state", json!({"why": "x".repeat(5000)}), "`why` has more than 4096 bytes"),
        (
            "state",
            json!({"prompt": prompt, "constraint": {"kind": "none"}}),
            "prompt and output have 6008 tokens; the context is 2048",
        ),
        (
            "automaton",
            json!({"kind": "choice", "constraint": "a".repeat(20_000), "limit": 9}),
            "the constraint has 20000 bytes, the limit is 16384",
        ),
    ] {
        let answer = ask(server.address(), &format!("/playground/api/{path}"), &more);
        assert_eq!((answer.status, &answer.json()["error"]["message"]), (400, &json!(message)), "{answer:?}");
    }
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let server = server(|_| {});
    let schema = json!({"type": "string", "maxLenght": 3, "const": "a"});
    let more = json!({"user": "me", "store": true, "guided_json": schema, "reasoning_effort": "low", "verbosity": "low"});
    let warnings = chat(server.address(), more).json()["ffwd"]["warnings"].to_string();
    for name in ["`user`", "`store`", "maxLenght", "`reasoning_effort`", "`verbosity`"] {
        assert!(warnings.contains(name), "{name}: {warnings}");
    }
    let silent = json!({"store": false, "guided_regex": "a", "top_logprobs": 0, "service_tier": "auto"});
    assert_eq!(chat(server.address(), silent).json()["ffwd"]["warnings"], json!([]));
}

#[test]
fn a_prediction_is_a_draft() {
    let server = server(|_| {});
    let text = "Zanzibar quickly 8814 jumped over lazy vox populi";
    let mut more = json!({"guided_choice": [text, "Zanzibar quietly"], "ffwd": {"forced_runs": false, "draft_model": false}});
    let without = chat(server.address(), more.clone());
    let content = without.content();
    more["prediction"] = json!({"type": "content", "content": content});
    let with = chat(server.address(), more);
    assert_eq!(with.content(), content);
    let copied = |answer: &Answer| answer.json()["ffwd"]["accepted_by_source"]["lookup"].as_u64().unwrap();
    assert!(copied(&with) > copied(&without), "{with:?} {without:?}");
}
