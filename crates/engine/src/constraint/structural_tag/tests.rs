//! Tests of the structural tag parser: what is read as the same, sizes, and hostile documents.
//!
//! `testdata/structural_tags.toml` has the forms and the errors; `tests/engine/structural_tag_oracle.rs`
//! compares the language of the automaton with a reference.

use serde_json::{Value, json};

use super::*;
use crate::constraint::ir::{Node, NodeId};
use crate::error::ErrorKind;

fn parse(text: &str, policy: &Policy) -> Result<Ir> {
    super::parse(text, policy, None).map(|(ir, ..)| ir)
}

fn read(format: &Value) -> Result<Ir> {
    parse(&json!({"type": "structural_tag", "format": format}).to_string(), &Policy::default())
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
