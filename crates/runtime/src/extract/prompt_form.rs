//! Forms of the prompt that families of extraction models were trained on.

use serde_json::Value;

use super::json_style::indented;
use super::nuextract::to_template;
use super::wording::Wording;
use crate::Warning;
use crate::chat::ChatTemplate;
use crate::error::{Error, ErrorKind, Result};

/// How the prompt shows the schema and the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptForm {
    /// The wording of the embedded models, or the general one.
    Default,
    /// A template with typed leaves, and no system message: NuExtract 2.0 and 3.
    NuExtract,
    /// A template with empty leaves, and no chat: NuExtract 1.5.
    NuExtract15,
    /// The schema in the system message, the text as the message of the user: LFM2 Extract.
    Lfm2Extract,
}

impl PromptForm {
    /// The forms by their names.
    pub const NAMED: [(&str, PromptForm); 4] = [
        ("default", PromptForm::Default),
        ("nuextract", PromptForm::NuExtract),
        ("nuextract-1.5", PromptForm::NuExtract15),
        ("lfm2-extract", PromptForm::Lfm2Extract),
    ];

    /// Returns the form of a name.
    ///
    /// # Errors
    /// `InvalidOption` with the known names.
    pub fn by_name(name: &str) -> Result<Self> {
        Self::NAMED.iter().find(|named| named.0 == name).map(|named| named.1).ok_or_else(|| {
            let known = Self::NAMED.map(|named| named.0).join(", ");
            Error::new(ErrorKind::InvalidOption, format!("no form of the prompt is called `{name}`"))
                .hint(format!("known are: {known}"))
        })
    }

    /// Returns true for the forms whose schema is a template.
    pub(super) fn takes_templates(self) -> bool {
        matches!(self, PromptForm::NuExtract | PromptForm::NuExtract15)
    }

    /// Returns the schema as the prompt shows it, and warnings about what it does not show.
    pub(super) fn schema(self, value: &Value, verbatim: bool) -> Result<(String, Vec<Warning>)> {
        if !self.takes_templates() {
            return Ok((value.to_string(), Vec::new()));
        }
        let (template, lost) = to_template(value, self == PromptForm::NuExtract, verbatim)?;
        Ok((indented(&template), lost))
    }

    /// Returns the wording for a schema as it is shown; `None` for the default one.
    pub(super) fn wording(self, schema: &str, chat: Option<&ChatTemplate>) -> Result<Option<Wording>> {
        let wording = match self {
            PromptForm::Default => return Ok(None),
            PromptForm::NuExtract if Self::of(chat) == self => {
                Wording { template: Some(schema.to_owned()), ..Wording::new("", "{text}")? }
            }
            PromptForm::NuExtract => Wording::new("", "# Template:\n{schema}\n# Context:\n{text}")?,
            PromptForm::NuExtract15 => {
                let user = "\n### Template:\n{schema}\n### Text:\n{text}\n\n";
                Wording { around: Some(["<|input|>", "<|output|>"]), ..Wording::new("", user)? }
            }
            PromptForm::Lfm2Extract => {
                let system = format!("Return data as a JSON object with the following schema:\n{schema}");
                Wording::new(&system, "{text}")?
            }
        };
        Ok(Some(wording))
    }

    /// Returns the form of a chat template: that of NuExtract writes the heading of the form.
    pub(super) fn of(chat: Option<&ChatTemplate>) -> Self {
        let has = chat.is_some_and(|chat| chat.mentions("# Template:"));
        if has { PromptForm::NuExtract } else { PromptForm::Default }
    }
}
