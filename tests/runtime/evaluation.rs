//! The evaluation texts: every record is valid, `exact` equals `off`, with at most half the
//! forwards.
//!
//! A part of the texts is run; `FFWD_EVAL_ALL=1` runs all.

use std::path::Path;

use ffwd::{Engine, Finish, Mode, extract};
use ffwd_testkit::env;
use serde_json::Value;

#[test]
fn records_validate_and_modes_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/eval");
    let slice = if env::eval_all() { usize::MAX } else { 12 };
    let engine = Engine::embedded().unwrap();
    let (mut forwards, mut documents, mut cut, mut refused) = ([0; 3], 0, 0, 0);
    for name in ["handwritten_dev", "synthetic_seen", "synthetic_heldout"] {
        let lines = std::fs::read_to_string(root.join(name).with_extension("jsonl")).unwrap();
        for line in lines.lines().take(slice) {
            let entry: Value = serde_json::from_str(line).unwrap();
            let (schema, text) = (entry["schema"].to_string(), entry["text"].as_str().unwrap());
            if let Err(error) = extract::embedded::request(&schema, text) {
                // The only keyword in these schemas that is refused.
                assert!(error.message().contains("uniqueItems"), "{}: {error}", entry["id"]);
                refused += 1;
                continue;
            }
            let request = || extract::embedded::request(&schema, text).unwrap();
            let off = engine.generate(&request().mode(Mode::Off)).unwrap();
            let exact = engine.generate(&request()).unwrap();
            let open = engine.generate(&request().without_gate()).unwrap();
            for output in [&exact, &open] {
                assert_eq!(output.tokens, off.tokens, "{}", entry["id"]);
            }
            for (sum, output) in forwards.iter_mut().zip([&off, &exact, &open]) {
                *sum += output.stats.forwards;
            }
            documents += 1;
            if off.finish != Finish::Stop {
                cut += 1;
                continue;
            }
            let record: Value = serde_json::from_str(&off.text).unwrap();
            assert!(jsonschema::is_valid(&entry["schema"], &record), "{}: {}", entry["id"], off.text);
        }
    }
    let [off, exact, open] = forwards;
    eprintln!(
        "{documents} documents ({cut} cut at the limit, {refused} schemas refused): forwards {off} off, {exact} exact, {open} ungated"
    );
    assert!(refused <= 2, "{refused} schemas refused");
    // No timing: the gate takes no row to cost more than its caps, however slow the machine seems.
    assert!(exact * 2 <= off, "{exact} forwards in exact mode, {off} in off mode");
}
