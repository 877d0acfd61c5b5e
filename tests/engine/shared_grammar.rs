//! One grammar used by several threads, and for a run long enough that its tables are rebuilt.
//! Every mask, and the state after every token, is that of one generation alone.

use std::sync::Barrier;

use ffwd::{Compiler, Constraint, Matcher, TokenId, Vocabulary};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

/// Undeclared names are remembered, nested objects make stacks, the pattern makes states.
const SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}},
  "b":{"type":"string","pattern":"^(ab|ba)*[0-9]{2}$"},"c":{"type":"integer"}},"minProperties":2}"#;

fn grammar_of(vocab: &Vocabulary, limit: usize, replicas: usize) -> ffwd::CompiledGrammar {
    let compiler = Compiler::new(vocab.clone()).with_table_limit(limit).with_replicas(replicas);
    compiler.compile(&Constraint::json_schema(SCHEMA).unwrap()).unwrap()
}

fn legal(row: &[u32]) -> Vec<TokenId> {
    (0..row.len() as TokenId * 32).filter(|t| row[*t as usize / 32] >> (t % 32) & 1 == 1).collect()
}

/// A walk of `steps`, with going back and forks, on both matchers; panics where they differ.
fn walk(known: &TestVocab, mut here: Matcher, mut alone: Matcher, random: &mut Random, steps: usize) {
    let words = known.vocab.bitmask_words();
    let (mut row, mut expected) = (vec![0; words], vec![0; words]);
    for _ in 0..steps {
        here.fill_bitmask(&mut row);
        alone.fill_bitmask(&mut expected);
        assert_eq!(row, expected, "after {:?}", String::from_utf8_lossy(&known.vocab.decode(&here.tokens())));
        assert_eq!(here.forced_bytes(), alone.forced_bytes());
        match random.below(12) {
            0 => {
                let n = random.below(here.num_accepted() + 1);
                here.rollback(n);
                alone.rollback(n);
            }
            1 => here = here.fork(),
            _ => {
                let token = *random.pick(&legal(&row));
                here.accept_token(token).unwrap();
                alone.accept_token(token).unwrap();
                if here.is_terminated() {
                    return;
                }
            }
        }
    }
}

#[test]
fn threads_on_one_grammar_do_not_disturb_each_other() {
    const THREADS: usize = 4;
    let known = TestVocab::new(8, 200, b"");
    let shared = grammar_of(&known.vocab, usize::MAX, THREADS);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (known, shared, barrier) = (&known, &shared, &barrier);
            scope.spawn(move || {
                let alone = grammar_of(&known.vocab, usize::MAX, 1);
                let mut random = Random::new(thread as u64);
                barrier.wait();
                for _ in 0..60 {
                    walk(known, shared.matcher(), alone.matcher(), &mut random, 80);
                }
            });
        }
    });
    assert!(shared.memory().replicas <= THREADS);
}

#[test]
fn tables_beyond_their_limit_are_made_anew_without_a_trace() {
    const LIMIT: usize = 400_000;
    let known = TestVocab::new(9, 200, b"");
    let (bounded, unbounded) = (grammar_of(&known.vocab, LIMIT, 2), grammar_of(&known.vocab, usize::MAX, 1));
    let mut random = Random::new(4);
    let mut most = 0;
    for _ in 0..300 {
        walk(&known, bounded.matcher(), unbounded.matcher(), &mut random, 80);
        most = most.max(bounded.memory().total());
    }
    // A walk of 80 steps adds to full tables once more; the other replica may be as full.
    assert!(most < 3 * LIMIT, "{most} bytes");
    assert!(unbounded.memory().total() > 4 * LIMIT, "{} bytes are no test", unbounded.memory().total());
}

#[test]
fn a_generation_that_needs_more_than_the_limit_gets_it() {
    let known = TestVocab::new(10, 100, b"");
    let (bounded, unbounded) = (grammar_of(&known.vocab, 1, 1), grammar_of(&known.vocab, usize::MAX, 1));
    let mut random = Random::new(5);
    walk(&known, bounded.matcher(), unbounded.matcher(), &mut random, 2_000);
    let held = bounded.memory();
    assert_eq!(held.replicas, 1);
    assert!(held.total() > 1);
}
