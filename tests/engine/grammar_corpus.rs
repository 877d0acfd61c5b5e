//! The grammars of `benches/grammars`: every text is of its language, token by token and byte by
//! byte, and no prefix that the language does not have is accepted.
//!
//! With the benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench` next to the repository) texts are
//! followed in the tokens of Llama 3, too.

use std::path::{Path, PathBuf};

use ffwd::{CompiledGrammar, Compiler, Constraint, Vocabulary};
use ffwd_testkit::data;
use ffwd_testkit::vocab::TestVocab;
use serde::Deserialize;

#[derive(Deserialize)]
struct CorpusLine {
    id: String,
    grammar: PathBuf,
    lark: Option<PathBuf>,
    texts: Vec<String>,
    refused: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/grammars")
}

fn corpus() -> Vec<CorpusLine> {
    let text = std::fs::read_to_string(folder().join("corpus.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl CorpusLine {
    /// Compiles the grammar, and its translations if it has some.
    fn compile(&self, compiler: &Compiler) -> Vec<CompiledGrammar> {
        let lalr = PathBuf::from(format!("{}_lalr.lark", self.id));
        let lalr = Some(&lalr).filter(|file| folder().join(file).exists());
        let files = std::iter::once(&self.grammar).chain(&self.lark).chain(lalr);
        let compile = |file: &PathBuf| {
            let text = std::fs::read_to_string(folder().join(file)).unwrap();
            let constraint = match file.extension().is_some_and(|extension| extension == "lark") {
                true => Constraint::builder().lark(text),
                false => Constraint::builder().gbnf(text),
            };
            let grammar = constraint.and_then(|constraint| compiler.compile(&constraint));
            grammar.unwrap_or_else(|e| panic!("{}: {e}", file.display()))
        };
        files.map(compile).collect()
    }
}

/// Follows a text; `Err` has the number of tokens that were accepted.
fn follow(grammar: &CompiledGrammar, text: &str) -> Result<bool, usize> {
    let vocab = grammar.vocabulary();
    let (mut matcher, mut row) = (grammar.matcher(), vec![0; vocab.bitmask_words()]);
    for (at, &token) in vocab.encode(text).unwrap().iter().enumerate() {
        matcher.fill_bitmask(&mut row);
        let legal = row[token as usize / 32] >> (token % 32) & 1 == 1;
        let accepted = matcher.accept_token(token).is_ok();
        assert_eq!(legal, accepted, "token {at} of {text:?}");
        if !accepted {
            return Err(at);
        }
    }
    Ok(matcher.is_accepting())
}

fn check(vocab: Vocabulary) {
    let compiler = Compiler::new(vocab);
    for line in corpus() {
        assert_eq!(line.texts.len(), 3, "{}", line.id);
        assert!(line.refused.len() >= 4, "{}", line.id);
        for grammar in line.compile(&compiler) {
            for text in &line.texts {
                assert_eq!(follow(&grammar, text), Ok(true), "{}: {text:?}", line.id);
            }
            for prefix in &line.refused {
                assert!(follow(&grammar, prefix).is_err(), "{}: {prefix:?}", line.id);
            }
        }
    }
}

#[test]
fn the_list_of_grammars_is_complete() {
    let names: Vec<String> = corpus().into_iter().map(|line| line.id).collect();
    let wanted = [
        "sql",
        "script",
        "small_c",
        "bounded_line",
        "c99",
        "sexpr",
        "python",
        "json_comments",
        "xml",
        "arithmetic",
        "regexp",
        "graphql",
    ];
    assert_eq!(names, wanted);
}

#[test]
fn texts_are_accepted_byte_by_byte() {
    check(TestVocab::new(1, 0, &[]).vocab);
}

#[test]
fn texts_are_accepted_in_the_tokens_of_the_embedded_models() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/runtime/assets/extract-5m/tokenizer.json");
    check(Vocabulary::from_file(file).unwrap());
}

#[test]
fn texts_have_50_to_200_tokens_of_llama() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data with the tokenizer of Llama 3");
        return;
    };
    let vocab = Vocabulary::from_file(dir.join("tokenizers/llama3/tokenizer.json")).unwrap();
    let compiler = Compiler::new(vocab.clone());
    for line in corpus() {
        for text in &line.texts {
            let tokens = vocab.encode(text).unwrap();
            assert!((50..=200).contains(&tokens.len()), "{}: {} tokens", line.id, tokens.len());
            for grammar in line.compile(&compiler) {
                let mut matcher = grammar.matcher();
                for (at, &token) in tokens.iter().enumerate() {
                    assert!(matcher.accept_token(token).is_ok(), "{}: token {at} of {text:?}", line.id);
                }
                assert!(matcher.is_accepting(), "{}: {text:?}", line.id);
            }
        }
    }
}
