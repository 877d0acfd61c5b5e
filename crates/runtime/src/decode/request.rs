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

/// Stands for the default length of a draft, which depends on where the model runs.
pub(super) const DEFAULT_MAX_DRAFT: usize = usize::MAX;

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

/// Writes each option once: its documentation, type and default. From these come the field and the
/// method that sets it.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr;)+) => {
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
            $(pub(super) $name: $kind,)+
            pub(super) prompt: Prompt,
            pub(super) constraint: Option<Constraint>,
            pub(super) grammar: Option<CompiledGrammar>,
            pub(super) source: Option<String>,
            pub(super) stop: Vec<String>,
            pub(super) stop_tokens: Vec<TokenId>,
            pub(super) thinking: Option<Thinking>,
            pub(super) cancel: Option<CancelToken>,
            pub(super) without_gate: bool,
            pub(super) draft_override: Mutex<Option<DraftOverride>>,
        }

        impl Request {
            /// Creates a greedy request in `exact` mode without a constraint.
            pub fn new(prompt: Prompt) -> Self {
                Request {
                    $($name: $default,)+
                    prompt,
                    constraint: None,
                    grammar: None,
                    source: None,
                    stop: Vec::new(),
                    stop_tokens: Vec::new(),
                    thinking: None,
                    cancel: None,
                    without_gate: false,
                    draft_override: Mutex::new(None),
                }
            }

            $($(#[$doc])*
            pub fn $name(mut self, $name: $kind) -> Self {
                self.$name = $name;
                self
            })+
        }
    };
}

options! {
    /// Sets all sampling parameters.
    sampling: SamplingParams = SamplingParams::default();

    /// Sets the mode: how forced runs and drafts are handled.
    mode: Mode = Mode::default();

    /// Sets the maximum number of output tokens (default: 512). The model's context is a limit,
    /// too.
    max_tokens: usize = 512;

    /// Completes the output within [`max_tokens`](Self::max_tokens) (default: no). Before a token
    /// after which it could no longer be complete in time, a short completion is emitted without a
    /// forward pass, and the generation ends with [`Finish::Closed`](super::Finish::Closed). This
    /// has no effect without a constraint, or if no completion fits at the start. The search is
    /// bounded; for large constraints it may close earlier than necessary.
    close_before_limit: bool = false;

    /// Ends values of a JSON output that repeat themselves (default: no, but yes in requests of
    /// [`extract`](crate::extract)). A string then closes, an array gets no further item, and the generation continues after it. [`Stats::guarded`](super::Stats::guarded) names
    /// the values. All modes decide the same. A text that the source repeats in the same way counts as
    /// no repetition.
    guard: bool = false;

    /// Ends a JSON string that does not fit into its `maxLength` at a sentence or a word (default:
    /// no, but yes in requests of [`extract`](crate::extract)). Without this, the string is filled
    /// with what fits. [`Stats::shortened`](super::Stats::shortened) names the strings. All modes
    /// decide the same. Strings with a pattern, a format or a list of values are left alone. This has
    /// no effect on a beam search.
    end_at_words: bool = false;

    /// Reports log-probabilities of all tokens (default: no). Each costs a copy of the logits and
    /// two passes of exponentials.
    logprobs: bool = false;

    /// Reports with them this number of the model's most probable tokens (default: none).
    top_logprobs: usize = 0;

    /// Reports the [origin](super::TokenOrigin) of each token (default: no). This changes nothing
    /// else.
    origins: bool = false;

    /// Emits an event for each forward, with the tokens that it brought and rejected
    /// ([`ForwardTrace`](super::ForwardTrace)), to a caller that receives events (default: no). This
    /// turns [`origins`](Self::origins) on. A beam search has no trace.
    trace: bool = false;

    /// Reports the [confidence](super::ValueConfidence) in each value of a JSON output (default: no).
    /// This costs what [`logprobs`](Self::logprobs) costs.
    confidence: bool = false;

    /// Reports which parts of the output are spans of the constraint's source text (default: no, but
    /// yes in requests of [`extract`](crate::extract) for schemas with `x-verbatim`). The constraint
    /// reads the output once more for it.
    source_spans: bool = false;

    /// Sets the maximum length of a draft in tokens (default: 24, on a CUDA or Metal device 64).
    max_draft: usize = DEFAULT_MAX_DRAFT;

    /// Turns drafts of forced runs on or off in `exact` (default: on).
    forced_runs: bool = true;

    /// Turns drafts copied from the source text on or off (default: on).
    lookup: bool = true;

    /// Turns the draft model on or off, if there is one (default: on).
    draft_model: bool = true;

    /// Counts the reasons for draft lengths, for [`Stats::gate`](super::Stats::gate) (default: no).
    explain_gate: bool = false;

    /// Makes a [`Scheduler`](super::Scheduler) send events through the handle (default: no). This
    /// has no effect on an [`Engine`](super::Engine), which has methods for events.
    events: bool = false;
}

impl Request {
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

    /// Lets the model think before it answers: any text up to `end`, then an answer that satisfies
    /// the constraint. After `budget` tokens without `end`, it is emitted without a forward pass at
    /// the end of a character, which may cost a few tokens more. The budget shrinks where it would
    /// not leave a quarter of the token limit beside the shortest answer. See
    /// [`Output::answer`](super::Output::answer). Needs a constraint that is not compiled yet. A
    /// marker that is a special token of the tokenizer must be made text first
    /// ([`EngineBuilder::markers`](super::EngineBuilder::markers)).
    pub fn think_until(mut self, end: impl Into<String>, budget: usize) -> Self {
        self.thinking = Some(Thinking::new(end.into(), budget));
        self
    }

    /// Ends the generation when this token is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Turns the cost gate off: drafts are as long as allowed, so the number of forwards does not
    /// depend on measured times.
    pub fn without_gate(mut self) -> Self {
        self.without_gate = true;
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
