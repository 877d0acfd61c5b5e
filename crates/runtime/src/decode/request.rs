//! A request to an [`Engine`](super::Engine): a prompt, a constraint, and the options of decoding.

use std::sync::{Mutex, PoisonError};

use super::events::CancelToken;
use super::prompt::Prompt;
use super::stats::Mode;
use super::thinking::Thinking;
use crate::constraint::Constraint;
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::CompiledGrammar;
use crate::sample::SamplingParams;
use crate::vocab::TokenId;

/// A draft source for tests, which may propose any tokens.
#[doc(hidden)]
pub type DraftOverride = Box<dyn FnMut(&[TokenId]) -> Vec<TokenId> + Send>;

/// Maximum number of tokens that can follow a prompt: `max_tokens`, or what fits in the context.
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

/// A generation to run. `Send` and `Sync`; each method sets one option.
///
/// ```
/// use ffwd::{Constraint, Mode, Prompt, Request};
///
/// # fn main() -> ffwd::Result<()> {
/// let request = Request::new(Prompt::text("The date is "))
///     .constraint(Constraint::regex("2[0-9]{3}-0[1-9]")?)
///     .mode(Mode::Exact)
///     .max_tokens(32);
/// # Ok(())
/// # }
/// ```
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
    pub(super) guard: bool,
    pub(super) end_at_words: bool,
    pub(super) thinking: Option<Thinking>,
    pub(super) logprobs: bool,
    pub(super) origins: bool,
    pub(super) trace: bool,
    pub(super) confidence: bool,
    pub(super) source_spans: bool,
    pub(super) cancel: Option<CancelToken>,
    pub(super) max_draft: usize,
    pub(super) forced_runs: bool,
    pub(super) lookup: bool,
    pub(super) draft_model: bool,
    pub(super) without_gate: bool,
    pub(super) explain_gate: bool,
    pub(super) events: bool,
    pub(super) draft_override: Mutex<Option<DraftOverride>>,
}

/// Default limit of output tokens.
const DEFAULT_MAX_TOKENS: usize = 512;
/// Default length of a draft in tokens.
const DEFAULT_MAX_DRAFT: usize = 24;

impl Request {
    /// Creates a greedy request in `exact` mode without a constraint.
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
            guard: false,
            end_at_words: false,
            thinking: None,
            logprobs: false,
            origins: false,
            trace: false,
            confidence: false,
            source_spans: false,
            cancel: None,
            max_draft: DEFAULT_MAX_DRAFT,
            forced_runs: true,
            lookup: true,
            draft_model: true,
            without_gate: false,
            explain_gate: false,
            events: false,
            draft_override: Mutex::new(None),
        }
    }

    /// Replaces the prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = prompt;
        self
    }

    /// Sets the constraint that the output must satisfy.
    pub fn constraint(mut self, constraint: Constraint) -> Self {
        self.constraint = Some(constraint);
        self
    }

    /// Returns the constraint that was set.
    pub fn own_constraint(&self) -> Option<&Constraint> {
        self.constraint.as_ref()
    }

    /// Sets a constraint that is compiled already; it takes precedence.
    pub fn grammar(mut self, grammar: CompiledGrammar) -> Self {
        self.grammar = Some(grammar);
        self
    }

    /// Sets the text from which values are likely to be copied (default: the parts of the prompt
    /// that come from outside).
    pub fn source(mut self, text: impl Into<String>) -> Self {
        self.source = Some(text.into());
        self
    }

    /// Sets all sampling parameters.
    pub fn sampling(mut self, params: SamplingParams) -> Self {
        self.sampling = params;
        self
    }

    /// Returns the sampling parameters.
    pub fn params(&self) -> &SamplingParams {
        &self.sampling
    }

    /// Sets the temperature; 0 is greedy.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.sampling.temperature = temperature;
        self
    }

    /// Sets the seed of the random numbers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.sampling.seed = seed;
        self
    }

    /// Sets the mode: how forced runs and drafts are handled.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the maximum number of output tokens (default: 512). The model's context is a limit,
    /// too.
    pub fn max_tokens(mut self, n: usize) -> Self {
        self.max_tokens = n;
        self
    }

    /// Adds a text that ends the output; the output is cut before it. Thinking may contain it. The
    /// tokens of the text are generated and reported. Such an output need not satisfy the constraint: see
    /// [`Output::complete`](super::Output::complete).
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Adds a token that ends the output and is not part of it. Thinking may contain it. Under a constraint the token must
    /// be legal to be chosen, so this is for tokens of text.
    pub fn stop_token(mut self, token: TokenId) -> Self {
        self.stop_tokens.push(token);
        self
    }

    /// Completes the output within [`max_tokens`](Self::max_tokens) (default: no). Before a token
    /// after which it could no longer be complete in time, a short completion is emitted without a
    /// forward pass, and the generation ends with [`Finish::Closed`](super::Finish::Closed). This
    /// has no effect without a constraint, or if no completion fits at the start. The search is
    /// bounded; for large constraints it may close earlier than necessary.
    pub fn close_before_limit(mut self, on: bool) -> Self {
        self.close_before_limit = on;
        self
    }

    /// Ends values of a JSON output that repeat themselves (default: no, but yes in requests of
    /// [`extract`](crate::extract)). A string then closes, an array gets no further item, and the generation continues after it. [`Stats::guarded`](super::Stats::guarded) names
    /// the values. All modes decide alike. A text that the source repeats in the same way counts as
    /// no repetition.
    pub fn guard(mut self, on: bool) -> Self {
        self.guard = on;
        self
    }

    /// Ends a JSON string that does not fit into its `maxLength` at a sentence or a word (default:
    /// no, but yes in requests of [`extract`](crate::extract)). Without this, the string is filled
    /// with what fits. [`Stats::shortened`](super::Stats::shortened) names the strings. All modes
    /// decide alike. Strings with a pattern, a format or a list of values are left alone. This has
    /// no effect on a beam search.
    pub fn end_at_words(mut self, on: bool) -> Self {
        self.end_at_words = on;
        self
    }

    /// Lets the model think before it answers: any text up to `end`, then an answer that satisfies
    /// the constraint. After `budget` tokens without `end`, it is emitted without a forward pass at
    /// the end of a character, which may cost a few tokens more. See
    /// [`Output::answer`](super::Output::answer). Needs a constraint that is not compiled yet. A
    /// marker that is a special token of the tokenizer must be made text first
    /// ([`EngineBuilder::markers`](super::EngineBuilder::markers)).
    pub fn think_until(mut self, end: impl Into<String>, budget: usize) -> Self {
        self.thinking = Some(Thinking::new(end.into(), budget));
        self
    }

    /// Reports log-probabilities of all tokens (default: no). Each costs a copy of the logits and
    /// two passes of exponentials.
    pub fn logprobs(mut self, on: bool) -> Self {
        self.logprobs = on;
        self
    }

    /// Reports the [origin](super::TokenOrigin) of each token (default: no). This changes nothing
    /// else.
    pub fn origins(mut self, on: bool) -> Self {
        self.origins = on;
        self
    }

    /// Emits an event for each forward, with the tokens that it brought and rejected
    /// ([`ForwardTrace`](super::ForwardTrace)), to a caller that receives events (default: no). This
    /// turns [`origins`](Self::origins) on. A beam search has no trace.
    pub fn trace(mut self, on: bool) -> Self {
        self.trace = on;
        self
    }

    /// Reports the [confidence](super::ValueConfidence) in each value of a JSON output (default: no).
    /// This costs what [`logprobs`](Self::logprobs) costs.
    pub fn confidence(mut self, on: bool) -> Self {
        self.confidence = on;
        self
    }

    /// Reports which parts of the output are spans of the constraint's source text (default: no, but
    /// yes in requests of [`extract`](crate::extract) for schemas with `x-verbatim`). The constraint
    /// reads the output once more for it.
    pub fn source_spans(mut self, on: bool) -> Self {
        self.source_spans = on;
        self
    }

    /// Ends the generation when this token is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Sets the maximum length of a draft in tokens (default: 24).
    pub fn max_draft(mut self, n: usize) -> Self {
        self.max_draft = n;
        self
    }

    /// Turns drafts of forced runs on or off in `exact` (default: on).
    pub fn forced_runs(mut self, on: bool) -> Self {
        self.forced_runs = on;
        self
    }

    /// Turns drafts copied from the source text on or off (default: on).
    pub fn lookup(mut self, on: bool) -> Self {
        self.lookup = on;
        self
    }

    /// Turns the draft model on or off, if there is one (default: on).
    pub fn draft_model(mut self, on: bool) -> Self {
        self.draft_model = on;
        self
    }

    /// Turns the cost gate off: drafts are as long as allowed, so the number of forwards does not
    /// depend on measured times.
    pub fn without_gate(mut self) -> Self {
        self.without_gate = true;
        self
    }

    /// Counts the reasons for draft lengths, for [`Stats::gate`](super::Stats::gate) (default: no).
    pub fn explain_gate(mut self, on: bool) -> Self {
        self.explain_gate = on;
        self
    }

    /// Makes a [`Scheduler`](super::Scheduler) send events through the handle (default: no). This
    /// has no effect on an [`Engine`](super::Engine), which has methods for events.
    pub fn events(mut self, on: bool) -> Self {
        self.events = on;
        self
    }

    /// Replaces all draft sources by one that may propose anything: a hook for tests of exactness.
    /// The first generation of this request takes it.
    #[doc(hidden)]
    pub fn draft_override(mut self, source: DraftOverride) -> Self {
        self.draft_override = Mutex::new(Some(source));
        self
    }

    pub(super) fn take_draft_override(&self) -> Option<DraftOverride> {
        self.draft_override.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_can_be_sent_and_shared() {
        fn both<T: Send + Sync>() {}
        both::<Request>();
        both::<Prompt>();
    }
}
