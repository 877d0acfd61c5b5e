//! Runs the examples of `docs/constraints.md`.

use ffwd::constraint::substring::SubstringOptions;
use ffwd::constraint::token_machine::{Labels, Levels, TokenFsm};
use ffwd::constraint::tools::{ToolChoice, ToolStyle, Tools};
use ffwd::{CompiledGrammar, Compiler, Constraint, Policy, Result, Whitespace};
use ffwd_testkit::vocab::TestVocab;

const PAGE: &str = include_str!("../../docs/constraints.md");

/// What an example says: its kind, the constraint, and lines of a verb and its object.
struct Example<'a> {
    kind: &'a str,
    constraint: String,
    claims: Vec<(&'a str, &'a str)>,
}

fn examples() -> Vec<Example<'static>> {
    let blocks = PAGE.split("```").skip(1).step_by(2).filter(|block| !block.starts_with("rust"));
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
    if grammar.is_token_level() {
        // As the tokenizer writes it, behind the space in front of labels if there is one.
        let space = words.vocab.encode(" ").expect("a token")[0];
        let text = if matcher.allows(space) { format!(" {text}") } else { text.into() };
        let tokens = words.vocab.encode(&text).expect("all bytes are tokens");
        return tokens.iter().all(|&t| matcher.accept_token(t).is_ok()) && matcher.is_accepting();
    }
    let byte = |b: u8| words.tokens.iter().position(|t| t[..] == [b]).expect("all bytes are tokens") as u32;
    text.bytes().all(|b| matcher.accept_token(byte(b)).is_ok()) && matcher.is_accepting()
}

/// Lines such as `0 -- [a-z] -> 1`, and `accept 1`.
fn machine(words: &TestVocab, text: &str) -> Result<Constraint> {
    let mut fsm = TokenFsm::new();
    for line in text.lines() {
        if let Some(state) = line.strip_prefix("accept ") {
            fsm.accept(state.parse().expect("a state"));
            continue;
        }
        let (from, rest) = line.split_once(" -- ").expect("a transition");
        let (pattern, to) = rest.rsplit_once(" -> ").expect("a transition");
        let state = |text: &str| text.parse().expect("a state");
        fsm.add_transition(state(from), words.vocab.tokens_matching(pattern)?, state(to));
    }
    Ok(Constraint::token_fsm(&fsm))
}

/// Labels and their options as JSON.
fn labels(text: &str) -> Constraint {
    let options: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let list = options["labels"].as_array().expect("labels");
    let mut labels = Labels::new(list.iter().map(|l| l.as_str().expect("a label")));
    if let Some(separator) = options["separator"].as_str() {
        labels = labels.several(separator);
    }
    if let Some(most) = options["at_most"].as_u64() {
        labels = labels.at_most(most as u32);
    }
    if let Some(separator) = options["paths"].as_str() {
        let levels = if options["levels"] == "leaves" { Levels::Leaves } else { Levels::Listed };
        labels = labels.paths(separator, levels);
    }
    Constraint::labels(&labels)
}

#[test]
fn the_examples_hold() {
    let words = TestVocab::new(3, 80, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let compile = |example: &Example| -> Result<CompiledGrammar> {
        let text = &example.constraint;
        compiler.compile(&match example.kind {
            "json_schema" => Constraint::json_schema(text)?,
            "json_schema_single" => {
                let single = Policy { whitespace: Whitespace::SingleSpace, ..Policy::default() };
                Constraint::builder().policy(single).json_schema(text)?
            }
            "json_schema_equal" => {
                let equal = Policy { equal_numbers: true, ..Policy::default() };
                Constraint::builder().policy(equal).json_schema(text)?
            }
            "json_schema_closed" => {
                let closed = Policy { closed_objects: true, ..Policy::default() };
                Constraint::builder().policy(closed).json_schema(text)?
            }
            "regex" => Constraint::regex(text)?,
            "pattern" => Constraint::pattern(text)?,
            "gbnf" => Constraint::builder().gbnf(text)?,
            "lark" => Constraint::builder().lark(text)?,
            "structural_tag" => Constraint::structural_tag(text)?,
            kind if let Some(style) = kind.strip_prefix("tools ") => {
                let style = ToolStyle::by_name(style)?;
                Tools::parse(text)?.constraint(style, &ToolChoice::default(), Policy::default())?
            }
            // The last line is the source of the schema before it.
            "verbatim" => {
                let (schema, source) = text.rsplit_once('\n').expect("a schema and a source");
                Constraint::builder().source(source, &SubstringOptions::words()).json_schema(schema)?
            }
            "substring" => Constraint::substring(text, &SubstringOptions::default())?,
            "substring_words" => Constraint::substring(text, &SubstringOptions::words())?,
            "token_fsm" => machine(&words, text)?,
            "labels" => labels(text),
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
