//! Wording of the prompt for a record.
//!
//! The embedded models have the wording that they were trained on. Other models get a wording that
//! was chosen by measurement (`docs/benchmarks.md`), or that of a template. Schema, notes,
//! instructions and examples come before the text, so that requests with one schema share the
//! beginning of their prompts in the prefix cache.

use super::template::Template;
use crate::chat::{ChatOptions, ChatTemplate, Message};
use crate::decode::Prompt;
use crate::error::Result;
use crate::vocab::Vocabulary;

/// Placeholders of a prompt template.
const PLACEHOLDERS: &[&str] = &["schema", "fields", "notes", "instructions", "examples", "text"];

/// The system message for models that were not trained on extraction by this project.
pub(super) const SYSTEM: &str = "You extract structured data from text.";

/// The user message for models that were not trained on extraction by this project.
pub(super) const USER: &str = include_str!("prompt.txt");

/// The user message that the embedded models were trained on.
const TRAINED: &str = "Extract the data as JSON matching this schema:\n{schema}\n\nText:\n{text}";

/// The messages of a prompt.
#[derive(Debug, Clone)]
pub(super) struct Wording {
    pub system: String,
    pub user: Template,
    /// The variable `template` of the chat template.
    pub template: Option<String>,
    /// Special tokens around the message of the user, in place of a chat.
    pub around: Option<[&'static str; 2]>,
}

/// The values of the placeholders that do not depend on the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    pub schema: String,
    pub fields: String,
    pub notes: String,
    pub instructions: String,
    pub examples: String,
}

impl Wording {
    /// Reads the user message as a template.
    pub(super) fn new(system: &str, user: &str) -> Result<Self> {
        let user = Template::new(user, PLACEHOLDERS, &["text"])?;
        Ok(Wording { system: system.to_owned(), user, template: None, around: None })
    }

    /// Returns the wording that the embedded models were trained on.
    pub(super) fn trained() -> Result<Self> {
        Wording::new(SYSTEM, TRAINED)
    }

    /// Returns the wording for all other models.
    pub(super) fn general() -> Result<Self> {
        Wording::new(SYSTEM, USER.trim_end())
    }

    /// Renders the prompt about a text: by a chat template, or in ChatML if there is none and the
    /// vocabulary has its tokens, or as plain text. The system message goes into the user's if a
    /// template has no place for it.
    pub(super) fn prompt(
        &self,
        values: &Values,
        text: &str,
        template: Option<&ChatTemplate>,
        vocab: &Vocabulary,
    ) -> Result<Prompt> {
        let Values { schema, fields, notes, instructions, examples } = values;
        let user = self.user.render(&[schema, fields, notes, instructions, examples, text]);
        if let Some([begin, end]) = self.around {
            return Ok(Prompt::default().with_template(begin).with_text(user).with_template(end));
        }
        let (system, between) = (&self.system, if self.system.is_empty() { "" } else { "\n\n" });
        if template.is_none() && !Prompt::has_chatml(vocab) {
            return Ok(Prompt::text(format!("{system}{between}{user}\n\nJSON:\n")));
        }
        let both = [Message::system(system), Message::user(user)];
        let mut options = ChatOptions::default().without_thinking(vocab);
        options.variables.extend(self.template.iter().map(|text| ("template".into(), text.clone().into())));
        Prompt::chat(&both[usize::from(system.is_empty())..], &options, template, vocab)
    }
}
