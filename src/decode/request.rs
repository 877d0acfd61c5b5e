//! What is asked of an [`Engine`](super::Engine): a prompt, a constraint, and how to go about it.

use std::cell::RefCell;

use super::events::CancelToken;
use super::session::DraftOverride;
use super::stats::Mode;
use super::thinking::Thinking;
use crate::constraint::Constraint;
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::CompiledGrammar;
use crate::sample::SamplingParams;
use crate::vocab::{TokenId, Vocabulary};

/// A prompt: trusted template parts in which special tokens are recognised, and text in which they
/// are not.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    pub(super) parts: Vec<(bool, String)>,
    /// What values are likely to be copied from, if not the untrusted parts.
    pub(super) source: Option<String>,
    /// Whether nothing is to be put in front of it.
    pub(super) bare: bool,
}

impl Prompt {
    /// A prompt of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Prompt::default().with_text(text)
    }

    /// Appends text from outside: special tokens in it are just characters.
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push((false, text.into()));
        self
    }

    /// Appends a part of a template: special tokens in it are recognised.
    pub fn with_template(mut self, text: impl Into<String>) -> Self {
        self.parts.push((true, text.into()));
        self
    }

    /// A prompt of parts, those with `true` trusted; values are likely to be copied from `source`.
    pub(super) fn of_chat(parts: Vec<(bool, String)>, source: String) -> Self {
        // Templates write what begins a conversation.
        Prompt { parts, source: Some(source), bare: true }
    }

    /// Without the tokens that the tokenizer puts in front of a text ([`Vocabulary::bos`]): for prompts that go on
    /// from something else.
    pub fn without_bos(mut self) -> Self {
        self.bare = true;
        self
    }

    /// The prompt as one text.
    pub fn to_text(&self) -> String {
        self.parts.iter().map(|p| p.1.as_str()).collect()
    }

    pub(super) fn encode(&self, vocab: &Vocabulary) -> Result<Vec<TokenId>> {
        let mut tokens = Vec::new();
        for (template, text) in &self.parts {
            let part = if *template { vocab.encode_template(text) } else { vocab.encode_outside(text) };
            tokens.extend(part?);
        }
        // Some write it themselves; an empty prompt stays empty, which is refused.
        if !self.bare && !tokens.is_empty() && !tokens.starts_with(vocab.bos()) {
            tokens.splice(0..0, vocab.bos().iter().copied());
        }
        Ok(tokens)
    }
}

/// Most tokens that can follow a prompt: what was asked for, or what the context leaves.
///
/// # Errors
/// If the prompt is empty or leaves no room.
pub(super) fn room(prompt: usize, context: usize, max_tokens: usize) -> Result<usize> {
    if prompt == 0 {
        return Err(Error::new(ErrorKind::InvalidOption, "the prompt is empty"));
    }
    if prompt >= context {
        let message = format!("the prompt has {prompt} tokens, the model's context {context}");
        return Err(Error::new(ErrorKind::PromptTooLong, message)
            .hint("shorten the text or the schema, or load a model with a longer context"));
    }
    Ok(max_tokens.min(context - prompt))
}

/// One generation to be done.
pub struct Request {
    pub(super) prompt: Prompt,
    pub(super) constraint: Option<Constraint>,
    pub(super) grammar: Option<CompiledGrammar>,
    pub(super) source: Option<String>,
    pub(super) sampling: SamplingParams,
    pub(super) mode: Mode,
    pub(super) max_tokens: usize,
    pub(super) stop: Vec<String>,
    pub(super) stop_tokens: Vec<TokenId>,
    pub(super) close_before_limit: bool,
    pub(super) thinking: Option<Thinking>,
    pub(super) logprobs: bool,
    pub(super) cancel: Option<CancelToken>,
    pub(super) max_draft: usize,
    pub(super) lookup: bool,
    pub(super) branches: bool,
    pub(super) draft_model: bool,
    pub(super) without_gate: bool,
    pub(super) explain_gate: bool,
    pub(super) events: bool,
    pub(super) draft_override: RefCell<Option<DraftOverride>>,
}

/// Output tokens unless said otherwise.
const DEFAULT_MAX_TOKENS: usize = 512;
/// Longest draft unless said otherwise.
const DEFAULT_MAX_DRAFT: usize = 24;

impl Request {
    /// A greedy request in `exact` mode without a constraint.
    pub fn new(prompt: Prompt) -> Self {
        Request {
            prompt,
            constraint: None,
            grammar: None,
            source: None,
            sampling: SamplingParams::default(),
            mode: Mode::default(),
            max_tokens: DEFAULT_MAX_TOKENS,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            close_before_limit: false,
            thinking: None,
            logprobs: false,
            cancel: None,
            max_draft: DEFAULT_MAX_DRAFT,
            lookup: true,
            branches: true,
            draft_model: true,
            without_gate: false,
            explain_gate: false,
            events: false,
            draft_override: RefCell::new(None),
        }
    }

    /// Another prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = prompt;
        self
    }

    /// What the output must satisfy.
    pub fn constraint(mut self, constraint: Constraint) -> Self {
        self.constraint = Some(constraint);
        self
    }

    /// The same, compiled already; takes precedence.
    pub fn grammar(mut self, grammar: CompiledGrammar) -> Self {
        self.grammar = Some(grammar);
        self
    }

    /// A text from which values are likely to be copied (default: the untrusted parts of the prompt).
    pub fn source(mut self, text: impl Into<String>) -> Self {
        self.source = Some(text.into());
        self
    }

    /// All sampling parameters.
    pub fn sampling(mut self, params: SamplingParams) -> Self {
        self.sampling = params;
        self
    }

    /// The sampling parameters.
    pub fn params(&self) -> &SamplingParams {
        &self.sampling
    }

    /// Temperature; 0 is greedy.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.sampling.temperature = temperature;
        self
    }

    /// Seed of the random numbers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.sampling.seed = seed;
        self
    }

    /// How forced runs are handled.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Most output tokens (default 512); the model's context bounds it, too.
    pub fn max_tokens(mut self, n: usize) -> Self {
        self.max_tokens = n;
        self
    }

    /// Adds a text that ends the output, which is cut in front of it. The tokens that spell it are
    /// generated and reported. Such an output need not satisfy the constraint: see
    /// [`Output::complete`](super::Output::complete).
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Adds a token that ends the output and does not belong to it. Under a constraint it must be legal
    /// to be chosen, so this is for tokens of text.
    pub fn stop_token(mut self, token: TokenId) -> Self {
        self.stop_tokens.push(token);
        self
    }

    /// Ends in time (default no): before a token after which the output could no longer be complete
    /// within [`max_tokens`](Self::max_tokens), a short completion is emitted instead, without asking
    /// the model; the generation then ends with [`Finish::Closed`](super::Finish::Closed). Without
    /// effect if there is no constraint, or no completion that fits is found at the start. The search
    /// is bounded; for large constraints it may close earlier than it would have to.
    pub fn close_before_limit(mut self, on: bool) -> Self {
        self.close_before_limit = on;
        self
    }

    /// Lets the model write freely before it answers: any text up to `end`, then what satisfies the
    /// constraint. After `budget` tokens without `end` (and the end of a character) it is emitted, without asking the model; that may
    /// cost a few tokens more. See [`Output::answer`](super::Output::answer). Needs a constraint that is
    /// not compiled yet. A marker that the tokenizer has as a special token must have been made text
    /// ([`EngineBuilder::markers`](super::EngineBuilder::markers)).
    pub fn think_until(mut self, end: impl Into<String>, budget: usize) -> Self {
        self.thinking = Some(Thinking::new(end.into(), budget));
        self
    }

    /// Reports log-probabilities of all tokens (default no); costs a copy of the logits and two
    /// exponentials for each.
    pub fn logprobs(mut self, on: bool) -> Self {
        self.logprobs = on;
        self
    }

    /// Ends the generation when this token is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Longest draft per forward (default 24).
    pub fn max_draft(mut self, n: usize) -> Self {
        self.max_draft = n;
        self
    }

    /// Whether values are copied from the source text into drafts (default yes).
    pub fn lookup(mut self, on: bool) -> Self {
        self.lookup = on;
        self
    }

    /// Whether the draft model is used, if there is one (default yes).
    pub fn draft_model(mut self, on: bool) -> Self {
        self.draft_model = on;
        self
    }

    /// Whether other ways to go on stand beside a draft where it is in doubt (default yes).
    pub fn branches(mut self, on: bool) -> Self {
        self.branches = on;
        self
    }

    /// Drafts as long as allowed whatever they cost, so that the number of forwards does not depend on
    /// measured times (default no).
    pub fn without_gate(mut self) -> Self {
        self.without_gate = true;
        self
    }

    /// Counts why drafts are as long as they are, for [`Stats::gate`](super::Stats::gate) (default no).
    pub fn explain_gate(mut self, on: bool) -> Self {
        self.explain_gate = on;
        self
    }

    /// Whether a [`Scheduler`](super::Scheduler) tells what happens through the handle (default no);
    /// without effect on an [`Engine`](super::Engine), which has methods for that.
    pub fn events(mut self, on: bool) -> Self {
        self.events = on;
        self
    }

    /// Replaces all draft sources by one that may propose anything: for tests of exactness.
    pub fn draft_override(self, adversary: DraftOverride) -> Self {
        self.draft_override.replace(Some(adversary));
        self
    }
}
