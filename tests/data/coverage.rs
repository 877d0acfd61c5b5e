//! A ratchet: the number of real schemas that are supported.
//!
//! Every schema of the benchmark's development set is compiled, and its instances are followed,
//! token by token. If an instance is refused, all of the schema's instances are followed again with
//! keys in any order, and then with every way to write numbers.
//!
//! `tests/data/coverage.tsv` holds the last result, counts and reasons only. The test fails if the
//! result is worse, or if an invalid instance is accepted. After an improvement,
//! `FFWD_RATCHET=write cargo test --release --test data coverage` stores the new result.
//! `FFWD_COVERAGE=list` names the schemas that do not pass.

use std::collections::BTreeMap;

use ffwd::{CompiledGrammar, Compiler, Constraint, KeyOrder, Policy, Vocabulary};
use ffwd_testkit::{data, env};

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/coverage.tsv");

#[derive(Default)]
struct Reached {
    schemas: usize,
    passing: usize,
    /// Those of them that pass in the declared order of keys.
    ordered: usize,
    /// Those that pass with keys in any order and every spelling of numbers.
    loosely: usize,
    wrongly_refused: usize,
    wrongly_accepted: Vec<String>,
    /// Refusals at compile time, by kind and keyword.
    refused: BTreeMap<String, usize>,
}

impl Reached {
    fn record(&self) -> String {
        let mut text = format!(
            "schemas\t{}\npassing\t{}\npassing in declared order\t{}\npassing with equal numbers\t{}\n\
             valid instance refused\t{}\n",
            self.schemas, self.passing, self.ordered, self.loosely, self.wrongly_refused
        );
        for (reason, count) in &self.refused {
            text.push_str(&format!("{reason}\t{count}\n"));
        }
        text
    }
}

/// The kind of an error and the first word in backquotes, if there is one.
fn reason(error: &ffwd::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    match line.split('`').nth(1) {
        Some(word) => format!("{:?} {word}", error.kind()),
        None => format!("{:?}", error.kind()),
    }
}

/// Which of a schema's instances are judged wrongly.
#[derive(Default)]
struct Judged {
    refused: bool,
    accepted: bool,
}

fn judge_one(grammar: &CompiledGrammar, entry: &data::Entry, vocab: &Vocabulary) -> Judged {
    let mut judged = Judged::default();
    for test in &entry.tests {
        let Some(text) = data::canonical(&test.data) else { continue };
        let mut matcher = grammar.matcher();
        let tokens = vocab.encode(&text).expect("text encodes");
        let whole = tokens.iter().all(|&t| matcher.accept_token(t).is_ok()) && matcher.is_accepting();
        judged.refused |= test.valid && !whole;
        judged.accepted |= !test.valid && whole;
    }
    judged
}

fn judge(entries: &[data::Entry], vocab: &Vocabulary) -> Reached {
    let compiler = Compiler::new(vocab.clone());
    let policy = Policy { exponent: true, ..Policy::default() };
    let any_order = Policy { key_order: KeyOrder::Any, ..policy.clone() };
    let loose = Policy { equal_numbers: true, ..any_order.clone() };
    let list = env::coverage_list();
    let mut reached = Reached { schemas: entries.len(), ..Reached::default() };
    for entry in entries {
        let compile = |policy: &Policy| {
            Constraint::builder()
                .policy(policy.clone())
                .json_schema(&entry.schema)
                .and_then(|c| compiler.compile(&c))
        };
        let grammar = match compile(&policy) {
            Ok(grammar) => grammar,
            Err(error) => {
                if list {
                    eprintln!("{}\t{}", entry.id, error.to_string().replace('\n', " "));
                }
                *reached.refused.entry(reason(&error)).or_default() += 1;
                continue;
            }
        };
        let mut judged = judge_one(&grammar, entry, vocab);
        reached.ordered += usize::from(!judged.refused && !judged.accepted);
        if judged.refused
            && let Ok(grammar) = compile(&any_order)
        {
            // Instances may have their keys in any order.
            judged = judge_one(&grammar, entry, vocab);
        }
        let mut loosely = Judged { ..judged };
        if judged.refused
            && let Ok(grammar) = compile(&loose)
        {
            loosely = judge_one(&grammar, entry, vocab);
        }
        if judged.accepted || loosely.accepted {
            reached.wrongly_accepted.push(entry.id.clone());
        }
        reached.loosely += usize::from(!loosely.refused && !loosely.accepted);
        if judged.refused && list {
            eprintln!("{}\ta valid instance is refused", entry.id);
        }
        reached.wrongly_refused += usize::from(judged.refused);
        reached.passing += usize::from(!judged.refused && !judged.accepted);
    }
    reached
}

#[test]
fn coverage_only_rises() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data (set FFWD_BENCH_DIR)");
        return;
    };
    let file = dir.join("maskbench-dev.jsonl.zst");
    if !file.is_file() {
        eprintln!("skipped: no {}", file.display());
        return;
    }
    let entries = data::load(&file).expect("benchmark data");
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("tokenizer");
    let reached = judge(&entries, &vocab);
    assert!(
        reached.wrongly_accepted.is_empty(),
        "invalid instances accepted: {:?}",
        reached.wrongly_accepted
    );
    let now = reached.record();
    if env::ratchet_write() {
        std::fs::write(RECORD, &now).expect("the record can be written");
    }
    let before = std::fs::read_to_string(RECORD).expect("the record is part of the repository");
    let count = |name: &str| -> usize {
        let line = before.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('\t'));
        line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no line {name} in {RECORD}"))
    };
    assert_eq!(reached.schemas, count("schemas"), "another data set than the one of the record");
    assert!(reached.passing >= count("passing"), "fewer schemas pass than before; now:\n{now}");
    assert!(
        reached.ordered >= count("passing in declared order"),
        "fewer schemas pass in declared order than before; now:\n{now}"
    );
    assert!(
        reached.loosely >= count("passing with equal numbers"),
        "fewer schemas pass with every spelling of numbers than before; now:\n{now}"
    );
    assert!(
        reached.wrongly_refused <= count("valid instance refused") || reached.passing > count("passing"),
        "more valid instances are refused than before; now:\n{now}"
    );
    if now != before {
        eprintln!(
            "coverage changed; to record it: FFWD_RATCHET=write cargo test --release --test data coverage\n{now}"
        );
    }
}
