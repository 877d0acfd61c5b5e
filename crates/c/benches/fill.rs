//! Time of a mask through the C functions, beside that of Rust on the same states, in turns.
//!
//!     cargo bench -p ffwd-c --bench fill
//!
//! Each side has grammars of its own and follows records of MaskBench; who is first changes at every
//! token. The first pass over a record makes the masks, the second finds them. Each position counts with
//! its shortest time of eight rounds with new grammars. Prints means and their ratio.

use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ffwd_c::constraint::{ffwd_constraint_free, ffwd_constraint_new};
use ffwd_c::error::Status;
use ffwd_c::grammar::{ffwd_grammar_free, ffwd_grammar_new};
use ffwd_c::matcher::{self, ffwd_matcher_accept, ffwd_matcher_fill, ffwd_matcher_free, ffwd_matcher_new};
use ffwd_c::vocabulary::{self, ffwd_vocabulary_from_file};
use ffwd_engine::{Compiler, Constraint, Matcher, TokenId, Vocabulary};
use ffwd_testkit::data;

/// Every such schema is measured.
const EVERY: usize = 8;
const ROUNDS: usize = 8;

/// An object that a C function makes.
fn made<T>(make: impl FnOnce(Option<&mut std::mem::MaybeUninit<*mut T>>) -> Status) -> *mut T {
    let mut out = std::mem::MaybeUninit::new(null_mut());
    assert_eq!(make(Some(&mut out)), Status::Ok);
    // SAFETY: it was initialised above.
    unsafe { out.assume_init() }
}

/// The matcher of a schema, made through C.
fn matcher_in_c(vocabulary: &vocabulary::Vocabulary, schema: &str) -> Box<matcher::Matcher> {
    let (text, length) = (schema.as_ptr().cast(), schema.len());
    // SAFETY: the text has this length, and the objects are those of the functions.
    unsafe {
        let kind = c"json_schema".as_ptr();
        let constraint = made(|out| ffwd_constraint_new(kind, text, length, std::ptr::null(), out, None));
        let grammar = made(|out| ffwd_grammar_new(Some(vocabulary), constraint.as_ref(), out, None));
        let matcher = made(|out| ffwd_matcher_new(grammar.as_ref(), out, None));
        ffwd_constraint_free(Some(Box::from_raw(constraint)));
        ffwd_grammar_free(Some(Box::from_raw(grammar)));
        Box::from_raw(matcher)
    }
}

/// Follows a record on both sides. Lowers the times of its positions in Rust and in C.
fn follow(
    (rust, c): (&mut Matcher, &mut matcher::Matcher),
    tokens: &[TokenId],
    rows: &mut [Vec<u32>; 2],
    (round, times): (usize, &mut [[Duration; 2]]),
) {
    for (at, &token) in tokens.iter().enumerate() {
        for side in [(round + at) % 2, (round + at + 1) % 2] {
            let row = &mut rows[side];
            let begin = Instant::now();
            if side == 0 {
                rust.fill_bitmask(row);
            } else {
                // SAFETY: the row has this length.
                unsafe { ffwd_matcher_fill(Some(c), row.as_mut_ptr(), row.len(), None) };
            }
            times[at][side] = times[at][side].min(begin.elapsed());
        }
        assert!(rows[0] == rows[1], "the masks differ");
        rust.accept_token(token).expect("it was validated");
        assert_eq!(ffwd_matcher_accept(Some(c), token, None), Status::Ok);
    }
    rust.rollback(tokens.len());
    matcher::ffwd_matcher_reset(Some(c), None);
}

fn main() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR");
        return;
    };
    let path = dir.join("tokenizers/llama3/tokenizer.json");
    let vocab = Vocabulary::from_file(&path).expect("a tokenizer");
    let path = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
    // SAFETY: the path ends with a zero byte; the object is that of the function.
    let in_c = unsafe { Box::from_raw(made(|out| ffwd_vocabulary_from_file(path.as_ptr(), out, None))) };
    let compiler = Compiler::new(vocab.clone());
    let mut rows = [0, 1].map(|_| vec![0u32; vocab.bitmask_words()]);
    let (mut sums, mut masks) = ([[Duration::ZERO; 2]; 2], 0);
    for entry in data::load(&dir.join("maskbench-dev.jsonl.zst")).expect("the schemas").iter().step_by(EVERY)
    {
        let Ok(constraint) = Constraint::json_schema(&entry.schema) else { continue };
        let Ok(grammar) = compiler.compile(&constraint) else { continue };
        let record = entry.tests.iter().find(|test| test.valid);
        let text = record.and_then(|test| data::canonical(&test.data)).unwrap_or_default();
        let mut tokens = vocab.encode(&text).expect("it encodes");
        tokens.truncate(500);
        tokens.truncate(grammar.matcher().validate_tokens(&tokens));
        let mut passes = [vec![[Duration::MAX; 2]; tokens.len()], vec![[Duration::MAX; 2]; tokens.len()]];
        for round in 0..ROUNDS {
            let mut rust = compiler.compile(&constraint).expect("it compiles").matcher();
            let mut c = matcher_in_c(&in_c, &entry.schema);
            for times in &mut passes {
                follow((&mut rust, &mut c), &tokens, &mut rows, (round, times));
            }
            ffwd_matcher_free(Some(c));
        }
        for (sum, times) in sums.iter_mut().zip(&passes) {
            for side in 0..2 {
                sum[side] += times.iter().map(|time| time[side]).sum::<Duration>();
            }
        }
        masks += tokens.len();
    }
    for (name, [rust, c]) in ["first", "again"].into_iter().zip(sums) {
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / masks as f64;
        let ratio = c.as_secs_f64() / rust.as_secs_f64();
        println!(
            "{name}: {masks} masks, Rust {:.3} us, C {:.3} us, ratio {ratio:.3}",
            micros(rust),
            micros(c)
        );
    }
}
