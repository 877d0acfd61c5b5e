//! The internal request that every endpoint reads its body into.
//!
//! It knows no protocol: an endpoint fills it in and writes the answer, `prepare` makes it ready for
//! the engine.

use ffwd_runtime::Message;
use ffwd_runtime::constraint::Whitespace;
use ffwd_runtime::constraint::tools::{Calls, Tools};
use ffwd_runtime::decode::Mode;
use ffwd_runtime::sample::SamplingParams;
use ffwd_runtime::vocab::TokenId;

/// A request for one or several texts.
pub(super) struct GenerationRequest {
    /// The name of the model; `None` is the first one.
    pub model: Option<String>,
    pub prompt: PromptInput,
    /// The constraint, if there is one.
    pub format: Option<FormatRequest>,
    pub tools: Option<ToolRequest>,
    pub reasoning: Option<ReasoningRequest>,
    pub sampling: SamplingParams,
    /// True if the client named a seed.
    pub seeded: bool,
    /// Number of texts.
    pub choices: usize,
    pub max_tokens: Option<usize>,
    pub stop: Vec<String>,
    pub stop_tokens: Vec<TokenId>,
    /// The number of further tokens whose log-probabilities are reported with those of the chosen
    /// ones; `None` reports none at all.
    pub logprobs: Option<usize>,
    /// A text that the answer probably resembles.
    pub prediction: Option<String>,
    pub decoding: DecodingRequest,
    /// What the client may not expect.
    pub warnings: Vec<String>,
}

/// The prompt of a request.
pub(super) enum PromptInput {
    /// A text to be continued.
    Text(RawPrompt),
    Chat(ChatInput),
}

/// A prompt that is sent to the model as it is.
pub(super) struct RawPrompt {
    pub text: String,
    /// The prompt, if the client sent tokens.
    pub tokens: Option<Vec<TokenId>>,
    /// True if special tokens in the text are plain text.
    pub splits_special: bool,
    /// False if nothing is put in front of the text.
    pub begins: bool,
}

/// A conversation.
#[derive(Default)]
pub(super) struct ChatInput {
    pub messages: Vec<Message>,
    /// The texts of the user, for the embedded model.
    pub user_text: String,
    /// The texts of all messages, which an answer may copy.
    pub words: String,
    /// Variables of the chat template.
    pub variables: serde_json::Map<String, serde_json::Value>,
    /// The last message, if it is one of the assistant.
    pub last_answer: Option<String>,
    /// The beginning of the answer, which the model continues.
    pub begun: Option<String>,
    /// What the client may not expect.
    pub warnings: Vec<String>,
    /// True if the prompt ends with the messages, without the beginning of an answer.
    pub ends: bool,
}

/// A constraint, as the client described it.
pub(super) struct FormatRequest {
    pub kind: FormatKind,
    /// The field that holds it.
    pub param: String,
    pub whitespace: Option<Whitespace>,
    /// True if objects have their declared properties only.
    pub closed: bool,
}

/// The kind of a constraint, with its text.
#[derive(Debug)]
pub(super) enum FormatKind {
    JsonObject,
    JsonSchema(String),
    Regex(String),
    Choice(Vec<String>),
    /// A grammar in GBNF or Lark.
    Grammar(String),
    StructuralTag(String),
    /// An element pattern.
    Pattern(String),
}

/// The tools of a request.
pub(super) struct ToolRequest {
    /// The functions; `None` if there are custom tools only.
    pub functions: Option<Tools>,
    pub custom: Vec<CustomTool>,
    /// The tools as the chat template shows them.
    pub shown: Vec<serde_json::Value>,
    /// `None`: the model sees the tools but must not call them.
    pub calls: Option<Calls>,
    /// True for at most one call.
    pub single: bool,
    /// The texts of the fields, which determine the constraint.
    pub key: String,
}

/// A tool whose input is a text.
#[derive(Clone)]
pub(super) struct CustomTool {
    pub name: String,
    pub input: CustomInput,
    /// The field that holds the format.
    pub param: String,
}

/// The texts that a custom tool takes.
#[derive(Clone)]
pub(super) enum CustomInput {
    Text,
    Lark(String),
    Regex(String),
}

/// Thinking before the answer.
pub(super) struct ReasoningRequest {
    /// Largest number of tokens of thinking; `None` if the client wants no thinking.
    pub budget: Option<usize>,
    /// The field that asks for it.
    pub param: String,
}

/// Options of the engine, in the member `ffwd` of a body.
pub(super) struct DecodingRequest {
    pub mode: Mode,
    pub forced_runs: bool,
    pub lookup: bool,
    pub draft_model: bool,
    pub close_before_limit: bool,
    /// `None`: as it suits the model.
    pub guard: Option<bool>,
    pub end_at_words: Option<bool>,
    pub max_draft: Option<usize>,
    pub source: Option<String>,
}

impl Default for DecodingRequest {
    fn default() -> Self {
        DecodingRequest {
            mode: Mode::Exact,
            forced_runs: true,
            lookup: true,
            draft_model: true,
            close_before_limit: false,
            guard: None,
            end_at_words: None,
            max_draft: None,
            source: None,
        }
    }
}
