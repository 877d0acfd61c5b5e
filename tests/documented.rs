//! The examples of `docs/constraints.md` hold.

mod common;

use common::vocab::TestVocab;
use ffwd::constraint::substring::SubstringOptions;
use ffwd::{CompiledGrammar, Compiler, Constraint, Policy, Result};

const PAGE: &str = include_str!("../docs/constraints.md");

/// What an example says: its kind, the constraint, and lines of a verb and its object.
struct Example<'a> {
    kind: &'a str,
    constraint: String,
    claims: Vec<(&'a str, &'a str)>,
}

fn examples() -> Vec<Example<'static>> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let example = |block: &'static str| {
        let (kind, body) = block.split_once('\n').expect("a block has lines");
        let claim = |line: &'static str| {
            let (verb, object) = line.split_once(' ')?;
            ["accepts", "refuses", "fails"].contains(&verb).then_some((verb, object))
        };
        let constraint: Vec<&str> = body.lines().take_while(|l| claim(l).is_none()).collect();
        Example { kind, constraint: constraint.join("\n"), claims: body.lines().filter_map(claim).collect() }
    };
    blocks.map(example).collect()
}

fn accepts(words: &TestVocab, grammar: &CompiledGrammar, text: &str) -> bool {
    let mut matcher = grammar.matcher();
    let byte = |b: u8| words.tokens.iter().position(|t| t[..] == [b]).expect("all bytes are tokens") as u32;
    text.bytes().all(|b| matcher.accept_token(byte(b)).is_ok()) && matcher.is_accepting()
}

#[test]
fn the_examples_hold() {
    let words = TestVocab::new(3, 80, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let compile = |example: &Example| -> Result<CompiledGrammar> {
        let text = &example.constraint;
        compiler.compile(&match example.kind {
            "json_schema" => Constraint::json_schema(text)?,
            "regex" => Constraint::regex(text)?,
            "pattern" => Constraint::pattern(text)?,
            "gbnf" => Constraint::gbnf(text)?,
            "lark" => Constraint::lark(text)?,
            "structural_tag" => Constraint::structural_tag(text)?,
            // The last line is the source of the schema before it.
            "verbatim" => {
                let (schema, source) = text.rsplit_once('\n').expect("a schema and a source");
                Constraint::json_schema_quoting(
                    schema,
                    Policy::default(),
                    source,
                    &SubstringOptions::words(),
                )?
            }
            "substring" => Constraint::substring(text, &SubstringOptions::default())?,
            "substring_words" => Constraint::substring(text, &SubstringOptions::words())?,
            kind => panic!("no constraint is called {kind}"),
        })
    };
    let examples = examples();
    assert!(examples.len() > 20, "the page has examples");
    for example in &examples {
        assert!(!example.claims.is_empty(), "nothing is claimed about {}", example.constraint);
        let grammar = compile(example);
        for &(verb, object) in &example.claims {
            match (verb, &grammar) {
                ("fails", Err(error)) => assert!(error.to_string().contains(object), "{error}"),
                ("fails", Ok(_)) => panic!("{} should fail", example.constraint),
                (_, Err(error)) => panic!("{}\n{error}", example.constraint),
                (_, Ok(grammar)) => {
                    let holds = accepts(&words, grammar, object) == (verb == "accepts");
                    assert!(holds, "{}\nshould: {verb} {object}", example.constraint);
                }
            }
        }
    }
}
