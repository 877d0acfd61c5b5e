//! From the internal request to requests of the engine: prompt, constraint, options.
//!
//! Everything that a client can get wrong fails here, before the answer begins.
//!
//! # Cost
//! Rendering the prompt and compiling the constraint; a compiled constraint is kept.

use std::time::Instant;

use super::answer::random_bits;
use super::api_error::{ApiError, ApiResult};
use super::format::FREE_WHITESPACE;
use super::model::LoadedModel;
use super::reply::{ReplyFormat, THINK, ThinkingFormat};
use super::request::{
    ChatInput, CustomInput, FormatKind, FormatRequest, GenerationRequest, PromptInput, RawPrompt, ToolRequest,
};
use super::tool_fields::custom_tags;
use ffwd_runtime::constraint::substring::SubstringOptions;
use ffwd_runtime::constraint::tools::{Calls, ToolChoice};
use ffwd_runtime::constraint::{Constraint, ConstraintBuilder, KeyOrder, Policy, Whitespace};
use ffwd_runtime::decode::{Prompt, Request};
use ffwd_runtime::extract::embedded;
use ffwd_runtime::matcher::CompiledGrammar;
use ffwd_runtime::vocab::{TokenId, Vocabulary};
use ffwd_runtime::{ChatOptions, Message};

/// Default limit of output tokens, without those of thinking.
const DEFAULT_MAX_TOKENS: usize = 2048;

/// A request made ready for a model.
pub(super) struct ReadyRequest {
    /// One request for each answer.
    pub requests: Vec<Request>,
    pub prompt: Prompt,
    /// The compiled constraint; `None` without one, and if thinking comes before the answer.
    pub grammar: Option<CompiledGrammar>,
    pub reply: ReplyFormat,
    /// What the client may not expect.
    pub warnings: Vec<String>,
    pub compile_seconds: f64,
    /// The seed of the first answer, if random numbers are drawn.
    pub seed: Option<u64>,
}

/// The constraint of a request.
enum Compiled {
    Absent,
    Grammar(CompiledGrammar),
    /// To be compiled with the thinking before it.
    Answer(Box<Constraint>),
}

impl Compiled {
    fn grammar(&self) -> Option<CompiledGrammar> {
        match self {
            Compiled::Grammar(grammar) => Some(grammar.clone()),
            Compiled::Absent | Compiled::Answer(_) => None,
        }
    }
}

/// A request on its way to the engine.
struct Preparation<'a> {
    model: &'a LoadedModel,
    request: &'a GenerationRequest,
    /// Largest number of tokens of thinking before the answer.
    thinking: Option<usize>,
    policy: Policy,
}

/// Makes a request ready.
///
/// # Errors
/// 400 with the field if the prompt does not fit or the constraint cannot be used.
pub(super) fn prepare(
    model: &LoadedModel,
    mut request: GenerationRequest,
    events: bool,
) -> ApiResult<ReadyRequest> {
    let mut warnings = std::mem::take(&mut request.warnings);
    check_size(model, &request)?;
    let thinking = thinking(model, &mut request, &mut warnings);
    let prompt = prompt(model, &request, &mut warnings)?;
    let start = Instant::now();
    let preparation = Preparation { model, request: &request, thinking, policy: policy(model, &request) };
    let compiled = preparation.constraint(&mut warnings)?;
    let compile_seconds = start.elapsed().as_secs_f64();
    let begun = prompt.to_text().trim_end().ends_with(THINK[0]);
    let reply = preparation.reply_format(begun);
    let seed = if request.seeded || request.sampling.is_greedy() {
        request.sampling.seed
    } else {
        // Clients read numbers as floats, which hold this many bits.
        random_bits() >> 32
    };
    let requests = (0..request.choices as u64).map(|i| preparation.one(&prompt, &compiled, seed + i));
    Ok(ReadyRequest {
        requests: requests.map(|one| one.events(events)).collect(),
        grammar: compiled.grammar(),
        prompt,
        reply,
        warnings,
        compile_seconds,
        seed: (!request.sampling.is_greedy()).then_some(seed),
    })
}

/// # Errors
/// If a prompt cannot fit, whatever its tokens are.
fn check_size(model: &LoadedModel, request: &GenerationRequest) -> ApiResult<()> {
    let (bytes, param) = match &request.prompt {
        PromptInput::Text(raw) => (raw.text.len(), "prompt"),
        PromptInput::Chat(chat) => (chat.words.len(), "messages"),
    };
    let context = model.context();
    if bytes > context.saturating_mul(model.engine.vocabulary().max_token_len()) {
        let message = format!("the prompt has {bytes} bytes; the model's context is {context} tokens");
        let error = ApiError::new(axum::http::StatusCode::BAD_REQUEST, "context_length_exceeded", message);
        return Err(error.with_param(param));
    }
    Ok(())
}

/// Decides about thinking; returns its largest number of tokens.
pub(super) fn thinking(
    model: &LoadedModel,
    request: &mut GenerationRequest,
    warnings: &mut Vec<String>,
) -> Option<usize> {
    let trained = trained_schema(model, request).is_some();
    let can = !trained && model.engine.vocabulary().token_id(THINK[1]).is_some();
    let bound = request.format.is_some() || request.tools.as_ref().is_some_and(|tools| tools.calls.is_some());
    let PromptInput::Chat(chat) = &mut request.prompt else { return None };
    let wanted = chat.variables.get("enable_thinking").and_then(serde_json::Value::as_bool);
    let budget = match &request.reasoning {
        Some(reasoning) if !can => {
            if reasoning.budget.is_some() {
                let param = &reasoning.param;
                let why = if trained { "extraction needs none" } else { "the model has no token `</think>`" };
                warnings.push(format!("`{param}` has no effect: {why}"));
            }
            return None;
        }
        Some(reasoning) => reasoning.budget,
        None if can && wanted == Some(true) && bound => Some(DEFAULT_MAX_TOKENS),
        None => None,
    };
    // A template that lets the model think would lead it away from a constraint at once.
    if can && wanted.is_none() && (request.reasoning.is_some() || bound) {
        chat.variables.insert("enable_thinking".into(), budget.is_some().into());
    }
    budget
}

/// Returns the prompt of a request.
///
/// # Errors
/// 400 if the template refuses the messages, or the prompt has unknown tokens.
pub(super) fn prompt(
    model: &LoadedModel,
    request: &GenerationRequest,
    warnings: &mut Vec<String>,
) -> ApiResult<Prompt> {
    let chat = match &request.prompt {
        PromptInput::Text(raw) => return raw.prompt(model.engine.vocabulary()),
        PromptInput::Chat(chat) => chat,
    };
    if let Some(schema) = trained_schema(model, request) {
        warnings.push(
            "the embedded model reads the schema and the texts of the user, in the wording that it was \
             trained on; other messages are left out"
                .to_owned(),
        );
        return Ok(embedded::prompt(schema, &chat.user_text));
    }
    let engine = &model.engine;
    let template = engine.chat_template().map_err(|error| ApiError::general(&error))?;
    let variables = chat.variables.clone();
    let mut options = ChatOptions { variables, add_generation_prompt: !chat.ends, ..ChatOptions::default() };
    let mut messages = chat.messages.clone();
    if let Some(tools) = &request.tools {
        match template {
            Some(_) => options.tools = tools.shown.clone(),
            None => messages.insert(0, tool_message(tools)),
        }
    }
    let prompt = engine.chat_prompt(&messages, &options);
    let prompt = prompt.map_err(|error| ApiError::of(&error, "messages"))?;
    Ok(match &chat.begun {
        Some(text) => prompt.with_text(text.as_str()),
        None => prompt,
    })
}

impl RawPrompt {
    pub(super) fn prompt(&self, vocab: &Vocabulary) -> ApiResult<Prompt> {
        let prompt = match &self.tokens {
            Some(tokens) => {
                check_tokens("prompt", tokens, vocab)?;
                Prompt::tokens(tokens.clone(), vocab)
            }
            None if self.splits_special => Prompt::text(&self.text),
            None => Prompt::raw(&self.text),
        };
        Ok(if self.begins { prompt } else { prompt.without_bos() })
    }
}

/// # Errors
/// If one of the tokens in a field does not exist.
pub(super) fn check_tokens(field: &str, tokens: &[TokenId], vocab: &Vocabulary) -> ApiResult<()> {
    let Some(unknown) = tokens.iter().find(|&&token| token as usize >= vocab.len()) else { return Ok(()) };
    let message = format!("there is no token {unknown}; the vocabulary has {}", vocab.len());
    Err(ApiError::field(field, message))
}

/// Returns the schema that the embedded model reads in its prompt.
fn trained_schema(model: &LoadedModel, request: &GenerationRequest) -> Option<String> {
    let PromptInput::Chat(ChatInput { user_text, .. }) = &request.prompt else { return None };
    let FormatKind::JsonSchema(schema) = &request.format.as_ref()?.kind else { return None };
    let usable = model.engine.is_embedded() && request.tools.is_none() && !user_text.trim().is_empty();
    let value: Option<serde_json::Value> = serde_json::from_str(schema).ok().filter(|_| usable);
    value.map(|value| value.to_string())
}

/// Describes tools for a model whose format has no place for them.
fn tool_message(tools: &ToolRequest) -> Message {
    let list: Vec<String> = tools.shown.iter().map(ToString::to_string).collect();
    Message::system(format!(
        "You may call these functions:\n{}\nA call is written as\n<tool_call>\n{{\"name\": NAME, \"arguments\": \
         OBJECT}}\n</tool_call>",
        list.join("\n")
    ))
}

fn policy(model: &LoadedModel, request: &GenerationRequest) -> Policy {
    let format = request.format.as_ref();
    // Where calls may stand in free text, the model writes them as it likes: other white space than its
    // own, or another order of keys, changes its answers. Drafts follow its habit.
    let free = request.tools.as_ref().is_some_and(|tools| !alone(tools, format.is_some()));
    let usual =
        || if free { Whitespace::Flexible { max: FREE_WHITESPACE } } else { model.engine.whitespace() };
    let whitespace = format.and_then(|format| format.whitespace).unwrap_or_else(usual);
    // A function takes the arguments that it declares, unless its schema says otherwise.
    let closed_objects = format.map_or(request.tools.is_some(), |format| format.closed);
    let key_order = if free { KeyOrder::Any } else { KeyOrder::Declared };
    Policy { whitespace, closed_objects, key_order, ..Policy::default() }
}

impl Preparation<'_> {
    /// Compiles the constraint.
    fn constraint(&self, warnings: &mut Vec<String>) -> ApiResult<Compiled> {
        let Preparation { model, request, .. } = *self;
        let key = cache_key(request, &self.policy).filter(|_| self.thinking.is_none());
        let param = match (&request.format, &request.tools) {
            (Some(format), _) => format.param.as_str(),
            _ => "tools",
        };
        let say = |warning: &ffwd_runtime::Warning| format!("`{param}`: {warning}");
        if let Some(grammar) = key.as_ref().and_then(|key| model.grammars.get(key)) {
            warnings.extend(grammar.warnings().iter().map(say));
            return Ok(Compiled::Grammar(grammar));
        }
        let Some(constraint) = self.parse()? else { return Ok(Compiled::Absent) };
        let refused = |error: ffwd_runtime::Error| ApiError::of(&error, param);
        if self.thinking.is_some() {
            let gated =
                constraint.behind_marker(THINK[1]).and_then(|gated| model.engine.compiler().compile(&gated));
            warnings.extend(gated.map_err(refused)?.warnings().iter().map(say));
            return Ok(Compiled::Answer(Box::new(constraint)));
        }
        let grammar = model.engine.compiler().compile(&constraint).map_err(refused)?;
        warnings.extend(grammar.warnings().iter().map(say));
        if let Some(key) = key {
            model.grammars.put(key, grammar.clone());
        }
        Ok(Compiled::Grammar(grammar))
    }

    fn parse(&self) -> ApiResult<Option<Constraint>> {
        let format = self.request.format.as_ref().map(|format| self.parse_format(format)).transpose()?;
        let tools = self.request.tools.as_ref();
        let calls = match tools {
            Some(tools) => self.parse_tools(tools, format.is_some())?,
            None => None,
        };
        Ok(match (format, calls) {
            (Some(format), Some(calls)) if tools.is_some_and(|tools| tools.calls == Some(Calls::Auto)) => {
                Some(calls.or(&format).map_err(|error| ApiError::of(&error, "tools"))?)
            }
            (_, Some(calls)) => Some(calls),
            (Some(format), None) => Some(format),
            // Only under a constraint does the thinking have a limit.
            (None, None) if self.thinking.is_some() => {
                Some(Constraint::regex("(?s:.*)").map_err(|error| ApiError::general(&error))?)
            }
            (None, None) => None,
        })
    }

    fn builder(&self) -> ConstraintBuilder<'static> {
        Constraint::builder().policy(self.policy.clone())
    }

    fn parse_format(&self, format: &FormatRequest) -> ApiResult<Constraint> {
        let builder = || self.builder();
        let made = match &format.kind {
            FormatKind::JsonObject => builder().json_object(),
            FormatKind::JsonSchema(text) if text.contains("x-verbatim") => {
                builder().source(source(self.request), &SubstringOptions::default()).json_schema(text)
            }
            FormatKind::JsonSchema(text) => builder().json_schema(text),
            FormatKind::Regex(text) => builder().regex(text),
            FormatKind::Choice(list) => builder().choice(list),
            FormatKind::Grammar(text) => builder().ebnf(text),
            FormatKind::StructuralTag(text) => builder().structural_tag(text),
            FormatKind::Pattern(text) => builder().pattern(text),
        };
        made.map_err(|error| ApiError::of(&error, format.param.clone()))
    }

    /// Returns the constraint of a reply with tools. With a format, it is that of calls alone.
    fn parse_tools(&self, tools: &ToolRequest, formatted: bool) -> ApiResult<Option<Constraint>> {
        let refused = |error: ffwd_runtime::Error| ApiError::of(&error, "tools");
        let excludes = [self.model.style.trigger(), "<custom_tool_call"];
        let free = || {
            let tag = serde_json::json!({"type": "structural_tag",
            "format": {"type": "any_text", "excludes": excludes}});
            self.builder().structural_tag(tag.to_string()).map_err(refused)
        };
        let Some(calls) = &tools.calls else {
            // Without a call, whatever the model thinks of it.
            return if formatted { Ok(None) } else { free().map(Some) };
        };
        let alone = alone(tools, formatted);
        let mut parts = Vec::new();
        let named = |name: &str| !matches!(calls, Calls::Function(other) if other != name);
        if let Some(functions) = tools.functions.as_ref().filter(|list| list.names().any(named)) {
            let calls = if alone && *calls == Calls::Auto { Calls::Required } else { calls.clone() };
            let choice = ToolChoice { calls, single: tools.single };
            parts
                .push(functions.constraint(self.model.style, &choice, self.policy.clone()).map_err(refused)?);
        }
        for tool in tools.custom.iter().filter(|tool| named(&tool.name)) {
            let [open, close] = custom_tags(&tool.name);
            let error = |error: ffwd_runtime::Error| ApiError::of(&error, tool.param.clone());
            parts.push(self.custom_call(&tool.input, open, close).map_err(error)?);
        }
        if *calls == Calls::Auto && !tools.custom.is_empty() && !formatted {
            parts.push(free()?);
        }
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Ok(None) };
        parts.try_fold(first, |all, part| all.or(&part)).map(Some).map_err(refused)
    }

    fn custom_call(
        &self,
        input: &CustomInput,
        open: String,
        close: String,
    ) -> ffwd_runtime::Result<Constraint> {
        let builder = || self.builder();
        let input = match input {
            CustomInput::Text => {
                let tag = serde_json::json!({"type": "structural_tag", "format": {"type": "tag",
                "begin": open, "content": {"type": "any_text"}, "end": close}});
                return builder().structural_tag(tag.to_string());
            }
            CustomInput::Lark(text) => builder().lark(text)?,
            CustomInput::Regex(text) => builder().regex(text)?,
        };
        let text = |text: String| builder().choice([text]);
        text(open)?.then(&input)?.then(&text(close)?)
    }

    fn reply_format(&self, begun: bool) -> ReplyFormat {
        let request = self.request;
        let is_chat = matches!(request.prompt, PromptInput::Chat(_));
        let tools = request.tools.as_ref().filter(|tools| tools.calls.is_some());
        let alone = tools.is_some_and(|tools| alone(tools, request.format.is_some()));
        ReplyFormat {
            thinking: match is_chat {
                true if begun || self.thinking.is_some() => ThinkingFormat::Certain,
                true if request.format.is_none() => ThinkingFormat::Optional,
                _ => ThinkingFormat::Absent,
            },
            style: self.model.style,
            functions: tools.and_then(|tools| tools.functions.clone()),
            policy: self.policy.clone(),
            custom: tools.is_some_and(|tools| !tools.custom.is_empty()),
            strays: match tools {
                Some(ToolRequest { functions: Some(functions), .. }) if !alone => {
                    functions.stray_calls(self.model.style)
                }
                _ => Default::default(),
            },
        }
    }

    /// Returns the text that drafts copy from: that of the request, and how calls begin.
    fn source(&self) -> String {
        let [strays, _] = self.reply_format(false).strays;
        strays.iter().fold(source(self.request), |text, call| text + "\n" + &call.begin)
    }

    /// Returns one request of the engine.
    fn one(&self, prompt: &Prompt, compiled: &Compiled, seed: u64) -> Request {
        let Preparation { model, request, thinking, .. } = *self;
        let decoding = &request.decoding;
        // What extraction does with the embedded model.
        let trained = trained_schema(model, request).is_some();
        let max_tokens = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS + thinking.unwrap_or(0));
        let mut one = Request::new(prompt.clone())
            .sampling(request.sampling.clone())
            .seed(seed)
            .mode(decoding.mode)
            .max_tokens(max_tokens)
            .logprobs(request.logprobs.is_some())
            .top_logprobs(request.logprobs.unwrap_or(0))
            .source(self.source())
            .forced_runs(decoding.forced_runs)
            .lookup(decoding.lookup)
            .draft_model(decoding.draft_model)
            .close_before_limit(decoding.close_before_limit)
            .guard(decoding.guard.unwrap_or(trained))
            .end_at_words(decoding.end_at_words.unwrap_or(trained));
        if let Some(most) = decoding.max_draft {
            one = one.max_draft(most);
        }
        one = request.stop.iter().fold(one, |one, text| one.stop(text.as_str()));
        one = request.stop_tokens.iter().fold(one, |one, &token| one.stop_token(token));
        match compiled {
            Compiled::Absent => one,
            Compiled::Grammar(grammar) => one.grammar(grammar.clone()),
            Compiled::Answer(answer) => one
                .constraint(Constraint::clone(answer))
                .think_until(THINK[1], thinking.unwrap_or(DEFAULT_MAX_TOKENS)),
        }
    }
}

/// Returns true if the functions have a constraint of calls alone, not one of free text with calls.
fn alone(tools: &ToolRequest, formatted: bool) -> bool {
    tools.calls != Some(Calls::Auto) || formatted || !tools.custom.is_empty()
}

/// Returns the text that determines the constraint; `None` if it depends on the prompt.
fn cache_key(request: &GenerationRequest, policy: &Policy) -> Option<String> {
    let mut key = format!("{policy:?}");
    if let Some(format) = &request.format {
        if matches!(&format.kind, FormatKind::JsonSchema(text) if text.contains("x-verbatim")) {
            return None;
        }
        key += &format!("\n{:?}", format.kind);
    }
    if let Some(tools) = &request.tools {
        key += &format!("\ntools {}", tools.key);
    }
    (request.format.is_some() || request.tools.is_some()).then_some(key)
}

/// Returns the text that an answer may copy from.
fn source(request: &GenerationRequest) -> String {
    let mut text = match (&request.decoding.source, &request.prompt) {
        (Some(source), _) => source.clone(),
        (None, PromptInput::Text(raw)) => raw.text.clone(),
        (None, PromptInput::Chat(chat)) => chat.words.clone(),
    };
    if let Some(prediction) = &request.prediction {
        text.push('\n');
        text.push_str(prediction);
    }
    text
}
