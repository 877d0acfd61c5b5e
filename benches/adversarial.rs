//! Adversarial constraints: the time to an answer (the first mask) or to a refusal, and the peak of
//! the bytes allocated for it. The goal for each case is less than a second and 200 MB.
//!
//! Uses the Llama 3 vocabulary of the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench`).
//! Without it nothing is measured.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use clap::Parser;
use ffwd::{Compiler, Constraint, Result, Vocabulary};
use ffwd_testkit::{data, tables};

/// Measure adversarial constraints.
#[derive(Parser)]
struct Args {
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

/// Counts allocated bytes.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator with the same arguments; counting touches no
// memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

fn main() {
    Args::parse();
    let Some(dir) = data::bench_dir() else {
        println!("adversarial: skipped, no benchmark data (set FFWD_BENCH_DIR)");
        return;
    };
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("a tokenizer");
    let compiler = Compiler::new(vocab.clone());
    let mut row = vec![0; vocab.bitmask_words()];
    let mut table = String::from("| constraint | answer | ms | MB |\n| --- | --- | --- | --- |\n");
    for (name, make) in cases() {
        let before = NOW.load(Relaxed);
        MOST.store(before, Relaxed);
        let started = Instant::now();
        let answer = make().and_then(|constraint| compiler.compile(&constraint)).map(|grammar| {
            grammar.matcher().fill_bitmask(&mut row);
        });
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let mb = (MOST.load(Relaxed) - before) as f64 / 1e6;
        let answer = answer.err().map_or("a mask".into(), |e| format!("refused: {:?}", e.kind()));
        table += &format!("| `{}` | {answer} | {ms:.0} | {mb:.0} |\n", name.replace('|', "\\|"));
    }
    print!("{table}");
    tables::put("hostile", &table).unwrap_or_else(|e| eprintln!("adversarial: {e}"));
}
