//! Comparison of the four modes on one prompt: forwards, time, and equality with the text of `off`.
//!
//! cargo run --release --example compare_modes

use ffwd::extract::Extractor;
use ffwd::{Engine, Mode};

fn main() -> ffwd::Result<()> {
    let engine = Engine::embedded()?.with_prefix_bytes(0);
    let (text, schema) = (include_str!("data/invoice.txt"), include_str!("data/invoice.schema.json"));
    let extractor = Extractor::new(&engine, schema)?;
    // Warm up: the first call measures the cost of forwards.
    engine.generate(&extractor.request(text)?)?;
    let mut off = String::new();
    println!(
        "{:<10} {:>6} {:>8} {:>6} {:>8} {:>8}  same text",
        "mode", "tokens", "forwards", "forced", "accepted", "ms"
    );
    for mode in Mode::ALL {
        let output = engine.generate(&extractor.request(text)?.mode(mode))?;
        if mode == Mode::Off {
            off = output.text.clone();
        }
        println!(
            "{:<10} {:>6} {:>8} {:>6} {:>8} {:>8.1}  {}",
            mode.name(),
            output.stats.tokens,
            output.stats.forwards,
            output.stats.forced,
            output.stats.accepted,
            output.stats.seconds * 1e3,
            if output.text == off { "yes" } else { "no" }
        );
    }
    println!("{off}");
    Ok(())
}
