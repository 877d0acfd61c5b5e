//! Argument groups that several subcommands share.

use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::labels::LabelOptions;
use super::schema_refs::ReferenceArgs;
use super::tools::{ToolOptions, tools};
use crate::chat::ChatTemplate;
use crate::constraint::json_schema::JsonSchema;
use crate::constraint::substring::SubstringOptions;
use crate::constraint::tools::{Reply, Tools};
use crate::constraint::{Constraint, KeyOrder, Policy, Whitespace};
use crate::decode::{Engine, Mode, Request};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::matcher::CompiledGrammar;
#[cfg(feature = "hub")]
use crate::model::hub::FetchOptions;
use crate::model::{LoadOptions, Precision};
use crate::sample::SamplingParams;
use crate::vocab::TokenId;

/// Largest text read from a file or standard input.
const MAX_INPUT: u64 = 64 << 20;

/// Which models run.
#[derive(Args)]
#[command(next_help_heading = "Models")]
pub(super) struct ModelArgs {
    /// A folder (config.json, weights, tokenizer.json) or a GGUF file; with the `hub` feature also
    /// owner/name [default: the embedded model]
    #[arg(long, value_name = "FOLDER|GGUF")]
    model: Option<String>,
    /// A small model with the same tokenizer that drafts, or `none` [default: the embedded one, if the
    /// model is embedded]
    #[arg(long, value_name = "FOLDER|GGUF|none")]
    draft_model: Option<String>,
    /// How weights are held: as in the file, or as f32, q8_0 or q4_k
    #[arg(long, value_name = "stored|f32|q8_0|q4_k", default_value = "stored")]
    precision: Precision,
    /// A file with a chat template (Jinja), instead of the model's own
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// With the `hub` feature: the branch, tag or commit of the model
    #[cfg(feature = "hub")]
    #[arg(long, value_name = "NAME")]
    revision: Option<String>,
    /// With the `hub` feature: use models in the cache only
    #[cfg(feature = "hub")]
    #[arg(long)]
    offline: bool,
}

impl ModelArgs {
    pub(super) fn engine(&self) -> Result<Engine> {
        self.engine_with(Vec::new())
    }

    /// An engine for outputs with these markers.
    pub(super) fn engine_with(&self, markers: Vec<String>) -> Result<Engine> {
        let mut builder =
            Engine::builder().options(LoadOptions::with_precision(self.precision)).markers(markers);
        if let Some(model) = &self.model {
            builder = builder.model(self.locate(model, true)?);
        }
        if let Some(file) = &self.chat_template {
            let template = ChatTemplate::new(&read(file)?).map_err(|e| e.at(Place::File(file.clone())))?;
            builder = builder.chat_template(template);
        }
        builder = match self.draft_model.as_deref() {
            None => builder,
            Some("none") => builder.without_draft_model(),
            Some(draft) => builder.draft_model(self.locate(draft, false)?),
        };
        builder.build()
    }

    /// A local path, or with the `hub` feature the folder a repository was fetched to; the revision is that
    /// of the target.
    #[cfg_attr(not(feature = "hub"), allow(unused_variables))]
    fn locate(&self, model: &str, target: bool) -> Result<PathBuf> {
        let path = PathBuf::from(model);
        if path.exists() {
            return Ok(path);
        }
        #[cfg(feature = "hub")]
        if model.split('/').count() == 2 && !model.starts_with(['.', '/']) {
            let revision = self.revision.as_deref().filter(|_| target);
            let options = FetchOptions { offline: self.offline, ..FetchOptions::default() };
            return crate::model::hub::fetch(model, revision, &options);
        }
        Err(missing(path))
    }
}

fn missing(path: PathBuf) -> Error {
    Error::new(ErrorKind::Io, "no such file or folder")
        .at(Place::File(path))
        .hint("name a folder or a GGUF file; repository names need a build with `--features hub`")
}

/// A token and its bias, as `15=-2.5`.
fn bias(text: &str) -> Result<(TokenId, f32), String> {
    let parsed = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is not a token and a number, such as 15=-2.5 or 15=-inf"))
}

/// How the output is decoded.
#[derive(Args)]
#[command(next_help_heading = "Decoding")]
pub(super) struct DecodeArgs {
    /// off: one forward per token; exact: drafts, each verified, the same text as off; canonical and
    /// longest: forced text unverified
    #[arg(long, default_value = "exact", value_name = "off|exact|canonical|longest")]
    mode: Mode,
    /// Copy values from the text into drafts (default)
    #[arg(long, overrides_with = "no_lookup")]
    lookup: bool,
    /// Do not copy values from the text into drafts
    #[arg(long)]
    no_lookup: bool,
    /// Tell on standard error why drafts were as long as they were; with --stats, as JSON, too
    #[arg(long)]
    explain_gate: bool,
    /// 0 takes the most probable token; 1 samples as the model says
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Sample from the fewest tokens with this probability in all
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Sample from this many most probable tokens
    #[arg(long)]
    top_k: Option<usize>,
    /// Sample from tokens with at least this share of the best one's probability
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    min_p: f32,
    /// Divides the logits of tokens that occurred; 1 does nothing
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    repetition_penalty: f32,
    /// Taken from the logit of each token that occurred
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    presence_penalty: f32,
    /// Taken from a token's logit for each time it occurred
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    frequency_penalty: f32,
    /// Added to the logit of a token; `-inf` forbids it; repeat the option for more
    #[arg(long, value_name = "ID=X", value_parser = bias)]
    logit_bias: Vec<(TokenId, f32)>,
    /// End in front of this text; repeat the option for more
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// End in front of this token; repeat the option for more
    #[arg(long, value_name = "ID")]
    stop_token: Vec<TokenId>,
    /// Close the output by a short completion when the token limit is near
    #[arg(long)]
    close_before_limit: bool,
    /// Seed of the random numbers; the same seed gives the same text
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Most output tokens
    #[arg(long, default_value_t = 512)]
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

    pub(super) fn sampling_is_valid(&self) -> Result<()> {
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

/// What the output must satisfy: one of these.
#[derive(Args)]
#[command(next_help_heading = "Constraint (at most one)")]
#[group(multiple = false)]
pub(super) struct ConstraintKind {
    /// A file with a JSON Schema
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
    /// A file with a structural tag: tool calls in free text
    #[arg(long, value_name = "FILE")]
    structural_tag: Option<PathBuf>,
    /// A file with functions that may be called: a JSON array of objects with a `name` and `parameters`, as clients of
    /// chat servers send them
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// A regular expression for the whole output (syntax of Rust's regex crate)
    #[arg(long, value_name = "RE")]
    regex: Option<String>,
    /// One of several texts; repeat the option
    #[arg(long, value_name = "TEXT")]
    choice: Vec<String>,
    /// Character classes and literals, such as "UPPER+ ':' ' ' LOWER+"
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<String>,
    /// A file with a context-free grammar, in GBNF (`root ::= ...`) or a subset of Lark (`start: ...`)
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
    /// A file with a text of which the output is a span
    #[arg(long, value_name = "FILE")]
    substring: Option<PathBuf>,
    /// A file with labels, of which the output is one (or several, with --labels-separator): a label on
    /// each line, a JSON array, or a JSON tree of paths
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Any JSON object
    #[arg(long)]
    json_object: bool,
}

/// A constraint and how it may be spelled.
#[derive(Args)]
pub(super) struct ConstraintArgs {
    #[command(flatten)]
    kind: ConstraintKind,
    /// A file with the text that `"x-verbatim": true` in the JSON Schema means
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Spans of --substring and --source begin and end at words
    #[arg(long)]
    whole_words: bool,
    #[command(flatten)]
    spelling: SpellingArgs,
    #[command(flatten)]
    labels: LabelOptions,
    #[command(flatten)]
    calls: ToolOptions,
    /// What the file of tools held, which may be standard input.
    #[arg(skip)]
    tools: OnceCell<(Tools, Vec<Value>)>,
    #[command(flatten)]
    references: ReferenceArgs,
}

/// How the JSON of an output may be spelled, and what becomes of warnings.
#[derive(Args)]
pub(super) struct SpellingArgs {
    /// Whitespace in JSON: none (as the embedded models know it), one blank behind each comma and colon, or at
    /// most N characters at one place (1 to 64)
    #[arg(long, value_name = "compact|single|N", default_value = "compact", value_parser = whitespace)]
    whitespace: Whitespace,
    /// Accept the properties of JSON objects in any order, not only in that of the schema
    #[arg(long)]
    any_order: bool,
    /// Accept `1.0` where the schema has 1, and integers with zeros behind the point
    #[arg(long)]
    equal_numbers: bool,
    /// Refuse what there would be a warning for: formats that are not known, misspelled keywords
    #[arg(long)]
    strict: bool,
}

impl SpellingArgs {
    pub(super) fn policy(&self) -> Policy {
        let key_order = if self.any_order { KeyOrder::Any } else { KeyOrder::Declared };
        let (whitespace, equal_numbers) = (self.whitespace, self.equal_numbers);
        Policy { whitespace, key_order, equal_numbers, ..Policy::default() }
    }

    /// The constraint, without warnings if they are to be errors.
    pub(super) fn checked(&self, constraint: Constraint) -> Result<Constraint> {
        if self.strict { constraint.strict() } else { Ok(constraint) }
    }
}

impl ConstraintArgs {
    /// What there is to warn of once the vocabulary is known; what concerns the constraint itself was told before.
    ///
    /// # Errors
    /// In strict mode, if there is anything.
    pub(super) fn compiled<'g>(
        &self,
        constraint: &Constraint,
        grammar: &'g CompiledGrammar,
    ) -> Result<&'g [String]> {
        let others = grammar.warnings().get(constraint.warnings().len()..).unwrap_or_default();
        match others.first() {
            Some(first) if self.spelling.strict => {
                Err(Error::new(ErrorKind::Unsupported, format!("not in strict mode: {first}")))
            }
            _ => Ok(others),
        }
    }

    /// Whether the output is made of labels.
    pub(super) fn has_labels(&self) -> bool {
        self.kind.labels.is_some()
    }

    /// The tools that may be called, and the same for the prompt.
    pub(super) fn tools(&self) -> Result<Option<&(Tools, Vec<Value>)>> {
        let Some(file) = &self.kind.tools else { return Ok(None) };
        let known = match self.tools.get() {
            Some(known) => known,
            None => {
                let read = tools(file)?;
                self.tools.get_or_init(|| read)
            }
        };
        Ok(Some(known))
    }

    /// The calls in a reply.
    pub(super) fn reply(&self, tools: &Tools, text: &str) -> Result<Reply> {
        tools.read(self.calls.style()?, text)
    }

    pub(super) fn constraint(&self) -> Result<Option<Constraint>> {
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
        if kind.tools.is_none() {
            self.calls.require_tools()?;
        }
        let policy = self.spelling.policy();
        let spans = if self.whole_words { SubstringOptions::words() } else { SubstringOptions::default() };
        let source = self.source.as_deref().map(read).transpose()?;
        let constraint = if let Some(file) = &kind.json_schema {
            let text = read(file)?;
            let documents = self.references.read()?;
            let mut schema = documents.supply(JsonSchema::new(&text)).policy(policy);
            if let Some(source) = &source {
                schema = schema.quoting(source, &spans);
            }
            schema.constraint().map_err(|e| e.at(Place::File(file.clone())))?
        } else if let Some(file) = &kind.grammar {
            let text = read(file)?;
            let made = match &source {
                Some(source) => Constraint::lark_quoting(&text, policy, source, &spans),
                None => Constraint::ebnf_with(&text, policy),
            };
            made.map_err(|e| e.at(Place::File(file.clone())))?
        } else if let Some(file) = &kind.structural_tag {
            let text = read(file)?;
            let made = match &source {
                Some(source) => Constraint::structural_tag_quoting(&text, policy, source, &spans),
                None => Constraint::structural_tag_with(&text, policy),
            };
            made.map_err(|e| e.at(Place::File(file.clone())))?
        } else if let Some(file) = &kind.tools {
            // There are tools where there is a file of them.
            let made = self.tools()?.map(|(tools, _)| self.calls.constraint(tools, policy)).transpose();
            match made.map_err(|e| e.at(Place::File(file.clone())))? {
                Some(constraint) => constraint,
                None => return Ok(None),
            }
        } else if let Some(file) = &kind.substring {
            let text = read(file)?;
            Constraint::substring(&text, &spans).map_err(|e| e.at(Place::File(file.clone())))?
        } else if let Some(file) = &kind.labels {
            Constraint::labels(&self.labels.read(file)?)
        } else if let Some(regex) = &kind.regex {
            Constraint::regex(regex)?
        } else if let Some(pattern) = &kind.pattern {
            Constraint::pattern(pattern)?
        } else if !kind.choice.is_empty() {
            Constraint::choice(&kind.choice)?
        } else if kind.json_object {
            Constraint::json_object().with_policy(policy)
        } else {
            return Ok(None);
        };
        let constraint = self.spelling.checked(constraint)?;
        for warning in constraint.warnings() {
            eprintln!("warning: {warning}");
        }
        Ok(Some(constraint))
    }
}

/// A policy of whitespace by its name on the command line.
fn whitespace(text: &str) -> std::result::Result<Whitespace, String> {
    match (text, text.parse()) {
        ("compact", _) => Ok(Whitespace::Compact),
        ("single", _) => Ok(Whitespace::SingleSpace),
        (_, Ok(max @ 1..=64)) => Ok(Whitespace::Flexible { max }),
        _ => Err("must be `compact`, `single` or a number from 1 to 64".to_owned()),
    }
}

/// Reads a UTF-8 text; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<String> {
    let fail = |e: &std::io::Error| Error::io(path, e);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    } else {
        let file = std::fs::File::open(path).map_err(|e| fail(&e))?;
        file.take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    }
    if bytes.len() as u64 > MAX_INPUT {
        let message = format!("the input is larger than {} MiB", MAX_INPUT >> 20);
        return Err(Error::new(ErrorKind::TooComplex, message).at(Place::File(path.into())));
    }
    String::from_utf8(bytes).map_err(|e| {
        let message = format!("not UTF-8 from byte {}", e.utf8_error().valid_up_to());
        Error::new(ErrorKind::Io, message).at(Place::File(path.into())).hint("convert the file to UTF-8")
    })
}
