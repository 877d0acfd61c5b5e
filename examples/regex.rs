//! Regular expressions as constraints: they fix the form, and the model chooses the content.
//!
//! cargo run --release --example regex

use ffwd::{Constraint, Engine, Prompt, Request};

fn main() -> ffwd::Result<()> {
    let engine = Engine::embedded()?;
    let cases = [
        ("The meeting is on ", r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"),
        ("Reach me at ", r"\+44 20 [0-9]{4} [0-9]{4}"),
        ("Order status: ", r"(shipped|delivered|returned) on day [1-9][0-9]?"),
    ];
    for (prompt, regex) in cases {
        let request = Request::new(Prompt::text(prompt)).constraint(Constraint::regex(regex)?);
        let output = engine.generate(&request)?;
        let stats = &output.stats;
        println!("{regex}");
        println!(
            "  {:?}: {} tokens, {} forwards, {:.0}% forced",
            output.text,
            stats.tokens,
            stats.forwards,
            100.0 * stats.deterministic_fraction
        );
    }
    Ok(())
}
