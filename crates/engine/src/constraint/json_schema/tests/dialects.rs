//! Keywords of other dialects against the same schema in JSON Schema, drafts that keywords show,
//! wrappers, and reports of unknown keywords.

use super::naive::accepts;
use crate::constraint::Policy;
use crate::constraint::ir::Ir;
use crate::constraint::json_schema::parse;
use crate::error::ErrorKind;
use crate::warning::WarningKind;

fn read(schema: &str) -> Ir {
    parse(schema, &Policy::default()).unwrap_or_else(|e| panic!("{schema}\n{e}"))
}

/// Texts of all kinds of values.
fn texts() -> Vec<String> {
    let scalars = ["null", "true", "0", "3", "6", "2.5", "9223372036854775808", "\"\"", "\"a\"", "\"b\""];
    let mut all: Vec<String> = scalars.iter().map(ToString::to_string).collect();
    all.push("{}".into());
    all.push("[]".into());
    for a in scalars {
        all.push(format!("[{a}]"));
        all.push(format!("[3,{a}]"));
        for key in ["a", "b"] {
            all.push(format!("{{\"{key}\":{a}}}"));
            all.push(format!("{{\"{key}\":{{\"a\":{a}}}}}"));
        }
        for b in scalars {
            all.push(format!("{{\"a\":{a},\"b\":{b}}}"));
            all.push(format!("{{\"a\":{{\"a\":{a}}},\"b\":{b}}}"));
        }
    }
    all
}

/// Compares two schemas on all texts; the first one must not have warnings.
fn same(dialect: &str, schema: &str) {
    let (left, right) = (read(dialect), read(schema));
    assert!(left.warnings.is_empty(), "{dialect}: {:?}", left.warnings);
    let mut counts = [0; 2];
    for text in texts() {
        let expected = accepts(&right, &text);
        counts[usize::from(expected)] += 1;
        assert_eq!(accepts(&left, &text), expected, "{dialect}\nagainst {schema}\non {text}");
    }
    assert!(counts.iter().all(|&n| n > 0), "{schema} {counts:?}");
}

#[test]
fn nullable_allows_null_beside_any_keyword() {
    same(r#"{"type":"string","nullable":true}"#, r#"{"type":["string","null"]}"#);
    same(r#"{"type":"string","nullable":false}"#, r#"{"type":"string"}"#);
    same(r#"{"type":"string","x-nullable":true}"#, r#"{"type":["string","null"]}"#);
    same(r#"{"type":"string","enum":["a"],"nullable":true}"#, r#"{"enum":["a",null]}"#);
    same(r#"{"const":"a","nullable":true}"#, r#"{"enum":["a",null]}"#);
    same(
        r##"{"$ref":"#/$defs/x","nullable":true,"$defs":{"x":{"type":"integer"}}}"##,
        r#"{"type":["integer","null"]}"#,
    );
    same(
        r##"{"nullable":true,"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"integer"}}}"##,
        r#"{"type":["integer","null"]}"#,
    );
    same(
        r#"{"type":"object","properties":{"a":{"type":"object","nullable":true,"properties":{"a":{"type":"integer","nullable":true}},"required":["a"]}},"required":["a"]}"#,
        r#"{"type":"object","properties":{"a":{"type":["object","null"],"properties":{"a":{"type":["integer","null"]}},"required":["a"]}},"required":["a"]}"#,
    );
    same(
        r#"{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"string","nullable":true}]}}"#,
        r#"{"type":"array","items":{"type":["integer","string","null"]}}"#,
    );
    same(
        r#"{"oneOf":[{"type":"object","properties":{"a":{"const":3}},"required":["a"]},{"type":"object","properties":{"a":{"const":"a"}},"required":["a"]}],"nullable":true}"#,
        r#"{"type":["object","null"],"properties":{"a":{"enum":[3,"a"]}},"required":["a"]}"#,
    );
    same(
        r#"{"type":"array","items":{"not":{"type":"string","nullable":true}}}"#,
        r#"{"type":"array","items":{"not":{"type":["string","null"]}}}"#,
    );
}

#[test]
fn references_lead_into_nullable_schemas() {
    same(
        r##"{"type":"object","nullable":true,"properties":{"a":{"type":"object","nullable":true,"properties":{"a":{"type":"integer"}}},"b":{"$ref":"#/properties/a/properties/a"}}}"##,
        r#"{"type":["object","null"],"properties":{"a":{"type":["object","null"],"properties":{"a":{"type":"integer"}}},"b":{"type":"integer"}}}"#,
    );
    let recursive = read(
        r##"{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"a":{"nullable":true,"$ref":"#/$defs/n"}},"required":["a"],"additionalProperties":false}}}"##,
    );
    assert!(accepts(&recursive, r#"{"a":{"a":null}}"#) && !accepts(&recursive, r#"{"a":{"a":3}}"#));
    let components = read(
        r##"{"$ref":"#/components/schemas/P","components":{"schemas":{"P":{"type":"object","properties":{"a":{"type":"integer","nullable":true}},"required":["a"]}}}}"##,
    );
    assert!(accepts(&components, r#"{"a":null}"#) && !accepts(&components, r#"{"a":"x"}"#));
}

#[test]
fn deep_schemas_are_rewritten() {
    let deep = |depth: usize| {
        let start = r#"{"type":"object","nullable":true,"required":["a"],"properties":{"a":"#;
        format!("{}{{\"type\":\"integer\"}}{}", start.repeat(depth), "}}".repeat(depth))
    };
    let ir = read(&deep(200));
    assert!(accepts(&ir, r#"{"a":{"a":null}}"#) && !accepts(&ir, r#"{"a":3}"#));
    assert_eq!(parse(&deep(300), &Policy::default()).unwrap_err().kind(), ErrorKind::TooComplex);
}

#[test]
fn nullable_in_a_part_of_all_of() {
    let ir = read(r#"{"allOf":[{"type":"string"},{"nullable":true}]}"#);
    assert!(accepts(&ir, "null") && accepts(&ir, "\"a\"") && !accepts(&ir, "3"));
    assert_eq!(ir.warnings.len(), 1, "{:?}", ir.warnings);
    // A part that says more is a schema of its own.
    same(
        r#"{"allOf":[{"type":["string","null"]},{"enum":["a"],"nullable":true}]}"#,
        r#"{"enum":["a",null]}"#,
    );
}

#[test]
fn draft_3() {
    same(
        r#"{"type":"object","properties":{"a":{"type":"integer","required":true},"b":{"type":"string","required":false}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}"#,
    );
    same(
        r#"{"type":"object","required":["b"],"properties":{"a":{"type":"object","required":true,"properties":{"a":{"required":true}}}}}"#,
        r#"{"type":"object","required":["a","b"],"properties":{"a":{"type":"object","properties":{"a":{}},"required":["a"]}}}"#,
    );
    same(r#"{"type":"integer","divisibleBy":3}"#, r#"{"type":"integer","multipleOf":3}"#);
    same(r#"{"type":"integer","divisibleBy":3,"multipleOf":2}"#, r#"{"type":"integer","multipleOf":6}"#);
    same(r#"{"type":"array","items":{"type":"any"}}"#, r#"{"type":"array"}"#);
    same(
        r#"{"type":["string",{"type":"integer","minimum":3}]}"#,
        r#"{"type":["string","integer"],"minimum":3}"#,
    );
    same(r#"{"disallow":["string","object"]}"#, r#"{"not":{"type":["string","object"]}}"#);
    same(r#"{"disallow":"string"}"#, r#"{"not":{"type":"string"}}"#);
    same(
        r#"{"extends":{"type":"object","required":["a"]},"properties":{"a":{"type":"integer"}}}"#,
        r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}"#,
    );
    same(
        r#"{"$schema":"http://json-schema.org/draft-03/schema#","type":"object","required":true,"properties":{"a":{"type":"any","required":true}}}"#,
        r#"{"type":"object","required":["a"]}"#,
    );
    let root = parse(r#"{"type":"object","required":true}"#, &Policy::default()).unwrap_err();
    assert_eq!((root.kind(), root.pointer()), (ErrorKind::InvalidSchema, Some("/required")));
}

#[test]
fn types_of_mongodb() {
    same(
        r#"{"bsonType":"object","required":["a"],"properties":{"a":{"bsonType":["long","null"]},"b":{"bsonType":"double"}}}"#,
        r#"{"type":"object","required":["a"],"properties":{"a":{"type":["integer","null"],"format":"int64"},"b":{"type":"number"}}}"#,
    );
    let ir =
        read(r#"{"bsonType":"object","properties":{"a":{"bsonType":"objectId"},"b":{"bsonType":"bool"}}}"#);
    assert!(accepts(&ir, r#"{"a":1,"b":true}"#) && !accepts(&ir, r#"{"b":1}"#));
    assert_eq!(ir.warnings[0].pointer(), Some("/properties/a/bsonType"), "{:?}", ir.warnings);
}

#[test]
fn a_named_draft_has_its_own_keywords_only() {
    for draft in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"] {
        let schema = format!(
            r#"{{"$schema":"{draft}","type":"object","properties":{{"a":{{"type":"string","nullable":true}}}}}}"#
        );
        let ir = read(&schema);
        assert!(!accepts(&ir, r#"{"a":null}"#));
        assert!(ir.warnings[0].message().contains("add \"null\" to `type`"), "{:?}", ir.warnings);
        assert_eq!(ir.warnings[0].pointer(), Some("/properties/a/nullable"));
    }
    let openapi =
        r#"{"$schema":"https://spec.openapis.org/oas/3.0/dialect","type":"string","nullable":true}"#;
    assert!(accepts(&read(openapi), "null"));
}

#[test]
fn messages_point_into_the_text() {
    let at = |schema: &str| {
        let error = parse(schema, &Policy::default()).expect_err(schema);
        error.pointer().map(str::to_owned)
    };
    let nullable =
        r#"{"type":"object","properties":{"a":{"nullable":true,"type":"array","items":{"type":"strin"}}}}"#;
    assert_eq!(at(nullable).as_deref(), Some("/properties/a/items/type"));
    let divisor = r#"{"properties":{"a":{"divisibleBy":0,"type":"integer"}}}"#;
    assert_eq!(at(divisor).as_deref(), Some("/properties/a/divisibleBy"));
    let wrapped =
        r#"{"name":"x","schema":{"type":"object","properties":{"a":{"type":"strin","nullable":true}}}}"#;
    assert_eq!(at(wrapped).as_deref(), Some("/schema/properties/a/type"));
}

#[test]
fn keywords_show_the_draft() {
    let named = |schema: &str, draft: &str| schema.replacen('{', &format!("{{\"$schema\":\"{draft}\","), 1);
    let old = "https://json-schema.org/draft/2019-09/schema";
    for schema in [
        r#"{"type":"array","items":[{"type":"integer"},{"type":"string"}]}"#,
        r#"{"type":"array","items":[{"type":"integer"}],"additionalItems":false}"#,
        r#"{"type":"object","properties":{"a":{"type":"array","items":[{"const":3}]}},"dependentRequired":{"a":["b"]}}"#,
    ] {
        same(schema, &named(schema, old));
    }
    let anchored =
        r##"{"type":"array","items":{"$ref":"#x"},"definitions":{"y":{"ID":"#x","type":"integer"}}}"##;
    let (four, seven) = (anchored.replace("ID", "id"), anchored.replace("ID", "$id"));
    same(&four, &named(&four, "http://json-schema.org/draft-04/schema#"));
    same(&seven, &named(&seven, "http://json-schema.org/draft-07/schema#"));
    // A list in data is no sign, and newer keywords outweigh one.
    let data = read(r#"{"type":"array","prefixItems":[{"type":"integer"}],"default":{"items":[1]}}"#);
    assert!(!accepts(&data, "[\"a\"]"));
    let mixed = r#"{"prefixItems":[{}],"items":[{}]}"#;
    assert!(parse(mixed, &Policy::default()).is_err());
    let named = named(r#"{"type":"array","items":[{}]}"#, "https://json-schema.org/draft/2020-12/schema");
    assert!(parse(&named, &Policy::default()).is_err());
}

#[test]
fn schemas_inside_of_wrappers() {
    const INNER: &str = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"],"$defs":{"n":{"type":"integer"}}}"##;
    for (wrapper, pointer) in [
        (r#"{"name":"p","strict":true,"schema":S}"#, "/schema"),
        (r#"{"schema":S}"#, "/schema"),
        (
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"p","schema":S}}}"#,
            "/response_format/json_schema/schema",
        ),
        (r#"{"response_format":{"type":"json_object","schema":S}}"#, "/response_format/schema"),
        (r#"{"response_format":S}"#, "/response_format"),
        (r#"{"json_schema":{"name":"p","schema":S}}"#, "/json_schema/schema"),
        (r#"{"text":{"format":{"type":"json_schema","name":"p","schema":S}}}"#, "/text/format/schema"),
        (r#"{"format":S,"model":"m"}"#, "/format"),
        (
            r#"{"name":"t","description":"d","inputSchema":S,"outputSchema":{"type":"object"}}"#,
            "/inputSchema",
        ),
        (r#"{"name":"t","input_schema":S}"#, "/input_schema"),
        (r#"{"function":{"name":"t","parameters":S}}"#, "/function/parameters"),
        (r#"{"generationConfig":{"responseSchema":S}}"#, "/generationConfig/responseSchema"),
        (r#"{"structured_outputs":{"json":S}}"#, "/structured_outputs/json"),
        (r#"{"validator":{"$jsonSchema":S}}"#, "/validator/$jsonSchema"),
    ] {
        let ir = read(&wrapper.replace(":S", &format!(":{INNER}")));
        assert!(
            accepts(&ir, r#"{"a":3}"#) && !accepts(&ir, r#"{"a":"b"}"#) && !accepts(&ir, "3"),
            "{wrapper}"
        );
        let [warning] = &ir.warnings[..] else { panic!("{wrapper}: {:?}", ir.warnings) };
        assert_eq!(warning.kind(), WarningKind::Unwrapped);
        assert_eq!(warning.pointer(), Some(pointer));
    }
}

#[test]
fn schemas_without_a_keyword() {
    for schema in [
        r#"{"name":"string","age":"int"}"#,
        r#"{"name":{"type":"string"},"age":{"type":"integer"}}"#,
        r#"{"schema":{"type":"string"},"text":{"type":"string"}}"#,
        r#"{"fields":["a","b"]}"#,
        r#"{"$defs":{"a":{"type":"string"}}}"#,
        r#"{"openapi":"3.0.0","paths":{},"components":{"schemas":{"a":{"type":"string"}}}}"#,
        r#"{"schema":{}}"#,
        r#"{"schema":"{\"type\":\"string\"}"}"#,
    ] {
        let ir = read(schema);
        assert!(accepts(&ir, "3"), "{schema}");
        assert_eq!(ir.warnings[0].kind(), WarningKind::Unconstrained, "{schema}: {:?}", ir.warnings);
    }
    let request = parse(r#"{"response_format":{"type":"json_object"}}"#, &Policy::default()).unwrap_err();
    assert_eq!(request.pointer(), Some("/response_format/type"));
    for schema in
        ["{}", "true", r#"{"title":"any"}"#, r#"{"default":3}"#, r#"{"$id":"https://example.com/a"}"#]
    {
        assert!(read(schema).warnings.is_empty(), "{schema}");
    }
}

#[test]
fn unknown_keywords_are_reported_once() {
    let warnings =
        |schema: &str| -> Vec<String> { read(schema).warnings.iter().map(|w| w.to_string()).collect() };
    let all = warnings(
        r#"{"type":"object","foo":1,"x-foo":1,"properties":{"foo":{"type":"string","example":"a"},"b":{"foo":2,"bar":{"baz":1}}},"default":{"quux":1},"maxPropertes":3}"#,
    );
    let found: Vec<&str> = all.iter().map(|w| w.split(':').next().unwrap()).collect();
    assert_eq!(
        found,
        ["#/foo", "#/properties/foo/example", "#/properties/b/bar", "#/maxPropertes"],
        "{all:?}"
    );
    assert!(all[3].contains("did you mean `maxProperties`"), "{}", all[3]);
    // A name that a reference leads through is not ignored.
    assert!(
        warnings(r##"{"$ref":"#/components/schemas/a","components":{"schemas":{"a":{"type":"null"}}}}"##)
            .is_empty()
    );
    // Also where nothing else is asserted, and in schemas that nothing refers to.
    assert_eq!(warnings(r#"{"items":{"foo":1}}"#).len(), 1);
    assert_eq!(warnings(r#"{"type":"string","$defs":{"a":{"optional":true}}}"#).len(), 1);
    let many: Vec<String> = (0..200).map(|i| format!("\"unknown{i}\":1")).collect();
    assert_eq!(warnings(&format!("{{\"type\":\"null\",{}}}", many.join(","))).len(), 51);
}
