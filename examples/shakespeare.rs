//! Element pattern with a character model: a speaker and a word, `UPPER+ ':' ' ' LOWER+ '\n'`.
//!
//! cargo run --release --example shakespeare

use ffwd::model::{LoadOptions, Model};
use ffwd::{Constraint, Engine, Prompt, Request, Vocabulary};

/// The character model: one token for each character, without end of sequence.
const SHAKESPEARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/shakespeare-char-1m");

fn main() -> ffwd::Result<()> {
    let model = Model::from_dir(SHAKESPEARE, &LoadOptions::default())?;
    let engine =
        Engine::from_parts(model, None, Vocabulary::from_file(format!("{SHAKESPEARE}/tokenizer.json"))?)?;
    let constraint = Constraint::pattern(r"UPPER+ ':' ' ' LOWER+ '\n'")?;
    for seed in 0..5 {
        let request = Request::new(Prompt::text("What say you, my lord?\n\n"))
            .constraint(constraint.clone())
            .temperature(0.8)
            .seed(seed)
            .max_tokens(120);
        let output = engine.generate(&request)?;
        println!("seed {seed}: {:?} ({})", output.text, output.finish.name());
    }
    Ok(())
}
