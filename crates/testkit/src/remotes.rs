//! The documents to which the groups `refRemote`, `dynamicRef` and `vocabulary` of the JSON Schema
//! Test Suite refer, at its address `http://localhost:1234/`. They say what the tests require of
//! them.

/// Path, and the schema with `DEFS` for the keyword of definitions in its draft.
const REMOTES: &[(&str, &str)] = &[
    ("integer.json", r#"{"type":"integer"}"#),
    ("baseUriChange/folderInteger.json", r#"{"type":"integer"}"#),
    ("baseUriChangeFolder/folderInteger.json", r#"{"type":"integer"}"#),
    ("baseUriChangeFolderInSubschema/folderInteger.json", r#"{"type":"integer"}"#),
    (
        "subSchemas.json",
        r##"{"DEFS":{"integer":{"type":"integer"},"refToInteger":{"$ref":"#/DEFS/integer"}}}"##,
    ),
    (
        "locationIndependentIdentifier.json",
        r##"{"DEFS":{"refToInteger":{"$ref":"#foo"},"A":{"ANCHOR":"#foo","type":"integer"}}}"##,
    ),
    ("name.json", r##"{"DEFS":{"orNull":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"type":"string"}"##),
    ("name-defs.json", r##"{"DEFS":{"orNull":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"type":"string"}"##),
    (
        "ref-and-definitions.json",
        r##"{"$id":"BASE/ref-and-definitions.json","DEFS":{"inner":{"properties":{"bar":{"type":"string"}}}},"allOf":[{"$ref":"#/DEFS/inner"}]}"##,
    ),
    (
        "ref-and-defs.json",
        r##"{"$id":"BASE/ref-and-defs.json","DEFS":{"inner":{"properties":{"bar":{"type":"string"}}}},"$ref":"#/DEFS/inner"}"##,
    ),
    ("nested/foo-ref-string.json", r#"{"type":"object","properties":{"foo":{"$ref":"string.json"}}}"#),
    ("nested/string.json", r#"{"type":"string"}"#),
    (
        "different-id-ref-string.json",
        r##"{"$id":"http://localhost:1234/real-id-ref-string.json","DEFS":{"bar":{"type":"string"}},"$ref":"#/DEFS/bar"}"##,
    ),
    (
        "urn-ref-string.json",
        r##"{"$id":"urn:uuid:feebdaed-ffff-0000-ffff-0000deadbeef","DEFS":{"bar":{"type":"string"}},"$ref":"#/DEFS/bar"}"##,
    ),
    (
        "nested-absolute-ref-to-string.json",
        r#"{"DEFS":{"bar":{"$id":"http://localhost:1234/the-nested-id.json","type":"string"}},"$ref":"http://localhost:1234/the-nested-id.json"}"#,
    ),
    (
        "detached-ref.json",
        r##"{"$id":"BASE/detached-ref.json","DEFS":{"foo":{"$ref":"#detached"},"detached":{"ANCHOR":"#detached","type":"integer"}}}"##,
    ),
    (
        "detached-dynamicref.json",
        r##"{"$id":"BASE/detached-dynamicref.json","$defs":{"foo":{"$dynamicRef":"#detached"},"detached":{"$dynamicAnchor":"detached","type":"integer"}}}"##,
    ),
    (
        "tree.json",
        r##"{"$id":"BASE/tree.json","$dynamicAnchor":"node","type":"object","properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}"##,
    ),
    (
        "extendible-dynamic-ref.json",
        r##"{"$id":"BASE/extendible-dynamic-ref.json","type":"object","properties":{"elements":{"type":"array","items":{"$dynamicRef":"#elements"}}},"required":["elements"],"additionalProperties":false,"$defs":{"elements":{"$dynamicAnchor":"elements"}}}"##,
    ),
    (
        "metaschema-no-validation.json",
        r#"{"$id":"BASE/metaschema-no-validation.json","$vocabulary":{"https://json-schema.org/draft/2020-12/vocab/applicator":true,"https://json-schema.org/draft/2020-12/vocab/core":true}}"#,
    ),
    (
        "metaschema-optional-vocabulary.json",
        r#"{"$id":"BASE/metaschema-optional-vocabulary.json","$vocabulary":{"https://json-schema.org/draft/2020-12/vocab/validation":true,"https://json-schema.org/draft/2020-12/vocab/core":true,"http://localhost:1234/vocab/unknown":false}}"#,
    ),
];

/// The document at a URI of the suite, for one of its drafts (`draft7`, `draft2020-12`).
pub fn remote(uri: &str, draft: &str) -> Option<String> {
    let path = uri.strip_prefix("http://localhost:1234/")?;
    let path = path.strip_prefix(draft).map_or(path, |p| p.trim_start_matches('/'));
    let (_, text) = REMOTES.iter().find(|r| r.0 == path)?;
    let old = draft == "draft7";
    let text = text.replace("DEFS", if old { "definitions" } else { "$defs" });
    let text = match old {
        true => text.replace("ANCHOR", "$id"),
        false => text.replace("\"ANCHOR\":\"#", "\"$anchor\":\""),
    };
    Some(text.replace("BASE", &format!("http://localhost:1234/{draft}")))
}
