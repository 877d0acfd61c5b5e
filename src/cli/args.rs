//! Options that several subcommands share: models, decoding, and the description of a constraint.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueHint};

use super::labels::LabelListArgs;
use super::output;
use super::schema_refs::ReferenceArgs;
use super::tools::ToolArgs;
use crate::chat::ChatTemplate;
use crate::constraint::substring::SubstringOptions;
use crate::constraint::tools::{Reply, Tools};
use crate::constraint::{Constraint, KeyOrder, Policy, Whitespace};
use crate::decode::{Engine, Mode, Request};
use crate::error::{Error, ErrorKind, Place, Result};
pub(super) use crate::extract::corpus::read_text;
use crate::matcher::CompiledGrammar;
#[cfg(feature = "hub")]
use crate::model::hub::FetchOptions;
use crate::model::{Device, KvPrecision, LoadOptions, Precision};
use crate::sample::SamplingParams;
use crate::vocab::TokenId;
use crate::{Threads, Warning};

/// Largest number of threads that can be asked for.
const MOST_THREADS: u64 = 4096;

/// Options that choose and load models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub(super) struct ModelArgs {
    /// Load the model from a folder or a GGUF file [default: the embedded model]
    ///
    /// A folder holds config.json, weights and tokenizer.json. `small` and `medium` are models that
    /// extract well; `ffwd models` lists them. Other names are repositories of the model hub:
    /// OWNER/NAME, OWNER/NAME:FILE.gguf or OWNER/NAME@REVISION. A model is fetched once and then
    /// cached. The end of a file's name is enough, such as OWNER/NAME:Q4_K_M.
    #[arg(short, long, value_name = "FOLDER|GGUF|NAME", value_hint = ValueHint::AnyPath)]
    model: Option<String>,
    /// Change the model by an adapter (LoRA): a folder of PEFT or a GGUF file, with :SCALE behind it
    ///
    /// SCALE multiplies the adapter's own scale. `extract` is the adapter that comes with ffwd for
    /// the bases of `small` and `medium`; these names include it.
    #[arg(long, value_name = "FOLDER|FILE[:SCALE]", value_hint = ValueHint::AnyPath)]
    adapter: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
}

/// Options of how models are loaded, whichever they are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Models")]
pub(super) struct LoadArgs {
    /// Load the draft model, which needs the same tokenizer, or use none [default: the embedded
    /// draft model if the model is embedded, otherwise none]
    #[arg(long, value_name = "FOLDER|GGUF|NAME|none", value_hint = ValueHint::AnyPath)]
    draft_model: Option<String>,
    /// Hold weights as in the file (stored), or as f32, q8_0 or q4_k
    #[arg(long, value_name = "stored|f32|q8_0|q4_k", default_value = "stored")]
    precision: Precision,
    /// Run the models with candle on a device instead of with the program's own kernels
    ///
    /// cuda and metal need builds with these features, and take a number, as in cuda:1. Drafts are
    /// verified with other rounding than single tokens have, so in rare cases the mode exact differs
    /// from off.
    #[arg(long, value_name = "cpu|cuda|metal")]
    device: Option<Device>,
    /// Hold keys and values in single or in half precision; f16 takes half of the memory and rounds
    #[arg(long, value_name = "f32|f16", default_value = "f32")]
    kv: KvPrecision,
    /// Use the chat template (Jinja) in FILE instead of the model's own
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// End a generation at TOKEN, by its text or its id, instead of at the model's own ends (repeatable)
    ///
    /// For files that name a wrong end. The ends are otherwise those of the files, the end of a turn
    /// in the chat template, and known ones such as <|im_end|>.
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    end_token: Vec<String>,
    /// Run the models on N threads [default: one for each physical core that the program may use]
    ///
    /// The number does not change the output. Answers and texts that run at the same time share the
    /// threads.
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_THREADS)
    )]
    threads: Vec<usize>,
    /// The threads, made once for all models.
    #[arg(skip)]
    pool: OnceLock<Threads>,
    /// Use this branch, tag or commit of the model's repository
    #[cfg(feature = "hub")]
    #[arg(long, value_name = "NAME")]
    revision: Option<String>,
    /// Use only models in the local cache
    #[cfg(feature = "hub")]
    #[arg(long)]
    offline: bool,
}

impl ModelArgs {
    pub(super) fn engine(&self) -> Result<Engine> {
        self.engine_with(Vec::new())
    }

    /// Loads an engine for outputs that contain these markers.
    pub(super) fn engine_with(&self, markers: Vec<String>) -> Result<Engine> {
        self.load.check_threads()?;
        self.load.engine(self.model.as_deref(), self.adapter.as_deref(), markers)
    }

    /// Returns the whitespace in JSON that suits the model, as far as its name shows.
    pub(super) fn whitespace(&self) -> Whitespace {
        if self.model.is_none() { Whitespace::Compact } else { Whitespace::SingleSpace }
    }

    /// Returns the model, as it was named.
    pub(super) fn name(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

/// What a report says about the models.
#[cfg(feature = "bench")]
impl ModelArgs {
    /// Returns what a report calls the models, and the formats of weights, keys and values in words, with
    /// the device if one is named.
    pub(super) fn names(&self) -> ffwd_bench::ModelNames {
        let file = |name: &String| {
            let file = std::path::Path::new(name).file_name();
            file.map_or_else(|| name.clone(), |file| file.to_string_lossy().into_owned())
        };
        let named = |option: &Option<String>| option.as_ref().map_or_else(|| "embedded".to_owned(), file);
        let (load, adapter) = (&self.load, self.adapter.as_ref().map(file));
        let weights = match load.precision {
            Precision::F32 => "f32",
            Precision::Q8_0 => "q8_0",
            Precision::Q4K => "q4_k",
            Precision::AsStored => "stored",
        };
        let kv = if load.kv == KvPrecision::F16 { ", f16 cache" } else { "" };
        let device = load.device.as_ref().map_or_else(String::new, |device| format!(", device {device:?}"));
        ffwd_bench::ModelNames {
            model: named(&self.model)
                + &adapter.map_or_else(String::new, |adapter| format!(" with {adapter}")),
            draft_model: named(&load.draft_model),
            precision: format!("{weights}{kv}{device}"),
        }
    }

    /// Loads an engine for a measurement that may have several numbers of threads.
    pub(super) fn engine_of_first_threads(&self, markers: Vec<String>) -> Result<Engine> {
        self.load.engine(self.model.as_deref(), self.adapter.as_deref(), markers)
    }

    /// Returns the numbers of threads that were named.
    pub(super) fn threads(&self) -> &[usize] {
        &self.load.threads
    }
}

impl LoadArgs {
    /// Returns an error if there are several numbers of threads.
    pub(super) fn check_threads(&self) -> Result<()> {
        match self.threads.len() {
            ..=1 => Ok(()),
            _ => Err(Error::new(ErrorKind::InvalidOption, "--threads has several numbers")
                .hint("only `ffwd bench decode` compares numbers of threads")),
        }
    }

    /// Loads a model, or the embedded one, for outputs that contain these markers.
    pub(super) fn engine(
        &self,
        model: Option<&str>,
        adapter: Option<&str>,
        markers: Vec<String>,
    ) -> Result<Engine> {
        let options =
            LoadOptions { device: self.device, kv: self.kv, ..LoadOptions::with_precision(self.precision) };
        let mut builder = Engine::builder().options(options).markers(markers).end_tokens(&self.end_token);
        if let Some(number) = self.threads.first() {
            builder = builder.threads(self.pool.get_or_init(|| Threads::new(*number)));
        }
        if let Some(model) = model {
            builder = builder.model(model);
        }
        if let Some(adapter) = adapter {
            builder = builder.adapter(adapter);
        }
        #[cfg(feature = "hub")]
        {
            let (offline, revision) = (self.offline, self.revision.clone());
            builder = builder.fetch_options(FetchOptions { offline, revision, ..FetchOptions::default() });
        }
        if let Some(file) = &self.chat_template {
            let template =
                ChatTemplate::new(&read_text(file)?).map_err(|e| e.at(Place::File(file.clone())))?;
            builder = builder.chat_template(template);
        }
        builder = match self.draft_model.as_deref() {
            None => builder,
            Some("none") => builder.without_draft_model(),
            Some(draft) => builder.draft_model(draft),
        };
        builder.build()
    }

    /// Returns true if an option names a file that belongs to one model.
    #[cfg(feature = "serve")]
    pub(super) fn names_files(&self) -> bool {
        self.chat_template.is_some() || self.draft_model.as_deref().is_some_and(|draft| draft != "none")
    }
}

/// Parses a token and its bias, such as `15=-2.5`.
fn logit_bias(text: &str) -> Result<(TokenId, f32), String> {
    let parsed = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is not a token and a number, such as 15=-2.5 or 15=-inf"))
}

const MODE_HELP: &str = "Choose how drafts are verified\n\n\
    \x20 - off: no drafts, one forward per token\n\
    \x20 - exact: drafts, each token verified; the same output as off\n\
    \x20 - canonical: forced text unverified, as the tokenizer writes it\n\
    \x20 - longest: forced text unverified, by the longest tokens";

/// Options of drafting, sampling and endings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Decoding")]
pub(super) struct DecodeArgs {
    /// Choose how drafts are verified
    #[arg(long, default_value = "exact", value_name = "off|exact|canonical|longest", long_help = MODE_HELP)]
    mode: Mode,
    /// Copy values from the text into drafts (default)
    #[arg(long, overrides_with = "no_lookup")]
    lookup: bool,
    /// Do not copy values from the text into drafts
    #[arg(long)]
    no_lookup: bool,
    /// Explain draft-length decisions on standard error, and in the JSON of --stats
    #[arg(long)]
    explain_gate: bool,
    /// Sample at temperature X; 0 takes the most probable token
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    temperature: f32,
    /// Sample from the fewest tokens whose probabilities add up to P
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "P")]
    top_p: f32,
    /// Sample from the N most probable tokens [default: all tokens]
    #[arg(long, value_name = "N")]
    top_k: Option<usize>,
    /// Sample from tokens with at least P times the probability of the most probable token
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "P")]
    min_p: f32,
    /// Divide positive logits of tokens already present by X, and multiply negative ones
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    repetition_penalty: f32,
    /// Subtract X from the logit of every token already present
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    presence_penalty: f32,
    /// Subtract X from the logit of a token for each time it is present
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    frequency_penalty: f32,
    /// Add X to the logit of token ID; -inf forbids it (repeatable)
    #[arg(long, value_name = "ID=X", value_parser = logit_bias)]
    logit_bias: Vec<(TokenId, f32)>,
    /// Stop before TEXT (repeatable)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Stop before token ID (repeatable)
    #[arg(long, value_name = "ID")]
    stop_token: Vec<TokenId>,
    /// Close the output by a short completion when the token limit is near
    #[arg(long)]
    close_before_limit: bool,
    /// Seed the random numbers with N; the same seed gives the same text
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Generate at most N tokens
    #[arg(short = 'n', long, default_value_t = 512, value_name = "N")]
    max_tokens: usize,
}

impl DecodeArgs {
    pub(super) fn apply(&self, request: Request) -> Request {
        let sampling = SamplingParams {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
        };
        let request = self.stop.iter().fold(request, |r, text| r.stop(text));
        let request = self.stop_token.iter().fold(request, |r, &token| r.stop_token(token));
        request
            .close_before_limit(self.close_before_limit)
            .mode(self.mode)
            .explain_gate(self.explain_gate)
            .lookup(self.lookup || !self.no_lookup)
            .sampling(sampling)
            .max_tokens(self.max_tokens)
    }

    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// # Errors
    /// If a value is out of range.
    pub(super) fn validate(&self) -> Result<()> {
        if self.max_tokens == 0 {
            return Err(
                Error::new(ErrorKind::InvalidOption, "--max-tokens is 0").hint("allow at least one token")
            );
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Error::new(ErrorKind::InvalidOption, "--stop is empty").hint("name a text"));
        }
        let request = self.apply(Request::new(crate::decode::Prompt::default()));
        crate::sample::Sampler::new(request.params().clone()).map(drop)
    }
}

/// Options about the values of a JSON output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Values")]
pub(super) struct ValueArgs {
    /// Let values that repeat themselves continue
    ///
    /// Without this option, a string that repeats itself is closed, and an array gets no further
    /// item. A message names the value. A text that repeats itself in the source may be copied.
    #[arg(long)]
    no_guard: bool,
    /// Fill strings up to their `maxLength`, even with parts of words
    ///
    /// Without this option, a string that does not fit ends at a sentence or a word. Strings with a
    /// pattern, a format or a list of values are not affected.
    #[arg(long)]
    fill_strings: bool,
}

impl ValueArgs {
    pub(super) fn apply(&self, request: Request) -> Request {
        request.guard(!self.no_guard).end_at_words(!self.fill_strings)
    }
}

/// Options of which at most one names the kind of the constraint.
#[derive(Args)]
#[command(next_help_heading = "Constraint (at most one)")]
#[group(multiple = false)]
pub(super) struct ConstraintKind {
    /// Generate JSON that is valid against the JSON Schema in FILE
    #[arg(short = 's', long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
    /// Generate what the structural tag in FILE describes, such as tool calls in free text
    #[arg(long, value_name = "FILE")]
    structural_tag: Option<PathBuf>,
    /// Allow calls of the functions in FILE, a JSON array of objects with a `name` and `parameters`
    ///
    /// Clients of chat servers send such arrays. Lists of the Model Context Protocol (`inputSchema`)
    /// and objects with the list in `tools` are read, too.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Match the whole output against a regular expression (syntax of Rust's regex crate)
    #[arg(short, long, value_name = "RE", allow_hyphen_values = true)]
    regex: Option<String>,
    /// Generate TEXT, or the text of another --choice (repeatable)
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    choice: Vec<String>,
    /// Match character classes and literals, such as "UPPER+ ':' ' ' LOWER+"
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pattern: Option<String>,
    /// Follow the grammar in FILE, in GBNF (`root ::= ...`) or a subset of Lark (`start: ...`)
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
    /// Copy a span of the text in FILE
    #[arg(long, value_name = "FILE")]
    substring: Option<PathBuf>,
    /// Generate a label of FILE, or several with --labels-separator
    ///
    /// The file has one label on each line, a JSON array of labels, or a JSON tree of paths.
    #[arg(short, long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Generate any JSON object
    #[arg(long)]
    json_object: bool,
}

/// Heading of the options of texts that an output copies from.
const COPIES: &str = "Copied text";

/// Options that describe a constraint.
#[derive(Args)]
pub(super) struct ConstraintArgs {
    #[command(flatten)]
    kind: ConstraintKind,
    /// Copy strings with `"x-verbatim": true` in their JSON Schema from the text in FILE
    #[arg(long, value_name = "FILE", help_heading = COPIES)]
    source: Option<PathBuf>,
    /// Begin and end spans of --substring and --source at words
    #[arg(long, help_heading = COPIES)]
    whole_words: bool,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    labels: LabelListArgs,
    #[command(flatten)]
    calls: ToolArgs,
    /// Content of the file of tools, which may be standard input and so is read once.
    #[arg(skip)]
    tools: OnceCell<Tools>,
    #[command(flatten)]
    references: ReferenceArgs,
}

const WHITESPACE_HELP: &str = "Set the whitespace in JSON: none, single spaces, or up to N characters\n\n\
    \x20 - auto: compact for the embedded models, single for all others\n\
    \x20 - compact: no whitespace, as the embedded models write JSON\n\
    \x20 - single: one space after each comma and colon\n\
    \x20 - N: at most N characters between two tokens of JSON (1 to 64)";

/// Options of how JSON is written, and of how warnings are treated.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "JSON")]
pub(super) struct JsonArgs {
    /// Set the whitespace in JSON: none, single spaces, or up to N characters
    #[arg(
        long,
        value_name = "auto|compact|single|N",
        default_value = "auto",
        value_parser = whitespace,
        long_help = WHITESPACE_HELP
    )]
    whitespace: WhitespaceArg,
    /// Accept the properties of objects in any order, not only in that of the schema
    #[arg(long)]
    any_order: bool,
    /// Accept `1.0` where the schema has 1, and integers with zeros after the point
    #[arg(long)]
    equal_numbers: bool,
    /// Accept exponents in numbers without bounds, such as `1.5e-9`
    #[arg(long)]
    exponent: bool,
    /// Treat warnings as errors, such as those about unknown formats and misspelled keywords
    #[arg(long)]
    strict: bool,
}

/// Value of `--whitespace`; `None` is `auto`.
type WhitespaceArg = Option<Whitespace>;

impl JsonArgs {
    /// Returns the policy, with the whitespace `auto` where none is named.
    pub(super) fn policy(&self, auto: Whitespace) -> Policy {
        let key_order = if self.any_order { KeyOrder::Any } else { KeyOrder::Declared };
        let (whitespace, equal_numbers) = (self.whitespace.unwrap_or(auto), self.equal_numbers);
        Policy { whitespace, key_order, equal_numbers, exponent: self.exponent, ..Policy::default() }
    }

    /// # Errors
    /// In strict mode, if the constraint has warnings.
    pub(super) fn check_warnings(&self, constraint: Constraint) -> Result<Constraint> {
        if self.strict { constraint.strict() } else { Ok(constraint) }
    }
}

impl ConstraintArgs {
    /// Returns the warnings that depend on the vocabulary. Those of the constraint alone are
    /// printed by [`constraint`](Self::constraint).
    ///
    /// # Errors
    /// In strict mode, if there are any.
    pub(super) fn vocabulary_warnings<'g>(
        &self,
        constraint: &Constraint,
        grammar: &'g CompiledGrammar,
    ) -> Result<&'g [Warning]> {
        let others = grammar.warnings().get(constraint.warnings().len()..).unwrap_or_default();
        match others.first() {
            Some(first) if self.json.strict => {
                Err(Error::new(ErrorKind::Unsupported, format!("not in strict mode: {first}")))
            }
            _ => Ok(others),
        }
    }

    /// Returns the constraint with the whitespace in JSON that suits a model, unless an option names
    /// one.
    pub(super) fn suited(&self, constraint: Constraint, engine: &Engine) -> Constraint {
        let policy = self.json.policy(engine.whitespace());
        if constraint.policy().whitespace == policy.whitespace {
            constraint
        } else {
            constraint.with_policy(policy)
        }
    }

    /// Returns true if the output is a JSON value.
    pub(super) fn is_json(&self) -> bool {
        self.kind.json_schema.is_some() || self.kind.json_object
    }

    /// Returns true if the output consists of labels.
    pub(super) fn has_labels(&self) -> bool {
        self.kind.labels.is_some()
    }

    /// Returns the tools.
    pub(super) fn tools(&self) -> Result<Option<&Tools>> {
        let Some(file) = &self.kind.tools else { return Ok(None) };
        let tools = match self.tools.get() {
            Some(tools) => tools,
            None => {
                let tools = self.calls.read(file, &self.json.policy(Whitespace::Compact))?;
                self.tools.get_or_init(|| tools)
            }
        };
        Ok(Some(tools))
    }

    /// Parses a reply into text and calls.
    pub(super) fn reply(&self, tools: &Tools, text: &str) -> Result<Reply> {
        tools.read(self.calls.style()?, text)
    }

    /// Returns the constraint that the options describe, and prints its warnings.
    ///
    /// # Errors
    /// If options do not belong together, or a file cannot be read or is no constraint.
    pub(super) fn constraint(&self) -> Result<Option<Constraint>> {
        self.check_options()?;
        let Some(constraint) = self.parse()? else { return Ok(None) };
        let constraint = self.json.check_warnings(constraint)?;
        output::print_warnings(constraint.warnings());
        Ok(Some(constraint))
    }

    /// # Errors
    /// If an option needs another one that is not given.
    fn check_options(&self) -> Result<()> {
        let kind = &self.kind;
        let schemas = kind.json_schema.is_some() || kind.structural_tag.is_some() || kind.grammar.is_some();
        if self.source.is_some() && !schemas {
            let message =
                "--source is of use with --json-schema, or schemas in a structural tag or a grammar";
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("for an output that is a span of a text, use --substring"));
        }
        if !self.references.is_empty() && kind.json_schema.is_none() {
            let message = "--ref and --schema-dir are of use with --json-schema only";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        if kind.labels.is_none() {
            self.labels.require_labels()?;
        }
        if kind.tools.is_none() { self.calls.require_tools() } else { Ok(()) }
    }

    fn parse(&self) -> Result<Option<Constraint>> {
        let kind = &self.kind;
        let policy = self.json.policy(Whitespace::Compact);
        let spans = if self.whole_words { SubstringOptions::words() } else { SubstringOptions::default() };
        let source = self.source.as_deref().map(read_text).transpose()?;
        let mut builder = Constraint::builder().policy(policy.clone());
        if let Some(source) = &source {
            builder = builder.source(source, &spans);
        }
        let constraint = if let Some(file) = &kind.json_schema {
            let documents = self.references.read()?;
            of_file(file, |text| documents.add_to(builder).json_schema(text))
        } else if let Some(file) = &kind.grammar {
            // Only Lark grammars can contain schemas, which copy from a source.
            of_file(file, |text| if source.is_some() { builder.lark(text) } else { builder.ebnf(text) })
        } else if let Some(file) = &kind.structural_tag {
            of_file(file, |text| builder.structural_tag(text))
        } else if let (Some(file), Some(tools)) = (&kind.tools, self.tools()?) {
            self.calls.constraint(tools, policy).map_err(|e| e.at(Place::File(file.clone())))
        } else if let Some(file) = &kind.substring {
            of_file(file, |text| Constraint::substring(text, &spans))
        } else if let Some(file) = &kind.labels {
            Ok(Constraint::labels(&self.labels.read(file)?))
        } else if let Some(regex) = &kind.regex {
            Constraint::regex(regex)
        } else if let Some(pattern) = &kind.pattern {
            Constraint::pattern(pattern)
        } else if !kind.choice.is_empty() {
            Constraint::choice(&kind.choice)
        } else if kind.json_object {
            builder.json_object()
        } else {
            return Ok(None);
        };
        constraint.map(Some)
    }
}

/// Makes a constraint of the text in a file.
fn of_file(file: &Path, make: impl FnOnce(String) -> Result<Constraint>) -> Result<Constraint> {
    make(read_text(file)?).map_err(|e| e.at(Place::File(file.into())))
}

/// Parses the value of `--whitespace`.
fn whitespace(text: &str) -> std::result::Result<WhitespaceArg, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(None),
        ("compact", _) => Ok(Some(Whitespace::Compact)),
        ("single", _) => Ok(Some(Whitespace::SingleSpace)),
        (_, Ok(max @ 1..=64)) => Ok(Some(Whitespace::Flexible { max })),
        _ => Err("must be `auto`, `compact`, `single` or a number from 1 to 64".to_owned()),
    }
}
