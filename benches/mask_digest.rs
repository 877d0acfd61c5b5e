//! A digest of the engine's decisions, for a change that must not change any of them.
//!
//! ```text
//! cargo bench --no-default-features --bench mask_digest -- FILE
//! ```
//!
//! Run it before and after the change, with two files, and compare them. Its output is not
//! committed.
//!
//! Each line is a schema of the benchmark data under a policy, the default one or a loose one. It
//! has a hash of all masks along the schema's first instances, the number of their accepted tokens,
//! and the warnings; or the error. Messages count only by the first name that they quote, so texts
//! may change.
//!
//! # Alternatives considered
//!
//! Printing whole masks was rejected: one row is 16 kB, and a difference is found from the line's
//! id.

use std::fmt::Write as _;
use std::fs::File;
use std::hash::Hasher;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use clap::Parser;
use ffwd::{CompiledGrammar, Compiler, Constraint, KeyOrder, Policy, Vocabulary, Whitespace};
use ffwd_testkit::{data, remotes};

/// Write a digest of the engine's decisions.
#[derive(Parser)]
struct Args {
    /// Write the digest to FILE
    file: PathBuf,
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

/// A file of the benchmark data, the draft for [`remotes::remote`], and the draft's `$schema`.
const FILES: [(&str, &str, &str); 5] = [
    ("maskbench-dev.jsonl.zst", "", ""),
    (
        "json-schema-test-suite-2020-12.jsonl.zst",
        "draft2020-12",
        "https://json-schema.org/draft/2020-12/schema",
    ),
    (
        "json-schema-test-suite-2020-12-optional-format.jsonl.zst",
        "draft2020-12",
        "https://json-schema.org/draft/2020-12/schema",
    ),
    ("json-schema-test-suite-draft7.jsonl.zst", "draft7", "http://json-schema.org/draft-07/schema#"),
    (
        "json-schema-test-suite-draft7-optional-format.jsonl.zst",
        "draft7",
        "http://json-schema.org/draft-07/schema#",
    ),
];
/// Instances of a schema that are followed.
const INSTANCES: usize = 2;

/// The schema with `$schema`, unless it has one.
fn with_draft(schema: &str, draft: &str) -> String {
    match schema.strip_prefix('{') {
        Some(rest) if !draft.is_empty() && !schema.contains("\"$schema\"") => {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            format!("{{\"$schema\":\"{draft}\"{comma}{rest}")
        }
        _ => schema.to_owned(),
    }
}

/// The first name that a message quotes.
fn keyword(message: &str) -> &str {
    message.split('`').nth(1).unwrap_or("-")
}

/// A JSON pointer as a fragment.
fn fragment(pointer: Option<&str>) -> String {
    pointer.map_or("-".to_owned(), |p| format!("#{p}"))
}

/// Pointer and message of each warning.
fn warnings(grammar: &CompiledGrammar) -> Vec<(String, &str)> {
    grammar.warnings().iter().map(|w| (fragment(w.pointer()), w.message())).collect()
}

/// Accepted tokens, the end, and a hash of all masks along a text.
fn along(grammar: &CompiledGrammar, vocab: &Vocabulary, text: &str) -> String {
    let tokens = vocab.encode(text).expect("text encodes");
    let mut matcher = grammar.matcher();
    let mut row = vec![0u32; vocab.bitmask_words()];
    let mut hash = rustc_hash::FxHasher::default();
    let mut accepted = 0;
    for token in tokens.iter().copied().map(Some).chain([None]) {
        matcher.fill_bitmask(&mut row);
        for word in &row {
            hash.write_u32(*word);
        }
        hash.write_u8(u8::from(matcher.is_accepting()));
        match token {
            Some(token) if matcher.accept_token(token).is_ok() => accepted += 1,
            _ => break,
        }
    }
    let end = if matcher.is_accepting() { "end" } else { "open" };
    format!("{accepted}/{}:{end}:{:016x}", tokens.len(), hash.finish())
}

fn main() {
    let options = Args::parse();
    let Some(dir) = data::bench_dir() else {
        println!("mask_digest: skipped, no benchmark data (set FFWD_BENCH_DIR)");
        return;
    };
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("a tokenizer");
    let compiler = Compiler::new(vocab.clone());
    let loose = Policy {
        key_order: KeyOrder::Any,
        whitespace: Whitespace::SingleSpace,
        equal_numbers: true,
        exponent: true,
        ..Policy::default()
    };
    let mut out = BufWriter::new(File::create(options.file).expect("a file to write"));
    for (file, name, draft) in FILES {
        for entry in data::load(&dir.join(file)).expect("a data file") {
            let text = with_draft(&entry.schema, draft);
            for (label, policy) in [("default", Policy::default()), ("loose", loose.clone())] {
                let mut line = format!("{file}\t{}\t{label}", entry.id);
                let builder =
                    Constraint::builder().policy(policy).resolver(|uri| Ok(remotes::remote(uri, name)));
                match builder.json_schema(&text).and_then(|c| compiler.compile(&c)) {
                    Ok(grammar) => {
                        for test in entry.tests.iter().take(INSTANCES) {
                            let shown = data::canonical(&test.data)
                                .map_or("-".to_owned(), |text| along(&grammar, &vocab, &text));
                            write!(line, "\t{shown}").expect("a string takes all");
                        }
                        for (pointer, message) in warnings(&grammar) {
                            write!(line, "\twarning {pointer} {}", keyword(message))
                                .expect("a string takes all");
                        }
                    }
                    Err(error) => {
                        let pointer = fragment(error.pointer());
                        write!(line, "\t{:?} {pointer} {}", error.kind(), keyword(error.message()))
                            .expect("a string takes all");
                    }
                }
                writeln!(out, "{line}").expect("the digest is written");
            }
        }
    }
}
