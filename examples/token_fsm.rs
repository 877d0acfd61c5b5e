//! Constraints over tokens: a line of a play with a name, a colon, a space, a word and a line
//! break.
//!
//! cargo run --release --example token_fsm
//!
//! Each token of the character model is a single character, so a line can show all tokens
//! that are allowed at a step. There are three constraints: a state machine over tokens, a set of
//! tokens for each position, and an element pattern over bytes for comparison.

use ffwd::constraint::token_machine::{TokenFsm, TokenMasks};
use ffwd::model::{LoadOptions, Model};
use ffwd::{Compiler, Constraint, Engine, Prompt, Request, Result, Vocabulary};

/// The character model: one token for each character, without end of sequence.
const SHAKESPEARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/shakespeare-char-1m");

/// State machine of `UPPER+ ':' ' ' LOWER+ '\n'`.
fn machine(vocab: &Vocabulary) -> Result<TokenFsm> {
    let (upper, lower) = (vocab.tokens_matching("[A-Z]")?, vocab.tokens_matching("[a-z]")?);
    let one = |character: &str| vocab.tokens_where(|bytes| bytes == character.as_bytes());
    let mut fsm = TokenFsm::new();
    fsm.name(0, "start").name(1, "name").name(2, "colon").name(3, "space").name(4, "text").name(5, "end");
    fsm.add_transition(0, &upper, 1); // at least one capital letter
    fsm.add_transition(1, &upper, 1); // and any number of further ones
    fsm.add_transition(1, one(":"), 2);
    fsm.add_transition(2, one(" "), 3);
    fsm.add_transition(3, &lower, 4); // at least one small letter
    fsm.add_transition(4, &lower, 4);
    fsm.add_transition(4, one("\n"), 5);
    fsm.accept(5);
    Ok(fsm)
}

/// Texts of a list of tokens, on one line.
fn shown(vocab: &Vocabulary, tokens: impl Iterator<Item = u32>) -> String {
    let text = vocab.decode(&tokens.collect::<Vec<_>>());
    String::from_utf8_lossy(&text).escape_debug().to_string()
}

fn main() -> Result<()> {
    let vocab = Vocabulary::from_file(format!("{SHAKESPEARE}/tokenizer.json"))?;
    let fsm = machine(&vocab)?;

    println!("by hand, without a model");
    let mut walk = fsm.walk();
    for character in ["H", "E", ":", "x", " ", "t", "\n"] {
        let allowed = shown(&vocab, walk.allowed_tokens().iter());
        let token = vocab.encode(character)?[0];
        let advanced = walk.advance(token);
        println!(
            "  {:6} {} allowed: {allowed}",
            format!("{character:?}"),
            if advanced { "taken,  " } else { "refused," }
        );
    }
    assert!(walk.is_complete());

    let model = Model::from_dir(SHAKESPEARE, &LoadOptions::default())?;
    let engine = Engine::from_parts(model, None, vocab.clone())?;
    let (lower, newline) = (vocab.tokens_matching("[a-z]")?, vocab.tokens_matching("\n")?);
    let masks = TokenMasks::new([&lower; 5]).then(&newline);
    let kinds = [
        ("machine", Constraint::token_fsm(&fsm)),
        ("pattern over bytes", Constraint::pattern("UPPER+ ':' ' ' LOWER+ '\\n'")?),
        ("five letters, a line break", Constraint::token_masks(&masks)?),
    ];
    let mut lines = Vec::new();
    for (name, constraint) in &kinds {
        println!("{name}");
        for seed in 0..5 {
            let request = Request::new(Prompt::text("\n")).constraint(constraint.clone());
            let output = engine.generate(&request.temperature(0.8).seed(seed).max_tokens(60))?;
            assert!(output.complete, "{:?}", output.text);
            println!("  {:?}", output.text);
            lines.push(output.text);
        }
    }
    // Each token is one character here, so the first two constraints allow the same tokens, and the
    // same seed gives the same line.
    assert_eq!(lines[..5], lines[5..10]);

    println!("a state without a way out");
    let mut fault = machine(&vocab)?;
    fault.add_transition(4, vocab.tokens_matching("!")?, 6).name(6, "exclamation");
    if let Err(error) = Compiler::new(vocab).compile(&Constraint::token_fsm(&fault)) {
        println!("  {error}");
    }
    Ok(())
}
