//! Forced tokens of real records: they are the tokens in which the tokenizer writes the record.

use ffwd::{Compiler, Constraint, Vocabulary};
use ffwd_testkit::data;

#[test]
fn forced_tokens_are_those_of_the_tokenizer() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR");
        return;
    };
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).expect("a tokenizer");
    let compiler = Compiler::new(vocab.clone());
    let entries = data::load(&dir.join("maskbench-dev.jsonl.zst")).expect("the schemas");
    let (mut forced, mut all) = (0, 0);
    for entry in &entries {
        let Ok(constraint) = Constraint::json_schema(&entry.schema) else { continue };
        let Ok(grammar) = compiler.compile(&constraint) else { continue };
        for test in entry.tests.iter().filter(|test| test.valid) {
            let Some(text) = data::canonical(&test.data) else { continue };
            let tokens = vocab.encode(&text).expect("it encodes");
            let mut matcher = grammar.matcher();
            // Records with another order of properties are no outputs.
            if matcher.validate_tokens(&tokens) < tokens.len() {
                continue;
            }
            for (at, &token) in tokens.iter().enumerate() {
                let run = matcher.forced_tokens();
                assert!(tokens[at..].starts_with(&run), "{}: {text} at token {at}: {run:?}", entry.id);
                forced += usize::from(!run.is_empty());
                matcher.accept_token(token).expect("it was validated");
            }
            all += tokens.len();
        }
    }
    println!("{forced} of {all} positions have forced tokens");
    assert!(forced * 10 > all && all > 10_000, "{forced} of {all}");
}
