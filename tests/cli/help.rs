//! Help texts, completion scripts and manual pages of the program.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;

use crate::program::{ffwd, succeeds, texts};

const SUBCOMMANDS: [&str; 12] = [
    "extract",
    "generate",
    "classify",
    "inspect",
    "explain",
    "bench",
    "serve",
    "playground",
    "text",
    "models",
    "completions",
    "man",
];
/// Subcommands of subcommands.
const NESTED: [[&str; 2]; 7] = [
    ["bench", "decode"],
    ["bench", "fraction"],
    ["bench", "masks"],
    ["bench", "threads"],
    ["bench", "start"],
    ["bench", "formats"],
    ["bench", "hostile"],
];
const COLUMNS: usize = 100;

/// Runs the program with a fixed width of the help.
fn help(args: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ffwd"));
    let output = program.args(args).env("COLUMNS", COLUMNS.to_string()).output().unwrap();
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args:?}");
    out
}

/// The program and each subcommand, as arguments before `--help`, with its short and its long help.
fn pages() -> &'static [(Vec<&'static str>, [String; 2])] {
    static PAGES: OnceLock<Vec<(Vec<&str>, [String; 2])>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let nested = NESTED.iter().map(|names| names.to_vec());
        let commands = std::iter::once(vec![]).chain(SUBCOMMANDS.map(|name| vec![name])).chain(nested);
        let page = |command: &[&str], flag| help(&[command, &[flag]].concat());
        commands.map(|command| (command.clone(), ["-h", "--help"].map(|flag| page(&command, flag)))).collect()
    })
}

/// The long help of a command.
fn long(command: &[&str]) -> &'static str {
    &pages().iter().find(|page| page.0 == command).unwrap().1[1]
}

/// Options and positional arguments of a long help, each with the first line of its help.
fn arguments(help: &str) -> Vec<(String, String)> {
    let is_argument = |line: &str| {
        let name = line.trim_start();
        let indent = line.len() - name.len();
        (2..=6).contains(&indent) && (name.starts_with('-') || name.starts_with(['<', '[']))
    };
    let lines: Vec<&str> = help.lines().collect();
    // A line of help is indented by ten columns.
    let pairs = lines.windows(2).filter(|pair| is_argument(pair[0]) && pair[1].starts_with("          "));
    pairs.map(|pair| (pair[0].trim().to_string(), pair[1].trim().to_string())).collect()
}

/// The long options in a text.
fn long_options(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

#[test]
fn help_lines_fit_the_width() {
    for (command, texts) in pages() {
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= COLUMNS, "{command:?}: {line}");
            assert!(!line.ends_with(' ') || line.trim().is_empty(), "{command:?}: {line:?}");
        }
    }
}

#[test]
fn help_of_options_is_imperative() {
    const NO_VERBS: [&str; 12] =
        ["The", "A", "An", "What", "Where", "Whether", "How", "Which", "Most", "If", "Only", "Path"];
    for (command, [_, text]) in pages() {
        let arguments = arguments(text);
        // An option without help is defined but not described.
        let described: BTreeSet<&str> = arguments.iter().flat_map(|(name, _)| long_options(name)).collect();
        let (options, _) = text.split_once("\nExamples:").unwrap();
        let defined: BTreeSet<&str> = options
            .lines()
            .filter(|line| line.trim_start().starts_with('-') && !line.trim_start().starts_with("- "))
            .filter_map(|line| long_options(line).into_iter().next())
            .collect();
        assert!(described.contains("--help"), "{command:?}: {described:?}");
        assert_eq!(described, defined, "{command:?}");
        for (name, sentence) in &arguments {
            let first = sentence.split(' ').next().unwrap();
            assert!(first.starts_with(|c: char| c.is_ascii_uppercase()), "{command:?} {name}: {sentence}");
            assert!(!NO_VERBS.contains(&first), "{command:?} {name}: {sentence}");
            assert!(!sentence.ends_with('.'), "{command:?} {name}: {sentence}");
        }
    }
}

#[test]
fn short_and_long_help_have_the_same_options() {
    for (command, [short, long]) in pages() {
        for option in arguments(long).iter().flat_map(|(name, _)| long_options(name)) {
            assert!(long_options(short).contains(option), "{command:?} {option}");
        }
    }
}

#[test]
fn help_has_examples_variables_and_exit_codes() {
    let text = long(&[]);
    for part in ["Examples:", "Environment variables:", "FFWD_LOG", "CANDLE_NUM_THREADS", "Exit codes:"] {
        assert!(text.contains(part), "{part}");
    }
    for name in SUBCOMMANDS {
        assert!(text.contains(&format!("\n  {name} ")), "{name}");
        let text = long(&[name]);
        assert!(text.contains("Examples:") && text.contains(&format!("ffwd {name} ")), "{name}");
        // The options come before the notes and examples.
        assert!(text.find("-h, --help") < text.find("Examples:"), "{name}");
    }
}

#[test]
fn short_flags_are_those_of_the_long_options() {
    let flags = [
        ("extract", &["-s, --schema", "-m, --model", "-n, --max-tokens", "-b, --batch"][..]),
        ("generate", &["-s, --json-schema", "-r, --regex", "-c, --choice", "-l, --labels", "-m, --model"]),
        ("classify", &["-l, --labels", "-m, --model"]),
        ("inspect", &["-s, --json-schema", "-r, --regex", "-c, --choice", "-l, --labels"]),
        ("man", &["-o, --output"]),
    ];
    for (name, flags) in flags {
        let text = long(&[name]);
        flags.iter().for_each(|flag| assert!(text.contains(flag), "{name} {flag}"));
    }
}

#[test]
fn completions_name_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, err) = succeeds(&["completions", shell]);
        assert!(err.is_empty(), "{shell}: {err}");
        for part in SUBCOMMANDS.iter().chain(&["json-schema", "max-tokens"]) {
            assert!(script.contains(part), "{shell}: {part}");
        }
    }
    assert_eq!(ffwd(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn manual_pages_have_the_usual_sections() {
    let (page, err) = succeeds(&["man"]);
    assert!(err.is_empty(), "{err}");
    for name in ["NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "\"ENVIRONMENT VARIABLES\"", "\"EXIT CODES\""] {
        assert!(page.contains(&format!(".SH {name}\n")), "{name}: {page}");
    }
    assert!(SUBCOMMANDS.iter().all(|name| page.contains(&format!("ffwd\\-{name}(1)"))), "{page}");

    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("share/man1");
    let (out, err) = succeeds(&["man", "--output", folder.to_str().unwrap()]);
    assert!(out.is_empty() && err.is_empty(), "{out} {err}");
    assert_eq!(std::fs::read_to_string(folder.join("ffwd.1")).unwrap(), page);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1 + SUBCOMMANDS.len() + NESTED.len());
    for name in SUBCOMMANDS.map(str::to_owned).into_iter().chain(NESTED.map(|names| names.join("-"))) {
        let page = std::fs::read_to_string(folder.join(format!("ffwd-{name}.1"))).unwrap();
        let shown = name.replace('-', "\\-");
        assert!(page.contains(&format!("ffwd\\-{shown} \\- ")), "{name}: {page}");
        assert!(page.contains(".SH OPTIONS\n") && page.contains(".SH EXAMPLES\n"), "{name}");
    }
    // A file where the folder should be.
    let file = folder.join("ffwd.1");
    let output = ffwd(&["man", "--output", file.to_str().unwrap()]);
    let (_, err) = texts(&output);
    assert!(output.status.code() == Some(1) && err.starts_with("error: "), "{err}");
}
