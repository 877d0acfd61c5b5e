//! Chat templates: from messages to a prompt in the format that a model was trained on.
//!
//! Templates are Jinja programs that come with a model. They run on the crate `minijinja`, with the
//! functions and string methods that templates of the hub use, and with a step budget. Text from
//! outside cannot become special tokens; see `special_token_guard`.
//!
//! # Cost
//! Rendering costs the steps of the template, whose number is limited.
//!
//! # Alternatives considered
//! Built-in formats of the known model families were rejected. A fine-tuned model often changes its
//! template, and a prompt in a nearly right format silently gives worse answers.

mod discovery;
mod jinja;
mod message_order;
mod prompt_part;
mod render;
mod special_token_guard;
mod strftime;
pub(crate) mod tool_style;
pub(crate) mod turn_tokens;

use std::time::SystemTime;

use serde_json::{Map, Value};

use ffwd_engine::text::without_mark;

use crate::error::{Error, ErrorKind, Result};
use crate::vocab::Vocabulary;
use message_order::render_in_order;
pub use prompt_part::PromptPart;
use render::Template;
use special_token_guard::Guard;

/// Maximum length of a template in bytes; templates of the hub are much shorter. It also bounds the
/// depth of expressions, see `render`.
const MAX_TEMPLATE: usize = 1 << 17;
/// Maximum length of a role in bytes.
const MAX_ROLE: usize = 64;

/// One message of a conversation.
///
/// ```
/// use ffwd::Message;
///
/// let conversation = [Message::system("Answer in one word."), Message::user("What is red and round?")];
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message(Map<String, Value>);

impl Message {
    fn new(role: &str, content: String) -> Self {
        let mut all = Map::new();
        all.insert("role".into(), role.into());
        all.insert("content".into(), content.into());
        Message(all).without_mark()
    }

    /// Drops the byte order mark of a content that was read from a file.
    fn without_mark(mut self) -> Self {
        if let Some(Value::String(content)) = self.0.get_mut("content")
            && content.starts_with('\u{feff}')
        {
            *content = without_mark(content).to_owned();
        }
        self
    }

    /// Creates a system message: instructions to the model before the conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content.into())
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content.into())
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content.into())
    }

    /// Creates a message with the answer of a tool.
    pub fn tool(content: impl Into<String>) -> Self {
        Self::new("tool", content.into())
    }

    /// Creates a message from the JSON object of a chat interface.
    ///
    /// The object has `role`, `content` and further members that the template knows, such as
    /// `name`, `tool_calls`, `tool_call_id`, `reasoning_content`. A `content` that is a list of
    /// parts is passed to the template unchanged. The role must come from the application, because
    /// templates may build special tokens from it.
    ///
    /// # Errors
    /// Returns an error if the value is not an object, or if its role is not a word of ASCII
    /// letters, digits, `_` and `-`.
    pub fn from_json(message: Value) -> Result<Self> {
        let Value::Object(all) = message else {
            return Err(Error::new(ErrorKind::InvalidOption, "a message is not a JSON object"));
        };
        let word = |r: &&str| {
            (1..=MAX_ROLE).contains(&r.len())
                && r.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        match all.get("role").and_then(Value::as_str).filter(word) {
            Some(_) => Ok(Message(all).without_mark()),
            None => Err(Error::new(ErrorKind::InvalidOption, "a message without a role")
                .hint("roles are words such as system, user, assistant, tool")),
        }
    }

    fn role(&self) -> &str {
        self.0.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    fn is_system(&self) -> bool {
        ["system", "developer"].contains(&self.role())
    }

    /// Returns the texts of the content.
    fn texts(&self) -> Vec<&str> {
        match self.0.get("content") {
            Some(Value::String(s)) => vec![s],
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|p| p.get("text").and_then(Value::as_str)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The input of a template in addition to the messages.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// If true, end with the beginning of the assistant's turn (default).
    pub add_generation_prompt: bool,
    /// Tools as JSON objects, in the form that the template expects (usually with `type` and
    /// `function`).
    pub tools: Vec<Value>,
    /// Further variables, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// The name of the template. Default: `tool_use` if it exists and tools are given, otherwise
    /// the default template.
    pub template: Option<String>,
    /// The time that templates may print, in UTC (default: the time of the call).
    pub now: Option<SystemTime>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        ChatOptions {
            add_generation_prompt: true,
            tools: Vec::new(),
            variables: Map::new(),
            template: None,
            now: None,
        }
    }
}

impl ChatOptions {
    /// Returns the default options with tools.
    pub fn with_tools(tools: Vec<Value>) -> Self {
        ChatOptions { tools, ..Self::default() }
    }

    /// Sets `enable_thinking` to false if the vocabulary has the token `</think>`: a template may begin
    /// the answer with thinking, which a constraint on all of the answer does not allow.
    pub fn without_thinking(mut self, vocab: &Vocabulary) -> Self {
        if vocab.token_id("</think>").is_some() {
            self.variables.entry("enable_thinking").or_insert(false.into());
        }
        self
    }
}

/// The chat templates of a model, and the special tokens that they mention by name.
///
/// ```
/// # fn main() -> ffwd::Result<()> {
/// use ffwd::{ChatOptions, ChatTemplate, Message};
///
/// let template = ChatTemplate::new("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")?;
/// let text = template.render(&[Message::user("Hello")], &ChatOptions::default())?;
/// assert_eq!(text, "user: Hello\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    /// The templates by name, sorted; `default` is the usual one.
    templates: Vec<(String, Template)>,
    /// Values of `bos_token` and the like.
    tokens: Map<String, Value>,
    /// True if the tokens in front of a text also stand in front of a chat that does not write them.
    pub(crate) begins: bool,
}

impl ChatTemplate {
    /// Creates a chat template from its text.
    ///
    /// # Errors
    /// Returns an error if the text is longer than 128 KiB or does not parse.
    pub fn new(source: &str) -> Result<Self> {
        Self::from_named([("default", source)])
    }

    /// Creates a chat template from several templates with names.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new), and an error if there is no template.
    pub fn from_named<'a>(templates: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut all: Vec<(String, Template)> = templates
            .into_iter()
            .map(|(name, source)| Ok((name.to_owned(), Template::new(source)?)))
            .collect::<Result<_>>()?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        if all.is_empty() {
            return Err(Error::new(ErrorKind::Model, "no chat template"));
        }
        Ok(ChatTemplate { templates: all, tokens: Map::new(), begins: false })
    }

    /// Sets a special token that the template can name, such as `bos_token`.
    pub fn with_token(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.tokens.insert(name.into(), Value::String(text.into()));
        self
    }

    /// Returns the names of the templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.iter().map(|t| t.0.as_str())
    }

    /// Returns true if a template mentions a text.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.templates.iter().any(|(_, template)| template.source().contains(text))
    }

    fn choose(&self, options: &ChatOptions) -> Result<&Template> {
        let named = |name: &str| self.templates.iter().find(|t| t.0 == name).map(|t| &t.1);
        if let Some(name) = &options.template {
            return named(name).ok_or_else(|| {
                let names: Vec<&str> = self.names().collect();
                Error::new(ErrorKind::InvalidOption, format!("no chat template `{}`", name.escape_debug()))
                    .hint(format!("the model has {}", names.join(", ")))
            });
        }
        let tools = named("tool_use").filter(|_| !options.tools.is_empty());
        match (tools, named("default"), &self.templates[..]) {
            (Some(t), ..) | (None, Some(t), _) | (None, None, [(_, t)]) => Ok(t),
            _ => Err(Error::new(ErrorKind::InvalidOption, "none of the chat templates is the default one")
                .hint("name one of them")),
        }
    }

    /// Renders a conversation as text. If the template refuses the order of the messages, or leaves
    /// out a system message behind the first one, system messages are joined and moved to the
    /// beginning, and neighbours of one role are joined.
    ///
    /// To run a prompt, use [`parts`](Self::parts): a plain text does not distinguish the
    /// template's special tokens from the user's text.
    ///
    /// # Errors
    /// Returns an error if the template refuses the messages, uses an unknown function or variable,
    /// or takes too many steps.
    pub fn render(&self, messages: &[Message], options: &ChatOptions) -> Result<String> {
        let parts = self.guarded(messages, options, &[], false)?;
        Ok(parts.iter().map(PromptPart::as_str).collect())
    }

    /// Renders a conversation as parts. Special tokens are recognised in parts of the template;
    /// other parts are plain text. There is almost always only one part.
    ///
    /// # Errors
    /// Returns the errors of [`render`](Self::render).
    pub fn parts(
        &self,
        messages: &[Message],
        options: &ChatOptions,
        vocab: &Vocabulary,
    ) -> Result<Vec<PromptPart>> {
        let reserved = vocab.reserved_texts();
        self.guarded(messages, options, &reserved, vocab.normalises_special_tokens())
    }

    /// Returns all texts that can occur in the output.
    fn texts<'a>(&'a self, messages: &'a [Message], options: &'a ChatOptions) -> Result<Vec<&'a str>> {
        let mut texts = vec![self.choose(options)?.source()];
        let values = messages.iter().flat_map(|m| m.0.values());
        let values =
            values.chain(&options.tools).chain(options.variables.values()).chain(self.tokens.values());
        values.for_each(|v| all_texts(v, &mut texts));
        Ok(texts)
    }

    fn guarded(
        &self,
        messages: &[Message],
        options: &ChatOptions,
        specials: &[String],
        apart: bool,
    ) -> Result<Vec<PromptPart>> {
        render_in_order(messages, |messages| {
            let guard = Guard::new(specials, &self.texts(messages, options)?)?;
            let rendered = self.rendered(messages, options, &guard)?;
            Ok(guard.split(&rendered, apart))
        })
    }

    fn rendered(&self, messages: &[Message], options: &ChatOptions, guard: &Guard) -> Result<String> {
        let template = self.choose(options)?;
        let list = |values: Vec<Value>| -> Result<Value> {
            values.iter().map(|v| guard.protect_value(v, 0)).collect::<Result<Vec<_>>>().map(Value::Array)
        };
        let mut context = Map::new();
        for (name, value) in &self.tokens {
            context.insert(name.clone(), value.clone());
        }
        for (name, value) in &options.variables {
            context.insert(name.clone(), guard.protect_value(value, 0)?);
        }
        let messages = messages.iter().map(|m| Value::Object(m.0.clone())).collect();
        context.insert("messages".into(), list(messages)?);
        let tools = if options.tools.is_empty() { Value::Null } else { list(options.tools.clone())? };
        context.insert("tools".into(), tools);
        context.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        template.render(&context, options.now.unwrap_or_else(SystemTime::now))
    }
}

/// Collects all texts in a value, including names of members. Uses an explicit stack, because
/// values may be deep.
fn all_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match value {
            Value::String(s) => texts.push(s),
            Value::Array(list) => todo.extend(list),
            Value::Object(members) => {
                texts.extend(members.keys().map(String::as_str));
                todo.extend(members.values());
            }
            _ => {}
        }
    }
}

/// Returns the words of a conversation, in which prompt lookup finds what an answer copies.
pub(crate) fn words(messages: &[Message]) -> String {
    let texts: Vec<&str> = messages.iter().flat_map(Message::texts).collect();
    texts.join("\n")
}

/// Renders a conversation in ChatML, for models that have its tokens but no template.
///
/// # Errors
/// Returns an error if a message's content is not text.
pub(crate) fn chatml(messages: &[Message], options: &ChatOptions) -> Result<Vec<PromptPart>> {
    if !options.tools.is_empty() {
        return Err(Error::new(ErrorKind::Unsupported, "tools need a model with a chat template"));
    }
    let mut parts = Vec::new();
    for message in messages {
        let role = message.role();
        let Some(Value::String(content)) = message.0.get("content") else {
            return Err(Error::new(ErrorKind::Unsupported, "a message whose content is not a text"));
        };
        PromptPart::push(&mut parts, PromptPart::Template(format!("<|im_start|>{role}\n")));
        parts.push(PromptPart::Text(content.clone()));
        PromptPart::push(&mut parts, PromptPart::Template("<|im_end|>\n".into()));
    }
    if options.add_generation_prompt {
        PromptPart::push(&mut parts, PromptPart::Template("<|im_start|>assistant\n".into()));
    }
    Ok(parts)
}
