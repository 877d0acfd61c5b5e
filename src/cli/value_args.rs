//! Options about the values of a JSON output, and the messages about values that were ended.

use clap::Args;

use crate::decode::{Request, Stats};

/// Options about the values of a JSON output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Values")]
pub(super) struct ValueArgs {
    /// Let values that repeat themselves continue
    ///
    /// Without this option, a string that repeats itself is closed, and an array gets no further
    /// item. A message names the value. A text that repeats itself in the source may be copied.
    #[arg(long)]
    no_guard: bool,
    /// Fill strings up to their `maxLength`, even with parts of words
    ///
    /// Without this option, a string that does not fit ends at a sentence or a word. Strings with a
    /// pattern, a format or a list of values are not affected.
    #[arg(long)]
    fill_strings: bool,
}

impl ValueArgs {
    pub(super) fn apply(&self, request: Request) -> Request {
        request.guard(!self.no_guard).end_at_words(!self.fill_strings)
    }
}

/// Returns a message for each value that was ended.
pub(super) fn messages(stats: &Stats) -> Vec<String> {
    let guarded = stats.guarded.iter().map(|pointer| {
        format!("warning: #{pointer} repeated itself and was ended (--no-guard lets it continue)")
    });
    let shortened = stats.shortened.iter().map(|pointer| {
        format!("#{pointer} did not fit into its maxLength and ends early (--fill-strings fills it)")
    });
    guarded.chain(shortened).collect()
}
