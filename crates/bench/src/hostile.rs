//! `ffwd bench hostile`: the time from the text of an adversarial constraint to an answer (the first
//! mask) or to a refusal, and the resident memory that it needs. The goal for each is less than a
//! second and 200 MB.
//!
//! # Alternatives considered
//!
//! An allocator that counts bytes was rejected: it would slow down every other command of the program.

use std::time::Instant;

use ffwd_runtime::{Compiler, Constraint, Result, Vocabulary};

use crate::environment::Environment;
use crate::report::BenchReport;
use crate::start::{forget_peak, memory_mb};
use crate::table::Grid;

type Make = Box<dyn Fn() -> Result<Constraint>>;

fn schema(text: String) -> Make {
    Box::new(move || Constraint::json_schema(&text))
}

fn regex(text: &'static str) -> Make {
    Box::new(move || Constraint::regex(text))
}

fn joined(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(",")
}

fn cases() -> Vec<(&'static str, Make)> {
    let wide =
        joined(150_000, |i| format!(r#""property number {i}":{{"type":"string","maxLength":{}}}"#, i % 90));
    let deep = format!("{}{}{}", "{\"items\":".repeat(100_000), "{}", "}".repeat(100_000));
    let enumeration = joined(50_000, |i| format!("\"value {} of many\"", i * 7919 % 1_000_003));
    let optional = joined(5_000, |i| format!(r#""optional{i}":{{"type":"integer","minimum":{i}}}"#));
    let bomb = joined(40, |i| {
        format!(r##""a{i}":{{"allOf":[{{"$ref":"#/$defs/a{0}"}},{{"$ref":"#/$defs/a{0}"}}]}}"##, i + 1)
    });
    let forks = joined(40, |i| {
        format!(
            r##""a{i}":{{"anyOf":[{{"$ref":"#/$defs/a{0}"}},{{"properties":{{"p{i}":{{"$ref":"#/$defs/a{0}"}}}}}}]}}"##,
            i + 1
        )
    });
    let branches =
        joined(1_000, |i| format!(r#"{{"properties":{{"p{}":{{"minLength":{}}}}}}}"#, i % 50, i % 17));
    let patterns = joined(30, |i| format!(r#"{{"pattern":"a.{{{i}}}b"}}"#));
    let alternatives = joined(300, |i| format!(r#"{{"required":["k{i}"],"maxProperties":{}}}"#, 1 + i % 5));
    vec![
        ("10 MB of properties", schema(format!(r#"{{"properties":{{{wide}}}}}"#))),
        ("nesting of 100,000", schema(deep)),
        ("enum of 50,000 values", schema(format!(r#"{{"enum":[{enumeration}]}}"#))),
        (
            "5,000 optional properties",
            schema(format!(r#"{{"properties":{{{optional}}},"additionalProperties":false}}"#)),
        ),
        (
            "$ref doubled 40 times",
            schema(format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{bomb},"a40":{{"type":"object"}}}}}}"##)),
        ),
        (
            "$ref forked 40 times",
            schema(format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{forks},"a40":{{"type":"object"}}}}}}"##)),
        ),
        ("allOf of 1,000 branches", schema(format!(r#"{{"allOf":[{branches}]}}"#))),
        (
            "oneOf of 300 overlapping branches",
            schema(format!(r#"{{"type":"object","oneOf":[{alternatives}]}}"#)),
        ),
        ("30 searching patterns at once", schema(format!(r#"{{"type":"string","allOf":[{patterns}]}}"#))),
        ("(a|b){0,100000}", regex("(a|b){0,100000}")),
        ("(.*a){30}", regex("(.*a){30}")),
        ("((a{0,100}){0,100}){0,100}", regex("((a{0,100}){0,100}){0,100}")),
        ("pattern (.*a){30}", schema(r#"{"type":"string","pattern":"(.*a){30}"}"#.into())),
        (
            "maxLength and pattern of 100,000",
            schema(r#"{"type":"string","pattern":"^(ab?){0,100000}$","maxLength":100000}"#.into()),
        ),
    ]
}

/// Compiles each constraint for a vocabulary.
pub fn run(vocab: &Vocabulary) -> BenchReport {
    let compiler = Compiler::new(vocab.clone());
    let mut row = vec![0; vocab.bitmask_words()];
    let mut table = Grid::new("hostile constraints", &["constraint", "answer", "ms", "MB"]);
    for (name, make) in cases() {
        forget_peak();
        let before = memory_mb("VmRSS");
        let started = Instant::now();
        let answer = make().and_then(|constraint| compiler.compile(&constraint)).map(|grammar| {
            grammar.matcher().fill_bitmask(&mut row);
        });
        let ms = format!("{:.0}", started.elapsed().as_secs_f64() * 1e3);
        let mb = memory_mb("VmHWM").saturating_sub(before).to_string();
        let answer = answer.err().map_or_else(|| "a mask".to_owned(), |e| format!("refused: {:?}", e.kind()));
        table.rows.push(vec![name.to_owned(), answer, ms, mb]);
    }
    BenchReport::of_tables("Hostile constraints", Environment::of_machine(), vec![table])
}
