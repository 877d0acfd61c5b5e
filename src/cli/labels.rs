//! Options about labels that `generate`, `inspect` and `classify` share.

use std::path::Path;

use clap::{Args, ValueEnum};

use super::args::read;
use crate::constraint::token_machine::{Labels, Lead, Levels};
use crate::error::{Error, ErrorKind, Place, Result};

/// What stands between the parts of a path unless said otherwise.
const PATH_SEPARATOR: &str = " > ";

/// What stands in front of the first label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LeadName {
    /// A space, if the tokenizer can write one.
    Auto,
    /// A space.
    Space,
    /// Nothing.
    Nothing,
}

/// Which places of a hierarchy are labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LevelsName {
    /// Those in the file.
    Listed,
    /// Those in the file with nothing below them.
    Leaves,
    /// Those in the file and all above them.
    All,
}

/// What a list of labels means.
#[derive(Args)]
#[command(next_help_heading = "Labels")]
pub(super) struct LabelNames {
    /// Labels are paths such as `Technology > AI`, with this text between the parts; in a JSON tree it is
    /// put there (` > ` unless given)
    #[arg(long, value_name = "TEXT")]
    labels_path: Option<String>,
    /// Which places of the hierarchy are labels [default: listed]
    #[arg(long, value_enum, value_name = "listed|leaves|all", hide_possible_values = true)]
    labels_levels: Option<LevelsName>,
    /// What stands in front of the first label: a space if the tokenizer can write one (auto), a space, or
    /// nothing, for a prompt that ends with a quote or a line break [default: auto]
    #[arg(long, value_enum, value_name = "auto|space|nothing", hide_possible_values = true)]
    labels_lead: Option<LeadName>,
}

/// What a list of labels means, and how many of them there are.
#[derive(Args)]
#[command(next_help_heading = "Labels")]
pub(super) struct LabelOptions {
    #[command(flatten)]
    names: LabelNames,
    /// Several labels, none of them twice, with this text between them, such as ', '
    #[arg(long, value_name = "TEXT")]
    labels_separator: Option<String>,
    /// Fewest labels [default: 1]
    #[arg(long, value_name = "N", requires = "labels_separator")]
    min_labels: Option<u32>,
    /// Most labels [default: all of them]
    #[arg(long, value_name = "N", requires = "labels_separator")]
    max_labels: Option<u32>,
}

impl LabelNames {
    /// Reads labels from a file.
    pub(super) fn read(&self, file: &Path) -> Result<Labels> {
        let here = |e: Error| e.at(Place::File(file.into()));
        let text = read(file)?;
        let text = text.trim();
        let separator = self.labels_path.as_deref().unwrap_or(PATH_SEPARATOR);
        let is_tree = text.starts_with('{') && text.ends_with('}');
        let mut labels = match is_tree {
            true => Labels::from_tree(text, separator).map_err(here)?,
            false => Labels::from_text(text).map_err(here)?,
        };
        let levels = match self.labels_levels {
            Some(LevelsName::Leaves) => Levels::Leaves,
            Some(LevelsName::All) => Levels::All,
            Some(LevelsName::Listed) | None => Levels::Listed,
        };
        if is_tree || self.labels_path.is_some() || self.labels_levels.is_some() {
            labels = labels.paths(separator, levels);
        }
        Ok(labels.lead(match self.labels_lead {
            None | Some(LeadName::Auto) => Lead::Auto,
            Some(LeadName::Space) => Lead::Space,
            Some(LeadName::Nothing) => Lead::Nothing,
        }))
    }

    fn is_empty(&self) -> bool {
        self.labels_path.is_none() && self.labels_levels.is_none() && self.labels_lead.is_none()
    }
}

impl LabelOptions {
    /// Reads labels from a file.
    pub(super) fn read(&self, file: &Path) -> Result<Labels> {
        let mut labels = self.names.read(file)?;
        if let Some(separator) = &self.labels_separator {
            labels = labels.several(separator).at_least(self.min_labels.unwrap_or(1));
            if let Some(most) = self.max_labels {
                labels = labels.at_most(most);
            }
        }
        Ok(labels)
    }

    /// An error if something was said about labels where there are none.
    pub(super) fn require_labels(&self) -> Result<()> {
        if self.names.is_empty() && self.labels_separator.is_none() {
            return Ok(());
        }
        let message = "options about labels are of use with --labels only";
        Err(Error::new(ErrorKind::InvalidOption, message).hint("name a file with labels by --labels"))
    }
}
