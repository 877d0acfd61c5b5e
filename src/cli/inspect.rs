//! `ffwd inspect`: what the engine sees at a point of the output.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::args::ConstraintArgs;
use super::output;
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::{Compiler, Matcher};
use crate::vocab::{TokenId, Vocabulary};

/// Arguments of `ffwd inspect`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ffwd inspect --json-schema invoice.schema.json\n  \
    ffwd inspect --json-schema invoice.schema.json --prefix '{\"vendor\":\"A' --json\n  \
    ffwd inspect --regex '(ab|cd)+' --prefix ab --tokenizer tokenizer.json")]
pub(super) struct Args {
    #[command(flatten)]
    constraint: ConstraintArgs,
    /// The output so far
    #[arg(long, default_value = "", value_name = "TEXT")]
    prefix: String,
    /// A Hugging Face tokenizer.json [default: that of the embedded models]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    prefix: String,
    prefix_tokens: usize,
    vocabulary: usize,
    legal_tokens: usize,
    /// A few legal tokens: the longest that begin with each possible byte.
    examples: Vec<Token>,
    forced_text: String,
    forced_bytes: Vec<u8>,
    forced_tokens: Vec<Token>,
    accepting: bool,
    terminated: bool,
    in_string: bool,
    path: String,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Token {
    id: TokenId,
    text: String,
}

/// Most tokens shown.
const MAX_SHOWN: usize = 24;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let Some(constraint) = args.constraint.constraint()? else {
        return Err(Error::new(ErrorKind::InvalidOption, "no constraint was given").hint(
            "use one of --json-schema, --regex, --choice, --pattern, --grammar, --substring, --json-object",
        ));
    };
    let vocab = match &args.tokenizer {
        Some(file) => Vocabulary::from_file(file)?,
        None => embedded_vocabulary()?,
    };
    let grammar = Compiler::new(vocab.clone()).compile(&constraint)?;
    let mut matcher = grammar.matcher();
    advance(&mut matcher, &vocab, &args.prefix)?;
    let report = report(&mut matcher, &vocab, &args.prefix);
    if args.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|e| Error::new(ErrorKind::Io, format!("the report cannot be written as JSON: {e}")))?;
        output::line(&text)?;
    } else {
        output::line(&table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "embedded")]
fn embedded_vocabulary() -> Result<Vocabulary> {
    crate::model::embedded::vocabulary()
}

#[cfg(not(feature = "embedded"))]
fn embedded_vocabulary() -> Result<Vocabulary> {
    Err(Error::new(ErrorKind::InvalidOption, "this build has no embedded tokenizer")
        .hint("name one with --tokenizer"))
}

/// Takes the prefix token by token as the tokenizer writes it; where the constraint forbids it, says
/// after how much.
fn advance(matcher: &mut Matcher, vocab: &Vocabulary, prefix: &str) -> Result<()> {
    let tokens = vocab.encode(prefix)?;
    let legal = matcher.validate_tokens(&tokens);
    for &token in &tokens[..legal] {
        matcher.accept_token(token)?;
    }
    if legal == tokens.len() {
        return Ok(());
    }
    let before = String::from_utf8_lossy(&vocab.decode(&tokens[..legal])).into_owned();
    let bad = String::from_utf8_lossy(vocab.token_bytes(tokens[legal])).into_owned();
    let message = format!("the constraint forbids {bad:?} after {before:?}");
    Err(Error::new(ErrorKind::IllegalToken, message).hint(format!(
        "possible there: {}",
        examples(matcher, vocab).iter().map(|t| format!("{:?}", t.text)).collect::<Vec<_>>().join(" ")
    )))
}

fn report(matcher: &mut Matcher, vocab: &Vocabulary, prefix: &str) -> Report {
    let token = |&id: &TokenId| Token { id, text: text_of(vocab, id) };
    let forced_bytes = matcher.forced_bytes();
    let forced_tokens = matcher.drafted_forced_tokens(None);
    Report {
        prefix: prefix.into(),
        prefix_tokens: matcher.num_accepted(),
        vocabulary: vocab.len(),
        legal_tokens: matcher.legal_count(),
        examples: examples(matcher, vocab),
        forced_text: String::from_utf8_lossy(&forced_bytes).into_owned(),
        forced_bytes,
        forced_tokens: forced_tokens.iter().map(token).collect(),
        accepting: matcher.is_accepting(),
        terminated: matcher.is_terminated(),
        in_string: matcher.in_string(),
        path: matcher.path(),
        warnings: matcher.grammar().warnings().to_vec(),
    }
}

/// The longest legal token for each first byte: what can come next, at a glance.
fn examples(matcher: &mut Matcher, vocab: &Vocabulary) -> Vec<Token> {
    let mut row = vec![0; vocab.bitmask_words()];
    matcher.fill_bitmask(&mut row);
    let mut longest: std::collections::BTreeMap<u8, TokenId> = std::collections::BTreeMap::new();
    for id in (0..vocab.len() as TokenId).filter(|&t| row[t as usize / 32] >> (t % 32) & 1 == 1) {
        let Some(&first) = vocab.token_bytes(id).first() else { continue };
        let best = longest.entry(first).or_insert(id);
        if vocab.token_bytes(id).len() > vocab.token_bytes(*best).len() {
            *best = id;
        }
    }
    let ends = vocab.eos().iter().copied().filter(|&t| row[t as usize / 32] >> (t % 32) & 1 == 1);
    let tokens = ends.chain(longest.into_values()).take(MAX_SHOWN);
    tokens.map(|id| Token { id, text: text_of(vocab, id) }).collect()
}

fn text_of(vocab: &Vocabulary, id: TokenId) -> String {
    match vocab.token_bytes(id) {
        [] => vocab.token_text(id).unwrap_or_default(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn table(r: &Report) -> String {
    let list =
        |tokens: &[Token]| tokens.iter().map(|t| format!("{:?}", t.text)).collect::<Vec<_>>().join(" ");
    let yes = |b: bool| if b { "yes" } else { "no" };
    let forced = if r.forced_bytes.is_empty() {
        "nothing".to_string()
    } else {
        format!("{:?} ({} bytes, {} tokens)", r.forced_text, r.forced_bytes.len(), r.forced_tokens.len())
    };
    let mut lines = vec![
        format!("prefix         {:?} ({} tokens)", r.prefix, r.prefix_tokens),
        format!("legal tokens   {} of {}", r.legal_tokens, r.vocabulary),
        format!("such as        {}", list(&r.examples)),
        format!("forced         {forced}"),
    ];
    if !r.forced_tokens.is_empty() {
        lines.push(format!("in tokens      {}", list(&r.forced_tokens)));
    }
    lines.push(format!("may end here   {}", yes(r.accepting)));
    lines.push(format!("must end here  {}", yes(r.terminated)));
    lines.push(format!("in a string    {}", yes(r.in_string)));
    lines.push(format!("path           #{}", r.path));
    lines.extend(r.warnings.iter().map(|w| format!("warning        {w}")));
    lines.join("\n")
}
