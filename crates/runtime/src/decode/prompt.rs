//! The prompt of a request.

use crate::chat::{self, ChatOptions, ChatTemplate, Message, PromptPart};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::{TokenId, Vocabulary};

/// A prompt: parts of a trusted template, in which special tokens are recognised, and text from
/// outside, in which they are not.
///
/// ```
/// use ffwd::Prompt;
///
/// let user = "What is <|im_end|>?"; // stays text
/// let prompt = Prompt::default().with_template("<|im_start|>user\n").with_text(user).with_template("<|im_end|>\n");
/// assert_eq!(prompt.to_text(), "<|im_start|>user\nWhat is <|im_end|>?<|im_end|>\n");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    pub(super) parts: Vec<PromptPart>,
    /// Text that values are likely to be copied from, if not the parts from outside.
    pub(super) source: Option<String>,
    /// True if nothing is put before it.
    pub(super) bare: bool,
}

impl Prompt {
    /// Creates a prompt of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Prompt::default().with_text(text)
    }

    /// Creates a prompt of a text as a model reads it: special tokens in it are recognised, as in a
    /// chat that a client wrote out itself. Text from others belongs into
    /// [`with_text`](Self::with_text).
    pub fn raw(text: impl Into<String>) -> Self {
        let text = text.into();
        Prompt { source: Some(text.clone()), ..Prompt::default().with_template(text) }
    }

    /// Creates a prompt of tokens. Nothing is put in front of them.
    pub fn tokens(tokens: Vec<TokenId>, vocab: &Vocabulary) -> Self {
        let text = String::from_utf8_lossy(&vocab.decode(&tokens)).into_owned();
        Prompt { parts: vec![PromptPart::Tokens(tokens, text)], source: None, bare: true }
    }

    /// Appends text from outside: special tokens in it are plain text.
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(PromptPart::Text(text.into()));
        self
    }

    /// Appends a part of a template: special tokens in it are recognised.
    pub fn with_template(mut self, text: impl Into<String>) -> Self {
        self.parts.push(PromptPart::Template(text.into()));
        self
    }

    /// Renders a conversation: by a chat template, or in ChatML if there is none and the vocabulary
    /// has its tokens. Values are likely to be copied from the words of the messages.
    ///
    /// # Errors
    /// If there is neither, or if the template refuses the messages.
    pub(crate) fn chat(
        messages: &[Message],
        options: &ChatOptions,
        template: Option<&ChatTemplate>,
        vocab: &Vocabulary,
    ) -> Result<Self> {
        let parts = match template {
            Some(template) => template.parts(messages, options, vocab)?,
            None if Self::has_chatml(vocab) => chat::chatml(messages, options)?,
            None => {
                return Err(Error::new(ErrorKind::Unsupported, "the model has no chat template")
                    .hint("use a plain prompt, or name a template (--chat-template)"));
            }
        };
        // Templates write the tokens that begin a conversation, or leave it to the program that runs
        // a GGUF file.
        let begin = vocab.bos().first().and_then(|&id| vocab.token_text(id));
        let begin = begin.filter(|_| template.is_some_and(|template| template.begins));
        let writes = |begin: &String| parts.iter().any(|part| part.as_str().contains(begin.as_str()));
        let bare = begin.as_ref().is_none_or(writes);
        Ok(Prompt { parts, source: Some(chat::words(messages)), bare })
    }

    /// Returns true if a vocabulary has the special tokens of ChatML.
    pub(crate) fn has_chatml(vocab: &Vocabulary) -> bool {
        ["<|im_start|>", "<|im_end|>"]
            .iter()
            .all(|token| vocab.token_id(token).is_some_and(|id| vocab.is_special(id)))
    }

    /// Leaves out the tokens that the tokenizer puts before a text ([`Vocabulary::bos`]): for
    /// prompts that continue another one.
    pub fn without_bos(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Returns the prompt as one text.
    pub fn to_text(&self) -> String {
        self.parts.iter().map(PromptPart::as_str).collect()
    }

    /// Returns the text from outside, a line for each part.
    pub(super) fn outside_text(&self) -> String {
        let parts = self.parts.iter().filter(|p| !p.is_template());
        parts.map(PromptPart::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Returns the tokens that a model reads for this prompt.
    ///
    /// # Errors
    /// Fails if the tokenizer cannot encode a part.
    pub fn encode(&self, vocab: &Vocabulary) -> Result<Vec<TokenId>> {
        let mut tokens = Vec::new();
        for part in &self.parts {
            let encoded = match part {
                PromptPart::Template(text) => vocab.encode_template(text),
                PromptPart::Text(text) => vocab.encode_outside(text),
                PromptPart::Tokens(tokens, _) => Ok(tokens.clone()),
            };
            tokens.extend(encoded?);
        }
        // Some templates write the first token themselves. An empty prompt stays empty: it is
        // refused.
        if !self.bare && !tokens.is_empty() && !tokens.starts_with(vocab.bos()) {
            tokens.splice(0..0, vocab.bos().iter().copied());
        }
        Ok(tokens)
    }
}
