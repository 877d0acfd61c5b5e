//! Command line of the program `ffwd`: parses the arguments, runs a subcommand, returns an exit
//! code.
//!
//! Results go to standard output, everything else to standard error. There is one file per
//! subcommand; `args`, `labels`, `tools`, `schema_refs` and `multi_output` hold the options that
//! they share, and `help` the styles of the help texts.

mod args;
#[cfg(feature = "bench")]
mod bench;
mod classify;
#[cfg(feature = "shell")]
mod completions;
mod explain;
mod extract;
mod generate;
mod help;
mod inspect;
mod labels;
#[cfg(feature = "shell")]
mod man;
mod models;
mod multi_output;
mod output;
mod schema_refs;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "documents")]
mod text;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::error::{Error, ErrorKind};

const EXAMPLES: [(&str, &str); 4] = [
    ("Extract a JSON record from a text", "ffwd extract invoice.txt --schema invoice.schema.json"),
    ("Generate a date", "ffwd generate 'The date is ' --regex '[0-9]{4}-[0-9]{2}-[0-9]{2}'"),
    ("Compute the probability of each label", "ffwd classify mail.txt --labels labels.txt"),
    (
        "Show the tokens that are legal after a prefix",
        "ffwd inspect --json-schema invoice.schema.json --prefix '{\"vendor\":'",
    ),
];

/// Generate text that always satisfies its constraint, in few forward passes
///
/// A constraint is a JSON Schema, a regular expression, a grammar, a list of choices or labels, a
/// set of tools, or one of several other kinds. Every output satisfies its constraint. The default
/// build embeds small models, so each command works without a download.
#[derive(Parser)]
#[command(
    name = "ffwd",
    version,
    styles = help::STYLES,
    after_help = help::examples(&EXAMPLES),
    after_long_help = help::sections(&[
        help::table(&format!("Not in this build ({FULL_BUILD} has them)"), NOT_BUILT),
        help::examples(&EXAMPLES),
        help::table("Environment variables", help::ENVIRONMENT),
        help::table("Exit codes", help::EXIT_CODES),
    ]),
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// The help of each subcommand is the comment of its arguments.
#[derive(Subcommand)]
enum Command {
    Extract(Box<extract::Args>),
    Generate(Box<generate::Args>),
    Classify(Box<classify::Args>),
    Inspect(Box<inspect::Args>),
    Explain(Box<explain::Args>),
    #[cfg(feature = "documents")]
    Text(text::Args),
    #[cfg(feature = "bench")]
    Bench(Box<bench::Args>),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    #[cfg(feature = "serve")]
    Playground(Box<serve::PlaygroundArgs>),
    Models(models::Args),
    #[cfg(feature = "shell")]
    Completions(completions::Args),
    #[cfg(feature = "shell")]
    Man(man::Args),
}

/// The commands that are not in this build, with what they do.
const NOT_BUILT: &[(&str, &str)] = &[
    #[cfg(not(feature = "documents"))]
    ("text", "Print the text of PDF, e-mail, HTML, Word and hOCR files"),
    #[cfg(not(feature = "bench"))]
    ("bench", "Measure decoding and masks on this machine"),
    #[cfg(not(feature = "serve"))]
    ("serve", "Serve models over HTTP to clients of OpenAI's API"),
    #[cfg(not(feature = "serve"))]
    ("playground", "Open a page that shows each token and why it was legal"),
    #[cfg(not(feature = "shell"))]
    ("completions", "Write the completions of a shell"),
    #[cfg(not(feature = "shell"))]
    ("man", "Write the manual pages"),
];

/// The line that builds all commands, in the folder of the source.
const FULL_BUILD: &str = "cargo install --path . --features full";

/// Returns an error if the arguments name a command that is not in this build.
fn not_built(args: &[OsString]) -> Option<Error> {
    let (name, _) = NOT_BUILT.iter().find(|(name, _)| args.get(1).is_some_and(|arg| arg == name))?;
    let error = Error::new(ErrorKind::Unsupported, format!("this build has no `ffwd {name}`"));
    Some(error.hint(format!("`{FULL_BUILD}` builds every command")))
}

/// Runs the program.
pub fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("FFWD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(error) = not_built(&args) {
        eprintln!("error: {error}");
        return exit_code(&error);
    }
    let (cli, matches) = parse(&args);
    let result = match cli.command {
        Command::Extract(args) => {
            extract::run(&args, matches.subcommand_matches("extract").unwrap_or(&matches))
        }
        Command::Generate(args) => generate::run(&args),
        Command::Classify(args) => classify::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Explain(args) => explain::run(&args),
        #[cfg(feature = "documents")]
        Command::Text(args) => text::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        #[cfg(feature = "serve")]
        Command::Playground(args) => serve::run_playground(&args),
        Command::Models(args) => models::run(&args),
        #[cfg(feature = "shell")]
        Command::Completions(args) => completions::run(&args, Cli::command()),
        #[cfg(feature = "shell")]
        Command::Man(args) => man::run(&args, Cli::command()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            exit_code(&error)
        }
    }
}

/// Parses the arguments. A text that begins with a hyphen and that no option can be is a positional
/// argument, as after `--`.
fn parse(args: &[OsString]) -> (Cli, ArgMatches) {
    let parsed = try_parse(args).or_else(|error| match error.kind() {
        clap::error::ErrorKind::UnknownArgument => with_text_last(args).ok_or(error),
        _ => Err(error),
    });
    parsed.unwrap_or_else(|error| error.exit())
}

fn try_parse(args: &[OsString]) -> clap::error::Result<(Cli, ArgMatches)> {
    let matches = Cli::command().try_get_matches_from(args)?;
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

/// Parses the arguments with the first such text behind `--`.
fn with_text_last(args: &[OsString]) -> Option<(Cli, ArgMatches)> {
    let is_text = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        let rest = arg.trim_start_matches('-');
        let hyphens = arg.len() - rest.len();
        let is_option = hyphens < 3 && rest.starts_with(|c: char| c.is_ascii_alphabetic());
        hyphens > 0 && arg.len() > 1 && (!is_option || arg.contains(char::is_whitespace))
    };
    if args.iter().any(|arg| arg == "--") {
        return None;
    }
    let at = args.iter().skip(1).position(is_text)? + 1;
    let mut args = args.to_vec();
    let text = args.remove(at);
    args.extend(["--".into(), text]);
    try_parse(&args).ok()
}

/// Returns 2 for usage errors and 1 for all others.
fn exit_code(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::InvalidOption => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}
