//! Tool calls in the styles of models: replies written by hand, random calls written here and read
//! back, and random walks through masks, whose calls an independent validator accepts.

mod harmony;

use ffwd::constraint::tools::{Calls, ToolCall, ToolChoice, ToolStyle, Tools};
use ffwd::{Compiler, ErrorKind, Policy, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;
use serde::Deserialize;
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

/// A value as a literal of Python with JSON's strings.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let one =
                |(name, value): (&String, &Value)| format!("{}:{}", Value::from(&**name), python(value));
            format!("{{{}}}", members.iter().map(one).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
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
        ToolStyle::Lfm2 => {
            let arguments: Vec<String> =
                map(arguments).iter().map(|(name, value)| format!("{name}={}", python(value))).collect();
            format!("{name}({})", arguments.join(", "))
        }
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
        ToolStyle::Lfm2 => format!("<|tool_call_start|>[{}]<|tool_call_end|>", calls.join(", ")),
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

/// A reply of a model, and what it holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    style: String,
    reply: String,
    #[serde(default)]
    thoughts: String,
    #[serde(default)]
    text: String,
    /// Names and arguments.
    #[serde(default)]
    calls: Vec<String>,
    /// Whether the constraint writes it, too.
    #[serde(default)]
    written: bool,
    /// Whether only `auto` writes it, or does not.
    auto: Option<bool>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Replies {
    replies: Vec<Reply>,
}

/// Replies as they stand in the models' documents, and what templates write in a second way.
#[test]
fn replies_of_models() {
    let (words, tools) = (TestVocab::new(5, 80, &[]), tools());
    let compiler = Compiler::new(words.vocab.clone());
    let list: Replies = super::examples::read("tool_replies");
    for Reply { style, reply, thoughts, text, calls, written, auto, error } in &list.replies {
        let style = *ToolStyle::ALL.iter().find(|s| s.name() == style).expect(style);
        match (tools.read(style, reply), error) {
            (Ok(read), None) => {
                let found: Vec<_> =
                    read.calls.iter().map(|c| format!("{} {}", c.name, c.arguments)).collect();
                assert_eq!((&read.thoughts, &read.text, &found), (thoughts, text, calls), "{reply}");
            }
            (Err(found), Some(part)) => assert!(found.to_string().contains(part), "{reply}: {found}"),
            (read, _) => panic!("{reply}: {read:?}"),
        }
        for (kind, wanted) in [(Calls::Auto, *auto), (Calls::Required, auto.map(|_| false))] {
            let Some(wanted) = wanted.or(written.then_some(true)) else { continue };
            let policy = Policy { whitespace: Whitespace::SingleSpace, ..Policy::default() };
            let choice = ToolChoice { calls: kind, single: false };
            let constraint = tools.constraint(style, &choice, policy).expect("valid");
            let grammar = compiler.compile(&constraint).expect("satisfiable");
            assert_eq!(words.accepts(&grammar, reply), wanted, "{style:?}: {reply}");
        }
    }
    assert!(list.replies.len() >= 24);
}

/// Arguments of all functions, given to each of them, in other spellings than the style's: a call is read
/// if an independent validator accepts its arguments, with its keys in any order.
#[test]
fn calls_in_any_spelling_are_read_if_their_arguments_are_valid() {
    let tools = tools();
    let all = functions();
    let wrong =
        [json!({"city": 3}), json!({"days": 2, "city": "x"}), json!({"ids": [1]}), json!({"at": null})];
    let values: Vec<&Value> = all.iter().flat_map(|(_, _, values)| values).chain(&wrong).collect();
    let mut read = [0; 2];
    for (name, schema, _) in &all {
        let none = json!({"type": "object", "additionalProperties": false});
        let validator = jsonschema::validator_for(if schema.is_null() { &none } else { schema }).unwrap();
        for &value in &values {
            let members = value.as_object().unwrap().iter();
            let python = |value: &Value| value.to_string().replace("null", "None").replace("true", "True");
            let named: Vec<String> =
                members.map(|(name, value)| format!("{name}={}", python(value))).collect();
            let object = json!({"arguments": value, "name": name});
            let mut replies = vec![
                format!("Well.\n```json\n{object:#}\n```"),
                format!(
                    "[{}]",
                    json!({"type": "function", "function": {"name": name, "arguments": value.to_string()}})
                ),
                format!("<function_call>{object}</function_call>"),
                format!("```python\n{name}({})\n```", named.join(", ")),
            ];
            // In these styles the arguments are JSON.
            for style in [ToolStyle::Hermes, ToolStyle::MistralArgs, ToolStyle::Kimi, ToolStyle::FunctionTag]
            {
                replies.push(spelled(style, &[(name, value)]));
            }
            for reply in replies {
                let valid = validator.is_valid(value);
                let calls = tools.read_other(&reply, &Policy::default()).map(|reply| reply.calls);
                let found = calls.iter().flatten().map(|call| (&*call.name, call.arguments.parse().unwrap()));
                let want = valid.then(|| (*name, value.clone()));
                assert_eq!(found.collect::<Vec<(&str, Value)>>(), Vec::from_iter(want), "{reply}");
                read[usize::from(valid)] += 1;
            }
        }
    }
    assert!(read[0] > 100 && read[1] > 100, "{read:?}");
}

/// Each name is a text to look for in every spelling, which long lists do without.
#[test]
fn lists_of_any_length_have_a_constraint() {
    for count in [128, 129, 4_096] {
        let tools: Vec<Value> =
            (0..count).map(|i| json!({"name": format!("some_service_function_number_{i}")})).collect();
        let tools = Tools::parse(&Value::from(tools).to_string()).expect("valid");
        let strays = tools.stray_calls(ToolStyle::Hermes).map(|list| list.len());
        assert_eq!(strays, if count == 128 { [4 * count; 2] } else { [0; 2] });
        tools.constraint(ToolStyle::Hermes, &ToolChoice::default(), Policy::default()).expect("valid");
    }
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

/// The arguments of a call in Python as JSON, by a reader without a grammar: names before `=`, and three words.
fn json_of_python(arguments: &str) -> String {
    let (mut out, mut word, mut in_string, mut escaped) = (String::from("{"), String::new(), false, false);
    for c in arguments.chars().chain([' ']) {
        if !in_string && (c.is_alphanumeric() || "_-.+".contains(c)) {
            word.push(c);
            continue;
        }
        out += &match (std::mem::take(&mut word).as_str(), c) {
            (name, '=') if !in_string => format!("\"{name}\":"),
            ("True", _) => "true".to_owned(),
            ("False", _) => "false".to_owned(),
            ("None", _) => "null".to_owned(),
            (other, _) => other.to_owned(),
        };
        if in_string || c != '=' {
            out.push(c);
        }
        (in_string, escaped) = match c {
            _ if escaped => (true, false),
            '\\' if in_string => (true, true),
            '"' => (!in_string, false),
            _ => (in_string, false),
        };
    }
    out + "}"
}

/// Calls in Python under schemas of all kinds: random walks through masks are read by the parser and by a
/// reader of the test's own, with the same values, and an independent validator accepts them.
#[test]
fn calls_in_python_are_literals_of_any_schema() {
    let words = TestVocab::new(5, 80, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let tree = json!({"type": "object", "properties": {"on": {"type": "boolean"}, "left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["on", "left"], "additionalProperties": false});
    let schemas = [
        tree,
        json!({"type": "object", "properties": {"any": true, "some": {"type": ["null", "boolean", "number"]}}, "required": ["any", "some"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"set": {"type": "array", "uniqueItems": true, "minItems": 2, "items": {"type": ["boolean", "null", "array"]}}},
            "required": ["set"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"words": {"type": "array", "uniqueItems": true, "minItems": 2, "items": {"enum": [true, false, null, "true"]}}},
            "required": ["words"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"kind": {"const": {"on": true, "say": "null \\\" true", "no": [null, false]}}, "text": {"enum": ["true", "a\"null\\", true]}},
            "required": ["kind", "text"], "additionalProperties": false}),
        json!({"type": "object", "patternProperties": {"^x_[a-c]$": {"type": "boolean"}}, "minProperties": 2, "additionalProperties": false}),
        json!({"const": {"a": true, "b": [1, null]}}),
        json!({"type": "object", "properties": {"text": {"type": "string", "minLength": 3, "maxLength": 5}, "big": {"const": 1e22}},
            "required": ["text"], "minProperties": 2, "additionalProperties": false}),
    ];
    let mut spelled_words = [0; 2];
    for (i, schema) in schemas.iter().enumerate() {
        let tools = Tools::parse(&json!([{"name": "f", "parameters": schema}]).to_string()).unwrap();
        let validator = jsonschema::validator_for(schema).unwrap();
        for whitespace in [Whitespace::Compact, Whitespace::SingleSpace, Whitespace::Flexible { max: 2 }] {
            let policy = Policy { whitespace, ..Policy::default() };
            let choice = ToolChoice { calls: Calls::Function("f".into()), single: true };
            let constraint = tools
                .constraint(ToolStyle::Lfm2, &choice, policy)
                .unwrap_or_else(|e| panic!("{schema}: {e}"));
            let grammar = compiler.compile(&constraint).unwrap_or_else(|e| panic!("{schema}: {e}"));
            for case in 0..30 {
                let mut random = Random::new(100 * i as u64 + case);
                let mut matcher = grammar.matcher();
                let mut text = Vec::new();
                for _ in 0..20 + random.below(80) {
                    let legal: Vec<u32> = ffwd_testkit::vocab::row(&mut matcher).into_iter().collect();
                    if matcher.is_terminated() || legal.is_empty() {
                        break;
                    }
                    let token = &words.tokens[*random.pick(&legal) as usize];
                    let mut next = matcher.fork();
                    if token.iter().all(|&b| next.accept_token(words.byte(b)).is_ok()) {
                        matcher = next;
                        text.extend_from_slice(token);
                    }
                }
                text.extend_from_slice(&matcher.shortest_completion(1 << 16).expect("a way to the end"));
                let text = String::from_utf8(text).unwrap();
                let reply = tools.read(ToolStyle::Lfm2, &text).unwrap_or_else(|e| panic!("{e}: {text}"));
                let arguments = text
                    .strip_prefix("<|tool_call_start|>[f(")
                    .and_then(|t| t.strip_suffix(")]<|tool_call_end|>"));
                let arguments = arguments.unwrap_or_else(|| panic!("{text}"));
                let expected: Value = serde_json::from_str(&json_of_python(arguments))
                    .unwrap_or_else(|e| panic!("{e}: {text}"));
                assert_eq!(values(&reply.calls), [("f", expected.clone())], "{text}");
                assert!(validator.is_valid(&expected), "{text}");
                // Only items that are compared are spelled as in JSON.
                let json = json_of_python(arguments).matches(|c| "tfn".contains(c)).count();
                spelled_words[usize::from(arguments.contains("True") || arguments.contains("None"))] +=
                    usize::from(json > 0);
                if i != 2 {
                    let outside: String =
                        arguments.replace("\\\\", "").replace("\\\"", "").split('"').step_by(2).collect();
                    assert!(!["true", "false", "null"].iter().any(|word| outside.contains(word)), "{text}");
                }
            }
        }
    }
    assert!(spelled_words[1] > 200, "{spelled_words:?}");
    // Names that no reader finds are refused, with the place.
    let odd =
        json!([{"name": "f", "parameters": {"type": "object", "properties": {"a b": {"type": "string"}}}}]);
    let error = Tools::parse(&odd.to_string()).unwrap().constraint(
        ToolStyle::Lfm2,
        &ToolChoice::default(),
        Policy::default(),
    );
    let error = error.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unsupported && error.hint_text().unwrap().contains("Python"),
        "{error}"
    );
}
