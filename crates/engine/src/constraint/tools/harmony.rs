//! Tool calls in replies that consist of messages in channels: the harmony format of gpt-oss.
//!
//! The prompt ends before the header of the first message. Each message except the last ends with
//! [`NEXT`], after which the header of the next one follows. A message in `analysis` is a thought.
//! One in `commentary` is for the user or calls a function. One in `final` is the answer.
//!
//! The last message ends with `<|return|>` or `<|call|>`. That is an end token of the generation
//! and not text, so the format ends before it. A call ends the reply, so there is only one. Replies
//! with several calls, from logs, are read as well.
//!
//! # Cost
//!
//! The cost of a structural tag with two sets of tags. Reading is linear in the reply.
//!
//! # Alternatives considered
//!
//! Writing the end token as text where it ends nothing was rejected: an output would then be
//! complete only after letters for which the model has a separate token.

use serde_json::{Value, json};

use super::parse_reply::Reader;
use super::reply::{Calls, ToolCall};
use super::tool::Tool;
use crate::error::Result;

/// Special tokens; the text of a message contains none of their texts.
const SPECIAL: [&str; 7] = [CHANNEL, MESSAGE, END, RETURN, CALL, CONSTRAIN, "<|start|>"];

const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
const RETURN: &str = "<|return|>";
const CALL: &str = "<|call|>";
/// Header of the next message.
const NEXT: &str = "<|start|>assistant";
/// Prefix of the name of a function.
const TO: &str = " to=functions.";

/// Returns the format of a reply. First come thoughts, and text for the user if no call is
/// required. Then comes one of these calls or, under the same condition, an answer.
pub(super) fn format(calls: Vec<Value>, choice: &Calls) -> Value {
    let message = |channel: &str, end: &str| {
        json!({"begin": format!("{CHANNEL}{channel}{MESSAGE}"), "end": end,
            "content": {"type": "any_text", "excludes": SPECIAL}})
    };
    let next = format!("{END}{NEXT}");
    let (mut before, mut last) = (vec![message("analysis", &next)], calls);
    if *choice == Calls::Auto {
        before.push(message("commentary", &next));
        last.push(message("final", ""));
    }
    let one = |tags: Vec<Value>| {
        json!({"type": "tags_with_separator", "tags": tags, "separator": "", "at_least_one": true,
            "stop_after_first": true})
    };
    json!({"type": "sequence", "elements": [{"type": "star", "content": one(before)}, one(last)]})
}

/// Kinds of messages by what may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HarmonyMessage {
    /// Another message must follow.
    Open,
    /// The reply may end after it.
    Last,
    /// The reply must end after it.
    Returned,
}

/// Parses a reply into thoughts, texts for the user, and calls.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<()> {
    // It belongs to the prompt, but some logs contain it.
    reader.skip(NEXT);
    loop {
        let message = message(reader)?;
        if message != HarmonyMessage::Open && reader.rest().is_empty() {
            return Ok(());
        }
        if message == HarmonyMessage::Returned {
            return Err(reader.fault("the end of the reply"));
        }
        reader.expect(NEXT)?;
    }
}

fn message(reader: &mut Reader<'_>) -> Result<HarmonyMessage> {
    let mut called = recipient(reader)?;
    reader.skip_white();
    reader.expect(CHANNEL)?;
    let Some(channel) = ["analysis", "commentary", "final"].into_iter().find(|name| reader.skip(name)) else {
        return Err(reader.fault("the name of a channel"));
    };
    // The models write the recipient here or before the channel.
    if called.is_none() {
        called = recipient(reader)?;
    }
    // The type of the content, a word such as `json`, adds no information.
    let before = reader.at;
    reader.skip_white();
    if reader.skip(CONSTRAIN) || reader.at > before {
        reader.at += reader.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
    }
    reader.expect(MESSAGE)?;
    match called {
        Some(tool) => call(reader, tool),
        None => text(reader, channel),
    }
}

/// Parses the function to which a message is sent; `None` if it has no recipient.
fn recipient<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a Tool>> {
    if !reader.skip(TO) {
        return Ok(None);
    }
    let rest = reader.rest();
    let name = rest.split(|c: char| c == '<' || c.is_whitespace()).next().unwrap_or(rest);
    let Some(tool) = reader.tools.iter().find(|tool| tool.name == name) else {
        return Err(reader.fault("the name of a tool"));
    };
    reader.at += name.len();
    Ok(Some(tool))
}

fn call(reader: &mut Reader<'_>, tool: &Tool) -> Result<HarmonyMessage> {
    let arguments = reader.json()?.to_owned();
    reader.out.calls.push(ToolCall { name: tool.name.clone(), arguments });
    reader.skip_white();
    if !reader.rest().is_empty() {
        reader.expect(CALL)?;
    }
    Ok(HarmonyMessage::Last)
}

fn text(reader: &mut Reader<'_>, channel: &str) -> Result<HarmonyMessage> {
    let rest = reader.rest();
    // In one pass: a separate search for each special token would read the whole reply at every
    // message.
    let special = |&(at, _): &(usize, &str)| SPECIAL.iter().any(|special| rest[at..].starts_with(special));
    let end = rest.match_indices("<|").find(special).map_or(rest.len(), |found| found.0);
    reader.at += end;
    let to = if channel == "analysis" { &mut reader.out.thoughts } else { &mut reader.out.text };
    let between = if to.is_empty() { "" } else { "\n" };
    to.extend([between, &rest[..end]]);
    match channel == "final" {
        true if reader.rest().is_empty() => Ok(HarmonyMessage::Last),
        true if reader.skip(RETURN) => Ok(HarmonyMessage::Returned),
        // Answers of previous turns end like this.
        last => {
            reader.expect(END)?;
            Ok(if last { HarmonyMessage::Last } else { HarmonyMessage::Open })
        }
    }
}
