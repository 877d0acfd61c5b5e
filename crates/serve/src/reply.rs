//! Reader of a reply while it is written: thinking, content, and calls of tools with their arguments.
//!
//! The arguments of a call are passed on as they are written, in the styles whose calls are JSON
//! between fixed texts. Calls of other styles are read at the end, by the parser of the engine.
//!
//! # Cost
//! Linear in the reply; what may be the beginning of a marker is held back.

use ffwd_runtime::constraint::tools::{ToolCall, ToolStyle, Tools};

/// The markers around thinking.
pub(super) const THINK: [&str; 2] = ["<think>", "</think>"];
/// The beginning of a call of a custom tool, up to its name.
const CUSTOM: &str = "<custom_tool_call name=\"";
/// The text between the name of a custom tool and its input.
const CUSTOM_MID: &str = "\">\n";
/// The text after the input of a custom tool.
const CUSTOM_END: &str = "\n</custom_tool_call>";

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyPiece {
    Reasoning(String),
    Content(String),
    /// A call begins.
    Call {
        name: String,
        custom: bool,
        /// False if it is written in another spelling, so its arguments were not constrained.
        checked: bool,
    },
    /// More text of the arguments of the last call, or of its input.
    Arguments(String),
}

/// Thinking at the beginning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingFormat {
    /// There is none.
    Absent,
    /// The reply may begin with its marker.
    Optional,
    /// The reply begins inside, or with its marker.
    Certain,
}

/// The form of a reply.
#[derive(Debug, Clone)]
pub(super) struct ReplyFormat {
    pub thinking: ThinkingFormat,
    pub style: ToolStyle,
    /// The functions that the reply may call.
    pub functions: Option<Tools>,
    /// True if the reply may call custom tools.
    pub custom: bool,
}

/// The fixed texts of a call: before the name, before the arguments, after them.
type CallTexts = [&'static str; 3];

enum Phase {
    Start,
    /// Behind the marker, in white space.
    BeforeThinking,
    Thinking,
    AfterThinking,
    Content,
    AfterCall,
    Call,
    Arguments {
        json: JsonEnd,
        end: &'static str,
    },
    Input,
    CallEnd {
        end: &'static str,
    },
    /// A call whose style is read at the end.
    Whole,
    /// A reply that begins like a call in another spelling, such as bare JSON.
    Bare,
}

/// The reader.
pub(super) struct ReplyReader {
    format: ReplyFormat,
    phase: Phase,
    pending: String,
    pieces: Vec<ReplyPiece>,
    /// True once a part of the answer is certain.
    begun: bool,
}

/// Returns the text by which a call in this style begins.
pub(super) fn trigger(style: ToolStyle) -> &'static str {
    match style {
        ToolStyle::Hermes | ToolStyle::QwenCoder | ToolStyle::Glm => "<tool_call>",
        ToolStyle::Llama => "{\"name\": \"",
        ToolStyle::Mistral | ToolStyle::MistralArgs => "[TOOL_CALLS]",
        ToolStyle::MiniMax => "<minimax:tool_call>",
        ToolStyle::DeepSeek => "<｜tool▁calls▁begin｜>",
        ToolStyle::DeepSeekDsml => "<｜DSML｜function_calls>",
        ToolStyle::Kimi => "<|tool_calls_section_begin|>",
        ToolStyle::Harmony => "<|channel|>commentary to=functions.",
        ToolStyle::FunctionTag => "<function=",
    }
}

/// Returns the texts of a call in this style, if its arguments can be passed on as they are written.
fn call_texts(style: ToolStyle) -> Option<CallTexts> {
    match style {
        ToolStyle::Hermes => Some(["<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>"]),
        ToolStyle::Llama => Some(["{\"name\": \"", "\", \"parameters\": ", "}"]),
        ToolStyle::FunctionTag => Some(["<function=", ">", "</function>"]),
        _ => None,
    }
}

impl ReplyReader {
    pub(crate) fn new(format: ReplyFormat) -> Self {
        let phase = match format.thinking {
            ThinkingFormat::Absent => Phase::Content,
            ThinkingFormat::Optional | ThinkingFormat::Certain => Phase::Start,
        };
        ReplyReader { format, phase, pending: String::new(), pieces: Vec::new(), begun: false }
    }

    /// Reads more text; returns the parts that are certain.
    pub(crate) fn push(&mut self, text: &str) -> Vec<ReplyPiece> {
        self.pending.push_str(text);
        while self.step() {}
        std::mem::take(&mut self.pieces)
    }

    /// Returns the rest at the end of the reply.
    pub(crate) fn finish(&mut self) -> Vec<ReplyPiece> {
        while self.step() {}
        if matches!(self.phase, Phase::Bare) && !self.bare() {
            self.phase = Phase::Content;
            self.begun = true;
            while self.step() {}
        }
        let rest = std::mem::take(&mut self.pending);
        match self.phase {
            Phase::Thinking => self.emit(rest, ReplyPiece::Reasoning),
            Phase::Whole => self.whole(rest),
            Phase::Input => self.emit(rest, ReplyPiece::Arguments),
            // Only the end of a call is missing.
            Phase::CallEnd { .. }
            | Phase::Arguments { .. }
            | Phase::AfterCall
            | Phase::BeforeThinking
            | Phase::AfterThinking => {}
            Phase::Start | Phase::Content | Phase::Call | Phase::Bare => self.emit(rest, ReplyPiece::Content),
        }
        std::mem::take(&mut self.pieces)
    }

    fn emit(&mut self, text: String, piece: impl Fn(String) -> ReplyPiece) {
        if !text.is_empty() {
            self.pieces.push(piece(text));
        }
    }

    /// Removes the first bytes of the text that waits.
    fn take(&mut self, bytes: usize) -> String {
        let rest = self.pending.split_off(bytes);
        std::mem::replace(&mut self.pending, rest)
    }

    /// Reads on; returns false if it needs more text.
    fn step(&mut self) -> bool {
        match &mut self.phase {
            Phase::Start => self.start(),
            Phase::BeforeThinking => {
                self.pending = self.pending.trim_start().to_owned();
                let begins = !self.pending.is_empty();
                if begins {
                    self.phase = Phase::Thinking;
                }
                begins
            }
            Phase::Thinking => self.thinking(),
            Phase::AfterThinking | Phase::AfterCall => self.between(),
            Phase::Content => self.content(),
            Phase::Call => self.call(),
            Phase::Arguments { json, end } => {
                let (read, ended) = json.read(&self.pending);
                let end = *end;
                let text = self.take(read);
                self.emit(text, ReplyPiece::Arguments);
                if ended {
                    self.phase = Phase::CallEnd { end };
                }
                ended
            }
            Phase::Input => self.input(),
            Phase::CallEnd { end } => {
                let end = *end;
                if self.pending.len() < end.len() && end.starts_with(&self.pending) {
                    return false;
                }
                self.take(if self.pending.starts_with(end) { end.len() } else { 0 });
                self.phase = Phase::AfterCall;
                true
            }
            Phase::Whole | Phase::Bare => false,
        }
    }

    fn start(&mut self) -> bool {
        let text = self.pending.trim_start();
        if text.len() < THINK[0].len() && THINK[0].starts_with(text) {
            return false;
        }
        let certain = self.format.thinking == ThinkingFormat::Certain;
        let after = text.strip_prefix(THINK[0]).map(str::to_owned);
        let thinks = certain || after.is_some();
        self.phase = if thinks { Phase::BeforeThinking } else { Phase::Content };
        if let Some(after) = after {
            self.pending = after;
        }
        true
    }

    fn thinking(&mut self) -> bool {
        if let Some(at) = self.pending.find(THINK[1]) {
            let text = self.take(at);
            self.take(THINK[1].len());
            self.emit(text.trim_end().to_owned(), ReplyPiece::Reasoning);
            self.phase = Phase::AfterThinking;
            return true;
        }
        // White space in front of the marker is left out.
        let kept = self.pending.len() - held_back(&self.pending, &[THINK[1]]);
        let text = self.take(self.pending[..kept].trim_end().len());
        self.emit(text, ReplyPiece::Reasoning);
        false
    }

    /// Skips what separates two calls, or the answer from the thinking.
    fn between(&mut self) -> bool {
        let separators: &[char] = match self.phase {
            Phase::AfterCall if self.format.style == ToolStyle::Llama => &['\n', ' ', ';'],
            _ => &['\n', ' '],
        };
        self.pending = self.pending.trim_start_matches(separators).to_owned();
        if self.pending.is_empty() {
            return false;
        }
        self.phase = Phase::Content;
        true
    }

    fn content(&mut self) -> bool {
        if !self.begun && self.format.functions.is_some() {
            let text = self.pending.trim_start();
            if text.is_empty() {
                return false;
            }
            self.begun = true;
            if text.starts_with(['{', '[', '`']) && !text.starts_with(trigger(self.format.style)) {
                // The trigger may still come, or be the beginning of this text.
                let undecided = trigger(self.format.style).starts_with(text);
                self.begun = !undecided;
                self.phase = if undecided { Phase::Content } else { Phase::Bare };
                return false;
            }
        }
        let mut triggers = Vec::new();
        if self.format.functions.is_some() {
            triggers.push(trigger(self.format.style));
        }
        if self.format.custom {
            triggers.push(CUSTOM);
        }
        let found = triggers.iter().filter_map(|trigger| self.pending.find(trigger)).min();
        let end = found.unwrap_or_else(|| self.pending.len() - held_back(&self.pending, &triggers));
        let text = self.take(end);
        self.emit(text, ReplyPiece::Content);
        if found.is_some() {
            self.phase = Phase::Call;
        }
        found.is_some()
    }

    fn call(&mut self) -> bool {
        let custom = self.format.custom && self.pending.starts_with(CUSTOM);
        let texts = match custom {
            true => Some([CUSTOM, CUSTOM_MID, CUSTOM_END]),
            false => call_texts(self.format.style),
        };
        let Some([open, mid, end]) = texts else {
            self.phase = Phase::Whole;
            return false;
        };
        if self.pending.len() < open.len() && open.starts_with(&self.pending) {
            return false;
        }
        let Some(rest) = self.pending.strip_prefix(open) else {
            self.phase = Phase::Whole;
            return false;
        };
        let Some(length) = rest.find(mid) else { return false };
        let name = rest[..length].to_owned();
        self.take(open.len() + length + mid.len());
        self.pieces.push(ReplyPiece::Call { name, custom, checked: true });
        self.phase = if custom { Phase::Input } else { Phase::Arguments { json: JsonEnd::default(), end } };
        true
    }

    /// Reads the input of a custom tool.
    fn input(&mut self) -> bool {
        let found = self.pending.find(CUSTOM_END);
        let end = found.unwrap_or_else(|| self.pending.len() - held_back(&self.pending, &[CUSTOM_END]));
        let text = self.take(end);
        self.emit(text, ReplyPiece::Arguments);
        if found.is_some() {
            self.phase = Phase::CallEnd { end: CUSTOM_END };
        }
        found.is_some()
    }

    /// Reads calls in another spelling; returns false, with nothing read, if there are none.
    fn bare(&mut self) -> bool {
        if self.pending.contains(trigger(self.format.style)) {
            return false;
        }
        let read = self.format.functions.as_ref().and_then(|tools| tools.read_other(&self.pending));
        let Some(reply) = read.filter(|reply| !reply.calls.is_empty()) else { return false };
        self.pending.clear();
        self.emit(reply.text.trim().to_owned(), ReplyPiece::Content);
        self.calls(reply.calls, false);
        true
    }

    fn calls(&mut self, calls: Vec<ToolCall>, checked: bool) {
        for ToolCall { name, arguments } in calls {
            self.pieces.push(ReplyPiece::Call { name, custom: false, checked });
            self.pieces.push(ReplyPiece::Arguments(arguments));
        }
    }

    /// Reads calls that were kept to the end.
    fn whole(&mut self, text: String) {
        let read = self.format.functions.as_ref().map(|tools| tools.read(self.format.style, &text));
        match read {
            Some(Ok(reply)) => {
                self.emit(reply.thoughts, ReplyPiece::Reasoning);
                self.emit(reply.text, ReplyPiece::Content);
                self.calls(reply.calls, true);
            }
            // A call that was cut cannot be read.
            _ => self.emit(text, ReplyPiece::Content),
        }
    }
}

/// Finds the end of a JSON object or array that arrives in parts.
#[derive(Debug, Default)]
struct JsonEnd {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonEnd {
    /// Reads more text of a value. Returns the number of bytes that belong to it, and whether it has
    /// ended.
    fn read(&mut self, text: &str) -> (usize, bool) {
        for (i, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (i + 1, true);
                    }
                }
                _ => {}
            }
        }
        (text.len(), false)
    }
}

/// Returns the length of the longest end of a text with which one of the marks may begin.
fn held_back(text: &str, marks: &[&str]) -> usize {
    let longest = |mark: &str| {
        let starts = mark.char_indices().map(|(at, _)| at).skip(1);
        starts.filter(|&at| text.ends_with(&mark[..at])).max().unwrap_or(0)
    };
    marks.iter().map(|mark| longest(mark)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn joined(pieces: Vec<ReplyPiece>) -> Vec<ReplyPiece> {
        let mut all: Vec<ReplyPiece> = Vec::new();
        for piece in pieces {
            match (all.last_mut(), piece) {
                (Some(ReplyPiece::Reasoning(last)), ReplyPiece::Reasoning(text))
                | (Some(ReplyPiece::Content(last)), ReplyPiece::Content(text))
                | (Some(ReplyPiece::Arguments(last)), ReplyPiece::Arguments(text)) => last.push_str(&text),
                (_, piece) => all.push(piece),
            }
        }
        all
    }

    /// Reads a reply in all divisions into two parts, and byte by byte; all must agree.
    fn read(format: &ReplyFormat, text: &str) -> Vec<ReplyPiece> {
        let divided = |parts: &[&str]| {
            let mut reader = ReplyReader::new(format.clone());
            let mut pieces: Vec<ReplyPiece> = parts.iter().flat_map(|part| reader.push(part)).collect();
            pieces.extend(reader.finish());
            joined(pieces)
        };
        let whole = divided(&[text]);
        for at in text.char_indices().map(|(at, _)| at) {
            assert_eq!(divided(&[&text[..at], &text[at..]]), whole, "{at}");
        }
        let single: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(divided(&single.iter().map(String::as_str).collect::<Vec<_>>()), whole);
        whole
    }

    fn format(style: ToolStyle) -> ReplyFormat {
        let list = r#"[{"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]"#;
        let functions = Some(Tools::parse(list).unwrap());
        ReplyFormat { thinking: ThinkingFormat::Optional, style, functions, custom: true }
    }

    fn shown(piece: &ReplyPiece) -> Value {
        match piece {
            ReplyPiece::Reasoning(text) => json!(["reasoning", text]),
            ReplyPiece::Content(text) => json!(["content", text]),
            ReplyPiece::Call { name, custom, checked } => json!(["call", name, custom, checked]),
            ReplyPiece::Arguments(text) => json!(["arguments", text]),
        }
    }

    /// Replies of several styles, in other spellings, and cut: style, text, and the pieces that are read, of
    /// which empty contents do not count.
    #[test]
    fn replies_are_read_in_their_pieces() {
        for line in include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/replies.jsonl")).lines() {
            let (style, text, want): (String, String, Vec<Value>) = serde_json::from_str(line).unwrap();
            let style = ToolStyle::ALL.into_iter().find(|s| format!("{s:?}") == style).unwrap();
            let pieces = read(&format(style), &text);
            let found = pieces.iter().map(shown).filter(|piece| *piece != json!(["content", ""]));
            assert_eq!(found.collect::<Vec<_>>(), want, "{line}");
        }
    }
}
