//! `ffwd inspect`: a report on the state of a constraint after a prefix.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::args::ConstraintArgs;
use super::{help, output};
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::{Compiler, GrammarSizes, Matcher, Verdict};
use crate::vocab::{TokenId, Vocabulary};

const EXAMPLES: [(&str, &str); 6] = [
    ("Show the state at the start", "ffwd inspect --json-schema invoice.schema.json"),
    (
        "Show the state after a prefix, as JSON",
        "ffwd inspect -s invoice.schema.json --prefix '{\"vendor\":\"A' --json",
    ),
    (
        "Explain why a text may not follow",
        "ffwd inspect -s invoice.schema.json --after '{\"invoice_number\":\"INV-1' \\\n  \
            --why '\",\"total'",
    ),
    (
        "Use the tokenizer of another model",
        "ffwd inspect --regex '(ab|cd)+' --prefix ab --tokenizer tokenizer.json",
    ),
    ("Use the tokenizer in a GGUF file", "ffwd inspect --json-object --tokenizer model.gguf"),
    (
        "Explain a label of a hierarchy",
        "ffwd inspect --labels topics.txt --prefix ' Technology' --why ' > AI'",
    ),
];

/// Show what a constraint allows after a prefix: tokens, forced run, end
///
/// The report also has the shortest completion, the JSON pointer of the value at this point, and
/// the size of the automaton. No model runs; only a tokenizer is needed.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Inspect the state after TEXT, the output so far
    #[arg(
        long,
        visible_alias = "after",
        default_value = "",
        value_name = "TEXT",
        allow_hyphen_values = true
    )]
    prefix: String,
    /// Explain why this token, or any other text, may or may not follow
    #[arg(long, value_name = "TOKEN_TEXT", allow_hyphen_values = true)]
    why: Option<String>,
    /// Read the tokenizer from a tokenizer.json, a GGUF file or the folder of a model [default:
    /// that of the embedded models]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    constraint: ConstraintArgs,
}

#[derive(Serialize)]
struct Report {
    prefix: String,
    prefix_tokens: usize,
    vocabulary: usize,
    legal_tokens: usize,
    /// Some legal tokens: the longest for each first byte.
    examples: Vec<Token>,
    forced_text: String,
    forced_bytes: Vec<u8>,
    forced_tokens: Vec<Token>,
    accepting: bool,
    terminated: bool,
    in_string: bool,
    path: String,
    /// The shortest text that completes the output; none if the search exceeds its limit.
    completion: Option<String>,
    /// The state of a constraint over tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    sizes: Sizes,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Why>,
    warnings: Vec<String>,
}

/// Sizes of the automaton and its caches that exist now; use adds more.
#[derive(Serialize)]
struct Sizes {
    #[serde(flatten)]
    grammar: GrammarSizes,
    /// Memory of this grammar, without what all grammars share.
    bytes: usize,
}

/// Explanation for a text that may or may not follow.
#[derive(Serialize)]
struct Why {
    text: String,
    /// The tokens with exactly this text; none if it takes several tokens.
    tokens: Vec<TokenId>,
    legal: bool,
    reason: String,
    bytes: usize,
    bytes_that_fit: usize,
    fits: String,
    expected_bytes: Vec<u8>,
    expected: Vec<Token>,
    may_end_there: bool,
    path_there: String,
    /// The state of a constraint over tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    state_there: Option<String>,
}

#[derive(Serialize)]
struct Token {
    id: TokenId,
    text: String,
}

/// Maximum number of example tokens.
const MAX_EXAMPLES: usize = 24;
/// Maximum number of characters in the table of the shortest completion.
const MAX_COMPLETION_CHARS: usize = 200;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let Some(constraint) = args.constraint.constraint()? else {
        return Err(Error::new(ErrorKind::InvalidOption, "no constraint was given").hint(
            "use one of --json-schema, --regex, --choice, --pattern, --grammar, --substring, --labels, --json-object",
        ));
    };
    let vocab = vocabulary_or_embedded(args.tokenizer.as_deref())?.with_markers(&constraint.ir().marks)?;
    let grammar = Compiler::new(vocab.clone()).compile(&constraint)?;
    // Only for the error in strict mode: the report contains the warnings.
    args.constraint.vocabulary_warnings(&constraint, &grammar)?;
    let mut matcher = grammar.matcher();
    advance(&mut matcher, &vocab, &args.prefix)?;
    let mut report = report(&mut matcher, &vocab, &args.prefix);
    report.why = args.why.as_ref().map(|text| why(&matcher, &vocab, text));
    output::print_report(&report, args.json, table)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the vocabulary that an option names, or that of the embedded models.
pub(super) fn vocabulary_or_embedded(path: Option<&Path>) -> Result<Vocabulary> {
    path.map_or_else(embedded_vocabulary, vocabulary)
}

/// Reads the vocabulary from a tokenizer file, a GGUF file or the folder of a model, as `--model`
/// does.
fn vocabulary(path: &Path) -> Result<Vocabulary> {
    let is_gguf = || {
        let mut magic = [0; 4];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == *b"GGUF"
    };
    match path.is_dir() || is_gguf() {
        true => crate::model::vocabulary_of(path),
        false => Vocabulary::from_file(path),
    }
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

/// Accepts the tokens of the prefix.
///
/// # Errors
/// With the text up to the first token that the constraint forbids.
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
        state: matcher.explain_bytes(b"").state,
        sizes: Sizes { grammar: matcher.grammar().sizes(), bytes: matcher.grammar().memory().total() },
        why: None,
        warnings: matcher.grammar().warnings().iter().map(ToString::to_string).collect(),
        // Last, because the search adds to the sizes.
        completion: completion(matcher, vocab),
    }
}

fn completion(matcher: &Matcher, vocab: &Vocabulary) -> Option<String> {
    let bytes = match matcher.is_token_level() {
        true => vocab.decode(&matcher.token_completion()?),
        false => matcher.shortest_completion(usize::MAX)?,
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the longest legal token for each first byte.
fn examples(matcher: &mut Matcher, vocab: &Vocabulary) -> Vec<Token> {
    tokens_of(vocab, &matcher.example_tokens(MAX_EXAMPLES))
}

fn tokens_of(vocab: &Vocabulary, ids: &[TokenId]) -> Vec<Token> {
    ids.iter().map(|&id| Token { id, text: text_of(vocab, id) }).collect()
}

fn why(matcher: &Matcher, vocab: &Vocabulary, text: &str) -> Why {
    // The name of a special token means that token; any other text means its bytes.
    let special = vocab.token_id(text).filter(|&t| vocab.is_special(t));
    let trie = vocab.trie();
    let tokens = match special {
        Some(id) => vec![id],
        None => trie.find(text.as_bytes()).map_or(vec![], |node| trie.tokens_at(node).to_vec()),
    };
    let found = match special {
        Some(id) => matcher.explain(id),
        None => matcher.explain_bytes(text.as_bytes()),
    };
    Why {
        text: text.into(),
        tokens,
        legal: found.verdict == Verdict::Legal,
        reason: found.reason(),
        bytes: if special.is_some() { 0 } else { text.len() },
        bytes_that_fit: found.fits,
        fits: String::from_utf8_lossy(&text.as_bytes()[..found.fits.min(text.len())]).into_owned(),
        expected: tokens_of(vocab, &found.examples),
        expected_bytes: found.expected,
        may_end_there: found.may_end,
        path_there: found.path,
        state_there: found.state,
    }
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
    if let Some(text) = r.completion.as_ref().filter(|text| !text.is_empty()) {
        let shown: String = text.chars().take(MAX_COMPLETION_CHARS).collect();
        let more = if shown.len() < text.len() { "..." } else { "" };
        lines.push(format!("shortest end   {shown:?}{more} ({} bytes)", text.len()));
    }
    lines.push(format!("may end here   {}", yes(r.accepting)));
    lines.push(format!("must end here  {}", yes(r.terminated)));
    let s = &r.sizes.grammar;
    if let Some(state) = &r.state {
        lines.push(format!("state          {state}"));
        lines.push(format!("tables         {} configurations, {} masks", s.configurations, s.masks));
    } else {
        lines.push(format!("in a string    {}", yes(r.in_string)));
        lines.push(format!("path           #{}", r.path));
        lines.push(format!(
            "states         {} + {} deterministic, {} stacks, {} configurations",
            s.nfa_states, s.dfa_states, s.stack_nodes, s.configurations
        ));
        lines.push(format!(
            "masks          {} whole, {} of states, {} after returns",
            s.masks, s.local_masks, s.masks_after_returns
        ));
    }
    lines.push(format!("memory         {:.1} kB", r.sizes.bytes as f64 / 1000.0));
    if let Some(why) = &r.why {
        lines.extend(why_lines(why, list(&why.expected)));
    }
    lines.extend(r.warnings.iter().map(|w| format!("warning        {w}")));
    lines.join("\n")
}

fn why_lines(why: &Why, expected: String) -> Vec<String> {
    let tokens = match why.tokens[..] {
        [] => "not one token".into(),
        [id] => format!("token {id}"),
        _ => format!("tokens {:?}", why.tokens),
    };
    let mut lines = vec![
        format!("why            {:?} ({tokens}): {}", why.text, why.reason),
        format!("fits           {} of {} bytes: {:?}", why.bytes_that_fit, why.bytes, why.fits),
    ];
    let place = if why.legal { "behind it     " } else { "legal there   " };
    let end = if why.may_end_there { "the end" } else { "nothing" };
    lines.push(format!("{place} {}", if expected.is_empty() { end } else { &expected }));
    match &why.state_there {
        Some(state) => lines.push(format!("state there    {state}")),
        None => lines.push(format!("path there     #{}", why.path_there)),
    }
    lines
}
