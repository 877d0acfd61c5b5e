//! `ffwd bench`: measurements on this machine, with one's own model and schemas.
//!
//! The measurements are those of the crate `ffwd-bench`. This file has their command line, loads models
//! and vocabularies for them, and writes their reports.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Subcommand;
use ffwd_bench::{BenchReport, decode, formats, fraction, hostile, masks, start, threads};

use super::args::ModelArgs;
use super::inspect::vocabulary_or_embedded;
use super::{help, output};
use crate::decode::CancelToken;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::vocab::Vocabulary;

/// Exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

const EXAMPLES: [(&str, &str); 5] = [
    ("Measure decoding, and write a page with plots", "ffwd bench decode --html decode.html"),
    ("Measure one's own schema and text", "ffwd bench decode -s ticket.schema.json --text mail.txt"),
    ("Draw the speedup by the share of forced tokens", "ffwd bench fraction --html fraction.html"),
    ("Measure compiling and masks of one's own schemas", "ffwd bench masks schemas/*.json"),
    ("Measure masks along the texts of grammars", "ffwd bench masks grammars.jsonl"),
];

const DECODE_EXAMPLES: [(&str, &str); 6] = [
    ("Measure the scenarios of the program", "ffwd bench decode --html decode.html"),
    (
        "Measure one's own schema and text with a model",
        "ffwd bench decode --schema ticket.schema.json --text mail.txt --model qwen.gguf",
    ),
    ("Take the time of two scenarios only", "ffwd bench decode --only contact --only invoice --quick"),
    ("Measure one and two threads", "ffwd bench decode --arms off,exact --threads 1,2"),
    ("Measure batches of all scenarios", "ffwd bench decode --arms off,exact --batch 16"),
    ("Compare with an earlier run", "ffwd bench decode --json new.json --compare old.json"),
];

const FRACTION_EXAMPLES: [(&str, &str); 3] = [
    ("Draw the curve, and write an interactive page", "ffwd bench fraction --html fraction.html"),
    ("Draw the curve of another model", "ffwd bench fraction --model qwen.gguf --html fraction.html"),
    (
        "Mark one's own schema on the curve",
        "ffwd bench fraction --schema ticket.schema.json --text mail.txt --html fraction.html",
    ),
];

const MASKS_EXAMPLES: [(&str, &str); 4] = [
    ("Measure one's own schemas", "ffwd bench masks schemas/*.json"),
    (
        "Measure a benchmark with the tokenizer of a model",
        "ffwd bench masks maskbench.jsonl --tokenizer tokenizer.json --html masks.html",
    ),
    (
        "Measure grammars",
        "ffwd bench masks benches/grammars/corpus.jsonl --tokenizer tokenizer.json --html grammars.html",
    ),
    (
        "Measure XGrammar as well, through Python",
        "ffwd bench masks maskbench.jsonl --tokenizer tokenizer.json \\\n  \
            --process 'python benches/grammars/engines.py XGrammar'",
    ),
];

const THREADS_EXAMPLES: [(&str, &str); 1] =
    [("Measure with the tokenizer of a model", "ffwd bench threads --tokenizer tokenizer.json")];

const START_EXAMPLES: [(&str, &str); 1] = [("Measure two models", "ffwd bench start small.gguf large.gguf")];

const FORMATS_EXAMPLES: [(&str, &str); 2] = [
    ("Compare formats", "ffwd bench formats model.Q4_K_M.gguf model.Q8_0.gguf"),
    ("Measure the cost of an adapter", "ffwd bench formats model.gguf --adapter adapter --tokens 1,4,256"),
];

const HOSTILE_EXAMPLES: [(&str, &str); 1] =
    [("Measure with the tokenizer of a model", "ffwd bench hostile --tokenizer tokenizer.json")];

const MASKS_FILES: [&str; 12] = [
    "A file is a JSON Schema, or JSON with a `schema` and `tests`, a list of `data` and `valid`, or",
    "an array of such objects, as in the JSON Schema Test Suite. A file that ends in .jsonl has one",
    "on each line. Schemas without tests are compiled, and have their first mask only. Keys of",
    "instances must be in the order of the schema.",
    "",
    "In place of a schema an object can have a grammar: {\"id\": \"sql\", \"grammar\": \"sql.lark\",",
    "\"texts\": [\"SELECT 1\"]}. `grammar` is a file in the same folder, in GBNF or Lark's notation, as",
    "its name ends. For a grammar in GBNF, `lark` may name one of the same language, for engines that",
    "read no GBNF. Every text must be of the language.",
    "",
    "llguidance is measured as well if the program is built with that feature, and if --tokenizer",
    "names a tokenizer.json.",
];

/// Measure decoding and masks on this machine
///
/// Runs take turns and are repeated; tables have medians and their spread. Close other programs:
/// they make the spread larger.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measure decoding in all modes and with each draft source alone
    ///
    /// The arms take turns. The table has the median of each and, as a share of it, half the distance of
    /// its quartiles. Times include the prompt, which is read each time.
    #[command(after_help = help::examples(&DECODE_EXAMPLES))]
    Decode(Box<Measurement<decode::Args, ModelArgs>>),
    /// Measure the speedup by the share of forced tokens
    ///
    /// Outputs have the same number of tokens. A constraint over tokens forces a share of them, and any
    /// word may be at the other positions. Two ceilings are computed for drafts of forced runs: one for
    /// rows that cost nothing, and one from measured forwards. Times are those after the prompt.
    #[command(after_help = help::examples(&FRACTION_EXAMPLES))]
    Fraction(Box<Measurement<fraction::Args, ModelArgs>>),
    /// Measure compiling and masks on schemas with instances, and on grammars with texts
    ///
    /// The tables have percentiles of single calls, and the times of each language if there are few. No
    /// model runs.
    #[command(
        after_help = help::examples(&MASKS_EXAMPLES),
        after_long_help = help::sections(&[help::note("Files", &MASKS_FILES), help::examples(&MASKS_EXAMPLES)]),
    )]
    Masks(Box<Measurement<masks::Args, TokenizerArgs>>),
    /// Measure masks of one grammar on several threads
    ///
    /// Masks per second, with one grammar for all threads and with a grammar for each.
    #[command(after_help = help::examples(&THREADS_EXAMPLES))]
    Threads(Measurement<threads::Args, TokenizerArgs>),
    /// Measure how long models take to load, and their memory
    ///
    /// Vocabulary, weights and the first forward have a column each. The files are in the page cache.
    #[command(after_help = help::examples(&START_EXAMPLES))]
    Start(Measurement<start::Args, NoArgs>),
    /// Measure forwards of one model in several formats of weights, or with an adapter
    ///
    /// The models take turns, and the fastest of several rounds counts.
    #[command(after_help = help::examples(&FORMATS_EXAMPLES))]
    Formats(Measurement<formats::Args, NoArgs>),
    /// Measure time and memory of adversarial constraints
    ///
    /// Each ends in a mask or a refusal. Memory is the growth of what is resident, at its peak.
    #[command(after_help = help::examples(&HOSTILE_EXAMPLES))]
    Hostile(Measurement<NoArgs, TokenizerArgs>),
    /// `ffwd bench masks` measures grammars, too
    #[command(hide = true, disable_help_flag = true)]
    Grammars {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

/// Options of a measurement, of what it loads, and of its report.
#[derive(clap::Args)]
struct Measurement<Options: clap::Args, Inputs: clap::Args> {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    inputs: Inputs,
}

#[derive(clap::Args)]
struct NoArgs {}

/// Option of the vocabulary.
#[derive(clap::Args)]
struct TokenizerArgs {
    /// Read the tokenizer from a tokenizer.json, a GGUF file or the folder of a model [default:
    /// that of the embedded models]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
}

/// Options of the files that a measurement writes.
#[derive(clap::Args)]
#[command(next_help_heading = "Reports")]
struct ReportArgs {
    /// Write all results as JSON to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown to FILE
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a page with plots to FILE, one file without external resources
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Decode(args) if args.options.list => {
            output::print_line(decode::SCENARIOS.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        What::Decode(args) => args.report.write(|| {
            let inputs = args.options.read()?;
            let engine = args.inputs.engine_of_first_threads(inputs.markers.clone())?;
            let (names, threads, stop) = (args.inputs.names(), args.inputs.threads(), interrupts()?);
            decode::run(&args.options, &inputs, &engine, &names, threads, &stop)
        }),
        What::Fraction(args) => args.report.write(|| {
            let engine = args.inputs.engine()?;
            fraction::run(&args.options, &engine, &args.inputs.names(), &interrupts()?)
        }),
        What::Masks(args) => args.report.write(|| {
            let vocab = args.inputs.vocabulary()?;
            masks::run(&args.options, args.inputs.tokenizer.as_deref(), &vocab, &interrupts()?)
        }),
        What::Threads(args) => args.report.write(|| threads::run(&args.options, &args.inputs.vocabulary()?)),
        What::Start(args) => args.report.write(|| start::run(&args.options)),
        What::Formats(args) => args.report.write(|| formats::run(&args.options)),
        What::Hostile(args) => args.report.write(|| Ok(hostile::run(&args.inputs.vocabulary()?))),
        What::Grammars { rest } => {
            let error = Error::new(ErrorKind::InvalidOption, "there is no `ffwd bench grammars`");
            Err(error.hint(format!("`ffwd bench masks {}` measures grammars, too", rest.join(" "))))
        }
    }
}

impl TokenizerArgs {
    fn vocabulary(&self) -> Result<Vocabulary> {
        vocabulary_or_embedded(self.tokenizer.as_deref())
    }
}

impl ReportArgs {
    /// Checks the folders of the files before anything runs for long, measures, prints the report,
    /// writes the files, and returns the exit code.
    fn write(&self, measure: impl FnOnce() -> Result<BenchReport>) -> Result<ExitCode> {
        [&self.json, &self.markdown, &self.html]
            .into_iter()
            .flatten()
            .try_for_each(|file| check_file(file))?;
        let report = measure()?;
        output::print_line(&report.text())?;
        if let Some(file) = &self.json {
            output::write_stats(file, &report.json())?;
        }
        if let Some(file) = &self.markdown {
            output::write_file(file, &report.markdown())?;
        }
        if let Some(file) = &self.html {
            output::write_file(file, &report.html())?;
        }
        Ok(match (report.is_interrupted(), report.has_failed()) {
            (true, _) => ExitCode::from(INTERRUPTED),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        })
    }
}

/// # Errors
/// If the file is a folder, or its folder does not exist.
fn check_file(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let fault = match (file.is_dir(), folder.is_none_or(Path::is_dir)) {
        (true, _) => "the report cannot be a folder",
        (false, false) => "the folder of the report does not exist",
        (false, true) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Io, fault)
        .at(Place::File(file.into()))
        .hint("name a file in a folder that exists"))
}

/// Returns a token that Ctrl-C cancels. A second Ctrl-C ends the program at once.
fn interrupts() -> Result<CancelToken> {
    static PRESSED: AtomicUsize = AtomicUsize::new(0);
    let token = CancelToken::new();
    let cancelled = token.clone();
    let set = ctrlc::set_handler(move || {
        if PRESSED.fetch_add(1, Ordering::Relaxed) > 0 {
            std::process::exit(i32::from(INTERRUPTED));
        }
        eprintln!("interrupted: the report has the rounds so far; Ctrl-C again ends at once");
        cancelled.cancel();
    });
    set.map_err(|e| Error::new(ErrorKind::Io, format!("Ctrl-C cannot be handled: {e}")))?;
    Ok(token)
}
