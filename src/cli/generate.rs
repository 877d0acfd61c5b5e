//! `ffwd generate`: one text under a constraint, or several, as text, stream or calls of tools.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{ConstraintArgs, DecodeArgs, ModelArgs, ValueArgs};
use super::multi_output::{self, MultiOutputArgs};
use super::{help, output};
use crate::chat::{ChatOptions, Message};
use crate::constraint::Policy;
use crate::constraint::tools::{Reply, ToolCall, Tools};
use crate::decode::{Engine, Finish, Output, Prompt, Request};
use crate::error::{Error, ErrorKind, Result};

const EXAMPLES: [(&str, &str); 6] = [
    ("Match a regular expression", "ffwd generate 'Call me at ' --regex '[0-9]{3}-[0-9]{4}'"),
    ("Choose one of two texts", "ffwd generate 'Is this spam? Buy now!' -c spam -c 'not spam'"),
    (
        "Chat with a model",
        "ffwd generate 'Name a color' --model path/to/SmolLM2-135M-Instruct --chat \\\n  \
            --system 'Be brief.'",
    ),
    (
        "Choose up to three labels",
        "ffwd generate 'Please pay 200 EUR. Topics:' --labels topics.txt \\\n  \
            --labels-separator ', ' --max-labels 3",
    ),
    (
        "Call tools, and print the calls as JSON",
        "ffwd generate 'How warm is it in Oslo?' --model path/to/Qwen3 --chat \\\n  \
            --tools tools.json --calls",
    ),
    (
        "Sample a sentence of a fixed form",
        "ffwd generate 'Ada: ' --pattern \"UPPER LOWER{2,8} '.'\" --temperature 0.8 --seed 3",
    ),
];

/// Generate text under a constraint
///
/// The text goes to standard output, statistics to standard error. Without a constraint, the model
/// writes freely.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Continue this text, or answer it with --chat
    prompt: String,
    /// Put the prompt into a chat, by the model's chat template (ChatML if it has none)
    #[arg(long)]
    chat: bool,
    /// Set the system message of the chat; implies --chat
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Read special tokens such as <|im_start|> in the prompt as plain text
    ///
    /// Without --chat, the texts of special tokens in the prompt are these tokens. In a chat they
    /// are always text.
    #[arg(long)]
    split_special_tokens: bool,
    /// Print the text while it is generated
    #[arg(long)]
    stream: bool,
    /// Let the model write freely up to TEXT, and apply the constraint after it
    ///
    /// Without --stream, only the text after TEXT is printed.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    think_until: Option<String>,
    /// Insert the text of --think-until after N tokens at the latest
    #[arg(long, value_name = "N", default_value_t = 256, requires = "think_until")]
    think_budget: usize,
    /// Print a reply with tools as JSON, with `thoughts`, `text` and `calls`
    ///
    /// `thoughts` is left out if there are none. Each call has a `name` and `arguments`.
    #[arg(long, requires = "tools", conflicts_with_all = ["stream", "best_of", "beams"])]
    calls: bool,
    /// Write statistics as JSON to FILE (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    #[command(flatten)]
    outputs: MultiOutputArgs,
    #[command(flatten)]
    constraint: ConstraintArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    models: ModelArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.decode.validate()?;
    let constraint = args.constraint.constraint()?;
    let tools = args.constraint.tools()?;
    let marks = constraint.iter().flat_map(|constraint| constraint.ir().marks.clone());
    let engine = args.models.engine_with(marks.chain(args.think_until.clone()).collect())?;
    let bound = constraint.is_some() && args.think_until.is_none();
    let mut request = args.decode.apply(Request::new(prompt(args, &engine, tools, bound)?));
    if args.constraint.is_json() {
        request = args.values.apply(request);
    }
    let constrained = constraint.is_some();
    if let Some(constraint) = constraint.map(|constraint| args.constraint.suited(constraint, &engine)) {
        let grammar = engine.compiler().compile(&constraint)?;
        output::print_warnings(args.constraint.vocabulary_warnings(&constraint, &grammar)?);
        request = match args.think_until.is_none() {
            true => request.grammar(grammar),
            false => request.constraint(constraint),
        };
    }
    if let Some(end) = &args.think_until {
        request = request.think_until(end, args.think_budget);
    }
    if let Some(ranked) = args.outputs.generate(&engine, &request)? {
        let text_of = |output: &Output| printed_text(args, output);
        return multi_output::print(&ranked, constrained, args.stats.as_deref(), &text_of);
    }
    let output = match args.stream {
        false => engine.generate(&request)?,
        true => stream(&engine, &request)?,
    };
    let complete = if constrained { require_complete(&output) } else { Ok(()) };
    if !args.stream {
        print_output(args, &output, tools)?;
    }
    for message in output::value_messages(&output.stats) {
        eprintln!("{message}");
    }
    if complete.is_ok() && !matches!(output.finish, Finish::Stop) {
        eprintln!("ended by {}", output.finish.name());
    }
    // Also for an incomplete output: the statistics may explain it.
    output::print_summary(&output.stats);
    if let Some(path) = &args.stats {
        output::write_stats(path, &output.stats)?;
    }
    complete.map(|()| ExitCode::SUCCESS)
}

/// Returns the prompt: the text as it is, or put into a chat. With `bound`, a constraint leaves no room for
/// thinking.
fn prompt(args: &Args, engine: &Engine, tools: Option<&Tools>, bound: bool) -> Result<Prompt> {
    if args.chat || args.system.is_some() {
        let system = args.system.iter().map(Message::system);
        let messages: Vec<Message> = system.chain([Message::user(&args.prompt)]).collect();
        let tools = tools.map(Tools::for_prompt).unwrap_or_default();
        let options = ChatOptions::with_tools(tools);
        let options = if bound { options.without_thinking(engine.vocabulary()) } else { options };
        return engine.chat_prompt(&messages, &options);
    }
    if tools.is_some() {
        eprintln!(
            "warning: the model does not see the tools: without --chat the prompt is sent as it is; add --chat, \
             or describe the tools in the prompt"
        );
    }
    Ok(match args.split_special_tokens {
        true => Prompt::text(&args.prompt),
        false => Prompt::raw(&args.prompt),
    })
}

/// Generates an output and prints its text meanwhile.
fn stream(engine: &Engine, request: &Request) -> Result<Output> {
    let mut written = Ok(());
    let output = engine.generate_streaming(request, &mut |text| {
        if written.is_ok() {
            written = output::print_text(text);
        }
    })?;
    written.and_then(|()| output::print_text("\n")).map(|()| output)
}

/// Prints the text of an output, or its calls as JSON.
fn print_output(args: &Args, output: &Output, tools: Option<&Tools>) -> Result<()> {
    let text = printed_text(args, output);
    let other = tools.and_then(|tools| other_reply(args, tools, &text));
    let Some(tools) = tools.filter(|_| args.calls) else {
        // An output that was cut while the model thinks has no answer.
        return if output.answer.is_some() { output::print_line(&text) } else { Ok(()) };
    };
    let read = other.map_or_else(|| args.constraint.reply(tools, &text), Ok);
    let mut reply = match read {
        // A call that was cut cannot be read.
        Err(_) if !output.complete => Reply { thoughts: String::new(), text, calls: Vec::new() },
        read => read?,
    };
    if let Some(end) = &args.think_until {
        reply.thoughts.insert_str(0, thoughts(output, end));
    }
    output::print_line(&as_json(&reply)?)
}

/// Returns the text before the answer, without the marker `end` that ends thinking.
fn thoughts<'o>(output: &'o Output, end: &str) -> &'o str {
    let answer = output.answer.as_deref().unwrap_or_default();
    let before = output.text.strip_suffix(answer).unwrap_or_default();
    before.strip_suffix(end).unwrap_or(before)
}

/// Returns a reply with calls in another spelling than the style has, if it has no others, and says
/// so.
fn other_reply(args: &Args, tools: &Tools, text: &str) -> Option<Reply> {
    if args.constraint.reply(tools, text).is_ok_and(|reply| !reply.calls.is_empty()) {
        return None;
    }
    let reply = tools.read_other(text, &Policy::default())?;
    let what = if args.calls { "was read" } else { "is in the text (--calls reads it)" };
    eprintln!(
        "note: a call in another spelling {what}; the right --tool-style, or --tool-choice required, keeps \
         calls in one"
    );
    Some(reply)
}

/// Returns a reply as JSON, with the arguments of its calls as objects.
fn as_json(reply: &Reply) -> Result<String> {
    #[derive(Serialize)]
    struct Call<'a> {
        name: &'a str,
        arguments: Box<RawValue>,
    }
    #[derive(Serialize)]
    struct Printed<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        thoughts: &'a str,
        text: &'a str,
        calls: Vec<Call<'a>>,
    }
    let json = |e: serde_json::Error| Error::new(ErrorKind::InvalidReply, e.to_string());
    let mut calls = Vec::with_capacity(reply.calls.len());
    for ToolCall { name, arguments } in &reply.calls {
        calls.push(Call { name, arguments: RawValue::from_string(arguments.clone()).map_err(json)? });
    }
    serde_json::to_string(&Printed { thoughts: &reply.thoughts, text: &reply.text, calls }).map_err(json)
}

/// Returns the text of an output as it is printed.
fn printed_text(args: &Args, output: &Output) -> String {
    let text = output.answer.as_deref().unwrap_or_default();
    // The space before a label is a part of its tokens.
    if args.constraint.has_labels() { text.trim_start().into() } else { text.into() }
}

/// # Errors
/// If the output does not satisfy its constraint: the token limit or a stop ended it.
pub(super) fn require_complete(output: &Output) -> Result<()> {
    if output.complete {
        return Ok(());
    }
    let tokens = output.stats.tokens;
    let (message, hint) = match &output.finish {
        Finish::StopText { stop } => (
            format!(
                "after {tokens} tokens the stop text {stop:?} ends the output before its constraint does"
            ),
            "leave out --stop: the constraint says where an output ends",
        ),
        Finish::StopToken { token } => (
            format!(
                "after {tokens} tokens the stop token {token} ends the output before its constraint does"
            ),
            "leave out --stop-token: the constraint says where an output ends",
        ),
        _ if output.answer.is_none() => (
            format!("after {tokens} tokens the output ends before the text of --think-until"),
            "raise --max-tokens, or lower --think-budget",
        ),
        Finish::Length { path, .. } => (
            format!("after {tokens} tokens the output ends inside #{path}"),
            "raise --max-tokens, bound the constraint (`{1,40}` instead of `+`), or add --close-before-limit",
        ),
        finish => (
            format!("after {tokens} tokens the output ends by {}", finish.name()),
            "the constraint says where an output ends",
        ),
    };
    Err(Error::new(ErrorKind::Incomplete, message).hint(hint))
}
