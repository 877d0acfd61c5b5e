//! Tables: a schema, texts it must accept, texts it must not accept.

use super::naive::accepts;
use crate::constraint::Constraint;
use crate::constraint::json_schema::parse;
use crate::constraint::{Policy, Whitespace};
use crate::error::ErrorKind;

fn check(schema: &str, yes: &[&str], no: &[&str]) {
    let ir = parse(schema, &Policy::default()).unwrap_or_else(|e| panic!("{schema}\n{e}"));
    for text in yes {
        assert!(accepts(&ir, text), "{schema}\nshould accept {text}");
    }
    for text in no {
        assert!(!accepts(&ir, text), "{schema}\nshould not accept {text}");
    }
}

fn fails(schema: &str, kind: ErrorKind, pointer: &str, word: &str) {
    let error = parse(schema, &Policy::default()).expect_err(schema);
    assert_eq!(error.kind(), kind, "{schema}\n{error}");
    assert_eq!(error.pointer(), Some(pointer), "{schema}\n{error}");
    assert!(error.to_string().contains(word), "{schema}\n{error}");
}

#[test]
fn objects() {
    check(
        r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"boolean"}},"required":["b","z"]}"#,
        &[r#"{"a":null,"b":true,"z":[1]}"#, r#"{"b":false,"z":{},"more":1}"#],
        &[r#"{"b":true}"#, r#"{"b":1,"z":1}"#, r#"{"b":true,"a":null,"z":1}"#, "[]", "null"],
    );
    check(
        r#"{"properties":{"a":{"type":"null"},"c":false},"additionalProperties":{"type":"string"},"required":["r"]}"#,
        &[r#"{"r":"x"}"#, r#"{"a":null,"r":"x","q":"y"}"#, "1", "\"s\"", "[2]"],
        &[r#"{"r":1}"#, r#"{"r":"x","q":1}"#, r#"{"c":1,"r":"x"}"#],
    );
    check(r#"{"type":"object"}"#, &["{}", r#"{"a":1}"#], &["[]"]);
    check(
        r#"{"minProperties":1,"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false}"#,
        &[r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":1,"c":2}"#],
        &["{}", r#"{"d":1}"#],
    );
    check(
        r#"{"maxProperties":1,"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false}"#,
        &[r#"{"a":1}"#, "{}", r#"{"c":1}"#],
        &[r#"{"a":1,"c":2}"#],
    );
}

#[test]
fn patterns_of_names() {
    check(
        r#"{"type":"object","properties":{"x-a":{"minimum":5}},"patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false}"#,
        &["{}", r#"{"x-a":7}"#, r#"{"x-b":1}"#],
        &[r#"{"x-a":3}"#, r#"{"x-a":"s"}"#, r#"{"x-b":"s"}"#, r#"{"y":1}"#],
    );
    check(
        r#"{"type":"object","patternProperties":{"^x-":{"type":"integer"}}}"#,
        &[r#"{"x-b":1,"y":"s","x":true,"é":null}"#],
        &[r#"{"x-b":"s"}"#],
    );
    check(
        r#"{"type":"object","patternProperties":{"^a":{"type":"integer"},"b$":{"type":["integer","string"]}},"additionalProperties":{"type":"null"}}"#,
        &[r#"{"ab":1,"a":2,"b":"s","c":null}"#],
        &[r#"{"ab":"s"}"#, r#"{"b":null}"#, r#"{"c":1}"#, r#"{"a":null}"#],
    );
    check(
        r#"{"type":"object","propertyNames":{"pattern":"^[ab]+$","maxLength":2},"properties":{"c":{},"a":{}}}"#,
        &["{}", r#"{"a":1,"ab":2}"#],
        &[r#"{"c":1}"#, r#"{"aba":1}"#],
    );
}

#[test]
fn arrays() {
    check(
        r#"{"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":{"type":"string"},"minItems":1}"#,
        &["[null]", "[null,true]", r#"[null,false,"x","y"]"#],
        &["[]", "[true]", "[null,true,1]"],
    );
    check(r#"{"type":"array","prefixItems":[{}, false]}"#, &["[]", "[1]"], &["[1,2]"]);
    check(r#"{"type":"array","items":false}"#, &["[]"], &["[1]"]);
    check(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"null"}],"additionalItems":false}"#,
        &["[]", "[null]"],
        &["[null,null]", "[1]"],
    );
    check(
        r#"{"type":"array","items":{"enum":["a"]},"maxItems":1,"uniqueItems":true}"#,
        &["[]", r#"["a"]"#],
        &[r#"["a","a"]"#],
    );
    check(
        r#"{"type":"array","uniqueItems":true}"#,
        &["[]", r#"[1,"1",true,[1],{"a":1}]"#, r#"[0,false,"",null,[],{}]"#],
        &["[1,1.0]", r#"[{"a":1,"b":[2]},{"b":[2],"a":1}]"#, "[[],[]]", r#"["x","x"]"#],
    );
    check(r#"{"type":"string","uniqueItems":true}"#, &["\"x\""], &["[]"]);
}

#[test]
fn different_items() {
    check(
        r#"{"type":"array","items":{"enum":["a","b",3,null]},"uniqueItems":true}"#,
        &["[]", "[\"a\"]", "[3,\"b\",null,\"a\"]"],
        &["[\"a\",\"a\"]", "[3,null,3]", "[4]"],
    );
    check(
        r#"{"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":1,"maxItems":5}"#,
        &["[true]", "[false,true]"],
        &["[]", "[true,true]", "[true,false,true]"],
    );
    fails(
        r#"{"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":3}"#,
        ErrorKind::Unsatisfiable,
        "",
        "no value is valid",
    );
    check(r#"{"type":"array","items":{"enum":[1,1.0]},"uniqueItems":true}"#, &["[]", "[1]"], &["[1,1.0]"]);
    check(
        r#"{"type":"array","uniqueItems":true,"contains":{"type":"null"},"items":{"type":["null","string"]}}"#,
        &["[null]", r#"["a",null,"b"]"#],
        &["[]", r#"["a"]"#, "[null,null]", r#"[null,"a","a"]"#],
    );
    check(
        r#"{"type":"array","uniqueItems":true,"prefixItems":[{"type":"integer"}],"items":{"type":"number"}}"#,
        &["[1]", "[1,1.5]"],
        &["[1,1]", "[1.5]", "[2,1,1.0]"],
    );
    fails(
        r#"{"type":"array","uniqueItems":true,"contains":{"const":1},"prefixItems":[{"const":1}]}"#,
        ErrorKind::Unsupported,
        "/uniqueItems",
        "uniqueItems",
    );
}

#[test]
fn items_that_count() {
    check(
        r#"{"type":"array","contains":{"const":1}}"#,
        &["[1]", "[2,1]", "[1,1,3]"],
        &["[]", "[2]", "[2,3]"],
    );
    check(
        r#"{"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minContains":2,"maxContains":2}"#,
        &["[5,6]", "[1,5,2,7,3]"],
        &["[]", "[5]", "[5,6,7]", "[5,\"a\",6]"],
    );
    check(
        r#"{"type":"array","contains":{"type":"null"},"minContains":0,"maxContains":1,"maxItems":3}"#,
        &["[]", "[null]", "[1,null,2]"],
        &["[null,null]", "[1,2,3,4]", "[1,null,null]"],
    );
    check(
        r#"{"type":"array","allOf":[{"contains":{"const":1}},{"contains":{"const":2}}],"minItems":3}"#,
        &["[1,2,3]", "[2,0,1]", "[1,1,2,2]"],
        &["[1,2]", "[1,1,3]", "[]"],
    );
    check(
        r#"{"type":"array","not":{"items":{"type":"integer"}}}"#,
        &["[\"a\"]", "[1,null,2]"],
        &["[]", "[1]", "[1,2]"],
    );
    check(
        r#"{"type":"array","prefixItems":[{"type":"integer"}],"not":{"prefixItems":[true,{"type":"string"}]}}"#,
        &["[1,2]", "[1,null,\"x\"]"],
        &["[]", "[1]", "[1,\"x\"]", "[null,2]"],
    );
    check(
        r#"{"oneOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"minimum":0}}]}"#,
        &["[-1]", "[\"a\"]", "[-1,2]", "[1,true]"],
        &["[]", "[1]", "[-1,null]"],
    );
    fails(r#"{"type":"array","contains":false}"#, ErrorKind::Unsatisfiable, "", "no value is valid");
    check(r#"{"anyOf":[{"type":"array","contains":false},{"type":"null"}]}"#, &["null"], &["[]", "[1]"]);
    check(
        r#"{"not":{"oneOf":[{"type":"integer"},{"minimum":3}]},"type":["integer","null"]}"#,
        &["3", "7"],
        &["1", "null"],
    );
    check(
        r#"{"type":"integer","not":{"multipleOf":3},"minimum":0}"#,
        &["1", "2", "4", "100"],
        &["0", "3", "99"],
    );
    check(r#"{"type":"number","not":{"multipleOf":0.5}}"#, &["0.25", "-1.7"], &["1", "1.5", "-0.50"]);
}

#[test]
fn properties_that_must_be_there() {
    check(
        r#"{"type":"object","not":{"additionalProperties":{"type":"integer"}}}"#,
        &[r#"{"a":"x"}"#, r#"{"a":1,"b":null,"c":2}"#],
        &["{}", r#"{"a":1}"#, r#"{"a":1,"b":2}"#],
    );
    check(
        r#"{"type":"object","properties":{"a":{},"b":{"type":"integer"}},"not":{"properties":{"a":{}},"additionalProperties":false}}"#,
        &[r#"{"b":1}"#, r#"{"a":1,"b":1}"#, r#"{"a":1,"c":1}"#, r#"{"c":1}"#],
        &["{}", r#"{"a":1}"#, r#"{"b":"x","c":1}"#],
    );
    check(
        r#"{"type":"object","additionalProperties":{"type":"integer"},"not":{"patternProperties":{"^x":{"maximum":5}}}}"#,
        &[r#"{"x":6}"#, r#"{"a":1,"x":1,"xy":7}"#],
        &["{}", r#"{"x":5}"#, r#"{"a":9}"#, r#"{"x":"a"}"#],
    );
    check(
        r#"{"type":"object","not":{"anyOf":[{"additionalProperties":{"type":"integer"}},{"propertyNames":{"maxLength":2}}]}}"#,
        &[r#"{"abc":"x"}"#, r#"{"abc":1,"a":"x"}"#, r#"{"a":null,"b":1,"abc":2}"#],
        &["{}", r#"{"abc":1}"#, r#"{"a":"x"}"#],
    );
    check(
        r#"{"type":"object","not":{"propertyNames":{"maxLength":2}}}"#,
        &[r#"{"abc":1}"#, r#"{"a":1,"xxx":2,"b":3}"#],
        &["{}", r#"{"ab":1}"#],
    );
    check(
        r#"{"oneOf":[{"type":"object","properties":{"k":{"type":"integer"}},"additionalProperties":false},{"type":"object","properties":{"k":{"minimum":2}}}]}"#,
        &[r#"{"k":1}"#, r#"{"k":"a"}"#, r#"{"z":1}"#, r#"{"k":3,"z":1}"#],
        &["{}", r#"{"k":3}"#, r#"{"k":1,"z":1}"#],
    );
}

#[test]
fn numbers_and_strings() {
    check(r#"{"type":"integer","minimum":3,"exclusiveMaximum":6}"#, &["3", "5"], &["2", "6", "4.5"]);
    check(r#"{"type":"number","multipleOf":0.01,"minimum":0}"#, &["0", "1.25", "7"], &["1.255", "-1"]);
    check(
        r#"{"type":"integer","multipleOf":7}"#,
        &["0", "-7", "14", "7000000007"],
        &["1", "-8", "7.0", "07"],
    );
    check(
        r#"{"properties":{"a":{"type":"integer"}},"patternProperties":{"^b$":{"type":"integer"},"^a$":{"minimum":3},"^x\\.y$":false},"type":"object"}"#,
        &["{}", r#"{"a":3}"#, r#"{"a":4,"b":1}"#, r#"{"b":1,"c":true}"#, r#"{"xzy":1}"#],
        &[r#"{"a":2}"#, r#"{"b":true}"#, r#"{"x.y":1}"#, r#"{"c":true,"b":"no"}"#],
    );
    check(
        r#"{"type":"object","patternProperties":{"^b$":{"type":"integer"}},"additionalProperties":false,"required":["b"]}"#,
        &[r#"{"b":1}"#],
        &["{}", r#"{"b":true}"#, r#"{"b":1,"c":2}"#],
    );
    check(
        r#"{"type":"object","additionalProperties":{"type":"string"},"allOf":[{"patternProperties":{"^b$":{"minLength":2}}}]}"#,
        &[r#"{"b":"xx"}"#, r#"{"c":"x"}"#],
        &[r#"{"b":"x"}"#, r#"{"b":12}"#],
    );
    check(r#"{"type":"integer","multipleOf":12,"minimum":100}"#, &["108", "120"], &["96", "100", "109"]);
    check(r#"{"type":"number","multipleOf":0.25}"#, &["0", "1.25", "-3.5", "2.750"], &["1.3", "0.125"]);
    check(r#"{"type":"number","multipleOf":1.5,"not":{"type":"integer"}}"#, &["1.5", "4.5"], &["3", "2.5"]);
    check(r#"{"type":"integer","multipleOf":5,"minimum":-5,"maximum":12}"#, &["-5", "0", "10"], &["15", "3"]);
    check(
        r#"{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":5}"#,
        &["4"],
        &["3"],
    );
    check(
        r#"{"type":"string","minLength":2,"maxLength":3}"#,
        &["\"ab\"", "\"é😀a\""],
        &["\"a\"", "\"abcd\""],
    );
    check(
        r#"{"type":"string","pattern":"^[ab]+$","maxLength":2}"#,
        &["\"ab\""],
        &["\"abb\"", "\"c\"", "\"\""],
    );
    check(
        r#"{"type":"string","allOf":[{"pattern":"a"},{"pattern":"b$"}]}"#,
        &["\"ab\"", "\"xaxb\""],
        &["\"a\"", "\"b\"", "\"ba\""],
    );
    check(r#"{"type":"string","not":{"enum":["a","b"]}}"#, &["\"\"", "\"ab\""], &["\"a\"", "\"b\"", "1"]);
    check(r#"{"type":"integer","not":{"const":3},"minimum":2,"maximum":4}"#, &["2", "4"], &["3"]);
}

#[test]
fn literals() {
    check(
        r#"{"enum":[1,"a\n",null,{"b":[1.50],"a":2}]}"#,
        &["1", r#""a\n""#, "null", r#"{"b":[1.50],"a":2}"#],
        &["2", "{}"],
    );
    check(r#"{"enum":["a","bb",3],"type":"string","maxLength":1}"#, &["\"a\""], &["\"bb\"", "3"]);
    check(r#"{"enum":["ab","cd"],"pattern":"^c"}"#, &["\"cd\""], &["\"ab\""]);
    check(r#"{"anyOf":[{"const":1},{"enum":["x"]}]}"#, &["1", "\"x\""], &["2"]);
    check(r#"{"oneOf":[{"const":1},{"enum":[1,2]}]}"#, &["2"], &["1"]);
    check(r#"{"const":1.0,"type":"integer"}"#, &["1.0"], &["1"]);
    fails(r#"{"type":"string","const":1}"#, ErrorKind::Unsatisfiable, "", "no value");
    let flexible = Policy { whitespace: Whitespace::Flexible { max: 1 }, ..Policy::default() };
    let ir = parse(r#"{"const":{"a":[1,{}]}}"#, &flexible).unwrap();
    assert!(accepts(&ir, r#"{"a":[1,{}]}"#) && !accepts(&ir, r#"{"a":[1]}"#));
}

#[test]
fn references() {
    check(
        r##"{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/n"}"##,
        &[r#"{"v":1}"#, r#"{"v":1,"next":{"v":2,"next":{"v":3}}}"#],
        &[r#"{"next":{"v":1}}"#, r#"{"v":1,"next":{}}"#],
    );
    check(
        r##"{"$defs":{"a":{"$anchor":"here","type":"string"},"b~c/d e":{"type":"null"}},"items":{"$ref":"#here"},"properties":{"x":{"$ref":"#/$defs/b~0c~1d%20e"}},"type":["array","object"]}"##,
        &[r#"["a"]"#, r#"{"x":null}"#],
        &["[1]", r#"{"x":1}"#],
    );
    check(
        r#"{"$id":"http://e.org/root.json","$defs":{"a":{"$id":"a.json","type":"boolean"}},"items":{"$ref":"a.json"},"type":"array"}"#,
        &["[true]"],
        &["[1]"],
    );
    check(
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"type":"array","items":{"$ref":"#/definitions/s","maxLength":1}}"##,
        &[r#"["abc"]"#],
        &["[1]"],
    );
    check(
        r##"{"$defs":{"s":{"type":"string"}},"type":"array","items":{"$ref":"#/$defs/s","maxLength":1}}"##,
        &[r#"["a"]"#],
        &[r#"["abc"]"#],
    );
    fails(r##"{"$ref":"#/nowhere"}"##, ErrorKind::InvalidSchema, "/$ref", "nowhere");
    fails(r#"{"items":{"$ref":"http://x.org/y"}}"#, ErrorKind::Unsupported, "/items/$ref", "outside");
    fails(r##"{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##, ErrorKind::InvalidSchema, "", "itself");
    // Recursion that merges with something else at each level.
    check(
        r##"{"$defs":{"t":{"type":"object","properties":{"l":{"$ref":"#/$defs/t"}}}},"allOf":[{"$ref":"#/$defs/t"},{"$ref":"#/$defs/u"}],"$defs2":{},"x":1}"##
            .replace("\"$defs\":{", r##""$defs":{"u":{"properties":{"l":{"$ref":"#/$defs/u"}},"additionalProperties":false},"##)
            .as_str(),
        &["{}", r#"{"l":{"l":{}}}"#],
        &[r#"{"l":{"m":1}}"#, r#"{"l":1}"#],
    );
}

#[test]
fn combinations() {
    check(
        r#"{"allOf":[{"properties":{"a":{"type":["integer","string"]}},"required":["a"]},{"properties":{"b":{},"a":{"type":["integer","null"]}},"additionalProperties":false}],"type":"object"}"#,
        &[r#"{"a":1}"#, r#"{"a":1,"b":2}"#],
        &[r#"{"a":"s"}"#, r#"{"a":null}"#, "{}", r#"{"a":1,"c":1}"#],
    );
    check(
        r#"{"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["x"]},{"properties":{"k":{"const":"b"}}}]}"#,
        &[r#"{"k":"a","x":1}"#, r#"{"k":"b"}"#],
        &[r#"{"k":"a"}"#, r#"{"k":"c"}"#],
    );
    check(
        r#"{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"oneOf":[{"required":["a"]},{"required":["b"]}]}"#,
        &[r#"{"a":1}"#, r#"{"b":1}"#],
        &["{}", r#"{"a":1,"b":1}"#],
    );
    check(r#"{"oneOf":[{"type":"integer"},{"type":"number","minimum":5}]}"#, &["3"], &["7", "\"s\"", "4.5"]);
    check(r#"{"oneOf":[{"type":"string"},{"type":"null"}]}"#, &["null", "\"x\""], &["1"]);
    check(r#"{"not":{"type":["string","null"]}}"#, &["1", "{}", "[]", "true"], &["\"x\"", "null"]);
    check(
        r#"{"type":"object","properties":{"t":{"enum":["a","b"]},"u":{},"v":{}},"required":["t"],"additionalProperties":false,"if":{"properties":{"t":{"const":"a"}}},"then":{"required":["u"]},"else":{"required":["v"]}}"#,
        &[r#"{"t":"a","u":1}"#, r#"{"t":"b","v":1}"#, r#"{"t":"b","u":0,"v":1}"#],
        &[r#"{"t":"a","v":1}"#, r#"{"t":"b","u":1}"#, r#"{"u":1,"v":1}"#],
    );
    check(
        r#"{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"dependentRequired":{"a":["b"]}}"#,
        &["{}", r#"{"b":1}"#, r#"{"a":1,"b":1}"#],
        &[r#"{"a":1}"#],
    );
    check(
        r#"{"type":"object","unevaluatedProperties":false,"properties":{"a":{}}}"#,
        &[r#"{"a":1}"#],
        &[r#"{"b":1}"#],
    );
    fails(
        r#"{"type":"object","required":["a"],"properties":{"a":{"allOf":[{"type":"string"},{"type":"null"}]}}}"#,
        ErrorKind::Unsatisfiable,
        "/properties/a/allOf/1",
        "required property",
    );
    fails("false", ErrorKind::Unsatisfiable, "", "false");
    check("true", &["1", "{}"], &[]);
}

#[test]
fn order_of_properties() {
    check(
        r#"{"type":"object","allOf":[{"properties":{"b":{}}},{"properties":{"c":{}}}],"properties":{"a":{}},"required":["z","c"]}"#,
        &[r#"{"a":1,"b":1,"c":1,"z":1,"q":1}"#],
        &[r#"{"b":1,"a":1,"c":1,"z":1}"#, r#"{"a":1,"c":1,"b":1,"z":1}"#, r#"{"a":1,"b":1,"z":1,"c":1}"#],
    );
}

#[test]
fn warnings_and_faults() {
    let warnings = |schema| parse(schema, &Policy::default()).unwrap().warnings;
    assert!(warnings(r#"{"type":"string","format":"nonsense"}"#)[0].message().contains("nonsense"));
    assert!(warnings(r#"{"type":"integer","format":"int32"}"#).is_empty());
    assert!(warnings(r#"{"type":["integer","string"],"format":"int64"}"#).is_empty());
    assert!(warnings(r#"{"format":"date"}"#).is_empty());
    for (schema, word) in [
        (r#"{"type":"integer","format":"int24"}"#, "unknown format \"int24\""),
        (r#"{"type":"object","format":"grid"}"#, "unknown format \"grid\""),
        (r#"{"type":"string","format":"int64"}"#, "one of numbers"),
        (r#"{"type":["integer","null"],"format":"date"}"#, "one of strings"),
    ] {
        assert!(warnings(schema)[0].message().contains(word), "{schema}");
    }
    assert!(
        warnings(r#"{"type":"object","additionalproperties":false}"#)[0]
            .message()
            .contains("additionalProperties")
    );
    assert!(warnings(r#"{"type":"string","type":"null"}"#)[0].message().contains("twice"));
    for twice in [
        r#"{"title":"a","title":"a"}"#,
        r#"{"title":"a","title":1}"#,
        r#"{"title":1,"type":"null","title":"a"}"#,
    ] {
        assert!(warnings(twice)[0].message().contains("\"title\" occurs twice"), "{twice}");
    }
    assert!(warnings(r#"{"title":"a","description":"a","items":{"title":"a"}}"#).is_empty());
    fails(r#"{"type":"strin"}"#, ErrorKind::InvalidSchema, "/type", "strin");
    fails(r#"{"properties":{"a/b":3}}"#, ErrorKind::InvalidSchema, "/properties/a~1b", "object or a boolean");
    fails(r#"{"minLength":-1}"#, ErrorKind::InvalidSchema, "/minLength", "-1");
    let error = parse("{\n  \"a\": tru }", &Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidJson);
    assert!(error.to_string().contains("line 2, column 8"), "{error}");
    for bad in
        ["", "[", "{\"a\"}", "01", "1.", "\"\\ud800\"", "\"\\x\"", "{} {}", "nul", "\"\u{1}\"", "[1,]", "{,}"]
    {
        assert_eq!(parse(bad, &Policy::default()).unwrap_err().kind(), ErrorKind::InvalidJson, "{bad}");
    }
}

#[test]
fn rows_of_conditions() {
    // The same `if` twice, before different consequences; and values of one property that exclude
    // each other.
    let same = r##"{"type":"object","$defs":{"a":{"const":1}},"required":["k"],"properties":{"k":{}},"allOf":[
        {"if":{"properties":{"k":{"$ref":"#/$defs/a"}}},"then":{"required":["x"]}},
        {"if":{"properties":{"k":{"$ref":"#/$defs/a"}}},"then":{"required":["y"]},"else":{"required":["z"]}}]}"##;
    check(
        same,
        &[r#"{"k":1,"x":0,"y":0}"#, r#"{"k":2,"z":0}"#],
        &[r#"{"k":1,"x":0}"#, r#"{"k":1,"y":0}"#, r#"{"k":2}"#],
    );
    let row = r#"{"type":"object","properties":{"k":{}},"allOf":[
        {"if":{"properties":{"k":{"const":1}}},"then":{"required":["x"]}},
        {"if":{"properties":{"k":{"const":2}},"required":["k"]},"then":{"required":["y"]},"else":{"required":["z"]}},
        {"if":{"properties":{"k":{"const":3}}},"then":{"properties":{"z":{"type":"null"}}}}]}"#;
    check(
        row,
        &[
            r#"{"k":1,"x":0,"z":0}"#,
            r#"{"k":2,"y":0}"#,
            r#"{"k":3,"z":null}"#,
            r#"{"k":4,"z":0}"#,
            r#"{"z":null,"x":0}"#,
        ],
        &[
            r#"{"k":1,"x":0}"#,
            r#"{"k":1,"z":0}"#,
            r#"{"k":2,"z":0}"#,
            r#"{"k":3,"z":0}"#,
            r#"{"k":4}"#,
            r#"{"x":0,"z":1}"#,
            "{}",
        ],
    );
    // A dependency whose terms are all merged already, in either form.
    let dependency = r#"{"type":"object","required":["m"],"dependentRequired":{"p":["m"],"q":["m","n"]},
        "dependentSchemas":{"r":{"required":["m"]},"s":{"required":["m"],"maxProperties":2}}}"#;
    check(
        dependency,
        &[r#"{"m":0,"p":0}"#, r#"{"m":0,"r":0,"p":0}"#, r#"{"m":0,"s":0}"#, r#"{"m":0,"q":0,"n":0}"#],
        &[r#"{"p":0}"#, r#"{"m":0,"q":0}"#, r#"{"m":0,"s":0,"t":0}"#],
    );
}

#[test]
fn texts_for_readers_say_nothing() {
    // But they are JSON, and their names may be those of a property, a schema or a part of a value.
    for bad in [
        r#"{"title":"\x"}"#,
        "{\"title\":\"\u{1}\"}",
        r#"{"title":"\ud800"}"#,
        r#"{"title":"a"#,
        r#"{"title":"a" 1}"#,
    ] {
        assert_eq!(parse(bad, &Policy::default()).unwrap_err().kind(), ErrorKind::InvalidJson, "{bad}");
    }
    fails(
        r#"{"properties":{"title":"a"}}"#,
        ErrorKind::InvalidSchema,
        "/properties/title",
        "object or a boolean",
    );
    fails(r#"{"items":{"title":"a","type":"strin"}}"#, ErrorKind::InvalidSchema, "/items/type", "strin");
    check(
        r#"{"title":"a","description":"b\"","$comment":"c","const":{"title":"d"}}"#,
        &[r#"{"title":"d"}"#],
        &["{}"],
    );
    check(
        r#"{"enum":[{"items":[{"title":"d"}]}]}"#,
        &[r#"{"items":[{"title":"d"}]}"#],
        &[r#"{"items":[{}]}"#],
    );
    let dependency = r#"{"$schema":"http://json-schema.org/draft-04/schema#","dependencies":{"title":"a"}}"#;
    check(dependency, &[r#"{"title":1,"a":1}"#], &[r#"{"title":1}"#]);
    check(
        r##"{"$defs":{"title":{"title":"a","type":"null"}},"properties":{"properties":{"$ref":"#/$defs/title"}}}"##,
        &[r#"{"properties":null}"#],
        &[r#"{"properties":1}"#],
    );
}

#[test]
fn other_documents() {
    let builder = Constraint::builder;
    let other = r##"{"$defs":{"a":{"$ref":"b.json#x"}},"items":{"$ref":"#/$defs/a"}}"##;
    let built = builder()
        .document("https://example.com/dir/o.json", other)
        .resolver(|uri| {
            assert_eq!(uri, "https://example.com/dir/b.json");
            Ok(Some(r#"{"$defs":{"c":{"$anchor":"x","type":"integer"}}}"#.into()))
        })
        .json_schema(r#"{"$id":"https://example.com/s","properties":{"p":{"$ref":"dir/o.json"}}}"#)
        .unwrap();
    assert!(accepts(built.ir(), r#"{"p":[1,2]}"#));
    assert!(!accepts(built.ir(), r#"{"p":[1,"2"]}"#));
    // No source has it, or the document is not JSON, or has a fault: the error names the document.
    let reference = r#"{"$ref":"https://example.com/o.json"}"#;
    let error = |document: &'static str| {
        builder().document("https://example.com/o.json", document).json_schema(reference).unwrap_err()
    };
    let missing = builder().json_schema(reference).unwrap_err();
    assert_eq!((missing.kind(), missing.pointer()), (ErrorKind::Unsupported, Some("/$ref")));
    let broken = error("{");
    assert_eq!(broken.kind(), ErrorKind::InvalidJson);
    assert!(broken.to_string().contains("https://example.com/o.json"), "{broken}");
    let wrong = error(r#"{"items":{"type":"intger"}}"#);
    assert_eq!(wrong.kind(), ErrorKind::InvalidSchema);
    assert!(wrong.to_string().contains("https://example.com/o.json#/items/type"), "{wrong}");
    // A document in another draft matters only where it is used.
    let seven = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"null"}"#;
    assert_eq!(error(seven).kind(), ErrorKind::Unsupported);
    let unused = r#"{"type":"null","$defs":{"a":{"$ref":"https://example.com/o.json"}}}"#;
    let built = builder().document("https://example.com/o.json", seven).json_schema(unused).unwrap();
    assert!(accepts(built.ir(), "null"));
}

#[test]
fn metaschemas_accept_schemas() {
    for draft in [
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        check(
            &format!(r#"{{"$schema":"{draft}","$ref":"{draft}"}}"#),
            &[
                "{}",
                "true",
                r#"{"minimum":1}"#,
                r#"{"type":"object"}"#,
                r#"{"properties":{"a":{"items":{"not":{}}}}}"#,
            ],
            &[
                "1",
                r#"{"type":"objekt"}"#,
                r#"{"minLength":-1}"#,
                r#"{"properties":{"a":{"items":{"not":1}}}}"#,
            ],
        );
    }
}
