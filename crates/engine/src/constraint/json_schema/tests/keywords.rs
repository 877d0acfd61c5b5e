//! Every keyword of the table: generated for, checked on literals, negated, limited to its types and
//! its drafts, and listed on the page of constraints.

use crate::constraint::Policy;
use crate::constraint::json_schema::parse_from;
use crate::constraint::json_schema::read::{Keyword, SchemaDraft, Types};
use crate::constraint::substring::SubstringOptions;
use crate::constraint::test_reference::accepts;
use crate::error::{ErrorKind, Result};

const DRAFTS: [(SchemaDraft, &str); 5] = [
    (SchemaDraft::D4, "http://json-schema.org/draft-04/schema#"),
    (SchemaDraft::D6, "http://json-schema.org/draft-06/schema#"),
    (SchemaDraft::D7, "http://json-schema.org/draft-07/schema#"),
    (SchemaDraft::D2019, "https://json-schema.org/draft/2019-09/schema"),
    (SchemaDraft::D2020, "https://json-schema.org/draft/2020-12/schema"),
];

/// Returns members of a schema that have the keyword, a valid instance and one that violates it.
/// The schema `#/$defs/a` allows `null` only.
fn sample(keyword: Keyword) -> (&'static str, &'static str, &'static str) {
    match keyword {
        Keyword::Type => (r#""type":"string""#, r#""a""#, "1"),
        Keyword::Enum => (r#""enum":[1,2]"#, "1", "3"),
        Keyword::Const => (r#""const":1"#, "1", "2"),
        Keyword::Properties => (r#""properties":{"a":{"type":"null"}}"#, r#"{"a":null}"#, r#"{"a":1}"#),
        Keyword::Required => (r#""required":["a"]"#, r#"{"a":1}"#, "{}"),
        Keyword::AdditionalProperties => (r#""additionalProperties":false"#, "{}", r#"{"b":1}"#),
        Keyword::PatternProperties => {
            (r#""patternProperties":{"^a":{"type":"null"}}"#, r#"{"ab":null}"#, r#"{"ab":1}"#)
        }
        Keyword::PropertyNames => (r#""propertyNames":{"maxLength":1}"#, r#"{"a":1}"#, r#"{"ab":1}"#),
        Keyword::MinProperties => (r#""minProperties":1"#, r#"{"a":1}"#, "{}"),
        Keyword::MaxProperties => (r#""maxProperties":1"#, r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
        Keyword::Dependencies => (r#""dependencies":{"a":["b"]}"#, r#"{"a":1,"b":1}"#, r#"{"a":1}"#),
        Keyword::DependentRequired => {
            (r#""dependentRequired":{"a":["b"]}"#, r#"{"a":1,"b":1}"#, r#"{"a":1}"#)
        }
        Keyword::DependentSchemas => {
            (r#""dependentSchemas":{"a":{"required":["b"]}}"#, r#"{"a":1,"b":1}"#, r#"{"a":1}"#)
        }
        Keyword::UnevaluatedProperties => (r#""unevaluatedProperties":false"#, "{}", r#"{"a":1}"#),
        Keyword::Items => (r#""items":{"type":"null"}"#, "[null]", "[1]"),
        Keyword::PrefixItems => (r#""prefixItems":[{"type":"null"}]"#, "[null]", "[1]"),
        Keyword::AdditionalItems => (r#""items":[{}],"additionalItems":false"#, "[1]", "[1,1]"),
        Keyword::UnevaluatedItems => (r#""unevaluatedItems":false"#, "[]", "[1]"),
        Keyword::MinItems => (r#""minItems":1"#, "[1]", "[]"),
        Keyword::MaxItems => (r#""maxItems":1"#, "[1]", "[1,1]"),
        Keyword::UniqueItems => (r#""uniqueItems":true"#, "[1,2]", "[1,1]"),
        Keyword::Contains => (r#""contains":{"type":"null"}"#, "[null]", "[1]"),
        Keyword::MinContains => (r#""contains":{"type":"null"},"minContains":2"#, "[null,null]", "[null]"),
        Keyword::MaxContains => (r#""contains":{"type":"null"},"maxContains":1"#, "[null]", "[null,null]"),
        Keyword::MinLength => (r#""minLength":1"#, r#""a""#, r#""""#),
        Keyword::MaxLength => (r#""maxLength":1"#, r#""a""#, r#""aa""#),
        Keyword::Pattern => (r#""pattern":"^a""#, r#""ab""#, r#""b""#),
        Keyword::Format => (r#""format":"date""#, r#""2024-02-29""#, r#""2023-02-29""#),
        Keyword::Minimum => (r#""minimum":1"#, "1", "0"),
        Keyword::Maximum => (r#""maximum":1"#, "1", "2"),
        Keyword::ExclusiveMinimum => (r#""exclusiveMinimum":1"#, "2", "1"),
        Keyword::ExclusiveMaximum => (r#""exclusiveMaximum":1"#, "0", "1"),
        Keyword::MultipleOf => (r#""multipleOf":2"#, "4", "3"),
        Keyword::AllOf => (r#""allOf":[{"type":"null"}]"#, "null", "1"),
        Keyword::AnyOf => (r#""anyOf":[{"type":"null"}]"#, "null", "1"),
        Keyword::OneOf => (r#""oneOf":[{"type":"null"}]"#, "null", "1"),
        Keyword::Not => (r#""not":{"type":"null"}"#, "1", "null"),
        Keyword::If | Keyword::Then => (r#""if":{"type":"null"},"then":{"not":{}}"#, "1", "null"),
        Keyword::Else => (r#""if":{"type":"null"},"else":{"not":{}}"#, "null", "1"),
        Keyword::Ref => (r##""$ref":"#/$defs/a""##, "null", "1"),
        Keyword::DynamicRef => (r##""$dynamicRef":"#/$defs/a""##, "null", "1"),
        Keyword::RecursiveRef => (r##""$recursiveRef":"#/$defs/a""##, "null", "1"),
        Keyword::XVerbatim => (r#""x-verbatim":true"#, r#""b""#, r#""x""#),
    }
}

/// Returns which of the texts a schema with these members accepts.
fn accepted(draft: &str, members: &str, texts: &[&str]) -> Result<Vec<bool>> {
    let schema =
        format!(r#"{{"$schema":"{draft}","$defs":{{"a":{{"type":"null"}}}},"allOf":[{{{members}}}]}}"#);
    let ir = parse_from(&schema, &Policy::default(), Some(("abc", &SubstringOptions::default())));
    match ir {
        Err(error) if error.kind() == ErrorKind::Unsatisfiable => Ok(vec![false; texts.len()]),
        ir => ir.map(|ir| texts.iter().map(|text| accepts(&ir, text)).collect()),
    }
}

/// Returns the URI of the newest draft that has the keyword.
fn newest(keyword: Keyword) -> &'static str {
    DRAFTS.iter().rev().find(|(draft, _)| draft.knows(keyword.into())).unwrap().1
}

#[test]
fn each_keyword_is_generated_for_checked_and_negated() {
    let mut refused = Vec::new();
    for &keyword in Keyword::ALL {
        let (members, valid, invalid) = sample(keyword);
        let draft = newest(keyword);
        let texts = [valid, invalid];
        let judged = |members: &str| {
            accepted(draft, members, &texts).unwrap_or_else(|e| panic!("{keyword:?}: {members}\n{e}"))
        };
        assert_eq!(judged(members), [true, false], "{keyword:?}");
        let listed = format!(r#""enum":[{valid},{invalid}]"#);
        assert_eq!(judged(&format!(r#"{listed},"allOf":[{{{members}}}]"#)), [true, false], "{keyword:?}");
        assert_eq!(judged(&format!(r#"{listed},"not":{{{members}}}"#)), [false, true], "{keyword:?}");
        match accepted(draft, &format!(r#""not":{{{members}}}"#), &texts) {
            Ok(judged) => assert_eq!(judged, [false, true], "the negation of {keyword:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{keyword:?}: {error}");
                refused.push(keyword);
            }
        }
    }
    assert_eq!(refused, [Keyword::UniqueItems, Keyword::MaxContains, Keyword::XVerbatim]);
}

#[test]
fn each_keyword_accepts_the_types_that_it_is_not_about() {
    let values =
        [(Types::NULL, "null"), (Types::NUMBER, "1"), (Types::STRING, r#""a""#), (Types::ARRAY, "[1]")]
            .into_iter()
            .chain([(Types::TRUE, "true"), (Types::OBJECT, r#"{"a":1}"#)]);
    for (types, text) in values {
        for &keyword in Keyword::ALL.iter().filter(|k| !k.definition().about.meets(types)) {
            let members = sample(keyword).0;
            for members in [members.to_string(), format!(r#""enum":[{text}],"allOf":[{{{members}}}]"#)] {
                let judged = accepted(newest(keyword), &members, &[text]);
                assert_eq!(judged.unwrap(), [true], "{keyword:?} on {text}");
            }
        }
    }
}

#[test]
fn a_draft_without_the_keyword_ignores_it() {
    let mut ignored = 0;
    for &keyword in Keyword::ALL {
        let (members, valid, invalid) = sample(keyword);
        for (_, uri) in DRAFTS.iter().filter(|(draft, _)| !draft.knows(keyword.into())) {
            match accepted(uri, members, &[valid, invalid]) {
                Ok(judged) => assert_eq!(judged, [true, true], "{keyword:?} in {uri}"),
                // A list in `items` is no schema there.
                Err(error) => assert_eq!(keyword, Keyword::AdditionalItems, "{error}"),
            }
            ignored += 1;
        }
    }
    assert!(ignored > 20, "{ignored}");
}

#[test]
fn the_page_of_constraints_lists_the_keywords() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/constraints.md"));
    let page = page.unwrap();
    let mut listed: Vec<&str> = Vec::new();
    let mut in_table = false;
    for line in page.lines() {
        in_table = line == "| keyword | support |" || (in_table && line.starts_with('|'));
        if let Some(names) =
            line.strip_prefix("| ").and_then(|row| row.split(" | ").next()).filter(|_| in_table)
        {
            listed.extend(names.split('`').skip(1).step_by(2));
        }
    }
    for keyword in Keyword::ALL {
        assert!(listed.contains(&keyword.name()), "{} is not listed", keyword.name());
    }
    let known = |name: &str| super::super::read::language().symbols.find(name).is_some();
    let unknown: Vec<&&str> = listed.iter().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in the table");
}
