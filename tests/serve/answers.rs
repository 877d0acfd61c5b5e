//! Answers of all endpoints; the clients' own packages are in `tests/clients`.

use serde_json::{Value, json};

use crate::client::{chat, get, post, server};

fn bill() -> Value {
    json!({"type": "object", "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}},
        "required": ["vendor", "total"]})
}

fn format(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "bill", "schema": schema}})
}

#[test]
fn an_answer_is_that_of_the_library() {
    let server = server(|_| {});
    let answer = chat(server.address(), json!({"response_format": format(&bill())}));
    let engine = ffwd::Engine::embedded().unwrap();
    let record = engine.extract_json(bill().to_string(), "Acme Ltd. Total: 12.50 EUR").unwrap();
    let content: Value = serde_json::from_str(&answer.content()).unwrap();
    assert_eq!(content, record.record);
    let body = answer.json();
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"]["completion_tokens"], record.stats.tokens);
    assert_eq!(body["ffwd"]["tokens"], record.stats.tokens);
    assert!(body["ffwd"]["forwards"].as_u64() < body["ffwd"]["tokens"].as_u64());
}

#[test]
fn a_stream_has_the_parts_of_the_answer() {
    let server = server(|_| {});
    for more in [
        json!({"response_format": format(&bill())}),
        json!({"max_tokens": 20}),
        json!({"max_tokens": 20, "temperature": 1.0, "seed": 5, "n": 3}),
        json!({"tool_choice": "required", "max_tokens": 60, "tools": [{"type": "function", "function":
            {"name": "pay", "parameters": bill()}}]}),
    ] {
        let whole = chat(server.address(), more.clone()).json();
        let mut more = more;
        more["stream"] = true.into();
        more["stream_options"] = json!({"include_usage": true});
        let events = chat(server.address(), more).events();
        let choices = whole["choices"].as_array().unwrap();
        for (index, choice) in choices.iter().enumerate() {
            let (mut content, mut arguments, mut reasons) = (String::new(), String::new(), Vec::new());
            let own = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
            for part in own.filter(|part| part["index"] == index) {
                content += part["delta"]["content"].as_str().unwrap_or_default();
                for call in part["delta"]["tool_calls"].as_array().into_iter().flatten() {
                    arguments += call["function"]["arguments"].as_str().unwrap_or_default();
                }
                reasons.extend(part["finish_reason"].as_str());
            }
            let calls = choice["message"]["tool_calls"].as_array().into_iter().flatten();
            let wanted: String = calls.map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
            assert_eq!(content, choice["message"]["content"].as_str().unwrap_or_default());
            assert_eq!((arguments, reasons), (wanted, vec![choice["finish_reason"].as_str().unwrap()]));
        }
        let usage = &events.last().unwrap()["usage"];
        assert_eq!(usage["completion_tokens"], whole["usage"]["completion_tokens"]);
    }
}

#[test]
fn a_reply_with_tools_and_a_format_is_one_of_both() {
    let server = server(|_| {});
    let tools = json!([{"type": "function", "function": {"name": "pay", "parameters": bill()}}]);
    let more = json!({"tools": tools, "response_format": format(&bill()), "max_tokens": 200});
    let answer = chat(server.address(), more).json();
    let message = &answer["choices"][0]["message"];
    let text = match &message["tool_calls"][0]["function"]["arguments"] {
        Value::String(arguments) => arguments.clone(),
        _ => message["content"].as_str().unwrap().to_owned(),
    };
    let record: Value = serde_json::from_str(&text).unwrap();
    assert!(record["vendor"].is_string() && record["total"].is_number(), "{answer}");
}

#[test]
fn texts_become_tokens_and_back() {
    let server = server(|_| {});
    let address = server.address();
    let tokens = post(address, "/tokenize", &json!({"prompt": "Acme Ltd", "return_token_strs": true})).json();
    let strings = tokens["token_strs"].as_array().unwrap().iter();
    assert_eq!(strings.map(|text| text.as_str().unwrap()).collect::<String>(), "Acme Ltd");
    let text = post(address, "/detokenize", &json!({"tokens": tokens["tokens"]})).json();
    assert_eq!(text["prompt"], "Acme Ltd");
    assert_eq!(
        post(address, "/tokenize", &json!({"content": "Acme Ltd"})).json()["tokens"],
        tokens["tokens"]
    );
    let chat =
        post(address, "/tokenize", &json!({"messages": [{"role": "user", "content": "Acme Ltd"}]})).json();
    assert!(chat["count"].as_u64() > tokens["count"].as_u64());
    // Special tokens in a raw prompt are tokens, those in a message are text.
    let turn = "<|im_start|>user\nAcme Ltd<|im_end|>\n<|im_start|>assistant\n";
    let read = |body: Value| post(address, "/tokenize", &body).json()["tokens"].clone();
    assert_eq!(read(json!({"prompt": turn})), chat["tokens"]);
    for split in [json!({"parse_special": false}), json!({"split_special_tokens": true})] {
        let mut body = json!({"prompt": turn});
        body.as_object_mut().unwrap().extend(split.as_object().unwrap().clone());
        assert!(read(body).as_array().unwrap().len() > chat["tokens"].as_array().unwrap().len());
    }
    let in_message = json!({"messages": [{"role": "user", "content": turn}]});
    let starts = |tokens: &Value| tokens.as_array().unwrap().iter().filter(|id| **id == 1).count();
    assert_eq!((starts(&chat["tokens"]), starts(&read(in_message))), (2, 2));
    let tool = json!([{"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}]);
    let messages = json!([{"role": "user", "content": "Acme Ltd"}]);
    let with_tools = read(json!({"messages": messages, "tools": tool}));
    assert!(with_tools.as_array().unwrap().len() > chat["tokens"].as_array().unwrap().len());
    let closed = read(json!({"messages": messages, "add_generation_prompt": false}));
    assert_eq!(starts(&closed), 1);
    // Tokens are a prompt, too, with the same answer.
    let answer = |prompt: &Value| {
        let body = json!({"prompt": prompt, "max_tokens": 8, "temperature": 0});
        post(address, "/v1/completions", &body).json()["choices"][0]["text"].clone()
    };
    assert_eq!(answer(&json!(turn)), answer(&chat["tokens"]));
    assert_eq!(answer(&json!([turn])), answer(&chat["tokens"]));
}

#[test]
fn what_has_run_is_counted() {
    let server = server(|_| {});
    let address = server.address();
    let answer = chat(address, json!({"response_format": format(&bill())})).json();
    let page = get(address, "/metrics").body;
    let tokens = answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(page.contains(&format!("ffwd_output_tokens_total {tokens}\n")), "{page}");
    assert!(page.contains("ffwd_requests_total{endpoint=\"/v1/chat/completions\",status=\"200\"} 1\n"));
    assert!(page.contains("ffwd_threads{model=\""), "{page}");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(!name.is_empty() && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn thinking_comes_before_the_answer_and_has_a_budget() {
    let server = server(|_| {});
    for stream in [false, true] {
        let more = json!({"guided_regex": "[a-c]{3}", "reasoning_effort": "minimal", "stream": stream, "stop": "zz"});
        let answer = chat(server.address(), more);
        let text = |name: &str| answer.part(name);
        let content = text("content");
        assert!(content.len() == 3 && content.bytes().all(|b| b"abc".contains(&b)), "{content:?}");
        assert!(!text("reasoning_content").is_empty() && !text("reasoning_content").contains("</think>"));
    }
    let without =
        chat(server.address(), json!({"guided_regex": "[a-c]{3}", "reasoning_effort": "none"})).json();
    assert!(without["choices"][0]["message"]["reasoning_content"].is_null());
}

#[test]
fn a_custom_tool_follows_its_grammar() {
    let server = server(|_| {});
    let grammar = |syntax: &str, definition: &str| {
        json!({"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar",
            "grammar": {"syntax": syntax, "definition": definition}}}})
    };
    for (tool, want) in [
        (grammar("regex", "select [0-9]"), "select "),
        (grammar("lark", "start: \"drop \" (\"a\" | \"b\")"), "drop "),
    ] {
        for choice in [json!("required"), json!({"type": "custom", "custom": {"name": "sql"}})] {
            let more = json!({"tools": [tool], "tool_choice": choice});
            let call = chat(server.address(), more).json()["choices"][0]["message"]["tool_calls"][0].clone();
            assert!(call["custom"]["input"].as_str().unwrap().starts_with(want), "{call}");
        }
    }
}

#[test]
fn the_most_probable_tokens_are_reported() {
    let server = server(|_| {});
    let more = json!({"guided_regex": "[a-c]{3}", "logprobs": true, "top_logprobs": 3});
    let answer = chat(server.address(), more).json();
    let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert!(!content.is_empty());
    for token in content {
        let top: Vec<f64> = token["top_logprobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| own["logprob"].as_f64().unwrap())
            .collect();
        assert!(top.len() == 3 && top.is_sorted_by(|a, b| a >= b), "{token}");
        // Legal or not: the chosen one may be less probable.
        assert!(token["logprob"].as_f64().unwrap() <= top[0], "{token}");
    }
    let body = json!({"prompt": "Total: ", "max_tokens": 2, "logprobs": 2, "seed": 1});
    let text = post(server.address(), "/v1/completions", &body).json();
    let top = text["choices"][0]["logprobs"]["top_logprobs"].as_array().unwrap().clone();
    assert!(top.len() == 2 && top.iter().all(|own| own.as_object().unwrap().len() == 2), "{text}");
}

#[test]
fn thinking_leaves_room_for_the_answer() {
    let server = server(|_| {});
    let more = json!({"guided_regex": "[a-c]{12}", "reasoning_effort": "high", "max_tokens": 40});
    let answer = chat(server.address(), more).json();
    assert_eq!(answer["choices"][0]["message"]["content"].as_str().unwrap().len(), 12, "{answer}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[test]
fn messages_have_blocks_whole_and_streamed() {
    let server = server(|_| {});
    let tool = json!({"name": "pay", "input_schema": bill(), "cache_control": {"type": "ephemeral"}});
    let result = json!([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "paid"}]},
        {"type": "text", "text": "And now?"}]);
    let call = json!([{"type": "text", "text": "I pay."}, {"type": "tool_use", "id": "a", "name": "pay", "input": {}}]);
    let talk = json!([{"role": "user", "content": "Acme Ltd. Total: 12.50 EUR"}]);
    let long = json!([talk[0], {"role": "assistant", "content": call}, {"role": "user", "content": result}]);
    let schema = json!({"format": {"type": "json_schema", "schema": bill()}});
    for (more, reason, kind) in [
        (json!({"messages": talk, "output_config": schema}), "end_turn", "text"),
        (json!({"messages": long, "tools": [tool], "tool_choice": {"type": "any"}}), "tool_use", "tool_use"),
        (json!({"messages": talk, "max_tokens": 3, "system": "Be brief."}), "max_tokens", "text"),
        (json!({"messages": talk, "guided_regex": "a+b", "stop_sequences": ["b"]}), "stop_sequence", "text"),
        (
            json!({"messages": talk, "guided_regex": "[a-c]{3}", "thinking": {"type": "enabled", "budget_tokens": 9}}),
            "end_turn",
            "thinking",
        ),
    ] {
        let mut body = json!({"max_tokens": 200});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let whole = post(server.address(), "/v1/messages", &body).json();
        assert_eq!(
            (&whole["stop_reason"], &whole["content"][0]["type"]),
            (&reason.into(), &kind.into()),
            "{whole}"
        );
        let counted = post(server.address(), "/v1/messages/count_tokens", &body).json();
        let usage = &whole["usage"];
        let sum =
            usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
        assert_eq!(counted["input_tokens"], sum);
        body["stream"] = true.into();
        let answer = post(server.address(), "/v1/messages", &body);
        let mut blocks: Vec<Value> = Vec::new();
        let mut ended = Value::Null;
        for line in answer.body.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let event: Value = serde_json::from_str(line).unwrap();
            match event["type"].as_str().unwrap() {
                "content_block_start" => blocks.push(event["content_block"].clone()),
                "content_block_delta" => {
                    let delta = event["delta"].as_object().unwrap();
                    let (name, text) = delta.iter().find(|(name, _)| *name != "type").unwrap();
                    let block = blocks.last_mut().unwrap();
                    let so_far = block[name].as_str().unwrap_or_default().to_owned();
                    block[name] = (so_far + text.as_str().unwrap()).into();
                }
                "message_delta" => ended = event,
                _ => {}
            }
        }
        for block in blocks.iter_mut().filter(|block| block["type"] == "tool_use") {
            block["input"] = serde_json::from_str(block["partial_json"].as_str().unwrap()).unwrap();
            block.as_object_mut().unwrap().remove("partial_json");
            block["id"] = whole["content"][0]["id"].clone();
        }
        assert_eq!(Value::from(blocks), whole["content"], "{body}");
        assert_eq!(ended["delta"]["stop_reason"], whole["stop_reason"]);
        assert_eq!(ended["usage"]["output_tokens"], usage["output_tokens"]);
    }
    let refused =
        post(server.address(), "/v1/messages", &json!({"messages": talk, "max_tokens": 1, "top": 2}));
    assert_eq!((refused.status, &refused.json()["type"]), (400, &"error".into()));
}

#[test]
fn arguments_are_those_that_the_schema_declares() {
    let server = server(|_| {});
    for seed in 0..8 {
        let schema = json!({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]});
        let tools = json!([{"type": "function", "function": {"name": "f", "parameters": schema}}]);
        let more = json!({"tools": tools, "tool_choice": "required", "parallel_tool_calls": false,
            "temperature": 2.0, "seed": seed, "max_tokens": 100});
        let answer = chat(server.address(), more).json();
        let text =
            answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"a": 1}), "{answer}");
    }
}
