//! Tests of the structural tag parser: every error, and hostile documents.
//!
//! `tests/engine/structural_tag_oracle.rs` compares the language of the automaton with a reference.

use serde_json::{Value, json};

use super::*;
use crate::constraint::ir::{Node, NodeId};
use crate::error::{Error, ErrorKind};

fn parse(text: &str, policy: &Policy) -> Result<Ir> {
    super::parse(text, policy, None).map(|(ir, ..)| ir)
}

fn read(format: &Value) -> Result<Ir> {
    parse(&json!({"type": "structural_tag", "format": format}).to_string(), &Policy::default())
}

#[track_caller]
fn refused(format: Value) -> Error {
    let error = read(&format).expect_err(&format.to_string());
    assert!(error.pointer().is_some_and(|p| p.starts_with("/format")), "{error}");
    error
}

#[track_caller]
fn check(format: Value, kind: ErrorKind, pointer: &str, message: &str, hint: &str) {
    let error = refused(format);
    let hinted = error.hint_text().unwrap_or_default();
    assert_eq!((error.kind(), error.pointer()), (kind, Some(&*format!("/format{pointer}"))), "{error}");
    assert!(error.message().contains(message), "{error}");
    assert!(hinted.contains(hint) && hint.is_empty() == hinted.is_empty(), "{error}");
}

const TEXT: &str = "const_string";

fn text(value: &str) -> Value {
    json!({"type": TEXT, "value": value})
}

fn any() -> Value {
    json!({"type": "any_text"})
}

fn tag(begin: &str, content: Value, end: &str) -> Value {
    json!({"begin": begin, "content": content, "end": end})
}

fn triggered(triggers: &[&str], tags: &[Value]) -> Value {
    json!({"type": "triggered_tags", "triggers": triggers, "tags": tags})
}

#[test]
fn all_forms_are_read() {
    let schema = json!({"type": "json_schema", "json_schema": {"type": "integer"}, "style": "json"});
    let tags = [tag("<a>", any(), "</a>"), tag("<b>", schema.clone(), "</b>")];
    let formats = [
        text(""),
        text("é"),
        json!({"type": "token", "token": "<|a|>"}),
        schema.clone(),
        json!({"type": "json_schema", "json_schema": true, "style": null, "any_order": false}),
        json!({"type": "regex", "pattern": "[a-z]+"}),
        json!({"type": "grammar", "grammar": "root ::= \"a\" root | \"b\""}),
        json!({"type": "any_text", "excludes": ["x", "yy"]}),
        json!({"type": "any_text", "excludes": ["x"], "exclude_tokens": ["<|a|>"]}),
        json!({"type": "any_text", "exclude_tokens": []}),
        json!({"type": "any_text", "excludes": [], "max_tokens": null, "max_chars": null, "later": null}),
        json!({"type": "any_tokens", "exclude_tokens": ["<|a|>"], "max_chars": 100, "min_chars": 2}),
        json!({"type": "json_schema", "json_schema": {}, "max_whitespace_cnt": null, "excludes": []}),
        json!({"type": "token_triggered_tags", "trigger_tokens": ["<a>"], "tags": [
            {"type": "tag", "begin": {"type": "token", "token": "<a>"}, "content": any(), "end": "</a>"}]}),
        json!({"type": "token_dispatch", "rules": [["<a>", text("1")]]}),
        json!({"type": "sequence", "elements": [text("a"), any()]}),
        json!({"type": "or", "elements": [text("a"), any()]}),
        json!({"type": "optional", "content": schema}),
        json!({"type": "star", "content": text("a")}),
        json!({"type": "plus", "content": text("a")}),
        json!({"type": "repeat", "content": text("a"), "min": 2, "max": 5}),
        json!({"type": "repeat", "content": text("a"), "max": -1}),
        json!({"type": "tag", "begin": "<t>", "content": any(), "end": ["</t>", "</u>", "</ttt>"]}),
        triggered(&["<"], &tags),
        json!({"type": "triggered_tags", "triggers": ["<"], "tags": tags, "excludes": ["<!"],
            "at_least_one": true, "stop_after_first": true}),
        json!({"type": "tags_with_separator", "separator": ",", "tags": tags}),
        json!({"type": "json_schema", "json_schema": {"type": "object"}, "any_order": true}),
        json!({"type": "json_schema", "json_schema": {"type": "object"}, "style": "deepseek_xml"}),
        json!({"type": "qwen_xml_parameter", "json_schema": true}),
        json!({"type": "dispatch", "rules": [["<a>", text("1")], ["<b>", schema]]}),
        json!({"type": "dispatch", "rules": [["<a>", any()]], "loop": false, "excludes": ["</end>"]}),
        json!({"type": "tags_with_separator", "separator": "", "tags": tags, "at_least_one": true,
            "stop_after_first": false}),
    ];
    for format in formats {
        let ir = read(&format).unwrap_or_else(|e| panic!("{format}: {e}"));
        assert!(matches!(ir.node(ir.root()), Node::Automaton { .. }));
        assert!(ir.warnings.is_empty(), "{:?}", ir.warnings);
    }
}

#[test]
fn the_older_form() {
    let schema = json!({"type": "object"});
    let structure = |schema: Value| json!({"begin": "<f>", "schema": schema, "end": "</f>"});
    let document = |structures: Value, triggers: Value| {
        json!({"type": "structural_tag", "structures": structures, "triggers": triggers}).to_string()
    };
    let read = |text: String| parse(&text, &Policy::default());
    assert!(read(document(json!([structure(schema.clone())]), json!(["<"]))).is_ok());
    // The schema as text, as some clients send it.
    assert!(read(document(json!([structure(json!(schema.to_string()))]), json!(["<"]))).is_ok());
    for (text, pointer) in [
        (document(json!([]), json!(["<"])), "/structures"),
        (document(json!([structure(schema.clone())]), json!([])), "/triggers"),
        (document(json!([structure(schema.clone())]), json!([""])), "/triggers/0"),
        (document(json!([structure(schema.clone())]), json!(["x"])), "/structures/0/begin"),
        (document(json!([structure(json!({"type": "strin"}))]), json!(["<"])), "/structures/0/schema/type"),
        (document(json!([{"begin": "<", "end": ""}]), json!(["<"])), "/structures/0"),
        (json!({"type": "structural_tag"}).to_string(), ""),
        (json!({"type": "structural"}).to_string(), "/type"),
        (json!({"type": "structural_tag", "format": text("a"), "triggers": ["<"]}).to_string(), "/triggers"),
        (json!({"type": "structural_tag", "format": text("a"), "structures": []}).to_string(), "/structures"),
        ("[]".into(), ""),
        ("{}".into(), ""),
    ] {
        let error = read(text.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSchema, "{error}");
        assert_eq!(error.pointer(), Some(pointer), "{text}: {error}");
    }
    assert_eq!(read("{".into()).unwrap_err().kind(), ErrorKind::InvalidJson);
}

#[test]
fn faults_of_grammars_have_both_places() {
    let error = refused(json!({"type": "grammar", "grammar": "root ::= x"}));
    assert_eq!(
        (error.kind(), error.pointer()),
        (ErrorKind::InvalidPattern, Some("/format/grammar")),
        "{error}"
    );
    assert!(error.places().iter().any(|p| matches!(p, crate::error::Place::Span { .. })), "{error}");
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    use ErrorKind::{InvalidSchema, Unsupported};
    let cases = [
        (json!({"type": "any_txt"}), Unsupported, "/type", "any_txt", "did you mean `any_text`?"),
        (json!({"type": "sequences"}), Unsupported, "/type", "sequences", "`sequence`"),
        (json!({"type": "xyzzy"}), Unsupported, "/type", "xyzzy", "const_string, token, json_schema"),
        (json!({"type": "token", "token": 1}), Unsupported, "/token", "`token` names", "text of the token"),
        (json!({"type": "token", "token": ""}), InvalidSchema, "/token", "empty", "text of the token"),
        (json!({"type": "token", "token": [1]}), InvalidSchema, "/token", "must be a string", ""),
        (json!({"type": "token"}), InvalidSchema, "", "lacks its member `token`", ""),
        (json!({"type": "exclude_token"}), Unsupported, "/type", "`exclude_token`", "text of the tokens"),
        (json!({"type": "token_dispatch"}), InvalidSchema, "", "lacks its member `rules`", ""),
        (
            json!({"type": "token_triggered_tags", "trigger_tokens": [7], "tags": [tag("a", any(), "b")]}),
            Unsupported,
            "/trigger_tokens/0",
            "by its number",
            "text of the token",
        ),
        (
            json!({"type": "any_text", "exclude_tokens": ["a", 7]}),
            Unsupported,
            "/exclude_tokens/1",
            "`exclude_tokens` names a token by its number",
            "text of the token",
        ),
        (
            json!({"type": "any_text", "exclude_tokens": [""]}),
            InvalidSchema,
            "/exclude_tokens/0",
            "empty",
            "text of the token",
        ),
        (
            json!({"type": "any_text", "exclude_tokens": "a"}),
            InvalidSchema,
            "/exclude_tokens",
            "an array of strings",
            "",
        ),
        (json!({"type": "dispatch"}), InvalidSchema, "", "lacks its member `rules`", ""),
        (json!({"type": "dispatch", "rules": []}), InvalidSchema, "/rules", "empty", ""),
        (
            json!({"type": "dispatch", "rules": [["a"]]}),
            InvalidSchema,
            "/rules/0",
            "a pattern and a format",
            "",
        ),
        (json!({"type": "dispatch", "rules": [{"a": any()}]}), InvalidSchema, "/rules/0", "an array", ""),
        (
            json!({"type": "dispatch", "rules": [["", any()]]}),
            InvalidSchema,
            "/rules/0/0",
            "empty",
            "sequence",
        ),
        (json!({"type": "dispatch", "rules": [[1, any()]]}), InvalidSchema, "/rules/0/0", "a string", ""),
        (json!({"type": "dispatch", "rules": [["a", 1]]}), InvalidSchema, "/rules/0/1", "an object", ""),
        (
            json!({"type": "dispatch", "rules": [["a", any()]], "loop": 1}),
            InvalidSchema,
            "/loop",
            "true or false",
            "",
        ),
        (
            json!({"type": "json_schema", "json_schema": {}, "any_order": 1}),
            InvalidSchema,
            "/any_order",
            "true or false",
            "",
        ),
        (json!({"type": "any_text", "exclude": []}), Unsupported, "/exclude", "`exclude`", "`excludes`"),
        (
            json!({"type": "any_text", "max_tokens": 3}),
            Unsupported,
            "/max_tokens",
            "`max_tokens`",
            "`max_chars`",
        ),
        (
            json!({"type": "any_text", "min_tokens": 0}),
            Unsupported,
            "/min_tokens",
            "does not count",
            "max_chars",
        ),
        (json!({"type": "any_text", "max_chars": -1}), InvalidSchema, "/max_chars", "whole number", ""),
        (
            json!({"type": "any_text", "min_chars": 3, "max_chars": 2}),
            InvalidSchema,
            "/max_chars",
            "less than `min_chars`",
            "",
        ),
        (
            json!({"type": "json_schema", "json_schema": {}, "max_whitespace_cnt": "2"}),
            InvalidSchema,
            "/max_whitespace_cnt",
            "whole number",
            "",
        ),
        (
            json!({"type": "json_schema", "json_schema": {}, "excludes": ["x"]}),
            Unsupported,
            "/excludes",
            "`excludes` of json_schema",
            "pattern",
        ),
        (
            json!({"type": "sequence", "elements": [{"type": "any_text", "max_chars": 2}, any()]}),
            Unsupported,
            "/elements/0",
            "fixed text",
            "const_string",
        ),
        (
            json!({"type": "json_schema", "json_schema": {}, "style": "qwen"}),
            Unsupported,
            "/style",
            "no style is called `qwen`",
            "known are: json, qwen_xml",
        ),
        (
            json!({"type": "qwen_xml_parameter", "json_schema": {}, "style": "json"}),
            Unsupported,
            "/style",
            "no member `style`",
            "did you mean",
        ),
        (
            json!({"type": "json_schema", "json_schema": {"type": "string"}, "style": "glm_xml"}),
            ErrorKind::Unsatisfiable,
            "/json_schema",
            "an object",
            "",
        ),
        (
            json!({"type": "tag", "begin": {"type": "token", "token": 5}, "content": any(), "end": ""}),
            Unsupported,
            "/begin/token",
            "by its number",
            "text of the token",
        ),
        (
            json!({"type": "tag", "begin": "a", "content": any(), "end": ["b", {"type": "token", "token": 5}]}),
            Unsupported,
            "/end/1/token",
            "by its number",
            "text of the token",
        ),
        (
            json!({"type": "tag", "begin": "a", "content": any(), "end": {"type": "any_tokens"}}),
            Unsupported,
            "/end/type",
            "of the type `token`",
            "text",
        ),
        (
            json!({"type": "tag", "begin": {"type": "token", "token": "a", "id": 1}, "content": any(), "end": ""}),
            Unsupported,
            "/begin/id",
            "no member `id`",
            "known are",
        ),
        (
            json!({"type": "triggered_tags", "triggers": [{"type": "token", "token": "a"}], "tags": [tag("a", any(), "b")]}),
            Unsupported,
            "/triggers/0",
            "single tokens",
            "text of the token",
        ),
        (json!({"type": TEXT}), InvalidSchema, "", "lacks its member `value`", ""),
        (json!({"type": TEXT, "value": 1}), InvalidSchema, "/value", "must be a string", ""),
        (json!({"value": "a"}), InvalidSchema, "", "`type`", "known are"),
        (json!([1]), InvalidSchema, "", "must be an object", ""),
        (json!({"type": "or", "elements": []}), InvalidSchema, "/elements", "empty", ""),
        (json!({"type": "or", "elements": {}}), InvalidSchema, "/elements", "array", ""),
        (
            json!({"type": "repeat", "content": text("a"), "min": 3, "max": 2}),
            InvalidSchema,
            "/max",
            "less than `min`",
            "",
        ),
        (
            json!({"type": "repeat", "content": text("a"), "min": -1}),
            InvalidSchema,
            "/min",
            "whole number",
            "",
        ),
        (
            json!({"type": "tags_with_separator", "separator": ",", "tags": [text("a")]}),
            Unsupported,
            "/tags/0/value",
            "`value`",
            "known are",
        ),
    ];
    for (format, kind, pointer, message, hint) in cases {
        check(format, kind, pointer, message, hint);
    }
    let error = refused(json!({"type": "regex", "pattern": "a("}));
    assert_eq!(error.kind(), ErrorKind::InvalidPattern);
    assert_eq!(error.pointer(), Some("/format/pattern"));
}

#[test]
fn the_older_name_of_a_style() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]});
    let older = read(&json!({"type": "qwen_xml_parameter", "json_schema": schema})).unwrap();
    let newer = read(&json!({"type": "json_schema", "json_schema": schema, "style": "qwen_xml"})).unwrap();
    let nodes = |ir: &Ir| (0..ir.len() as u32).map(|id| ir.node(NodeId(id)).clone()).collect::<Vec<_>>();
    assert_eq!((nodes(&older), older.root()), (nodes(&newer), newer.root()));
    // Tokenizers may have the tags as special tokens.
    assert_eq!(newer.marks, ["<parameter=", ">", "</parameter>"]);
}

#[test]
fn tokens_are_their_texts() {
    let token = |text: &str| json!({"type": "token", "token": text});
    let tags = |named: &dyn Fn(&str) -> Value, plain: &dyn Fn(&str) -> Value| {
        json!({"type": "sequence", "elements": [plain("<|x|>"),
            {"type": "tag", "begin": named("<|a|>"), "content": any(), "end": named("<|b|>")},
            {"type": "tag", "begin": "<c>", "content": any(), "end": ["</c>", named("<|b|>")]},
            {"type": "triggered_tags", "triggers": ["<|a"], "tags":
                [{"begin": named("<|a|>"), "content": plain("1"), "end": named("<|b|>")}]}]})
    };
    let one = read(&tags(&token, &token)).unwrap();
    let other = read(&tags(&|text| json!(text), &text)).unwrap();
    let nodes = |ir: &Ir| (0..ir.len() as u32).map(|id| ir.node(NodeId(id)).clone()).collect::<Vec<_>>();
    assert_eq!((nodes(&one), one.root(), &one.marks), (nodes(&other), other.root(), &other.marks));
    assert!(one.marks.iter().any(|mark| mark == "<|x|>"));
    let one = read(&json!({"type": "any_text", "excludes": ["a"], "exclude_tokens": ["<|b|>"]})).unwrap();
    let other = read(&json!({"type": "any_text", "excludes": ["a", "<|b|>"]})).unwrap();
    assert_eq!(nodes(&one), nodes(&other));
}

#[test]
fn triggers_must_be_clear() {
    let a = || tag("<a>", any(), "</a>");
    let no_trigger = triggered(&["[", "<a>>"], &[a()]);
    check(no_trigger, ErrorKind::InvalidSchema, "/tags/0/begin", "no trigger", "starts with");
    check(triggered(&[""], &[a()]), ErrorKind::InvalidSchema, "/triggers/0", "empty", "everywhere");
    // One inside another: after the inner one, the outer one may be incomplete.
    let both = [tag("xax", text(""), "."), tag("a", text(""), ".")];
    check(triggered(&["xax", "a"], &both), ErrorKind::Unsupported, "", r#""xax" contains "a""#, "choose");
    let both = [tag("xa", text(""), "."), tag("a", text(""), ".")];
    check(triggered(&["xa", "a"], &both), ErrorKind::Unsupported, "", r#""xa" contains "a""#, "choose");
    // At the start there is no ambiguity.
    let both = [tag("xax", text(""), "."), tag("x", text(""), ".")];
    assert!(read(&triggered(&["xax", "x"], &both)).is_ok());
    // The end of the tag around counts, too.
    let inside =
        |end: &str| json!({"type": "tag", "begin": "(", "content": triggered(&["<"], &[a()]), "end": end});
    assert!(read(&inside("</t>")).is_ok());
    let error = refused(inside("\n</t>"));
    assert!(error.message().contains(r#""\n</t>" contains "<""#), "{error}");
    // A trigger with which no tag begins is only forbidden.
    let ir = read(&triggered(&["<a", "[b"], &[a()])).unwrap();
    assert!(
        ir.warnings[0].to_string().starts_with("#/format/triggers/1: no tag begins"),
        "{:?}",
        ir.warnings
    );
}

#[test]
fn free_text_needs_an_end() {
    let sequence = |parts: Value| json!({"type": "sequence", "elements": parts});
    let regex = json!({"type": "regex", "pattern": "[0-9]"});
    let cases = [
        (sequence(json!([any(), regex])), "/elements/0", "#/format/elements/1"),
        (sequence(json!([any(), any()])), "/elements/0", "#/format/elements/1"),
        (json!({"type": "star", "content": any()}), "/content", "#/format/content"),
        (
            sequence(json!([any(), {"type": "optional", "content": regex}, text("a")])),
            "/elements/0",
            "#/format/elements/1/content",
        ),
    ];
    for (format, pointer, follows) in cases {
        check(format, ErrorKind::Unsupported, pointer, follows, "const_string");
    }
    assert!(read(&sequence(json!([any(), text(""), text("a"), regex]))).is_ok());
}

#[test]
fn schemas_keep_their_places() {
    let object = |schema: Value| json!({"type": "json_schema", "json_schema": schema});
    let error = refused(object(json!({"properties": {"a": {"minimum": "1"}}})));
    assert_eq!(error.kind(), ErrorKind::InvalidSchema);
    assert_eq!(error.pointer(), Some("/format/json_schema/properties/a/minimum"));
    let ir = read(&object(json!({"type": "string", "format": "nonsense"}))).unwrap();
    assert!(ir.warnings[0].to_string().starts_with("#/format/json_schema/format"), "{:?}", ir.warnings);
    let text = r#"{"type":"structural_tag","format":{"type":"const_string","value":"a","value":"b"}}"#;
    let ir = parse(text, &Policy::default()).unwrap();
    assert!(ir.warnings[0].to_string().starts_with("#/format: the name \"value\""), "{:?}", ir.warnings);
    // References refer to the schema, and strings keep their escapes.
    assert!(read(&object(json!({"type": "array", "items": {"$ref": "#"}}))).is_ok());
    let odd = json!(["\u{1}\"\\é\n", -1.5e3, [], {"\t": null}]);
    assert!(read(&object(json!({"enum": [odd]}))).is_ok());
}

#[test]
fn equal_schemas_are_one_node() {
    let schema = json!({"type": "json_schema", "json_schema": {"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}}}});
    let one = read(&schema).unwrap().len();
    let many = vec![schema; 50];
    let all = read(&json!({"type": "or", "elements": many})).unwrap();
    assert!(all.len() < one + 10, "{} nodes for one, {} for fifty", one, all.len());
}

#[test]
fn hostile_documents() {
    let deep = |levels: usize| {
        let (open, close) = (r#"{"type":"star","content":"#.repeat(levels), "}".repeat(levels));
        format!(r#"{{"type":"structural_tag","format":{open}{}{close}}}"#, text("a"))
    };
    let read_text = |text: &str| parse(text, &Policy::default());
    assert!(read_text(&deep(120)).is_ok());
    assert_eq!(read_text(&deep(300)).unwrap_err().kind(), ErrorKind::TooComplex);
    assert_eq!(read_text(&deep(100_000)).unwrap_err().kind(), ErrorKind::TooComplex);
    assert!(read_text(&"[".repeat(1_000_000)).is_err());
    // One text of 10 MB, and one that free text looks for.
    let long = "a<".repeat(5_000_000);
    assert!(read(&text(&long)).is_ok());
    let around = |end: &str| json!({"type": "tag", "begin": "", "content": any(), "end": end});
    assert_eq!(read(&around(&long)).unwrap_err().kind(), ErrorKind::TooComplex);
    assert!(read(&around(&"a".repeat(50_000))).is_ok());
    assert!(read(&around(&"ab".repeat(25_000))).is_ok());
    // Thousands of triggers that begin alike, that differ at once, and that repeat.
    let name = |i: usize| format!("<tool={i}>");
    let tags: Vec<Value> = (0..5_000).map(|i| tag(&name(i), text("x"), ";")).collect();
    let names: Vec<String> = (0..5_000).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(read(&triggered(&names, &tags)).is_ok());
    assert!(read(&triggered(&["<"; 5_000], &tags)).is_ok());
    let scattered: Vec<String> =
        (0..5_000).map(|i| char::from_u32(0x4e00 + i).unwrap().to_string() + "abc").collect();
    let tags: Vec<Value> = scattered.iter().map(|t| tag(t, text("x"), ";")).collect();
    let scattered: Vec<&str> = scattered.iter().map(String::as_str).collect();
    if let Err(e) = read(&triggered(&scattered, &tags)) {
        assert_eq!(e.kind(), ErrorKind::TooComplex);
    }
    // Counts, and repetitions of nothing.
    let repeat = |content: Value, max: u32| json!({"type": "repeat", "content": content, "max": max});
    assert_eq!(read(&repeat(text("a"), u32::MAX)).unwrap_err().kind(), ErrorKind::TooComplex);
    assert!(read(&repeat(text(""), u32::MAX)).is_ok());
    let square = repeat(repeat(repeat(any(), 1), 9_000), 9_000);
    assert!(read(&square).is_err());
    assert!(read(&json!({"type": "star", "content": text("")})).is_ok());
    assert!(read(&tag("", text(""), "")).is_err());
    assert!(
        read(&json!({"type": "tags_with_separator", "separator": "", "tags": [tag("", text(""), "")]}))
            .is_ok()
    );
    // Many alternatives before and after a free text.
    let choices: Vec<Value> = (0..2_000).map(|i| text(&format!("{i};"))).collect();
    let parts = json!([{"type": "or", "elements": vec![any(); 2_000]}, {"type": "or", "elements": choices}]);
    let error = read(&json!({"type": "sequence", "elements": parts})).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooComplex | ErrorKind::Unsupported), "{error}");
}

/// States and transitions grow with the length of the triggers, not with its square.
#[test]
fn size_is_linear_in_the_triggers() {
    let size = |count: usize| {
        let names: Vec<String> = (0..count)
            .map(|i| format!("{}{i:04}_a_rather_long_name_of_a_tool<", (b'A' + (i % 50) as u8) as char))
            .collect();
        let tags: Vec<Value> = names.iter().map(|n| tag(n, text("x"), ";")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let ir = read(&triggered(&names, &tags)).unwrap();
        let Node::Automaton { states, .. } = ir.node(ir.root()) else { panic!("no automaton") };
        states.len() + states.iter().map(|s| s.edges.len()).sum::<usize>()
    };
    let (small, large) = (size(100), size(400));
    assert!(large < 5 * small, "{small} and {large}");
}

#[test]
fn white_space_is_bounded_by_the_smallest_count() {
    let policy = |own: Whitespace, counts: &[Value]| {
        let leaf =
            |count| json!({"type": "json_schema", "json_schema": {"const": 1}, "max_whitespace_cnt": count});
        let elements: Vec<Value> = counts.iter().map(leaf).collect();
        let format = json!({"type": "sequence", "elements": elements});
        let document = json!({"type": "structural_tag", "format": format}).to_string();
        let policy = Policy { whitespace: own, ..Policy::default() };
        super::parse(&document, &policy, None).unwrap().1.whitespace
    };
    let four = Whitespace::Flexible { max: 4 };
    assert_eq!(policy(four, &[json!(null), json!(9)]), four);
    assert_eq!(policy(four, &[json!(3), json!(2), json!(null)]), Whitespace::Flexible { max: 2 });
    assert_eq!(policy(four, &[json!(0), json!(2)]), Whitespace::Compact);
    assert_eq!(policy(Whitespace::SingleSpace, &[json!(1)]), Whitespace::SingleSpace);
    assert_eq!(policy(Whitespace::SingleSpace, &[json!(0)]), Whitespace::Compact);
    assert_eq!(policy(Whitespace::Compact, &[json!(5)]), Whitespace::Compact);
}
