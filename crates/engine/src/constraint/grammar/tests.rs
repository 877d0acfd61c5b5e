//! Tests of the grammar parsers, their errors and limits.
//!
//! `tests/engine/grammar_oracle.rs` checks the languages.

use proptest::prelude::*;

use super::rules::{Expr, ExprId, Grammar};
use super::{gbnf, is_gbnf, lark, parse_from};
use crate::constraint::Policy;
use crate::constraint::ir::{Ir, Node};
use crate::error::{Error, ErrorKind, Place, Result};

fn parse(text: &str) -> Result<Ir> {
    parse_from(text, &Policy::default(), None)
}

/// Prints an expression with brackets around every part.
fn show(grammar: &Grammar, id: ExprId) -> String {
    let all = |parts: &[ExprId]| parts.iter().map(|&p| show(grammar, p)).collect::<Vec<_>>();
    match grammar.expr(id) {
        Expr::Literal(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Expr::Class(ranges) => {
            let ranges: Vec<String> = ranges.iter().map(|r| format!("{:?}-{:?}", r.0, r.1)).collect();
            format!("[{}]", ranges.join(" "))
        }
        Expr::Seq(parts) => format!("({})", all(parts).join(" ")),
        Expr::Alt(parts) => format!("<{}>", all(parts).join(" | ")),
        Expr::Repeat(part, min, max) => {
            format!("{}{{{min},{}}}", show(grammar, *part), max.map_or(String::new(), |m| m.to_string()))
        }
        Expr::Rule(rule) => grammar.rules[*rule as usize].name.clone(),
        Expr::Foreign(at) => format!("json{at}"),
        Expr::Token(part) => format!("'{}", show(grammar, *part)),
        Expr::OtherThan(at) => format!("other{at}"),
    }
}

fn body(grammar: &Grammar, name: &str) -> String {
    show(grammar, grammar.rules[grammar.names[name] as usize].body.unwrap())
}

#[track_caller]
fn reads(text: &str, expected: &str) {
    let grammar = gbnf::grammar(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(body(&grammar, "root"), expected, "{text}");
}

#[track_caller]
fn reads_lark(text: &str, expected: &str) {
    let grammar = lark::grammar(text, &Policy::default(), None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(body(&grammar, "start"), expected, "{text}");
}

#[test]
fn gbnf_elements() {
    reads(r#"root ::= "a" | "b" "c" | """#, r#"<"a" | ("b" "c") | "">"#);
    reads(r#"root ::= "\n\t\r\\\"\x41\u00e9\U0001F600\[\]""#, r#""\n\t\r\\\"Aé😀[]""#);
    reads(
        r#"root ::= [a-z_] [^a] [] [-a] [a-] [\]\\\-] ."#,
        concat!(
            r#"(['_'-'_' 'a'-'z'] ['\0'-'`' 'b'-'\u{10ffff}'] [] ['-'-'-' 'a'-'a'] ['-'-'-' 'a'-'a'] "#,
            r#"['-'-'-' '\\'-']'] ['\0'-'\u{10ffff}'])"#
        ),
    );
    reads(
        r#"root ::= "a"* "b"+ "c"? "d"{2} "e"{2,} "f"{2,4} "g"{,4} "h"{ 1 , 2 } ("i" | "j")+"#,
        r#"("a"{0,} "b"{1,} "c"{0,1} "d"{2,2} "e"{2,} "f"{2,4} "g"{0,4} "h"{1,2} <"i" | "j">{1,})"#,
    );
    reads("root ::= \"ab\"* \"c\"*?", r#"("ab"{0,} "c"{0,})"#);
    reads("root ::=\n  item # one\n  | # or\n  (item\n item)\n\nitem ::= \"x\"", "<item | (item item)>");
    reads("a-1 ::= \"x\"\nroot ::= a-1\n a-1\nb_2 ::= \"y\"", "(a-1 a-1)");
    reads("root ::=", "\"\"");
    reads("root ::= \"a\" |", r#"<"a" | "">"#);
    reads("\u{feff}root ::= \"::=\" [#] \"#\"", r##"("::=" ['#'-'#'] "#")"##);
}

#[test]
fn gbnf_tokens_are_their_text() {
    reads("root ::= <think> <|end|>+", r#"("<think>" "<|end|>"{1,})"#);
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
fn lark_options_are_read() {
    reads_lark("%llguidance {}\nstart: \"a\"", "'\"a\"");
    reads_lark("%llguidance\n{ }\nstart: \"a\"\n%llguidance {}\n", "'\"a\"");
    let options = r#"%llguidance {"no_forcing": true, "allow_initial_skip": false}"#;
    let grammar = lark::grammar(&format!("{options}\nstart: \"a\""), &Policy::default(), None).unwrap();
    assert!(grammar.warnings[0].message().contains("no effect: no_forcing, allow_initial_skip"));
    fails("%llguidance\nstart: \"a\"", ErrorKind::InvalidPattern, "%llguidance\n", "needs a JSON object");
    fails("%llguidance {\nstart: \"a\"", ErrorKind::InvalidPattern, "%llguidance ", "needs a JSON object");
}

#[test]
fn lark_elements() {
    reads_lark(
        r#"start: "a" "b"i | /c+/ | "d".."f" |"#,
        r#"<('"a" '['B'-'B' 'b'-'b']) | '"c"{1,} | '['d'-'f'] | "">"#,
    );
    reads_lark(
        "start: (\"a\")* [\"b\" | \"c\"] \"d\"? \"e\"+ \"f\"~2 \"g\"~2..3",
        "('\"a\"{0,} <'\"b\" | '\"c\">{0,1} '\"d\"{0,1} '\"e\"{1,} '\"f\"{2,2} '\"g\"{2,3})",
    );
    reads_lark(
        "?start: item -> one\n  | \"x\" item // two\n!item.2: NAME\nNAME.-1: \"n\"",
        "<item | ('\"x\" item)>",
    );
    reads_lark("start: a\n?a: b\n_b: \"x\"\nb: _b", "a");
    reads_lark(
        "start: /a\\/b/ /A/i /./s /[]&&[]/u\n",
        r#"('"a/b" '['A'-'A' 'a'-'a'] '['\0'-'\u{10ffff}'] '['&'-'&' '['-'[' ']'-']'])"#,
    );
    reads_lark(
        "%import common.INT\n%import common (WORD, WS)\n%import common.INT -> NUM\n%ignore WS\nstart: INT NUM WORD",
        "('INT 'NUM 'WORD)",
    );
    reads_lark("start: %json {\"const\": \"}\"} \"x\"", "('json0 '\"x\")");
    let grammar =
        lark::grammar("start: A\nA.3: \"a\" B\nB: \"b\"\nC: \"c\"", &Policy::default(), None).unwrap();
    assert_eq!(body(&grammar, "A"), r#"("a" B)"#);
    assert_eq!(grammar.warnings.len(), 2, "{:?}", grammar.warnings);
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

#[track_caller]
fn error(text: &str) -> Error {
    let error = parse(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
    assert!(error.hint_text().is_some_and(|h| !h.is_empty()), "no hint: {error}");
    assert!(matches!(error.places()[0], Place::Span { .. } | Place::Pointer(_)), "no span: {error}");
    error
}

#[track_caller]
fn fails(text: &str, kind: ErrorKind, at: &str, message: &str) {
    let error = error(text);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(message), "{error}");
    let Place::Span { text, start, end } = &error.places()[0] else { panic!("{error}") };
    assert_eq!(&text[*start..*end], at, "{error}");
}

#[test]
fn gbnf_errors() {
    use ErrorKind::{InvalidPattern as Invalid, Unsatisfiable};
    fails("root ::= itm\nitem ::= \"a\"", Invalid, "itm", "not defined");
    assert_eq!(error("root ::= itm\nitem ::= \"a\"").hint_text(), Some("did you mean `item`?"));
    fails("root ::= \"a\"\nroot ::= \"b\"", Invalid, "root", "twice");
    fails("rot ::= \"a\"", Invalid, "r", "no rule `root`");
    fails("root ::= \"a", Invalid, "\"", "unclosed string");
    fails("root ::= \"a\n\"", Invalid, "\"", "unclosed string");
    fails("root ::= [a", Invalid, "[", "unclosed class");
    fails("root ::= [a-", Invalid, "[", "unclosed class");
    fails("root ::= (\"a\"", Invalid, "(", "unclosed group");
    fails("root ::= (\"a\"\nb ::= \"c\"", Invalid, "(", "unclosed group");
    fails("root ::= \"a\")", Invalid, ")", "closes nothing");
    fails("root ::= [z-a]", Invalid, "z-a", "out of order");
    fails("root ::= *", Invalid, "*", "nothing to repeat");
    fails("root ::= (\"a\" | +)", Invalid, "+", "nothing to repeat");
    fails("root ::= \"a\"{3,2}", Invalid, "{3,2}", "out of order");
    fails("root ::= \"a\"{,}", Invalid, "{,}", "not a repetition");
    fails("root ::= \"a\"{x}", Invalid, "{", "not a repetition");
    fails("root ::= \"\\q\"", Invalid, "\\q", "unknown escape");
    fails("root ::= \"\\ud800\"", Invalid, "\\u", "hexadecimal");
    fails("root ::= \"\\x4\"", Invalid, "\\x", "hexadecimal");
    fails("root ::= 'a'", Invalid, "'", "unexpected");
    fails("root ::= <a", Invalid, "<", "not a token");
    fails("root ::= <>", Invalid, "<", "not a token");
    fails("root ::= !\"a\"*", Invalid, "\"", "unexpected");
    fails("root ::= <[12]>", ErrorKind::Unsupported, "<[12]>", "by its number");
    for single in ["!<a>", "!<a>{2}", "!<a>{1,9}", "!<a>?", "(!<a> | \"x\")*", "(!<a> \"x\")*"] {
        fails(&format!("root ::= {single}"), ErrorKind::Unsupported, "root", "counts tokens");
    }
    fails("root ::= \"a\" ::= \"b\"", Invalid, ":", "unexpected");
    fails("# ::=\n root ::= x ::= y", Invalid, "y", "not defined");
    fails("::= \"a\"", Invalid, ":", "unexpected");
    fails("root ::= root", Unsatisfiable, "root", "always needs `root`");
    fails("root ::= a\na ::= \"x\" b\nb ::= a \"y\"", Unsatisfiable, "b", "which needs `a`");
    fails("root ::= \"x\" a\na ::= []", Unsatisfiable, "a", "which needs `a`");
    fails("root ::= []", Unsatisfiable, "root", "nothing matches");
}

#[test]
fn lark_errors() {
    use ErrorKind::{InvalidPattern as Invalid, Unsatisfiable, Unsupported};
    fails("start: naem\nname: \"a\"", Invalid, "naem", "not defined");
    fails("start: NAME\nNAME: other\nother: \"a\"", Invalid, "other", "refers to the rule");
    fails("start: \"a\"\nstart: \"b\"", Invalid, "start", "twice");
    fails("begin: \"a\"", Invalid, "b", "no rule `start`");
    fails("", Invalid, "", "no rule `start`");
    fails("start \"a\"", Invalid, "\"", "unexpected");
    fails("start: (\"a\"]", Invalid, "]", "closes nothing");
    fails("start: [\"a\"", Invalid, "[", "unclosed group");
    fails("start: /a", Invalid, "/", "unclosed pattern");
    fails("start: /a(/", Invalid, "/a(/", "unclosed group");
    fails("start: /(?=a)/", Unsupported, "/(?=a)/", "look-around");
    fails("start: /a$/", Unsupported, "/a$/", "anchors");
    fails("start: /a/x", Unsupported, "/a/x", "flag `x`");
    fails("start: \"a\"s", Unsupported, "\"a\"s", "flag `s`");
    fails("start: \"z\"..\"a\"", Invalid, "\"z\"..\"a\"", "not a range");
    fails("start: \"ab\"..\"z\"", Invalid, "\"ab\"..\"z\"", "not a range");
    fails("start: \"a\"~", Invalid, "~", "ends too soon");
    fails("start: \"a\"~3..2", Invalid, "~3..2", "out of order");
    fails("start: x{y}\nx: \"a\"", Unsupported, "x", "templates");
    fails("start: \"a\"\nt{x}: x", Unsupported, "t", "templates");
    fails("%declare X\nstart: X", Unsupported, "%declare", "not supported");
    fails("%import other.X\nstart: X", Unsupported, "other.X", "only terminals of `common`");
    fails("%import common.NOPE\nstart: NOPE", Unsupported, "common.NOPE", "no terminal `NOPE`");
    fails("start: %json 3", Invalid, "%json ", "needs a JSON object");
    fails("start: %json {\"a\": ", Invalid, "%json ", "needs a JSON object");
    fails("start: A\nA: %json {}", Unsupported, "%json", "in a terminal");
    fails("start: start \"a\"", Unsatisfiable, "start", "always needs");
    let error = parse("start: %json {\"type\": \"nope\"}").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSchema);
    assert_eq!(error.places()[0], Place::Pointer("/type".to_owned()));
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
    fn lark_never_panics(text in r#"(start: |\na: |\nA: |start|a|A|"x"|/x/|%ignore |%import common|%json |[()|?*+{},"\[\]~\\./!\n 0-9-]|\PC){0,24}"#) {
        if let Err(e) = lark::parse_from(&text, &Policy::default(), None) {
            let _ = e.to_string();
        }
    }
}
