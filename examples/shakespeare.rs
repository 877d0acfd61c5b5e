//! Element pattern with a character model: a speaker and a word, `UPPER+ ':' ' ' LOWER+ '\n'`.
//!
//! cargo run --release --example shakespeare

use ffwd::model::{LoadOptions, Model, embedded};
use ffwd::{Constraint, Engine, Prompt, Request};

fn main() -> ffwd::Result<()> {
    let model = Model::embedded_shakespeare(&LoadOptions::default())?;
    let engine = Engine::from_parts(model, None, embedded::shakespeare_vocabulary()?)?;
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
