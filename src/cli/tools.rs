//! Options about tools that `generate` and `inspect` share.

use std::path::Path;

use super::args::read_text;
use crate::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use crate::constraint::{Constraint, Policy};
use crate::error::{Error, ErrorKind, Place, Result};
use clap::Args;

const STYLE_HELP: &str = "Write calls in this style, which the model must know [default: hermes]\n\n\
    hermes (Qwen2.5, Qwen3), llama, mistral, mistral-args, qwen-coder (also Qwen3.5), minimax, deepseek, deepseek-dsml, \
    glm, kimi, harmony (gpt-oss), function-tag, lfm2";

/// Options of how tools are called.
#[derive(Args)]
#[command(next_help_heading = "Tools")]
pub(super) struct ToolArgs {
    /// Write calls in this style, which the model must know [default: hermes]
    #[arg(long, value_name = "STYLE", long_help = STYLE_HELP)]
    tool_style: Option<String>,
    /// Allow calls in text (auto), require calls and nothing else, or require this function
    /// [default: auto]
    #[arg(long, value_name = "auto|required|NAME")]
    tool_choice: Option<String>,
    /// Generate at most one call
    #[arg(long)]
    single_call: bool,
    /// Leave out tools that cannot be used, such as those with a schema that is not supported
    ///
    /// A warning names each. Without this option, the first of them is an error.
    #[arg(long)]
    skip_broken_tools: bool,
}

impl ToolArgs {
    /// # Errors
    /// If any of these options is given; there are no tools.
    pub(super) fn require_tools(&self) -> Result<()> {
        let options = [
            ("--tool-style", self.tool_style.is_some()),
            ("--tool-choice", self.tool_choice.is_some()),
            ("--single-call", self.single_call),
            ("--skip-broken-tools", self.skip_broken_tools),
        ];
        match options.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::new(ErrorKind::InvalidOption, format!("{name} is of use with --tools only")))
            }
        }
    }

    pub(super) fn style(&self) -> Result<ToolStyle> {
        self.tool_style.as_deref().map_or(Ok(ToolStyle::Hermes), ToolStyle::by_name)
    }

    pub(super) fn constraint(&self, tools: &Tools, policy: Policy) -> Result<Constraint> {
        let calls = match self.tool_choice.as_deref() {
            None | Some("auto") => Calls::Auto,
            Some("required") => Calls::Required,
            Some(name) => Calls::Function(name.to_owned()),
        };
        tools
            .constraint(self.style()?, &ToolChoice { calls, single: self.single_call }, policy)
            .map_err(skip_hint)
    }

    /// Reads a file of tools. Those that cannot be used under the policy are left out if asked for.
    pub(super) fn read(&self, file: &Path, policy: &Policy) -> Result<Tools> {
        let text = read_text(file)?;
        let tools = match self.skip_broken_tools {
            true => Tools::parse_skipping_broken(&text, self.style()?, policy),
            false => Tools::parse(&text).map_err(skip_hint),
        };
        tools.map_err(|e| e.at(Place::File(file.into())))
    }
}

/// Names the option that leaves out a tool with a fault.
fn skip_hint(error: Error) -> Error {
    let is_of_a_tool = error.pointer().is_some_and(|pointer| !pointer.is_empty());
    match error.hint_text() {
        _ if !is_of_a_tool || error.kind() == ErrorKind::InvalidOption => error,
        None => error.hint("--skip-broken-tools leaves out this tool"),
        Some(hint) => {
            let hint = format!("{hint}; or --skip-broken-tools leaves out this tool");
            error.hint(hint)
        }
    }
}
