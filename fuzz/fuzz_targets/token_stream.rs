//! Long walks with forks and rollbacks through a few constraints of every kind.
#![no_main]

use std::sync::OnceLock;

use ffwd::{CompiledGrammar, Constraint, Policy, Result, Whitespace};
use ffwd_fuzz::{Bytes, Walk, compiler};

fn constraints() -> Result<Vec<Constraint>> {
    let object = r##"{"$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},
        {"type":"null"}]},"tags":{"type":"array","items":{"type":"string","maxLength":3},"maxItems":3}},
        "required":["next"]}},"$ref":"#/$defs/node"}"##;
    let strings = r#"{"type":"object","patternProperties":{"^x":{"type":"number"}},"propertyNames":{"maxLength":4},
        "properties":{"a":{"type":"string","pattern":"b|c+d"},"e":{"type":"integer","minimum":-5,"maximum":120,
        "multipleOf":5},"d":{"type":"string","format":"date"}},"minProperties":1}"#;
    let tag = r#"{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f="],"tags":[
        {"begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"array","items":{"type":"boolean"}}},
        "end":"</f>"},{"begin":"<f=b>","content":{"type":"regex","pattern":"[a-c]+"},"end":"</f>"}]}}"#;
    let flexible =
        Policy { whitespace: Whitespace::Flexible { max: 3 }, exponent: true, ..Policy::default() };
    Ok(vec![
        Constraint::json_object(),
        Constraint::json_schema(object)?,
        Constraint::json_schema(strings)?,
        Constraint::builder().policy(flexible.clone()).json_schema(object)?,
        Constraint::builder().policy(flexible).json_schema("{}")?,
        Constraint::regex("(a|ab)(c|bcd)*|\\p{Greek}{2,}x?")?,
        Constraint::choice(["abc", "ab", "\u{6f22}\u{5b57}", ""])?,
        Constraint::pattern("UPPER+ ':' ' '? LOWER{2,3} '\\n'")?,
        Constraint::builder().gbnf(
            "root ::= root \"+\" term | term\nterm ::= \"(\" root \")\" | [0-9a-c]+ | \"\" \"x\"",
        )?,
        Constraint::builder().gbnf("root ::= b root \"x\"? | \"a\"\nb ::= \"a\" b | root? \"a\"")?,
        Constraint::builder().lark(
            "start: \"if\" start [\"else\" start] | NAME\nNAME: /[a-z]+/\n%import common.WS\n%ignore WS",
        )?,
        Constraint::structural_tag(tag)?,
        Constraint::regex("[a-c]{2,6}")?.and(&Constraint::choice(["abc", "ba"])?.not()?)?,
        Constraint::regex("x: ")?.then(&Constraint::json_object().or(&Constraint::json_schema(object)?)?)?,
    ])
}

/// Compiled once; the tables of a grammar grow from input to input, as in a server.
fn grammars() -> &'static [CompiledGrammar] {
    static GRAMMARS: OnceLock<Vec<CompiledGrammar>> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let all = constraints().expect("they parse");
        all.iter().map(|c| compiler().compile(c).expect("they compile")).collect()
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes::new(data);
    let grammar = bytes.pick(grammars());
    Walk::new(grammar).follow(&mut bytes, 200);
});
