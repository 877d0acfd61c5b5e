//! The JSON Schema Test Suite: what is accepted must be valid, and few valid instances may be refused.
//!
//! Instances are read as the suite writes them, made compact; keys that are not in the order of the
//! schema are therefore refused by design and counted as such together with all other refusals. Needs the
//! benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench`); without it nothing is run.

mod common;

use common::data;
use common::vocab::TestVocab;
use ffwd::{Compiler, Constraint};

/// What became of the instances of one file.
#[derive(Default)]
struct Counts {
    schemas: usize,
    /// Schemas that are refused at compile time.
    refused_schemas: Vec<String>,
    tests: usize,
    right: usize,
    wrongly_refused: Vec<String>,
    wrongly_accepted: Vec<String>,
}

/// Runs a file; `draft` is named in schemas that name none.
fn run(file: &str, draft: &str) -> Option<Counts> {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data (set FFWD_BENCH_DIR)");
        return None;
    };
    let words = TestVocab::new(1, 50, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let mut counts = Counts::default();
    for entry in data::load(&dir.join(file)).unwrap() {
        counts.schemas += 1;
        counts.tests += entry.tests.len();
        let schema = match entry.schema.strip_prefix('{') {
            Some(rest) if !entry.schema.contains("\"$schema\"") => {
                let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
                format!("{{\"$schema\":\"{draft}\"{comma}{rest}")
            }
            _ => entry.schema.clone(),
        };
        let grammar = match Constraint::json_schema(&schema).and_then(|c| compiler.compile(&c)) {
            Ok(grammar) => grammar,
            Err(error) => {
                let none_valid = entry.tests.iter().all(|t| !t.valid);
                if error.kind() == ffwd::ErrorKind::Unsatisfiable && none_valid {
                    // Said at once what the suite says instance by instance.
                    counts.right += entry.tests.len();
                } else {
                    counts.refused_schemas.push(format!("{}: {}", entry.id, error.message()));
                }
                continue;
            }
        };
        for (i, test) in entry.tests.iter().enumerate() {
            let Some(text) = data::canonical(&test.data) else { continue };
            let mut matcher = grammar.matcher();
            // Byte by byte: the first 256 tokens are the bytes.
            let accepted =
                text.bytes().all(|b| matcher.accept_token(u32::from(b)).is_ok()) && matcher.is_accepting();
            match (accepted, test.valid) {
                (true, false) => counts.wrongly_accepted.push(format!("{} #{i}: {text}", entry.id)),
                (false, true) => counts.wrongly_refused.push(format!("{} #{i}: {text}", entry.id)),
                _ => counts.right += 1,
            }
        }
    }
    eprintln!(
        "{file}: {} schemas, {} refused; {} tests, {} right, {} valid ones refused, {} invalid ones accepted",
        counts.schemas,
        counts.refused_schemas.len(),
        counts.tests,
        counts.right,
        counts.wrongly_refused.len(),
        counts.wrongly_accepted.len()
    );
    if std::env::var_os("FFWD_SUITE_LIST").is_some() {
        for line in
            [&counts.refused_schemas, &counts.wrongly_refused, &counts.wrongly_accepted].into_iter().flatten()
        {
            eprintln!("  {line}");
        }
    }
    Some(counts)
}

#[test]
fn nothing_invalid_is_accepted() {
    for (file, draft) in [
        ("json-schema-test-suite-2020-12.jsonl.zst", "https://json-schema.org/draft/2020-12/schema"),
        ("json-schema-test-suite-draft7.jsonl.zst", "http://json-schema.org/draft-07/schema#"),
    ] {
        let Some(counts) = run(file, draft) else { return };
        assert!(counts.wrongly_accepted.is_empty(), "{file}: {:#?}", counts.wrongly_accepted);
    }
}

#[test]
fn formats_are_judged() {
    for (file, draft) in [
        (
            "json-schema-test-suite-2020-12-optional-format.jsonl.zst",
            "https://json-schema.org/draft/2020-12/schema",
        ),
        (
            "json-schema-test-suite-draft7-optional-format.jsonl.zst",
            "http://json-schema.org/draft-07/schema#",
        ),
    ] {
        let Some(counts) = run(file, draft) else { return };
        assert!(counts.refused_schemas.is_empty(), "{:?}", counts.refused_schemas);
    }
}
