//! Tokenizer files: a file that loads must be consistent and usable.
#![no_main]

use std::sync::Once;

use ffwd::{Compiler, Constraint, TokenId, Vocabulary};

/// The tokenizers crate panics on some files, which `Vocabulary::from_bytes` turns into an error.
/// The fuzzer's hook ends the process at the panic itself; without it only an uncaught panic does.
static QUIET: Once = Once::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    QUIET.call_once(|| std::panic::set_hook(Box::new(|info| eprintln!("{info}"))));
    let vocab = match Vocabulary::from_bytes(data) {
        Ok(vocab) => vocab,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!vocab.is_empty() && vocab.bitmask_words() * 32 >= vocab.logits_size());
    if vocab.len() > 1 << 16 {
        return; // tables of that size are slow under the fuzzer, and no different
    }
    let ids = 0..vocab.len() as TokenId;
    for id in ids.clone() {
        let bytes = vocab.token_bytes(id);
        assert!(bytes.len() <= vocab.max_token_len());
        assert!(!vocab.is_special(id) || bytes.is_empty());
        if !bytes.is_empty() {
            let node = vocab.trie().find(bytes).expect("every token is in the trie");
            assert!(vocab.trie().tokens_at(node).contains(&id));
            assert!(bytes.iter().all(|&b| vocab.has_byte(b)));
        }
        let _ = vocab.token_text(id);
    }
    for text in ["To be, or not to be", "\u{0}\u{e9}\u{1f600}", "<|end|>", ""] {
        if let Ok(tokens) = vocab.encode(text) {
            assert!(tokens.iter().all(|&t| (t as usize) < vocab.len()), "{tokens:?}");
            vocab.decode(&tokens);
        }
        let _ = vocab.encode_template(text);
    }
    let compiler = Compiler::new(vocab.clone());
    for constraint in [Constraint::regex("[a-z ]{1,5}"), Constraint::json_schema(r#"{"type":"object"}"#)] {
        let Ok(grammar) = compiler.compile(&constraint.expect("it parses")) else { continue };
        let mut matcher = grammar.matcher();
        let mut row = vec![0; vocab.bitmask_words()];
        for _ in 0..6 {
            matcher.fill_bitmask(&mut row);
            let mut legal = ids.clone().filter(|&t| row[t as usize / 32] >> (t % 32) & 1 == 1);
            let Some(token) = legal.find(|t| !vocab.token_bytes(*t).is_empty()) else {
                assert!(matcher.is_accepting());
                break;
            };
            assert!(matcher.allows(token));
            matcher.canonical_forced_tokens(None);
            matcher.accept_token(token).expect("a token with its bit set");
        }
    }
});
