//! A thousand different queries of one SQL grammar: the tables stay within their limit and are never
//! thrown away.
//!
//! With the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench` next to the repository) this is
//! done with the tokens of Llama 3, too.

use ffwd::{Compiler, Constraint, Vocabulary};
use ffwd_testkit::data;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

fn name(random: &mut Random) -> String {
    let words = ["orders", "id", "user", "total", "Price", "a", "t1", "created_at", "nameOfCity", "x"];
    format!("{}{}", random.pick(&words[..]), ["", "_", "2", "s"][random.below(4)])
}

fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth > 2 { 4 } else { 8 }) {
        0 => name(random),
        1 => format!("{}.{}", name(random), name(random)),
        2 => format!("{}", random.below(10_000)),
        3 => format!("'{} it''s'", name(random)),
        4 => format!("{}({})", name(random).to_uppercase(), value(random, depth + 1)),
        5 => format!("({} - {})", value(random, depth + 1), value(random, depth + 1)),
        6 => format!("{}*{}", value(random, depth + 1), value(random, depth + 1)),
        _ => format!("CASE WHEN {} THEN {} END", test(random, depth + 1), value(random, depth + 1)),
    }
}

fn test(random: &mut Random, depth: usize) -> String {
    let left = value(random, depth);
    match random.below(if depth > 2 { 3 } else { 6 }) {
        0 => format!("{left} = {}", value(random, depth)),
        1 => format!("{left} IS NOT NULL"),
        2 => format!("{left} BETWEEN {} AND {}", value(random, depth), value(random, depth)),
        3 => format!("{left} IN ({})", query(random, depth + 1)),
        4 => format!("{} AND {}", test(random, depth + 1), test(random, depth + 1)),
        _ => format!("NOT ({} OR {})", test(random, depth + 1), test(random, depth + 1)),
    }
}

fn query(random: &mut Random, depth: usize) -> String {
    let mut text = format!("SELECT {}", value(random, depth));
    if random.below(2) == 0 {
        text += &format!(" AS {}, {}", name(random), value(random, depth));
    }
    text += &format!(" FROM {}", name(random));
    if random.below(2) == 0 {
        text += &format!(" LEFT JOIN {} ON {}", name(random), test(random, depth));
    }
    if random.below(3) > 0 {
        text += &format!(" WHERE {}", test(random, depth));
    }
    if random.below(4) == 0 {
        text += &format!(" GROUP BY {} ORDER BY {} DESC LIMIT 7", value(random, depth), name(random));
    }
    text
}

/// Follows queries, with every mask.
fn follow(vocab: &Vocabulary, queries: usize, limit: usize) {
    let compiler = Compiler::new(vocab.clone()).with_table_limit(limit).with_replicas(1);
    let sql = include_str!("../../benches/grammars/sql.lark");
    let grammar = compiler.compile(&Constraint::ebnf(sql).unwrap()).unwrap();
    let mut random = Random::new(41);
    let mut row = vec![0; vocab.bitmask_words()];
    let mut configurations = 0;
    for _ in 0..queries {
        let text = query(&mut random, 0);
        let mut matcher = grammar.matcher();
        for &token in &vocab.encode(&text).unwrap() {
            matcher.fill_bitmask(&mut row);
            assert_eq!(row[token as usize / 32] >> (token % 32) & 1, 1, "{text}");
            matcher.accept_token(token).unwrap();
        }
        assert!(matcher.is_accepting(), "{text}");
        let memory = grammar.memory();
        let bytes = memory.states + memory.masks + memory.transitions;
        assert!(bytes <= limit, "{bytes} after {text}");
        // New tables would begin with few.
        let sizes = grammar.sizes();
        assert!(sizes.configurations >= configurations, "{text}");
        configurations = sizes.configurations;
    }
    assert!(configurations > 2_000, "{configurations}");
}

#[test]
fn a_thousand_queries_keep_the_tables() {
    follow(&TestVocab::new(3, 2_000, &[]).vocab, 1_000, 64 << 20);
    let Some(folder) = data::bench_dir() else {
        return println!("skipped with the tokens of Llama 3: no benchmark data");
    };
    let vocab = Vocabulary::from_file(folder.join("tokenizers/llama3/tokenizer.json")).unwrap();
    follow(&vocab, 1_000, 256 << 20);
}
