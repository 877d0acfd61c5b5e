//! `/v1/extract`: the lines of a run of the library over the same texts, faults, and a client that leaves.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use ffwd::decode::SchedulerOptions;
use ffwd::extract::ChunkOptions;
use ffwd::extract::Extractor;
use ffwd::extract::corpus::{CorpusOptions, CorpusRun, Document, GroundingOptions, ReadDocument};
use ffwd::{Engine, Request};
use serde_json::{Value, json};

use crate::client::{metric, post, send, server, wait_until};

const SCHEMA: &str = r#"{"properties": {"number": {"type": ["string", "null"], "x-verbatim": true, "maxLength": 30},
    "kind": {"enum": ["bill", "offer"]}}, "required": ["number", "kind"]}"#;
const TEXT: &str = "Invoice INV-77 of Acme Ltd.\nTotal: 12.50 EUR.\n\nThe order of Zoë stays open.";

/// The lines of a run of its own.
fn lines(document: Document, more: CorpusOptions) -> String {
    let engine = Arc::new(Engine::embedded().unwrap());
    let extractor = Extractor::new(&engine, SCHEMA).unwrap();
    let set = Box::new(|request: Request| Ok(request.max_tokens(64)));
    let options = CorpusOptions { scheduler: SchedulerOptions::with_batch(4), ..more };
    let mut run = CorpusRun::new(engine, extractor, options, set).unwrap();
    run.push(document);
    let mut lines = String::new();
    while let Some(done) = run.pop().unwrap() {
        lines += &format!("{}\n", done.line().unwrap().unwrap());
    }
    lines
}

#[cfg(feature = "documents")]
const READER: Option<ReadDocument> = Some(ffwd::documents::texts);
#[cfg(not(feature = "documents"))]
const READER: Option<ReadDocument> = None;

#[test]
fn the_lines_are_those_of_a_run() {
    let server = server(|options| options.document = READER);
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let ask = |more: Value| {
        let mut body = json!({"schema": schema, "max_tokens": 64});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(server.address(), "/v1/extract", &body)
    };
    let document = || Document { source: "".into(), id: None, text: Ok(TEXT.into()), places: None };
    let plain = ask(json!({"text": TEXT}));
    assert_eq!(
        (plain.status, plain.body.as_str()),
        (200, lines(document(), CorpusOptions::default()).as_str())
    );
    assert!(plain.head.contains("application/x-ndjson"), "{plain:?}");
    let grounding =
        GroundingOptions { confidence: true, spans: true, abstain: Some(0.5), ..GroundingOptions::default() };
    let chunks = Some(ChunkOptions { tokens: 24, overlap: 4 });
    let cut =
        ask(json!({"text": TEXT, "confidence": true, "spans": true, "abstain": 0.5, "chunk_tokens": 24,
        "chunk_overlap": 4}));
    let expected = lines(document(), CorpusOptions { grounding, chunks, ..CorpusOptions::default() });
    assert_eq!(cut.body, expected);
    assert!(expected.contains("unsupported") && expected.contains("chunks"), "{expected}");
    // A document, with the places of its values.
    let Some(read) = READER else { return };
    let bytes = std::fs::read("crates/documents/testdata/form.fpdf.pdf").unwrap();
    let data =
        format!("data:application/pdf;base64,{}", base64::engine::general_purpose::STANDARD.encode(&bytes));
    let found = ask(json!({"document": {"name": "form.pdf", "data": data}, "spans": true}));
    let mut texts = read(Path::new("form.pdf"), &bytes).unwrap().unwrap();
    let spans = GroundingOptions { spans: true, ..GroundingOptions::default() };
    let own = CorpusOptions { grounding: spans, ..CorpusOptions::default() };
    assert_eq!(found.body, lines(texts.documents.remove(0), own));
    let line: Value = serde_json::from_str(&found.body).unwrap();
    // What is not read is said behind the lines.
    let mail = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nBill 7\n--b\n\
        Content-Type: application/x-y; name=a.bin\nContent-Disposition: attachment\n\nz\n--b--\n";
    let data = base64::engine::general_purpose::STANDARD.encode(mail);
    let said = ask(json!({"document": {"name": "a.eml", "data": data}})).body;
    assert!(
        said.lines().count() == 2 && said.contains("{\"warnings\":[\"a.eml: the attachment `a.bin`"),
        "{said}"
    );
    assert!(line["source"] == "form.pdf" && found.body.contains("\"page\":1"), "{line}");
}

#[test]
fn faults_name_their_field() {
    let server = server(|_| {});
    for (body, field, part) in [
        (json!({"text": "a"}), "schema", "missing"),
        (json!({"schema": {}}), "text", "either"),
        (json!({"schema": {"type": "strin"}, "text": "a"}), "schema", "strin"),
        (json!({"schema": {}, "document": {"name": "a.txt", "data": "*"}}), "document.data", "base64"),
        (json!({"schema": {}, "document": {"name": "a.txt"}}), "document.data", "missing"),
        (json!({"schema": {}, "document": {"name": "a.pdf", "data": "JVBERi0="}}), "document", "plain text"),
        (json!({"schema": {}, "text": "a", "abstain": 2}), "abstain", "0 to 1"),
        (json!({"schema": {}, "text": "a", "spam": true}), "spam", "unknown"),
        (json!({"schema": {}, "text": "a", "merge_key": "b"}), "chunk_tokens", "need"),
        (json!({"schema": {}, "text": "a", "alternatives": true}), "alternatives", "confidence"),
        (
            json!({"schema": {"properties": {"a": {}}}, "text": "a", "list": "a", "chunk_tokens": 99, "merge_key": "b"}),
            "merge_key",
            "no keys",
        ),
        (json!({"schema": {"properties": {"a": {}}}, "text": "a", "list": "b"}), "list", "property"),
    ] {
        let answer = post(server.address(), "/v1/extract", &body);
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["param"]), (400, &json!(field)), "{body} {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{body} {error}");
    }
    // A text without a record fails in its line.
    let blank = post(server.address(), "/v1/extract", &json!({"schema": {}, "text": " "}));
    assert!(blank.status == 200 && blank.json()["error"].is_string(), "{blank:?}");
    assert!(blank.json()["record"].is_null() && blank.json()["finish"] == "error");
}

/// A long extraction ends once its client has left: the server is then idle.
#[test]
fn a_client_that_leaves_ends_its_extraction() {
    let server = server(|_| {});
    let text = "The order of Ann stays open. ".repeat(40_000);
    let body = json!({"schema": {"properties": {"all": {"type": "string"}}, "required": ["all"]}, "text": text,
        "chunk_tokens": 200, "max_tokens": 4000});
    let stream = send(server.address(), "POST", "/v1/extract", "", &body.to_string());
    wait_until(|| metric(server.address(), "ffwd_batch_running") > 0);
    drop(stream);
    wait_until(|| metric(server.address(), "ffwd_requests_in_flight") == 1);
    wait_until(|| metric(server.address(), "ffwd_batch_running") == 0);
    let ended = metric(server.address(), "ffwd_batch_ended_total");
    // Of more than a thousand parts, most have never begun.
    assert!(ended < 500, "{ended}");
}
