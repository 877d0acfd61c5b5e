//! The JSON Schema Test Suite: accepted instances must be valid, and few valid instances may be
//! refused.
//!
//! Instances are read as the suite writes them, without white space. The default policy refuses
//! keys in another order than the schema's, and integers written with a fraction. So all instances
//! are judged twice: the second time in any order and with every way to write a number. Instances
//! that are right only then are counted separately.
//!
//! `ffwd_testkit::remotes` answers references to the addresses of the suite. Needs the benchmark
//! data (`FFWD_BENCH_DIR`, or `../shared/bench`); without it the tests say so and pass.
//! `FFWD_SUITE_LIST=1` lists the results that are not right.

use ffwd::{CompiledGrammar, Compiler, Constraint, KeyOrder, Policy, Result};
use ffwd_testkit::vocab::{TestVocab, accepts};
use ffwd_testkit::{data, env, remotes};

/// What became of the instances of one file.
#[derive(Default)]
struct Counts {
    schemas: usize,
    /// Schemas that are refused at compile time.
    refused_schemas: Vec<String>,
    tests: usize,
    right: usize,
    /// Valid instances that are only accepted in another order or spelling of numbers.
    respelled: usize,
    wrongly_refused: Vec<String>,
    /// Strings that break a format, valid in the suite's required tests, which take formats for
    /// annotations.
    annotations: usize,
    wrongly_accepted: Vec<String>,
}

/// A schema of the suite, which may refer to its documents for a draft.
fn compile(compiler: &Compiler, schema: &str, policy: Policy, draft: &str) -> Result<CompiledGrammar> {
    let builder = Constraint::builder().policy(policy).resolver(|uri| Ok(remotes::remote(uri, draft)));
    compiler.compile(&builder.json_schema(schema)?)
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
        let name = if file.contains("draft7") { "draft7" } else { "draft2020-12" };
        let grammar = match compile(&compiler, &schema, Policy::default(), name) {
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
        let loose = Policy { key_order: KeyOrder::Any, equal_numbers: true, ..Policy::default() };
        let loose = compile(&compiler, &schema, loose, name).unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        for (i, test) in entry.tests.iter().enumerate() {
            let Some(text) = data::canonical(&test.data) else { continue };
            let what = || format!("{} #{i}: {text}", entry.id);
            match (accepts(&grammar, &text), accepts(&loose, &text), test.valid) {
                (true, false, _) => panic!("{}: only as declared", what()),
                (_, true, false) => counts.wrongly_accepted.push(what()),
                (false, true, true) => counts.respelled += 1,
                (false, false, true) if entry.id.starts_with("format---") => counts.annotations += 1,
                (false, false, true) => counts.wrongly_refused.push(what()),
                _ => counts.right += 1,
            }
        }
    }
    eprintln!(
        "{file}: {} schemas, {} refused; {} tests, {} right, {} more in another order or spelling, {} that want formats to be \
         annotations, {} other valid ones refused, {} invalid ones accepted",
        counts.schemas,
        counts.refused_schemas.len(),
        counts.tests,
        counts.right,
        counts.respelled,
        counts.annotations,
        counts.wrongly_refused.len(),
        counts.wrongly_accepted.len()
    );
    if env::suite_list() {
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
    // The last number is how many were right when it was written, with those that want formats to
    // be annotations: it may only rise. Each of the 19 formats has one such test.
    for (file, draft, right) in [
        ("json-schema-test-suite-2020-12.jsonl.zst", "https://json-schema.org/draft/2020-12/schema", 1_282),
        ("json-schema-test-suite-draft7.jsonl.zst", "http://json-schema.org/draft-07/schema#", 912),
    ] {
        let Some(counts) = run(file, draft) else { return };
        assert!(counts.wrongly_accepted.is_empty(), "{file}: {:#?}", counts.wrongly_accepted);
        let all = counts.right + counts.annotations;
        assert!(all >= right, "{file}: {all} right or annotations, {right} were before");
        assert!(counts.annotations <= 19, "{file}: {} annotations", counts.annotations);
    }
}

#[test]
fn formats_are_judged() {
    for (file, draft, right) in [
        (
            "json-schema-test-suite-2020-12-optional-format.jsonl.zst",
            "https://json-schema.org/draft/2020-12/schema",
            701,
        ),
        (
            "json-schema-test-suite-draft7-optional-format.jsonl.zst",
            "http://json-schema.org/draft-07/schema#",
            619,
        ),
    ] {
        let Some(counts) = run(file, draft) else { return };
        assert!(counts.refused_schemas.is_empty(), "{:?}", counts.refused_schemas);
        // Every format of the suite is known, and none is wider than its standard.
        assert!(counts.wrongly_accepted.is_empty(), "{file}: {:#?}", counts.wrongly_accepted);
        assert!(counts.right >= right, "{file}: {} right, {right} were before", counts.right);
    }
}
