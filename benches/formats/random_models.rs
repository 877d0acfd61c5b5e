//! Writes a model with random weights in each format of weights, for `ffwd bench formats`.
//!
//! ```text
//! cargo run --release --example random_models -- FOLDER [--layers 8]
//! ffwd bench formats FOLDER/*.gguf
//! ```

use std::path::PathBuf;

use clap::Parser;
use ffwd_testkit::gguf_file::{self, FORMATS, llama};
use ffwd_testkit::random::Random;

/// Write a model for each format of weights.
#[derive(Parser)]
struct Args {
    /// Write the files into FOLDER
    folder: PathBuf,
    /// Build models of N layers, each of about 17 million weights
    #[arg(long, value_name = "N", default_value_t = 8)]
    layers: usize,
}

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    for (kind, name, ..) in FORMATS {
        let (metadata, tensors) = llama(kind, [256, 1024, 4096, args.layers, 16], &mut Random::new(7));
        std::fs::write(args.folder.join(format!("{name}.gguf")), gguf_file::file(&metadata, &tensors))?;
    }
    Ok(())
}
