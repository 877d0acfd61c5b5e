//! `ffwd generate`: text under a constraint.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{ConstraintArgs, DecodeArgs, ModelArgs};
use super::multi_output::{self, SeveralArgs};
use super::output;
use crate::chat::{ChatOptions, Message};
use crate::constraint::tools::{Reply, ToolCall};
use crate::decode::{Finish, Output, Prompt, Request};
use crate::error::{Error, ErrorKind, Result};

/// Arguments of `ffwd generate`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ffwd generate 'Call me at ' --regex '[0-9]{3}-[0-9]{4}'\n  \
    ffwd generate 'Is this spam? Buy now!' --choice spam --choice 'not spam'\n  \
    ffwd generate 'Name a colour' --model path/to/SmolLM2-135M-Instruct --chat --system 'Be brief.'\n  \
    ffwd generate 'Please pay 200 EUR.\n\nTopics:' --labels topics.txt --labels-separator ', ' --max-labels 3\n  \
    ffwd generate 'How warm is it in Oslo?' --model path/to/Qwen3 --chat --tools tools.json --calls\n  \
    ffwd generate 'Ada: ' --pattern \"UPPER LOWER{2,8} '.'\" --temperature 0.8 --seed 3")]
pub(super) struct Args {
    /// What the model reads before it writes
    prompt: String,
    /// Put the prompt into the turns of a chat, by the model's chat template (ChatML if it has none)
    #[arg(long)]
    chat: bool,
    /// What the model is told before the chat; implies --chat
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Print the text as it is generated
    #[arg(long)]
    stream: bool,
    /// Let the model write freely up to this text, and only then under the constraint; without --stream
    /// only what follows it is printed
    #[arg(long, value_name = "TEXT")]
    think_until: Option<String>,
    /// Most tokens before that text, which is then put there
    #[arg(long, value_name = "N", default_value_t = 256, requires = "think_until")]
    think_budget: usize,
    /// Print a reply with tools as JSON: its `thoughts`, if there are any, its `text`, and the `calls`, each with a
    /// `name` and `arguments`
    #[arg(long, requires = "tools", conflicts_with_all = ["stream", "best_of", "beams"])]
    calls: bool,
    /// Where to write the figures as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    #[command(flatten)]
    several: SeveralArgs,
    #[command(flatten)]
    constraint: ConstraintArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    models: ModelArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.decode.sampling_is_valid()?;
    let constraint = args.constraint.constraint()?;
    let tools = args.constraint.tools()?;
    let marks = constraint.iter().flat_map(|constraint| constraint.ir().marks.clone());
    let engine = args.models.engine_with(marks.chain(args.think_until.clone()).collect())?;
    let prompt = match args.chat || args.system.is_some() {
        false => Prompt::text(&args.prompt),
        true => {
            let system = args.system.iter().map(Message::system);
            let messages: Vec<Message> = system.chain([Message::user(&args.prompt)]).collect();
            let tools = tools.map(|tools| tools.1.clone()).unwrap_or_default();
            engine.chat_prompt(&messages, &ChatOptions::with_tools(tools))?
        }
    };
    let mut request = args.decode.apply(Request::new(prompt));
    let constrained = constraint.is_some();
    if let Some(constraint) = constraint {
        let grammar = engine.compiler().compile(&constraint)?;
        for warning in args.constraint.compiled(&constraint, &grammar)? {
            eprintln!("warning: {warning}");
        }
        request = match args.think_until.is_none() {
            true => request.grammar(grammar),
            false => request.constraint(constraint),
        };
    }
    if let Some(end) = &args.think_until {
        request = request.think_until(end, args.think_budget);
    }
    if let Some(ranked) = args.several.outputs(&engine, &request)? {
        let shown = |output: &Output| shown(args, output);
        return multi_output::print(&ranked, constrained, args.stats.as_deref(), &shown);
    }
    let mut written = Ok(());
    let output = match args.stream {
        false => engine.generate(&request)?,
        true => engine.generate_streaming(&request, &mut |text| {
            if written.is_ok() {
                written = output::print_text(text);
            }
        })?,
    };
    written?;
    if args.stream {
        output::print_text("\n")?;
    }
    let whole = if constrained { is_not_cut(&output) } else { Ok(()) };
    if !args.stream && whole.is_ok() {
        let text = shown(args, &output);
        match tools.filter(|_| args.calls) {
            Some((tools, _)) => {
                let mut reply = args.constraint.reply(tools, &text)?;
                if let Some(end) = &args.think_until {
                    reply.thoughts.insert_str(0, thoughts(&output, end));
                }
                output::line(&as_json(&reply)?)?;
            }
            None => output::line(&text)?,
        }
    }
    if whole.is_ok() && !matches!(output.finish, Finish::Stop) {
        eprintln!("ended by {}", output.finish.name());
    }
    // Of an output that was cut, too: the figures may say why.
    output::print_summary(&output.stats);
    if let Some(path) = &args.stats {
        output::write_stats(path, &output.stats)?;
    }
    whole.map(|()| ExitCode::SUCCESS)
}

/// What stands in front of the answer and of the marker `end` that ends thinking.
fn thoughts<'o>(output: &'o Output, end: &str) -> &'o str {
    let answer = output.answer.as_deref().unwrap_or_default();
    let before = output.text.strip_suffix(answer).unwrap_or_default();
    before.strip_suffix(end).unwrap_or(before)
}

/// A reply as JSON, with the arguments of its calls as objects.
fn as_json(reply: &Reply) -> Result<String> {
    #[derive(Serialize)]
    struct Call<'a> {
        name: &'a str,
        arguments: Box<RawValue>,
    }
    #[derive(Serialize)]
    struct Shown<'a> {
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
    serde_json::to_string(&Shown { thoughts: &reply.thoughts, text: &reply.text, calls }).map_err(json)
}

/// The text of an output as it is printed.
fn shown(args: &Args, output: &Output) -> String {
    let text = output.answer.as_deref().unwrap_or(&output.text);
    // The space in front of a label belongs to its tokens.
    if args.constraint.has_labels() { text.trim_start().into() } else { text.into() }
}

/// # Errors
/// If the token limit left the output incomplete.
pub(super) fn is_not_cut(output: &Output) -> Result<()> {
    let Finish::Length { path, .. } = &output.finish else { return Ok(()) };
    if output.complete {
        return Ok(());
    }
    let message =
        format!("after {} tokens the output ends inside #{path}: {:?}", output.stats.tokens, output.text);
    Err(Error::new(ErrorKind::Incomplete, message).hint(
        "raise --max-tokens, bound the constraint (`{1,40}` instead of `+`), or add --close-before-limit",
    ))
}
