//! Tools whose schemas allow nothing, which only compiling shows, against each schema alone.

use ffwd::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use ffwd::{Compiler, Constraint, ErrorKind, Policy, WarningKind};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

/// Members of objects, some of which no value satisfies.
const VALUES: [&str; 8] = [
    r#"{"type": "integer"}"#,
    r#"{"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 3}"#,
    r#"{"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 2}"#,
    r##"{"$ref": "#/$defs/endless"}"##,
    r##"{"$ref": "#/$defs/list"}"##,
    r#"{"type": "string", "maxLength": 3}"#,
    r##"{"anyOf": [{"$ref": "#/$defs/endless"}, {"type": "null"}]}"##,
    r##"{"type": "array", "items": {"$ref": "#/$defs/endless"}, "minItems": 1}"##,
];
const DEFS: &str = r##"{"endless": {"type": "object", "properties": {"e": {"$ref": "#/$defs/endless"}},
  "required": ["e"]}, "list": {"type": "array", "items": {"$ref": "#/$defs/list"}}}"##;

fn schema(random: &mut Random) -> String {
    let value = random.pick(&VALUES);
    let required = if random.chance(70) { r#"["a"]"# } else { "[]" };
    let object = format!(r#""type": "object", "properties": {{"a": {value}}}, "required": {required}"#);
    match random.chance(20) {
        true => format!(r#"{{"$defs": {DEFS}, "anyOf": [{{{object}}}, {{{object}, "minProperties": 1}}]}}"#),
        false => format!(r#"{{"$defs": {DEFS}, {object}}}"#),
    }
}

#[test]
fn tools_that_allow_nothing_are_named() {
    let compiler = Compiler::new(TestVocab::new(5, 60, &[]).vocab);
    let mut random = Random::new(4);
    let (mut refused, mut compiled, mut warned) = (0, 0, 0);
    for round in 0..300 {
        // Those that parsing refuses are another matter.
        let parsed =
            std::iter::repeat_with(|| schema(&mut random)).filter(|s| Constraint::json_schema(s).is_ok());
        let schemas: Vec<String> = parsed.take(1 + round % 4).collect();
        let possible = |text: &String| match compiler.compile(&Constraint::json_schema(text).unwrap()) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsatisfiable, "{text}: {error}");
                false
            }
        };
        let possible: Vec<bool> = schemas.iter().map(possible).collect();
        let entry = |(i, text): (usize, &String)| format!(r#"{{"name": "t{i}", "parameters": {text}}}"#);
        let list = format!("[{}]", schemas.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
        let style = ToolStyle::ALL[round % ToolStyle::ALL.len()];
        let calls = if random.chance(50) { Calls::Auto } else { Calls::Required };
        let choice = ToolChoice { calls, single: random.chance(50) };
        let make = |tools: Tools| compiler.compile(&tools.constraint(style, &choice, Policy::default())?);

        let strict = make(Tools::parse(&list).unwrap());
        match possible.iter().position(|&p| !p) {
            None => assert!(strict.is_ok(), "{style:?} {list}: {:?}", strict.err()),
            Some(first) => {
                let error = strict.map(drop).expect_err(&list);
                assert_eq!(error.kind(), ErrorKind::Unsatisfiable);
                assert!(error.message().contains(&format!("`t{first}`")), "{style:?} {list}: {error}");
                assert_eq!(error.pointer(), Some(&*format!("/{first}/parameters")));
                refused += 1;
            }
        }

        let skipping = make(Tools::parse_skipping_broken(&list, style, &Policy::default()).unwrap());
        let Ok(grammar) = skipping else {
            // Without any tool there is no call.
            let error = skipping.map(drop).unwrap_err();
            assert!(!possible.contains(&true) && error.message().contains("`t0`"), "{list}: {error}");
            continue;
        };
        compiled += 1;
        let lost = grammar.warnings().iter().filter(|w| w.kind() == WarningKind::MissingTool);
        let lost: Vec<&str> = lost.map(|w| w.pointer().expect("the schema")).collect();
        let expected = possible.iter().enumerate().filter(|(_, p)| !**p);
        let expected: Vec<String> = expected.map(|(i, _)| format!("/{i}/parameters")).collect();
        assert_eq!(lost, expected, "{style:?} {list}");
        warned += usize::from(!lost.is_empty());
    }
    assert!(refused > 50 && compiled > 100 && warned > 50, "{refused} {compiled} {warned}");
}
