//! The program as a child process: output, exit codes, messages.

mod adapters;
#[cfg(feature = "bench")]
mod bench;
mod classify;
mod commands;
mod documents;
mod explain;
mod grounding;
#[cfg(feature = "full")]
mod help;
mod long_runs;
mod multi_output;
mod parts;
mod program;
#[cfg(feature = "documents")]
mod readers;
mod report;
mod transcripts;
