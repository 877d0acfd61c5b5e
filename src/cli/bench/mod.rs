//! `ffwd bench`: measurements of decoding and masks on this machine, with one's own model and schemas.
//!
//! There is one file for each measurement. `rounds` runs arms in turn, `engines` walk along the texts
//! of a `corpus`, `outputs`, `plot` and `page` show results.

mod about;
mod arms;
mod compare;
mod corpus;
mod decode;
mod decode_page;
mod decode_report;
mod engines;
mod fraction;
mod fraction_page;
mod fraction_plot;
mod fraction_report;
mod grammars;
mod layout;
#[cfg(feature = "llguidance")]
mod llguidance;
mod masks;
mod outputs;
mod page;
mod percentiles;
mod plot;
mod rounds;
mod scenario;

use std::process::ExitCode;

use clap::Subcommand;

use super::help;
use crate::error::Result;

const EXAMPLES: [(&str, &str); 5] = [
    ("Measure decoding, and write a page with plots", "ffwd bench decode --html decode.html"),
    ("Measure one's own schema and text", "ffwd bench decode -s ticket.schema.json --text mail.txt"),
    ("Draw the speedup by the share of forced tokens", "ffwd bench fraction --html fraction.html"),
    ("Measure compiling and masks of one's own schemas", "ffwd bench masks schemas/*.json"),
    ("Measure masks along the texts of grammars", "ffwd bench grammars grammars.jsonl"),
];

/// Measure decoding and masks on this machine
///
/// Runs take turns and are repeated; tables have medians and their spread. Close other programs:
/// they make the spread larger.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Decode(Box<decode::Args>),
    Fraction(Box<fraction::Args>),
    Grammars(Box<grammars::Args>),
    Masks(Box<masks::Args>),
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Decode(args) => decode::run(args),
        What::Fraction(args) => fraction::run(args),
        What::Grammars(args) => grammars::run(args),
        What::Masks(args) => masks::run(args),
    }
}
