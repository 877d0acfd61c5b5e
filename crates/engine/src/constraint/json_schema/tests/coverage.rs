//! Tests on the corpus: the number of real schemas that are accepted, and that no invalid instance
//! is.
//!
//! The data is looked for in `FFWD_BENCH_DIR`, then in `../shared/bench` next to the project.
//! Without it the tests report this and pass.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::naive::accepts;
use crate::constraint::Policy;
use crate::constraint::json::document::Doc;
use crate::constraint::json_schema::parse;
use crate::error::ErrorKind;

/// Raw schema text with its instances.
pub(super) struct Case {
    pub id: String,
    pub schema: String,
    pub tests: Vec<(String, bool)>,
}

pub(super) fn corpus(file: &str) -> Option<Vec<Case>> {
    let Some(dir) = ffwd_testkit::data::bench_dir() else {
        eprintln!("skipped: no benchmark data (set FFWD_BENCH_DIR)");
        return None;
    };
    let path = dir.join(file);
    let Ok(packed) = std::fs::File::open(&path) else {
        eprintln!("skipped: no {} (set FFWD_BENCH_DIR)", path.display());
        return None;
    };
    let text = std::io::read_to_string(zstd::Decoder::new(packed).unwrap()).unwrap();
    Some(text.split('\n').filter(|l| !l.is_empty()).map(case).collect())
}

/// Read with the front end's own parser, which keeps the order of members and the text of numbers.
fn case(line: &str) -> Case {
    let doc = Doc::parse(line).unwrap();
    let get = |id, name: &str| doc.lookup(name).and_then(|n| doc.get(id, n)).unwrap();
    let spell = |id| {
        let mut text = Vec::new();
        doc.write(id, &mut text);
        String::from_utf8(text).unwrap()
    };
    let root = doc.root();
    let tests = doc.elements(get(root, "tests"));
    Case {
        id: spell(get(root, "id")),
        schema: spell(get(root, "schema")),
        tests: tests.iter().map(|&t| (spell(get(t, "data")), spell(get(t, "valid")) == "true")).collect(),
    }
}

#[test]
fn corpus_is_covered() {
    let file = ffwd_testkit::env::corpus();
    let Some(cases) = corpus(&file) else { return };
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut times, mut wrong) = (Vec::new(), Vec::new());
    let (mut valid, mut missed, mut rejected) = (0, Vec::new(), 0);
    for case in &cases {
        let start = Instant::now();
        let parsed = parse(&case.schema, &Policy::default());
        times.push((start.elapsed(), case.id.clone()));
        let ir = match parsed {
            Ok(ir) => ir,
            Err(e) => {
                let reason = format!("{:?}: {}", e.kind(), e.message());
                reasons.entry(reason).or_default().push(case.id.clone());
                continue;
            }
        };
        for (data, is_valid) in &case.tests {
            if data.len() > 20_000 {
                continue;
            }
            let accepted = accepts(&ir, data);
            match (accepted, is_valid) {
                (true, true) => valid += 1,
                (false, true) => missed.push(case.id.clone()),
                (false, false) => rejected += 1,
                (true, false) => wrong.push((case.id.clone(), data.clone())),
            }
        }
    }
    let refused: usize = reasons.values().map(Vec::len).sum();
    times.sort();
    let mut table: Vec<_> = reasons.iter().collect();
    table.sort_by_key(|r| std::cmp::Reverse(r.1.len()));
    for (reason, ids) in table {
        println!("{:5} {reason}  e.g. {}", ids.len(), ids[0]);
    }
    let share = 100.0 * (cases.len() - refused) as f64 / cases.len() as f64;
    println!("accepted {share:.1}% of {} schemas; refused {refused}", cases.len());
    println!(
        "valid instances: {valid} accepted, {} not (order, spelling caps); {rejected} invalid rejected",
        missed.len()
    );
    println!("missed: {missed:?}");
    let mean = times.iter().map(|t| t.0.as_secs_f64()).sum::<f64>() / times.len() as f64;
    println!(
        "parse: mean {:.0} us, p50 {:?}, slowest {:?}",
        mean * 1e6,
        times[times.len() / 2].0,
        &times[times.len() - 5..]
    );
    for (id, data) in &wrong {
        println!("ACCEPTED INVALID {id}: {data}");
    }
    assert!(wrong.is_empty());
    assert!(share >= 80.0);
}

/// Everything the representation accepts is valid for another validator: instances of all schemas
/// of the sample, tried against each schema.
#[test]
fn accepted_instances_are_valid() {
    let Some(cases) = corpus("maskbench-dev-sample.jsonl.zst") else { return };
    let small: Vec<&str> =
        cases.iter().flat_map(|c| &c.tests).map(|t| t.0.as_str()).filter(|t| t.len() < 300).collect();
    let mut checked = 0;
    for (i, case) in cases.iter().enumerate().filter(|(_, c)| c.schema.len() < 20_000) {
        let Ok(ir) = parse(&case.schema, &Policy::default()) else { continue };
        let schema: Value = serde_json::from_str(&case.schema).unwrap();
        let Ok(validator) = jsonschema::validator_for(&schema) else { continue };
        let others = small.iter().copied().skip(i % 7).step_by(7);
        for text in others.chain(case.tests.iter().map(|t| t.0.as_str()).filter(|t| t.len() < 5_000)) {
            if accepts(&ir, text) {
                let value: Value = serde_json::from_str(text).unwrap();
                assert!(validator.is_valid(&value), "{}: {text}\n{}", case.id, case.schema);
                checked += 1;
            }
        }
    }
    println!("{checked} accepted instances are valid");
    assert!(checked > 400);
}

/// The official test suite: nothing invalid is accepted; refusals are counted.
#[test]
fn suite_is_not_violated() {
    for file in ["json-schema-test-suite-2020-12.jsonl.zst", "json-schema-test-suite-draft7.jsonl.zst"] {
        let Some(cases) = corpus(file) else { return };
        let (mut wrong, mut missed, mut right, mut refused) = (Vec::new(), Vec::new(), 0, 0);
        for case in &cases {
            let mut schema: Value = serde_json::from_str(&case.schema).unwrap();
            if file.contains("draft7")
                && let Some(object) = schema.as_object_mut()
                && !object.contains_key("$schema")
            {
                object.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
            }
            let parsed = parse(&schema.to_string(), &Policy::default());
            for (data, is_valid) in &case.tests {
                let compact = serde_json::from_str::<Value>(data).unwrap().to_string();
                let accepted = match &parsed {
                    Ok(ir) => accepts(ir, &compact),
                    Err(e) if e.kind() == ErrorKind::Unsatisfiable => false,
                    Err(_) => {
                        refused += 1;
                        continue;
                    }
                };
                match (accepted, *is_valid) {
                    (true, false) => wrong.push(format!("{}: {data} against {}", case.id, case.schema)),
                    (false, true) => missed.push(format!("{}: {data}", case.id)),
                    _ => right += 1,
                }
            }
        }
        println!("{file}: {right} right, {} valid ones missed, {refused} refused", missed.len());
        missed.iter().for_each(|m| println!("  missed {m}"));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Shows one schema of the corpus: `FFWD_CASE=id`.
#[test]
fn one_case() {
    let Some(id) = ffwd_testkit::env::case() else { return };
    let file = ffwd_testkit::env::corpus();
    for case in corpus(&file).unwrap_or_default().iter().filter(|c| c.id.contains(&id)) {
        match parse(&case.schema, &Policy::default()) {
            Ok(ir) => {
                println!("{}: {} nodes, {} rules, {:?}", case.id, ir.len(), ir.rule_count(), ir.warnings)
            }
            Err(e) => println!("{}: {e}", case.id),
        }
    }
}
