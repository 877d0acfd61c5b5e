//! Options about labels that `generate`, `inspect` and `classify` share.

use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;

use super::args::read_text;
use crate::constraint::token_machine::{Labels, Lead, Levels};
use crate::error::{Error, ErrorKind, Place, Result};

/// Default separator of the parts of a path.
const PATH_SEPARATOR: &str = " > ";

/// Parses one of these words, by the names that the value has in JSON.
fn one_of<T>(words: [&'static str; 3]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value(word.into()))
}

/// Options of how a file of labels is read.
#[derive(Args)]
#[command(next_help_heading = "Labels")]
pub(super) struct LabelArgs {
    /// Read labels as paths with TEXT between their parts, such as `Technology > AI`
    ///
    /// In a JSON tree, TEXT joins the parts [default: ` > `].
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    labels_path: Option<String>,
    /// Use the labels in the file, only those with none below them, or also all above them
    /// [default: listed]
    #[arg(long, value_parser = one_of::<Levels>(["listed", "leaves", "all"]), value_name = "listed|leaves|all",
        hide_possible_values = true)]
    labels_levels: Option<Levels>,
    /// Write a space before the first label, nothing, or a space if the tokenizer can (auto)
    /// [default: auto]
    ///
    /// Choose nothing for a prompt that ends with a quote or a line break.
    #[arg(long, value_parser = one_of::<Lead>(["auto", "space", "nothing"]), value_name = "auto|space|nothing",
        hide_possible_values = true)]
    labels_lead: Option<Lead>,
}

/// Options of how a file of labels is read, and of how many labels an output has.
#[derive(Args)]
#[command(next_help_heading = "Labels")]
pub(super) struct LabelListArgs {
    #[command(flatten)]
    labels: LabelArgs,
    /// Generate several different labels with TEXT between them, such as ', '
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    labels_separator: Option<String>,
    /// Generate at least N labels [default: 1]
    #[arg(long, value_name = "N", requires = "labels_separator")]
    min_labels: Option<u32>,
    /// Generate at most N labels [default: all of them]
    #[arg(long, value_name = "N", requires = "labels_separator")]
    max_labels: Option<u32>,
}

impl LabelArgs {
    /// Reads labels from a file.
    pub(super) fn read(&self, file: &Path) -> Result<Labels> {
        let here = |e: Error| e.at(Place::File(file.into()));
        let text = read_text(file)?;
        let text = text.trim();
        let separator = self.labels_path.as_deref().unwrap_or(PATH_SEPARATOR);
        let is_tree = text.starts_with('{') && text.ends_with('}');
        let mut labels = match is_tree {
            true => Labels::from_tree(text, separator).map_err(here)?,
            false => Labels::from_text(text).map_err(here)?,
        };
        if is_tree || self.labels_path.is_some() || self.labels_levels.is_some() {
            labels = labels.paths(separator, self.labels_levels.unwrap_or_default());
        }
        Ok(labels.lead(self.labels_lead.unwrap_or_default()))
    }

    /// Returns true if no option names the text before the first label.
    pub(super) fn has_default_lead(&self) -> bool {
        matches!(self.labels_lead, None | Some(Lead::Auto))
    }

    fn is_empty(&self) -> bool {
        self.labels_path.is_none() && self.labels_levels.is_none() && self.labels_lead.is_none()
    }
}

impl LabelListArgs {
    /// Reads labels from a file.
    pub(super) fn read(&self, file: &Path) -> Result<Labels> {
        let mut labels = self.labels.read(file)?;
        if let Some(separator) = &self.labels_separator {
            labels = labels.several(separator).at_least(self.min_labels.unwrap_or(1));
            if let Some(most) = self.max_labels {
                labels = labels.at_most(most);
            }
        }
        Ok(labels)
    }

    /// # Errors
    /// If any of these options is given; there are no labels.
    pub(super) fn require_labels(&self) -> Result<()> {
        if self.labels.is_empty() && self.labels_separator.is_none() {
            return Ok(());
        }
        let message = "options about labels are of use with --labels only";
        Err(Error::new(ErrorKind::InvalidOption, message).hint("name a file with labels by --labels"))
    }
}
