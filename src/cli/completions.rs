//! `ffwd completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::{help, output};
use crate::error::Result;

const EXAMPLES: [(&str, &str); 4] = [
    ("Install for bash", "ffwd completions bash > ~/.local/share/bash-completion/completions/ffwd"),
    ("Install for zsh, in a folder that $fpath names", "ffwd completions zsh > ~/.zfunc/_ffwd"),
    ("Install for fish", "ffwd completions fish > ~/.config/fish/completions/ffwd.fish"),
    ("Install for PowerShell", "ffwd completions powershell >> $PROFILE"),
];

/// Print a completion script for a shell
///
/// The script completes subcommands, options and file names. Save it where the shell looks for
/// completions, then start a new shell.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Print the script for this shell
    shell: Shell,
}

pub(super) fn run(args: &Args, mut program: Command) -> Result<ExitCode> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    output::print_bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
