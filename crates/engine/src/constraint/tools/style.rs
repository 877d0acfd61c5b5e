//! Tool styles: how each family of models writes function calls.
//!
//! This is a table of the texts around a name, the arguments and several calls. The texts are those
//! of the models' chat templates.

use crate::error::{Error, ErrorKind, Result};

/// The form in which a model calls functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolStyle {
    /// `<tool_call>` around `{"name": …, "arguments": …}`: Hermes 2 and 3, Qwen2.5, Qwen3.
    Hermes,
    /// `{"name": …, "parameters": …}`: Llama 3.1 to 3.3.
    Llama,
    /// `[TOOL_CALLS]` and a JSON array of calls: Mistral up to version 7 of its tokenizer.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{…}`: Mistral from version 11 of its tokenizer.
    MistralArgs,
    /// `<function=name>` with parameters in tags: Qwen3-Coder, Qwen3.5.
    QwenCoder,
    /// `<invoke name="name">` with parameters in tags: MiniMax M2.
    MiniMax,
    /// `<｜tool▁calls▁begin｜>` and JSON: DeepSeek V3.1.
    DeepSeek,
    /// `<｜DSML｜invoke name="name">` with parameters in tags: DeepSeek V3.2.
    DeepSeekDsml,
    /// `<tool_call>name` with keys and values in tags: GLM 4.5 and later.
    Glm,
    /// `<|tool_call_begin|>functions.name:0` and JSON: Kimi K2.
    Kimi,
    /// `<|channel|>commentary to=functions.name <|constrain|>json<|message|>` and JSON: gpt-oss.
    Harmony,
    /// `<function=name>{…}</function>`: the custom format of Llama 3.1.
    FunctionTag,
    /// `<|tool_call_start|>` around a list of calls in Python: LFM2 and LFM2.5.
    Lfm2,
}

/// The names of the styles, in their order.
const NAMES: &str = "hermes llama mistral mistral-args qwen-coder minimax deepseek deepseek-dsml glm kimi harmony \
    function-tag lfm2";

/// Calls as models write them that were not trained on the style, or forget it: JSON in a code fence.
/// Before the name, before the arguments, after them.
const FENCED: [[&str; 3]; 4] = [
    ["```json\n{\n  \"name\": \"", "\",\n  \"arguments\": ", "\n}\n```"],
    ["```json\n{\n    \"name\": \"", "\",\n    \"arguments\": ", "\n}\n```"],
    ["```json\n{\"name\": \"", "\", \"arguments\": ", "}\n```"],
    ["```\n{\n  \"name\": \"", "\",\n  \"arguments\": ", "\n}\n```"],
];
/// The same without a fence, which count at the beginning of a reply, or behind another call.
const BARE: [[&str; 3]; 4] = [
    ["{\n  \"name\": \"", "\",\n  \"arguments\": ", "\n}"],
    ["{\n    \"name\": \"", "\",\n    \"arguments\": ", "\n}"],
    ["{\"name\": \"", "\", \"arguments\": ", "}"],
    ["{\"name\":\"", "\",\"arguments\":", "}"],
];

/// Largest list of tools whose calls may have other spellings: each name is a text to look for in all of
/// them.
const MAX_STRAY_TOOLS: usize = 128;

/// Arguments after the name of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    /// A JSON object.
    Json,
    /// Parameters in tags, in a style of a structural tag.
    Parameters(&'static str),
    /// The number of the call, this text, and a JSON object.
    Numbered(&'static str),
    /// An identifier of the call, this text, and a JSON object.
    Identified(&'static str),
    /// None: the call of a function that needs no arguments.
    None,
}

/// Texts of a style.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallSyntax {
    /// Texts around all calls.
    pub section: Option<[&'static str; 2]>,
    /// Texts around the name.
    pub name: [&'static str; 2],
    pub arguments: Arguments,
    /// Text after the arguments.
    pub end: &'static str,
    /// Text between two calls.
    pub between: &'static str,
    /// True if a reply consists of messages in channels, of which this is one
    /// ([`harmony`](super::harmony)).
    pub messages: bool,
}

impl CallSyntax {
    /// Returns the text that begins a call: the first tag.
    pub(super) fn trigger(&self) -> &'static str {
        let begin = self.section.map_or(self.name[0], |section| section[0]);
        begin.find(['>', ']']).map_or(begin, |end| &begin[..=end])
    }
}

impl ToolStyle {
    /// All styles.
    pub const ALL: [ToolStyle; 13] = [
        ToolStyle::Hermes,
        ToolStyle::Llama,
        ToolStyle::Mistral,
        ToolStyle::MistralArgs,
        ToolStyle::QwenCoder,
        ToolStyle::MiniMax,
        ToolStyle::DeepSeek,
        ToolStyle::DeepSeekDsml,
        ToolStyle::Glm,
        ToolStyle::Kimi,
        ToolStyle::Harmony,
        ToolStyle::FunctionTag,
        ToolStyle::Lfm2,
    ];

    /// Returns the name by which [`by_name`](Self::by_name) finds it.
    pub fn name(self) -> &'static str {
        NAMES.split(' ').nth(self as usize).unwrap_or_default()
    }

    /// Returns the style of a name.
    ///
    /// # Errors
    /// `InvalidOption` with the known names.
    pub fn by_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|style| style.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::InvalidOption, format!("no style of tool calls is called `{name}`"))
                .hint(format!("known are: {known}"))
        })
    }

    /// Returns the spellings that the templates of the models write; the first one is the usual one.
    pub(super) fn spellings(self) -> Vec<CallSyntax> {
        let usual = self.spelling();
        let mut all = vec![usual];
        match self {
            // Up to version 3 of the tokenizer.
            ToolStyle::Mistral => all.push(CallSyntax { section: Some(["[TOOL_CALLS] [", "]"]), ..usual }),
            ToolStyle::MistralArgs => all.push(CallSyntax {
                name: ["[TOOL_CALLS]", "[CALL_ID]"],
                arguments: Arguments::Identified("[ARGS]"),
                ..usual
            }),
            // Without parameters, the template writes one line break instead of two.
            ToolStyle::QwenCoder => {
                all.push(CallSyntax { arguments: Arguments::None, end: "</function>\n</tool_call>", ..usual })
            }
            // Without parameters, the template writes two line breaks instead of one.
            ToolStyle::DeepSeekDsml => {
                all.push(CallSyntax { arguments: Arguments::None, end: "\n</｜DSML｜invoke>", ..usual })
            }
            _ => {}
        }
        all
    }

    /// Returns the text with which a call begins.
    pub fn trigger(self) -> &'static str {
        let usual = self.spelling();
        if usual.messages { usual.name[0] } else { usual.trigger() }
    }

    /// Returns the texts before the name, before the arguments and after them, if every call of the
    /// style is JSON arguments between these.
    pub fn call_texts(self) -> Option<[&'static str; 3]> {
        let [CallSyntax { section: None, arguments: Arguments::Json, messages: false, name, end, .. }] =
            self.spellings()[..]
        else {
            return None;
        };
        Some([name[0], name[1], end])
    }

    /// Returns the spellings of other styles that a reply may have if it is free to contain no call:
    /// those that count anywhere, and those that count at the beginning. None for a long list of tools.
    pub(super) fn stray_spellings(self, tools: usize) -> [Vec<CallSyntax>; 2] {
        let usual = self.spelling();
        if tools > MAX_STRAY_TOOLS {
            return Default::default();
        }
        [&FENCED, &BARE].map(|texts| {
            let own = texts.iter().filter(|[open, ..]| !usual.messages && !open.contains(usual.trigger()));
            let spelling = |&[open, mid, end]: &[&'static str; 3]| CallSyntax {
                section: None,
                name: [open, mid],
                arguments: Arguments::Json,
                end,
                between: "",
                messages: false,
            };
            own.map(spelling).collect()
        })
    }

    fn spelling(self) -> CallSyntax {
        use Arguments::{Json, Numbered, Parameters};
        let (section, name, arguments, end, between) = match self {
            ToolStyle::Hermes => {
                (None, ["<tool_call>\n{\"name\": \"", "\", \"arguments\": "], Json, "}\n</tool_call>", "\n")
            }
            ToolStyle::Llama => (None, ["{\"name\": \"", "\", \"parameters\": "], Json, "}", "; "),
            ToolStyle::Mistral => {
                (Some(["[TOOL_CALLS][", "]"]), ["{\"name\": \"", "\", \"arguments\": "], Json, "}", ", ")
            }
            ToolStyle::MistralArgs => (None, ["[TOOL_CALLS]", "[ARGS]"], Json, "", ""),
            ToolStyle::QwenCoder => (
                None,
                ["<tool_call>\n<function=", ">\n"],
                Parameters("qwen_xml"),
                "\n</function>\n</tool_call>",
                "\n",
            ),
            ToolStyle::MiniMax => (
                Some(["<minimax:tool_call>\n", "\n</minimax:tool_call>"]),
                ["<invoke name=\"", "\">\n"],
                Parameters("minimax_xml"),
                "</invoke>",
                "\n",
            ),
            ToolStyle::DeepSeek => (
                Some(["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"]),
                ["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"],
                Json,
                "<｜tool▁call▁end｜>",
                "",
            ),
            ToolStyle::DeepSeekDsml => (
                Some(["<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>"]),
                ["<｜DSML｜invoke name=\"", "\">\n"],
                Parameters("deepseek_xml"),
                "</｜DSML｜invoke>",
                "\n",
            ),
            ToolStyle::Glm => (None, ["<tool_call>", ""], Parameters("glm_xml"), "</tool_call>", "\n"),
            ToolStyle::Kimi => (
                Some(["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"]),
                ["<|tool_call_begin|>functions.", ":"],
                Numbered("<|tool_call_argument_begin|>"),
                "<|tool_call_end|>",
                "",
            ),
            ToolStyle::Harmony => {
                (None, ["<|channel|>commentary to=functions.", " <|constrain|>json<|message|>"], Json, "", "")
            }
            ToolStyle::FunctionTag => (None, ["<function=", ">"], Json, "</function>", "\n"),
            ToolStyle::Lfm2 => (
                Some(["<|tool_call_start|>[", "]<|tool_call_end|>"]),
                ["", "("],
                Parameters("python"),
                ")",
                ", ",
            ),
        };
        let messages = self == ToolStyle::Harmony;
        CallSyntax { section, name, arguments, end, between, messages }
    }
}
