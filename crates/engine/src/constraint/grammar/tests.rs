//! Tests of the grammar parsers and of what becomes of rules.
//!
//! `tests/engine/grammar_oracle.rs` checks the languages, `testdata/grammars.toml` has
//! the elements and the errors.

use proptest::prelude::*;

use super::{gbnf, is_gbnf, lark, parse_from};
use crate::constraint::Policy;
use crate::constraint::ir::{Ir, Node};
use crate::error::{Place, Result};

fn parse(text: &str) -> Result<Ir> {
    parse_from(text, &Policy::default(), None)
}

#[test]
fn gbnf_tokens_are_their_text() {
    let languages = |text: &str| {
        let grammar = gbnf::grammar(text).unwrap_or_else(|e| panic!("{e}"));
        grammar.foreign.len()
    };
    assert_eq!(languages("root ::= !<a>* <a> !<b>+ <b>"), 2);
    assert_eq!(languages("root ::= other* <a>\nother ::= ( !<a> )"), 1);
    assert_eq!(languages("root ::= (!<a>){1,} <a>\n"), 1);
    let ir = gbnf::parse("root ::= <|x|> \"[INST]\" \"a\"").unwrap();
    assert_eq!(ir.marks, ["<|x|>", "[INST]"]);
    let Place::Span { .. } = &gbnf::parse("root ::= !<a>").unwrap_err().places()[0] else { panic!() };
}

#[test]
fn the_notation_is_recognised() {
    for text in ["root ::= \"a\"", "# start:\nroot ::= x", "x\n::=", "root ::= [\"]"] {
        assert!(is_gbnf(text), "{text}");
    }
    for text in ["start: \"::=\"", "// ::=\nstart: \"a\"", "start: \"\\\"::=\"", ""] {
        assert!(!is_gbnf(text), "{text}");
    }
}

#[test]
fn errors_of_long_grammars_quote_their_surroundings() {
    let text = format!("{}root ::= é x\n", "# é filler\n".repeat(10_000));
    let error = parse(&text).unwrap_err();
    let Place::Span { text, start, end } = &error.places()[0] else { panic!() };
    assert!(text.len() < 1_000);
    assert_eq!(&text[*start..*end], "é");
    assert_eq!(error.places()[1], Place::LineColumn(10_001, 10));
    assert!(!error.to_string().is_empty());
}

#[test]
fn what_is_regular_needs_no_rule() {
    let counted = "root ::= \"(\" root \")\" | val \"a\" | val \"b\" | val \"c\"\nval ::= [^\\n]{1,200}";
    assert_eq!(parse(counted).unwrap().rule_count(), 1);
    for text in [
        "root ::= (key \": \" val \"\\n\")+\nkey ::= [a-z_]+\nval ::= [^\\n]{1,200}",
        "root ::= val \",\" val \";\" val\nval ::= \"<\" text \">\" | text\ntext ::= [^,;<>\\n]{0,100}",
        "root ::= root \"+\" item | item\nitem ::= [0-9]+ unit?\nunit ::= \"kg\" | \"m\"",
        "root ::= root \"+\" root | [0-9]",
        "root ::= \"a\" root | \"b\"",
        "root ::= root root | \"a\" | \"\"",
    ] {
        let ir = parse(text).unwrap();
        assert_eq!(ir.rule_count(), 0, "{text}");
    }
    let ir = parse("root ::= \"(\" root \")\" | \"\"").unwrap();
    assert_eq!(ir.rule_count(), 1);
    let ir = parse(r#"root ::= "a" | "b" | "c" | "d" | "a""#).unwrap();
    assert!(matches!(ir.node(ir.root()), Node::Literals(words) if words.len() == 4));
}

proptest! {
    #[test]
    fn gbnf_never_panics(text in r#"(root ::= |a ::= |root|a|"x"|\[a-c\]|[()|?*+{},"\[\]^\\.#\n 0-9-]|\PC){0,24}"#) {
        if let Err(e) = gbnf::parse(&text) {
            let _ = e.to_string();
        }
    }

    #[test]
    fn lark_never_panics(text in r#"(start: |\na: |\nA: |\nt\{x\}: |t\{a\}|t\{|\}|start|a|A|"x"|/x/|/\(\?!x\)x\*/|%ignore |%import common|%json |[()|?*+{},"\[\]~\\./!\n 0-9-]|\PC){0,24}"#) {
        if let Err(e) = lark::parse_from(&text, &Policy::default(), None) {
            let _ = e.to_string();
        }
    }
}
