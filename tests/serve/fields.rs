//! Fields: those of other servers are honoured, and what cannot be honoured is a fault that names it.

use serde_json::{Value, json};

use crate::client::{Answer, chat, post, server};

/// The field that a fault names.
fn param(answer: &Answer) -> String {
    assert_eq!(answer.status, 400, "{answer:?}");
    answer.json()["error"]["param"].as_str().unwrap().to_owned()
}

#[test]
fn constraints_of_other_servers_are_honoured() {
    let server = server(|_| {});
    let tag = json!({"type": "const_string", "value": "x"});
    let whole = json!({"type": "structural_tag", "format": tag}).to_string();
    for (more, want) in [
        (json!({"structured_outputs": {"choice": ["red"]}}), "red"),
        (json!({"structured_outputs": {"regex": "r{3}"}}), "rrr"),
        (json!({"structured_outputs": {"json": {"const": [1, 2]}, "disable_any_whitespace": true}}), "[1,2]"),
        (json!({"structured_outputs": {"grammar": "root ::= \"x\""}}), "x"),
        (json!({"structured_outputs": {"structural_tag": whole}}), "x"),
        (json!({"response_format": {"type": "structural_tag", "format": tag}}), "x"),
        (json!({"guided_json": {"const": 1}}), "1"),
        (json!({"guided_json": "{\"const\": 1}"}), "1"),
        (json!({"guided_regex": "ab"}), "ab"),
        (json!({"guided_choice": ["y"]}), "y"),
        (json!({"guided_grammar": "start: \"z\""}), "z"),
        (json!({"grammar": "root ::= \"x\""}), "x"),
        (json!({"json_schema": {"const": "a"}}), "\"a\""),
        (json!({"response_format": {"type": "json_object", "schema": {"const": 2}}}), "2"),
        (json!({"regex": "q"}), "q"),
        (json!({"ebnf": "root ::= \"e\""}), "e"),
    ] {
        assert_eq!(chat(server.address(), more.clone()).content(), want, "{more}");
    }
}

#[test]
fn faults_name_their_field() {
    let server = server(|_| {});
    for (more, want) in [
        (json!({"temprature": 1}), "temprature"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schemas": {}}}}),
            "response_format.json_schema.schema",
        ),
        (json!({"response_format": {"type": "yaml"}}), "response_format.type"),
        (json!({"structured_outputs": {"xml": 1}}), "structured_outputs.xml"),
        (json!({"stream_options": {"usage": true}}), "stream_options.usage"),
        (json!({"stop": ["a", ""]}), "stop"),
        (json!({"stop": 3}), "stop"),
        (json!({"n": 0}), "n"),
        (json!({"n": 1.5}), "n"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_k": -3}), "top_k"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias.x"),
        (json!({"min_tokens": 2}), "min_tokens"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "a b", "content": "x"}]}), "messages[0]"),
        (json!({"messages": [{"role": "user", "content": 3}]}), "messages[0].content"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tools": [{"type": "function", "function": {}}]}), "tools"),
        (json!({"guided_regex": "(", "stream": true}), "guided_regex"),
        (json!({"guided_regex": "a", "guided_choice": ["b"]}), "guided_choice"),
        (json!({"guided_json": {"type": "strin"}}), "guided_json"),
        (json!({"reasoning_effort": "huge"}), "reasoning_effort"),
        (json!({"ffwd": {"mode": "fast"}}), "ffwd.mode"),
        (json!({"continue_final_message": true}), "continue_final_message"),
        (json!({"prediction": {"type": "content"}}), "prediction.content"),
    ] {
        assert_eq!(param(&chat(server.address(), more.clone())), want, "{more}");
    }
    let responses = |more: Value| {
        let mut body = json!({"input": "x"});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        param(&post(server.address(), "/v1/responses", &body))
    };
    assert_eq!(responses(json!({"previous_response_id": "r"})), "previous_response_id");
    assert_eq!(responses(json!({"input": [{"type": "computer_call"}]})), "input[0].type");
    assert_eq!(
        responses(json!({"text": {"format": {"type": "json_schema", "name": "x"}}})),
        "text.format.schema"
    );
    let completions = |body: Value| param(&post(server.address(), "/v1/completions", &body));
    assert_eq!(completions(json!({})), "prompt");
    assert_eq!(completions(json!({"prompt": [1, 2]})), "prompt");
    assert_eq!(completions(json!({"prompt": "x", "suffix": "y"})), "suffix");
}

#[test]
fn a_bad_schema_has_a_pointer_and_a_hint() {
    let server = server(|_| {});
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let error = chat(server.address(), json!({"response_format": format})).json()["error"].clone();
    assert_eq!(error["pointer"], "/properties/a/$ref", "{error}");
    assert_eq!(
        (&error["type"], &error["param"]),
        (&json!("invalid_request_error"), &json!("response_format.json_schema.schema"))
    );
    let misspelt = chat(server.address(), json!({"max_token": 3})).json();
    assert_eq!(misspelt["error"]["hint"], "did you mean `max_tokens`?");
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
