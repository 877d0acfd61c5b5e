//! Replies that are messages in channels: gpt-oss.
//!
//! The prompt ends where the header of a message begins, and so does each message but the last with [`NEXT`]. A message in
//! `analysis` is a thought, one in `commentary` is for the user or calls a function, one in `final` is the answer.
//!
//! What ends the last message, `<|return|>` or `<|call|>`, is an end token of the generation and no text, so what is written
//! here ends in front of it. Writing it as text where it ends nothing was rejected: an output would then be complete only
//! behind letters for which the model has a token of its own. A call ends the reply, so there is one; replies with several,
//! from logs, are read all the same. Cost: that of a structural tag with two sets of tags, linear in the reply for reading.

use serde_json::{Value, json};

use super::parse_reply::Reader;
use super::{Calls, Tool, ToolCall};
use crate::error::Result;

/// Special tokens: none of their texts is in the text of a message.
const SPECIAL: [&str; 7] = [CHANNEL, MESSAGE, END, RETURN, CALL, CONSTRAIN, "<|start|>"];

const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
const RETURN: &str = "<|return|>";
const CALL: &str = "<|call|>";
/// How the next message begins.
const NEXT: &str = "<|start|>assistant";
/// In front of the name of a function.
const TO: &str = " to=functions.";

/// The format of a reply: thoughts, and text for the user where no call is demanded; then one of these calls or, there
/// again, an answer.
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

/// What a message was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    /// One behind which another must come.
    Open,
    /// One behind which the reply may end.
    Last,
    /// One behind which it must.
    Returned,
}

/// Takes a reply apart into thoughts, texts for the user, and calls.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<()> {
    // It is of the prompt, but some logs have it.
    reader.skip(NEXT);
    loop {
        let message = message(reader)?;
        if message != Message::Open && reader.rest().is_empty() {
            return Ok(());
        }
        if message == Message::Returned {
            return Err(reader.fault("the end of the reply"));
        }
        reader.expect(NEXT)?;
    }
}

fn message(reader: &mut Reader<'_>) -> Result<Message> {
    let mut called = recipient(reader)?;
    reader.skip_white();
    reader.expect(CHANNEL)?;
    let Some(channel) = ["analysis", "commentary", "final"].into_iter().find(|name| reader.skip(name)) else {
        return Err(reader.fault("the name of a channel"));
    };
    // The models write it here or in front of the channel.
    if called.is_none() {
        called = recipient(reader)?;
    }
    // The type of what follows, a word such as `json`, which says nothing that is not known.
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

/// The function to which a message is sent, if it is.
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

fn call(reader: &mut Reader<'_>, tool: &Tool) -> Result<Message> {
    let arguments = reader.json()?.to_owned();
    reader.out.calls.push(ToolCall { name: tool.name.clone(), arguments });
    reader.skip_white();
    if !reader.rest().is_empty() {
        reader.expect(CALL)?;
    }
    Ok(Message::Last)
}

fn text(reader: &mut Reader<'_>, channel: &str) -> Result<Message> {
    let rest = reader.rest();
    // In one pass: looking for each of them would read the whole reply for one that is not there, at every message.
    let special = |&(at, _): &(usize, &str)| SPECIAL.iter().any(|special| rest[at..].starts_with(special));
    let end = rest.match_indices("<|").find(special).map_or(rest.len(), |found| found.0);
    reader.at += end;
    let to = if channel == "analysis" { &mut reader.out.thoughts } else { &mut reader.out.text };
    let between = if to.is_empty() { "" } else { "\n" };
    to.extend([between, &rest[..end]]);
    match channel == "final" {
        true if reader.rest().is_empty() => Ok(Message::Last),
        true if reader.skip(RETURN) => Ok(Message::Returned),
        // Answers of earlier turns end so.
        last => {
            reader.expect(END)?;
            Ok(if last { Message::Last } else { Message::Open })
        }
    }
}
