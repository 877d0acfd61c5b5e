//! The command line: parse, run, one error message, an exit code.
//!
//! Results go to standard output, everything else to standard error. Exit code 1 is a failure, 2 a
//! command that makes no sense. One file per subcommand, the argument groups they share in `args`.

mod args;
mod classify;
mod extract;
mod generate;
mod inspect;
mod labels;
mod multi_output;
mod output;
mod schema_refs;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::error::{Error, ErrorKind};

#[derive(Parser)]
#[command(
    name = "ffwd",
    version,
    about = "Structured generation that cannot break its constraint, in few forward passes",
    after_help = "Examples:\n  \
        ffwd extract invoice.txt --schema invoice.schema.json\n  \
        ffwd generate 'The date is ' --regex '[0-9]{4}-[0-9]{2}-[0-9]{2}'\n  \
        ffwd classify mail.txt --labels labels.txt\n  \
        ffwd inspect --json-schema invoice.schema.json --prefix '{\"vendor\":'\n\n\
        Set FFWD_LOG=debug to see what happens inside."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Extract a record from each text, valid against a JSON Schema
    Extract(Box<extract::Args>),
    /// Generate text under a constraint
    Generate(Box<generate::Args>),
    /// Say how probable each label of a taxonomy is for a text
    Classify(Box<classify::Args>),
    /// Show what a constraint allows at a point: tokens, forced run, whether it may end
    Inspect(Box<inspect::Args>),
}

/// Runs the program.
pub fn main() -> ExitCode {
    // Candle's quantised kernels wait for each other in a spin loop; more workers than free cores make
    // every product slow. A user who knows better sets these.
    for name in ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"] {
        if std::env::var_os(name).is_none() {
            // SAFETY: nothing else runs yet; this is the first thing the program does.
            unsafe { std::env::set_var(name, "1") };
        }
    }
    let filter = EnvFilter::try_from_env("FFWD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let result = match Cli::parse().command {
        Command::Extract(args) => extract::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Classify(args) => classify::run(&args),
        Command::Inspect(args) => inspect::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            exit_code(&error)
        }
    }
}

/// 2 for a command that makes no sense whatever the files hold, 1 for everything else.
fn exit_code(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::InvalidOption => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}
