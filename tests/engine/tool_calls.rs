//! Tool calls in the styles of models: replies written by hand, random calls written here and read
//! back, and random walks through masks, whose calls an independent validator accepts.

mod harmony;

use ffwd::constraint::tools::{Calls, ToolCall, ToolChoice, ToolStyle, Tools};
use ffwd::{Compiler, ErrorKind, Policy, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;
use serde_json::{Map, Value, json};

/// The functions, and arguments that they take.
fn functions() -> Vec<(&'static str, Value, Vec<Value>)> {
    vec![
        (
            "get_weather",
            json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0}},
                "required": ["city"], "additionalProperties": false}),
            vec![
                json!({"city": "Oslo"}),
                json!({"city": "a \"b\" <c>\n", "days": 3}),
                json!({"city": "12", "days": 0}),
                json!({"city": ""}),
            ],
        ),
        (
            "get",
            json!({"$ref": "#/$defs/o", "$defs": {"o": {"type": "object", "properties": {
                "ids": {"type": "array", "items": {"type": "string"}}, "how": {"enum": ["all", "none", null]}},
                "additionalProperties": false}}}),
            vec![
                json!({}),
                json!({"ids": ["a<b", "é"]}),
                json!({"ids": [], "how": "all"}),
                json!({"how": null}),
            ],
        ),
        (
            "set",
            json!({"properties": {"at": {"anyOf": [{"type": "number"}, {"type": "boolean"}]}},
                "additionalProperties": {"type": ["string", "object"]}}),
            vec![json!({"at": 1.5}), json!({"at": true, "x": "y"}), json!({"x": {"a": [null]}, "z": "</b>"})],
        ),
        ("now", Value::Null, vec![json!({})]),
    ]
}

fn tools() -> Tools {
    let list: Vec<Value> = functions()
        .into_iter()
        .map(
            |(name, schema, _)| json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        )
        .collect();
    Tools::parse(&Value::from(list).to_string()).expect("valid")
}

/// The parameters of a call between tags.
fn tagged(
    arguments: &Map<String, Value>,
    one: impl Fn(&str, bool, String) -> String,
    between: &str,
) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let one = |(name, value): (&String, &Value)| one(name, value.is_string(), text(value));
    arguments.iter().map(one).collect::<Vec<_>>().join(between)
}

/// Calls as a model of the style writes them.
fn spelled(style: ToolStyle, calls: &[(&str, &Value)]) -> String {
    let map = |value: &Value| value.as_object().expect("arguments").clone();
    let call = |i: usize, (name, arguments): &(&str, &Value)| match style {
        ToolStyle::Hermes => {
            format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
        }
        ToolStyle::Llama => format!("{{\"name\": \"{name}\", \"parameters\": {arguments}}}"),
        ToolStyle::Mistral => format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}"),
        ToolStyle::MistralArgs => format!("[TOOL_CALLS]{name}[ARGS]{arguments}"),
        ToolStyle::QwenCoder => {
            let one = |name: &str, _, text| format!("<parameter={name}>\n{text}\n</parameter>");
            let parameters = tagged(&map(arguments), one, "\n");
            format!("<tool_call>\n<function={name}>\n{parameters}\n</function>\n</tool_call>")
        }
        ToolStyle::MiniMax => {
            let one = |name: &str, _, text| format!("<parameter name=\"{name}\">{text}</parameter>\n");
            format!("<invoke name=\"{name}\">\n{}</invoke>", tagged(&map(arguments), one, ""))
        }
        ToolStyle::DeepSeek => {
            format!("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>")
        }
        ToolStyle::DeepSeekDsml => {
            let one = |name: &str, string, text| {
                format!("<｜DSML｜parameter name=\"{name}\" string=\"{string}\">{text}</｜DSML｜parameter>\n")
            };
            format!("<｜DSML｜invoke name=\"{name}\">\n{}</｜DSML｜invoke>", tagged(&map(arguments), one, ""))
        }
        ToolStyle::Glm => {
            let one =
                |name: &str, _, text| format!("<arg_key>{name}</arg_key>\n<arg_value>{text}</arg_value>\n");
            format!("<tool_call>{name}\n{}</tool_call>", tagged(&map(arguments), one, ""))
        }
        ToolStyle::Kimi => {
            format!(
                "<|tool_call_begin|>functions.{name}:{i}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
            )
        }
        ToolStyle::Harmony => {
            format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}")
        }
        ToolStyle::FunctionTag => format!("<function={name}>{arguments}</function>"),
    };
    let calls: Vec<String> = calls.iter().enumerate().map(|(i, c)| call(i, c)).collect();
    match style {
        ToolStyle::Llama => calls.join("; "),
        ToolStyle::Mistral => format!("[TOOL_CALLS][{}]", calls.join(", ")),
        ToolStyle::MistralArgs => calls.concat(),
        ToolStyle::MiniMax => format!("<minimax:tool_call>\n{}\n</minimax:tool_call>", calls.join("\n")),
        ToolStyle::DeepSeek => format!("<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>", calls.concat()),
        ToolStyle::DeepSeekDsml => {
            format!("<｜DSML｜function_calls>\n{}\n</｜DSML｜function_calls>", calls.join("\n"))
        }
        ToolStyle::Kimi => {
            format!("<|tool_calls_section_begin|>{}<|tool_calls_section_end|>", calls.concat())
        }
        ToolStyle::Harmony => calls.join("<|call|><|start|>assistant"),
        _ => calls.join("\n"),
    }
}

/// Calls with a text before them.
fn behind(style: ToolStyle, text: &str, calls: &str) -> String {
    match style {
        ToolStyle::Harmony if !text.is_empty() => {
            format!("<|channel|>commentary<|message|>{text}<|end|><|start|>assistant{calls}")
        }
        _ => format!("{text}{calls}"),
    }
}

fn values(calls: &[ToolCall]) -> Vec<(&str, Value)> {
    let value = |text: &str| serde_json::from_str(text).expect("JSON");
    calls.iter().map(|call| (&*call.name, value(&call.arguments))).collect()
}

#[test]
fn what_is_written_is_accepted_and_read_back() {
    let (words, tools, functions) = (TestVocab::new(5, 80, &[]), tools(), functions());
    let compiler = Compiler::new(words.vocab.clone());
    for style in ToolStyle::ALL {
        let grammar = |calls: Calls, single: bool, policy: Policy| {
            let constraint = tools.constraint(style, &ToolChoice { calls, single }, policy).expect("valid");
            compiler.compile(&constraint).expect("satisfiable")
        };
        let plain = Policy::default;
        let (auto, required) =
            (grammar(Calls::Auto, false, plain()), grammar(Calls::Required, false, plain()));
        let (one, single) =
            (grammar(Calls::Function("get".into()), false, plain()), grammar(Calls::Required, true, plain()));
        let flexible = Policy { whitespace: Whitespace::Flexible { max: 2 }, ..Policy::default() };
        let flexible = grammar(Calls::Auto, false, flexible);
        let mut random = Random::new(style.name().len() as u64);
        for _ in 0..120 {
            let calls: Vec<(&str, &Value)> = (0..1 + random.below(3))
                .map(|_| {
                    let (name, _, arguments) = random.pick(&functions);
                    (*name, random.pick(arguments))
                })
                .collect();
            let text = spelled(style, &calls);
            let expected: Vec<_> = calls.iter().map(|(name, value)| (*name, (*value).clone())).collect();
            // The turn ends with the call.
            let writable = style != ToolStyle::Harmony || calls.len() == 1;
            for before in ["", "Let me see. <", "é\n"] {
                let reply = behind(style, before, &text);
                assert_eq!(words.accepts(&auto, &reply), writable, "{style:?}: {reply}");
                assert_eq!(words.accepts(&flexible, &reply), writable, "flexible {style:?}: {reply}");
                let calls_only = writable && before.is_empty();
                assert_eq!(words.accepts(&required, &reply), calls_only, "{style:?}: {reply}");
                let read = tools.read(style, &reply).expect("well written");
                assert_eq!(
                    (&*read.text, values(&read.calls)),
                    (before, expected.clone()),
                    "{style:?}: {reply}"
                );
            }
            assert_eq!(words.accepts(&single, &text), calls.len() == 1, "{style:?}: {text}");
            let only_get = calls.len() == 1 && calls[0].0 == "get";
            assert_eq!(words.accepts(&one, &text), only_get, "{style:?}: {text}");
            // Without its last character a call is not complete, and that is said.
            let cut = &text[..text.len() - 1];
            let complete = words.accepts(&auto, cut);
            assert!(!complete, "{style:?}: {cut}");
            let error = tools.read(style, cut).expect_err(cut);
            assert_eq!(error.kind(), ErrorKind::InvalidReply, "{error}");
        }
        // No function has the name, a number of days is not negative, and a city is required.
        let city = json!({"city": "Oslo", "days": -1});
        for (name, arguments) in
            [("unknown", &json!({})), ("get_weather", &city), ("get_weather", &json!({}))]
        {
            let text = spelled(style, &[(name, arguments)]);
            assert!(!words.accepts(&auto, &text), "{style:?}: {text}");
        }
        let none = if style == ToolStyle::Harmony { harmony::answer("No call.") } else { "No call.".into() };
        assert!(words.accepts(&auto, &none) && !words.accepts(&required, &none), "{style:?}");
    }
}

#[test]
fn random_walks_are_read_and_valid() {
    let (words, tools) = (TestVocab::new(5, 80, &[]), tools());
    let compiler = Compiler::new(words.vocab.clone());
    let validators: Vec<_> = functions()
        .into_iter()
        .map(|(name, schema, _)| {
            let none = json!({"type": "object", "additionalProperties": false});
            let schema = if schema.is_null() { none } else { schema };
            (name, jsonschema::validator_for(&schema).expect("valid"))
        })
        .collect();
    let mut seen = 0;
    for (i, style) in ToolStyle::ALL.into_iter().enumerate() {
        for (j, calls) in [Calls::Auto, Calls::Required].into_iter().enumerate() {
            let choice = ToolChoice { calls, single: false };
            let constraint = tools.constraint(style, &choice, Policy::default()).expect("valid");
            let grammar = compiler.compile(&constraint).expect("satisfiable");
            for case in 0..25 {
                let mut random = Random::new(1000 * i as u64 + 100 * j as u64 + case);
                let mut matcher = grammar.matcher();
                let mut text = Vec::new();
                let start = spelled(style, &[("get", &json!({}))]);
                // Calls are not met by chance, nor is the end of a message.
                let start = &start[..start.find("get").expect("its name")];
                let starts = [start.to_owned(), format!("<|end|><|start|>assistant{start}")];
                let starts = &starts[..if style == ToolStyle::Harmony { 2 } else { 1 }];
                for step in 0..random.below(300) {
                    if matcher.is_terminated() {
                        break;
                    }
                    let legal: Vec<u32> = ffwd_testkit::vocab::row(&mut matcher).into_iter().collect();
                    let token = words.tokens[*random.pick(&legal) as usize].clone();
                    let ways = if step % 60 == 5 {
                        starts.iter().map(String::as_bytes).collect()
                    } else {
                        vec![&token[..]]
                    };
                    for way in ways {
                        let mut next = matcher.fork();
                        if way.iter().all(|&b| next.accept_token(words.byte(b)).is_ok()) {
                            matcher = next;
                            text.extend_from_slice(way);
                            break;
                        }
                    }
                }
                text.extend_from_slice(&matcher.shortest_completion(1 << 16).expect("a way to the end"));
                let text = String::from_utf8(text).expect("only text is written");
                let reply = tools.read(style, &text).unwrap_or_else(|e| panic!("{e}: {style:?} {text}"));
                for (name, arguments) in values(&reply.calls) {
                    let validator = &validators.iter().find(|v| v.0 == name).expect("a known name").1;
                    assert!(validator.is_valid(&arguments), "{arguments} of {style:?} {text}");
                    seen += 1;
                }
            }
        }
    }
    println!("{seen} calls");
    assert!(seen > 300, "{seen}");
}

/// Replies as they stand in the models' documents.
#[test]
fn replies_of_models() {
    let tools = tools();
    let read = |style, reply: &str| {
        let reply = tools.read(style, reply).unwrap_or_else(|e| panic!("{e}: {reply}"));
        let calls: Vec<_> = reply.calls.iter().map(|c| format!("{} {}", c.name, c.arguments)).collect();
        (reply.text, calls.join(" | "))
    };
    let oslo = r#"get_weather {"city": "Oslo"}"#;
    assert_eq!(
        read(
            ToolStyle::Hermes,
            "Hm.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"
        ),
        ("Hm.\n".into(), oslo.into())
    );
    assert_eq!(
        read(
            ToolStyle::Kimi,
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Oslo\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
        ),
        (String::new(), format!("{oslo} | now {{}}"))
    );
    assert_eq!(
        read(
            ToolStyle::QwenCoder,
            "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
        ),
        (String::new(), r#"get_weather {"city":"12","days":3}"#.into())
    );
    // Keys and values on one line, as GLM 4.7 writes them.
    assert_eq!(
        read(
            ToolStyle::Glm,
            "<tool_call>get<arg_key>ids</arg_key><arg_value>[\"a\"]</arg_value></tool_call>"
        ),
        (String::new(), r#"get {"ids":["a"]}"#.into())
    );
    // A value that could be either is what the style says, or JSON.
    let either = |style, reply: &str| read(style, reply).1;
    assert_eq!(
        either(
            ToolStyle::DeepSeekDsml,
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"set\">\n<｜DSML｜parameter name=\"x\" string=\"true\">{}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
        ),
        r#"set {"x":"{}"}"#
    );
    assert_eq!(
        either(
            ToolStyle::MiniMax,
            "<minimax:tool_call>\n<invoke name=\"set\">\n<parameter name=\"x\">{}</parameter>\n</invoke>\n</minimax:tool_call>"
        ),
        r#"set {"x":{}}"#
    );
    let error = tools.read(ToolStyle::Hermes, "<tool_call>\n{\"name\": \"gat").expect_err("no such name");
    assert!(error.to_string().contains("byte 22 of the reply is not the name of a tool"), "{error}");
}

/// What templates write in a second way comes through the constraint, and is read back.
#[test]
fn second_spellings() {
    let (words, tools) = (TestVocab::new(5, 80, &[]), tools());
    let compiler = Compiler::new(words.vocab.clone());
    let policy = Policy { whitespace: Whitespace::SingleSpace, ..Policy::default() };
    let city = r#"{"name": "get_weather", "arguments": {"city": "Oslo"}}"#;
    let oslo = ("get_weather", json!({"city": "Oslo"}));
    let now = ("now", json!({}));
    for (style, reply, calls) in [
        (ToolStyle::Mistral, format!("[TOOL_CALLS] [{city}]"), vec![oslo.clone()]),
        (
            ToolStyle::Mistral,
            format!(r#"[TOOL_CALLS] [{city}, {{"name": "now", "arguments": {{}}}}]"#),
            vec![oslo.clone(), now.clone()],
        ),
        (
            ToolStyle::MistralArgs,
            r#"[TOOL_CALLS]get_weather[CALL_ID]Ab3d5f7H9[ARGS]{"city": "Oslo"}[TOOL_CALLS]now[ARGS]{}"#.into(),
            vec![oslo.clone(), now.clone()],
        ),
        (
            ToolStyle::QwenCoder,
            "<tool_call>\n<function=now>\n</function>\n</tool_call>".into(),
            vec![now.clone()],
        ),
        (ToolStyle::Glm, "<tool_call>now\n</tool_call>".into(), vec![now.clone()]),
        (
            ToolStyle::DeepSeekDsml,
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
                .into(),
            vec![now.clone()],
        ),
        (
            ToolStyle::MiniMax,
            "<minimax:tool_call>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>".into(),
            vec![now.clone()],
        ),
    ] {
        for kind in [Calls::Auto, Calls::Required] {
            let choice = ToolChoice { calls: kind, single: false };
            let constraint = tools.constraint(style, &choice, policy.clone()).expect("valid");
            let grammar = compiler.compile(&constraint).expect("satisfiable");
            assert!(words.accepts(&grammar, &reply), "{style:?}: {reply}");
        }
        let read = tools.read(style, &reply).unwrap_or_else(|e| panic!("{e}: {reply}"));
        assert_eq!(values(&read.calls), calls, "{reply}");
        assert!(read.text.is_empty(), "{reply}");
    }
    // A function that needs arguments has no call without them.
    let constraint = tools.constraint(ToolStyle::QwenCoder, &ToolChoice::default(), policy).expect("valid");
    let grammar = compiler.compile(&constraint).expect("satisfiable");
    assert!(!words.accepts(&grammar, "<tool_call>\n<function=get_weather>\n</function>\n</tool_call>"));
    // Read, but not written: other white space, order and members.
    for (style, reply) in [
        (ToolStyle::Hermes, r#"<tool_call>{"arguments":{"city":"Oslo"},"name":"get_weather"}</tool_call>"#),
        (
            ToolStyle::Mistral,
            r#"[TOOL_CALLS] [ {"name":"get_weather","arguments":{"city":"Oslo"},"id":"a"} ]"#,
        ),
        (ToolStyle::Llama, r#"{"name": "get_weather", "type": "function", "parameters": {"city":"Oslo"}}"#),
    ] {
        let read = tools.read(style, reply).unwrap_or_else(|e| panic!("{e}: {reply}"));
        assert_eq!(values(&read.calls), std::slice::from_ref(&oslo), "{reply}");
    }
}

/// The function in front of the channel or behind it, with and without the mark of its type.
#[test]
fn replies_in_channels() {
    let tools = tools();
    let read = |reply: &str| {
        let reply = tools.read(ToolStyle::Harmony, reply).unwrap_or_else(|e| panic!("{e}: {reply}"));
        let calls: Vec<_> = reply.calls.iter().map(|c| format!("{} {}", c.name, c.arguments)).collect();
        (reply.thoughts, reply.text, calls.join(" | "))
    };
    let none = String::new;
    let oslo = r#"get_weather {"city": "Oslo"}"#;
    let call = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\"}<|call|>";
    let thought = "<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant";
    assert_eq!(read(&format!("{thought}{call}")), ("Need weather.".into(), none(), oslo.to_owned()));
    for header in [
        " to=functions.get_weather<|channel|>commentary json",
        "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json",
        "<|channel|>commentary to=functions.get_weather<|constrain|>json",
        "<|channel|>commentary to=functions.get_weather",
    ] {
        let reply = format!("{header}<|message|>{{\"city\": \"Oslo\"}}<|call|>");
        assert_eq!(read(&reply), (none(), none(), oslo.to_owned()));
    }
    let preamble = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant";
    let answer = "<|channel|>final<|message|>Cold.<|return|>";
    let reply = format!("{thought}{preamble}{call}<|start|>assistant{thought}{answer}");
    assert_eq!(
        read(&reply),
        ("Need weather.\nNeed weather.".into(), "I look.\nCold.".into(), oslo.to_owned())
    );
    let error = tools.read(ToolStyle::Harmony, "<|channel|>analysis<|message|>Hm").expect_err("not whole");
    assert!(error.to_string().contains("breaks off in a message: \"<|end|>\" is missing"), "{error}");
}

/// Random messages in all forms, with and without random faults, against a slow reader of the
/// test's own.
#[test]
fn messages_in_channels() {
    let (words, tools, functions) = (TestVocab::new(5, 80, &[]), tools(), functions());
    let compiler = Compiler::new(words.vocab.clone());
    let slow = harmony::Slow::new(functions.iter().map(|(name, schema, _)| (*name, schema)));
    let calls: Vec<(&str, String)> =
        functions.iter().flat_map(|f| f.2.iter().map(|value| (f.0, value.to_string()))).collect();
    let choices = [Calls::Auto, Calls::Required, Calls::Function("get".into())];
    let grammars = choices.clone().map(|calls| {
        let choice = ToolChoice { calls, single: false };
        let constraint = tools.constraint(ToolStyle::Harmony, &choice, Policy::default()).expect("valid");
        compiler.compile(&constraint).expect("satisfiable")
    });
    let (mut written, mut read, mut several) = ([0; 3], 0, 0);
    for case in 0..6_000 {
        let mut random = Random::new(case);
        let text = harmony::text(&mut random, &calls);
        for (i, (grammar, choice)) in grammars.iter().zip(&choices).enumerate() {
            let expected = slow.is_written(&text, choice);
            assert_eq!(words.accepts(grammar, &text), expected, "{choice:?}: {text}");
            written[i] += usize::from(expected);
        }
        let found = tools.read(ToolStyle::Harmony, &text);
        let found = found.as_ref().ok().map(|r| (r.thoughts.clone(), r.text.clone(), values(&r.calls)));
        let expected = slow.read(&text);
        several += usize::from(expected.as_ref().is_some_and(|(_, _, calls)| calls.len() > 1));
        read += usize::from(expected.is_some());
        assert_eq!(found, expected, "{text}");
    }
    println!("{written:?} can be written, {read} can be read, {several} of them with several calls");
    assert!(written[0] > 600 && written[1] > 150 && written[2] > 50, "{written:?}");
    assert!((1_500..5_000).contains(&read) && several > 100, "{read} {several}");
}
