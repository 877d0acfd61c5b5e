//! Drafts that pass through several sources: the number of forwards on the evaluation texts.
//!
//! A part of the texts is run; `FFWD_EVAL_ALL=1` runs all.

use std::path::Path;

use ffwd::draft::DraftSource;
use ffwd::{Engine, Mode, Request, Stats, extract};
use ffwd_testkit::env;
use serde_json::Value;

/// A name, and what is changed about a request.
type Variant = (&'static str, fn(Request) -> Request);

#[test]
fn each_source_saves_forwards() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/eval");
    let slice = if env::eval_all() { usize::MAX } else { 12 };
    let variants: [Variant; 6] = [
        ("off", |r| r.mode(Mode::Off)),
        ("forced", |r| r.without_gate().lookup(false).draft_model(false)),
        ("forced, look-up", |r| r.without_gate().draft_model(false)),
        ("forced, draft model", |r| r.without_gate().lookup(false)),
        ("all", |r| r.without_gate()),
        ("all, gated", |r| r),
    ];
    // One each: an engine learns from what it wrote before.
    let engines: Vec<Engine> = variants.iter().map(|_| Engine::embedded().unwrap()).collect();
    let mut sums: Vec<Vec<Stats>> = vec![Vec::new(); variants.len()];
    for name in ["handwritten_dev", "synthetic_seen", "synthetic_heldout"] {
        let lines = std::fs::read_to_string(root.join(name).with_extension("jsonl")).unwrap();
        for line in lines.lines().take(slice) {
            let entry: Value = serde_json::from_str(line).unwrap();
            let (schema, text) = (entry["schema"].to_string(), entry["text"].as_str().unwrap());
            if extract::embedded::request(&schema, text).is_err() {
                continue;
            }
            let mut tokens = None;
            for (((_, variant), engine), sums) in variants.iter().zip(&engines).zip(&mut sums) {
                let output =
                    engine.generate(&variant(extract::embedded::request(&schema, text).unwrap())).unwrap();
                assert_eq!(tokens.get_or_insert(output.tokens.clone()), &output.tokens, "{}", entry["id"]);
                sums.push(output.stats);
            }
        }
    }
    let sum = |v: usize, f: fn(&Stats) -> usize| sums[v].iter().map(f).sum::<usize>();
    for (v, (name, _)) in variants.iter().enumerate() {
        let per = sum(v, |s| s.tokens) as f64 / sum(v, |s| s.forwards) as f64;
        eprintln!(
            "{name:<20} {:>5} tokens {:>5} forwards {per:>6.2} a forward; drafted/accepted forced {}/{}, \
             look-up {}/{}, draft model {}/{} in {} draft forwards, {:.2} s",
            sum(v, |s| s.tokens),
            sum(v, |s| s.forwards),
            sum(v, |s| s.drafted_by_source[DraftSource::Forced]),
            sum(v, |s| s.accepted_by_source[DraftSource::Forced]),
            sum(v, |s| s.drafted_by_source[DraftSource::Lookup]),
            sum(v, |s| s.accepted_by_source[DraftSource::Lookup]),
            sum(v, |s| s.drafted_by_source[DraftSource::Model]),
            sum(v, |s| s.accepted_by_source[DraftSource::Model]),
            sum(v, |s| s.draft_forwards),
            sums[v].iter().map(|s| s.seconds).sum::<f64>(),
        );
    }
    let forwards: Vec<usize> = (0..variants.len()).map(|v| sum(v, |s| s.forwards)).collect();
    assert!(forwards[1] < forwards[0] && forwards[2] < forwards[1] && forwards[3] < forwards[1]);
    // Copies spare forwards of the draft model, not of the target: it reads them, and takes what it
    // would have written. A copy that it breaks off costs a forward now and then.
    assert!(forwards[4] * 20 <= forwards[3] * 21, "{forwards:?}");
    let calls = |v: usize| sum(v, |s| s.draft_forwards);
    assert!(calls(4) * 10 <= calls(3) * 9);
}

/// A constant that the model splits in a way of its own: an engine knows how once it wrote it.
#[test]
fn a_constant_written_before_is_written_in_as_few_forwards_as_drafts_allow() {
    const DRAFT: usize = 24;
    let words = ["invoice", "total", "customer", "city", "order", "number", "date", "name", "amount"];
    let members: Vec<String> =
        (0..40).map(|i| format!("\"{}_{i}\":\"{}\"", words[i % 9], words[(i * 5 + 1) % 9])).collect();
    let schema = format!("{{\"const\":{{{}}}}}", members.join(","));
    let engine = Engine::embedded().unwrap();
    let request = || {
        let request = extract::embedded::request(&schema, "Bright Glacier Consulting sells lamps.").unwrap();
        request.lookup(false).draft_model(false).without_gate().max_draft(DRAFT)
    };
    let off = engine.generate(&request().mode(Mode::Off)).unwrap();
    let runs = [(); 4].map(|()| engine.generate(&request()).unwrap());
    assert!(runs.iter().all(|run| run.tokens == off.tokens));
    let forwards = runs.map(|run| run.stats.forwards);
    let fewest = off.tokens.len().div_ceil(DRAFT + 1);
    eprintln!("{} tokens in {forwards:?} forwards, at least {fewest}", off.tokens.len());
    assert!(forwards[0] > fewest + 5 && forwards[3] <= fewest + 1, "{forwards:?}, {fewest}");
}
