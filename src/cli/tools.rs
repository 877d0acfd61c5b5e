//! Options about tools that `generate` and `inspect` share.

use std::path::Path;

use clap::Args;
use serde_json::Value;

use super::args::read_text;
use crate::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use crate::constraint::{Constraint, Policy};
use crate::error::{Error, ErrorKind, Place, Result};

const STYLE_HELP: &str = "Write calls in this style, which the model must know [default: hermes]\n\n\
    hermes (Qwen2.5, Qwen3), llama, mistral, mistral-args, qwen-coder, minimax, deepseek, deepseek-dsml, \
    glm, kimi, harmony (gpt-oss), function-tag";

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
}

impl ToolArgs {
    /// # Errors
    /// If any of these options is given; there are no tools.
    pub(super) fn require_tools(&self) -> Result<()> {
        match self.tool_style.is_some() || self.tool_choice.is_some() || self.single_call {
            false => Ok(()),
            true => {
                let message = "--tool-style, --tool-choice and --single-call are of use with --tools only";
                Err(Error::new(ErrorKind::InvalidOption, message))
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
        tools.constraint(self.style()?, &ToolChoice { calls, single: self.single_call }, policy)
    }
}

/// Reads a file of tools, for the constraint and as JSON for the prompt.
pub(super) fn read_tools(file: &Path) -> Result<(Tools, Vec<Value>)> {
    let text = read_text(file)?;
    let tools = Tools::parse(&text).map_err(|e| e.at(Place::File(file.into())))?;
    let prompt = tools.for_prompt();
    Ok((tools, prompt))
}
