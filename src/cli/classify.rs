//! `ffwd classify`: the probability of each label for a text.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::args::{ModelArgs, read_text};
use super::labels::LabelArgs;
use super::{help, output};
use crate::chat::{ChatOptions, Message};
use crate::decode::{Engine, LabelOptions, LabelProbabilities, Prompt};
use crate::error::{Error, ErrorKind, Place, Result};

/// Placeholder of the text in a template of prompts.
const PLACEHOLDER: &str = "{text}";

const EXAMPLES: [(&str, &str); 3] = [
    ("Print the probability of each topic", "ffwd classify mail.txt --labels topics.txt"),
    (
        "Print the three best leaves of a taxonomy for each text, as JSON Lines",
        "ffwd classify inbox/*.txt -l taxonomy.json --labels-levels leaves --top 3",
    ),
    (
        "Read the text from standard input, with another prompt",
        "echo 'I want my money back.' | ffwd classify - -l topics.txt \\\n  \
            --prompt 'Mail: {text}\\n\\nTopic:'",
    ),
];

const OUTPUT: [&str; 2] =
    ["A table on a terminal. Otherwise, and with --json, one line of JSON for each", "text."];

const PROBABILITIES: [&str; 7] = [
    "The probabilities are exact: masked decoding writes each label with its",
    "probability, and they add up to 1. With --top or --min-probability, the search",
    "finds only the most probable labels; `rest` is the probability of all others.",
    "",
    "Probabilities compare labels with each other. They do not say whether any label",
    "is right. For that, look at the share of the model's probability that was on",
    "labels, which standard error reports.",
];

/// Compute the probability of each label for a text
///
/// The labels are a list or a hierarchy. Their probabilities are exact, and they add up to 1.
#[derive(clap::Args)]
#[command(
    after_help = help::examples(&EXAMPLES),
    after_long_help = help::sections(&[
        help::note("Output", &OUTPUT),
        help::note("Probabilities", &PROBABILITIES),
        help::examples(&EXAMPLES),
    ]),
)]
pub(super) struct Args {
    /// Read these texts (`-` = standard input)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Read the labels from FILE: one on each line, a JSON array, or a JSON tree of paths
    #[arg(short, long, value_name = "FILE")]
    labels: PathBuf,
    /// Prompt the model with TEMPLATE, in which `{text}` is the text and `\n` a line break
    ///
    /// The label follows the prompt.
    #[arg(long, value_name = "TEMPLATE", default_value = "{text}\\n\\nCategory:")]
    prompt: String,
    /// Put the prompt into a chat, by the model's chat template (ChatML if it has none)
    #[arg(long)]
    chat: bool,
    /// Print only the N most probable labels
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Print only labels with probability P or more
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_probability: f64,
    /// Print JSON on a terminal too
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: LabelArgs,
    #[command(flatten)]
    models: ModelArgs,
}

/// The output for one text, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    source: String,
    #[serde(flatten)]
    found: &'a LabelProbabilities,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let template = args.prompt.replace("\\n", "\n");
    let Some((before, after)) = template.split_once(PLACEHOLDER) else {
        let message = "the prompt has no place for the text";
        return Err(
            Error::new(ErrorKind::InvalidOption, message).hint(format!("write {PLACEHOLDER} where it goes"))
        );
    };
    let options =
        LabelOptions { top: args.top, min_probability: args.min_probability, ..LabelOptions::default() };
    let labels = args.names.read(&args.labels)?;
    let engine = args.models.engine()?;
    let trie = engine.label_trie(&labels).map_err(|e| e.at(Place::File(args.labels.clone())))?;
    let as_table = std::io::stdout().is_terminal() && !args.json;
    for file in &args.files {
        let prompt = prompt(args, &engine, [before, read_text(file)?.trim_end(), after].concat())?;
        let found = engine
            .label_probabilities(&prompt, &trie, &options)
            .map_err(|e| e.at(Place::File(file.clone())))?;
        let source = file.display().to_string();
        if as_table {
            if args.files.len() > 1 {
                output::print_line(&source)?;
            }
            output::print_line(&table(&found))?;
        } else {
            let line = serde_json::to_string(&Line { source, found: &found }).map_err(|e| {
                Error::new(ErrorKind::Io, format!("the labels cannot be written as JSON: {e}"))
            })?;
            output::print_line(&line)?;
        }
        eprintln!(
            "{} of {} labels in {} forwards; {:.1} % of the model's probability was on labels",
            found.labels.len(),
            trie.len(),
            found.forwards,
            100.0 * found.legal_mass
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn prompt(args: &Args, engine: &Engine, text: String) -> Result<Prompt> {
    match args.chat {
        false => Ok(Prompt::text(text)),
        true => engine.chat_prompt(&[Message::user(&text)], &ChatOptions::default()),
    }
}

/// The output for one text as a table: probabilities in per cent, and labels.
fn table(found: &LabelProbabilities) -> String {
    let row = |share: f64, label: &str| format!("{:7.3} %  {label}", 100.0 * share);
    let mut rows: Vec<String> = found.labels.iter().map(|l| row(l.probability, &l.label)).collect();
    if found.rest > 0.0 {
        rows.push(row(found.rest, "(all others)"));
    }
    rows.join("\n")
}
