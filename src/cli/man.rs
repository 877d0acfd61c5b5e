//! `ffwd man`: manual pages, made from the same texts as the help.
//!
//! # Alternatives considered
//! `clap_mangen` renders the sections after the options as one paragraph, in which examples lose
//! their lines. So those sections are rendered here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{help, output};
use crate::error::{Error, Result};

const EXAMPLES: [(&str, &str); 2] = [
    ("Read the main page", "ffwd man | man -l -"),
    ("Install all pages", "ffwd man --output ~/.local/share/man/man1"),
];

/// Print the manual page, or write all pages into a folder
///
/// Without --output, the main page goes to standard output. With it, there is one page for the
/// program and one for each subcommand: `ffwd.1`, `ffwd-extract.1`, `ffwd-bench-decode.1` and so on.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Write all pages into DIR, which is created if necessary
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, program: Command) -> Result<ExitCode> {
    let mut program = program
        .disable_help_subcommand(true)
        .subcommand_help_heading("COMMANDS")
        .subcommand_value_name("COMMAND");
    program.build();
    match &args.output {
        None => output::print_bytes(&page(program)?)?,
        Some(folder) => write_all(&program, folder)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(program: &Command, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, &e))?;
    let mut commands = vec![program];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        let file = folder.join(format!("{name}.1"));
        std::fs::write(&file, page(command.clone())?).map_err(|e| Error::io(&file, &e))?;
    }
    Ok(())
}

/// The page of one command in roff.
fn page(command: Command) -> Result<Vec<u8>> {
    let sections = command.get_after_long_help().or_else(|| command.get_after_help());
    let sections = sections.map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command).source(concat!("ffwd ", env!("CARGO_PKG_VERSION"))).manual("User Commands");
    let mut page = Vec::new();
    let rendered = man
        .render_title(&mut page)
        .and_then(|()| man.render_name_section(&mut page))
        .and_then(|()| man.render_synopsis_section(&mut page))
        .and_then(|()| man.render_description_section(&mut page))
        .and_then(|()| man.render_options_section(&mut page))
        .and_then(|()| match has_subcommands {
            true => man.render_subcommands_section(&mut page),
            false => Ok(()),
        })
        .and_then(|()| closing_sections(&sections).to_writer(&mut page));
    rendered.map_err(|e| Error::io("the manual page", &e))?;
    Ok(page)
}

/// The sections after the options, without filling: a line without indentation is a title.
fn closing_sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for line in text.lines() {
        match line.strip_prefix("  ") {
            Some(line) => {
                roff.text([roman(line)]);
            }
            None if line.is_empty() => {}
            None => {
                roff.control("fi", []);
                roff.control("SH", [line.trim_end_matches(':').to_uppercase().as_str()]);
                roff.control("nf", []);
            }
        }
    }
    roff.control("fi", []);
    roff
}
