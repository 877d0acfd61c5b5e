//! Real schemas through the embedded models, in all modes, under all policies, greedy and sampled.
//!
//! `exact` gives the tokens of `off`, complete outputs are valid, and outputs that can be completed
//! within the limit are complete.
//!
//! Needs the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench`); without it the test says so
//! and passes. `FFWD_OUTPUTS=N` takes every N-th schema of the development set, `FFWD_OUTPUTS_FROM`
//! is the number of the first.

use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, Finish, KeyOrder, Mode, Output, Policy, Prompt, Request, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::{data, env};

use crate::exact;

/// The options of one generation.
#[derive(Debug)]
struct Variant {
    policy: Policy,
    most: usize,
    close: bool,
    ungated: bool,
    sampling: SamplingParams,
}

impl Variant {
    fn new(seed: u64) -> Variant {
        let mut random = Random::new(seed);
        let spaces = [Whitespace::Compact, Whitespace::SingleSpace, Whitespace::Flexible { max: 2 }];
        let policy = Policy {
            whitespace: spaces[random.below(4) % 3],
            key_order: if random.chance(25) { KeyOrder::Any } else { KeyOrder::Declared },
            equal_numbers: random.chance(20),
            // The validator calculates in binary floating point.
            max_integer_digits: 8,
            max_fraction_digits: 4,
            ..Policy::default()
        };
        let base = SamplingParams { seed, ..SamplingParams::default() };
        let sampling = match random.below(3) {
            0 => base,
            1 => SamplingParams { temperature: 1.0, ..base },
            _ => SamplingParams { temperature: 1.4, top_p: 0.95, repetition_penalty: 1.1, ..base },
        };
        let (most, close) = (*random.pick(&[20, 60, 150, 300]), random.chance(70));
        Variant { policy, most, close, ungated: random.chance(50), sampling }
    }
}

/// Whether a complete output is valid; `None` where the validator cannot decide: `serde_json` reads
/// values nested 127 deep.
fn is_valid(validator: &jsonschema::Validator, text: &str) -> Option<bool> {
    match serde_json::from_str(text) {
        Ok(value) => Some(validator.is_valid(&value)),
        Err(e) if e.to_string().starts_with("recursion limit") => None,
        Err(_) => Some(false),
    }
}

/// The outputs of all modes for a schema, if it compiles and can be judged.
fn outputs(engine: &Engine, entry: &data::Entry, case: &Variant) -> Option<Vec<(Mode, Output)>> {
    let constraint = Constraint::builder().policy(case.policy.clone()).json_schema(&entry.schema).ok()?;
    let grammar = engine.compiler().compile(&constraint).ok()?;
    let source = entry.tests.iter().find(|t| t.valid).map_or("", |t| &t.data);
    let source: String = source.chars().take(300).collect();
    let all = Mode::ALL.into_iter().map(|mode| {
        let request = Request::new(Prompt::text(format!("Text: {source}\nRecord: ")))
            .grammar(grammar.clone())
            .max_tokens(case.most)
            .close_before_limit(case.close)
            .sampling(case.sampling.clone())
            .mode(mode);
        let request = if case.ungated { request.without_gate() } else { request };
        let output =
            engine.generate(&request).unwrap_or_else(|e| panic!("{} {mode:?} {case:?}: {e}", entry.id));
        assert!(output.tokens.len() <= case.most, "{} {mode:?} {case:?}", entry.id);
        // Each byte is a token, so a text of few bytes fits.
        let fits = case.close && grammar.matcher().shortest_completion(case.most).is_some();
        assert!(output.complete || !fits, "{} {mode:?} {case:?} is not closed: {:?}", entry.id, output.text);
        (mode, output)
    });
    Some(all.collect())
}

#[test]
fn real_schemas_are_written_in_all_modes() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR to the folder that holds it");
        return;
    };
    let file = dir.join("maskbench-dev.jsonl.zst");
    if !file.is_file() {
        eprintln!("skipped: no {}", file.display());
        return;
    }
    let engine = exact::engine();
    let (from, every) = (env::outputs_from(), env::outputs());
    let (mut made, mut complete, mut closed, mut unknown) = (0, 0, 0, 0);
    let entries = data::load(&file).expect("benchmark data");
    for (seed, entry) in entries.iter().enumerate().skip(from).step_by(every) {
        let schema: serde_json::Value = serde_json::from_str(&entry.schema).expect("a schema is JSON");
        let Ok(validator) = jsonschema::options().should_validate_formats(true).build(&schema) else {
            continue;
        };
        let case = Variant::new(seed as u64);
        let Some(outputs) = outputs(&engine, entry, &case) else { continue };
        let off = outputs.iter().find(|o| o.0 == Mode::Off).expect("all modes").1.clone();
        for (mode, output) in outputs {
            let what = || format!("{} {mode:?} {case:?}: {:?}", entry.id, output.text);
            assert!(mode != Mode::Exact || output.tokens == off.tokens, "{} against {:?}", what(), off.text);
            made += 1;
            closed += usize::from(output.finish == Finish::Closed);
            if output.complete {
                complete += 1;
                match is_valid(&validator, &output.text) {
                    Some(valid) => assert!(valid, "{}", what()),
                    None => unknown += 1,
                }
            }
        }
    }
    eprintln!(
        "{made} outputs, {complete} complete, {closed} of them closed, {unknown} that cannot be judged"
    );
    assert!(2 * complete > made && closed > 0 && made > 0 && 20 * unknown < made.max(20));
}
