//! `ffwd classify`: how probable each label is for a text.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::args::{ModelArgs, read};
use super::labels::LabelNames;
use super::output;
use crate::chat::{ChatOptions, Message};
use crate::decode::{Engine, LabelOptions, LabelProbabilities, Prompt};
use crate::error::{Error, ErrorKind, Place, Result};

/// Where the text goes in a prompt.
const TEXT: &str = "{text}";

/// Arguments of `ffwd classify`.
#[derive(clap::Args)]
#[command(
    after_help = "The probabilities are exact: those with which masked decoding would write each label, \
    and they add up to 1. With --top or --min-probability only the most probable ones are looked for; the \
    rest is the probability of all others. They say how a label compares with the others, not whether any \
    of them is right: for that look at the share of the model's probability that was on labels at all.\n\n\
    A table on a terminal, else (and with --json) a line of JSON for each text.\n\n\
    Examples:\n  ffwd classify mail.txt --labels topics.txt\n  \
    ffwd classify inbox/*.txt --labels taxonomy.json --labels-levels leaves --top 3 > topics.jsonl\n  \
    echo 'I want my money back.' | ffwd classify - --labels topics.txt --prompt 'Mail: {text}\\n\\nTopic:'"
)]
pub(super) struct Args {
    /// Texts to read; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A file with the labels: one on each line, a JSON array, or a JSON tree of paths
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// What the model reads, with `{text}` where the text goes; `\n` is a line break. A label comes next
    #[arg(long, value_name = "TEMPLATE", default_value = "{text}\\n\\nCategory:")]
    prompt: String,
    /// Put the prompt into the turns of a chat, by the model's chat template (ChatML if it has none)
    #[arg(long)]
    chat: bool,
    /// Only so many labels, the most probable ones
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Only labels of at least this probability
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_probability: f64,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: LabelNames,
    #[command(flatten)]
    models: ModelArgs,
}

/// What is said about one text.
#[derive(Serialize)]
struct Line<'a> {
    source: String,
    #[serde(flatten)]
    found: &'a LabelProbabilities,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let template = args.prompt.replace("\\n", "\n");
    let Some((before, behind)) = template.split_once(TEXT) else {
        let message = "the prompt has no place for the text";
        return Err(Error::new(ErrorKind::InvalidOption, message).hint(format!("write {TEXT} where it goes")));
    };
    let options =
        LabelOptions { top: args.top, min_probability: args.min_probability, ..LabelOptions::default() };
    let labels = args.names.read(&args.labels)?;
    let engine = args.models.engine()?;
    let trie = engine.label_trie(&labels).map_err(|e| e.at(Place::File(args.labels.clone())))?;
    let table = std::io::stdout().is_terminal() && !args.json;
    for file in &args.files {
        let prompt = prompt(args, &engine, [before, read(file)?.trim_end(), behind].concat())?;
        let found = engine
            .label_probabilities(&prompt, &trie, &options)
            .map_err(|e| e.at(Place::File(file.clone())))?;
        let source = file.display().to_string();
        if table {
            if args.files.len() > 1 {
                output::line(&source)?;
            }
            output::line(&rows(&found))?;
        } else {
            let line = serde_json::to_string(&Line { source, found: &found }).map_err(|e| {
                Error::new(ErrorKind::Io, format!("the labels cannot be written as JSON: {e}"))
            })?;
            output::line(&line)?;
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

/// Probabilities in per cent, and labels.
fn rows(found: &LabelProbabilities) -> String {
    let row = |share: f64, label: &str| format!("{:7.3} %  {label}", 100.0 * share);
    let mut rows: Vec<String> = found.labels.iter().map(|l| row(l.probability, &l.label)).collect();
    if found.rest > 0.0 {
        rows.push(row(found.rest, "(all others)"));
    }
    rows.join("\n")
}
