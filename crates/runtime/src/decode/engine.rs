//! The `Engine`: target model, draft model and vocabulary together, and generation from requests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::drafting::{Drafter, Models, SharedDrafts};
use super::events::{CancelToken, Event};
use super::output::Output;
use super::prefix_cache::{CachedPrefix, DEFAULT_BYTES, PrefixCache};
use super::prompt::Prompt;
use super::request::Request;
use super::session::{Session, SessionParts};
use super::watch::{OutputWatch, PlainTokens, WatchOptions};
use crate::chat::tool_style::tool_style;
use crate::chat::turn_tokens::with_turn_tokens;
use crate::chat::{ChatOptions, ChatTemplate, Message};
use crate::constraint::tools::ToolStyle;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::matcher::{CompiledGrammar, Compiler};
#[cfg(feature = "hub")]
use crate::model::hub::{FetchOptions, ModelName, fetch};
use crate::model::named::{EXTRACT, NAMED_MODELS, NamedModel};
use crate::model::{Adapter, Device, LoadOptions, Model};
use crate::sample::{Sampler, SamplingParams};
use crate::threads::Threads;
use crate::vocab::{TokenId, Vocabulary};

/// The default budget of the prefix cache is at least the bytes of the weights divided by this.
const SHARE_KEPT: usize = 8;

/// Target model, draft model and vocabulary: the entry point for generation.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use ffwd::{Constraint, Engine, Prompt, Request};
///
/// # fn main() -> ffwd::Result<()> {
/// let engine = Engine::embedded()?; // or Engine::builder().model("path/to/model").build()?
/// let request = Request::new(Prompt::text("Answer: ")).constraint(Constraint::choice(["yes", "no"])?);
/// let output = engine.generate(&request)?;
/// assert!(output.complete && ["yes", "no"].contains(&output.text.as_str()));
/// # Ok(())
/// # }
/// ```
pub struct Engine {
    target: Model,
    draft: Option<Model>,
    compiler: Compiler,
    /// A template that does not parse is an error only for callers that use it.
    chat: Option<Result<ChatTemplate>>,
    /// What all generations so far showed about drafts.
    drafts: SharedDrafts,
    /// The tokens of plain text, for strings near their limits.
    plain: OnceLock<Arc<PlainTokens>>,
    /// The KV cache of prefixes of prompts so far.
    prefixes: Mutex<PrefixCache>,
    /// True if the vocabulary is that of the embedded models.
    embedded: bool,
    /// The target's adapter.
    adapter: Option<Adapter>,
    /// The file or folder of the target.
    path: Option<PathBuf>,
}

/// Chooses the models of an [`Engine`].
#[derive(Debug, Clone, Default)]
pub struct EngineBuilder {
    model: Option<PathBuf>,
    draft: Option<PathBuf>,
    no_draft: bool,
    options: LoadOptions,
    chat: Option<ChatTemplate>,
    prefix_bytes: Option<usize>,
    markers: Vec<String>,
    end_tokens: Vec<String>,
    adapter: Option<String>,
    folders: Vec<PathBuf>,
    threads: Option<Threads>,
    #[cfg(feature = "hub")]
    fetch: FetchOptions,
}

impl EngineBuilder {
    /// Sets the target model: a folder with `config.json`, weights and `tokenizer.json`, or a GGUF
    /// file. A `tokenizer.json` in the folder of a GGUF file takes precedence over the tokenizer in
    /// its metadata. Default: the embedded model.
    ///
    /// A text that is no path is a name: `small` or `medium` ([`NAMED_MODELS`](crate::model::named)),
    /// or a repository of the model hub ([`ModelName`](crate::model::hub::ModelName)).
    pub fn model(mut self, path: impl Into<PathBuf>) -> Self {
        self.model = Some(path.into());
        self
    }

    /// Sets a draft model with the same vocabulary.
    pub fn draft_model(mut self, path: impl Into<PathBuf>) -> Self {
        self.draft = Some(path.into());
        self
    }

    /// Uses no draft model.
    pub fn without_draft_model(mut self) -> Self {
        self.no_draft = true;
        self
    }

    /// Sets an adapter (LoRA) of the target: a folder as PEFT writes it, or a GGUF file, and `:SCALE`
    /// behind it to multiply its scale. The name `extract` is the adapter that this project has for
    /// the model, if it has one.
    pub fn adapter(mut self, adapter: impl Into<String>) -> Self {
        self.adapter = Some(adapter.into());
        self
    }

    /// Looks for the models with a name, and for this project's adapters, in a further folder.
    pub fn model_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Sets how models are fetched from the hub. The revision is that of the target.
    #[cfg(feature = "hub")]
    pub fn fetch_options(mut self, options: FetchOptions) -> Self {
        self.fetch = options;
        self
    }

    /// Sets a chat template instead of the model's own.
    pub fn chat_template(mut self, template: ChatTemplate) -> Self {
        self.chat = Some(template);
        self
    }

    /// Sets the budget of the prefix cache; see [`Engine::with_prefix_bytes`].
    pub fn prefix_bytes(mut self, most: usize) -> Self {
        self.prefix_bytes = Some(most);
        self
    }

    /// Sets texts that outputs contain as markers, such as `[TOOL_CALLS]` in a structural tag or
    /// `[/THINK]` after thinking. Special tokens in them are text for this engine; see
    /// [`Vocabulary::with_markers`].
    pub fn markers<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.markers.extend(texts.into_iter().map(Into::into));
        self
    }

    /// Sets the tokens that end a generation, by their texts or their ids, instead of those of the
    /// model's files and of its chat template.
    pub fn end_tokens<S: Into<String>>(mut self, tokens: impl IntoIterator<Item = S>) -> Self {
        self.end_tokens.extend(tokens.into_iter().map(Into::into));
        self
    }

    /// Sets the threads that work on a forward, or their number: then they belong to this engine.
    /// Default: those that all other engines without a number share; see
    /// [`default_threads`](crate::default_threads).
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = Some(threads.into());
        self
    }

    /// Sets how weights are loaded.
    pub fn options(mut self, options: LoadOptions) -> Self {
        self.options = options;
        self
    }

    /// Runs the models with candle on a device instead of on this crate's kernels; see
    /// [`LoadOptions::device`]. Call it after [`options`](Self::options).
    pub fn device(mut self, device: Device) -> Self {
        self.options.device = Some(device);
        self
    }

    /// Loads the models.
    ///
    /// # Errors
    /// Returns an error if a file is missing or not a model, or if draft and target have different
    /// vocabularies.
    pub fn build(self) -> Result<Engine> {
        let threads = self.threads.clone().unwrap_or_else(Threads::shared);
        threads.install(|| self.load(&threads))
    }

    /// Loads the models with these threads.
    fn load(&self, threads: &Threads) -> Result<Engine> {
        let path = self.model.as_deref().map(|model| self.locate(model, true)).transpose()?;
        let ((target, vocab), draft) = match &path {
            Some(path) => (load(path, &self.options)?, None),
            None => embedded(&self.options, self.draft.is_none() && !self.no_draft)?,
        };
        let adapter = self.open_adapter(path.as_deref(), &target, &vocab)?;
        let target = adapter.as_ref().map_or(Ok(target.clone()), |adapter| target.with_adapter(adapter))?;
        let chat = path.as_ref().and_then(|path| template(path, &target, &vocab));
        let draft = match &self.draft {
            Some(path) if !self.no_draft => {
                let path = self.locate(path, false)?;
                let (draft, draft_vocab) = load(&path, &self.options)?;
                same_vocabulary(&vocab, &draft_vocab).map_err(|e| e.at(Place::File(path)))?;
                Some(draft)
            }
            _ => draft,
        };
        let chat = self.chat.clone().map(Ok).or(chat);
        let template = chat.as_ref().and_then(|chat| chat.as_ref().ok());
        let vocab = match path.is_some() || !self.end_tokens.is_empty() {
            true => with_turn_tokens(vocab, template, &self.end_tokens, &self.markers)?,
            false => vocab,
        };
        let engine = Engine::from_parts(target, draft, vocab.with_markers(&self.markers)?)?;
        let engine = match self.prefix_bytes {
            Some(most) => engine.with_prefix_bytes(most),
            None => engine,
        };
        Ok(Engine { chat, adapter, path, ..engine.with_threads(threads) })
    }

    /// Returns the path of a model, which is fetched if it is the name of one.
    #[cfg_attr(not(feature = "hub"), expect(unused_variables))]
    fn locate(&self, model: &Path, is_target: bool) -> Result<PathBuf> {
        if model.exists() {
            return Ok(model.to_owned());
        }
        let named = NamedModel::of_path(model);
        if let Some(path) = named.and_then(|named| named.local_base(&self.folders)) {
            return Ok(path);
        }
        #[cfg(feature = "hub")]
        if let Some(name) = named.map(|named| named.base).or(model.to_str())
            && ModelName::looks_like(name)
        {
            let mut options = self.fetch.clone();
            options.revision = options.revision.filter(|_| is_target);
            let fetched = name.parse().and_then(|name| fetch(&name, &options));
            return fetched.map_err(|e| named.map_or(e.clone(), |named| named.missing_base(e)));
        }
        let missing = Error::new(ErrorKind::Io, "no such file or folder").at(Place::File(model.to_owned()));
        Err(match named {
            Some(named) => named.missing_base(missing),
            None if model == Path::new("shakespeare-char-1m") => missing
                .hint("the character model is the folder examples/data/shakespeare-char-1m of the project's sources"),
            None if cfg!(feature = "hub") => missing.hint(
                "name a folder, a GGUF file, `small`, `medium`, or a repository as OWNER/NAME or \
                 OWNER/NAME:FILE.gguf",
            ),
            None => {
                missing.hint("name a folder or a GGUF file; repositories need a build with the feature `hub`")
            }
        })
    }

    /// Opens the adapter that was set, or that belongs to a model with a name.
    fn open_adapter(
        &self,
        path: Option<&Path>,
        model: &Model,
        vocab: &Vocabulary,
    ) -> Result<Option<Adapter>> {
        let named = self.model.as_deref().and_then(NamedModel::of_path);
        if let (Some(named), Some(path)) = (named, path) {
            named.check_base(model.config(), vocab, path)?;
        }
        let Some(text) = self.adapter.as_deref().or(named.map(|_| EXTRACT)) else { return Ok(None) };
        let (name, scale) = match text.rsplit_once(':').map(|(name, scale)| (name, scale.parse())) {
            Some((name, Ok(scale))) if !Path::new(text).exists() => (name, scale),
            _ => (text, 1.0),
        };
        let own = match name {
            _ if Path::new(name).exists() => None,
            EXTRACT => Some(NamedModel::of_base(model.config(), vocab).ok_or_else(|| {
                let bases: Vec<&str> = NAMED_MODELS.iter().map(|named| named.base).collect();
                Error::new(ErrorKind::InvalidOption, "there is no adapter `extract` for this model")
                    .hint(format!("there are adapters for {}", bases.join(" and ")))
            })?),
            name => NamedModel::by_name(name),
        };
        let file = match own {
            Some(named) => named.adapter_file(&self.folders)?,
            None => PathBuf::from(name),
        };
        Adapter::open(file)?.with_scale(scale).map(Some)
    }
}

/// Returns the chat template of a model: from a file in its folder, or from the GGUF file.
fn template(path: &Path, model: &Model, vocab: &Vocabulary) -> Option<Result<ChatTemplate>> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    match ChatTemplate::from_dir(folder) {
        Ok(Some(template)) => Some(Ok(template)),
        Ok(None) => model.chat_sources().template(vocab),
        Err(e) => Some(Err(e)),
    }
}

/// A target model with its vocabulary, and a draft model.
type Loaded = ((Model, Vocabulary), Option<Model>);

/// Loads the embedded target model, and the draft model if it `is_drafted`.
#[cfg(feature = "embedded")]
fn embedded(options: &LoadOptions, is_drafted: bool) -> Result<Loaded> {
    let models = || {
        let draft = is_drafted.then(|| Model::embedded_draft(options)).transpose()?;
        Ok((Model::embedded_target(options)?, draft))
    };
    let ((target, draft), vocab) = together(models, crate::model::embedded::vocabulary)?;
    Ok(((target, vocab), draft))
}

#[cfg(not(feature = "embedded"))]
fn embedded(_: &LoadOptions, _: bool) -> Result<Loaded> {
    Err(Error::new(ErrorKind::InvalidOption, "this build has no embedded model")
        .hint("name one with --model"))
}

/// Returns true for the vocabulary of the embedded extraction models.
#[cfg(feature = "embedded")]
fn is_embedded_vocabulary(vocab: &Vocabulary) -> bool {
    use crate::model::embedded;
    // Declared markers change which tokens are special.
    let same = |known: Vocabulary| {
        (0..vocab.len() as TokenId).all(|token| vocab.token_text(token) == known.token_text(token))
    };
    vocab.len() == embedded::VOCABULARY_SIZE && embedded::vocabulary().is_ok_and(same)
}

#[cfg(not(feature = "embedded"))]
fn is_embedded_vocabulary(_: &Vocabulary) -> bool {
    false
}

/// Loads a model, and the vocabulary from its folder or from the file itself.
fn load(path: &Path, options: &LoadOptions) -> Result<(Model, Vocabulary)> {
    let (model, vocab) = together(|| Model::open(path, options), || crate::model::vocabulary_of(path))?;
    let mut ends = vocab.eos().to_vec();
    let named = model.config().eos.iter().filter(|&&id| ends.is_empty() || vocab.is_special(id));
    let named: Vec<TokenId> = named.filter(|id| !ends.contains(id)).copied().collect();
    ends.extend(named);
    Ok((model, vocab.with_eos(ends)))
}

/// Loads weights on this thread and a vocabulary on another, which takes as long with a small
/// model. The error of the weights comes first.
fn together<M>(
    model: impl FnOnce() -> Result<M>,
    vocabulary: impl FnOnce() -> Result<Vocabulary> + Send,
) -> Result<(M, Vocabulary)> {
    std::thread::scope(|scope| {
        let vocabulary = scope.spawn(vocabulary);
        let model = model();
        let vocabulary = vocabulary.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((model?, vocabulary?))
    })
}

/// Checks that two vocabularies are the same: drafts are token ids, which must mean the same in
/// both models.
fn same_vocabulary(target: &Vocabulary, draft: &Vocabulary) -> Result<()> {
    let differs = (0..target.len().max(draft.len()) as TokenId).find(|&t| {
        target.token_bytes(t) != draft.token_bytes(t) || target.is_special(t) != draft.is_special(t)
    });
    match differs {
        None => Ok(()),
        Some(token) => {
            let name = |v: &Vocabulary| match v.token_text(token) {
                Some(text) => format!("`{}`", text.escape_debug()),
                None => "nothing".into(),
            };
            let message = format!(
                "the draft model has another vocabulary than the target: token {token} is {} in the target \
                 and {} in the draft model",
                name(target),
                name(draft)
            );
            Err(Error::new(ErrorKind::Model, message)
                .hint("use a draft model with the same tokenizer, or none (--draft-model none)"))
        }
    }
}

impl Engine {
    /// Loads the embedded models.
    ///
    /// # Errors
    /// Returns no error with the models as shipped.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Result<Engine> {
        Self::builder().build()
    }

    /// Returns a builder, which chooses the models.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Creates an engine from loaded parts. `vocab` must be the vocabulary of both models; their
    /// logits may be padded to different widths.
    ///
    /// # Errors
    /// Returns an error if the vocabulary does not fit the models.
    pub fn from_parts(target: Model, draft: Option<Model>, vocab: Vocabulary) -> Result<Engine> {
        if let Some(size) = draft.as_ref().map(|d| d.config().vocab_size).filter(|n| *n < vocab.len()) {
            let message = format!("the draft model knows {size} tokens, the vocabulary has {}", vocab.len());
            return Err(Error::new(ErrorKind::Model, message)
                .hint("use a draft model with the same tokenizer, or none"));
        }
        let embedded = is_embedded_vocabulary(&vocab);
        let size = target.config().vocab_size;
        let compiler = Compiler::new(vocab.with_logits_size(size)?);
        let kept = DEFAULT_BYTES.max(target.weight_bytes() / SHARE_KEPT);
        let prefixes = Mutex::new(PrefixCache::new(kept));
        let (drafts, plain) = (SharedDrafts::default(), OnceLock::new());
        Ok(Engine {
            target,
            draft,
            compiler,
            chat: None,
            drafts,
            plain,
            prefixes,
            embedded,
            adapter: None,
            path: None,
        })
    }

    /// Sets the threads, or their number; see [`EngineBuilder::threads`].
    pub fn with_threads(self, threads: impl Into<Threads>) -> Engine {
        let threads = threads.into();
        Engine {
            draft: self.draft.map(|draft| draft.with_threads(&threads)),
            target: self.target.with_threads(threads),
            ..self
        }
    }

    /// The threads that work on a forward.
    pub fn threads(&self) -> &Threads {
        self.target.threads()
    }

    /// Sets the maximum number of bytes of the prefix cache.
    ///
    /// The prefix cache keeps keys and values of the common beginning of prompts, such as
    /// instructions and schema. The beginning that two prompts share is not computed again. The
    /// default is 64 MiB, or an eighth of the bytes of the target's weights if that is more,
    /// because large models use many bytes per token. 0 keeps nothing.
    ///
    /// The cache changes only the time. Nothing is kept for a model that is not batch-invariant
    /// ([`Model::is_batch_invariant`]). A [`Scheduler`](super::Scheduler) has its own cache.
    pub fn with_prefix_bytes(mut self, most: usize) -> Engine {
        self.prefixes = Mutex::new(PrefixCache::new(most));
        self
    }

    /// Number of bytes of keys and values in the prefix cache.
    pub fn prefix_bytes(&self) -> usize {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    /// Returns the model's chat template, if it has one.
    ///
    /// # Errors
    /// Returns an error if it does not parse.
    pub fn chat_template(&self) -> Result<Option<&ChatTemplate>> {
        match &self.chat {
            None => Ok(None),
            Some(Ok(template)) => Ok(Some(template)),
            Some(Err(e)) => Err(e.clone()),
        }
    }

    /// Returns the style in which the model calls tools: that of its chat template, or that which its
    /// special tokens suggest; [`ToolStyle::Hermes`] without either.
    pub fn tool_style(&self) -> ToolStyle {
        tool_style(self.chat_template().ok().flatten(), self.vocabulary())
    }

    /// Renders a conversation as the prompt that the model was trained on: by its chat template, or
    /// in ChatML if it has no template but has ChatML's tokens. The text of the messages cannot
    /// become special tokens.
    ///
    /// # Errors
    /// Returns an error if the model has neither, or if the template refuses the messages.
    pub fn chat_prompt(&self, messages: &[Message], options: &ChatOptions) -> Result<Prompt> {
        Prompt::chat(messages, options, self.chat_template()?, self.vocabulary())
    }

    /// Returns true if conversations can be rendered: the model has a chat template, or the tokens of
    /// ChatML.
    pub fn has_chat(&self) -> bool {
        self.chat.is_some() || Prompt::has_chatml(self.vocabulary())
    }

    /// Returns true if the model is the embedded extraction model, also if it was loaded from a
    /// file: its vocabulary is the embedded one.
    pub fn is_embedded(&self) -> bool {
        self.embedded
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        self.compiler.vocabulary()
    }

    /// The compiler for this vocabulary.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// The target model.
    pub fn target(&self) -> &Model {
        &self.target
    }

    /// The target's adapter, if it has one.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.adapter.as_ref()
    }

    /// The file or folder of the target, if it came from one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The draft model, if there is one.
    pub fn draft(&self) -> Option<&Model> {
        self.draft.as_ref()
    }

    /// Generates an output.
    ///
    /// # Errors
    /// Returns an error if the prompt does not fit, the constraint does not compile, or an option
    /// is out of range.
    pub fn generate(&self, request: &Request) -> Result<Output> {
        self.run(request, None)
    }

    /// Generates an output, and calls `on_text` with each new piece of text in complete UTF-8.
    ///
    /// # Errors
    /// Returns the errors of [`generate`](Self::generate).
    pub fn generate_streaming(&self, request: &Request, on_text: &mut dyn FnMut(&str)) -> Result<Output> {
        self.generate_events(request, &mut |event| {
            if let Event::Text(text) = event {
                on_text(text);
            }
        })
    }

    /// Generates an output, and calls `on_event` with events: text, the values of a JSON output as
    /// they are completed, and statistics.
    ///
    /// # Errors
    /// Returns the errors of [`generate`](Self::generate).
    pub fn generate_events(&self, request: &Request, on_event: &mut dyn FnMut(Event)) -> Result<Output> {
        self.run(request, Some(on_event))
    }

    fn run(&self, request: &Request, on_event: Option<&mut dyn FnMut(Event)>) -> Result<Output> {
        let start = Instant::now();
        let grammar = self.grammar(request)?;
        let compile_seconds = start.elapsed().as_secs_f64();
        let mut session = self.session(request, grammar, None)?;
        let shared = self.adopt(&mut session);
        let mut output = session.run(on_event, |session| self.keep_of(session, shared))?;
        output.stats.compile_seconds = compile_seconds;
        tracing::debug!(stats = ?output.stats, "generated");
        Ok(output)
    }

    /// Returns a copy of the cached prefix of a prompt, and the number of tokens that should be
    /// cached if that is more.
    pub(super) fn cached_prefix(&self, prompt: &[TokenId]) -> (Option<CachedPrefix>, Option<usize>) {
        // If the bits of a forward row depend on the other rows, the output would depend on other
        // prompts.
        if !self.target.is_batch_invariant() {
            return (None, None);
        }
        let (found, shared) = {
            let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
            (prefixes.find(prompt), prefixes.meet(prompt))
        };
        (found.map(|found| found.copy()), shared)
    }

    /// Caches the first `shared` tokens of a prompt, if that is worthwhile and at least as many are
    /// `cached`. `caches` copies them.
    pub(super) fn keep(
        &self,
        prompt: &[TokenId],
        shared: Option<usize>,
        cached: usize,
        caches: impl FnOnce(usize) -> CachedPrefix,
    ) {
        if let Some(shared) = shared.filter(|n| cached >= *n) {
            let caches = caches(shared);
            self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).keep(&prompt[..shared], caches);
        }
    }

    /// Lets a session begin with the cached prefix of its prompt. Returns the number of tokens that
    /// should be cached, if that is more.
    pub(super) fn adopt(&self, session: &mut Session) -> Option<usize> {
        let (known, shared) = self.cached_prefix(session.prompt());
        if let Some(known) = known {
            session.restore_prefix(known);
        }
        shared
    }

    /// Caches the first `shared` tokens of a session's prompt, as [`adopt`](Self::adopt) returned
    /// them.
    pub(super) fn keep_of(&self, session: &Session, shared: Option<usize>) {
        self.keep(session.prompt(), shared, session.cached(), |n| session.prefix(n));
    }

    /// Compiles the constraint of a request, if it has one.
    pub(super) fn grammar(&self, request: &Request) -> Result<Option<CompiledGrammar>> {
        Ok(match (&request.thinking, &request.grammar, &request.constraint) {
            (Some(thinking), None, Some(constraint)) => {
                if let Some(special) = self.vocabulary().special_within(thinking.end()) {
                    let message = format!("thinking ends with `{special}`, which is a special token");
                    return Err(Error::new(ErrorKind::InvalidOption, message).hint(
                        "name it when the engine is built (`EngineBuilder::markers`), or another marker if it ends a generation",
                    ));
                }
                Some(self.compiler.compile(&thinking.gate(constraint)?)?)
            }
            (Some(_), ..) => {
                return Err(Error::new(ErrorKind::InvalidOption, "thinking needs a constraint to end in")
                    .hint("set a constraint on the request, not a compiled grammar"));
            }
            (None, Some(grammar), _) => Some(grammar.clone()),
            (None, None, Some(constraint)) => Some(self.compiler.compile(constraint)?),
            (None, None, None) => None,
        })
    }

    /// Creates a session at its start; `cancel` ends it in addition to the request's own token.
    pub(super) fn session(
        &self,
        request: &Request,
        grammar: Option<CompiledGrammar>,
        cancel: Option<CancelToken>,
    ) -> Result<Session> {
        self.session_sampling(request, request.sampling.clone(), request.logprobs, grammar, cancel)
    }

    /// Creates a session with other sampling parameters; `logprobs` overrides the request.
    pub(super) fn session_sampling(
        &self,
        request: &Request,
        sampling: SamplingParams,
        logprobs: bool,
        grammar: Option<CompiledGrammar>,
        cancel: Option<CancelToken>,
    ) -> Result<Session> {
        let prompt = request.prompt.encode(self.vocabulary())?;
        let sampler = Sampler::new(sampling)?;
        let models = Models { target: &self.target, draft: self.draft.as_ref() };
        let parts = SessionParts {
            prompt,
            matcher: grammar.map(|g| g.matcher()),
            sampler: match logprobs {
                true => sampler.with_top_logprobs(request.top_logprobs),
                false if request.confidence => sampler.with_logprobs(),
                false => sampler,
            },
            drafter: Drafter::new(request, models, &self.drafts, self.vocabulary())?,
            watch: self.watch(request),
            logprobs,
            cancel: request.cancel.iter().cloned().chain(cancel).collect(),
        };
        Session::new(&self.target, self.vocabulary(), request, parts)
    }

    /// Returns the watch over the values of an output, if the request wants one.
    pub(super) fn watch(&self, request: &Request) -> Option<OutputWatch> {
        let (guard, thinking) = (request.guard, request.thinking.clone());
        let plain = || self.plain.get_or_init(|| Arc::new(PlainTokens::new(self.vocabulary()))).clone();
        let plain = request.end_at_words.then(plain);
        if !guard && plain.is_none() {
            return None;
        }
        let source = request.source.clone().or_else(|| request.prompt.source.clone());
        let source = source.unwrap_or_else(|| request.prompt.outside_text());
        Some(OutputWatch::new(WatchOptions { guard, plain, source, thinking }))
    }
}
