//! Findings of the fuzz targets, each with the shortest input that shows it. Those that texts show are
//! among the examples of `crates/engine/testdata`.

use ffwd::{Compiler, Constraint};
use ffwd_testkit::vocab::TestVocab;

/// `gbnf`: many repetitions of an element that may be empty. If each state leads to all later ones,
/// a byte follows the square of their number of calls, once for every open rule. The bytes of the
/// grammar show the number of calls.
#[test]
fn counted_repetitions_of_what_may_be_empty() {
    let compiler = Compiler::new(TestVocab::new(7, 200, &[]).vocab);
    for (body, text) in [
        ("a{2,3} root?{555,} | \"\"", "aaaaaaaaaaaaaaaa"),
        ("a{2,3} root?{0,555} | \"\"", "aaaaaaaaaaaaaaaa"),
        ("a{2,3} root{0,555} | \"\"", "aaaaaaaaaaaaaaaa"),
        ("a (root? \"b\"?){555}", "abababaaaabbb"),
        ("a ((root | \"\"){1,20} \"b\"?){2,30}", "abababaaaabbb"),
    ] {
        let source = format!("root ::= {body}\na ::= \"a\"");
        let grammar = compiler.compile(&Constraint::ebnf(&source).unwrap()).unwrap();
        let mut matcher = grammar.matcher();
        for token in compiler.vocabulary().encode(text).unwrap() {
            matcher.bitmask();
            matcher.accept_token(token).unwrap();
        }
        assert!(matcher.is_accepting(), "{body}");
        let bytes = grammar.memory().total();
        assert!(bytes < 1_500_000, "{body}: {bytes} bytes");
    }
}

/// `schema_tree`: arrays of different arrays, nested without end. The search for enough items can
/// go through ever deeper brackets. Each step also costs a step for every array around it, and
/// those count against the limit, too.
#[test]
fn different_items_that_nest_without_end() {
    let compiler = Compiler::new(TestVocab::new(7, 200, &[]).vocab);
    for one_of in [
        r##"{"maxItems":2,"if":{"properties":{"ab":{"minLength":0},"a":{"multipleOf":3}}}},
               {"contains":{"type":"array"},"type":"object","$ref":"#/$defs/s"},
               {"contains":{"not":{"type":"object"}},"properties":{"ab":{"items":{"type":["array","number"]}}},
                "dependentSchemas":{"ab":{"allOf":[{"exclusiveMinimum":92},{"exclusiveMinimum":28}],"$ref":"#"}}}"##,
        r##"{"maxItems":2,"if":{"properties":{"ab":{"minLength":0},"a":{"multipleOf":3}}}},
               {"contains":{"type":"array"},"then":{"else":{"maxItems":4},"properties":{"ab":{"type":"object"}}}},
               {"$ref":"#/$defs/s","properties":{"x":{"multipleOf":3}},"if":{"minimum":-16.5}}"##,
    ] {
        let schema = format!(
            r##"{{"multipleOf":3,"uniqueItems":true,"items":{{"$ref":"#","if":{{"minimum":-16.5}},
                "items":{{"propertyNames":{{"pattern":"[^a]$","type":"integer"}}}},"oneOf":[{one_of}]}},
                "$defs":{{"s":{{"type":"string"}}}}}}"##
        );
        let error = compiler.compile(&Constraint::json_schema(&schema).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ffwd::ErrorKind::TooComplex, "{error}");
        assert!(error.to_string().contains("different items"), "{error}");
    }
}

/// `lark`: a grammar that ends too soon behind a character of several bytes. The error quoted the
/// last byte.
#[test]
fn grammars_that_end_in_the_middle() {
    let lark =
        "start: \"ä\" B  // Ж\n  | /[é-ü]+/ \"…\" %json {\"const\": \"€\"}\nB: \"\\u00e9\" ~ 2..3 // ǎЖ";
    let gbnf = "root ::= \"ä\" b # Ж\n  | [é-ü]+ \"…\"\nb ::= (\"€\" | \"\\u20ac\"){2,3} # ǎЖ";
    assert!(Constraint::builder().lark("sta//ǎЖ").is_err());
    let mut errors = 0;
    for text in [lark, gbnf] {
        for end in (0..=text.len()).filter(|&i| text.is_char_boundary(i)) {
            for more in ["", "Ж", "\"Ж", "//Ж", "#Ж", "[Ж", "/Ж", "{Ж", "\\Ж", "\"\\xЖ", "\"\\u00Ж"]
            {
                let text = format!("{}{more}", &text[..end]);
                let found = [Constraint::builder().lark(&text), Constraint::ebnf(&text)];
                errors += found.iter().filter(|found| found.is_err()).count();
                // Behind more text than an error quotes whole.
                let long = format!("{}\n{text}", "// Ж\n".repeat(12_000));
                errors += usize::from(more == "Ж" && Constraint::builder().lark(&long).is_err());
            }
        }
    }
    assert!(errors > 3000, "{errors}");
}

/// `schema_tree`: items of an array with `contains` whose strings are in the array's own rule.
/// Infinitely many items may follow a comma. This says nothing about the current item, which must
/// not begin if it can only repeat an earlier one: nothing would be legal after it.
#[test]
fn items_that_can_only_be_what_is_there_are_not_begun() {
    let words = TestVocab::new(7, 200, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    for schema in [
        r#"{"type":"array","uniqueItems":true,"contains":{"not":{"contains":{"pattern":"b"}}}}"#,
        r#"{"uniqueItems":true,"contains":{"anyOf":[{"type":"array","items":{"not":{"pattern":"b"}}},{"type":"number"}]}}"#,
        r#"{"type":"array","uniqueItems":true,"contains":{"not":{"allOf":[{"contains":{"pattern":"b|c"},"type":"string"},
            {"items":{"exclusiveMinimum":19.5},"patternProperties":{"^a*$":{"maximum":95}}}]},"maximum":-64}}"#,
    ] {
        let grammar = compiler.compile(&Constraint::json_schema(schema).unwrap()).unwrap();
        for prefix in ["[null,", "[true,false,", "[\"\",\"", "[[],[", "[[null],[nul"] {
            let mut matcher = grammar.matcher();
            for token in compiler.vocabulary().encode(prefix).unwrap() {
                matcher.accept_token(token).unwrap();
            }
            // Along the bytes of `null` and of what ends an item or an array, something is legal
            // behind all that is.
            let mut todo = vec![(matcher, 0)];
            while let Some((mut at, depth)) = todo.pop() {
                let bytes = |t: u32| words.tokens[t as usize].as_slice();
                let legal: Vec<u32> = (0..words.tokens.len() as u32).filter(|t| at.allows(*t)).collect();
                assert!(!legal.is_empty() || at.is_accepting(), "{schema}: a dead end behind {prefix}");
                for token in legal.into_iter().filter(|t| matches!(bytes(*t), [b] if b"nul\"],".contains(b)))
                {
                    let mut fork = at.fork();
                    fork.accept_token(token).unwrap();
                    todo.extend((depth < 4).then_some((fork, depth + 1)));
                }
            }
        }
    }
}
