//! Reader of a reply while it is written: thinking, content, and calls of tools with their arguments.
//!
//! The arguments of a call are passed on as they are written, in the styles whose calls are JSON
//! between fixed texts. Calls of other styles are read at the end, by the parser of the engine.
//!
//! # Cost
//! Linear in the reply; what may be the beginning of a marker is held back. The marks of a call are
//! never content: what a cut leaves of a call is left out.

use ffwd_runtime::constraint::Policy;
use ffwd_runtime::constraint::tools::{StrayCall, ToolCall, ToolStyle, Tools};

/// The markers around thinking.
pub(super) const THINK: [&str; 2] = ["<think>", "</think>"];
/// The beginning of a call of a custom tool, up to its name.
const CUSTOM: &str = "<custom_tool_call name=\"";
/// The text between the name of a custom tool and its input.
const CUSTOM_MID: &str = "\">\n";
/// The text after the input of a custom tool.
const CUSTOM_END: &str = "\n</custom_tool_call>";
/// The texts that begin the header of a message in harmony.
const HEADERS: [&str; 3] = ["<|channel|>", "<|start|>", " to=functions."];
/// The end of such a header.
const MESSAGE: &str = "<|message|>";
/// The texts that end such a message.
const MESSAGE_ENDS: [&str; 5] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"];

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyPiece {
    Reasoning(String),
    Content(String),
    /// A call begins.
    Call {
        name: String,
        custom: bool,
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
    /// What arguments that are read at the end must satisfy, besides their schema.
    pub policy: Policy,
    /// True if the reply may call custom tools.
    pub custom: bool,
    /// Calls in other spellings: anywhere, and at the beginning or behind a call.
    pub strays: [Vec<StrayCall>; 2],
}

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
    /// Before or in the header of a message in harmony.
    Header,
    /// The text of a message in harmony.
    Message {
        thought: bool,
    },
}

/// The reader.
pub(super) struct ReplyReader {
    format: ReplyFormat,
    phase: Phase,
    pending: String,
    pieces: Vec<ReplyPiece>,
    /// True once a part of the answer is certain.
    begun: bool,
    /// For harmony: whether there was a message of the answer, and one of the thinking.
    messages: [bool; 2],
}

impl ReplyReader {
    pub(crate) fn new(format: ReplyFormat) -> Self {
        let channels = format.style == ToolStyle::Harmony;
        let phase = match format.thinking {
            ThinkingFormat::Absent if channels && format.functions.is_some() => Phase::Header,
            ThinkingFormat::Absent => Phase::Content,
            _ if channels => Phase::Header,
            ThinkingFormat::Optional | ThinkingFormat::Certain => Phase::Start,
        };
        ReplyReader {
            format,
            phase,
            pending: String::new(),
            pieces: Vec::new(),
            begun: false,
            messages: [false; 2],
        }
    }

    /// Reads more text; returns the parts that are certain.
    pub(crate) fn push(&mut self, text: &str) -> Vec<ReplyPiece> {
        self.pending.push_str(text);
        while self.step() {}
        std::mem::take(&mut self.pieces)
    }

    /// Returns the rest at the end of the reply. With `cut`, a limit or a stop text ended it, so the
    /// beginning of a mark is one.
    pub(crate) fn finish(&mut self, cut: bool) -> Vec<ReplyPiece> {
        while self.step() {}
        if matches!(self.phase, Phase::Bare) && !self.bare() {
            self.phase = Phase::Content;
            self.begun = true;
            if cut && self.begins_call() {
                self.pending.clear();
            }
            while self.step() {}
        }
        let undecided = matches!(self.phase, Phase::Content) && !self.begun;
        if cut && undecided && self.begins_call() {
            self.pending.clear();
        }
        let mut rest = std::mem::take(&mut self.pending);
        let marks = self.marks();
        if cut && !marks.is_empty() {
            rest.truncate(rest.len() - held_back(&rest, &marks));
        }
        match self.phase {
            Phase::Thinking | Phase::Message { thought: true } => self.emit(rest, ReplyPiece::Reasoning),
            Phase::Whole => self.whole(&rest),
            Phase::Input => self.emit(rest, ReplyPiece::Arguments),
            // Only the end of a call is missing, or most of it.
            Phase::CallEnd { .. }
            | Phase::Arguments { .. }
            | Phase::AfterCall
            | Phase::BeforeThinking
            | Phase::AfterThinking
            | Phase::Call
            | Phase::Header => {}
            Phase::Start | Phase::Content | Phase::Bare | Phase::Message { thought: false } => {
                self.emit(rest, ReplyPiece::Content);
            }
        }
        std::mem::take(&mut self.pieces)
    }

    /// Returns the texts that end the part that is read.
    fn marks(&self) -> Vec<&str> {
        match self.phase {
            Phase::Start => vec![THINK[0]],
            Phase::Thinking => vec![THINK[1]],
            Phase::Input => vec![CUSTOM_END],
            Phase::Message { .. } => MESSAGE_ENDS.to_vec(),
            Phase::Content | Phase::Whole => {
                let functions = self.format.functions.as_ref().map(|_| self.format.style.trigger());
                let strays = self.format.strays[0].iter().map(|call| call.begin.as_str());
                functions.into_iter().chain(self.format.custom.then_some(CUSTOM)).chain(strays).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if the text that waits is the beginning of a call in another spelling.
    fn begins_call(&self) -> bool {
        let bare: String = self.pending.chars().filter(|c| !c.is_whitespace()).collect();
        let bare = bare.trim_start_matches('`').trim_start_matches("json").trim_start_matches('[');
        let begins = |name: &str| {
            let call = format!("{{\"name\":\"{name}\"");
            call.starts_with(bare) || bare.starts_with(&call)
        };
        self.format.functions.as_ref().is_some_and(|tools| tools.names().any(begins))
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
                let channels = self.format.style == ToolStyle::Harmony && end.is_empty();
                self.phase = if channels { Phase::Header } else { Phase::AfterCall };
                true
            }
            Phase::Header => self.header(),
            Phase::Message { thought } => {
                let thought = *thought;
                self.message(thought)
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

    /// Begins a call in another spelling if it is written here; `None` if it may still be one.
    fn stray_begins(&mut self) -> Option<bool> {
        let calls = || self.format.strays.iter().flatten();
        let Some(call) = calls().find(|call| self.pending.starts_with(&call.begin)) else {
            return (!calls().any(|call| call.begin.starts_with(&self.pending))).then_some(false);
        };
        let (length, name, end) = (call.begin.len(), call.name.clone(), call.end);
        self.take(length);
        self.pieces.push(ReplyPiece::Call { name, custom: false });
        self.phase = Phase::Arguments { json: JsonEnd::default(), end };
        Some(true)
    }

    /// Skips what separates two calls, or the answer from the thinking.
    fn between(&mut self) -> bool {
        if matches!(self.phase, Phase::AfterCall) && !self.pending.is_empty() {
            match self.stray_begins() {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
        }
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
        if let (false, Some(tools)) = (self.begun, &self.format.functions) {
            let other = tools.other_may_begin(&self.pending);
            if self.pending.trim_start().is_empty() {
                return false;
            }
            match self.stray_begins() {
                None => return false,
                Some(begins) => {
                    self.begun = true;
                    if begins {
                        return true;
                    }
                }
            }
            let text = self.pending.trim_start();
            if other && !text.starts_with(self.format.style.trigger()) {
                // The trigger may still come, or be the beginning of this text.
                let undecided = self.format.style.trigger().starts_with(text);
                self.begun = !undecided;
                self.phase = if undecided { Phase::Content } else { Phase::Bare };
                return false;
            }
        }
        let triggers = self.marks();
        let found = triggers.iter().filter_map(|trigger| self.pending.find(trigger)).min();
        let end = found.unwrap_or_else(|| self.pending.len() - held_back(&self.pending, &triggers));
        let text = self.take(end);
        self.emit(text, ReplyPiece::Content);
        if found.is_some() && self.stray_begins() != Some(true) {
            self.phase = Phase::Call;
        }
        found.is_some()
    }

    fn call(&mut self) -> bool {
        let custom = self.format.custom && self.pending.starts_with(CUSTOM);
        let texts = match custom {
            true => Some([CUSTOM, CUSTOM_MID, CUSTOM_END]),
            false => self.format.style.call_texts(),
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
        self.pieces.push(ReplyPiece::Call { name, custom });
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

    /// Reads the header of a message in harmony: its channel, or the function that it calls.
    fn header(&mut self) -> bool {
        let text = self.pending.trim_start_matches(['\n', '\r']);
        let ended = ["<|end|>", "<|call|>", "<|return|>"].iter().find_map(|end| text.strip_prefix(end));
        if let Some(rest) = ended {
            self.pending = rest.to_owned();
            return true;
        }
        let is_header = HEADERS.iter().any(|header| header.starts_with(text) || text.starts_with(header));
        if !is_header && !MESSAGE_ENDS.iter().any(|end| end.starts_with(text)) {
            // Without channels, such as an answer under a constraint.
            self.phase = Phase::Content;
            return true;
        }
        let Some(length) = text.find(MESSAGE) else { return false };
        let (head, rest) = (text[..length].to_owned(), text[length + MESSAGE.len()..].to_owned());
        self.pending = rest;
        let word = |c: char| c == '<' || c.is_whitespace();
        let called =
            head.split_once("to=functions.").map(|(_, name)| name.split(word).next().unwrap_or(name));
        if let Some(name) = called {
            self.pieces.push(ReplyPiece::Call { name: name.to_owned(), custom: false });
            self.phase = Phase::Arguments { json: JsonEnd::default(), end: "" };
            return true;
        }
        let thought = head.contains("<|channel|>analysis");
        self.phase = Phase::Message { thought };
        // A line for each message.
        let between =
            if std::mem::replace(&mut self.messages[usize::from(thought)], true) { "\n" } else { "" };
        self.emit(between.to_owned(), if thought { ReplyPiece::Reasoning } else { ReplyPiece::Content });
        true
    }

    /// Reads the text of a message in harmony.
    fn message(&mut self, thought: bool) -> bool {
        let found = MESSAGE_ENDS.iter().filter_map(|end| self.pending.find(end)).min();
        let end = found.unwrap_or_else(|| self.pending.len() - held_back(&self.pending, &MESSAGE_ENDS));
        let text = self.take(end);
        self.emit(text, if thought { ReplyPiece::Reasoning } else { ReplyPiece::Content });
        if found.is_some() {
            self.phase = Phase::Header;
        }
        found.is_some()
    }

    /// Reads calls in another spelling; returns false, with nothing read, if there are none.
    fn bare(&mut self) -> bool {
        // Calls that were constrained are read where the text is.
        let strays = &self.format.strays[0];
        if self.pending.contains(self.format.style.trigger())
            || strays.iter().any(|call| self.pending.contains(&call.begin))
        {
            return false;
        }
        let policy = &self.format.policy;
        let read = self.format.functions.as_ref().and_then(|tools| tools.read_other(&self.pending, policy));
        let Some(reply) = read else { return false };
        self.pending.clear();
        self.emit(reply.text.trim().to_owned(), ReplyPiece::Content);
        self.calls(reply.calls);
        true
    }

    fn calls(&mut self, calls: Vec<ToolCall>) {
        for ToolCall { name, arguments } in calls {
            self.pieces.push(ReplyPiece::Call { name, custom: false });
            self.pieces.push(ReplyPiece::Arguments(arguments));
        }
    }

    /// Reads calls that were kept to the end. One that was cut cannot be read, and is left out.
    fn whole(&mut self, text: &str) {
        let Some(tools) = &self.format.functions else { return };
        let reply = tools.read_beginning(self.format.style, text);
        // White space between two calls, the second of which is cut, is none either.
        self.emit(reply.text.trim_end().to_owned(), ReplyPiece::Content);
        self.calls(reply.calls);
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
    use ffwd_runtime::constraint::tools::{Calls, ToolChoice};
    use ffwd_runtime::matcher::Compiler;
    use ffwd_runtime::vocab::Vocabulary;
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
    fn read(format: &ReplyFormat, text: &str, cut: bool) -> Vec<ReplyPiece> {
        let divided = |parts: &[&str]| {
            let mut reader = ReplyReader::new(format.clone());
            let mut pieces: Vec<ReplyPiece> = parts.iter().flat_map(|part| reader.push(part)).collect();
            pieces.extend(reader.finish(cut));
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
        let strays = Default::default();
        let policy = Policy::default();
        ReplyFormat { thinking: ThinkingFormat::Optional, style, functions, policy, custom: true, strays }
    }

    fn shown(piece: &ReplyPiece) -> Value {
        match piece {
            ReplyPiece::Reasoning(text) => json!(["reasoning", text]),
            ReplyPiece::Content(text) => json!(["content", text]),
            ReplyPiece::Call { name, custom } => json!(["call", name, custom]),
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
            let pieces = read(&format(style), &text, false);
            let found = pieces.iter().map(shown).filter(|piece| *piece != json!(["content", ""]));
            assert_eq!(found.collect::<Vec<_>>(), want, "{line}");
        }
    }

    /// Random calls of each style, with text and thinking before them, are cut at every character.
    #[test]
    fn what_is_cut_has_the_parts_of_the_whole_and_no_marks() {
        let tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).chain([b"</s>".to_vec()]).collect();
        let vocab = Vocabulary::from_token_bytes(&tokens, &[256], vec![256]).unwrap();
        let compiler = Compiler::new(vocab);
        let mut state = 1u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % count
        };
        for style in ToolStyle::ALL {
            let format = format(style);
            let choice = ToolChoice { calls: Calls::Required, single: false };
            let calls = format.functions.as_ref().unwrap().constraint(style, &choice, Policy::default());
            let grammar = compiler.compile(&calls.unwrap()).unwrap();
            let before = match style {
                ToolStyle::Harmony => ["", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"],
                _ => ["<think>\nHm.\n</think>\n\n", "Well <b> "],
            };
            for before in before {
                let mut matcher = grammar.matcher();
                for _ in 0..150 {
                    let bytes: Vec<u32> = (0..128).filter(|&byte| matcher.allows(byte)).collect();
                    let Some(first) = bytes.first() else { break };
                    let byte = if below(3) == 0 { bytes[below(bytes.len())] } else { *first };
                    matcher.accept_token(byte).unwrap();
                }
                let end = matcher.shortest_completion(1 << 16).unwrap();
                let call = [matcher.vocabulary().decode(&matcher.tokens()), end].concat();
                check_cuts(&format, &format!("{before}{}", String::from_utf8(call).unwrap()));
            }
            // Those of other spellings, as the constraint of free text with calls has them.
            let strays = format.functions.as_ref().unwrap().stray_calls(style);
            let format = ReplyFormat { custom: false, strays: strays.clone(), ..format };
            for (list, before) in strays.iter().zip(["Well <b> ", ""]) {
                for StrayCall { begin, end, .. } in list {
                    // Behind a fence with something else.
                    let other = format!("```sh\nls\n```\nThen: {begin}{{\"a\":12}}{end}");
                    let pieces = read(&format, &other, false);
                    assert!(pieces.iter().any(|piece| matches!(piece, ReplyPiece::Call { .. })), "{other}");
                    check_cuts(&format, &format!("{before}{begin}{{\"a\":12}}{end}"));
                    check_cuts(&format, &format!("{begin}{{\"a\":12}}{end}\nDone."));
                }
            }
        }
    }

    fn check_cuts(format: &ReplyFormat, text: &str) {
        let style = format.style;
        let whole = content_and_calls(&read(format, text, false));
        assert!(!whole.1.is_empty() && !whole.0.contains(style.trigger()), "{text:?} {whole:?}");
        for at in text.char_indices().map(|(at, _)| at) {
            let (content, calls) = content_and_calls(&read(format, &text[..at], true));
            assert!(whole.0.starts_with(&content), "{style:?} {:?}: {content:?}", &text[..at]);
            for (cut, call) in calls.iter().zip(&whole.1) {
                assert!(cut.0 == call.0 && call.1.starts_with(&cut.1), "{style:?} {:?}", &text[..at]);
            }
            assert!(calls.len() <= whole.1.len());
        }
    }

    /// Calls in another spelling are no text either, once they can be nothing else.
    #[test]
    fn heads_of_calls_in_other_spellings_are_no_text() {
        let content = |text: &str| content_and_calls(&read(&format(ToolStyle::Hermes), text, true)).0;
        for text in ["{", "```json\n{\"name\": \"ad", "[{\"name\": \"add\", \"arguments\": {\"a\""] {
            assert_eq!(content(text), "", "{text}");
        }
        for text in ["{\"nom\": \"ad", "```json\n{\"name\": \"sub\", "] {
            assert_eq!(content(text), text);
        }
    }

    fn content_and_calls(pieces: &[ReplyPiece]) -> (String, Vec<(String, String)>) {
        let (mut content, mut calls) = (String::new(), Vec::new());
        for piece in pieces {
            match piece {
                ReplyPiece::Content(text) => content.push_str(text),
                ReplyPiece::Call { name, .. } => calls.push((name.clone(), String::new())),
                ReplyPiece::Arguments(text) => calls.last_mut().unwrap().1.push_str(text),
                ReplyPiece::Reasoning(_) => {}
            }
        }
        (content, calls)
    }
}
