//! `ffwd classify`: the probability of each label for a text.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::args::{ModelArgs, read_text};
use super::labels::LabelArgs;
use super::{help, output};
use crate::chat::{ChatOptions, Message};
use crate::constraint::token_machine::{LabelTrie, Lead};
use crate::decode::{Engine, LabelOptions, LabelProbabilities, Prompt};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::{LABEL_QUESTION, Template, label_prompt};

/// Placeholders of a template of prompts.
const PLACEHOLDERS: &[&str] = &["labels", "text"];
/// Maximum length of the list of labels in a prompt in bytes.
const MAX_LISTED: usize = 16 << 10;
/// Share of the model's probability on labels below which there is a warning: most of it is on
/// other texts.
const LOW_MASS: f64 = 0.5;

const EXAMPLES: [(&str, &str); 3] = [
    ("Print the probability of each topic", "ffwd classify mail.txt --labels topics.txt"),
    (
        "Print the three best leaves of a taxonomy for each text, as JSON Lines",
        "ffwd classify inbox/*.txt -l taxonomy.json --labels-levels leaves --top 3",
    ),
    (
        "Read the text from standard input, with another prompt",
        "echo 'I want my money back.' | ffwd classify - -l topics.txt \\\n  \
            --prompt 'Mail: {text}\\n\\nTopics: {labels}\\n\\nTopic:'",
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
    /// Prompt the model with TEMPLATE, in which `{text}` is the text, `{labels}` the list of labels and
    /// `\n` a line break [default: a chat that asks for one of the labels]
    ///
    /// The label follows the prompt. {{ and }} are braces.
    #[arg(long, value_name = "TEMPLATE", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Put the prompt of --prompt into a chat, by the model's chat template (ChatML if it has none)
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
    let template = args.prompt.as_ref().map(|prompt| prompt.replace("\\n", "\n"));
    let template = Template::new(template.as_deref().unwrap_or(LABEL_QUESTION), PLACEHOLDERS, &["text"])?;
    let options =
        LabelOptions { top: args.top, min_probability: args.min_probability, ..LabelOptions::default() };
    let labels = args.names.read(&args.labels)?;
    let engine = args.models.engine()?;
    let asked = Asked { template, chat: args.chat || args.prompt.is_none(), system: args.prompt.is_none() };
    // The answer in a chat begins without a space.
    let labels = match asked.chat && engine.has_chat() && args.names.has_default_lead() {
        true => labels.lead(Lead::Nothing),
        false => labels,
    };
    let trie = engine.label_trie(&labels).map_err(|e| e.at(Place::File(args.labels.clone())))?;
    let as_table = std::io::stdout().is_terminal() && !args.json;
    for file in &args.files {
        let prompt = asked.prompt(&engine, &trie, read_text(file)?.trim_end())?;
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
            output::print_json(&Line { source, found: &found })?;
        }
        eprintln!(
            "{} of {} labels in {} forwards; {:.1} % of the model's probability was on labels",
            found.labels.len(),
            trie.len(),
            found.forwards,
            100.0 * found.legal_mass
        );
        if let Some(warning) = low_mass(found.legal_mass) {
            eprintln!("{warning}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a warning if the model expects other texts than labels.
fn low_mass(mass: f64) -> Option<&'static str> {
    (mass < LOW_MASS).then_some(
        "warning: most of the model's probability was on texts that are no labels, so these probabilities say \
         little; name the labels in the prompt ({labels}), or use a model that follows instructions",
    )
}

/// The question to the model.
struct Asked {
    template: Template,
    chat: bool,
    /// True if the system message of the default prompt belongs to it.
    system: bool,
}

impl Asked {
    /// Returns the prompt about a text.
    fn prompt(&self, engine: &Engine, trie: &LabelTrie, text: &str) -> Result<Prompt> {
        let labels = match self.template.has("labels") {
            true => listed(trie)?,
            false => String::new(),
        };
        let user = self.template.render(&[&labels, text]);
        match self.system {
            true => label_prompt(engine, &user),
            false if self.chat => engine.chat_prompt(&[Message::user(&user)], &ChatOptions::default()),
            false => Ok(Prompt::text(user)),
        }
    }
}

/// Returns the labels as a list for a prompt.
fn listed(trie: &LabelTrie) -> Result<String> {
    let size: usize = trie.labels().iter().map(|label| label.len() + 2).sum();
    if size > MAX_LISTED {
        let message = format!("{} labels are too many to list in a prompt", trie.len());
        return Err(Error::new(ErrorKind::TooComplex, message)
            .hint("write a prompt without {labels}, such as --prompt '{text}\\n\\nCategory:'"));
    }
    Ok(trie.labels().join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_share_on_labels_is_a_warning() {
        assert!(low_mass(0.0).is_some() && low_mass(0.49).is_some_and(|text| text.contains("{labels}")));
        assert!(low_mass(0.5).is_none() && low_mass(1.0).is_none());
    }
}
